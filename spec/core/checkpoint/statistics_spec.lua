local msgpack = require "support.msgpack"
local probe = require "streamckpt.probe"

local function decoded(s) return msgpack.decode(probe.statistics_encode(s)) end

local function ids(history)
  local out = {}
  for i, e in ipairs(history) do out[i] = e.id .. " " .. e.status end
  return table.concat(out, ", ")
end

-- Statistics of tasks with so many subtasks each: task1, task2, ...
local function statistics(history, ...)
  local s = probe.statistics_new(history)
  for i, n in ipairs { ... } do probe.statistics_add_task(s, "task" .. i, n) end
  return s
end

describe("statistics", function()
  it("is empty in the beginning", function()
    assert.same({ counts = { triggered = 0, in_progress = 0, completed = 0, failed = 0, restored = 0 },
      latest = {}, history = {} }, decoded(statistics(10, 2)))
  end)

  it("tells of a checkpoint, its tasks and subtasks what was acknowledged", function()
    local s = statistics(10, 1, 2)
    probe.statistics_triggered(s, 7, 1000, { manual = true })
    -- 300 + 5 + 20 bytes are referred to, of which this checkpoint wrote 320.
    probe.statistics_ack(s, 7, 1030, { task = 1, bytes = 320, keyed = 300, list = "12345", inflight = 20,
      alignment_bytes = 40, persisted_bytes = 15, sync_ns = 1500000, async_ns = 20000000,
      alignment_ns = 250000, start_delay_ns = 3000000 })
    local e = decoded(s).history[1]
    assert.equal("in_progress", e.status)
    assert.equal(30.0, e.end_to_end_duration)
    assert.equal(1, e.num_acknowledged_subtasks)
    assert.same({ name = "task1", status = "in_progress", num_subtasks = 1, num_acknowledged_subtasks = 0,
      checkpointed_size = 0, state_size = 0, processed_data = 0, persisted_data = 0,
      subtasks = { { index = 0, acknowledged = false, finished = false } } }, e.tasks[1])
    assert.same({ name = "task2", status = "in_progress", num_subtasks = 2, num_acknowledged_subtasks = 1,
      latest_ack_timestamp = 1030, end_to_end_duration = 30.0, checkpointed_size = 320, state_size = 325,
      processed_data = 40, persisted_data = 15, subtasks = {
        { index = 0, acknowledged = true, finished = false, ack_timestamp = 1030, end_to_end_duration = 30.0,
          checkpointed_size = 320, state_size = 325, processed_data = 40, persisted_data = 15,
          sync_duration = 1.5, async_duration = 20.0, alignment_duration = 0.25, start_delay = 3.0,
          unaligned_checkpoint = false },
        { index = 1, acknowledged = false, finished = false },
      } }, e.tasks[2])

    probe.statistics_ack(s, 7, 1050, { task = 0, bytes = 100, keyed = 100, alignment_bytes = 2 })
    probe.statistics_ack(s, 7, 1040, { task = 2, bytes = 1, list = "x", persisted_bytes = 1 })
    probe.statistics_completed(s, 7, 1075, "/data/chk-7")
    local all = decoded(s)
    e = all.history[1]
    assert.equal("completed", e.tasks[1].status)
    assert.same({ 1040, 40.0, 2, 321, 326, 40, 16 }, { e.tasks[2].latest_ack_timestamp,
      e.tasks[2].end_to_end_duration, e.tasks[2].num_acknowledged_subtasks, e.tasks[2].checkpointed_size,
      e.tasks[2].state_size, e.tasks[2].processed_data, e.tasks[2].persisted_data })
    e.tasks = nil
    local expected = { id = 7, status = "completed", checkpoint_type = "checkpoint", manual = true,
      trigger_timestamp = 1000, latest_ack_timestamp = 1050, completed_timestamp = 1075,
      end_to_end_duration = 75.0, num_subtasks = 3, num_acknowledged_subtasks = 3, checkpointed_size = 421,
      state_size = 426, processed_data = 42, persisted_data = 16, path = "/data/chk-7", discarded = false }
    e.cause, e.explanation, e.critical_path = nil, nil, nil
    assert.same(expected, e)
    assert.same({ completed = expected }, all.latest)
    assert.same({ triggered = 1, in_progress = 0, completed = 1, failed = 0, restored = 0 }, all.counts)
  end)

  it("counts a subtask that had finished as one that acknowledged at once", function()
    local s = statistics(10, 2)
    probe.statistics_triggered(s, 1, 500, { finished = { true, false } })
    probe.statistics_ack(s, 1, 600, { task = 0, bytes = 9, keyed = 9 })
    local e = decoded(s).history[1]
    assert.same({ 1, 0, 500 }, { e.num_acknowledged_subtasks, e.state_size, e.latest_ack_timestamp })
    assert.equal("in_progress", e.tasks[1].status)
    assert.same({ true, true, 0.0 }, { e.tasks[1].subtasks[1].finished, e.tasks[1].subtasks[1].acknowledged,
      e.tasks[1].subtasks[1].end_to_end_duration })
    assert.is_false(e.tasks[1].subtasks[2].finished)
  end)

  it("names the type: unaligned where one snapshot was, or a savepoint", function()
    local s = statistics(10, 2)
    probe.statistics_triggered(s, 1, 0, {})
    probe.statistics_ack(s, 1, 1, { task = 0 })
    assert.equal("checkpoint", decoded(s).history[1].checkpoint_type)
    probe.statistics_ack(s, 1, 1, { task = 1, unaligned = true })
    probe.statistics_completed(s, 1, 2, "c")
    local e = decoded(s).history[1]
    assert.equal("unaligned_checkpoint", e.checkpoint_type)
    assert.is_false(e.tasks[1].subtasks[1].unaligned_checkpoint)
    assert.is_true(e.tasks[1].subtasks[2].unaligned_checkpoint)
    probe.statistics_triggered(s, 2, 10, { savepoint = true })
    probe.statistics_completed(s, 2, 12, "s")
    local all = decoded(s)
    assert.equal("savepoint", all.history[1].checkpoint_type)
    assert.equal(2, all.latest.savepoint.id)
    assert.equal(1, all.latest.completed.id)
  end)

  it("tells why one failed, and who was late", function()
    local s = statistics(10, 1, 1)
    probe.statistics_triggered(s, 1, 0, {})
    probe.statistics_failed(s, 1, 100, "the checkpoint expired")
    probe.statistics_ack(s, 1, 170, { task = 1, bytes = 5 })
    local all = decoded(s)
    assert.equal("the checkpoint expired", all.latest.failed.reason)
    assert.equal(100, all.latest.failed.failure_timestamp)
    assert.equal(100.0, all.history[1].end_to_end_duration)
    assert.equal("failed", all.history[1].status)
    assert.equal("failed", all.history[1].tasks[1].status)
    assert.equal("completed", all.history[1].tasks[2].status)
    assert.equal(170, all.history[1].tasks[2].subtasks[1].ack_timestamp)
    assert.is_nil(all.latest.completed)
  end)

  it("keeps the newest of the history, newest first, and counts all", function()
    local s = statistics(3, 1)
    for id = 1, 5 do
      probe.statistics_triggered(s, id, id * 10, {})
      if id == 1 then probe.statistics_completed(s, id, id * 10 + 5, "p1") end
      if id > 1 and id < 5 then probe.statistics_failed(s, id, id * 10 + 5, "r" .. id) end
    end
    local all = decoded(s)
    assert.equal("5 in_progress, 4 failed, 3 failed", ids(all.history))
    assert.same({ triggered = 5, in_progress = 1, completed = 1, failed = 3, restored = 0 }, all.counts)
    assert.equal(1, all.latest.completed.id)
    assert.equal("p1", all.latest.completed.path)
    assert.equal(15, all.latest.completed.trigger_timestamp + 5)
    assert.equal(4, all.latest.failed.id)
  end)

  it("counts the end of one that has left the history", function()
    local s = statistics(1, 1)
    probe.statistics_triggered(s, 1, 0, {})
    probe.statistics_triggered(s, 2, 1, {})
    probe.statistics_ack(s, 1, 2, { task = 0 })
    probe.statistics_completed(s, 1, 3, "p")
    local all = decoded(s)
    assert.equal("2 in_progress", ids(all.history))
    assert.equal(1, all.latest.completed.id)
    assert.is_nil(all.latest.completed.end_to_end_duration)
    assert.equal(1, all.counts.in_progress)
  end)

  it("counts failures without a trigger, which change nothing else", function()
    local s = statistics(10, 1)
    probe.statistics_triggered(s, 1, 0, {})
    probe.statistics_failed(s, 1, 5, "first")
    probe.statistics_triggered(s, 3, 10, {})
    probe.statistics_failed(s, 0, 11, "it could not begin")
    probe.statistics_failed(s, 2, 12, "its folder could not be made")
    local all = decoded(s)
    assert.same({ triggered = 2, in_progress = 1, completed = 0, failed = 3, restored = 0 }, all.counts)
    assert.equal("3 in_progress, 1 failed", ids(all.history))
    assert.same({ 2, "its folder could not be made" }, { all.latest.failed.id, all.latest.failed.reason })
    probe.statistics_failed(s, 0, 13, "it could not begin")
    assert.equal(2, decoded(s).latest.failed.id)
  end)

  it("tells which completed ones were deleted", function()
    local s = statistics(10, 1)
    for id = 1, 2 do
      probe.statistics_triggered(s, id, 0, {})
      probe.statistics_completed(s, id, 1, "p")
    end
    probe.statistics_discarded(s, 1)
    probe.statistics_discarded(s, 9)
    local all = decoded(s)
    assert.is_false(all.history[1].discarded)
    assert.is_true(all.history[2].discarded)
    assert.is_false(all.latest.completed.discarded)
    probe.statistics_discarded(s, 2)
    assert.is_true(decoded(s).latest.completed.discarded)
  end)

  it("tells of restores", function()
    local s = statistics(10, 1)
    probe.statistics_restored(s, 4, 123, "/data/chk-4")
    probe.statistics_restored(s, 9, 456, "/data/chk-9")
    local all = decoded(s)
    assert.same({ id = 9, restore_timestamp = 456, path = "/data/chk-9" }, all.latest.restored)
    assert.equal(2, all.counts.restored)
  end)

  it("gives no negative durations when the clock goes back, and ignores what it does not know", function()
    local s = statistics(0, 1)
    probe.statistics_triggered(s, 1, 1000, {})
    probe.statistics_ack(s, 1, 400, { task = 0, bytes = 9 })
    probe.statistics_ack(s, 1, 450, { task = 0, bytes = 9 })
    probe.statistics_ack(s, 1, 450, { task = 1, bytes = 9 })
    probe.statistics_ack(s, 3, 450, { task = 0, bytes = 9 })
    local e = decoded(s).history[1]
    assert.equal(0.0, e.end_to_end_duration)
    assert.equal(9, e.checkpointed_size)
    assert.equal(1, e.num_acknowledged_subtasks)
  end)
end)
