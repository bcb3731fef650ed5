-- kill: the loop of real kills over the main job, and over one whose barriers overtake full buffers, for
-- `make kill`. Not a spec: it takes minutes.
--
--   lua5.4 spec/e2e/kill.lua [KILLS] [SEED] [LINES]           (50, of the clock, 1500000)
local uv = require "luv"

local kills = require "support.kills"
local main_job = require "support.main_job"
local pressed_kills = require "support.pressed_kills"

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

-- As many kills again, with unaligned checkpoints.
local function pressed_work()
  local done, rounds = 0, 0
  while done < KILLS do
    rounds = rounds + 1
    local dir = ("%s/pressed-%d"):format(folder, rounds)
    assert(uv.fs_mkdir(dir, 448)) -- 0700
    done = done + pressed_kills.run { folder = dir, records = 60000, kills = KILLS - done, seed = SEED + rounds }
    os.execute(("rm -rf '%s'"):format(dir))
  end
  print(("unaligned checkpoints: %d kills in %d rounds, every record was written once"):format(done, rounds))
end

local function both()
  work()
  pressed_work()
end

local ok, message = xpcall(both, function(m) return type(m) == "string" and m or debug.traceback(m) end)
if not ok then
  io.stderr:write(("kill: %s\nthe folder is kept: %s\n"):format(message, folder))
  os.exit(1)
end
os.execute(("rm -rf '%s'"):format(folder))
