-- Checkpoints that pass through back-pressure, as a script sees them: real threads, real files.
local p = require "support.pipeline"
local sc = require "streamckpt"

local KEYS = 13

-- Something that takes its time, whatever the machine: no clock is looked at.
local function work(rounds)
  return function(value)
    local x = 0
    for i = 1, rounds do x = x ~ i end
    value.x = x & 0
    return value
  end
end

local function options(dir, more, checkpoint)
  local o = { id = "spec", parallelism = 2, log = { level = "off" },
              network = { segment_size = 1024, exclusive_buffers = 2, floating_buffers = 4 },
              checkpoint = { interval = 2, dir = dir .. "/ckpt", retain = 1, unaligned = true, sync = false },
              restart = { strategy = "fixed_delay", delay = 1, attempts = 50 } }
  for name, value in pairs(more or {}) do o[name] = value end
  for name, value in pairs(checkpoint or {}) do o.checkpoint[name] = value end
  return o
end

-- source -> count by key -> something slow, over an exchange -> files. {k, n} comes once for the n-th
-- record of each key, so what is right is known without running anything.
local function counting(dir, o, total, trouble, forward)
  local env = sc.env(o)
  local slow, stumble = work(20000), trouble or function() end
  local counted = env:from_generator { fn = function(i) return { k = i % 13, i = i } end, count = total }:uid("source")
    :key_by("k")
    :process {
      uid = "count", state = { n = sc.value() },
      on_element = function(ctx, v)
        local n = (ctx.state.n:get() or 0) + 1
        ctx.state.n:set(n)
        ctx:emit { k = v.k, n = n }
      end,
    }
  local way = forward and counted:forward():map(slow):uid("slow"):start_new_chain()
    or counted:rebalance():map(slow):uid("slow")
  way:map(function(v)
    stumble(v, dir)
    return v.k .. "/" .. v.n
  end):uid("text"):to_file(dir .. "/out", { format = "lines" }):uid("sink")
  return env
end

local function expected(total)
  local lines, seen = {}, {}
  for i = 0, total - 1 do
    local k = i % KEYS
    seen[k] = (seen[k] or 0) + 1
    lines[#lines + 1] = k .. "/" .. seen[k]
  end
  table.sort(lines)
  return lines
end

-- Has a checkpoint kept something that was in flight?
local function in_flight(job)
  for _, c in ipairs(job:checkpoints().history) do
    if c.status == "completed" and c.checkpoint_type == "unaligned_checkpoint" and c.persisted_data > 0 then return true end
  end
end

describe("checkpoints under back-pressure", function()
  local dir
  before_each(function() dir = p.folder() end)
  after_each(p.clean)

  local changing = { segment_size = 1024, exclusive_buffers = 2, floating_buffers = 4,
                     debloat = { enabled = true, target = 5, period = 1, samples = 1, threshold_percentages = 0 } }
  local modes = { { "at once", {} }, { "after a while", { aligned_timeout = 4 } },
                  { "in buffers whose size changes", {}, changing } }
  for _, mode in ipairs(modes) do
    for _, forward in ipairs { false, true } do
      local name = ("overtake %s, and nothing is lost or doubled where the job goes on from them%s"):format(mode[1],
        forward and ", with an edge that cannot be captured" or "")
      it(name, function()
        local total = 4000
        for i, parallelism in ipairs { 2, 3, 1, 2 } do
          local o = options(dir, { parallelism = parallelism, network = mode[3] }, mode[2])
          local env = counting(dir, o, total, nil, forward)
          local job = assert(env:start { from = "latest" })
          if i < 4 then
            p.wait_for(job, function() return in_flight(job) end)
            job:cancel()
            assert.equal("canceled", assert(p.wait(job)).state)
          else
            assert.equal("finished", assert(p.wait(job)).state)
          end
        end
        assert.same(expected(total), p.parts(dir .. "/out"))
      end)
    end
  end

  it("survive tasks that fail while data is in flight", function()
    local total = 3000
    local job = assert(counting(dir, options(dir), total, function(v, folder)
      if v.k ~= 5 or v.n % 60 ~= 0 then return end
      local flag = folder .. "/failed-" .. v.n
      local seen = io.open(flag)
      if seen then seen:close() return end
      io.open(flag, "w"):close()
      error("trouble at " .. v.n)
    end):start())
    local status = assert(p.wait(job))
    assert.equal("finished", status.state, status.error)
    assert.is_true(status.restarts >= 1)
    assert.same(expected(total), p.parts(dir .. "/out"))
  end)

  -- One slot, and one graph, whose parts would else have threads of their own: whatever waits here waits in the
  -- same thread.
  local function burst(o, emit_all)
    local env = sc.env(o)
    local note, slow = p.noter(dir), work(300)
    local nothing = env:from_values { 1 }:uid("one"):flat_map(function(_, ctx)
      emit_all(ctx)
      note("burst", "ended")
    end):uid("burst"):rebalance():map(function(v) return slow { i = v } end):uid("slow")
      :filter(function() return false end):uid("nothing")
    env:from_generator { fn = function(i) return i end, count = 50 }:uid("others")
      :map(function(i) note("others", i) return i end):uid("beside"):union(nothing):collect():uid("rows")
    return env
  end

  local function lines(name)
    local n = 0
    for _ in (p.read(dir .. "/" .. name) or ""):gmatch "\n" do n = n + 1 end
    return n
  end

  local function burst_began(job) return (job:metrics("slow").numRecordsIn or 0) > 0 end

  it("a record that emits very much lets the other tasks of its slot go on", function()
    local o = options(dir, { parallelism = 1, slots = 1 }, { interval = "1h" })
    local job = assert(burst(o, function(ctx) for i = 1, 100000 do ctx:emit(i) end end):start())
    p.wait_for(job, function() return lines("others") == 50 and burst_began(job) end)
    assert.equal(0, lines("burst")) -- 100,000 records are far more than fit in front of the slow one
    job:cancel()
    p.wait(job)
  end)

  it("a checkpoint that waits for a record without end expires, and says for whom", function()
    local o = options(dir, { parallelism = 1, slots = 1 }, { interval = "1h", timeout = 400 })
    local job = assert(burst(o, function(ctx)
      local i = 0
      while true do
        i = i + 1
        ctx:emit(i)
      end
    end):start())
    p.wait_for(job, function() return lines("others") == 50 and burst_began(job) end)
    local id, message = job:checkpoint()
    assert.is_nil(id)
    assert.matches("expired", message)
    assert.matches("burst", message)
    assert.equal("running", job:status().state)
    job:cancel()
    assert.equal("canceled", assert(p.wait(job)).state)
  end)
end)
