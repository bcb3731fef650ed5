local msgpack = require "support.msgpack"
local probe = require "streamckpt.probe"

local function decoded(s) return msgpack.decode(probe.statistics_encode(s)) end

local function ids(history)
  local out = {}
  for i, e in ipairs(history) do out[i] = e.id .. " " .. e.status end
  return table.concat(out, ", ")
end

describe("statistics", function()
  it("is empty in the beginning", function()
    assert.same({ counts = { triggered = 0, in_progress = 0, completed = 0, failed = 0, restored = 0 },
      latest = {}, history = {} }, decoded(probe.statistics_new(10, 2)))
  end)

  it("tells of a completed checkpoint what its tasks said", function()
    local s = probe.statistics_new(10, 2)
    probe.statistics_task_name(s, 0, "source 1/1")
    probe.statistics_task_name(s, 1, "old name")
    probe.statistics_task_name(s, 1, "sink 1/1")
    probe.statistics_task_name(s, 2, "nobody")
    probe.statistics_triggered(s, 7, 1000, true)
    probe.statistics_ack(s, 7, 1030, { task = 1, bytes = 500, alignment_bytes = 40, persisted_bytes = 30, unaligned = 1,
      sync_ns = 1500000, async_ns = 20000000, alignment_ns = 250000, start_delay_ns = 3000000 })
    local e = decoded(s).history[1]
    assert.equal("in_progress", e.status)
    assert.equal(30.0, e.end_to_end_duration)
    assert.equal(1, e.acknowledged)
    assert.same({ name = "source 1/1", acknowledged = false }, e.tasks[1])
    assert.same({ name = "sink 1/1", acknowledged = true, ack_timestamp = 1030,
      end_to_end_duration = 30.0, state_size = 500, processed_data = 40, persisted_data = 30,
      unaligned = true, sync_duration = 1.5, async_duration = 20.0, alignment_duration = 0.25, start_delay = 3.0 }, e.tasks[2])
    probe.statistics_ack(s, 7, 1050, { task = 0, bytes = 100, alignment_bytes = 2, persisted_bytes = 7 })
    probe.statistics_completed(s, 7, 1075, "/data/chk-7")
    local all = decoded(s)
    e = all.history[1]
    e.tasks = nil
    local expected = { id = 7, status = "completed", manual = true, trigger_timestamp = 1000,
      latest_ack_timestamp = 1050, end_to_end_duration = 75.0, state_size = 600, processed_data = 42,
      persisted_data = 37, unaligned = true, acknowledged = 2, path = "/data/chk-7" }
    assert.same(expected, e)
    assert.same({ completed = expected }, all.latest)
    assert.same({ triggered = 1, in_progress = 0, completed = 1, failed = 0, restored = 0 }, all.counts)
  end)

  it("tells why one failed, and who was late", function()
    local s = probe.statistics_new(10, 2)
    probe.statistics_triggered(s, 1, 0, false)
    probe.statistics_failed(s, 1, 100, "the checkpoint expired")
    probe.statistics_ack(s, 1, 170, { task = 1, bytes = 5 })
    local all = decoded(s)
    assert.equal("the checkpoint expired", all.latest.failed.reason)
    assert.equal(100.0, all.history[1].end_to_end_duration)
    assert.equal("failed", all.history[1].status)
    assert.equal(170, all.history[1].tasks[2].ack_timestamp)
    assert.is_nil(all.latest.completed)
  end)

  it("keeps the newest of the history, newest first, and counts all", function()
    local s = probe.statistics_new(3, 1)
    for id = 1, 5 do
      probe.statistics_triggered(s, id, id * 10, false)
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
    local s = probe.statistics_new(1, 1)
    probe.statistics_triggered(s, 1, 0, false)
    probe.statistics_triggered(s, 2, 1, false)
    probe.statistics_ack(s, 1, 2, { task = 0 })
    probe.statistics_completed(s, 1, 3, "p")
    local all = decoded(s)
    assert.equal("2 in_progress", ids(all.history))
    assert.equal(1, all.latest.completed.id)
    assert.is_nil(all.latest.completed.end_to_end_duration)
    assert.equal(1, all.counts.in_progress)
  end)

  it("tells of restores", function()
    local s = probe.statistics_new(10, 1)
    probe.statistics_restored(s, 4, 123, "/data/chk-4")
    probe.statistics_restored(s, 9, 456, "/data/chk-9")
    local all = decoded(s)
    assert.same({ id = 9, restore_timestamp = 456, path = "/data/chk-9" }, all.latest.restored)
    assert.equal(2, all.counts.restored)
  end)

  it("gives no negative durations when the clock goes back, and ignores what it does not know", function()
    local s = probe.statistics_new(0, 1)
    probe.statistics_triggered(s, 1, 1000, false)
    probe.statistics_ack(s, 1, 400, { task = 0, bytes = 9 })
    probe.statistics_ack(s, 1, 450, { task = 0, bytes = 9 })
    probe.statistics_ack(s, 1, 450, { task = 1, bytes = 9 })
    probe.statistics_ack(s, 3, 450, { task = 0, bytes = 9 })
    local e = decoded(s).history[1]
    assert.equal(0.0, e.end_to_end_duration)
    assert.equal(9, e.state_size)
    assert.equal(1, e.acknowledged)
  end)
end)
