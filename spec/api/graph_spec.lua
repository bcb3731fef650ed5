-- Shapes of graphs: each gives what a plain computation over the same values gives.
local p = require "support.pipeline"
local sc = require "streamckpt"

after_each(p.clean)

local function keep(v) return v end
local function numbers(n)
  local out = {}
  for i = 1, n do out[i] = i end
  return out
end
local function sum(list)
  local total = 0
  for _, v in ipairs(list) do total = total + v end
  return total
end

describe("a graph", function()
  it("of only a source and a sink runs", function()
    assert.same({ 1, 2 }, p.rows({}, function(env) return env:from_values { 1, 2 } end))
  end)

  it("may have several sources and sinks that have nothing to do with each other", function()
    local result = p.run({ parallelism = 2 }, function(env)
      env:from_values { 1, 2 }:collect():uid("a")
      env:from_generator { count = 3 }:collect():uid("b")
    end)
    assert.equals(2, #result:rows("a"))
    assert.equals(3, #result:rows("b"))
  end)

  it("may leave a stream unread", function()
    assert.same({ 1 }, p.rows({}, function(env)
      local s = env:from_values { 1 }
      s:map(function(v) return v end)
      return s
    end))
  end)

  it("fans out to several consumers, in its chain and through exchanges", function()
    local result = p.run({ parallelism = 2 }, function(env)
      local s = env:from_values(numbers(100)):rebalance():map(keep):uid("m")
      s:map(function(v) return v + 1 end):collect():uid("chained")
      s:map(function(v) return v * 2 end):start_new_chain():collect():uid("cut")
      s:rebalance():filter(function(v) return v % 2 == 0 end):collect():uid("dealt")
      s:broadcast():map(keep):collect():uid("everywhere")
      s:key_by(function(v) return v % 10 end):reduce(math.max):uid("r"):collect():uid("keyed")
      s:map(keep):parallelism(1):collect():uid("narrow")
    end)
    assert.equals(sum(numbers(100)) + 100, sum(result:rows("chained")))
    assert.equals(sum(numbers(100)) * 2, sum(result:rows("cut")))
    assert.equals(2 * sum(numbers(50)), sum(result:rows("dealt")))
    assert.equals(2 * sum(numbers(100)), sum(result:rows("everywhere")))
    assert.equals(100, #result:rows("keyed"))
    assert.equals(sum(numbers(100)), sum(result:rows("narrow")))
  end)

  it("may be a diamond, whose halves meet again", function()
    for _, parallelism in ipairs { 1, 3 } do
      local rows = p.sorted({ parallelism = parallelism }, function(env)
        local s = env:from_values(numbers(20))
        local even = s:filter(function(v) return v % 2 == 0 end):map(function(v) return v * 100 end)
        local odd = s:filter(function(v) return v % 2 == 1 end):rebalance():map(function(v) return -v end)
        return even:union(odd):key_by(function(v) return v > 0 end):reduce(function(a, b) return a + b end):uid("r")
      end)
      assert.equals(20, #rows)
      assert.equals(-100, rows[1])
      assert.equals(11000, rows[20])
    end
  end)

  it("changes its width from operator to operator", function()
    for _, widths in ipairs { { 1, 4, 2, 3, 1 }, { 4, 1, 4, 1, 4 }, { 2, 2, 5, 5, 2 } } do
      local rows = p.sorted({ parallelism = 2 }, function(env)
        local s = env:from_generator { count = 50 }:parallelism(widths[1])
        for i = 2, #widths do s = s:map(function(v) return v + 1 end):parallelism(widths[i]) end
        return s
      end)
      local expected = {}
      for i = 1, 50 do expected[i] = i - 1 + #widths - 1 end
      assert.same(expected, rows)
    end
  end)

  it("keeps the order between two tasks, wherever a value goes forward", function()
    local rows = p.rows({ parallelism = 1 }, function(env)
      return env:from_values(numbers(2000)):map(keep):start_new_chain():filter(function() return true end)
        :disable_chaining():map(keep)
    end)
    assert.same(numbers(2000), rows)
  end)

  it("may be a chain of a hundred operators, chained or not", function()
    for _, chained in ipairs { true, false } do
      assert.same({ 101, 102, 103 }, p.rows({}, function(env)
        local s = env:from_values { 1, 2, 3 }
        for i = 1, 100 do
          s = s:map(function(v) return v + 1 end)
          if not chained and i % 5 == 0 then s:start_new_chain() end
        end
        return s
      end))
    end
  end)

  it("may be keyed again and again", function()
    local rows = p.sorted({ parallelism = 3 }, function(env)
      local function count(by, uid)
        return { uid = uid, state = { n = sc.value() }, on_element = function(ctx, v)
          local n = (ctx.state.n:get() or 0) + 1
          ctx.state.n:set(n)
          v[uid] = n
          assert(ctx.key == v[by])
          ctx:emit(v)
        end }
      end
      return env:from_generator { count = 120, fn = function(i) return { a = i % 4, b = i % 6, all = "x" } end }
        :key_by("a"):process(count("a", "na")):key_by("b"):process(count("b", "nb"))
        :key_by("all"):process(count("all", "n")):map(function(v) return v.na + v.nb + v.n end)
    end)
    assert.equals(4 * sum(numbers(30)) + 6 * sum(numbers(20)) + sum(numbers(120)), sum(rows))
  end)

  it("without a record ends, whatever its shape, with its timers and sinks", function()
    local folder = p.folder()
    local rows, result = p.rows(p.checkpointing(folder, { parallelism = 3 }), function(env)
      local s = env:from_values({}):union(env:from_generator { count = 0 },
        env:source { uid = "none", splits = function() return {} end, read = function() end })
        :watermarks {}:uid("w")
        :key_by(function(v) return v end)
        :process { uid = "p", state = { v = sc.value() }, on_element = function() end, on_timer = function() end }
      s:to_file(folder .. "/out"):uid("out")
      return s
    end)
    assert.same({}, rows)
    assert.equals("finished", result:status().state)
    assert.same({}, p.parts(folder .. "/out"))
    assert.is_true(result:checkpoints().counts.completed >= 1)
  end)

  it("with an empty split among others has the values of the others", function()
    local folder = p.folder()
    local paths = {}
    for i = 1, 6 do paths[i] = p.write(folder .. "/in" .. i, i % 2 == 0 and ("%d\n"):format(i) or "") end
    assert.same({ "2", "4", "6" }, p.sorted({ parallelism = 2 }, function(env) return env:from_file(paths) end))
  end)

  it("that is empty is refused", function()
    assert.matches("the environment has no streams yet", p.failure({}, function() end), 1, true)
  end)

  it("may be run again, and by another environment at the same time", function()
    local env = sc.env { log = { level = "off" } }
    env:from_values({ 1, 2 }):collect():uid("out")
    for _ = 1, 3 do assert.same({ 1, 2 }, { table.unpack(env:execute():rows("out")) }) end
  end)

  it("is refused where two operators have the same uid, and where streams of two environments meet", function()
    local message = p.failure({}, function(env)
      local s = env:from_values({ 1 }):uid("x"):map(keep):uid("x")
      return s
    end)
    assert.matches("uid 'x' is taken by from_values", message, 1, true)
    message = p.failure({}, function(env)
      local s = env:from_values({ 1 }):union(sc.env():from_values { 2 })
      return s
    end)
    assert.matches("union needs streams of the same environment", message, 1, true)
  end)
end)
