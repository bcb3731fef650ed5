-- What slow checkpoints of whole jobs are explained with, where that is no user's function (those are in
-- spec/api/explain_spec): the storage, data in flight, another checkpoint. What is slow is held until it has
-- taken longer than all before it.
-- gate --hash k--> tally --rebalance--> file sink (support/gated_operators.h).
local gated_job = require "support.gated_job"
local msgpack = require "support.msgpack"
local probe = require "streamckpt.probe"
local temp_dir = require "support.temp_dir"
local uv = require "luv"

local LOST_AFTER_S = require "support.lost_after" / 1000
local SPLITS, EXPLAIN_AFTER_MS = 3, 50

describe("a job's slow checkpoint is explained by", function()
  local dir, engine, job

  before_each(function()
    dir = temp_dir.create()
    engine = probe.job_engine(SPLITS)
  end)

  after_each(function()
    engine:destroy()
    temp_dir.remove(dir)
  end)

  local function start(more)
    local options = { dir = dir .. "/ckpt", out = dir .. "/out", explain_after = EXPLAIN_AFTER_MS }
    for k, v in pairs(more or {}) do options[k] = v end
    job = assert(engine:start(options))
  end

  local function wait_for(what, condition) gated_job.wait_for(what, condition, LOST_AFTER_S) end

  local function entry(id)
    for _, e in ipairs(msgpack.decode(job:statistics()).history) do
      if e.id == id then return e end
    end
  end

  -- Take a checkpoint that comes to something that waits (`waits` says so), and let it go on when it has
  -- waited for so long that nothing else of it can have taken half as much.
  local function delayed(waits, go_on)
    local asked = uv.hrtime()
    local ticket = job:ask()
    wait_for("the checkpoint does not come to what is held", waits)
    local came = uv.hrtime()
    local long = 3 * (came - asked) + 10 * EXPLAIN_AFTER_MS * 1e6
    wait_for("time stands still", function() return uv.hrtime() - came > long end)
    go_on()
    return entry(assert(job:answer(ticket)))
  end

  -- ... to such calls of the storage.
  local function held(operation, text, calls)
    engine:hold(operation, text)
    return delayed(function() return engine:held() >= (calls or 1) end, function() engine:release() end)
  end

  local function finish(each)
    engine:press(false)
    engine:allow(each)
    engine:finish()
    local status = job:wait()
    assert.equal("finished", status.state, status.error)
  end

  local function arrived(count)
    wait_for("the values do not arrive", function() return job:records("out") >= count end)
  end

  for _, case in ipairs {
    { "is slow to make the folder", "make_dir", "/chk-", "to make its folder" },
    { "is slow to write keyed state", "write", ".keys", "to write the [%d.]+ k?B of tally" },
    { "is slow to sync keyed state", "sync", ".keys", "to write the [%d.]+ k?B of tally" },
    { "is slow to name keyed state", "rename", ".keys", "to write the [%d.]+ k?B of tally" },
    { "is slow to sync a sink's file", "sync", "/out/", "to write the [%d.]+ k?B of out" },
    { "is slow to write _metadata", "sync", "_metadata", "to write its _metadata" },
  } do
    it("a storage that " .. case[1], function()
      start()
      engine:allow(100)
      arrived(SPLITS * 100)
      local e = held(case[2], case[3])
      assert.equal("slow_storage", e.cause, e.explanation)
      assert.matches("of which the storage took [%d.]+ m?s " .. case[4], e.explanation)
      finish(100)
    end)
  end

  it("a snapshot whose synchronous part is slow", function()
    start()
    engine:allow(100)
    arrived(SPLITS * 100)
    engine:stall(true)
    local e = delayed(function() return engine:stalled() end, function() engine:stall(false) end)
    assert.equal("slow_snapshot", e.cause, e.explanation)
    assert.matches("the synchronous part of the snapshot of gate 1/1 took [%d.]+ m?s, in which it reads no records",
      e.explanation)
    finish(100)
  end)

  it("a storage that keeps all threads of the pool from the others", function()
    start { parallelism = 4 }
    engine:allow(100)
    arrived(SPLITS * 100)
    local e = held("sync", ".keys", 2) -- the pool has two threads
    assert.equal("slow_storage", e.cause, e.explanation)
    assert.matches("to write the [%d.]+ k?B of tally", e.explanation)
    finish(100)
  end)

  it("a storage that is slow to write a little that was in flight", function()
    start { parallelism = 2, unaligned = 1 }
    engine:press(true)
    engine:allow(5000)
    wait_for("the job is not pressed", function() return job:buffers() > 8 and job:records("tally") > 20 end)
    local e = held("sync", ".inflight")
    assert.equal("slow_storage", e.cause, e.explanation)
    assert.is_true(e.persisted_data > 0)
    finish(5000)
  end)

  -- The slot of the second reader stands still: everybody waits for its barrier, some of them in their
  -- asynchronous parts. What such a native operator does is not known, but where it was is.
  for _, case in ipairs {
    { "all align", {} },
    { "it is captured, and a file shared", { unaligned = 1 } },
    { "it may be moved later", { unaligned = 1, aligned_timeout = 3600000 } },
  } do
    it("who is late, and no writing that waits for it, where " .. case[1], function()
      case[2].parallelism = 2
      start(case[2])
      engine:allow(100)
      arrived(SPLITS * 100)
      engine:plug(1)
      wait_for("the reader does not come to the plug", function() return engine:plugged() end)
      local e = delayed(function() return entry(1) end, function() engine:plug() end)
      assert.equal("unknown", e.cause, e.explanation)
      -- All of that slot are late, and whichever of them is named is rightly.
      local who = e.explanation:match(": (gate 2/2) began its part only after [%d.]+ m?s")
        or e.explanation:match("reached (%l+ 2/2) last, after [%d.]+ m?s")
      assert.truthy(who, e.explanation)
      assert.matches("; what it did meanwhile is not known", e.explanation, 1, true)
      finish(100)
    end)
  end

  -- A count that is slower than the source, but leaves its slot between two records; its queue is full.
  local function press(options)
    start(options)
    engine:press(true)
    engine:allow(math.maxinteger // SPLITS)
    wait_for("the queue does not fill", function()
      return job:buffers() >= options.floating and job:records("tally") > 20
    end)
  end

  -- Take checkpoints until one is explained by this; whatever else was slow for once, is not so always.
  local function explained(cause)
    local e
    wait_for("none is explained by " .. cause, function()
      e = entry(assert(job:checkpoint()))
      return e.cause == cause
    end)
    job:cancel()
    assert.equal("canceled", job:wait().state)
    return e
  end

  it("data in flight, which an aligned barrier stands behind", function()
    press { floating = 200, explain_after = 1 }
    local e = explained "in_flight_data"
    assert.matches("the barrier from gate 1/1 reached tally 1/1 last, after [%d.]+ m?s behind [%d.]+ kB of records; so much "
      .. "data was in flight: let barriers overtake it", e.explanation)
  end)

  it("data in flight, which an unaligned checkpoint keeps", function()
    press { floating = 600, segment = 32768, unaligned = 1, explain_after = 1 }
    local e = explained "in_flight_data"
    assert.matches("gate 1/1 kept [%d.]+ MB of data that was in flight, for which its asynchronous part took",
      e.explanation)
    assert.is_true(e.persisted_data > 600 * 32768 // 2)
  end)
end)
