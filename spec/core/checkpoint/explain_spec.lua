-- What a checkpoint's numbers are explained with: a row for each cause. Times are ms.
local probe = require "streamckpt.probe"

-- source -> work 1/2, 2/2 -> out, all at once but for what a row changes.
local function checkpoint(changes)
  local t = {
    took = 5000,
    { name = "source 1/1", task = 0, ack = 10, delay = 1 },
    { name = "work 1/2", task = 1, ack = 12, delay = 2, from = 1 },
    { name = "work 2/2", task = 1, ack = 12, delay = 2, from = 1 },
    { name = "out 1/1", task = 2, ack = 14, delay = 3, alignment = 1, from = 2, sink = true },
  }
  for key, value in pairs(changes) do
    if type(key) == "number" then
      for field, changed in pairs(value) do t[key][field] = changed end
    else
      t[key] = value
    end
  end
  return t
end

-- The third subtask passes its barrier on late, so the last one gets it late, too.
local function late(third, more)
  third.delay, third.ack = third.delay or 4000, 4100
  local changes = { [3] = third, [4] = { delay = 3, alignment = 4100, ack = 4200, from = 3 } }
  for key, value in pairs(more or {}) do changes[key] = value end
  return changes
end

local rows = {
  { "nothing, where it was fast", { took = 999 }, "none", nil,
    "checkpoint 7 took 999 ms; nothing in it was slow" },
  { "who is missing, where it is not slow yet", { status = "in_progress", took = 900, [3] = { ack = -1 } }, "none", nil,
    "checkpoint 7 has been under way for 900 ms; work 2/2 has not acknowledged it" },
  { "the checkpoint before it", { waited = 9000, took = 300 }, "queued_behind_another", nil,
    "checkpoint 7 waited 9.0 s for the one before it to end, and then took 300 ms" },
  { "a key with most of the records", late { queued = 65536, place = "job.lua:3 (function f)" }, "skewed_key", 3,
    "the barrier from source 1/1 reached work 2/2 last, after 4.0 s behind 64.0 kB of records; it got "
      .. "64.0 kB since the checkpoint before, no other subtask of it more than 0 B, and was seen in "
      .. "job.lua:3 (function f): one key" },
  { "no skew where one only is slower than its siblings", late({ queued = 65536, received = 900000, seen = 9,
      place = "job.lua:3" }, { [2] = { received = 800000 } }), "slow_function", 3 },
  { "a library call, whatever is queued", late { queued = 65536, blocked = true, seen = 9 }, "library_call", 3,
    "it was in a library call that did not return: no barrier can pass" },
  { "a slow function", late({ queued = 65536, seen = 9, place = "job.lua:3 (function f)" },
      { [2] = { queued = 40000 } }),
    "slow_function", 3, "it was seen in job.lua:3 (function f)" },
  { "a slow sink", { [4] = { delay = 4000, ack = 4100, queued = 2048 } }, "slow_sink", 4,
    "the barrier from work 1/2 reached out 1/1 last, after 4.0 s behind 2.0 kB of records; this sink is slower" },
  { "the sink, not what waits before it", late({ queued = 4096 },
      { [2] = { queued = 4096 }, [4] = { delay = 7500, ack = 7600, from = 3, queued = 2048 } }), "slow_sink", 4 },
  { "the function, not the sink that waited for it", late({ seen = 9, place = "job.lua:3" }), "slow_function", 3 },
  { "who kept the thread that the source waited for", { [1] = { delay = 4000, ack = 4010 },
      [2] = { delay = 4001, ack = 4012, seen = 9, place = "job.lua:3" }, [3] = { delay = 4001, ack = 4012 },
      [4] = { delay = 4002, ack = 4014, from = 3 } }, "slow_function", 2 },
  { "who kept the thread, not the source that came to its turn when it was let go", { [1] = { delay = 4000,
      ack = 4010, seen = 1, place = "source.lua:1" }, [2] = { delay = 4001, ack = 4012, from = 1, seen = 9,
      place = "job.lua:3" }, [3] = { delay = 4001, ack = 4012 }, [4] = { delay = 4002, ack = 4014, from = 3 } },
    "slow_function", 2, "the barrier from source 1/1 reached work 1/2 last, after 4.0 s; its user function is slow: "
      .. "it was seen in job.lua:3" },
  { "no skew where a few bytes are queued", late { queued = 14, seen = 9, place = "job.lua:3" }, "slow_function", 3 },
  { "data in flight before the barrier", late({ queued = 65536 }, { [2] = { queued = 40000 } }),
    "in_flight_data", 3, "checkpoint.unaligned = true" },
  { "data in flight, though a function was seen that gets through it fast", late({ queued = 64000000, seen = 9,
      place = "job.lua:3" }, { [2] = { queued = 60000000 } }), "in_flight_data", 3, "checkpoint.unaligned = true" },
  { "the function that kept the source, too, whatever its queue then took", { [1] = { delay = 4000, ack = 4010 },
      [2] = { delay = 4001, ack = 4012, seen = 9, place = "job.lua:3", queued = 300000, from = 1 },
      [3] = { delay = 4001, ack = 4012, from = 1, received = 250000 }, [4] = { delay = 4002, ack = 4014, from = 2 } },
    "slow_function", 2 },
  { "data in flight that is kept", { [2] = { ack = 4500, async = 4400, storage = 4000, written = 3145728,
      persisted = 2097152 } }, "in_flight_data", 2, "work 1/2 kept 2.0 MB of data that was in flight" },
  { "the synchronous part", { [2] = { ack = 4500, sync = 4400, async = 10 } }, "slow_snapshot", 2,
    "the synchronous part of the snapshot of work 1/2 took 4.4 s" },
  { "the synchronous part, while it lasts", { status = "in_progress", [3] = { ack = -1, seen = 9,
      snapshots = true, place = "job.lua:9 (function s)" } }, "slow_snapshot", 3,
    "work 2/2 has not acknowledged it; it is in the synchronous part of its snapshot, which was seen in job.lua:9" },
  { "the synchronous part, and its function", { [2] = { ack = 4500, sync = 4400, snapshots = true,
      place = "job.lua:9 (function s)" } }, "slow_snapshot", 2, "in which it reads no records; it was seen in job.lua:9" },
  { "the storage that took its time for a few bytes in flight", { [2] = { ack = 4500, async = 4400, storage = 4300,
      written = 4096, persisted = 4096 } }, "slow_storage", 2 },
  { "who wrote, not who waited for a thread of the pool", { [2] = { ack = 4400, async = 4300, storage = 4200,
      written = 9000 }, [3] = { ack = 4500, async = 4400, pool = 4350, storage = 20, written = 9000 } },
    "slow_storage", 2, "the storage took 4.2 s to write the 8.8 kB of work 1/2" },
  { "who took the barrier late, not who waited for that", { [1] = { ack = 4500, async = 4400, held = 4390 },
      [3] = { delay = 4300, ack = 4400, seen = 9, place = "job.lua:3", from = 1 } }, "slow_function", 3,
    "the barrier from source 1/1 reached work 2/2 last" },
  { "a barrier that is captured until it comes", { [3] = { ack = 4500, alignment = 4300, async = 4350, held = 4299,
      from = 1, seen = 9, place = "job.lua:3" } }, "slow_function", 3 },
  { "whose synchronous part kept the thread that others waited for", { [1] = { sync = 4000, ack = 4010 },
      [2] = { delay = 4005, ack = 4012 }, [3] = { delay = 4005, ack = 4012 }, [4] = { delay = 4006, ack = 4020 } },
    "slow_snapshot", 1 },
  { "the neighbour whose snapshot a shared file waited for", { [2] = { ack = 4450, sync = 4400, async = 10 },
      [3] = { ack = 4500, async = 4400, held = 4390, persisted = 9, written = 9 } }, "slow_snapshot", 2 },
  { "the storage", { [2] = { ack = 4500, async = 4400, storage = 2300, written = 2097152 } }, "slow_storage", 2,
    "of which the storage took 2.3 s to write the 2.0 MB of work 1/2" },
  { "the storage, for its folder", { prepare = 3000, [1] = { delay = 3001, ack = 3010 },
      [2] = { delay = 3002, ack = 3010 }, [3] = { delay = 3002, ack = 3012 }, [4] = { delay = 3003, ack = 3015 } },
    "slow_storage", nil, "the storage took 3.0 s to make its folder" },
  { "the storage, for its metadata", { finish = 4000 }, "slow_storage", nil,
    "the storage took 4.0 s to write its _metadata" },
  { "much state", { [2] = { ack = 4500, async = 4400, storage = 2100, written = 2097152 } }, "large_state", 2,
    "the asynchronous part of work 1/2, which writes 2.0 MB of state, took 4.4 s" },
  { "who was seen, where it failed", { status = "failed", [2] = { ack = -1 }, [3] = { ack = -1, seen = 9,
      place = "job.lua:3 (function f)" }, [4] = { ack = -1 } }, "slow_function", 3,
    "checkpoint 7 failed after 5.0 s: work 2/2 has not acknowledged it; its user function is slow" },
  { "who was seen most, while several are at work", { status = "in_progress", [2] = { ack = -1, seen = 1,
      place = "job.lua:1" }, [3] = { ack = -1, seen = 9, place = "job.lua:3" } }, "slow_function", 3, "job.lua:3" },
  { "who is missing, where nobody was seen", { status = "in_progress", [3] = { ack = -1 } }, "unknown", 3,
    "checkpoint 7 has been under way for 5.0 s: work 2/2 has not acknowledged it" },
}

describe("explain names", function()
  for _, row in ipairs(rows) do
    local title, changes, cause, subtask, words = table.unpack(row, 1, 5)
    it(title, function()
      local got, text, at = probe.explain(checkpoint(changes))
      assert.equal(cause, got, text)
      assert.equal(subtask, at)
      if words then assert.matches(words, text, 1, true) end
    end)
  end

  it("the critical path, from the source to who was last", function()
    local _, _, _, path = probe.explain(checkpoint(late { queued = 1 }))
    assert.equal("1 3 4", path)
  end)

  it("an end of it, also where the reports make a circle", function()
    local _, _, _, path = probe.explain(checkpoint { [1] = { from = 4 } })
    assert.equal("4 1 2 4", path) -- no longer than there are subtasks
  end)

  it("nothing where there is nobody", function()
    assert.equal("none", probe.explain { took = 5000 })
  end)
end)
