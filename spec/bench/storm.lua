-- A checkpoint every 10 ms under load: the native count, endless, in modes aligned and unaligned. All have
-- to complete, and nothing may be left: no file but those of what is retained, no descriptor, no memory.
--   lua5.4 spec/bench/storm.lua [seconds] [ms between checkpoints] [keys]
-- Needs the module of the benchmarks, see native.lua; without it, it starts itself with it.
local support = require "bench.support"

local SECONDS, INTERVAL, KEYS = tonumber(arg[1]) or 60, tonumber(arg[2]) or 10, tonumber(arg[3]) or 100000
if not arg[4] then
  for _, mode in ipairs { "aligned", "unaligned" } do
    local text, why = support.try(support.lua("storm", ("%d %d %d %s"):format(SECONDS, INTERVAL, KEYS, mode)))
    io.write(text or ("%s is not measured: %s\n"):format(mode, why))
  end
  return
end

local native = require "bench.native"
local sc = require "streamckpt"
local uv = require "luv"

local function count_lines(command)
  return tonumber((support.output(command .. " | wc -l")))
end

local function descriptors() return count_lines("ls /proc/" .. uv.os_getpid() .. "/fd") end

local folder = assert(uv.fs_mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/storm-XXXXXX"))
native.begin { events = 1 << 60, keys = KEYS }
local env = sc.env { name = "storm", parallelism = 2, log = { level = "error" },
                     checkpoint = { dir = folder, interval = INTERVAL, unaligned = arg[4] == "unaligned" } }
native.operator(native.operator(native.keyed(native.source(env)), "count"), "count_sink")

local job = assert(env:start())

local function events_counted()
  local n = 0
  for _, row in ipairs(job:metrics()) do
    if row.uid:find("^count_sink") then n = n + row.numRecordsIn end
  end
  return n
end

local function run_for(ms)
  local stop = uv.hrtime() + ms * 1e6
  while uv.hrtime() < stop do
    job:wait(100)
    assert(job:status().state ~= "failed", job:status().error)
  end
end

run_for(SECONDS * 1000 // 4) -- all keys are there by now
local rss, open, events = uv.resident_set_memory(), descriptors(), events_counted()
run_for(SECONDS * 1000 - SECONDS * 1000 // 4)
local rss_end, open_end = uv.resident_set_memory(), descriptors()
events = events_counted() - events
local counts = job:checkpoints().counts
job:cancel()
job:wait()
local kept = count_lines(("ls -d '%s'/storm/chk-*"):format(folder))
local stray = count_lines(("find '%s' -name '.*.tmp-*'"):format(folder))
os.execute("rm -rf '" .. folder .. "'")

print(("--- a checkpoint every %d ms for %d s, %s: %d completed, %d failed, %.1f M events a second"):format(INTERVAL,
  SECONDS, arg[4], counts.completed, counts.failed, events / (SECONDS * 0.75) / 1e6))
support.figure("failed", "%8d", counts.failed, "0")
support.figure("memory gained in the last three quarters", "%8.1f MB", (rss_end - rss) / 1e6, "none")
support.figure("descriptors gained", "%8d", open_end - open, "0")
support.figure("folders of checkpoints, temporary files left", "%8d", kept + stray, "1")
