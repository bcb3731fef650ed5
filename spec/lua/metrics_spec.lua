local metrics = require "streamckpt.metrics"

describe("metrics.of_operator", function()
  local function row(more)
    local out = { uid = "sum", name = "reduce", task = "sum", subtask = 0, attempt = 2, numRecordsIn = 10,
                  busyTimeMsPerSecond = 0, idleTimeMsPerSecond = 1000, backPressuredTimeMsPerSecond = 0,
                  slotWaitTimeMsPerSecond = 0, isBackPressured = false }
    for name, value in pairs(more) do out[name] = value end
    return out
  end

  it("adds up what is counted and what is queued, and takes the worst of the rest", function()
    local sum = metrics.of_operator({
      row { numRecordsInPerSecond = 1.5, inputQueueLength = 2, inputQueueSize = 100, inPoolUsage = 0.25,
            estimatedTimeToConsumeBuffersMs = 7.0, accumulateIdleTimeMs = 5.0, pendingRecords = 3,
            watermarkLag = 50 },
      row { subtask = 1, numRecordsInPerSecond = 2.5, inputQueueLength = 10, inputQueueSize = 900,
            inPoolUsage = 1.0, accumulateIdleTimeMs = 6.0, pendingRecords = 4, watermarkLag = 40 },
      row { uid = "other", numRecordsIn = 1000 },
    }, "sum")
    assert.same({ uid = "sum", name = "reduce", task = "sum", attempt = 2, parallelism = 2, numRecordsIn = 20,
      numRecordsInPerSecond = 4.0, inputQueueLength = 12, inputQueueSize = 1000, inPoolUsage = 1.0,
      estimatedTimeToConsumeBuffersMs = 7.0, accumulateIdleTimeMs = 11.0, pendingRecords = 7, watermarkLag = 50,
      busyTimeMsPerSecond = 0, idleTimeMsPerSecond = 1000, backPressuredTimeMsPerSecond = 0,
      slotWaitTimeMsPerSecond = 0, isBackPressured = false }, sum)
  end)

  it("takes the mean of shares of time, which add up to 1000", function()
    local sum = metrics.of_operator({
      row { busyTimeMsPerSecond = 1000, idleTimeMsPerSecond = 0, slotWaitTimeMsPerSecond = 90 },
      row { busyTimeMsPerSecond = 1, idleTimeMsPerSecond = 0, backPressuredTimeMsPerSecond = 999,
            isBackPressured = true },
      row {},
    }, "sum")
    assert.same({ 334, 333, 333, 30, true }, { sum.busyTimeMsPerSecond, sum.idleTimeMsPerSecond,
      sum.backPressuredTimeMsPerSecond, sum.slotWaitTimeMsPerSecond, sum.isBackPressured })
  end)

  it("has the watermark of the task that is furthest behind, and none while one has none", function()
    local one, two = row { currentWatermark = 9 }, row { currentWatermark = 5 }
    assert.equal(5, metrics.of_operator({ one, two }, "sum").currentWatermark)
    assert.is_nil(metrics.of_operator({ row {}, two }, "sum").currentWatermark)
    assert.is_nil(metrics.of_operator({ one, row {}, two }, "sum").currentWatermark)
  end)

  it("is nothing where there is no such operator", function()
    assert.is_nil(metrics.of_operator({ row {} }, "sums"))
  end)
end)
