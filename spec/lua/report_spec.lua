local report = require "streamckpt.report"

local NOON = os.time { year = 2024, month = 2, day = 29, hour = 12, min = 34, sec = 56 } * 1000

describe("report.checkpoints", function()
  it("is a line for each checkpoint, in columns", function()
    local t = report.checkpoints {
      counts = { triggered = 12, in_progress = 1, completed = 9, failed = 2, restored = 1 },
      latest = { restored = { id = 3, path = "ckpt/a/chk-3" } },
      history = {
        { id = 12, status = "in_progress", trigger_timestamp = NOON + 999, state_size = 0,
          num_acknowledged_subtasks = 1, num_subtasks = 2 },
        { id = 11, status = "failed", trigger_timestamp = NOON, end_to_end_duration = 61500.0, state_size = 1536,
          num_acknowledged_subtasks = 1, num_subtasks = 2, reason = "it took too long" },
        { id = 9, status = "completed", trigger_timestamp = NOON, end_to_end_duration = 999.0,
          state_size = 3 << 30, num_acknowledged_subtasks = 2, num_subtasks = 2, path = "ckpt/a/chk-9" },
        { id = 8, status = "completed", trigger_timestamp = NOON, end_to_end_duration = 600000.0,
          state_size = 1023, num_acknowledged_subtasks = 2, num_subtasks = 2, path = "ckpt/a/chk-8" },
      },
    }
    assert.equals([[
checkpoints: 9 completed, 2 failed, 1 in progress, 1 restored
restored from ckpt/a/chk-3
id  status       begun       took   state  tasks  where, or why not
12  in progress  12:34:56             0 B    1/2
11  failed       12:34:56  61.5 s  1.5 kB    1/2  it took too long
 9  completed    12:34:56  999 ms  3.0 GB    2/2  ckpt/a/chk-9
 8  completed    12:34:56  10 min  1023 B    2/2  ckpt/a/chk-8]], tostring(t))
    assert.equals("{ id = 3, path = \"ckpt/a/chk-3\" }", tostring(t.latest.restored))
    assert.equals(12, t.history[1].id)
  end)

  it("is one line where there are none", function()
    assert.equals("checkpoints: 0 completed", tostring(report.checkpoints {
      counts = { triggered = 0, in_progress = 0, completed = 0, failed = 0, restored = 0 }, latest = {}, history = {},
    }))
  end)
end)

describe("report.metrics", function()
  it("is a line for each task, with the counters that some have", function()
    local t = report.metrics {
      { uid = "parse", name = "map", subtask = 0, attempt = 1, numRecordsIn = 1000, numRecordsOut = 998,
        numRecordsSkipped = 2 },
      { uid = "parse", name = "map", subtask = 1, attempt = 1, numRecordsIn = 7, numRecordsOut = 7 },
      { uid = "sum", name = "sum", subtask = 0, attempt = 1, numRecordsIn = 1005, numRecordsOut = 0,
        currentWatermark = 1431857100000 },
      { uid = "done", name = "done", subtask = 0, attempt = 1, numRecordsIn = 1, numRecordsOut = 0,
        currentWatermark = math.maxinteger },
    }
    assert.equals([[
operator  task    in  out      watermark  skipped
parse      1/2  1000  998                       2
parse      2/2     7    7
sum        1/1  1005    0  1431857100000
done       1/1     1    0            end]], tostring(t))
    assert.equals(7, t[2].numRecordsIn)
    assert.matches("^{\n  attempt = 1,\n", tostring(t[1]))
  end)

  it("shows what each task does with its time, in the row of its first operator", function()
    local t = report.metrics {
      { uid = "read", task = "read -> parse", subtask = 0, numRecordsIn = 0, numRecordsOut = 50,
        busyTimeMsPerSecond = 12, idleTimeMsPerSecond = 0, backPressuredTimeMsPerSecond = 988 },
      { uid = "parse", task = "read -> parse", subtask = 0, numRecordsIn = 50, numRecordsOut = 50,
        busyTimeMsPerSecond = 12, idleTimeMsPerSecond = 0, backPressuredTimeMsPerSecond = 988,
        numBytesOut = 123, numRecordsInPerSecond = 3.5 },
      { uid = "sum", task = "sum", subtask = 0, numRecordsIn = 40, numRecordsOut = 0, busyTimeMsPerSecond = 1000,
        idleTimeMsPerSecond = 0, backPressuredTimeMsPerSecond = 0, inPoolUsage = 1.1 },
    }
    assert.equals([[
operator  task  in  out  busy  idle  backpressured  in queue  watermark
read       1/1   0   50    1%    0%            99%
parse      1/1  50   50
sum        1/1  40    0  100%    0%             0%      110%]], tostring(t))
  end)

  it("says so where no task runs", function()
    assert.equals("no task runs", tostring(report.metrics {}))
  end)
end)
