local probe = require "streamckpt.probe"
local values = require "support.values"

local DATA, WATERMARK, STATUS = 0, 1, 2

describe("record", function()
  it("is laid out as the design says", function()
    assert.equal("\3\0\0\0\0\0\7", probe.record_write { value = "\7" })
    assert.equal("\11\0\0\0\0\1" .. string.pack("<i8", -2) .. "\7",
      probe.record_write { timestamp = -2, value = "\7" })
    assert.equal(string.pack("<I4BB i8 I2 I4", 2 + 8 + 2 + 4 + 3 + 1, 0, 3, 5, 0x0102, 3) .. "\xa2ab\7",
      probe.record_write { timestamp = 5, key = "\xa2ab", key_group = 0x0102, value = "\7" })
    assert.equal("\10\0\0\0\1\1" .. string.pack("<i8", math.maxinteger),
      probe.record_write { kind = WATERMARK, timestamp = math.maxinteger })
    assert.equal("\3\0\0\0\2\0\xc3", probe.record_write { kind = STATUS, value = "\xc3" })
  end)

  local function random_record()
    local dice = math.random(8)
    if dice == 1 then
      return { kind = WATERMARK, timestamp = math.random(0), value = "" }
    elseif dice == 2 then
      return { kind = STATUS, value = math.random(2) == 1 and "\xc3" or "\xc2" }
    end
    local r = { kind = DATA, value = values.encode(values.random(2)) }
    if math.random(2) == 1 then r.timestamp = math.random(0) end
    if math.random(2) == 1 then
      r.key, r.key_group = values.encode(values.scalar()), math.random(0, 32767)
    end
    return r
  end

  it(("comes back as it was written, one behind the other (seed %d)"):format(values.seed), function()
    math.randomseed(values.seed)
    for _ = 1, 200 do
      local records, bytes = {}, {}
      for i = 1, math.random(0, 8) do
        records[i] = random_record()
        bytes[i] = probe.record_write(records[i])
      end
      local rest, read = table.concat(bytes), {}
      while true do
        local r, after = probe.record_read(rest)
        if not r then break end
        read[#read + 1], rest = r, after
      end
      assert.equal("", rest)
      assert.same(records, read)
    end
  end)

  it(("is refused in every truncation, without a read past the end (seed %d)"):format(values.seed), function()
    math.randomseed(values.seed)
    assert.is_nil((probe.record_read ""))
    for _ = 1, 30 do
      local bytes = probe.record_write(random_record())
      for n = 1, #bytes - 1 do
        local r, _, code = probe.record_read(bytes:sub(1, n))
        assert.is_nil(r)
        assert.equal("ECORRUPT", code)
      end
    end
  end)

  it("is refused where its parts do not fit its length", function()
    for name, bytes in pairs {
      ["shorter than a head"] = "\1\0\0\0\0\0",
      ["no room for the timestamp"] = "\9\0\0\0\0\1" .. ("\0"):rep(7),
      ["no room for the key's head"] = "\7\0\0\0\0\2" .. ("\0"):rep(5),
      ["key longer than the record"] = string.pack("<I4BB I2 I4", 9, 0, 2, 1, 2) .. "x",
      ["key far longer"] = string.pack("<I4BB I2 I4", 9, 0, 2, 1, 0xffffffff) .. "x",
      ["unknown kind"] = "\3\0\0\0\3\0\7",
      ["unknown flag"] = "\3\0\0\0\0\4\7",
      ["watermark without a time"] = "\2\0\0\0\1\0",
      ["watermark with a value"] = "\11\0\0\0\1\1" .. ("\0"):rep(9),
      ["watermark with a key"] = string.pack("<I4BB i8 I2 I4", 16, 1, 3, 0, 0, 0),
      ["status without a value"] = "\2\0\0\0\2\0",
      ["status that is no boolean"] = "\3\0\0\0\2\0\7",
      ["length of 4 GiB"] = "\xff\xff\xff\xff\0\0\7",
    } do
      local r, _, code = probe.record_read(bytes)
      assert.is_nil(r, name)
      assert.equal("ECORRUPT", code, name)
    end
  end)

  it(("survives noise (seed %d)"):format(values.seed), function()
    math.randomseed(values.seed)
    for _ = 1, 3000 do
      local bytes = probe.record_write(random_record())
      local i = math.random(#bytes)
      bytes = bytes:sub(1, i - 1) .. string.char(math.random(0, 255)) .. bytes:sub(i + 1)
      local r, rest = probe.record_read(bytes)
      if r then
        -- What was read is what its own bytes say.
        assert.equal(bytes:sub(1, #bytes - #rest), probe.record_write(r))
      end
    end
  end)
end)
