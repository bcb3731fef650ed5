-- The metrics of flow: a job whose bottleneck is known points at it.
local p = require "support.pipeline"

after_each(p.clean)

local UIDS = { "source", "middle", "sink" }

-- source -> middle -> sink, each a task of its own, of which `slow` names the one that takes a ms or more a
-- record. Runs until `condition` holds of the three operators' metrics, by uid, which are returned.
local function run(slow, options, condition)
  local job = p.start(options, function(env)
    local function pace(uid)
      return uid == slow and function() require "luv".sleep(1) end or function() end
    end
    local at_source, at_middle, at_sink = pace "source", pace "middle", pace "sink"
    env:source {
      uid = "source", splits = function() return { 0 } end,
      read = function(ctx, _, at)
        at_source()
        ctx:emit { n = at or 0, pad = ("x"):rep(1000) }
        return (at or 0) + 1
      end }
      :parallelism(1)
      :rebalance():map(function(v) at_middle() return v end):uid("middle")
      :rebalance():to(function() at_sink() end):uid("sink")
  end)
  local seen
  p.wait_for(job, function()
    seen = {}
    for _, uid in ipairs(UIDS) do seen[uid] = job:metrics(uid) end
    return condition(seen)
  end)
  for _, uid in ipairs(UIDS) do
    local m = seen[uid]
    assert.equal(1000, m.busyTimeMsPerSecond + m.idleTimeMsPerSecond + m.backPressuredTimeMsPerSecond, uid)
    assert.is_true(m.busyTimeMsPerSecond >= 0 and m.backPressuredTimeMsPerSecond >= 0, uid)
  end
  job:cancel()
  assert(p.wait(job))
  return seen
end

-- The shares are those of the last second or two, so a job that has just begun may show something else.
local function mostly(m, share) return (m[share .. "TimeMsPerSecond"] or 0) > 500 end
-- Of the bottleneck itself: whatever the machine does beside, it has always something to do.
local function always_busy(m) return (m.busyTimeMsPerSecond or 0) > 900 end

for _, slots in ipairs { 1, 2 } do
  local options = { parallelism = slots }
  -- Who fills several queues waits as soon as one of them is full.
  local full = slots == 1 and 1 or 0.5
  describe("a bottleneck, at parallelism " .. slots, function()
    it("in the sink: what is before it is back-pressured, its queue is full", function()
      local seen = run("sink", options, function(m)
        return always_busy(m.sink) and mostly(m.middle, "backPressured") and mostly(m.source, "backPressured")
          and m.sink.inPoolUsage >= full and m.middle.outPoolUsage >= full
      end)
      assert.is_true(seen.sink.inputQueueLength > 0 and seen.sink.inputQueueSize > 1000)
      assert.is_true(seen.sink.estimatedTimeToConsumeBuffersMs > 0)
      assert.is_true(seen.sink.numRecordsInPerSecond > 0)
    end)

    it("in the middle: the source is back-pressured, the sink idle", function()
      local seen = run("middle", options, function(m)
        return always_busy(m.middle) and mostly(m.source, "backPressured") and mostly(m.sink, "idle")
          and m.middle.inPoolUsage >= full
      end)
      assert.is_true(seen.sink.inPoolUsage < full)
      assert.is_true(seen.source.numRecordsOutPerSecond > 0)
    end)
  end)
end

describe("a bottleneck", function()
  it("in the source: it is busy, all else idle", function()
    local seen = run("source", {}, function(m)
      return always_busy(m.source) and mostly(m.middle, "idle") and mostly(m.sink, "idle")
    end)
    for _, uid in ipairs { "middle", "sink" } do assert.is_false(seen[uid].isBackPressured) end
    assert.is_true(seen.source.outPoolUsage < 1)
  end)
end)

