-- kill: the loop of real kills over the main job, for `make kill`. Not a spec: it takes minutes.
--
--   lua5.4 spec/e2e/kill.lua [KILLS] [SEED] [LINES]           (50, of the clock, 1500000)
local uv = require "luv"

local kills = require "support.kills"
local main_job = require "support.main_job"

local KILLS = tonumber(arg[1]) or 50
local SEED = tonumber(arg[2]) or os.time()
local LINES = tonumber(arg[3]) or 1500000

local folder = assert(uv.fs_mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/streamckpt-kill-XXXXXX"))
local log = folder .. "/access.log"

local function work()
  print(("seed %d; making a log of %d lines"):format(SEED, LINES))
  assert(main_job.script("make_log.lua", { log, tostring(LINES), tostring(SEED) }).code == 0)
  local expected = main_job.expected(log)
  local run = { log = log, out = folder .. "/out", ckpt = folder .. "/ckpt" }
  local result = main_job.visits(run, 2)
  if result.code ~= 0 then error(result.stderr, 0) end
  local wrong = main_job.wrong(run, expected)
  if wrong then error("undisturbed: " .. wrong, 0) end
  print(("undisturbed: %.1f s, %d visits, as a plain loop finds them"):format(result.seconds,
    #expected.visits))
  local tally = kills.run { log = log, folder = folder, kills = KILLS, seed = SEED,
                            seconds = result.seconds, expected = expected, say = print }
  local words = {}
  for name, count in pairs(tally.by_moment) do words[#words + 1] = ("%d %s"):format(count, name) end
  table.sort(words)
  print(("%d kills (%s) in %d rounds: every round wrote the same %d visits, each once"):format(tally.kills,
    table.concat(words, ", "), tally.rounds, #expected.visits))
end

local ok, message = xpcall(work, function(m) return type(m) == "string" and m or debug.traceback(m) end)
if not ok then
  io.stderr:write(("kill: %s\nthe folder is kept: %s\n"):format(message, folder))
  os.exit(1)
end
os.execute(("rm -rf '%s'"):format(folder))
