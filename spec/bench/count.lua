-- Native keyed count through one hash exchange (count_work.h), and with its counter in Lua, beside a plain
-- C loop with one table and, where PEERS/floor is there, its two programs, on the same events.
--   lua5.4 spec/bench/count.lua [events] [keys] [rounds]
-- Also the hop of a record over a channel, and what a key costs in memory.
local support = require "bench.support"

local EVENTS, KEYS = tonumber(arg[1]) or 3000000, tonumber(arg[2]) or 1000000
local ROUNDS = tonumber(arg[3]) or 3
local count = support.programs .. "/count"

local floor_missing = select(2, support.peer("floor", "count", ""))
if floor_missing then print("floor is not measured: " .. floor_missing) end

for _, skew in ipairs { "uniform", "zipf" } do
  local options = ("events=%d keys=%d skew=%s"):format(EVENTS, KEYS, skew)
  local commands = {
    ("%s engine=plain %s"):format(count, options),
    ("%s parallelism=1 slots=1 %s"):format(count, options),
    ("%s parallelism=2 slots=2 %s"):format(count, options),
    support.lua("count_lua", options),
    not floor_missing and support.peer("floor", "count", options) or nil,
    not floor_missing and support.peer("floor", "channel", options) or nil,
  }
  local results = { support.least(ROUNDS, commands, "cpu_s") }
  local names = { "plain C loop", "count, parallelism 1, one slot", "count, parallelism 2, two slots",
                  "count in Lua, parallelism 1", "floor: count", "floor: channel" }
  local plain = support.field(results[1], "cpu_s")
  print(("--- count, %s, %d events, %d keys (CPU time an event)"):format(skew, EVENTS, KEYS))
  for i, result in ipairs(results) do
    support.same_counts(results[1], result)
    local cpu = support.field(result, "cpu_s")
    support.line(names[i], cpu / EVENTS * 1e9, cpu / plain, "plain loop",
      (i == 2 or i == 3) and "100 ns, 3 x" or nil)
  end
end

local hop = support.least(ROUNDS, { support.programs .. "/hop 5000000" }, "cpu_ns")
print("--- channel hop, records of 64 bytes (CPU time of both threads)")
support.line("output, channel, input", support.field(hop, "cpu_ns"),
  support.field(hop, "cpu_ns") / support.field(hop, "plain_ns"), "write and read in one thread", "25 ns")

print("--- memory of a counter (resident, beside the same job with one key)")
local many = support.output(("%s events=%d keys=%d"):format(count, 4 * KEYS, KEYS))
local one = support.output(("%s events=%d keys=1"):format(count, 1000))
local bytes = (support.field(many, "max_rss_mb") - support.field(one, "max_rss_mb")) * 1024 * 1024
support.figure("memory of a key", "%8.1f bytes", bytes / support.field(many, "entries"), "64 + 9 of the key")
