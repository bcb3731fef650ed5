local probe = require "streamckpt.probe"
local xxh64 = require "support.xxh64"

describe("hash", function()
  it("gives the published values of XXH64", function()
    assert.equal(0xEF46DB3751D8E999, probe.hash_checksum(""))
    assert.equal(0xD24EC4F1A98C6E5B, probe.hash_checksum("a"))
    assert.equal(0x44BC2CF5AD770999, probe.hash_checksum("abc"))
  end)

  it("agrees with XXH64 written in Lua, whole and piece by piece", function()
    local seed = os.time()
    math.randomseed(seed)
    for n = 0, 200 do
      local bytes, pieces, at = {}, {}, 1
      for i = 1, n do bytes[i] = string.char(math.random(0, 255)) end
      local data = table.concat(bytes)
      while at <= #data do
        local len = math.random(0, 40)
        pieces[#pieces + 1] = data:sub(at, at + len - 1)
        at = at + len
      end
      assert.equal(xxh64(data), probe.hash_checksum(data), "seed " .. seed)
      assert.equal(xxh64(data), probe.hash_checksum(pieces), "seed " .. seed)
    end
  end)

  it("hashes equal bytes equally", function()
    assert.equal(probe.hash_bytes("key"), probe.hash_bytes("k" .. "ey"))
    assert.not_equal(probe.hash_bytes("key"), probe.hash_bytes("kez"))
    assert.equal(probe.hash_bytes(""), probe.hash_bytes(""))
  end)
end)
