local probe = require "streamckpt.probe"
local values = require "support.values"

local function str(s) return probe.value_pack_str(s) end
local function int(i) return probe.value_pack_int(i) end
local function float(f) return probe.value_pack_float(f) end
local function key(value) return assert(probe.key_append(value)) end
local function group(value, max_parallelism) return probe.key_group(key(value), max_parallelism) end

-- An independent model of the spread: murmur3 of one block, in Lua's 64-bit integers.
local function spread_model(h)
  local function mul(a, b) return (a * b) & 0xffffffff end
  local function rotl(a, n) return ((a << n) | (a >> (32 - n))) & 0xffffffff end
  h = rotl(mul(h & 0xffffffff, 0xcc9e2d51), 15)
  h = rotl(mul(h, 0x1b873593), 13)
  h = ((h * 5 + 0xe6546b64) & 0xffffffff) ~ 4
  h = mul(h ~ (h >> 16), 0x85ebca6b)
  h = mul(h ~ (h >> 13), 0xc2b2ae35)
  h = h ~ (h >> 16)
  if h >= 0x80000000 then h = 0x100000000 - h end
  return h == 0x80000000 and 0 or h
end

local function signed(h) return (h & 0xffffffff) - ((h & 0x80000000) << 1) end

describe("key", function()
  describe("spread", function()
    it("001. int-hash spread vectors", function()
      for _, v in ipairs {
        { 0, 593689054, 94, 222, 2526 }, { 1, 68075478, 86, 214, 4054 },
        { 2, 1085422463, 127, 127, 2943 }, { 3, 847579505, 113, 113, 2417 },
        { 4, 1889779975, 7, 7, 263 }, { 5, 236698494, 126, 126, 2942 },
        { 7, 1343918321, 113, 241, 241 }, { 10, 848998979, 67, 67, 579 },
        { 42, 1134849565, 29, 29, 3613 }, { 100, 616682048, 64, 64, 576 },
        { 127, 1931274395, 27, 155, 2203 }, { 128, 132521001, 41, 41, 3113 },
        { 255, 332370855, 39, 167, 935 }, { 1000, 3506311, 7, 135, 135 },
        { 65535, 1986290322, 18, 146, 658 }, { 1000000, 2127295249, 17, 17, 785 },
      } do
        assert.equal(v[2], probe.key_spread(v[1]))
        assert.equal(v[3], group(int(v[1]), 128))
        assert.equal(v[4], group(int(v[1]), 256))
        assert.equal(v[5], group(int(v[1]), 4096))
      end
    end)

    it("002. negative and extreme hashes", function()
      for _, v in ipairs {
        { -1, 1982413648, 80 }, { -2, 1087594050, 66 }, { -42, 189366624, 96 },
        { 2147483647, 1653689534, 62 }, { -2147483648, 1718298732, 108 },
      } do
        assert.equal(v[2], probe.key_spread(v[1]))
        assert.equal(v[3], probe.key_spread(v[1]) % 128)
      end
    end)

    it("003. the INT_MIN trap", function()
      assert.equal(0, probe.key_spread(-2089875627))
      assert.equal(2147483647, probe.key_spread(994512208))
      assert.equal(2147483647, probe.key_spread(1814469223))
      assert.equal(127, probe.key_spread(994512208) % 128)
      assert.equal(0, probe.key_spread(-1035494534))
      assert.equal(1, probe.key_spread(2009592756))
    end)

    it(("equals the model and is never negative (seed %d)"):format(values.seed), function()
      math.randomseed(values.seed)
      for _ = 1, 5000 do
        local h = signed(math.random(0))
        local s = probe.key_spread(h)
        assert.equal(spread_model(h), s)
        assert.is_true(s >= 0)
      end
    end)
  end)

  describe("hash", function()
    it("004. string keys", function()
      local expected = {
        { "", 94, 2 }, { "a", 81, 1 }, { "b", 22, 0 }, { "hello", 35, 0 }, { "key-1", 54, 1 },
        { "key-2", 126, 2 }, { "user1", 93, 2 }, { "user2", 2, 0 }, { "1", 54, 1 },
      }
      for _, v in ipairs(expected) do
        local g = group(str(v[1]), 128)
        assert.equal(v[2], g)
        assert.equal(v[3], probe.key_group_owner(128, 3, g))
      end
    end)

    it("005. colliding keys stay separate", function()
      local a, b = key(str "Aa"), key(str "BB")
      assert.equal(2112, probe.key_hash32(a))
      assert.equal(2112, probe.key_hash32(b))
      assert.equal(108, probe.key_group(a, 128))
      assert.equal(108, probe.key_group(b, 128))
      assert.not_equal(a, b)
    end)

    it("006. 64-bit integer keys", function()
      for _, v in ipairs {
        { 0, 0, 94 }, { 1, 1, 86 }, { -1, 0, 94 }, { 1 << 32, 1, 86 },
        { math.maxinteger, -2147483648, 108 }, { math.mininteger, -2147483648, 108 },
      } do
        local k = key(int(v[1]))
        assert.equal(v[2], probe.key_hash32(k))
        assert.equal(v[3], probe.key_group(k, 128))
      end
      assert.not_equal(key(int(0)), key(int(-1)))
    end)

    it(("is the polynomial of 31 over bytes from 0 to 255 (seed %d)"):format(values.seed), function()
      math.randomseed(values.seed)
      for n = 0, 40 do
        local bytes, h = {}, 0
        for i = 1, n do
          bytes[i] = math.random(0, 255)
          h = (h * 31 + bytes[i]) & 0xffffffff
        end
        assert.equal(signed(h), probe.key_hash32(key(str(string.char(table.unpack(bytes))))))
      end
    end)

    it("of booleans, floats and arrays is the reference's", function()
      assert.equal(1231, probe.key_hash32(key "\xc3"))
      assert.equal(1237, probe.key_hash32(key "\xc2"))
      -- 0.5 has the bits 0x3fe0000000000000.
      assert.equal(0x3fe00000, probe.key_hash32(key(float(0.5))))
      assert.equal(1, probe.key_hash32(key "\x90"))
      -- (31 * 1 + 5) * 31 + 97
      assert.equal((31 + 5) * 31 + 97, probe.key_hash32(key("\x92\5" .. str "a")))
      -- The order of an array's elements counts.
      assert.not_equal(probe.key_hash32(key "\x92\1\2"), probe.key_hash32(key "\x92\2\1"))
    end)
  end)

  describe("bytes", function()
    it("012. nil is refused", function()
      local ok, message, code = probe.key_append "\xc0"
      assert.is_nil(ok)
      assert.equal("EKEY", code)
      assert.matches("not nil", message, 1, true)
    end)

    it("014. maps, and arrays that hold them, are refused", function()
      for value, what in pairs {
        ["\x80"] = "not a map", ["\x81\xa1a\1"] = "not a map", ["\x92\1\x80"] = "not a map",
        ["\x91\xc0"] = "not nil", ["\x91\x91\1"] = "not an array inside an array",
        ["\x91" .. float(0 / 0)] = "not NaN",
      } do
        local ok, message, code = probe.key_append(value)
        assert.is_nil(ok)
        assert.equal("EKEY", code)
        assert.matches(what, message, 1, true)
      end
    end)

    it("015. integer 1 and float 1.0 are one key", function()
      assert.equal("\1", key(int(1)))
      assert.equal("\1", key(float(1.0)))
      assert.equal(key("\x92\1" .. str "x"), key("\x92" .. float(1.0) .. str "x"))
      assert.not_equal(key(int(1)), key(str "1"))
      assert.not_equal(key(int((1 << 53) + 1)), key(float(2.0 ^ 53)))
      assert.equal(key(int(1 << 53)), key(float(2.0 ^ 53)))
    end)

    it("016. -0.0 and +0.0 are the key 0", function()
      assert.equal("\0", key(float(0.0)))
      assert.equal("\0", key(float(-0.0)))
      assert.equal("\0", probe.key_append_float(-0.0))
    end)

    it("017. every NaN is refused", function()
      for _, bits in ipairs {
        0x7ff8000000000000, 0x7ff8000000000001, 0xfff8000000000000, 0x7ff0000000000001,
      } do
        local ok, message, code = probe.key_append("\xcb" .. string.pack(">i8", bits))
        assert.is_nil(ok)
        assert.equal("EKEY", code)
        assert.matches("not NaN", message, 1, true)
        assert.is_nil(probe.key_append_float((string.unpack("d", string.pack("i8", bits)))))
      end
    end)

    it("are integers from -2^63 up to below 2^63, and floats outside", function()
      assert.equal(int(math.mininteger), key(float(-2.0 ^ 63)))
      assert.equal(float(2.0 ^ 63), key(float(2.0 ^ 63)))
      assert.equal(float(-2.0 ^ 63 - 2048), key(float(-2.0 ^ 63 - 2048)))
      assert.equal(int((1 << 62) * 2 - 1024), key(float(2.0 ^ 63 - 1024)))
      assert.equal(float(0.5), key(float(0.5)))
      assert.equal(float(1 / 0), key(float(1 / 0)))
      assert.equal(float(-1 / 0), key(float(-1 / 0)))
    end)

    it(("do not depend on how the value was written (seed %d)"):format(values.seed), function()
      math.randomseed(values.seed)
      local seen = 0
      while seen < 2000 do
        local node = values.scalar()
        if math.random(4) == 1 then
          node = { "array", { values.scalar(), values.scalar(), values.scalar() } }
        end
        local k = probe.key_append(values.encode(node))
        assert.equal(k, probe.key_append(values.encode(node, true)))
        if k then
          seen = seen + 1
          assert.equal(k, key(k)) -- key bytes are a key already
          assert.is_true(probe.value_check(k))
        end
      end
    end)

    it("of damaged values are refused as such", function()
      for _, value in ipairs { "", "\xc1", "\x92\1", "\xa2a", "\1\1", "\x91\1\1", "\x90\1" } do
        local ok, _, code = probe.key_append(value)
        assert.is_nil(ok)
        assert.equal("ECORRUPT", code)
      end
    end)
  end)

  describe("groups", function()
    local function ranges(max_parallelism, parallelism)
      local text = {}
      for i = 0, parallelism - 1 do
        text[#text + 1] = ("[%d-%d]"):format(probe.key_range(max_parallelism, parallelism, i))
      end
      return table.concat(text)
    end

    it("007. range table, divisible and not", function()
      for _, v in ipairs {
        { 128, 1, "[0-127]" }, { 128, 2, "[0-63][64-127]" }, { 128, 3, "[0-42][43-85][86-127]" },
        { 128, 4, "[0-31][32-63][64-95][96-127]" },
        { 128, 5, "[0-25][26-51][52-76][77-102][103-127]" },
        { 128, 7, "[0-18][19-36][37-54][55-73][74-91][92-109][110-127]" },
        { 10, 3, "[0-3][4-6][7-9]" }, { 10, 4, "[0-2][3-4][5-7][8-9]" },
        { 13, 5, "[0-2][3-5][6-7][8-10][11-12]" }, { 1, 1, "[0-0]" },
      } do
        assert.equal(v[3], ranges(v[1], v[2]))
      end
    end)

    -- Plain checks inside: an assert from luassert each would take longer than the rest of the file.
    local function check_partition(max_parallelism, parallelism)
      local next_group, least, most = 0, math.huge, 0
      for i = 0, parallelism - 1 do
        local first, last = probe.key_range(max_parallelism, parallelism, i)
        if first ~= next_group or last < first then return false end
        least, most = math.min(least, last - first), math.max(most, last - first)
        for g = first, last do
          if probe.key_group_owner(max_parallelism, parallelism, g) ~= i then return false end
        end
        next_group = last + 1
      end
      return next_group == max_parallelism and most - least <= 1
    end

    it("008. range and owner are inverse of each other", function()
      for max_parallelism = 1, 300, 7 do
        for parallelism = 1, max_parallelism do
          if not check_partition(max_parallelism, parallelism) then
            error(("%d groups, %d subtasks"):format(max_parallelism, parallelism))
          end
        end
      end
      for _, parallelism in ipairs { 1, 3, 127, 32768 } do
        assert.is_true(check_partition(32768, parallelism))
      end
    end)

    it("009. large max_parallelism does not overflow", function()
      assert.equal("[0-10922][10923-21845][21846-32767]", ranges(32768, 3))
      assert.same({ 32767, 32767 }, { probe.key_range(32768, 32768, 32767) })
    end)

    it("010. default max parallelism", function()
      for p, expected in pairs {
        [1] = 128, [85] = 128, [86] = 256, [127] = 256, [128] = 256, [170] = 256, [171] = 256,
        [172] = 512, [341] = 512, [342] = 1024, [1000] = 2048, [21845] = 32768, [21846] = 32768,
        [32768] = 32768,
      } do
        assert.equal(expected, probe.key_default_max_parallelism(p), p)
      end
    end)

    it("011. invalid parallelism is refused, naming who and both numbers", function()
      for _, v in ipairs { { 0, 128 }, { -1, 128 }, { 32769, 32768 }, { 1, 0 }, { 3, 2 }, { 1, 32769 } } do
        local ok, message, code = probe.key_parallelism_check("visits", v[1], v[2])
        assert.is_nil(ok)
        assert.equal("EINVAL", code)
        assert.matches("visits", message, 1, true)
        assert.matches("%f[%d-]" .. v[1] .. "%f[^%d]", message)
        assert.matches("%f[%d-]" .. v[2] .. "%f[^%d]", message)
      end
      assert.is_true(probe.key_parallelism_check("visits", 1, 1))
      assert.is_true(probe.key_parallelism_check("visits", 32768, 32768))
    end)

    it("018. key-group skew is as the reference has it", function()
      local per_group, p3, p4 = {}, {}, {}
      for i = 0, 9999 do
        local g = group(int(i), 128)
        per_group[g] = (per_group[g] or 0) + 1
        local o3, o4 = probe.key_group_owner(128, 3, g), probe.key_group_owner(128, 4, g)
        p3[o3 + 1], p4[o4 + 1] = (p3[o3 + 1] or 0) + 1, (p4[o4 + 1] or 0) + 1
      end
      assert.same({ 2549, 2463, 2433, 2555 }, p4)
      assert.same({ 3416, 3255, 3329 }, p3)
      local least, most = math.huge, 0
      for g = 0, 127 do
        least, most = math.min(least, per_group[g]), math.max(most, per_group[g])
      end
      assert.same({ 54, 100 }, { least, most })
      local function sizes(parallelism)
        local n = { 0, 0 }
        for i = 0, parallelism - 1 do
          local first, last = probe.key_range(128, parallelism, i)
          n[last - first + 1] = n[last - first + 1] + 1
        end
        return n
      end
      assert.same({ 72, 28 }, sizes(100))
      assert.same({ 126, 1 }, sizes(127))
    end)

    it("019. few keys do not fill subtasks", function()
      local owners = {}
      for i = 0, 7 do owners[i + 1] = probe.key_group_owner(8, 8, group(int(i), 8)) end
      assert.same({ 6, 6, 7, 1, 7, 6, 2, 1 }, owners)
    end)
  end)
end)
