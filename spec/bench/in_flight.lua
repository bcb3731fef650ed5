-- Restore of in-flight data: an unaligned checkpoint of 8 exchanges whose buffers are full is restored at
-- the same and at another parallelism, with sinks that no longer hold anything up. Timed are the checkpoint
-- itself, the start, and the first aligned checkpoint of the new run, which waits until all recovered data
-- has been read.
--   lua5.4 spec/bench/in_flight.lua [MB of buffers, of which many are sent before they are full]
-- Needs the module of the benchmarks, see native.lua; without it, it starts itself with it.
local support = require "bench.support"

local MB = tonumber(arg[1]) or 200
if not arg[2] then
  local text, why = support.try(support.lua("in_flight", ("%d run"):format(MB)))
  io.write(text or ("restore of in-flight data is not measured: %s\n"):format(why))
  return
end

local native = require "bench.native"
local sc = require "streamckpt"
local uv = require "luv"

local DEPTH, FROM, SEGMENT = 8, 2, 32768
-- Every exchange has FROM * FROM channels; the last is emptied, slowly.
local BUFFERS = math.max(2, MB * 1000000 // ((DEPTH + 1) * FROM * FROM * SEGMENT))

local folder = assert(uv.fs_mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/in_flight-XXXXXX"))

local function start(parallelism, rate, unaligned, from)
  local env = sc.env { name = "in_flight", parallelism = parallelism, log = { level = "error" },
    network = { segment_size = SEGMENT, exclusive_buffers = BUFFERS, floating_buffers = 0 },
    checkpoint = { dir = folder, interval = "1h", unaligned = unaligned } }
  local stream = native.source(env):uid("events")
  for i = 1, DEPTH do stream = native.operator(native.keyed(stream), "pressure_stage"):uid("stage" .. i) end
  native.operator(native.keyed(stream), "pressure_sink", { rate = rate / parallelism }):uid("slow")
  return assert(env:start { from = from })
end

local function bytes_in(path) return tonumber((support.output(("du -sb '%s' | cut -f1"):format(path)))) end

native.begin { events = 1 << 60, keys = 10000 }
local job = start(FROM, 100, true)
-- Full is where nothing moves but what the sinks take: 100 records a second.
local emitted = 0
repeat
  local before = emitted
  job:wait(1000)
  emitted = job:metrics("events").numRecordsOut
until emitted > 0 and emitted - before < 500
local begin = uv.hrtime()
assert(job:checkpoint())
local took = (uv.hrtime() - begin) / 1e6
local path = job:status().last_checkpoint_path
job:cancel()
job:wait()
local size = bytes_in(path) / 1e6
print(("--- restore of %.0f MB in flight; the checkpoint took %.0f ms (%.0f MB a second, synced)"):format(size, took,
  size / took * 1000))

for _, parallelism in ipairs { FROM, FROM + 1 } do
  native.begin { events = 1 << 60, keys = 10000 }
  begin = uv.hrtime()
  local again = start(parallelism, 1e9, false, path)
  while again:status().state == "starting" do again:wait(1) end
  local running = (uv.hrtime() - begin) / 1e6
  assert(again:checkpoint())
  local read = (uv.hrtime() - begin) / 1e6
  again:cancel()
  again:wait()
  print(("at parallelism %d: %6.0f ms to running, %6.0f ms until all is read (%.0f MB a second)"):format(parallelism,
    running, read, size / read * 1000))
end
os.execute("rm -rf '" .. folder .. "'")
