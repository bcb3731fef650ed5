-- Values: what comes through exchanges, chains, state and sinks as it was, and what is refused.
local p = require "support.pipeline"
local sc = require "streamckpt"

after_each(p.clean)

-- Each value on every way that it can take: chained, through an exchange, through state.
local function ways(values)
  local function same(v) return v end
  return {
    chained = p.rows({}, function(env) return env:from_values(values):map(same):map(same) end),
    exchanged = p.rows({}, function(env)
      return env:from_values(values):map(same):rebalance():map(same):start_new_chain()
    end),
    stored = p.rows({}, function(env)
      return env:from_values(values):key_by(function() return 0 end):process {
        uid = "p", state = { v = sc.value(), m = sc.map() },
        on_element = function(ctx, v)
          ctx.state.v:set(v)
          ctx.state.m:set("v", ctx.state.v:get())
          ctx:emit(ctx.state.m:get("v"))
        end,
      }
    end),
  }
end

local function assert_same(values, check)
  for way, rows in pairs(ways(values)) do
    assert.same(values, rows, way)
    for i, row in ipairs(rows) do
      assert.equals(math.type(values[i]), math.type(row), way)
      if check then check(row, i, way) end
    end
  end
end

describe("values", function()
  it("keep their type: integers, floats, booleans, strings", function()
    assert_same { 0, -1, 127, 128, 255, 256, 65535, 65536, 2 ^ 31 // 1 | 0, -2147483649, math.maxinteger,
                  math.mininteger, 1.0, -0.5, 2.0 ^ 53, 1e300, true, false, "", "a", ("x"):rep(40) }
  end)

  it("keep infinities, and the sign of a zero", function()
    for way, rows in pairs(ways { math.huge, -math.huge, -0.0 }) do
      assert.equals(math.huge, rows[1], way)
      assert.equals(-math.huge, rows[2], way)
      assert.equals(-math.huge, 1 / rows[3], way)
    end
  end)

  it("keep NaN a NaN", function()
    for way, rows in pairs(ways { 0 / 0 }) do assert.is_true(rows[1] ~= rows[1], way) end
  end)

  it("keep every byte of a string, zero bytes and broken UTF-8 included", function()
    local all = {}
    for i = 0, 255 do all[i + 1] = string.char(i) end
    assert_same { table.concat(all), "\0", "\xff\xfe", ("\0"):rep(100) }
  end)

  it("keep arrays, maps, and what is nested in them", function()
    assert_same { { 1, 2, 3 }, { a = 1, b = { c = { d = { 1, { e = false } } } } }, { { {} } },
                  { [1] = "a", [2] = "b" }, { [10] = "ten", [-3] = "minus" }, { [true] = 1, [1.5] = 2 } }
  end)

  it("have null where a nil is wanted inside", function()
    for way, rows in pairs(ways { { a = sc.null, b = { 1, sc.null, 3 } } }) do
      assert.equals(sc.null, rows[1].a, way)
      assert.equals(sc.null, rows[1].b[2], way)
      assert.equals(3, #rows[1].b, way)
    end
  end)

  it("have empty tables as maps, unless they are made arrays", function()
    local folder = p.folder()
    p.run({}, function(env)
      env:from_values { { m = {}, a = sc.array() }, { m = {}, a = sc.array {} } }
        :rebalance():map(function(v) return v end):to_file(folder):uid("out")
    end)
    assert.same({ '{"a":[],"m":{}}', '{"a":[],"m":{}}' }, p.parts(folder))
    -- Made in a slot, too.
    local other = p.folder()
    p.run({}, function(env)
      env:from_values { 1 }:map(function() return { sc.array(), {}, sc.null } end):to_file(other):uid("out")
    end)
    assert.same({ "[[],{},null]" }, p.parts(other))
  end)

  it("are equal bytes where they are equal, whatever the order of their fields", function()
    local folder = p.folder()
    p.run({ parallelism = 2 }, function(env)
      env:from_generator { count = 200 }:map(function(i)
        local t, names = {}, { "zeta", "alpha", "mid", "beta", "q" }
        for k = 1, 5 do local name = names[(i + k) % 5 + 1] t[name] = #name end
        return t
      end):to_file(folder):uid("out")
    end)
    local lines = p.parts(folder)
    assert.equals(200, #lines)
    for _, line in ipairs(lines) do assert.equals('{"q":1,"mid":3,"beta":4,"zeta":4,"alpha":5}', line) end
  end)

  it("are copies: a table that two fields share comes back as two", function()
    local rows = ways { 1 } and p.rows({}, function(env)
      return env:from_values { 1 }:map(function()
        local shared = { n = 1 }
        return { a = shared, b = shared }
      end):rebalance():map(function(v) v.a.n = 2 return v end)
    end)
    assert.same({ { a = { n = 2 }, b = { n = 1 } } }, rows)
  end)

  it("given to two consumers of one chain are not shared by them", function()
    local rows = p.sorted({}, function(env)
      local s = env:from_values { 1 }:map(function(n) return { n = n } end)
      local a = s:map(function(v) v.n = v.n + 10 return v end)
      local b = s:map(function(v) v.n = v.n + 100 return v end)
      return a:union(b):map(function(v) return v.n end)
    end)
    assert.same({ 11, 101 }, rows)
  end)
end)

describe("a value that was emitted", function()
  local function bump(v) v.n = v.n + 1 return v end

  -- Chained or not, what a receiver does to its value is its own business.
  for _, exchanged in ipairs { false, true } do
    local way = exchanged and "through an exchange" or "in a chain"
    local function next_to(s) return exchanged and s:rebalance() or s end

    it("is the emitter's own afterwards, " .. way, function()
      assert.same({ 2, 2, 1 }, p.rows({}, function(env)
        return next_to(env:from_values { 1 }:process(function(ctx, n)
          local t = { n = n, inner = { 1 } }
          ctx:emit(t)
          ctx:emit(t)
          ctx:emit { n = t.n - 1, inner = t.inner }
        end)):map(function(v) v.inner[2] = "changed" return bump(v) end):map(function(v) return v.n end)
      end))
    end)

    it("may be in an array twice, " .. way, function()
      assert.same({ 2, 2 }, p.rows({}, function(env)
        return next_to(env:from_values { 1 }:flat_map(function(n)
          local t = { n = n }
          return { t, t }
        end)):map(bump):map(function(v) return v.n end)
      end))
    end)

    it("may go to a side output, too, " .. way, function()
      assert.same({ 2, 101 }, p.sorted({}, function(env)
        local main = env:from_values { 1 }:process(function(ctx, n)
          local t = { n = n }
          ctx:emit(t)
          ctx:side("copy", t)
        end)
        local side = next_to(main:side("copy")):map(function(v) v.n = v.n + 100 return v end)
        return next_to(main):map(bump):union(side):map(function(v) return v.n end)
      end))
    end)
  end

  it("goes whole through filters, keys and watermarks to several consumers", function()
    local rows = p.sorted({}, function(env)
      local s = env:from_values { { n = 1, ts = 5, tags = sc.array {} } }:map(function(v) return v end)
        :watermarks { timestamp = "ts" }:filter(function() return true end)
      local parts = {}
      for i = 1, 3 do
        parts[i] = s:map(function(v)
          v.n = v.n + 10 ^ i // 1 | 0
          v.tags[1] = i
          return v
        end)
      end
      return parts[1]:union(parts[2], parts[3]):map(function(v) return v.n * 10 + #v.tags end)
    end)
    assert.same({ 111, 1011, 10011 }, rows)
  end)

  it("in a chain is refused where it holds what has no copy", function()
    local message = p.failure({}, function(env)
      return env:from_values { 1 }:process(function(ctx) ctx:emit { f = { print } } end)
        :map(function(v) return v end):uid("next")
    end)
    assert.matches("next", message, 1, true)
    assert.matches("value.f[1] is a function", message, 1, true)
  end)
end)

describe("values that cannot be sent", function()
  local function refusal(make)
    return p.failure({}, function(env)
      return env:from_values { 1 }:map(make):uid("maker"):rebalance():map(function(v) return v end)
    end)
  end

  it("are named with the path to the culprit", function()
    local message = refusal(function() return { a = { { b = print } } } end)
    assert.matches("maker (maker) 1/1: ", message, 1, true)
    assert.matches("function", message, 1, true)
    assert.matches("a[1].b", message, 1, true)
    message = refusal(function() return { list = { 1, 2, io.stdout } } end)
    assert.matches("userdata", message, 1, true)
    assert.matches("list[3]", message, 1, true)
    message = refusal(function() return { co = coroutine.create(print) } end)
    assert.matches("co", message, 1, true)
    assert.matches("coroutine", message, 1, true)
    assert.matches("function", refusal(function() return print end), 1, true)
  end)

  it("are cycles, and what is nested too deep", function()
    local message = refusal(function() local t = { x = {} } t.x.back = t return t end)
    assert.matches("x.back", message, 1, true)
    message = refusal(function()
      local t = {}
      for _ = 1, 100 do t = { t } end
      return t
    end)
    assert.matches("64", message, 1, true)
  end)

  it("are arrays with holes, and arrays with names beside", function()
    local message = refusal(function() return { tags = { 1, 2, nil, 4 } } end)
    assert.matches("tags", message, 1, true)
    message = refusal(function() return { mixed = { 1, 2, x = 3 } } end)
    assert.matches("mixed", message, 1, true)
  end)

  it("are refused also where they are emitted, stored, or given by the script", function()
    local function at(on_element)
      return p.failure({}, function(env)
        return env:from_values { 1 }:key_by(function() return 1 end)
          :process { uid = "p", state = { v = sc.value(), m = sc.map() }, on_element = on_element }
          :rebalance():map(function(v) return v end)
      end)
    end
    local message = at(function(ctx) ctx:emit { f = print } end)
    assert.matches("f", message, 1, true)
    assert.matches("values_spec.lua:%d+", message)
    message = at(function(ctx) ctx.state.v:set { f = print } end)
    assert.matches("values_spec.lua:%d+", message)
    message = at(function(ctx) ctx.state.m:set("k", { f = print }) end)
    assert.matches("values_spec.lua:%d+", message)
    message = at(function(ctx) ctx.state.m:set({ {} }, 1) end)
    assert.matches("key", message, 1, true)
    message = p.failure({}, function(env)
      local stream = env:from_values { { f = print } }
      return stream
    end)
    assert.matches("values[1].f is a function", message, 1, true)
    assert.matches("[from_values at values_spec.lua:", message, 1, true)
  end)
end)
