-- The main job, examples/visits.lua, beside a bare Lua loop that parses the same lines, does the same
-- table work, and writes the same visits. The log is made here; both are whole processes, and what they
-- take for a log of a tenth is subtracted, so that only records count.
--   lua5.4 spec/bench/visits.lua [lines]
local support = require "bench.support"

local LINES = tonumber(arg[1]) or 100000
local MONTHS = { "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" }

local folder = os.tmpname()
os.remove(folder)
assert(os.execute("mkdir -p '" .. folder .. "'"))

-- Clients come and go; times rise, up to 40 s out of order.
local function make_log(path, lines)
  local random = 42
  local function below(n)
    random = (random * 6364136223846793005 + 1442695040888963407)
    return (random >> 33) % n
  end
  local file = assert(io.open(path, "w"))
  local time = 1700000000
  for i = 1, lines do
    if i % 3 == 0 then time = time + 1 end
    local t = os.date("!*t", time - below(40))
    local client = (i // 2000 * 50 + below(200)) % 20000
    file:write(('10.%d.%d.%d - - [%02d/%s/%d:%02d:%02d:%02d +0000] "GET /item/%d HTTP/1.1" 200 %d "-" "-"\n')
      :format(client // 250, client % 250, client % 7, t.day, MONTHS[t.month], t.year, t.hour, t.min, t.sec,
        below(5000), 500 + below(40000)))
  end
  file:close()
end

local function engine(log, parallelism)
  return support.cpu(("rm -rf %s/out %s/ckpt; lua5.4 examples/visits.lua %s %s/out %s/ckpt %d"):format(
    folder, folder, log, folder, folder, parallelism))
end

local function bare(log)
  return support.cpu(("lua5.4 spec/bench/visits_bare.lua %s %s/bare"):format(log, folder))
end

local long, short = folder .. "/long", folder .. "/short"
make_log(long, LINES)
make_log(short, LINES // 10)
local function record(run, ...)
  local a, b = math.huge, math.huge
  for _ = 1, 3 do
    a, b = math.min(a, run(long, ...)), math.min(b, run(short, ...))
  end
  return (a - b) / (LINES - LINES // 10) * 1e9
end
local loop = record(bare)
print(("--- examples/visits.lua, %d lines (CPU time a line)"):format(LINES))
support.line("bare Lua loop", loop, 1, "bare loop")
for _, parallelism in ipairs { 1, 2 } do
  local ns = record(engine, parallelism)
  support.line(("the job, parallelism %d"):format(parallelism), ns, ns / loop, "bare loop")
end
os.execute("rm -rf '" .. folder .. "'")
