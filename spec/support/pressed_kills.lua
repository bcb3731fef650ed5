-- pressed_kills: pressed_job.lua killed with SIGKILL at its checkpoints, and started again at another
-- parallelism and with another timeout, until it comes to its end; and what is wrong with its output.
local child = require "support.child"

local pressed_kills = {}

local SCRIPT = debug.getinfo(1, "S").source:match("^@(.*)pressed_kills%.lua$") .. "pressed_job.lua"
local TIMEOUTS = { 0, 0, 30, 60 } -- ms

-- Run once; killed behind the checkpoint of that number in this run (nil: not at all).
local function run_once(options, random, kill_at)
  local seen = 0
  local result = child.run {
    command = { "lua5.4", SCRIPT, options.folder, tostring(options.records), tostring(random(4)),
                tostring(TIMEOUTS[random(#TIMEOUTS)]) },
    on_line = function(line, process)
      if line:find("^checkpoint") then seen = seen + 1 end
      if kill_at and seen >= kill_at then process.kill("sigkill") end
    end,
  }
  if result.signal == 9 and not result.late then return false end
  assert(result.code == 0 and result.stdout:find("end\n", 1, true), result.stderr)
  return true
end

-- Every record once, and every count of every key once.
local function wrong(options)
  local records, counts, n = {}, {}, 0
  local listing <close> = assert(io.popen("ls '" .. options.folder .. "/out'"))
  for name in listing:lines() do
    for line in io.lines(options.folder .. "/out/" .. name) do
      local i, k, count = line:match('"i":(%d+)'), line:match('"k":(%d+)'), line:match('"n":(%d+)')
      local of_key = k .. "/" .. count
      if records[i] then return "record " .. i .. " was written twice" end
      if counts[of_key] then return "count " .. count .. " of key " .. k .. " was written twice" end
      records[i], counts[of_key], n = true, true, n + 1
    end
  end
  if n ~= options.records then return ("%d of %d records were written"):format(n, options.records) end
end

--- Kill until the job has come to its end.
-- @param options {folder: an empty one, records, kills: at most, seed}
-- @return how many kills there were. Raises a sentence where the output is wrong.
function pressed_kills.run(options)
  math.randomseed(options.seed)
  local random, kills = math.random, 0
  while not run_once(options, random, kills < options.kills and random(3) or nil) do kills = kills + 1 end
  local what = wrong(options)
  if what then error(("%s (seed %d, %d kills)"):format(what, options.seed, kills), 0) end
  return kills
end

return pressed_kills
