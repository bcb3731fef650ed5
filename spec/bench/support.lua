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

-- Run a shell command: what it printed, or nil and why not. What it says to standard error is kept
-- back unless it fails.
function support.try(command)
  local path = os.tmpname()
  local pipe = assert(io.popen(("(%s) 2>%s"):format(command, path)))
  local text = pipe:read("a")
  local ok = pipe:close()
  local file <close> = assert(io.open(path))
  local said = file:read("a")
  os.remove(path)
  if ok then return text end
  return nil, ("it failed: %s"):format(said:match("[^\n]+") or "without a word")
end

-- The command that runs a script of this folder in a process of its own, with the benchmarks' module.
function support.lua(script, options)
  return ("LUA_CPATH_5_4='%s/?.so;%s' lua5.4 spec/bench/%s.lua %s"):format(support.programs,
    os.getenv("LUA_CPATH_5_4") or ";", script, options)
end

-- The command that runs a work on another engine, or nil and why it cannot be run here. PEERS is the
-- folder of the engines, ENGINE/run WORK OPTIONS.
function support.peer(engine, work, options)
  local folder = os.getenv("PEERS") or ""
  if folder == "" then return nil, "PEERS does not name the folder of the peers" end
  local run = io.open(("%s/%s/run"):format(folder, engine))
  if not run then return nil, ("there is no %s/%s/run"):format(folder, engine) end
  run:close()
  if engine ~= "floor" then
    for _, tool in ipairs { "java", "mvn" } do
      if not os.execute(("command -v %s >/dev/null"):format(tool)) then
        return nil, ("%s is not installed"):format(tool)
      end
    end
  end
  return ("'%s/%s/run' %s %s"):format(folder, engine, work, options)
end

-- Two runs of work count have counted the same.
function support.same_counts(a, b)
  for _, name in ipairs { "n", "total", "check" } do
    local pattern = '"' .. name .. '":"?(%d+)'
    assert(a:match(pattern) and a:match(pattern) == b:match(pattern), name .. " differs:\n" .. a .. b)
  end
end

-- A number of one line of JSON by its name.
function support.field(json, name)
  return tonumber(json:match('"' .. name .. '":"?([-%d.e+]+)'))
end

-- Where the programs of the benchmarks were built.
support.programs = os.getenv("BENCH_PROGRAMS") or "build/bench"

return support
