-- What the benchmarks share: least of several rounds, in CPU time of whole processes, so that what else
-- the machine does counts little; and lines that show a ratio, or a figure beside its budget.
local support = {}

-- The least CPU time in seconds that each function takes, run in turn, `rounds` times.
function support.best(rounds, functions)
  local best = {}
  for _ = 1, rounds do
    for i, f in ipairs(functions) do
      collectgarbage()
      local start = os.clock()
      f()
      best[i] = math.min(best[i] or math.huge, os.clock() - start)
    end
  end
  return table.unpack(best)
end

-- Run each command in turn, `rounds` times; of each the output whose field is least.
function support.least(rounds, commands, field)
  local best = {}
  for _ = 1, rounds do
    for i, command in ipairs(commands) do
      local text = support.output(command)
      local v = assert(support.field(text, field), text)
      if not best[i] or v < support.field(best[i], field) then best[i] = text end
    end
  end
  return table.unpack(best)
end

-- CPU time in seconds of a shell command, user and system.
function support.cpu(command)
  local text = support.output(("bash -c 'TIMEFORMAT=\"%%U %%S\"; time (%s) >/dev/null' 2>&1"):format(command))
  local user, system = text:match("([%d.]+) ([%d.]+)%s*$")
  return assert(tonumber(user), text) + tonumber(system)
end

-- "name   1234 ns   1.23 x of what   (budget 2 x)"
function support.line(name, ns, ratio, of, budget)
  print(("%-42s %8.0f ns  %6.2f x %s%s"):format(name, ns, ratio, of,
    budget and ("  (budget: %s)"):format(budget) or ""))
end

function support.figure(name, format, value, budget)
  print(("%-42s " .. format .. "%s"):format(name, value,
    budget and ("  (budget: %s)"):format(budget) or ""))
end

-- Run a shell command, give what it printed.
function support.output(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read("a")
  assert(pipe:close(), "failed: " .. command .. "\n" .. text)
  return text
end

-- A number of one line of JSON by its name.
function support.field(json, name)
  return tonumber(json:match('"' .. name .. '":"?([-%d.e+]+)'))
end

-- Where the programs of the benchmarks were built.
support.programs = os.getenv("BENCH_PROGRAMS") or "build/bench"

return support
