-- Side outputs, and what becomes of bad records.
local p = require "support.pipeline"

after_each(p.clean)

-- Rows of several streams at once: {name = stream}, each collected under its name.
local function collect(options, build)
  local names = {}
  local result = p.run(options, function(env)
    for name, stream in pairs(build(env)) do
      names[#names + 1] = name
      stream:collect():uid(name)
    end
  end)
  local out = {}
  for _, name in ipairs(names) do
    out[name] = table.move(result:rows(name), 1, #result:rows(name), 1, {})
    table.sort(out[name])
  end
  return out, result
end

local function sort_out(ctx, n)
  if n % 3 == 0 then ctx:side("three", n) elseif n % 2 == 0 then ctx:side("two", n) else ctx:emit(n) end
end

describe("a side output", function()
  it("has what was emitted to it, and the main output the rest", function()
    assert.same({ main = { 1, 5 }, two = { 2, 4 }, three = { 3, 6 } }, (collect({}, function(env)
      local s = env:from_values { 1, 2, 3, 4, 5, 6 }:process(sort_out)
      return { main = s, two = s:side("two"), three = s:side("three") }
    end)))
  end)

  it("leads anywhere: through exchanges, keys, several consumers, back into a union", function()
    assert.same({ all = { 1, 2, 3, 4, 5, 6 }, kept = { 2, 4 }, sum = { 2, 6 } }, (collect({ parallelism = 2 },
      function(env)
        local s = env:from_values { 1, 2, 3, 4, 5, 6 }:process(sort_out):uid("sort")
        local two = s:side("two")
        return {
          all = s:union(two, s:side("three")), kept = two,
          sum = two:key_by(function() return "all" end):reduce(function(a, b) return a + b end):uid("fold"),
        }
      end)))
  end)

  it("exists in map, filter, flat_map, reduce and source, too", function()
    local got = collect({}, function(env)
      local source = env:source {
        uid = "s", splits = function() return { 0 } end,
        read = function(ctx, _, at)
          if at == 2 then return nil end
          ctx:side("log", "read " .. (at or 0))
          ctx:emit((at or 0) + 1)
          return (at or 0) + 1
        end,
      }
      local map = source:map(function(n, ctx) ctx:side("log", "map " .. n) return n end)
      local filter = map:filter(function(n, ctx) ctx:side("log", "filter " .. n) return true end)
      local flat = filter:flat_map(function(n, ctx) ctx:side("log", "flat_map " .. n) return { n } end)
      return { main = flat, log = source:side("log"):union(map:side("log"), filter:side("log"), flat:side("log")) }
    end)
    assert.same({ main = { 1, 2 }, log = { "filter 1", "filter 2", "flat_map 1", "flat_map 2", "map 1", "map 2",
                                           "read 0", "read 1" } }, got)
  end)

  it("that is taken twice is one", function()
    assert.same({ a = { 2, 4 }, b = { 2, 4 } }, (collect({}, function(env)
      local s = env:from_values { 2, 3, 4 }:process(sort_out)
      s:side("three"):sink(function() end)
      return { a = s:side("two"), b = s:side("two") }
    end)))
  end)

  it("that nobody reads may be named, and costs nothing", function()
    assert.same({ main = { 1, 5 } }, (collect({}, function(env)
      local s = env:from_values { 1, 2, 3, 4, 5, 6 }:process(sort_out)
      s:side("two")
      s:side("three")
      return { main = s }
    end)))
  end)

  it("that was never taken is refused, with how to take it", function()
    assert.matches("no side output 'two' is used; take it with stream:side(name)", p.failure({}, function(env)
      local s = env:from_values { 2 }:process(sort_out)
      return s
    end), 1, true)
  end)

  it("follows what has side outputs, and is not the main one", function()
    local function refusal(build) return p.failure({}, build) end
    assert.matches("has no side outputs", refusal(function(env)
      local s = env:from_values { 1 }:side("x")
      return s
    end), 1, true)
    assert.matches("has no side outputs", refusal(function(env)
      local s = env:from_values { 1 }:map(function(v) return v end):rebalance():side("x")
      return s
    end), 1, true)
    assert.matches("not 'main'", refusal(function(env)
      local s = env:from_values { 1 }:map(function(v) return v end):side("main")
      return s
    end), 1, true)
  end)

  it("gets a time of its own, if it is given one", function()
    assert.same({ at = { 5, 77 } }, (collect({}, function(env)
      local s = env:from_values { { ts = 5 } }:watermarks { timestamp = "ts" }:process(function(ctx, v)
        ctx:side("x", v)
        ctx:side("x", v, 77)
      end)
      return { at = s:side("x"):process(function(ctx) ctx:emit(ctx.timestamp) end) }
    end)))
  end)
end)

describe("on_error", function()
  local function parse(text) return tonumber(text) or error("no number: " .. text, 0) end

  it("\"skip\" goes on, and puts bad records to the side output 'errors'", function()
    local result
    local got
    got, result = collect({ parallelism = 2 }, function(env)
      local s = env:from_values { "1", "x", "2", "y" }:map(parse, { on_error = "skip", uid = "parse" })
      return { good = s, bad = s:side("errors"):map(function(e) return e.record .. ": " .. e.error end) }
    end)
    assert.same({ good = { 1, 2 }, bad = { "x: no number: x", "y: no number: y" } }, got)
    assert.equals(2, result:metrics("parse").numRecordsSkipped)
  end)

  it("\"skip\" drops and counts them where nobody reads 'errors'", function()
    local got, result = collect({}, function(env)
      return { good = env:from_values { "1", "x", "2" }:map(parse, { on_error = "skip", uid = "parse" }) }
    end)
    assert.same({ good = { 1, 2 } }, got)
    assert.equals(1, result:metrics("parse").numRecordsSkipped)
  end)

  it("may be a function, which may emit in place of the record", function()
    assert.same({ good = { -1, 1, 2 }, bad = { "x, no number: x" } }, (collect({}, function(env)
      local s = env:from_values { "1", "x", "2" }:map(parse, { on_error = function(message, value, ctx)
        ctx:side("bad", value .. ", " .. message)
        ctx:emit(-1)
      end })
      return { good = s, bad = s:side("bad") }
    end)))
  end)

  it("fails with its own error where the function fails", function()
    local message = p.failure({}, function(env)
      return env:from_values { "x" }:map(parse, { uid = "parse", on_error = function() error("worse") end })
    end)
    assert.matches("on_error: ", message, 1, true)
    assert.matches("worse", message, 1, true)
    assert.matches('record: "x"', message, 1, true)
  end)

  it("skips in filter, flat_map, process, reduce and sink, too, with what was emitted before kept", function()
    local sc = require "streamckpt"
    local folder = p.folder()
    local note = p.noter(folder)
    local got = collect({}, function(env)
      local function fail_at(n) return function(v) if v == n then error("at " .. n, 0) end return v end end
      local s = env:from_values { 1, 2, 3, 4, 5, 6 }
      local filter = s:filter(function(v) return fail_at(1)(v) end, { on_error = "skip" })
      local flat = filter:flat_map(function(v) fail_at(2)(v) return { v } end, { on_error = "skip" })
      local process = flat:key_by(function() return 0 end):process {
        uid = "p", on_error = "skip", state = { v = sc.value() },
        on_element = function(ctx, v) ctx:emit(v) fail_at(3)(v) ctx:emit(v * 10) end,
      }
      local reduce = process:key_by(function() return 0 end):reduce(function(a, b)
        return a + fail_at(40)(b)
      end, { on_error = "skip", uid = "fold" })
      process:sink { uid = "sink", on_error = "skip", fn = function(v) fail_at(5)(v) note("sunk", v) end }
      return { errors = filter:side("errors"):union(flat:side("errors"), process:side("errors"),
                                                    reduce:side("errors"))
                 :map(function(e) return e.error end), main = process, sum = reduce }
    end)
    assert.same({ "at 1", "at 2", "at 3", "at 40" }, got.errors)
    assert.same({ 3, 4, 5, 6, 40, 50, 60 }, got.main)
    -- 3 4 5 50 6 60, without 40
    assert.same({ 3, 7, 12, 62, 68, 128 }, got.sum)
    assert.equals("3\n4\n40\n50\n6\n60\n", p.read(folder .. "/sunk"))
  end)

  it("counts what a function returned and cannot be sent as an error of its record", function()
    local got = collect({}, function(env)
      local s = env:from_values { 1, 2 }:map(function(n) return n == 1 and { f = print } or n end,
        { on_error = "skip" })
      return { bad = s:side("errors"):map(function(e) return e.error end), good = s:rebalance() }
    end)
    assert.same({ 2 }, got.good)
    assert.equals(1, #got.bad)
    assert.matches("value.f is a function", got.bad[1], 1, true)
  end)
end)
