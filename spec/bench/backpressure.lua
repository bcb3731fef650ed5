-- Work backpressure: how long a checkpoint takes when every buffer is full, in the modes aligned, unaligned
-- and timeout200 (aligned, and unaligned after 200 ms), at sinks of 100 and 10,000 records a second and
-- depths of 8 and 16 exchanges; beside Flink at depth 8 where PEERS names the folder of the peers. Nothing
-- is synced (checkpoint.sync = false), as Flink does. Then, at depth 8, the same with debloating: what it makes
-- of the bytes in flight and of the durations.
--   lua5.4 spec/bench/backpressure.lua [checkpoints a run] [ms between them]
local support = require "bench.support"
local uv = require "luv"

local CHECKPOINTS, INTERVAL, PARALLELISM = tonumber(arg[1]) or 100, tonumber(arg[2]) or 200, 2

-- Median of how many ms it takes to write a file of that size and sync it.
local function write_ms(bytes)
  local path, data, times = os.tmpname(), ("x"):rep(bytes), {}
  for i = 1, 15 do
    local start = uv.hrtime()
    local fd = assert(uv.fs_open(path, "w", 384))
    assert(uv.fs_write(fd, data))
    assert(uv.fs_fsync(fd))
    uv.fs_close(fd)
    times[i] = (uv.hrtime() - start) / 1e6
  end
  os.remove(path)
  table.sort(times)
  return times[8]
end

-- An aligned checkpoint waits for all that is queued: seconds each.
local function options(case)
  local aligned = case.mode == "aligned"
  return ("depth=%d rate=%d parallelism=%d mode=%s checkpoints=%d limit_s=%d"):format(case.depth, case.rate,
    PARALLELISM, case.mode, aligned and math.min(5, CHECKPOINTS) or CHECKPOINTS, 120)
end

local function show(name, text, budget)
  local c = text:match('"checkpoints":(%b{})')
  local function of(field) return support.field(c, field) or 0 / 0 end
  print(("%-12s %4d checkpoints  p50 %7.1f ms  p99 %7.1f ms  max %7.1f ms  %5.1f MB in flight, %d unfinished%s")
    :format(name, of("n"), of("p50_ms"), of("p99_ms"), of("max_ms"), of("in_flight_max") / 1e6, of("unfinished"),
    budget and ("  (budget: %s)"):format(budget) or ""))
  return of("p50_ms"), of("p99_ms"), of("in_flight_max")
end

local function budget_of(case, in_flight)
  if case.mode == "timeout200" then return "210 ms" end
  if case.mode == "unaligned" then
    local record = 1000 * PARALLELISM / case.rate
    return ("p99 %.1f ms: a record, 5 ms, and writing that much"):format(record + 5 + write_ms(in_flight))
  end
end

local function run(case)
  print(("--- backpressure, %s, %d records a second, depth %d"):format(case.mode, case.rate, case.depth))
  local text, why = support.try(support.lua("backpressure_run", options(case) .. (" interval=%d"):format(INTERVAL)))
  if not text then
    print("not measured: " .. why)
    return
  end
  local in_flight = support.field(text, "in_flight_max")
  local p50, p99 = show("streamckpt", text, budget_of(case, in_flight))
  if case.depth ~= 8 then return end
  local command, missing = support.peer("flink", "backpressure", options(case) .. (" checkpoint=%d"):format(INTERVAL))
  if command then text, missing = support.try(command) end
  if not command or not text then
    print("flink is not measured: " .. missing)
    return
  end
  local flink50, flink99 = show("flink", text)
  print(("%-12s p50 %.2f x, p99 %.2f x flink%s"):format("ratio", p50 / flink50, p99 / flink99,
    case.mode == "unaligned" and case.rate == 10000 and "  (budget: 0.50 x)" or ""))
end

local function measure(case, more)
  return support.try(support.lua("backpressure_run", options(case) .. (" interval=%d %s"):format(INTERVAL, more)))
end

-- Full queues are 600 ms of work for each hop at 10,000 records a second, and more than a minute at 100.
local function run_debloated(case)
  local target = case.rate == 10000 and 100 or 1000
  print(("--- backpressure, %s, %d records a second, depth %d, debloating to %d ms of work"):format(case.mode, case.rate,
    case.depth, target))
  local text, why = measure(case, ("warm_up=15000 debloat=%d"):format(target))
  if not text then
    print("not measured: " .. why)
    return
  end
  local p50, p99 = show("debloated", text)
  local queued = support.field(text, "queued_p50")
  if case.mode == "aligned" and case.rate == 100 then
    print(("%-12s %.2f MB queued (without debloating none ever completes)"):format("", queued / 1e6))
    return
  end
  text = measure(case, "debloat=0")
  if not text then return end
  local plain50, plain99 = show("plain", text)
  local plain_queued = support.field(text, "queued_p50")
  print(("%-12s p50 %.2f x, p99 %.2f x, bytes in flight %.2f x of %.2f MB"):format("ratio", p50 / plain50, p99 / plain99,
    queued / plain_queued, plain_queued / 1e6))
end

for _, depth in ipairs { 8, 16 } do
  for _, rate in ipairs { 10000, 100 } do
    for _, mode in ipairs { "unaligned", "timeout200", "aligned" } do
      -- An aligned one never ends at 100 records a second.
      if mode ~= "aligned" or rate == 10000 then run { mode = mode, rate = rate, depth = depth } end
    end
  end
end

for _, rate in ipairs { 10000, 100 } do
  for _, mode in ipairs { "unaligned", "aligned" } do run_debloated { mode = mode, rate = rate, depth = 8 } end
end
