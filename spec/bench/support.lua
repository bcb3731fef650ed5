-- What the benchmarks share: best of several rounds, in CPU time of the whole process, so that what
-- else the machine does counts little; and lines that show a ratio beside its budget.
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

-- "name   1234 ns   1.23 x of what   (budget 2 x)"
function support.line(name, ns, ratio, of, budget)
  print(("%-34s %8.0f ns  %6.2f x %s%s"):format(name, ns, ratio, of,
    budget and ("  (budget: %s)"):format(budget) or ""))
end

-- Run a shell command, give what it printed.
function support.output(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read("a")
  assert(pipe:close(), "failed: " .. command)
  return text
end

-- A number of one line of JSON without nesting under that name.
function support.field(json, name)
  return tonumber(json:match('"' .. name .. '":"?([-%d.e+]+)'))
end

return support
