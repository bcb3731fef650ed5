-- Buffers that follow throughput (network.debloat), as a script sees them.
local p = require "support.pipeline"

after_each(p.clean)

local SEGMENT = 4096

-- A source that never ends, something that only hands on, and a sink that takes its time as soon as there is a
-- file `slow` in the folder.
local function start(folder, debloat)
  local slow
  return p.start({ network = { segment_size = SEGMENT, buffer_timeout = "1h", debloat = debloat } }, function(env)
    env:source {
      uid = "source", splits = function() return { 0 } end,
      read = function(ctx, _, at)
        ctx:emit { n = at or 0, pad = ("x"):rep(300) }
        return (at or 0) + 1
      end }
      :rebalance():map(function(v) return v end):uid("middle")
      :rebalance():to(function()
        slow = slow or io.open(folder .. "/slow")
        if slow then require "luv".sleep(10) end
      end):uid("sink")
  end)
end

-- Let it run until `condition` holds of the metrics of both that read something.
local function wait_for(job, condition)
  p.wait_for(job, function()
    local middle, sink = job:metrics("middle"), job:metrics("sink")
    return middle.inPoolUsage and sink.inPoolUsage and condition(middle) and condition(sink)
  end)
end

local function finish(job)
  job:cancel()
  assert(p.wait(job))
end

-- Ten buffers fit: 40 KB, which are more than a second of a slow sink's work. Where each holds one record, the
-- tenth is always the one that the sink sleeps over, so it is not in the queue.
local function full(m) return m.inPoolUsage >= 0.9 end

describe("debloating", function()
  it("is off unless asked for: buffers are segments", function()
    local folder = p.folder()
    for _, debloat in ipairs { {}, { target = "1ms", period = "1ms", samples = 1 } } do
      p.write(folder .. "/slow", "")
      local job = start(folder, debloat)
      wait_for(job, function(m) return full(m) and m.inputQueueSize > 8 * (SEGMENT - 400) end)
      assert.equal(SEGMENT, job:metrics("sink").debloatedBufferSize)
      finish(job)
    end
  end)

  it("begins small, grows while the reader is fast, and shrinks when it is slow", function()
    local folder = p.folder()
    local job = start(folder, { enabled = true, target = "200ms", period = "10ms", samples = 3 })
    wait_for(job, function(m) return m.debloatedBufferSize >= 3 * SEGMENT / 4 end)
    p.write(folder .. "/slow", "")
    -- 6 KB would be right; a wide bound, since sleeps are longer on a busy machine, never shorter. What stands
    -- before the middle waits for the sink, too: the middle is back-pressured, which is not idle.
    wait_for(job, function(m)
      return full(m) and m.debloatedBufferSize <= SEGMENT / 4 and m.inputQueueSize <= 10 * SEGMENT / 4
    end)
    finish(job)
  end)

  it("lets records of every size pass", function()
    local sizes, values = { 1, 200, 300, 5000, 40, 9000, 255, 256, 257 }, {}
    for i = 1, 900 do values[i] = ("%06d"):format(i) .. ("."):rep(sizes[i % #sizes + 1]) end
    local function same(v) return v end
    for parallelism = 1, 2 do
      local rows = p.rows({ parallelism = parallelism,
                            network = { segment_size = SEGMENT, exclusive_buffers = 1, floating_buffers = 0,
                                        debloat = { enabled = true, target = "1ms", period = "1ms", samples = 1 } } },
        function(env) return env:from_values(values):rebalance():map(same):rebalance():map(same) end)
      if parallelism > 1 then table.sort(rows) end -- there they have no order
      assert.same(values, rows)
    end
  end)
end)
