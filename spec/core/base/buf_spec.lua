local probe = require "streamckpt.probe"

describe("buf", function()
  it("writes integers little endian", function()
    assert.equal("\x01\x02\x01\x04\x03\x02\x01\x08\x07\x06\x05\x04\x03\x02\x01",
                 probe.buf_numbers(0x01, 0x0102, 0x01020304, 0x0102030405060708))
    assert.equal(("\xff"):rep(15), probe.buf_numbers(255, 65535, 4294967295, -1))
  end)

  it("grows as it needs, by bytes and by format", function()
    for _, n in ipairs { 0, 1, 2, 100, 3000 } do
      assert.equal(("abc"):rep(2 * n), probe.buf_repeat("abc", n))
    end
    local long = ("y"):rep(5000)
    assert.equal(long .. long, probe.buf_repeat(long, 1))
  end)

  it("orders bytes as unsigned, a prefix first", function()
    local sorted = { "", "\0", "\0\0", "\0\1", "a", "aa", "ab", "b", "\x7f", "\x80", "\xff", "\xff\0" }
    for i, a in ipairs(sorted) do
      for k, b in ipairs(sorted) do
        local order, equal = probe.bytes_compare(a, b)
        assert.equal(i < k and -1 or i > k and 1 or 0, order)
        assert.equal(i == k, equal)
      end
    end
  end)
end)

describe("mem", function()
  it("ends the process with one sentence where there is no memory", function()
    local out = os.tmpname()
    local code = ([[lua5.4 -e 'require "streamckpt.probe".mem_exhaust()' 2>%s]]):format(out)
    assert.is_nil((os.execute(code)))
    local f = assert(io.open(out))
    local text = f:read("a")
    f:close()
    os.remove(out)
    assert.matches("streamckpt: out of memory %(%d+ bytes%)", text)
  end)
end)
