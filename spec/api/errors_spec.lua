-- What a failing user function ends in: a sentence that says where, on what, and what comes next.
local p = require "support.pipeline"
local sc = require "streamckpt"

after_each(p.clean)

local function explode(v)
  if v == 3 then error("three is one too many") end
  return v
end

describe("an error in a user's function", function()
  it("ends the job with operator, uid, task, record and traceback", function()
    local message = p.failure({ id = "doomed", name = "Doomed" }, function(env)
      return env:from_values { 1, 2, 3 }:map(explode):uid("ex"):name("explode"):parallelism(1)
    end)
    assert.matches("job 'Doomed' failed: EUSER: explode (ex) 1/1: ", message, 1, true)
    assert.matches("errors_spec.lua:%d+: three is one too many", message)
    assert.matches("record: 3", message, 1, true)
    assert.matches("stack traceback:\n", message, 1, true)
    assert.matches("errors_spec.lua:%d+: in function <spec/api/errors_spec.lua:%d+>", message)
    local _, times = message:gsub("three is one too many", "")
    assert.equals(1, times)
  end)

  it("names the task that it happened in", function()
    local message = p.failure({ parallelism = 3 }, function(env)
      return env:from_values { "a", "b", "c" }:rebalance()
        :map(function(v, ctx) if ctx.subtask == 2 then error("here") end return v end):uid("m")
    end)
    assert.matches("m (m) 3/3: ", message, 1, true)
  end)

  it("shortens a large record", function()
    local message = p.failure({}, function(env)
      return env:from_values { ("x"):rep(100000) }:map(function() error("big") end):uid("m")
    end)
    assert.is_true(#message < 2000, #message)
    assert.matches('record: "xxxx', message, 1, true)
    assert.matches("...", message, 1, true)
  end)

  it("may be any value", function()
    local function failure(value)
      return p.failure({}, function(env)
        return env:from_values { 1 }:map(function() error(value) end):uid("m")
      end)
    end
    assert.matches("m (m) 1/1: (error object is a table: {", failure { code = 7 }, 1, true)
    assert.matches('"code": 7', failure { code = 7 }, 1, true)
    assert.matches("nil", failure(nil), 1, true)
    assert.matches("42", failure(42), 1, true)
    assert.matches("I am an error", p.failure({}, function(env)
      return env:from_values { 1 }:map(function()
        error(setmetatable({}, { __tostring = function() return "I am an error" end }))
      end)
    end), 1, true)
  end)

  it("of Lua itself names line and variable", function()
    local message = p.failure({}, function(env)
      return env:from_values { { a = 1 } }:map(function(v) return v.b.c end):uid("m")
    end)
    assert.matches("attempt to index a nil value %(field 'b'%)", message)
    assert.matches("errors_spec.lua:%d+:", message)
  end)

  it("from a recursion without an end is an error like others", function()
    local message = p.failure({}, function(env)
      return env:from_values { 1 }:map(function() local function f() return 1 + f() end return f() end):uid("m")
    end)
    assert.matches("stack overflow", message, 1, true)
  end)

  it("may be caught by the function itself", function()
    assert.same({ "caught", "caught" }, p.rows({}, function(env)
      return env:from_values { 1, 2 }:map(function()
        local ok = pcall(error, "inner")
        return ok and "missed" or "caught"
      end)
    end))
  end)

  -- In a process of its own: an engine that is taken down from one of its own threads crashes.
  it("is raised where a function of a job starts another one, or simulates one", function()
    local out, err, code = p.script([[
      local sc = require "streamckpt"
      for _, call in ipairs { "execute", "start", "simulate" } do
        local env = sc.env { log = { level = "off" } }
        env:from_values { 1 }:map(function()
          local inner = sc.env { name = "inner", log = { level = "off" } }
          inner:from_values { 2 }:collect():uid("c")
          if call == "start" then return select(2, inner:start()) end
          if call == "simulate" then return tostring(require("streamckpt.testing").simulate(inner, 1)) end
          return select(2, pcall(inner.execute, inner))
        end):collect():uid("c")
        print(env:execute():rows("c")[1])
      end
    ]], p.folder())
    assert.equals("", err)
    assert.equals(0, code)
    local _, starts = out:gsub("EINVAL: a function of a job cannot start another one: that is for the script", "")
    local _, simulations = out:gsub("EINVAL: a function of a job cannot simulate another one", "")
    assert.same({ 2, 1 }, { starts, simulations }, out)
  end)

  it("in open ends the job before a record is seen; one in close is only logged", function()
    local folder = p.folder()
    local message = p.failure({}, function(env)
      return env:from_values { 1 }:process {
        uid = "p", open = function() error("cannot open") end,
        on_element = function() io.open(folder .. "/seen", "w"):close() end,
      }
    end)
    assert.matches("p (p) 1/1: open: ", message, 1, true)
    assert.matches("cannot open", message, 1, true)
    assert.same({}, p.files(folder))
    local log = folder .. "/log"
    local rows = p.rows({ log = { level = "off", file = log } }, function(env)
      return env:from_values { 1 }:process {
        uid = "p", close = function() error("cannot close") end, on_element = function(ctx, v) ctx:emit(v) end,
      }
    end)
    assert.same({ 1 }, rows)
    assert.matches("ERROR %[%S+ #1%] p %(p%) 1/1: close: [^\n]*cannot close\n", p.read(log))
  end)

  it("is the same sentence in execute, wait, status and the failed event", function()
    local seen
    local job = p.start({}, function(env) return env:from_values { 3 }:map(explode):uid("ex") end)
    job:on("failed", function(event) seen = event.error end)
    local status, message, code = p.wait(job)
    assert.is_nil(status)
    assert.equals("EUSER", code)
    assert.matches("^EUSER: ex %(ex%) 1/1: .*three is one too many", message)
    assert.equals(message, job:status().error)
    assert.equals("EUSER", job:status().error_code)
    assert.equals("failed", job:status().state)
    assert.equals(message, seen)
    assert.matches("^failed\n", tostring(job:status()))
  end)

  it("keeps what earlier checkpoints released, and releases nothing after them", function()
    local folder = p.folder()
    local options = p.checkpointing(folder, { restart = { strategy = "none" } })
    local job = p.start(options, function(env)
      return p.gated(env, folder, { 1, 2, 4, 3, 5 }):map(explode):uid("ex")
    end)
    p.let(folder, 3)
    p.wait_for(job, function() return job:metrics("ex").numRecordsIn == 3 end)
    assert(job:checkpoint())
    p.let(folder, "end")
    local status, message = p.wait(job)
    assert.is_nil(status)
    assert.matches("three is one too many", message, 1, true)
    local rows = job:rows("rows")
    assert.same({ 1, 2, 4 }, { table.unpack(rows) })
    assert.equals(1, job:status().last_checkpoint)
  end)
end)

describe("restarts", function()
  -- A failure that happens once: the file says that it has been.
  local function once(folder)
    return function(v)
      if v == 3 and not io.open(folder .. "/failed") then
        io.open(folder .. "/failed", "w"):close()
        error("once")
      end
      return v
    end
  end

  it("do not happen before the first checkpoint: a typing error must not loop", function()
    local folder = p.folder()
    local options = p.checkpointing(folder, { restart = { strategy = "fixed_delay", attempts = 100, delay = 0 } })
    local fail = once(folder)
    local message = p.failure(options, function(env)
      return env:from_values { 1, 2, 3, 4 }:map(function(v) return fail(v) end):uid("m")
    end)
    assert.matches("once", message, 1, true)
  end)

  it("go back to the last checkpoint, and give the rows of an undisturbed run", function()
    local folder = p.folder()
    local options = p.checkpointing(folder, { restart = { strategy = "fixed_delay", attempts = 3, delay = 0 } })
    local fail = once(folder)
    local events = {}
    local job = p.start(options, function(env)
      return p.gated(env, folder, { 1, 2, 3, 4 }):map(function(v) return fail(v) end):uid("m")
        :key_by(function() return "all" end)
        :process { uid = "sum", state = { n = sc.value() }, on_element = function(ctx, v)
          ctx.state.n:set((ctx.state.n:get() or 0) + v)
          ctx:emit(ctx.state.n:get())
        end }
    end)
    job:on("restarting", function(event) events[#events + 1] = event end)
    p.let(folder, 2)
    p.wait_for(job, function() return job:metrics("sum").numRecordsIn == 2 end)
    assert(job:checkpoint())
    p.let(folder, "end")
    local status = assert(p.wait(job))
    assert.equals("finished", status.state)
    assert.equals(1, status.restarts)
    assert.equals(2, status.attempt)
    assert.same({ 1, 3, 6, 10 }, { table.unpack(job:rows("rows")) })
    assert.equals(1, #events)
    assert.matches("once", events[1].error, 1, true)
    assert.matches("1 restart", tostring(status), 1, true)
  end)

  it("end when their number is used up", function()
    local folder = p.folder()
    local options = p.checkpointing(folder, { restart = { strategy = "fixed_delay", attempts = 2, delay = 0 } })
    local note = p.noter(folder)
    local job = p.start(options, function(env)
      return p.gated(env, folder, { 1, 3 }):map(function(v)
        if v == 3 then
          note("tries", "x")
          error("always")
        end
        return v
      end):uid("m")
    end)
    p.let(folder, 1)
    p.wait_for(job, function() return job:metrics("m").numRecordsIn == 1 end)
    assert(job:checkpoint())
    p.let(folder, "end")
    local status, message = p.wait(job)
    assert.is_nil(status)
    assert.matches("always", message, 1, true)
    assert.equals(2, job:status().restarts)
    assert.equals("x\nx\nx\n", p.read(folder .. "/tries"))
  end)

  it("build every function anew: what a function kept is gone, what state kept is not", function()
    local folder = p.folder()
    local options = p.checkpointing(folder, { restart = { strategy = "fixed_delay", attempts = 1, delay = 0 } })
    local fail, calls = once(folder), 0
    local job = p.start(options, function(env)
      return p.gated(env, folder, { 1, 2, 3, 4 }):map(function(v)
        calls = calls + 1
        fail(v)
        return { v = v, calls = calls }
      end):uid("m")
    end)
    p.let(folder, 2)
    p.wait_for(job, function() return job:metrics("m").numRecordsIn == 2 end)
    assert(job:checkpoint())
    p.let(folder, "end")
    assert(p.wait(job))
    local rows = job:rows("rows")
    assert.same({ v = 2, calls = 2 }, rows[2])
    assert.same({ v = 3, calls = 1 }, rows[3])
    assert.equals(0, calls)
  end)
end)
