local probe = require "streamckpt.probe"
local values = require "support.values"

local pack = {
  null = probe.value_pack_nil, bool = probe.value_pack_bool, int = probe.value_pack_int,
  float = probe.value_pack_float, str = probe.value_pack_str, array = probe.value_pack_array,
  map = probe.value_pack_map,
}

-- Pack a node of support.values with the engine's own functions.
local function pack_node(node)
  local kind, v = node[1], node[2]
  if kind == "nil" then return pack.null() end
  if kind ~= "array" and kind ~= "map" then return pack[kind](v) end
  local parts = { pack[kind](kind == "array" and #v or #v // 2) }
  for i, element in ipairs(v) do parts[i + 1] = pack_node(element) end
  return table.concat(parts)
end

local function map(...)
  local flat = {}
  for i, v in ipairs { ... } do flat[i] = v end
  return values.encode { "map", flat }
end

local function hex(s) return (s:gsub(".", function(c) return ("%02x"):format(c:byte()) end)) end

-- For long loops, where an assert of busted's would take most of the time.
local function must(ok, bytes) if not ok then error("fails for " .. hex(bytes), 2) end end

describe("value", function()
  describe("packing", function()
    it("gives the shortest form of every integer", function()
      -- Written out from the msgpack specification.
      for _, case in ipairs {
        { 0, "00" }, { 127, "7f" }, { 128, "cc80" }, { 255, "ccff" }, { 256, "cd0100" },
        { 65535, "cdffff" }, { 65536, "ce00010000" }, { 4294967295, "ceffffffff" },
        { 4294967296, "cf0000000100000000" }, { math.maxinteger, "cf7fffffffffffffff" },
        { -1, "ff" }, { -32, "e0" }, { -33, "d0df" }, { -128, "d080" }, { -129, "d1ff7f" },
        { -32768, "d18000" }, { -32769, "d2ffff7fff" }, { -2147483648, "d280000000" },
        { -2147483649, "d3ffffffff7fffffff" }, { math.mininteger, "d38000000000000000" },
      } do
        assert.equal(case[2], hex(pack.int(case[1])), case[1])
      end
    end)

    it("gives nil, booleans, float64 and the heads of strings and containers", function()
      assert.equal("c0", hex(pack.null()))
      assert.equal("c2", hex(pack.bool(false)))
      assert.equal("c3", hex(pack.bool(true)))
      assert.equal("cb3ff0000000000000", hex(pack.float(1.0)))
      assert.equal("a0", hex(pack.str ""))
      assert.equal("a3610062", hex(pack.str "a\0b"))
      assert.equal("bf", hex(pack.str(("x"):rep(31)):sub(1, 1)))
      assert.equal("d920", hex(pack.str(("x"):rep(32)):sub(1, 2)))
      assert.equal("d9ff", hex(pack.str(("x"):rep(255)):sub(1, 2)))
      assert.equal("da0100", hex(pack.str(("x"):rep(256)):sub(1, 3)))
      assert.equal("db00010000", hex(pack.str(("x"):rep(65536)):sub(1, 5)))
      assert.equal("9f", hex(pack.array(15)))
      assert.equal("dc0010", hex(pack.array(16)))
      assert.equal("dd00010000", hex(pack.array(65536)))
      assert.equal("8f", hex(pack.map(15)))
      assert.equal("de0010", hex(pack.map(16)))
    end)
  end)

  describe("reading", function()
    it(("agrees with msgpack-c and the model on random values (seed %d)"):format(values.seed), function()
      math.randomseed(values.seed)
      for _ = 1, 1000 do
        local node = values.random(4)
        local shortest, loose = values.encode(node), values.encode(node, true)
        must(shortest == pack_node(node), shortest)
        local expected = table.concat(values.tokens(node), "|")
        for _, bytes in ipairs { shortest, loose } do
          must(probe.value_check(bytes), bytes)
          local tokens, taken = probe.value_oracle_tokens(bytes)
          local ours = table.concat(probe.value_tokens(bytes), "|")
          must(ours == expected, bytes)
          must(ours == table.concat(tokens, "|"), bytes)
          must(#bytes == taken, bytes)
        end
      end
    end)

    it("reads bin as a string and float32 as a float", function()
      assert.same({ "s:ab" }, probe.value_tokens "\xc4\2ab")
      assert.same({ "f:3ff8000000000000" }, probe.value_tokens "\xca\x3f\xc0\0\0")
    end)

    it("refuses what the engine has no type for", function()
      for _, bytes in ipairs {
        "\xcf\x80\0\0\0\0\0\0\0", "\xcf" .. ("\xff"):rep(8),                 -- above 2^63-1
        "\xc1", "\xd4\1x", "\xd8\1" .. ("x"):rep(16), "\xc7\1\1x", "\xc9\0\0\0\1\1x", -- reserved, ext
      } do
        local tokens, _, code = probe.value_tokens(bytes)
        assert.is_nil(tokens)
        assert.equal("ECORRUPT", code)
        tokens, _, code = probe.value_split(bytes)
        assert.is_nil(tokens)
        assert.equal("ECORRUPT", code)
      end
    end)

    it("reads an integer, or the head of an array, wherever it stands, and nothing else as one", function()
      for head = 0, 255 do
        for _, fill in ipairs { "\0", "\5", "\x7f", "\x80", "\xff" } do
          for n = 0, 20 do
            local bytes = string.char(head) .. fill:rep(n)
            -- The general cursor, which msgpack-c bears out above, says what is right; what it takes to
            -- be one value is the shortest beginning that reads as a single token.
            local tokens, taken
            for len = 1, #bytes do
              tokens, taken = probe.value_tokens(bytes:sub(1, len)), len
              if tokens then break end
            end
            local int = tokens and tonumber(tokens[1]:match "^i:(.+)")
            local got, left = probe.value_int(bytes)
            must(got == int and left == #bytes - (int and taken or 0), bytes)
          end
        end
      end
      assert.same({ 3, 3 }, { probe.value_array "\x93\1\2\3" })
      assert.same({ -1, 3 }, { probe.value_array "\x93\1\2" })
      assert.same({ 16, 17 }, { probe.value_array("\xdc\0\16" .. ("\1"):rep(17)) })
      assert.same({ -1, 2 }, { probe.value_array "\x81\1" })
      assert.same({ -1, 0 }, { probe.value_array "" })
    end)

    it(("reads an array of integers as the general cursor does (seed %d)"):format(values.seed), function()
      math.randomseed(values.seed)
      local edges = { 0, 1, 127, 128, 255, 256, 65535, 65536, 4294967295, 4294967296, math.maxinteger, -1,
                      -32, -33, -128, -129, -32768, -32769, -2147483648, -2147483649, math.mininteger }
      for _ = 1, 3000 do
        local n, list = math.random(0, 17), {}
        for i = 1, n do list[i] = edges[math.random(#edges)] end
        local parts = { pack.array(n) }
        for i = 1, n do parts[i + 1] = pack.int(list[i]) end
        local bytes = table.concat(parts)
        local got = probe.value_ints(bytes, n)
        must(got and table.concat(got, " ") == table.concat(list, " "), bytes)
        must(not probe.value_ints(bytes, n + 1), bytes)
        must(not probe.value_ints(bytes .. "\0", n), bytes)
        must(not probe.value_ints(bytes:sub(1, -2), n), bytes)
        if n > 0 then -- one of them is something else
          parts[math.random(2, n + 1)] = ({ "\xc0", "\xa1x", "\xcb1234567\0", "\x90", "\xcf\xff1234567" })[math.random(5)]
          must(not probe.value_ints(table.concat(parts), n), table.concat(parts))
        end
      end
    end)

    it("takes an empty input as the end", function()
      assert.same({}, probe.value_tokens "")
      assert.same({}, probe.value_split "")
    end)

    it(("splits what stands one behind the other (seed %d)"):format(values.seed), function()
      math.randomseed(values.seed)
      for _ = 1, 200 do
        local parts = {}
        for i = 1, math.random(0, 5) do parts[i] = values.encode(values.random(3), true) end
        assert.same(parts, probe.value_split(table.concat(parts)))
      end
    end)

    it("skips any nesting without using the stack for it", function()
      local deep = ("\x91"):rep(1000000) .. "\xc0"
      assert.same({ deep, "\1" }, probe.value_split(deep .. "\1"))
    end)
  end)

  describe("check", function()
    it(("refuses every truncation and every addition (seed %d)"):format(values.seed), function()
      math.randomseed(values.seed)
      for _ = 1, 60 do
        local bytes
        repeat bytes = values.encode(values.random(3), true) until #bytes < 600
        for n = 0, #bytes - 1 do
          local ok, message, code = probe.value_check(bytes:sub(1, n))
          must(not ok and code == "ECORRUPT", bytes)
          must(message:find("of " .. n .. ": it ends too early", 1, true), bytes)
          probe.value_tokens(bytes:sub(1, n))
          probe.value_split(bytes:sub(1, n))
          probe.value_field(bytes:sub(1, n), "a")
          probe.value_print(bytes:sub(1, n))
        end
        local ok, message = probe.value_check(bytes .. "\xc0")
        assert.is_nil(ok)
        local expected = ("at byte %d of %d: something follows it"):format(#bytes, #bytes + 1)
        assert.matches(expected, message, 1, true)
      end
    end)

    it(("never reads past the end of noise, and accepts what msgpack-c accepts (seed %d)")
      :format(values.seed), function()
      math.randomseed(values.seed)
      for _ = 1, 2000 do
        local bytes = values.encode(values.random(2), true)
        local i = math.random(#bytes)
        bytes = bytes:sub(1, i - 1) .. string.char(math.random(0, 255)) .. bytes:sub(i + 1)
        if probe.value_check(bytes) then
          -- Only then: msgpack-c makes room for whatever number noise claims.
          local tokens, taken = probe.value_oracle_tokens(bytes)
          must(tokens and #bytes == taken, bytes)
        end
        probe.value_print(bytes, 50)
        probe.value_field(bytes, "a")
        probe.key_append(bytes)
      end
    end)

    it("allows 64 levels and refuses the 65th, of arrays and of maps", function()
      local function nested(n, open) return open:rep(n) .. "\xc0" end
      assert.is_true(probe.value_check(nested(64, "\x91")))
      assert.is_true(probe.value_check(nested(64, "\x81\1")))
      assert.is_true(probe.value_check(nested(63, "\x91"):sub(1, -2) .. "\x90"))
      for _, open in ipairs { "\x91", "\x81\1" } do
        local ok, message, code = probe.value_check(nested(65, open))
        assert.is_nil(ok)
        assert.equal("ECORRUPT", code)
        assert.matches(("at byte %d "):format(64 * #open), message, 1, true)
        assert.matches("nested deeper than 64", message, 1, true)
      end
      -- Depth is of nesting, not of what was opened before.
      assert.is_true(probe.value_check("\xdc\0\x64" .. ("\x91\xc0"):rep(100)))
    end)

    it("says what is wrong and where", function()
      local function message(bytes) return (select(2, probe.value_check(bytes))) end
      assert.equal("ECORRUPT: the value is damaged at byte 0 of 0: it ends too early", message "")
      assert.matches("at byte 1 of 2: no value begins with this byte", message "\x91\xc1", 1, true)
      assert.matches("extension types are not supported", message "\xd4\1x", 1, true)
      assert.matches("above 2^63-1", message("\xcf" .. ("\xff"):rep(8)), 1, true)
    end)

    it("refuses a container that claims more than there is, at once", function()
      for _, bytes in ipairs { "\xdd\xff\xff\xff\xff", "\xdf\xff\xff\xff\xff\1\1", "\xdc\xff\xff\1" } do
        assert.is_nil(probe.value_check(bytes))
        assert.is_nil(probe.value_tokens(bytes))
      end
    end)
  end)

  describe("fields", function()
    local record = map({ "str", "n" }, { "int", 7 }, { "int", 1 }, { "str", "no" },
      { "array", { { "str", "f" } } }, { "int", 0 }, { "str", "f" }, { "float", 2.5 },
      { "str", "list" }, { "array", { { "int", 1 }, { "map", { { "str", "n" }, { "int", 8 } } } } },
      { "str", "yes" }, { "bool", true }, { "str", "name" }, { "str", "caf\xc3\xa9" },
      { "str", "none" }, { "nil" })

    it("are found by their string key, wherever they stand", function()
      assert.equal("\7", probe.value_field(record, "n"))
      assert.equal("\xcb" .. string.pack(">d", 2.5), probe.value_field(record, "f"))
      assert.equal("\x92\1\x81\xa1n\8", probe.value_field(record, "list"))
      assert.equal("\xc0", probe.value_field(record, "none"))
    end)

    it("are absent when no key or no map is there", function()
      assert.is_nil(probe.value_field(record, "no"))
      assert.is_nil(probe.value_field(record, "1"))
      assert.is_nil(probe.value_field("\x91\xa1n", "n"))
      assert.is_nil(probe.value_field("", "n"))
    end)

    it("are read as the type that is asked for, or not at all", function()
      assert.equal(7, probe.value_field_int(record, "n", -1))
      assert.equal(-1, probe.value_field_int(record, "f", -1))
      assert.equal(-1, probe.value_field_int(record, "absent", -1))
      assert.equal(2.5, probe.value_field_float(record, "f", -1))
      assert.equal(7.0, probe.value_field_float(record, "n", -1))
      assert.equal(-1.0, probe.value_field_float(record, "name", -1))
      assert.is_true(probe.value_field_bool(record, "yes", false))
      assert.is_true(probe.value_field_bool(record, "n", true))
      assert.is_false(probe.value_field_bool(record, "absent", false))
      assert.equal("caf\xc3\xa9", probe.value_field_str(record, "name"))
      assert.is_nil(probe.value_field_str(record, "n"))
      assert.is_nil(probe.value_field_str(record, "absent"))
      assert.equal("", probe.value_field_str(map({ "str", "e" }, { "str", "" }), "e"))
    end)
  end)

  describe("printing", function()
    it("looks like JSON", function()
      local bytes = map({ "str", "a" }, { "array", { { "int", 1 }, { "nil" }, { "bool", false } } },
        { "int", 2 }, { "map", {} }, { "str", "f" }, { "float", 1.0 }, { "str", "e" }, { "array", {} })
      assert.equal('{"a": [1, null, false], 2: {}, "f": 1.0, "e": []}', probe.value_print(bytes))
      assert.equal('before 0.1', probe.value_print(pack.float(0.1), 100, "before "))
      assert.equal("9007199254740994.0", probe.value_print(pack.float(2.0 ^ 53 + 2)))
      assert.equal("inf", probe.value_print(pack.float(1 / 0)))
    end)

    it("escapes what would break a line or is not UTF-8", function()
      assert.equal([["q\"\\\n\t\x01\x7f"]], probe.value_print(pack.str 'q"\\\n\t\1\127'))
      local text = "caf\u{e9} \u{20ac} \u{1f600}"
      assert.equal('"' .. text .. '"', probe.value_print(pack.str(text)))
      -- cut short, overlong, surrogate, too large
      assert.equal([["\xc3"]], probe.value_print(pack.str "\xc3"))
      assert.equal([["\xc0\x80"]], probe.value_print(pack.str "\xc0\x80"))
      assert.equal([["\xe0\x80\x80"]], probe.value_print(pack.str "\xe0\x80\x80"))
      assert.equal([["\xed\xa0\x80"]], probe.value_print(pack.str "\xed\xa0\x80"))
      assert.equal([["\xf5\x80\x80\x80"]], probe.value_print(pack.str "\xf5\x80\x80\x80"))
    end)

    it("is cut at the limit, never through a character", function()
      assert.equal('"abc...', probe.value_print(pack.str(("abc"):rep(100000)), 4))
      assert.equal('"ab"', probe.value_print(pack.str "ab", 4))
      assert.equal('[1, 2...', probe.value_print(pack.array(3) .. "\1\2\3", 5))
      assert.equal('"\xc3\xa9...', probe.value_print(pack.str "\xc3\xa9\xc3\xa9", 4))
      assert.equal("...", probe.value_print(pack.str "\xc3\xa9", 0))
    end)

    it("shows where bytes are damaged", function()
      assert.equal("<damaged>", probe.value_print "")
      assert.matches("<damaged>", probe.value_print "\x92\1\xc1", 1, true)
      assert.matches("<damaged>", probe.value_print(("\x91"):rep(65) .. "\xc0"), 1, true)
    end)
  end)
end)
