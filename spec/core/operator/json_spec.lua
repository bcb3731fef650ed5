local pack = require "support.pack"
local probe = require "streamckpt.probe"

local function json(v) return probe.json_text(pack.encode(v)) end

describe("json", function()
  it("writes scalars", function()
    assert.equal("null", json(pack.null))
    assert.equal("true", json(true))
    assert.equal("false", json(false))
    assert.equal("0", json(0))
    assert.equal("9223372036854775807", json(math.maxinteger))
    assert.equal("-9223372036854775808", json(math.mininteger))
  end)

  it("writes floats as floats, with the fewest digits that read back", function()
    assert.equal("1.0", json(1.0))
    assert.equal("-0.0", json(-0.0))
    assert.equal("0.1", json(0.1))
    assert.equal("100.0", json(100.0))
    assert.equal("1234567.0", json(1234567.0))
    assert.equal("0.30000000000000004", json(0.1 + 0.2))
    assert.equal("1e+300", json(1e300))
    assert.equal("1.5e-10", json(1.5e-10))
    assert.equal("9007199254740992.0", json(2.0 ^ 53))
    assert.equal("100000000000000.0", json(1e14))
    assert.equal("1e+15", json(1e15))
    assert.equal("4.984863484267669e+16", json(49848634842676688.0))
  end)

  it("reads back what it wrote, for random floats", function()
    local seed = os.time()
    math.randomseed(seed)
    for _ = 1, 2000 do
      local v = string.unpack("d", string.pack("j", math.random(0)))
      if v == v and v ~= math.huge and v ~= -math.huge then
        local text = json(v)
        assert.equal(v, tonumber(text), "seed " .. seed .. ": " .. text)
        assert.equal("float", math.type(tonumber(text)))
        -- No shorter %g form is the same float.
        local digits = #text:gsub("e.*", ""):gsub("[%.%-]", ""):gsub("^0+", ""):gsub("0+$", "")
        if digits > 1 then
          assert.not_equal(v, tonumber(string.format("%." .. digits - 1 .. "g", v)), "seed " .. seed)
        end
      end
    end
  end)

  it("writes the point of every locale as a point", function()
    local old = os.setlocale(nil, "numeric")
    for _, name in ipairs { "de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "C" } do
      if os.setlocale(name, "numeric") then
        local text = json(1.5)
        os.setlocale(old, "numeric")
        assert.equal("1.5", text)
      end
    end
  end)

  it("writes NaN and infinities as null", function()
    assert.equal("[null,null,null]", json { 0.0 / 0.0, math.huge, -math.huge })
  end)

  it("escapes what JSON forbids, and nothing else", function()
    assert.equal([["a\"b\\c/d"]], json 'a"b\\c/d')
    assert.equal([["\b\t\n\f\r\u0000\u001f]] .. "\127\"", json "\b\t\n\f\r\0\x1f\127")
    assert.equal('"äö€𝄞"', json "äö€𝄞")
    assert.equal('""', json "")
  end)

  it("replaces bytes that are not UTF-8", function()
    assert.equal([["a\ufffdb"]], json "a\xffb")
    assert.equal([["\ufffd\ufffd"]], json "\xc0\x80", "overlong")
    assert.equal([["\ufffd\ufffd\ufffd"]], json "\xed\xa0\x80", "surrogate")
    assert.equal([["\ufffd\ufffd\ufffd\ufffd"]], json "\xf4\x90\x80\x80", "above the last code point")
    assert.equal([["\ufffd\ufffd"]], json "\xe2\x82", "cut off")
    assert.equal('"\u{10ffff}\u{e000}\u{d7ff}"', json "\u{10ffff}\u{e000}\u{d7ff}")
  end)

  it("writes arrays and maps as they are stored", function()
    assert.equal("[]", json(pack.array {}))
    assert.equal("{}", json {})
    assert.equal('[1,[2,"x"],{"a":null}]', json { 1, { 2, "x" }, { a = pack.null } })
    assert.equal('{"z":1,"a":2}', json(pack.pairs { { "z", 1 }, { "a", 2 } }))
  end)

  it("makes strings of other keys", function()
    assert.equal('{"1":1,"1.5":2,"true":3,"null":4,"[\\"x\\"]":5}',
      json(pack.pairs { { 1, 1 }, { 1.5, 2 }, { true, 3 }, { pack.null, 4 }, { { "x" }, 5 } }))
  end)

  it("refuses bytes that are no value", function()
    for _, bytes in ipairs { "", "\x92\x01", "\xd9\x05ab", "\xc1" } do
      local text, _, code = probe.json_text(bytes)
      assert.is_nil(text)
      assert.equal("ECORRUPT", code)
    end
  end)
end)
