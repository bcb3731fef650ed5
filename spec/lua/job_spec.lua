local fake = require "support.fake_core"
package.loaded["streamckpt.core"] = fake
local sc = require "streamckpt"
local show = require "streamckpt.show"

local function raised(fn)
  local ok, message = pcall(fn)
  assert.is_false(ok)
  local rest = message:match("^spec/lua/job_spec%.lua:%d+: (.*)$")
  assert.is_string(rest, "not raised at the caller's line: " .. tostring(message))
  return rest
end

-- A job and the engine's handle below it.
local function started(prepare)
  fake.prepare = prepare
  local env = sc.env { name = "visits" }
  env:from_values { 1 }
  local job = assert(env:start())
  fake.prepare = nil
  return job, fake.handles[#fake.handles]
end

-- Collect what is written to stderr meanwhile.
local function with_stderr(fn)
  local real, text = io.stderr, {}
  io.stderr = { write = function(_, ...) text[#text + 1] = table.concat({ ... }) end }
  local ok, message = pcall(fn)
  io.stderr = real
  assert(ok, message)
  return table.concat(text)
end

describe("a job", function()
  it("passes on what the engine says", function()
    local job, handle = started()
    assert.equals("visits", job:id())
    assert.equals("finished", job:status().state)
    assert.same({ nil, "ESTALE: checkpoint 7 was aborted", "ESTALE" }, { job:checkpoint() })
    assert.equals(3, job:checkpoints().counts.completed)
    assert.equals(12, job:metrics()[2].numRecordsOut)
    handle.collected.out = { "a" }
    assert.equals("a", job:rows("out")[1])
    assert.equals("ENOTFOUND", select(3, job:rows("in")))
    assert.is_true(job:cancel())
    assert.equals("canceled", job:status().state)
  end)

  it("adds up the metrics of one operator's tasks", function()
    local job = started()
    local sum = job:metrics("m")
    assert.same({ "parse", 1, 2, 5, 7, 14, 750 }, { sum.name, sum.attempt, sum.parallelism, sum.currentWatermark,
      sum.numRecordsIn, sum.numRecordsOut, sum.busyTimeMsPerSecond })
    assert.same({ nil, "ENOTFOUND: no operator has the uid 'n'", "ENOTFOUND" }, { job:metrics("n") })
    local starting = started(function(handle) handle.metrics = function() return {} end end)
    assert.equals(0, starting:metrics("m").numRecordsIn)
    assert.matches("metrics takes the uid of an operator, got 3",
      raised(function() local m = job:metrics(3) return m end))
  end)

  it("prints readably", function()
    local job, handle = started()
    handle.state, handle.last = "running", 7
    assert.equals("streamckpt.job<visits, running, checkpoint 7>", tostring(job))
    assert.equals("running, checkpoint 7", tostring(job:status()))
    handle.error = "EUSER: it broke\nstack traceback: here"
    assert.equals("running, checkpoint 7\nlast failure: EUSER: it broke", tostring(job:status()))
    handle.state, handle.last = "failed", nil
    assert.equals("failed\nEUSER: it broke\nstack traceback: here", tostring(job:status()))
    assert.equals("checkpoints: 3 completed", tostring(job:checkpoints()))
    assert.equals("{ completed = 3, failed = 0, in_progress = 0, restored = 0, triggered = 3 }",
                  tostring(job:checkpoints().counts))
    assert.matches("^operator  task  in  out  busy  idle  backpressured  in queue  watermark\n", tostring(job:metrics()))
    assert.matches("^{\n  attempt = 1,\n", tostring(job:metrics("m")))
    handle.collected.out = {}
    -- One value each: print(job:metrics()) shows no nil beside it.
    assert.same({ 1, 1, 1 }, { select("#", job:checkpoints()), select("#", job:metrics()),
                               select("#", job:rows("out")) })
    assert.equals("{ null }", show.text { sc.null })
    handle.status = function() error("closed") end
    assert.equals("streamckpt.job<visits>", tostring(job))
  end)

  it("refuses misuse at the caller's line", function()
    local job = started()
    assert.equals("a job has no method 'statu'; did you mean 'status'?",
      raised(function() local s = job:statu() return s end))
    assert.equals("job:savepoint is not built yet", raised(function() local s = job:savepoint() return s end))
    assert.matches("write job:status", raised(function() local s = job.status() return s end))
    assert.matches("wait takes a duration", raised(function() local s = job:wait("soon") return s end))
    assert.matches("did you mean 'checkpoint'",
      raised(function() local s = job:on("chekpoint", print) return s end))
    assert.matches("on needs a function", raised(function() local s = job:on("failed") return s end))
  end)
end)

describe("wait", function()
  it("passes the timeout in ms, and gives the status when the job ended", function()
    local job, handle = started()
    assert.equals("finished", job:wait("2s").state)
    assert.same({ 2000 }, handle.waits)
  end)

  it("says when the job still runs", function()
    local job = started(function(handle) handle.on_wait = function() return false end end)
    assert.same({ nil, "ETIMEOUT: the job still runs", "ETIMEOUT" }, { job:wait(5) })
    job = started(function(handle)
      handle.on_wait = function() return nil, "ETIMEOUT: not yet", "ETIMEOUT" end
    end)
    assert.same({ nil, "ETIMEOUT: not yet", "ETIMEOUT" }, { job:wait(5) })
  end)

  it("says why the job failed", function()
    local job = started(function(handle) handle.state, handle.error = "failed", "EUSER: it broke" end)
    assert.same({ nil, "EUSER: it broke", "EUSER" }, { job:wait() })
    job = started(function(handle) handle.state, handle.error = "failed", "it broke" end)
    assert.same({ nil, "EFAILED: it broke", "EFAILED" }, { job:wait() })
    job = started(function(handle) handle.state = "failed" end)
    assert.same({ nil, "EFAILED: the job failed", "EFAILED" }, { job:wait() })
  end)

  it("runs callbacks meanwhile", function()
    local job, handle = started()
    local seen, turns = {}, 0
    handle.on_wait = function(self)
      turns = turns + 1
      self.events = { { type = "checkpoint", id = turns } }
      return turns == 3
    end
    job:on("checkpoint", function(event) seen[#seen + 1] = event.id end)
    assert.equals("finished", job:wait().state)
    assert.same({ 1, 2, 3 }, seen)
  end)

  it("keeps to the timeout while there are callbacks", function()
    local job, handle = started()
    handle.on_wait = function() return false end
    job:on("checkpoint", function() end)
    assert.equals("ETIMEOUT", select(3, job:wait(120)))
    assert.same({ 50, 50, 20 }, handle.waits)
  end)
end)

describe("callbacks", function()
  it("run inside every method, each for its event, in order", function()
    local job, handle = started()
    local seen = {}
    job:on("checkpoint", function(event) seen[#seen + 1] = "a" .. event.id end)
    job:on("checkpoint", function(event) seen[#seen + 1] = "b" .. event.id end)
    job:on("failed", function() seen[#seen + 1] = "failed" end)
    handle.events = { { type = "checkpoint", id = 1 }, { type = "restarting" }, { type = "failed" } }
    job:id()
    assert.same({ "a1", "b1", "failed" }, seen)
    job:status()
    assert.equals(3, #seen)
  end)

  it("wait in the handle while there are none", function()
    local job, handle = started()
    handle.events = { { type = "checkpoint", id = 1 } }
    job:status()
    local seen
    job:on("checkpoint", function(event) seen = event.id end)
    assert.equals(1, seen)
  end)

  it("can be removed, by themselves too", function()
    local job, handle = started()
    local count, remove = 0, nil
    remove = job:on("checkpoint", function() count = count + 1 remove() end)
    handle.events = { { type = "checkpoint" }, { type = "checkpoint" } }
    job:id()
    assert.equals(1, count)
    remove()
  end)

  it("may call methods of the job", function()
    local job, handle = started()
    local states = {}
    job:on("checkpoint", function() states[#states + 1] = job:status().state end)
    handle.events = { { type = "checkpoint" } }
    job:id()
    assert.same({ "finished" }, states)
  end)

  it("that raise are reported and change nothing else", function()
    local job, handle = started()
    local later
    job:on("checkpoint", function() error("oops") end)
    job:on("checkpoint", function() later = true end)
    handle.events = { { type = "checkpoint" } }
    local text = with_stderr(function() job:id() end)
    assert.matches("error in the callback for 'checkpoint': .*oops\nstack traceback", text)
    assert.is_true(later)
  end)

  it("go on after the engine's handle raised", function()
    local job, handle = started()
    local seen
    job:on("checkpoint", function() seen = true end)
    local poll_events = handle.poll_events
    handle.poll_events = function() error("closed") end
    assert.has_error(function() job:id() end)
    handle.poll_events = poll_events
    handle.events = { { type = "checkpoint" } }
    job:id()
    assert.is_true(seen)
  end)
end)

describe("Ctrl-C in a callback", function()
  it("raises for who called the method, when all callbacks have run", function()
    local job, handle = started()
    local seen = {}
    job:on("checkpoint", function(event)
      seen[#seen + 1] = event.id
      if event.id == 1 then error("interrupted!") end
    end)
    job:on("checkpoint", function(event) seen[#seen + 1] = -event.id end)
    handle.events = { { type = "checkpoint", id = 1 }, { type = "checkpoint", id = 2 } }
    local text = with_stderr(function()
      assert.matches("job_spec.lua:%d+: interrupted!$", select(2, pcall(job.id, job)))
    end)
    assert.equals("", text)
    assert.same({ 1, -1, 2, -2 }, seen)
    handle.events = { { type = "checkpoint", id = 3 } }
    job:id()
    assert.same({ 1, -1, 2, -2, 3, -3 }, seen)
  end)

  it("raises also where it comes between callbacks", function()
    local job, handle = started()
    local seen = false
    job:on("checkpoint", function() seen = true end)
    local poll_events = handle.poll_events
    handle.poll_events = function() error("interrupted!", 0) end
    assert.equals("interrupted!", select(2, pcall(job.wait, job)))
    handle.poll_events = poll_events
    handle.events = { { type = "checkpoint" } }
    job:id()
    assert.is_true(seen)
  end)
end)

describe("a luv loop", function()
  -- A loop of our own making: it keeps what was registered, and a spec turns it.
  local polls
  before_each(function()
    polls = {}
    package.loaded.luv = { new_poll = function(fd)
      local poll = { fd = fd }
      function poll:start(what, fn) self.what, self.fn, self.stopped = what, fn, nil end
      function poll:stop() self.stopped = true end
      -- luv would look into it when the interpreter ends, and it is gone by then.
      function poll:close() error("a handle must not be about to close when its loop may not run again") end
      function poll:is_closing() return false end
      polls[#polls + 1] = poll
      return poll
    end }
  end)
  after_each(function() package.loaded.luv = nil end)

  it("delivers events, until the last one", function()
    local job, handle = started(function(h) h.descriptor = 9 end)
    local seen = {}
    job:on("checkpoint", function(event) seen[#seen + 1] = event.id end)
    job:on("finished", function() seen[#seen + 1] = "finished" end)
    assert.equals(1, #polls)
    assert.same({ 9, "r" }, { polls[1].fd, polls[1].what })
    handle.events = { { type = "checkpoint", id = 4 } }
    polls[1].fn()
    assert.same({ 4 }, seen)
    assert.is_nil(polls[1].stopped)
    handle.events = { { type = "finished" } }
    polls[1].fn()
    assert.same({ 4, "finished" }, seen)
    assert.is_true(polls[1].stopped)
  end)

  it("is left when the last callback is removed, and never gets an error", function()
    local job, handle = started(function(h) h.descriptor = 9 end)
    local remove = job:on("checkpoint", function() end)
    remove()
    assert.is_true(polls[1].stopped)
    polls[1].fn() -- a last call that was under way finds nothing
    job:on("checkpoint", function() end)
    assert.equals(1, #polls)
    assert.is_nil(polls[1].stopped)
    handle.poll_events = function() error("gone") end
    local text = with_stderr(function() polls[1].fn() end)
    assert.matches("events of job 'visits' are lost: .*gone", text)
    assert.is_true(polls[1].stopped)
  end)

  it("ends by Ctrl-C in a callback, as in any of its callbacks", function()
    local job, handle = started(function(h) h.descriptor = 9 end)
    job:on("checkpoint", function() error("interrupted!") end)
    handle.events = { { type = "checkpoint" } }
    local text = with_stderr(function()
      assert.matches("interrupted!$", select(2, pcall(polls[1].fn)))
    end)
    assert.equals("", text)
    assert.is_nil(polls[1].stopped)
  end)

  it("is not touched while there is none, or no descriptor", function()
    local job = started()
    job:on("checkpoint", function() end)
    assert.equals(0, #polls)
    package.loaded.luv = nil
    job = started(function(h) h.descriptor = 9 end)
    job:on("checkpoint", function() end)
    assert.equals(0, #polls)
  end)
end)

describe("tables", function()
  it("print sorted, short ones on a line, long ones indented", function()
    assert.equals("{ a = 1, b = \"x\", c = { 1, 2 } }", show.text { b = "x", c = { 1, 2 }, a = 1 })
    assert.equals("{}", show.text {})
    local long = show.text { first = ("x"):rep(50), second = ("y"):rep(50) }
    assert.equals(('{\n  first = "%s",\n  second = "%s",\n}'):format(("x"):rep(50), ("y"):rep(50)), long)
    local circle = {}
    circle.self = circle
    assert.matches("{%.%.%.}", show.text(circle))
  end)
end)
