-- Checkpoints of jobs under back-pressure, whose barriers overtake, and which are lost at each of their
-- steps in turn: afterwards no buffer that was captured is out of the pool, and nothing is lost or twice.
-- gate --hash k--> tally --rebalance--> file sink (support/gated_operators.h), two tasks each, a slot a
-- pair of all three.
local probe = require "streamckpt.probe"
local gated_job = require "support.gated_job"
local msgpack = require "support.msgpack"
local temp_dir = require "support.temp_dir"

local exists, wait_for = gated_job.exists, gated_job.wait_for

-- So many that no pressed count comes to their end in the time that a spec takes.
local SPLITS, KEYS, EACH = 3, 7, 6000

describe("an overtaking checkpoint", function()
  local dir, engine, job

  local function start(more)
    local options = { dir = dir .. "/ckpt", out = dir .. "/out", parallelism = 2, unaligned = 1, attempts = 3 }
    for k, v in pairs(more or {}) do options[k] = v end
    job = assert(engine:start(options))
  end

  local function file(id, name) return exists(("%s/ckpt/job/chk-%d/%s"):format(dir, id, name)) end

  -- Some task had kept something; which one depends on where the records stood.
  local function kept(id)
    local list <close> = assert(io.popen(("ls '%s/ckpt/job/chk-%d'"):format(dir, id)))
    return list:read("a"):find("%.inflight\n") ~= nil
  end

  before_each(function()
    dir = temp_dir.create()
    engine = probe.job_engine(SPLITS)
  end)

  after_each(function()
    engine:destroy() -- which finds the pools of all attempts full, or ends this process
    temp_dir.remove(dir)
  end)

  -- Until the queues in front of the counts are full: a gate has four exclusive and four floating
  -- buffers, and the gates of two counts are full where more than half of that is out.
  local function press()
    engine:press(true)
    engine:allow(EACH)
    wait_for("the job is not pressed", function() return job:buffers() > 8 and job:records("tally") > 20 end)
  end

  local function assert_exactly_once()
    local seen, lines, total = {}, 0, SPLITS * EACH
    local list <close> = assert(io.popen("cat '" .. dir .. "'/out/*.json"))
    for line in list:lines() do
      local k, n = line:match('^{"k":(%d+),"n":(%d+)}$')
      assert.is_nil(seen[k .. "/" .. n], line)
      seen[k .. "/" .. n], lines = true, lines + 1
    end
    assert.equal(total, lines)
    for k = 0, KEYS - 1 do
      for n = 1, (total - k + KEYS - 1) // KEYS do assert.truthy(seen[k .. "/" .. n]) end
    end
  end

  -- All that is in flight arrives, and with it every buffer is back; then the job goes on to its end.
  local function recover(attempt)
    engine:press(false)
    wait_for("buffers are missing", function()
      assert(not job:status().error or attempt > 1, job:status().error)
      return job:status().attempt == attempt and job:status().state == "running" and job:buffers() == 0
    end)
    assert(job:checkpoint())
    wait_for("buffers are missing", function() return job:buffers() == 0 end)
    engine:finish()
    local status = job:wait()
    assert.same({ "finished", attempt }, { status.state, status.attempt }, status.error)
    assert_exactly_once()
  end

  for _, case in ipairs {
    { "create", "inflight" }, { "write", "inflight" }, { "sync", "inflight" }, { "rename", "inflight" },
    { "create", ".keys" }, { "write", ".keys" }, { "sync", ".keys" }, { "rename", ".keys" },
    { "sync_dir", "chk-2" }, { "write", "_metadata" }, { "sync", "_metadata" }, { "rename", "_metadata" },
    { "make_dir", "chk-2" },
  } do
    for _, per_file in ipairs(case[2] == "inflight" and { 1, 5 } or { 5 }) do
      it(("gives its buffers back where the %s of %s fails, %d tasks to a file"):format(case[1], case[2],
        per_file), function()
        start { per_file = per_file }
        press()
        assert.equal(1, assert(job:checkpoint()))
        assert.is_true(kept(1), "nothing was in flight")
        engine:fail(case[1], case[2], 1)
        local id, message = job:checkpoint()
        assert.is_nil(id)
        assert.matches("checkpoint 2 was not taken", message)
        assert.equal(1, engine:failed())
        assert.equal(1, job:status().last)
        recover(1)
      end)
    end
  end

  -- The second reader is held up, its slot with it: the first count has begun (it has written its state),
  -- and captures what comes over the channel whose barrier does not. Then it is given up.
  local function half_way(more)
    start(more)
    press()
    engine:plug(1)
    wait_for("nobody comes to the plug", function() return engine:plugged() end)
    local ticket = job:ask()
    wait_for("the count does not begin", function() return file(1, "tally-n1-0-a1.keys") end)
    return ticket
  end

  it("counts what is processed between its first barrier and its last, behind its start, too", function()
    local ticket = half_way { floating = 1000 } -- or the first count would wait for the second sink
    local before = job:records("tally")
    wait_for("the count stands still", function() return job:records("tally") >= before + 100 end)
    engine:plug()
    local id = assert(job:answer(ticket))
    local shown = msgpack.decode(job:statistics()).history[1]
    assert.equal(id, shown.id)
    for _, task in ipairs(shown.tasks) do
      if task.name:find "^tally 1/2" then
        -- Of each channel a buffer may have been begun before; a record has 16 bytes at least.
        assert.is_true(task.processed_data >= 100 * 16 - 2 * 256, task.processed_data)
        assert.is_true(task.alignment_duration > 0)
      end
    end
    assert.is_true(shown.processed_data >= 100 * 16 - 2 * 256)
    recover(1)
  end)

  it("gives its buffers back where it expires half-way", function()
    local ticket = half_way { timeout_ms = 2000 }
    local id, message = job:answer(ticket)
    assert.is_nil(id)
    assert.matches("expired", message)
    engine:plug()
    recover(1)
  end)

  it("gives its buffers back where it is declined half-way", function()
    start()
    press()
    engine:plug(1)
    wait_for("nobody comes to the plug", function() return engine:plugged() end)
    engine:fail("write", ".keys", 1)
    local id, message = job:checkpoint()
    assert.is_nil(id)
    assert.matches("could not write its part", message)
    engine:plug()
    recover(1)
  end)

  it("gives its buffers back where a task fails half-way", function()
    local ticket = half_way()
    engine:break_gate() -- the reader that is held up, as soon as it is not, before its trigger
    engine:plug()
    assert.is_nil((job:answer(ticket)))
    recover(2)
  end)

  it("gives its buffers back where the job is cancelled half-way", function()
    local ticket = half_way()
    job:cancel()
    engine:plug()
    assert.is_nil((job:answer(ticket)))
    assert.equal("canceled", job:wait().state)
    start { from = "latest" }
    recover(job:wait("running").attempt)
  end)

  for _, drain in ipairs { false, true } do
    it(("gives its buffers back where a stop %s drain comes half-way"):format(drain and "with" or "without"),
      function()
        half_way()
        local stop = job:ask_stop(drain)
        engine:plug()
        engine:press(false)
        assert(job:answer(stop))
        assert.equal("finished", job:wait().state)
        if drain then return end
        start { from = "latest" }
        recover(job:wait("running").attempt)
      end)
  end
end)
