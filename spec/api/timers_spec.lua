-- Timers in event time and in processing time, as a script sees them.
local p = require "support.pipeline"
local sc = require "streamckpt"

after_each(p.clean)

-- What a keyed process does with `events`, an array of {k = key, ts = ms, set = {times}, del = {times}}:
-- its timers of event time, in the order in which they fire, as "key time" strings.
local function fired(events, spec, options)
  local process = { uid = "timers", state = { n = sc.value() } }
  for name, value in pairs(spec or {}) do process[name] = value end
  process.on_element = process.on_element or function(ctx, e)
    for _, t in ipairs(e.set or {}) do ctx.timers:event_time(t) end
    for _, t in ipairs(e.del or {}) do ctx.timers:delete("event", t) end
  end
  process.on_timer = process.on_timer or function(ctx, time, domain)
    ctx:emit(("%s %d %s"):format(ctx.key, time, domain))
  end
  return p.rows(options or {}, function(env)
    return env:from_values(events):watermarks { timestamp = "ts" }:key_by("k"):process(process)
  end)
end

describe("timers in event time", function()
  it("fire in the order of their times, each once", function()
    assert.same({ "a 1 event", "a 3 event", "a 5 event" },
      fired { { k = "a", ts = 0, set = { 5, 1, 3, 3, 1 } } })
  end)

  it("belong to a key", function()
    local rows = fired { { k = "a", ts = 0, set = { 10 } }, { k = "b", ts = 0, set = { 10, 20 } } }
    table.sort(rows)
    assert.same({ "a 10 event", "b 10 event", "b 20 event" }, rows)
  end)

  it("can be deleted; one that is not there may be deleted, too", function()
    assert.same({ "a 2 event" },
      fired { { k = "a", ts = 0, set = { 1, 2, 3 }, del = { 1, 99 } }, { k = "b", ts = 0, del = { 2 } },
              { k = "a", ts = 0, del = { 3 } } })
  end)

  it("may be registered by a timer: due ones fire in the same advance", function()
    assert.same({ "a 10 event", "a 12 event", "a 30 event" }, fired({ { k = "a", ts = 0, set = { 10 } } }, {
      on_timer = function(ctx, time, domain)
        ctx:emit(("%s %d %s"):format(ctx.key, time, domain))
        if time == 10 then ctx.timers:event_time(12) end
        if time == 12 then ctx.timers:event_time(30) end
      end,
    }))
  end)

  it("all fire when the input ends, with the end of time as watermark", function()
    assert.same({ { t = 9000, w = math.maxinteger } }, fired({ { k = "a", ts = 0, set = { 9000 } } }, {
      on_timer = function(ctx, time) ctx:emit { t = time, w = ctx.watermark } end,
    }))
  end)

  it("may be of the past: they fire with the next advance, not inside the call", function()
    local folder = p.folder()
    local note = p.noter(folder)
    local job = p.start({}, function(env)
      p.gated(env, folder, { { k = "a", ts = 50 }, { k = "a", ts = 51, set = 20 }, { k = "a", ts = 60 } })
        :watermarks { timestamp = "ts" }:key_by("k")
        :process {
          uid = "p",
          on_element = function(ctx, e)
            if e.set then
              assert(ctx.watermark == 49)
              ctx.timers:event_time(e.set)
              note("log", "set")
            else
              note("log", "element " .. e.ts)
            end
          end,
          on_timer = function(ctx, time) note("log", ("fired %d at %d"):format(time, ctx.watermark)) end,
        }
    end)
    local function log_is(text) return function() return p.read(folder .. "/log") == text end end
    p.let(folder, 1)
    p.wait_for(job, log_is "element 50\n")
    -- The watermark 49 is there when a checkpoint could be taken; a metric shows it.
    p.wait_for(job, function() return job:metrics("p").currentWatermark == 49 end)
    p.let(folder, 2)
    p.wait_for(job, log_is "element 50\nset\nfired 20 at 50\n")
    p.let(folder, "end")
    assert(p.wait(job))
    assert.equals("element 50\nset\nfired 20 at 50\nelement 60\n", p.read(folder .. "/log"))
  end)

  it("registered again by themselves for the same time fire once an advance", function()
    local rows = fired({ { k = "a", ts = 0, set = { 10 } } }, {
      on_timer = function(ctx, time)
        local n = (ctx.state.n:get() or 0) + 1
        ctx.state.n:set(n)
        ctx:emit(n)
        if n < 3 then ctx.timers:event_time(time) end
      end,
    })
    assert.is_true(#rows >= 1 and #rows <= 3)
  end)

  it("see key, state and time, and emit with their time", function()
    local rows = p.rows({}, function(env)
      return env:from_values { { k = "a", ts = 100 } }:watermarks { timestamp = "ts" }:key_by("k")
        :process { uid = "p", state = { seen = sc.value() },
          on_element = function(ctx, e)
            ctx.state.seen:set(e)
            ctx.timers:event_time(e.ts + 50)
          end,
          on_timer = function(ctx, time)
            ctx:emit { key = ctx.key, state = ctx.state.seen:get(), timestamp = ctx.timestamp, time = time }
          end }
        :map(function(v) return v end)
        :process(function(ctx, v) v.later = ctx.timestamp ctx:emit(v) end)
    end)
    assert.same({ { key = "a", state = { k = "a", ts = 100 }, timestamp = 150, time = 150, later = 150 } }, rows)
  end)

  it("are many, over many keys and tasks", function()
    local events = {}
    for i = 1, 500 do events[i] = { k = i, ts = i, set = { i + 1, i + 2, i + 1000 } } end
    local rows = fired(events, {}, { parallelism = 3 })
    assert.equals(1500, #rows)
    local seen = {}
    for _, row in ipairs(rows) do
      assert.is_nil(seen[row])
      seen[row] = true
    end
    for i = 1, 500 do
      for _, t in ipairs { i + 1, i + 2, i + 1000 } do assert.is_true(seen[("%d %d event"):format(i, t)]) end
    end
  end)
end)

describe("timers in processing time", function()
  it("fire when their time has come, after it", function()
    local folder = p.folder()
    local note = p.noter(folder)
    local job = p.start({}, function(env)
      p.gated(env, folder, { { k = "a" } }):key_by("k"):process {
        uid = "p",
        on_element = function(ctx)
          for _, after in ipairs { 30, 10, 20 } do ctx.timers:processing_time(ctx:now() + after) end
        end,
        on_timer = function(ctx, time, domain)
          assert(ctx:now() >= time)
          note("log", ("%s %s"):format(ctx.key, domain))
        end,
      }
    end)
    p.let(folder, 1)
    p.wait_for(job, function()
      return p.read(folder .. "/log") == "a processing\na processing\na processing\n"
    end)
    p.let(folder, "end")
    assert(p.wait(job))
  end)

  it("wait for a few slow records at most, however many fast ones came before", function()
    local values = {}
    for i = 1, 3000 do values[i] = { k = "a", slow = i > 2900 } end
    local rows = p.rows({ parallelism = 1 }, function(env)
      return env:from_values(values):key_by("k"):process {
        uid = "p", state = { slow = sc.value() },
        on_element = function(ctx, e)
          if not e.slow then return end
          local n = ctx.state.slow:get() or 0
          if n == 0 then ctx.timers:processing_time(ctx:now() + 1) end
          ctx.state.slow:set(n + 1)
          local till = ctx:now() + 3
          repeat until ctx:now() > till
        end,
        on_timer = function(ctx) ctx:emit(ctx.state.slow:get()) end,
      }
    end)
    -- A task looks at the clock after 16 records at the latest.
    assert.is_true(rows[1] >= 1 and rows[1] <= 16, rows[1])
  end)

  it("neither fire nor hold up the end of the input", function()
    local rows, result = p.rows({}, function(env)
      return env:from_values { { k = 1 } }:key_by("k"):process {
        uid = "p", on_element = function(ctx) ctx.timers:processing_time(10 ^ 12 * 9) end,
        on_timer = function(ctx) ctx:emit("fired") end,
      }
    end)
    assert.same({}, rows)
    assert.equals("finished", result:status().state)
  end)

  it("that are overdue when they are restored fire at once, without a new record", function()
    local folder = p.folder()
    local note = p.noter(folder)
    local function build(log)
      return function(env)
        p.gated(env, folder, { { k = "a" } }):key_by("k"):process {
          uid = "p", state = { opened = sc.value() }, open = function() note(log, "open") end,
          on_element = function(ctx) ctx.timers:processing_time(ctx:now() + 300) note(log, "set") end,
          on_timer = function(ctx) note(log, "fired " .. ctx.key) end,
        }
      end
    end
    local options = p.checkpointing(folder)
    -- The checkpoint must come before the timer fires, which on a busy machine may take some tries.
    local id
    for try = 1, 10 do
      local log = "first" .. try
      local job = p.start(options, build(log))
      p.let(folder, 1)
      p.wait_for(job, function() return (p.read(folder .. "/" .. log) or ""):find("set") end)
      local taken = assert(job:checkpoint())
      local before = not p.read(folder .. "/" .. log):find("fired")
      p.wait_for(job, function() return p.read(folder .. "/" .. log):find("fired") end)
      job:cancel()
      assert.equals("canceled", p.wait(job).state)
      p.let(folder, 0)
      if before then id = taken break end
    end
    assert.is_number(id)
    local job = p.start(options, build("second"), { from = "latest" })
    p.wait_for(job, function() return (p.read(folder .. "/second") or ""):find("fired") end)
    assert.equals("open\nfired a\n", p.read(folder .. "/second"))
    job:cancel()
    p.wait(job)
  end)

  it("of both kinds come back from a checkpoint with their key, at another parallelism", function()
    local folder = p.folder()
    local events = {}
    for i = 1, 20 do events[i] = { k = i, ts = 1000 } end
    local function build(env)
      return p.gated(env, folder, events):watermarks { timestamp = "ts" }:uid("w"):key_by("k"):process {
        uid = "p",
        on_element = function(ctx) ctx.timers:event_time(5000 + ctx.key) end,
        on_timer = function(ctx, time) ctx:emit { key = ctx.key, time = time } end,
      }
    end
    local options = p.checkpointing(folder)
    local job = p.start(options, build)
    p.let(folder, 20)
    p.wait_for(job, function() return job:metrics("p").numRecordsIn == 20 end)
    assert(job:checkpoint())
    job:cancel()
    p.wait(job)
    p.let(folder, "end")
    options.parallelism = 3
    local rows = p.rows(options, build, { from = "latest" })
    assert.equals(20, #rows)
    table.sort(rows, function(a, b) return a.key < b.key end)
    for i, row in ipairs(rows) do assert.same({ key = i, time = 5000 + i }, row) end
  end)
end)

describe("timers that are misused", function()
  local function failure(on_element, on_timer)
    return p.failure({}, function(env)
      return env:from_values { 1 }:key_by(function(v) return v end)
        :process { uid = "p", on_element = on_element, on_timer = on_timer }
    end)
  end

  it("are refused where nothing would be called", function()
    assert.matches("the operator has no on_timer to call",
      failure(function(ctx) ctx.timers:event_time(1) end), 1, true)
  end)

  it("are refused without a key", function()
    assert.matches("no current key", p.failure({}, function(env)
      return env:from_values { 1 }:process(function(ctx) ctx.timers:event_time(1) end)
    end), 1, true)
  end)

  it("are refused with a time that is none", function()
    local function nothing() end
    assert.matches("must be a number of milliseconds, not a string",
      failure(function(ctx) ctx.timers:event_time("soon") end, nothing), 1, true)
    assert.matches("must be a whole number of milliseconds",
      failure(function(ctx) ctx.timers:event_time(0 / 0) end, nothing), 1, true)
    assert.matches('the domain is "event" or "processing", not late',
      failure(function(ctx) ctx.timers:delete("late", 1) end, nothing), 1, true)
    assert.matches("ctx.timers has no 'at'",
      failure(function(ctx) ctx.timers:at(1) end, nothing), 1, true)
  end)

  it("fail with the timer and its key where on_timer fails", function()
    local message = failure(function(ctx) ctx.timers:event_time(77) end, function() error("bad timer") end)
    assert.matches("bad timer", message, 1, true)
    assert.matches("event-time timer: 77, key 1", message, 1, true)
  end)
end)
