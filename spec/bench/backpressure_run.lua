-- Work backpressure once, on our engine; prints a line of JSON: how long checkpoints take when every
-- buffer is full. source -> depth stages, each behind a hash exchange -> sinks that sleep; checkpoints of
-- the first `warm_up` ms, while buffers fill, do not count.
--   lua5.4 spec/bench/backpressure_run.lua mode=aligned|unaligned|timeout200 [depth=D] [rate=R a second]
--     [parallelism=P] [checkpoints=N] [interval=MS] [limit_s=S] [warm_up=MS] [sync=yes|no]
--     [debloat=MS of work in flight; 0: off]
local native = require "bench.native"
local sc = require "streamckpt"
local uv = require "luv"

local o = native.options { mode = "unaligned", depth = 8, rate = 100, parallelism = 2, checkpoints = 100,
                           interval = 200, limit_s = 120, warm_up = 5000, sync = "no", debloat = 0 }
local MODES = { aligned = {}, unaligned = { unaligned = true },
                timeout200 = { unaligned = true, aligned_timeout = 200 } }
local checkpoint = assert(MODES[o.mode], "there is no mode " .. o.mode)

local folder = assert(uv.fs_mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/backpressure-XXXXXX"))
checkpoint.dir, checkpoint.interval, checkpoint.timeout = folder, o.interval, o.limit_s * 1000 + 60000
if o.sync == "no" then checkpoint.sync = false end

-- As many events as nobody waits for.
native.begin { events = 1 << 60, keys = 10000 }
local env = sc.env { name = "backpressure", parallelism = o.parallelism, checkpoint = checkpoint,
                     log = { level = "error" },
                     network = { debloat = { enabled = o.debloat > 0, target = math.max(o.debloat, 1) } } }
local stream = native.source(env)
for _ = 1, o.depth do stream = native.operator(native.keyed(stream), "pressure_stage") end
native.operator(native.keyed(stream), "pressure_sink", { rate = o.rate / o.parallelism })

local function now_ms()
  local s, us = uv.gettimeofday()
  return s * 1000 + us // 1000
end

local job = assert(env:start())
local begin, seen = now_ms(), {}
local durations, failed, bytes, in_flight = {}, 0, 0, 0
local unfinished
local queued = {} -- bytes in all queues, at each look

-- The history holds the ten newest; each is looked at once, when it has ended.
local function look()
  unfinished = 0
  for _, c in ipairs(job:checkpoints().history) do
    if c.status == "in_progress" then
      unfinished = unfinished + 1
    elseif not seen[c.id] then
      seen[c.id] = true
      if c.status == "failed" then
        failed = failed + 1
      elseif c.trigger_timestamp >= begin + o.warm_up then
        durations[#durations + 1] = c.end_to_end_duration
        bytes, in_flight = math.max(bytes, c.checkpointed_size), math.max(in_flight, c.persisted_data)
      end
    end
  end
end

local function look_at_queues()
  local sum = 0
  for _, row in ipairs(job:metrics()) do sum = sum + (row.inputQueueSize or 0) end
  queued[#queued + 1] = sum
end

repeat
  job:wait(math.min(o.interval, 200))
  if now_ms() >= begin + o.warm_up then look_at_queues() end
  look()
  local status = job:status()
  assert(status.state == "starting" or status.state == "running", status.error)
until #durations >= o.checkpoints or now_ms() - begin > o.limit_s * 1000
job:cancel()
job:wait()
os.execute("rm -rf '" .. folder .. "'")

table.sort(durations)
table.sort(queued)
local function at(q, of)
  of = of or durations
  return of[math.max(1, math.ceil(q * #of))] or 0 / 0
end
print(('{"engine":"streamckpt","work":"backpressure","mode":"%s","depth":%d,"rate":%d,"parallelism":%d,'
  .. '"debloat":%d,"records_at_sink":%d,"queued_p50":%.0f,'
  .. '"checkpoints":{"n":%d,"p50_ms":%.1f,"p99_ms":%.1f,"max_ms":%.1f,"bytes_max":%d,"in_flight_max":%d,'
  .. '"unfinished":%d,"failed":%d}}'):format(o.mode, o.depth, o.rate, o.parallelism, o.debloat, native.records(),
  at(0.5, queued), #durations, at(0.5), at(0.99), at(1), bytes, in_flight, unfinished, failed))
