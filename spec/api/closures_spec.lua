-- Functions in slots: what they hold comes with them, or is refused by name.
local p = require "support.pipeline"

after_each(p.clean)

describe("functions in slots", function()
  it("have their upvalues as they were at the start", function()
    local factor, words = 3, { one = 1, nested = { list = { 10, 20 } } }
    local rows = p.sorted({ parallelism = 2 }, function(env)
      return env:from_values { 1, 2 }:map(function(n) return n * factor + words.nested.list[n] end)
    end)
    table.sort(rows) -- two tasks write them, in no order
    assert.same({ 13, 26 }, rows)
  end)

  it("share upvalues and tables with the other functions of their slot, and with nobody else", function()
    local counter, shared = 0, {}
    local function bump() counter = counter + 1 shared[#shared + 1] = counter return counter end
    local rows = p.rows({}, function(env)
      return env:from_values { 1, 2, 3 }
        :map(function() return bump() end)
        :map(function(n) return ("%d %d %d"):format(n, counter, #shared) end)
    end)
    assert.same({ "1 1 1", "2 2 2", "3 3 3" }, rows)
    assert.equals(0, counter)
    assert.equals(0, #shared)
    -- Each slot has its own: four tasks of one record each count to one.
    assert.same({ 1, 1, 1, 1 }, p.sorted({ parallelism = 4 }, function(env)
      return env:from_values { 1, 2, 3, 4 }:rebalance():map(function() return bump() end)
    end))
  end)

  it("bring the functions that they call, recursive and mutual ones, too", function()
    local is_odd
    local function is_even(n) if n == 0 then return true end return is_odd(n - 1) end
    function is_odd(n) if n == 0 then return false end return is_even(n - 1) end
    assert.same({ true, false, true }, p.rows({}, function(env)
      return env:from_values { 0, 7, 10 }:map(function(n) return is_even(n) end)
    end))
  end)

  it("bring tables with metatables, and keep who is who", function()
    local Point = {}
    Point.__index = Point
    function Point.new(x) return setmetatable({ x = x }, Point) end
    function Point:twice() return self.x * 2 end
    local origin = Point.new(5)
    local same = origin
    assert.same({ { 10, true, true } }, p.rows({}, function(env)
      return env:from_values { 1 }:map(function()
        return { origin:twice(), rawequal(origin, same), getmetatable(Point.new(1)) == getmetatable(origin) }
      end)
    end))
  end)

  it("find standard libraries and this one", function()
    local format, concat = string.format, table.concat
    assert.same({ "3,1-2,true" }, p.rows({}, function(env)
      return env:from_values { 1 }:map(function()
        local inside = require "streamckpt"
        return format("%s,%s,%s", math.max(1, 3), concat({ 1, 2 }, "-"), inside.null ~= nil)
      end)
    end))
  end)

  it("find modules by name from files next to the script", function()
    local folder = p.folder()
    p.write(folder .. "/helpers.lua", [[
      local helpers = { calls = 0 }
      function helpers.shout(s) helpers.calls = helpers.calls + 1 return s:upper() .. "!" end
      return helpers
    ]])
    local out, err, code = p.script([[
      local sc = require "streamckpt"
      local helpers = require "helpers"
      function shout_twice(s) return helpers.shout(s) .. helpers.shout(s) end
      suffix = "?"
      local env = sc.env()
      env:from_values { "a", "b" }
        :map(function(s) return shout_twice(s) .. suffix .. helpers.calls end)
        :map(helpers.shout)
        :collect():uid("out")
      for _, row in ipairs(env:execute():rows("out")) do print(row) end
      print(helpers.calls)
    ]], folder)
    assert.equals("A!A!?2!\nB!B!?5!\n0\n", out, err)
    assert.equals(0, code)
  end)

  it("see globals that the script defined, also those that it defined late", function()
    local out, err = p.script([[
      local sc = require "streamckpt"
      local env = sc.env()
      local s = env:from_values { 1, 2 }:map(function(n) return helper(n) + offset end)
      s:collect():uid("out")
      offset = 100
      function helper(n) return n * 2 end
      for _, row in ipairs(env:execute():rows("out")) do print(row) end
    ]], p.folder())
    assert.equals("102\n104\n", out, err)
  end)

  it("change only their own copies of globals", function()
    local out, err = p.script([[
      local sc = require "streamckpt"
      count = 0
      local env = sc.env()
      env:from_values { 1, 2 }:map(function(n) count = count + n return count end):collect():uid("out")
      for _, row in ipairs(env:execute():rows("out")) do print(row) end
      print(count)
    ]], p.folder())
    assert.equals("1\n3\n0\n", out, err)
  end)

  it("that hold what cannot travel are refused with operator, function and upvalue", function()
    local file = assert(io.tmpfile())
    local settings = { output = { file } }
    local message = p.failure({}, function(env)
      return env:from_values { 1 }:map(function(v) return settings.output[1] and v end):uid("writer")
    end)
    assert.matches("operator 'writer'", message, 1, true)
    assert.matches("the function at spec/api/closures_spec.lua:", message, 1, true)
    assert.matches("upvalue 'settings'", message, 1, true)
    assert.matches("field 'output', field [1]", message, 1, true)
    assert.matches("a userdata (FILE*)", message, 1, true)
    assert.matches("make it in 'open'", message, 1, true)
    file:close()
    local co = coroutine.create(print)
    assert.matches("upvalue 'co', which is a coroutine", p.failure({}, function(env)
      return env:from_values { 1 }:filter(function() return co end)
    end), 1, true)
  end)

  it("that hold the environment, a stream or a job are refused as such", function()
    local message = p.failure({}, function(env)
      return env:from_values { 1 }:map(function(v) return env and v end)
    end)
    assert.matches("upvalue 'env', which is an environment, which stays in the script", message, 1, true)
    message = p.failure({}, function(env)
      local s = env:from_values { 1 }
      return s:map(function(v) return s and v end)
    end)
    assert.matches("upvalue 's', which is a stream, which stays in the script", message, 1, true)
  end)

  it("may use a global that cannot travel only to find out that it has not", function()
    local out, err, code = p.script([[
      local sc = require "streamckpt"
      log = io.stderr
      handle = io.tmpfile()
      local env = sc.env { log = { level = "off" } }
      env:from_values { 1 }:map(function(n) return n, type(handle) end):collect():uid("fine")
      env:execute()
      env:from_values { 1 }:map(function(n) handle:write("x") return n end):collect()
      print(pcall(env.execute, env))
    ]], p.folder())
    assert.equals(0, code, err)
    assert.matches("global 'handle' of the script was not carried into the slots, because it is a userdata (FILE*)",
      out, 1, true)
    assert.matches("make it in 'open'", out, 1, true)
  end)

  it("make what cannot travel in open", function()
    local folder = p.folder()
    p.run({ parallelism = 2 }, function(env)
      local out
      env:from_values { "a", "b", "c", "d" }:rebalance():process {
        uid = "p", open = function(ctx) out = assert(io.open(folder .. "/" .. ctx.subtask, "w")) end,
        on_element = function(_, v) out:write(v) end, close = function() out:close() end,
      }
    end)
    local text = p.read(folder .. "/0") .. p.read(folder .. "/1")
    assert.equals(4, #text)
    for letter in ("abcd"):gmatch(".") do assert.matches(letter, text) end
  end)

  it("may use coroutines of their own, and emit inside them", function()
    assert.same({ 1, 2, 3, "done" }, p.rows({}, function(env)
      return env:from_values { 3 }:flat_map(function(n, ctx)
        local co = coroutine.wrap(function() for i = 1, n do coroutine.yield(i) ctx:emit(i) end return nil end)
        while co() do end
        ctx:emit("done")
      end)
    end))
  end)

  it("of standard libraries may be given as they are, and get the value alone", function()
    assert.same({ 1, 16 }, p.rows({}, function(env) return env:from_values { "1", "0x10" }:map(tonumber) end))
    assert.same({ 7 }, p.rows({}, function(env)
      return env:from_values { 3, 7, 5 }:key_by(function() return 0 end):reduce(math.max):uid("max")
        :filter(function(n) return n == 7 end):process(function(ctx, n)
          if not seen then ctx:emit(n) end -- luacheck: ignore
          seen = true -- luacheck: ignore
        end)
    end))
    assert.same({ "A", "B" }, p.rows({}, function(env) return env:from_values { "a", "b" }:map(string.upper) end))
    assert.same({ "1", "true" }, p.rows({}, function(env) return env:from_values { 1, true }:map(tostring) end))
  end)
end)