describe("metrics of flow", function()
  it("show that a source without input is idle, and of an exchange where it leads to", function()
    local folder = p.folder()
    p.let(folder, 3)
    local job = p.start({}, function(env)
      return p.gated(env, folder, { 1, 2, 3 }):rebalance():map(function(v) return v end):uid("next")
    end)
    local source
    p.wait_for(job, function()
      source = job:metrics("gated")
      return job:metrics("next").numRecordsIn == 3 and mostly(source, "idle") and source.numBytesOut > 0
    end)
    local row
    for _, r in ipairs(job:metrics()) do
      if r.uid == "gated" then row = r end
    end
    assert.equal(1, #row.exchanges)
    local exchange = row.exchanges[1]
    assert.same({ "next", row.numBytesOut, row.numBuffersOut, 0 },
      { exchange.to, exchange.numBytesOut, exchange.numBuffersOut, exchange.outputQueueLength })
    assert.equal(row.numBytesOut, job:metrics("next").numBytesIn)
    assert.is_nil(row.numBytesIn) -- a source has no input
    assert.is_nil(job:metrics("rows").numBytesOut)
    assert.equal(0, job:metrics("next").inputQueueLength)
    assert.equal(0.0, job:metrics("next").estimatedTimeToConsumeBuffersMs)
    p.let(folder, "end")
    assert.equal("finished", assert(p.wait(job)).state)
    -- What a task has shown in the end stays: now the end of the stream is in it, too.
    assert.is_true(job:metrics("gated").numBytesOut > row.numBytesOut)
  end)

  it("tell what a source has left to read, where it knows", function()
    local folder, lines, size = p.folder(), {}, 1000
    for i = 1, 2000 do lines[i] = ("%09d"):format(i) .. ("."):rep(size - 10) end
    p.write(folder .. "/in", table.concat(lines, "\n") .. "\n")
    local job = p.start({}, function(env)
      local function hold(v)
        local go
        repeat go = io.open(folder .. "/go") until go
        go:close()
        return v
      end
      env:from_values(lines):uid("values"):rebalance():map(hold):uid("one"):to(function() end):uid("sink")
      env:from_file(folder .. "/in"):uid("file"):rebalance():map(hold):to(function() end):uid("other")
    end)
    -- Both stand still, with the queue behind them full or their slot held. Looks before that may be of two
    -- moments.
    local values, file
    p.wait_for(job, function()
      values, file = job:metrics("values"), job:metrics("file")
      return values.numRecordsOut > 0 and values.pendingRecords == #lines - values.numRecordsOut
        and file.numRecordsOut > 0 and file.pendingBytes == (#lines - file.numRecordsOut) * size
    end)
    assert.is_true(values.pendingRecords > 0 and values.pendingRecords < #lines)
    assert.is_true(file.pendingBytes > 0 and file.pendingBytes < #lines * size)
    assert.same({}, { values.pendingBytes, file.pendingRecords })
    assert.is_nil(job:metrics("one").pendingRecords)
    p.write(folder .. "/go", "")
    assert.equal("finished", assert(p.wait(job)).state)
    assert.equal(0, job:metrics("values").pendingRecords)
    assert.equal(0, job:metrics("file").pendingBytes)
  end)

  it("go on adding up what was exact, and name the task that operators share", function()
    local folder = p.folder()
    p.let(folder, 1)
    local job = p.start({}, function(env)
      return p.gated(env, folder, { 1 }):map(function(v) return v end):uid("chained")
    end)
    local before
    p.wait_for(job, function()
      before = job:metrics("chained")
      return before.numRecordsIn == 1 and before.accumulateIdleTimeMs > 0
    end)
    local after
    p.wait_for(job, function()
      after = job:metrics("chained")
      return after.accumulateIdleTimeMs > before.accumulateIdleTimeMs
    end)
    assert.is_true(after.accumulateBusyTimeMs >= before.accumulateBusyTimeMs)
    assert.equal(job:metrics("gated").task, after.task)
    p.let(folder, "end")
    assert(p.wait(job))
  end)
end)
