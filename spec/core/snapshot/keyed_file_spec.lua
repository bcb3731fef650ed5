local probe = require "streamckpt.probe"
local tmp = require "support.tmp_folder"
local xxh64 = require "support.xxh64"

local VALUE, MAP, TIMERS = 1, 3, 6
local STATES = { { name = "n", kind = VALUE }, { name = "m", kind = MAP },
                 { name = "_timers/event", kind = TIMERS } }

local function row(group, state, key, namespace, map_key, value)
  return { group = group, state = state, key = key, namespace = namespace, map_key = map_key,
           value = value }
end

describe("keyed_file", function()
  local dir, s
  before_each(function() dir = tmp.make(); s = probe.storage_new(true) end)
  after_each(tmp.remove)

  local function write(first, last, rows)
    local h, message = probe.keyed_write(s, dir .. "/f", "op", first, last, STATES, rows)
    assert(h, message)
    h.file = "f"
    return h
  end

  local rows = {
    row(3, 0, "\1", "", nil, "\42"), row(3, 0, "\2", "", nil, "\43"), row(3, 0, "\2", "w", nil, ""),
    row(3, 1, "\1", "", "", "v"), row(3, 1, "\1", "", "a", "v"), row(3, 1, "\1", "", "ab", "v"),
    row(90, 2, "k", "", "t", "\xc0"),
  }

  it("gives back what was put, and the states' names and kinds", function()
    local h = write(0, 127, rows)
    local got, states = probe.keyed_read(s, dir, h)
    assert.same(rows, got)
    assert.same(STATES, states)
    assert.same({ "n", "m", "_timers/event" }, h.states)
  end)

  it("has the bytes that the header describes", function()
    local h = write(3, 4, { row(3, 0, "k", "", nil, "v"), row(4, 1, "k", "ns", "mk", "") })
    local bytes = tmp.read("f")
    assert.equal(#bytes, h.length)
    assert.equal(xxh64(bytes), h.checksum)
    local magic, version, len = string.unpack("<c8I4I4", bytes)
    assert.equal("SCKPKEYS", magic)
    assert.equal(1, version)
    assert.equal(xxh64(bytes:sub(1, 16 + len)), (string.unpack("<i8", bytes, 17 + len)))
    local blocks = string.pack("<I2I4", 3, 3 + 12 + 2) ..
      string.pack("<I2Bs4s4s4", 0, 0, "k", "", "v") ..
      string.pack("<I2I4", 4, 3 + 16 + 5) .. string.pack("<I2Bs4s4s4s4", 1, 1, "k", "ns", "mk", "")
    assert.equal(blocks, bytes:sub(16 + len + 8 + 1))
    assert.same({ 16 + len + 8, 16 + len + 8 + 6 + 17 }, h.offsets)
  end)

  it("makes equal bytes of equal state", function()
    local a = write(0, 127, rows)
    local first = tmp.read("f")
    local b = write(0, 127, rows)
    assert.equal(first, tmp.read("f"))
    assert.equal(a.checksum, b.checksum)
  end)

  it("makes no file where nothing was put", function()
    local h = probe.keyed_write(s, dir .. "/f", "op", 0, 127, STATES, {})
    assert.equal(0, h.length)
    assert.same({}, probe.storage_names(s, dir))
    assert.equal("", probe.storage_log(s):match("create") or "")
  end)

  it("leaves nothing behind when abandoned", function()
    probe.keyed_write(s, dir .. "/f", "op", 0, 127, STATES, rows, true)
    assert.same({}, probe.storage_names(s, dir))
  end)

  it("243. only groups 3 and 90 were written: reading any range passes the others", function()
    local h = write(0, 127, rows)
    for first = 0, 127, 7 do
      for last = first, 127, 11 do
        local want = {}
        for _, r in ipairs(rows) do
          if r.group >= first and r.group <= last then want[#want + 1] = r end
        end
        assert.same(want, (probe.keyed_read(s, dir, h, first, last)))
      end
    end
    assert.same({}, (probe.keyed_read(s, dir, h, 128, 300)))
  end)

  it("009. takes the widest range of groups", function()
    local far = { row(0, 0, "a", "", nil, "v"), row(32767, 0, "b", "", nil, "v") }
    local h = write(0, 32767, far)
    assert.equal(32768, #h.offsets)
    assert.same(far, (probe.keyed_read(s, dir, h)))
    assert.same({ far[2] }, (probe.keyed_read(s, dir, h, 21846, 32767)))
  end)

  it("agrees with a table for random rows", function()
    local seed = os.time()
    math.randomseed(seed)
    for _ = 1, 10 do
      local seen, list = {}, {}
      for _ = 1, math.random(1, 300) do
        local r = row(math.random(10, 40), math.random(0, 1), ("k"):rep(math.random(0, 3)) ..
                      math.random(0, 9), ("n"):rep(math.random(0, 1)), nil,
                      ("v"):rep(math.random(0, 2000)))
        if r.state == 1 then r.map_key = tostring(math.random(0, 99)) end
        local id = ("%d/%d/%s/%s/%s"):format(r.group, r.state, r.key, r.namespace, r.map_key)
        if not seen[id] then seen[id] = true; list[#list + 1] = r end
      end
      table.sort(list, function(a, b)
        for _, f in ipairs { "group", "state", "key", "namespace", "map_key" } do
          if a[f] ~= b[f] then return a[f] < b[f] end
        end
      end)
      local h = write(10, 40, list)
      assert.same(list, (probe.keyed_read(s, dir, h)), "seed " .. seed)
      probe.storage_remove(s, dir .. "/f")
    end
  end)

  it("publishes nothing when a write fails anywhere", function()
    local big = {}
    for i = 1, 40 do big[i] = row(i, 0, "k", "", nil, ("v"):rep(5000)) end
    for _, at in ipairs { 0, 1, 100, 65000, 70000, 150000, 199000 } do
      probe.storage_fault(s, "bytes", at)
      local h, _, code = probe.keyed_write(s, dir .. "/f", "op", 0, 127, STATES, big)
      assert.is_nil(h)
      assert.equal("EIO", code)
      assert.same({}, probe.storage_names(s, dir))
    end
  end)

  it("tells of a missing file by its name", function()
    local h = write(0, 127, rows)
    probe.storage_remove(s, dir .. "/f")
    local got, message, code = probe.keyed_read(s, dir, h)
    assert.is_nil(got)
    assert.equal("ENOTFOUND", code)
    assert.matches(dir .. "/f", message, 1, true)
  end)

  it("323. a flipped bit is always found", function()
    local seed = os.time()
    math.randomseed(seed)
    local h = write(0, 127, rows)
    local bytes = tmp.read("f")
    for _ = 1, 100 do
      local at, bit = math.random(1, #bytes), math.random(0, 7)
      tmp.write("f", bytes:sub(1, at - 1) .. string.char(bytes:byte(at) ~ 1 << bit) ..
                bytes:sub(at + 1))
      local got, message, code = probe.keyed_read(s, dir, h)
      assert.is_nil(got, "seed " .. seed)
      assert.equal("ECORRUPT", code)
      assert.matches(dir .. "/f", message, 1, true)
    end
  end)

  it("refuses a file of another length", function()
    local h = write(0, 127, rows)
    local bytes = tmp.read("f")
    for _, other in ipairs { "", bytes:sub(1, -2), bytes .. "\0" } do
      tmp.write("f", other)
      assert.equal("ECORRUPT", select(3, probe.keyed_read(s, dir, h)))
    end
  end)

  -- What only someone who also mends the checksums can make: still never a crash.
  local function forge(h, bytes)
    tmp.write("f", bytes)
    h.length, h.checksum = #bytes, xxh64(bytes)
    return probe.keyed_read(s, dir, h)
  end

  local function with_header_sum(bytes)
    local len = string.unpack("<I4", bytes, 13)
    return bytes:sub(1, 16 + len) .. string.pack("<i8", xxh64(bytes:sub(1, 16 + len))) ..
      bytes:sub(16 + len + 9)
  end

  it("refuses a version that is too new with both numbers", function()
    local h = write(0, 127, rows)
    local bytes = tmp.read("f")
    local got, message, code = forge(h, bytes:sub(1, 8) .. string.pack("<I4", 2) .. bytes:sub(13))
    assert.is_nil(got)
    assert.equal("EVERSION", code)
    assert.matches("version 2", message, 1, true)
    assert.matches("up to 1", message, 1, true)
  end)

  it("checks every length against what is there", function()
    local h = write(0, 127, rows)
    local bytes = tmp.read("f")
    local at = h.offsets[4] -- of group 3
    local forged = {
      { "magic", "XXXX" .. bytes:sub(5) },
      { "header length", bytes:sub(1, 12) .. "\255\255\255\255" .. bytes:sub(17) },
      { "header bytes", with_header_sum(bytes:sub(1, 16) .. "\xc1" .. bytes:sub(18)) },
      { "group", bytes:sub(1, at) .. "\4\0" .. bytes:sub(at + 3) },
      { "rows' bytes", bytes:sub(1, at + 2) .. "\255\255\255\127" .. bytes:sub(at + 7) },
      { "state", bytes:sub(1, at + 6) .. "\9\0" .. bytes:sub(at + 9) },
      { "flags", bytes:sub(1, at + 8) .. "\2" .. bytes:sub(at + 10) },
      { "key length", bytes:sub(1, at + 9) .. "\255\255\255\255" .. bytes:sub(at + 14) },
    }
    for _, f in ipairs(forged) do
      local got, message, code = forge(h, f[2])
      assert.is_nil(got, f[1])
      assert.equal("ECORRUPT", code, f[1])
      assert.matches("byte %d", message)
    end
  end)

  it("never crashes on forged bytes behind the header", function()
    local seed = os.time()
    math.randomseed(seed)
    local h = write(0, 127, rows)
    local bytes = tmp.read("f")
    for _ = 1, 300 do
      local at = math.random(h.offsets[4] + 1, #bytes)
      local forged = bytes:sub(1, at - 1) .. string.char(math.random(0, 255)) .. bytes:sub(at + 1)
      local got, _, code = forge(h, forged)
      assert.is_true(got ~= nil or code == "ECORRUPT", "seed " .. seed)
    end
  end)

  it("checks the handle's offsets", function()
    local h = write(0, 127, rows)
    local right = h.offsets[4]
    local beyond = { h.length - 3, h.length, h.length + 1, 1 << 62 }
    for _, wrong in ipairs { right + 1, right - 1, table.unpack(beyond) } do
      h.offsets[4] = wrong
      local got, _, code = probe.keyed_read(s, dir, h)
      assert.is_nil(got)
      assert.equal("ECORRUPT", code)
    end
  end)

  it("refuses a file whose groups are not those that the snapshot lists", function()
    local h = write(3, 90, rows)
    h.first, h.last = 0, 127
    assert.equal("ECORRUPT", select(3, probe.keyed_read(s, dir, h)))
  end)
end)
