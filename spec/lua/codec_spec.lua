local probe = require "streamckpt.probe"
local values = require "support.values"

local encode, decode, encode_key = probe.codec_encode, probe.codec_decode, probe.codec_encode_key
local null, array = probe.codec_null(), probe.codec_array

local function bytes_of(v) return assert(encode(v)) end

-- What a value becomes, written plainly: a node of support.values.
local function node_of(v)
  local kind = math.type(v) or type(v)
  if v == nil or v == null then return { "nil" } end
  if kind == "integer" then return { "int", v } end
  if kind == "float" then return { "float", v } end
  if kind == "boolean" then return { "bool", v } end
  if kind == "string" then return { "str", v } end
  local pairs_of, n = {}, 0
  for k, x in next, v do
    n = n + 1
    pairs_of[n] = { values.encode(node_of(k)), node_of(k), node_of(x) }
  end
  if v[1] ~= nil or n == 0 and probe.codec_is_array(v) then
    local list = {}
    for i = 1, n do list[i] = node_of(v[i]) end
    return { "array", list }
  end
  table.sort(pairs_of, function(a, b) return a[1] < b[1] end)
  local flat = {}
  for _, p in ipairs(pairs_of) do
    flat[#flat + 1] = p[2]
    flat[#flat + 1] = p[3]
  end
  return { "map", flat }
end

local function model(v) return values.encode(node_of(v)) end

-- Equal down to integer against float, NaN, and what sc.array made.
local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then
    return math.type(a) == math.type(b) and (a == b or a ~= a and b ~= b)
  end
  if next(a) == nil and probe.codec_is_array(a) ~= probe.codec_is_array(b) then return false end
  for k, v in next, a do if not same(v, b[k]) then return false end end
  for k in next, b do if a[k] == nil then return false end end
  return true
end

local function random_scalar()
  local node = values.scalar()
  if node[1] == "nil" then return null end
  return node[2]
end

local function random_key()
  while true do
    local k = random_scalar()
    if k == k and k ~= null and k ~= 1 then return k end
  end
end

local function random_value(depth)
  if depth == 0 or math.random(3) == 1 then return random_scalar() end
  local t, n = {}, math.random(20) == 1 and math.random(15, 40) or math.random(0, 6)
  if math.random(2) == 1 then
    -- Filled from the end, an array lies in the table's hash part.
    local from, to, step = 1, n, 1
    if math.random(2) == 1 then from, to, step = n, 1, -1 end
    for i = from, to, step do t[i] = random_value(depth - 1) end
    return array(t)
  end
  for _ = 1, n do t[random_key()] = random_value(depth - 1) end
  return t
end

local function refused(v, expected, code)
  local bytes, message, name = encode(v)
  assert.is_nil(bytes)
  assert.equal(code or "EVALUE", name)
  assert.equal((code or "EVALUE") .. ": " .. expected, message)
end

describe("codec", function()
  describe("encoding", function()
    it("gives scalars their msgpack types", function()
      assert.equal("\xc0", encode(nil))
      assert.equal("\xc0", encode(null))
      assert.equal("\xc3", encode(true))
      assert.equal("\1", encode(1))
      assert.equal("\xcb\x3f\xf0\0\0\0\0\0\0", encode(1.0))
      assert.equal("\xcf\x7f" .. ("\xff"):rep(7), encode(math.maxinteger))
      assert.equal("\xa3a\0\xff", encode "a\0\xff")
      assert.equal("\xa11", encode "1")
    end)

    it("tells arrays from maps by their keys", function()
      assert.equal("\x93\1\2\3", encode { 1, 2, 3 })
      assert.equal("\x80", encode {})
      assert.equal("\x90", encode(array {}))
      assert.equal("\x92\1\2", encode(array { 1, 2 }))
      assert.equal("\x81\xa1a\1", encode { a = 1 })
      -- Without the key 1 nothing is lost as a map.
      assert.equal("\x81\2\7", encode { [2] = 7 })
      assert.equal("\x82\0\7\2\8", encode { [2] = 8, [0] = 7 })
      assert.equal("\x91\xc0", encode { null })
    end)

    it("takes arrays however they were filled", function()
      local backwards = {}
      for i = 40, 1, -1 do backwards[i] = i end
      local shrunk = {}
      for i = 1, 40 do shrunk[i] = i end
      for i = 40, 4, -1 do shrunk[i] = nil end
      local mended = { x = 1 }
      for i = 1, 40 do mended[i] = i end
      mended.x = nil
      assert.equal(model(backwards), encode(backwards))
      assert.equal("\x93\1\2\3", encode(shrunk))
      assert.equal(model(mended), encode(mended))
    end)

    it("writes maps in the byte order of their encoded keys", function()
      assert.equal("\x84\2\1\xa1a\2\xa1b\3\xa2aa\4", encode { aa = 4, b = 3, [2.0] = 1, a = 2 })
    end)

    it("keeps the order of keys whatever the order of insertion", function()
      for _, n in ipairs { 2, 5, 15, 16, 17, 33, 100, 3000 } do
        local keys = {}
        for i = 1, n do keys[i] = ("key%d"):format(i * 7919 % 10007) end
        local up, down = {}, {}
        for i = 1, n do up[keys[i]] = i end
        for i = n, 1, -1 do down[keys[i]] = i end
        local bytes = bytes_of(up)
        assert.is_true(bytes == bytes_of(down), n)
        assert.is_true(bytes == model(up), n)
      end
    end)

    it("orders keys that share their first eight bytes, and keys of all types", function()
      local t = {
        abcdefgh = 1, abcdefghi = 2, abcdefgz = 3, abcdefg = 4, abcdefghj = 5, [""] = 6, ["\0"] = 7,
        [true] = 8, [false] = 9, [0] = 10, [-1] = 11, [300] = 12, [2.5] = 13, [1e300] = 14,
        [("l"):rep(40)] = 15, [("l"):rep(300)] = 16, [math.mininteger] = 17,
      }
      assert.equal(model(t), encode(t))
    end)

    it("writes maps of more pairs than two bytes can count", function()
      local t = {}
      for i = 0, 69999 do t["k" .. i] = true end
      local bytes = bytes_of(t)
      assert.equal("\xdf\0\1\x11\x70", bytes:sub(1, 5))
      assert.is_true(probe.value_check(bytes))
      assert.is_true(same(t, decode(bytes)))
    end)

    it("keeps the pairs of many open maps apart", function()
      local inner = { v = 1 }
      for level = 1, 20 do
        local outer = { m = inner }
        for i = 1, level do outer["a" .. i], outer["z" .. i] = i, { i } end
        inner = outer
      end
      assert.is_true(model(inner) == encode(inner))
    end)

    it(("equals the model and comes back the same (seed %d)"):format(values.seed), function()
      math.randomseed(values.seed)
      for _ = 1, 400 do
        local v = random_value(4)
        local bytes = bytes_of(v)
        if bytes ~= model(v) then error("not as the model: " .. probe.value_print(bytes, 300)) end
        if not probe.value_check(bytes) then error "not well-formed" end
        local back = decode(bytes)
        if v == null then v = nil end
        if not same(v, back) then error("another value: " .. probe.value_print(bytes, 300)) end
        if v ~= nil and encode(back) ~= bytes then error "another encoding" end
      end
    end)

    it("calls no metamethod", function()
      local function never() error "a metamethod was called" end
      local mt = { __index = never, __len = never, __pairs = never, __eq = never, __call = never,
        __name = "mine", __tostring = never, __gc = nil, __newindex = never, __metatable = "locked" }
      assert.equal("\x92\1\2", encode(setmetatable({ 1, 2 }, mt)))
      assert.equal("\x81\xa1a\1", encode(setmetatable({ a = 1 }, mt)))
      assert.equal("\x80", encode(setmetatable({}, mt)))
      assert.is_nil(encode(setmetatable({ 1, nil, 3 }, mt)))
    end)

    it("takes a table that stands in two places twice", function()
      local shared = { 1 }
      assert.equal("\x82\xa1a\x91\1\xa1b\x91\1", encode { a = shared, b = shared })
    end)
  end)

  describe("refuses", function()
    local ONLY = "; only nil, booleans, numbers, strings and tables can be stored"
    local HOLE = " is a hole; an array has all keys from 1 to n (sc.null keeps a place)"

    it("functions, userdata and coroutines, with their path", function()
      refused(print, "value is a function" .. ONLY)
      refused(io.stdout, "value is a userdata" .. ONLY)
      refused(coroutine.create(print), "value is a coroutine" .. ONLY)
      refused({ user = { tags = { 1, 2, print } } }, "value.user.tags[3] is a function" .. ONLY)
      refused({ { cb = io.stdout } }, "value[1].cb is a userdata" .. ONLY)
      refused({ ["a b"] = { [true] = { [2.5] = { [-3] = print } } } },
        'value["a b"][true][2.5][-3] is a function' .. ONLY)
      refused({ ["end\n"] = print }, [[value["end\n"] is a function]] .. ONLY)
      refused({ [("x"):rep(100)] = print },
        'value["' .. ("x"):rep(39) .. '...] is a function' .. ONLY)
      refused({ ["2nd"] = print }, 'value["2nd"] is a function' .. ONLY)
    end)

    it("holes, naming the first one", function()
      refused({ 1, nil, 3 }, "value[2]" .. HOLE)
      refused({ user = { tags = { 1, 2, nil, nil, 5 } } }, "value.user.tags[3]" .. HOLE)
      refused({ [1] = 1, [1001] = 2 }, "value[2]" .. HOLE)
      refused(array { [2] = 1 }, "value[1]" .. HOLE)
    end)

    it("other keys beside an array part", function()
      local function mixed(where, key)
        return where .. " has the key " .. key ..
          " beside its array part; a table is an array with the keys 1..n or a map without the key 1"
      end
      refused({ 1, 2, x = 3 }, mixed("value", '"x"'))
      refused({ user = { "a", [0] = "b" } }, mixed("value.user", "0"))
      refused({ "a", [1.5] = "b" }, mixed("value", "1.5"))
      refused({ "a", [false] = "b" }, mixed("value", "false"))
      refused(array { x = 1 }, mixed("value", '"x"'))
    end)

    it("keys that are no scalars", function()
      local function key(where, what)
        return where .. " has a key that is " .. what .. "; keys are strings, numbers and booleans"
      end
      refused({ [{}] = 1 }, key("value", "a table"))
      refused({ a = { [print] = 1 } }, key("value.a", "a function"))
      refused({ [null] = 1 }, key("value", "a userdata"))
      refused({ 1, [{}] = 1 }, key("value", "a table"))
    end)

    it("cycles, and more than 64 levels", function()
      local cycle = {}
      cycle.self = cycle
      refused(cycle, "value" .. (".self"):rep(8) .. "... is in a cycle or nesting deeper than 64")
      local list = {}
      list[1] = list
      refused(list, "value" .. ("[1]"):rep(8) .. "... is in a cycle or nesting deeper than 64")
      local deep = 0
      for _ = 1, 64 do deep = { deep } end
      local bytes = bytes_of(deep)
      assert.is_true(probe.value_check(bytes))
      assert.is_true(same(deep, decode(bytes)))
      assert.is_nil(encode { deep })
    end)

    it("a value that the Lua stack has no room for", function()
      -- One level's room is enough for a call near the limit of the stack, 64 levels' is not.
      local deep = 0
      for _ = 1, 64 do deep = { deep } end
      local bytes = bytes_of(deep)
      for _, case in ipairs { { encode, deep }, { decode, bytes } } do
        local args, found = { case[2] }, false
        for n = 999990, 999000, -15 do
          local called, result, _, code = pcall(coroutine.wrap(function()
            return case[1](table.unpack(args, 1, n))
          end))
          if called then
            assert.is_nil(result)
            assert.equal("ELIMIT", code)
            found = true
            break
          end
        end
        assert.is_true(found)
      end
    end)
  end)

  describe("decoding", function()
    it("gives nil at the top, sc.null inside, and arrays that stay arrays", function()
      assert.is_nil((decode "\xc0"))
      local list = decode "\x92\xc0\x90"
      assert.equal(null, list[1])
      assert.is_true(probe.codec_is_array(list[2]))
      assert.is_nil(getmetatable(list))
      assert.is_nil(getmetatable(decode "\x80"))
      assert.equal("\x92\xc0\x90", encode(list))
      assert.equal("integer", math.type(decode "\1"))
      assert.equal("float", math.type(decode(bytes_of(1.0))))
    end)

    it("takes maps in any order, and any form of a number", function()
      assert.is_true(same({ b = 1, a = { x = 2 } }, decode "\x82\xa1b\xd0\1\xa1a\x81\xd9\1x\xcd\0\2"))
      assert.is_true(same({ [1] = 5, [2.5] = 6, [true] = 7 },
        decode("\x83\1\5\xcb" .. string.pack(">d", 2.5) .. "\6\xc3\7")))
      -- A whole float as a key is the integer, as everywhere in Lua.
      assert.equal(9, decode("\x81\xcb" .. string.pack(">d", 3.0) .. "\9")[3])
    end)

    it("refuses keys that no Lua table can have", function()
      for bytes, what in pairs {
        ["\x81\xc0\1"] = "nil", ["\x81\xcb" .. string.pack(">d", 0 / 0) .. "\1"] = "NaN",
        ["\x81\x90\1"] = "a container", ["\x81\x80\1"] = "a container",
      } do
        local v, message, code = decode(bytes)
        assert.is_nil(v)
        assert.equal("EVALUE", code)
        assert.matches("a key at byte 1 that is " .. what, message, 1, true)
      end
    end)

    it(("refuses every truncation and addition (seed %d)"):format(values.seed), function()
      math.randomseed(values.seed)
      for _ = 1, 40 do
        local bytes
        repeat bytes = bytes_of(random_value(3)) until #bytes < 600
        for n = 0, #bytes - 1 do
          local v, _, code = decode(bytes:sub(1, n))
          if v ~= nil or code ~= "ECORRUPT" then error("taken: " .. probe.value_print(bytes, 300)) end
        end
        local v, message, code = decode(bytes .. "\1")
        assert.is_nil(v)
        assert.equal("ECORRUPT", code)
        assert.matches("something follows it", message, 1, true)
      end
    end)

    it(("survives noise and agrees with the check (seed %d)"):format(values.seed), function()
      math.randomseed(values.seed)
      for _ = 1, 3000 do
        local bytes = bytes_of(random_value(2))
        local i = math.random(#bytes)
        bytes = bytes:sub(1, i - 1) .. string.char(math.random(0, 255)) .. bytes:sub(i + 1)
        local v, _, code = decode(bytes)
        local ok = probe.value_check(bytes)
        if v ~= nil and not ok then error "decoded what is not well-formed" end
        if code == "ECORRUPT" and ok then error "refused what is well-formed" end
      end
    end)

    it("refuses more than 64 levels, and numbers of elements that cannot be", function()
      for _, bytes in ipairs {
        ("\x91"):rep(65) .. "\xc0", ("\x81\1"):rep(65) .. "\xc0", ("\x91"):rep(1000000),
        "\xdd\xff\xff\xff\xff\1", "\xdf\xff\xff\xff\xff\1\1", "",
      } do
        local v, message, code = decode(bytes)
        assert.is_nil(v)
        assert.equal("ECORRUPT", code)
        assert.matches("the value is damaged at byte", message, 1, true)
      end
    end)

    it("reads long arrays and maps whatever room was made at first", function()
      local list = {}
      for i = 1, 70000 do list[i] = i end
      assert.is_true(same(list, decode(bytes_of(list))))
    end)
  end)

  describe("keys", function()
    local function key(v) return assert(encode_key(v)) end
    local function refused_key(v, what)
      local k, message, code = encode_key(v)
      assert.is_nil(k)
      assert.equal("EKEY", code)
      assert.equal("EKEY: a key must be a boolean, a number, a string or an array of these, not " .. what,
        message)
    end

    it("015. 1 and 1.0 are one key, \"1\" another", function()
      assert.equal("\1", key(1))
      assert.equal("\1", key(1.0))
      assert.equal("\xa11", key "1")
      assert.equal(key { 1, "a" }, key { 1.0, "a" })
      assert.not_equal(key((1 << 53) + 1), key(2.0 ^ 53))
    end)

    it("016. -0.0 is 0", function()
      assert.equal("\0", key(-0.0))
      assert.equal("\x91\0", key { -0.0 })
    end)

    it("012. nil is refused, and sc.null with it", function()
      refused_key(nil, "nil")
      refused_key(null, "nil")
      refused_key({ "a", null }, "nil")
    end)

    it("017. NaN is refused", function()
      refused_key(0 / 0, "NaN")
      refused_key({ 1, 0 / 0 }, "NaN")
    end)

    it("014. tables that are no arrays of scalars, functions and the like are refused", function()
      refused_key({ a = 1 }, "a map")
      refused_key({}, "a map (an empty array is made by sc.array)")
      refused_key({ 1, nil, 3 }, "an array with holes or other keys")
      refused_key({ 1, x = 2 }, "an array with holes or other keys")
      refused_key({ 1, { 2 } }, "a table inside an array")
      refused_key(print, "a function")
      refused_key({ print }, "a function")
      refused_key(io.stdout, "a userdata")
      refused_key(coroutine.create(print), "a coroutine")
    end)

    it("of arrays do not depend on how those were filled", function()
      assert.equal("\x90", key(array {}))
      local backwards = {}
      for i = 20, 1, -1 do backwards[i] = i end
      assert.equal(model(backwards), key(backwards))
    end)

    it(("are what the core makes of the encoded value (seed %d)"):format(values.seed), function()
      math.randomseed(values.seed)
      for _ = 1, 1000 do
        local v = random_scalar()
        if math.random(3) == 1 then v = { random_scalar(), random_scalar() } end
        local ours, _, code = encode_key(v)
        local core, _, core_code = probe.key_append(bytes_of(v))
        assert.equal(core, ours)
        assert.equal(core_code, code)
      end
    end)
  end)
end)
