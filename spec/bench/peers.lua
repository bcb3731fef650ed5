-- Work count beside other engines, in one run, on the same events: PEERS names the folder whose
-- flink/run and jet/run print the same line of JSON as our program (their README defines the work). Where
-- it is not set, or an engine's tools are not installed, this says so and goes on.
--   PEERS=folder lua5.4 spec/bench/peers.lua [events] [keys] [parallelism] [rounds]
local support = require "bench.support"

local EVENTS, KEYS = tonumber(arg[1]) or 20000000, tonumber(arg[2]) or 1000000
local PARALLELISM, ROUNDS = tonumber(arg[3]) or 1, tonumber(arg[4]) or 1

local options = ("events=%d keys=%d skew=uniform parallelism=%d"):format(EVENTS, KEYS, PARALLELISM)
local names, commands = {}, {}
local function add(name, command) names[#names + 1], commands[#commands + 1] = name, command end
local function missing(engine, why) print(("%s is not measured: %s"):format(engine, why)) end

add("streamckpt, native", ("%s/count %s"):format(support.programs, options))
add("streamckpt, counter in Lua", support.lua("count_lua", options))
for _, engine in ipairs { "flink", "jet" } do
  local command, why = support.peer(engine, "count", options .. " checkpoint=0")
  if command then add(engine, command) else missing(engine, why) end
end

print(("--- count beside others, %d events, %d keys, parallelism %d"):format(EVENTS, KEYS, PARALLELISM))
local results = {}
for _ = 1, ROUNDS do
  for i, command in ipairs(commands) do
    local text, why = support.try(command)
    if not text then
      missing(names[i], why)
    elseif not results[i] or support.field(text, "cpu_s") < support.field(results[i], "cpu_s") then
      results[i] = text
    end
  end
end

-- Targets are fractions of what each engine takes.
local TARGETS = { flink = { cpu = { "0.10 x", "1 x" }, memory = { "0.10 x" } },
                  jet = { cpu = { "0.20 x" }, memory = {} } }
for i, name in ipairs(names) do
  if results[i] then
    support.same_counts(results[1], results[i])
    print(("%-28s %7.1f s CPU %7.1f s %8.0f MB"):format(name, support.field(results[i], "cpu_s"),
      support.field(results[i], "wall_s"), support.field(results[i], "max_rss_mb")))
  end
end
for k = 3, #names do
  if results[k] then
    for i = 1, 2 do
      for _, what in ipairs { { "cpu", "cpu_s", "CPU time" }, { "memory", "max_rss_mb", "memory" } } do
        local target = TARGETS[names[k]][what[1]][i]
        support.figure(("%s: %s"):format(names[i], what[3]), "%8.3f x " .. names[k],
          support.field(results[i], what[2]) / support.field(results[k], what[2]), target)
      end
    end
  end
end
