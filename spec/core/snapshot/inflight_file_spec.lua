local probe = require "streamckpt.probe"
local tmp = require "support.tmp_folder"
local xxh64 = require "support.xxh64"

local HEAD = 12

-- Blocks as a file holds them, by the banner of inflight_file.h.
local function raw(...)
  local out = ""
  for _, records in ipairs { ... } do
    out = out .. string.pack("<I4i8", #records, xxh64(records)) .. records
  end
  return out
end

local function handle(t)
  t.kind, t.edge, t.sender, t.receiver, t.generation, t.side = 3, 0, 0, 0, 1, 0
  t.file = t.file or "f"
  return t
end

describe("inflight_file", function()
  local dir, s
  before_each(function() dir = tmp.make(); s = probe.storage_new(false) end)
  after_each(tmp.remove)

  local function write(blocks, name)
    local length, checksum, offsets = probe.inflight_write(s, dir .. "/" .. (name or "f"), 42, 7,
                                                           blocks)
    return assert(length, checksum), checksum, offsets
  end

  local function read_all(h, want, from)
    local out, at = "", h.offset
    repeat
      local bytes, message, code = probe.inflight_read(s, from or dir, h, at, want)
      if not bytes then return nil, message, code end
      out, at = out .. bytes, at + #bytes
    until bytes == ""
    return out
  end

  it("is laid out as its header says", function()
    local length, checksum, offsets = write { "abc", "d" }
    local bytes = tmp.read("f")
    assert.equal(#bytes, length)
    assert.equal(xxh64(bytes), checksum)
    local magic, version, n = string.unpack("<c8I4I4", bytes)
    assert.equal("SCKPFLOW", magic)
    assert.equal(1, version)
    assert.equal("\x82\xaacheckpoint\x2a\xa7attempt\7", bytes:sub(17, 16 + n))
    assert.equal(xxh64(bytes:sub(1, 16 + n)), (string.unpack("<i8", bytes, 17 + n)))
    assert.equal(raw("abc", "d"), bytes:sub(25 + n))
    assert.same({ 24 + n, 24 + n + HEAD + 3 }, offsets)
  end)

  it("does not come to be without a block", function()
    assert.same({ 0, 0, {} }, { write {} })
    assert.is_nil(tmp.read("f"))
  end)

  it("gives out whole blocks, however much is asked for", function()
    local big = ("x"):rep(70000)
    local length, _, offsets = write { "first", "a", big, "bc", "last" }
    local want = raw("a", big, "bc")
    local h = handle { length = length, offset = offsets[2], bytes = #want }
    for _, n in ipairs { 0, 1, HEAD, HEAD + 1, HEAD + 2, 100, 70000, 1 << 20 } do
      assert.equal(want, read_all(h, n), "asked for " .. n)
    end
    assert.equal(raw("a"), probe.inflight_read(s, dir, h, h.offset, HEAD + 20))
  end)

  it("copies what is left of another file, without what was read", function()
    local length, _, offsets = write { "first", "abcdef", "ghi", "last" }
    local h = handle { length = length, offset = offsets[2], bytes = offsets[4] - offsets[2],
                       skip = 4 }
    write({ "own", { dir, h } }, "g")
    assert.equal(raw("own", "ef", "ghi"), tmp.read("g"):sub(-#raw("own", "ef", "ghi")))
  end)

  it("323. finds every altered byte of what it reads, and names the file", function()
    local length, _, offsets = write { "first", "abc", "defg", "last" }
    local h = handle { length = length, offset = offsets[2], bytes = offsets[4] - offsets[2] }
    local bytes = tmp.read("f")
    for at = 1, #bytes do
      local mine = at <= offsets[1] or at > offsets[2] and at <= offsets[4]
      tmp.write("f", bytes:sub(1, at - 1) .. string.char(bytes:byte(at) ~ 0x10) .. bytes:sub(at + 1))
      local got, message, code = read_all(h, 1 << 20)
      assert.equal(mine, got == nil, "byte " .. at)
      if mine then
        assert.is_true(code == "ECORRUPT" or code == "EVERSION", "byte " .. at)
        assert.matches(dir .. "/f", message, 1, true)
      end
    end
  end)

  it("names a file that is missing, short, or too long", function()
    local length, _, offsets = write { "abc" }
    local h = handle { length = length, offset = offsets[1], bytes = length - offsets[1] }
    local bytes = tmp.read("f")
    for _, other in ipairs { bytes:sub(1, -2), bytes .. "x", "" } do
      tmp.write("f", other)
      local _, message, code = read_all(h, 100)
      assert.equal("ECORRUPT", code)
      assert.matches(dir .. "/f", message, 1, true)
    end
    probe.storage_remove(s, dir .. "/f")
    local _, message, code = read_all(h, 100)
    assert.equal("ENOTFOUND", code)
    assert.matches(dir .. "/f", message, 1, true)
  end)

  it("refuses a version that is too new with both numbers", function()
    local length, _, offsets = write { "abc" }
    local bytes = tmp.read("f")
    tmp.write("f", bytes:sub(1, 8) .. "\9\0\0\0" .. bytes:sub(13))
    local h = handle { length = length, offset = offsets[1], bytes = length - offsets[1] }
    local _, message, code = read_all(h, 100)
    assert.equal("EVERSION", code)
    assert.matches("version 9", message, 1, true)
    assert.matches("up to 1", message, 1, true)
  end)

  it("refuses a list that does not fit the blocks", function()
    local length, _, offsets = write { "abc", "def" }
    for _, t in ipairs {
      { offset = offsets[1], bytes = 14 },                    -- ends in a block
      { offset = offsets[1], bytes = 5 },                     -- ends in a block's head
      { offset = offsets[1] + 1, bytes = length - offsets[1] - 1 },
      { offset = offsets[1], bytes = length - offsets[1], skip = 4 },
    } do
      t.length = length
      assert.equal("ECORRUPT", select(3, read_all(handle(t), 100)))
    end
  end)

  it("hands on an error of the disk, and leaves nothing behind", function()
    local length, _, offsets = write { "abc" }
    local h = handle { length = length, offset = offsets[1], bytes = length - offsets[1] }
    for _, op in ipairs { "open", "size", "read" } do
      probe.storage_fault(s, op, 0)
      assert.equal("EIO", select(3, read_all(h, 100)), op)
    end
    for _, op in ipairs { "create", "write", "sync", "rename" } do
      probe.storage_fault(s, op, 0)
      local _, _, code = probe.inflight_write(s, dir .. "/g", 1, 1, { "abc" })
      assert.equal("EIO", code, op)
      assert.is_nil(tmp.read("g"))
    end
  end)
end)
