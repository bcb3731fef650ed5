-- Event time: timestamps, watermarks, and how they meet where streams meet.
local p = require "support.pipeline"

after_each(p.clean)

-- Passes values on with what a process sees of time: {v, timestamp, watermark}.
local function see(ctx, v)
  ctx:emit { v = v, timestamp = ctx.timestamp, watermark = ctx.watermark }
end

describe("watermarks", function()
  it("give values the time of a field, or of a function", function()
    for _, timestamp in ipairs { "ts", function(v) return v.ts end } do
      local rows = p.rows({}, function(env)
        return env:from_values { { ts = 7 }, { ts = 9.75 }, { ts = -3 } }:watermarks { timestamp = timestamp }
          :process(function(ctx) ctx:emit(ctx.timestamp) end)
      end)
      assert.same({ 7, 9, -3 }, rows)
    end
  end)

  it("keep the time that a source gave, where none is named", function()
    assert.same({ 1000, 3000 }, p.rows({}, function(env)
      return env:source { uid = "s", splits = function() return { 0 } end, read = function(ctx, _, at)
        if at then return nil end
        ctx:emit("a", 1000)
        ctx:emit("b", 3000)
        return 1
      end }:watermarks {}:process(function(ctx) ctx:emit(ctx.timestamp) end)
    end))
  end)

  it("trail the greatest time by the given disorder and 1 ms, and never go back", function()
    local folder = p.folder()
    local note = p.noter(folder)
    local job = p.start({}, function(env)
      p.gated(env, folder, { 1000, 5000, 2000, 6000 })
        :watermarks { timestamp = function(v) return v end, out_of_orderness = "1s" }
        :process { uid = "see", on_element = function(ctx, v)
          note("log", ("%d %s"):format(v, ctx.watermark == math.mininteger and "none" or ctx.watermark))
        end }
    end)
    for i, watermark in ipairs { -1, 3999, 3999, 4999 } do
      p.let(folder, i)
      p.wait_for(job, function()
        local metrics = job:metrics("see")
        return metrics.numRecordsIn == i and metrics.currentWatermark == watermark
      end)
    end
    p.let(folder, "end")
    assert(p.wait(job))
    assert.equals("1000 none\n5000 -1\n2000 3999\n6000 3999\n", p.read(folder .. "/log"))
    assert.equals(math.maxinteger, job:metrics("see").currentWatermark)
  end)

  it("of several inputs are the least of theirs", function()
    local fast, slow = p.folder(), p.folder()
    local job = p.start({ parallelism = 1 }, function(env)
      local function input(folder, uid)
        local source = p.gated(env, folder, { 1000, 5000, 9000 }):uid(uid)
        return source:watermarks { timestamp = function(v) return v end }
      end
      input(fast, "fast"):union(input(slow, "slow")):process { uid = "see", on_element = function() end }
    end)
    local function watermark_is(w)
      return function()
        local metrics = job:metrics("see")
        return metrics.currentWatermark == w
      end
    end
    p.let(fast, 2)
    p.wait_for(job, function() return job:metrics("see").numRecordsIn == 2 end)
    assert.is_nil(job:metrics("see").currentWatermark)
    p.let(slow, 1)
    p.wait_for(job, watermark_is(999))
    p.let(slow, 3)
    p.wait_for(job, watermark_is(4999))
    -- An input that has ended holds nobody back.
    p.let(slow, "end")
    p.let(fast, 3)
    p.wait_for(job, watermark_is(8999))
    p.let(fast, "end")
    assert(p.wait(job))
  end)

  it("come through every task: keyed timers of all keys fire in time", function()
    local folder = p.folder()
    local values = {}
    for i = 1, 8 do values[i] = { k = i, ts = i } end
    values[9] = { k = 1, ts = 10000 }
    local note = p.noter(folder)
    local job = p.start({ parallelism = 4 }, function(env)
      p.gated(env, folder, values):parallelism(1):watermarks { timestamp = "ts" }:parallelism(1)
        :key_by("k"):process {
          uid = "p", on_element = function(ctx, v) ctx.timers:event_time(v.ts + 5000) end,
          on_timer = function(ctx) note("fired", ctx.key) end,
        }
    end)
    p.let(folder, 8)
    p.wait_for(job, function() return job:metrics("p").numRecordsIn == 8 end)
    assert.is_nil(p.read(folder .. "/fired"))
    p.let(folder, 9)
    p.wait_for(job, function()
      local _, n = (p.read(folder .. "/fired") or ""):gsub("\n", "")
      return n == 8
    end)
    p.let(folder, "end")
    assert(p.wait(job))
  end)

  it("of an operator replace those from before it", function()
    local rows = p.rows({}, function(env)
      return env:from_values { { a = 1, b = 500 } }:watermarks { timestamp = "a" }:watermarks { timestamp = "b" }
        :process(see)
    end)
    assert.equals(500, rows[1].timestamp)
  end)

  it("refuse a value without a time, with the field and the value", function()
    local message = p.failure({}, function(env)
      return env:from_values { { ts = 5 }, { t = 6 } }:watermarks { timestamp = "ts" }:uid("w")
    end)
    assert.matches("w (w) 1/1", message, 1, true)
    assert.matches("ts", message, 1, true)
    assert.matches('{"t": 6}', message, 1, true)
    message = p.failure({}, function(env)
      return env:from_values { { ts = 5 } }:watermarks { timestamp = function(v) return v.no end }
    end)
    assert.matches("returned nil instead of milliseconds", message, 1, true)
    assert.matches('{"ts": 5}', message, 1, true)
    message = p.failure({}, function(env) return env:from_values { 5 }:watermarks {} end)
    assert.matches("timestamp", message, 1, true)
  end)

  it("are not needed where nothing asks for time", function()
    local rows = p.rows({}, function(env)
      return env:from_values { 1 }:process(function(ctx) ctx:emit { ctx.timestamp == nil, ctx.watermark } end)
    end)
    assert.same({ { true, math.mininteger } }, rows)
  end)
end)
