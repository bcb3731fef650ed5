-- kills: the main job killed with SIGKILL again and again, at moments of every kind.
--
-- A round begins with empty folders and goes on until a run comes to its end; then what it wrote is
-- compared, and the next round begins, until there were enough kills. After some rounds the finished
-- job is started, and killed, once more. Every run has another parallelism.
local main_job = require "support.main_job"

local kills = {}

-- A moment is {name, how often it is taken, fn(random, job) -> reached}, where reached(process) says
-- whether the moment to kill is there. `job` has seconds, size, done (the share of the log that is
-- behind the last checkpoint) and completed (how many checkpoints this run has completed).
local MOMENTS = {
  { "any time", 6, function(random, job)
    local at = random() * (job.seconds * (1 - job.done) + 0.1)
    return function(process) return process.seconds >= at end
  end },
  { "at the start", 3, function(random)
    local at = random() * 0.15
    return function(process) return process.seconds >= at end
  end },
  { "near a checkpoint", 6, function(random, job)
    local nth, after, seen = random(0, 3), random() * 0.03, nil
    return function(process)
      if job.begun > nth then seen = seen or process.seconds end
      return seen and process.seconds >= seen + after
    end
  end },
  { "around the end", 5, function(random, job)
    local after, seen = random() * 0.12, nil
    return function(process)
      if job.done * job.size + process.read >= 0.99 * job.size then seen = seen or process.seconds end
      return seen and process.seconds >= seen + after
    end
  end },
}

local function pick(random)
  local total = 0
  for _, moment in ipairs(MOMENTS) do total = total + moment[2] end
  local at = random(total)
  for _, moment in ipairs(MOMENTS) do
    at = at - moment[2]
    if at <= 0 then return moment end
  end
end

-- Follow the job's log: how many checkpoints have begun and completed in this run, and how much of the
-- input the process had read by then.
local function follow(job, run)
  local path = run.ckpt .. "/visits/log"
  local file = io.open(path)
  if file then file:seek("end") end
  job.begun, job.completed = 0, 0
  local done = job.done
  return function(process)
    file = file or io.open(path)
    for line in file and file:lines() or function() end do
      if line:find("]: triggered", 1, true) then job.begun = job.begun + 1 end
      if line:find("]: completed", 1, true) then
        job.completed = job.completed + 1
        job.done_next = math.min(1, done + process.read / job.size)
      end
    end
  end, function()
    if file then file:close() end
  end
end

-- One run that may be killed; true if it was.
local function one_run(job, run, random, say)
  local moment, parallelism = pick(random), random(4)
  local reached, after_kill = moment[3](random, job), false
  local look, close = follow(job, run)
  local result = main_job.visits(run, parallelism, function(process)
    look(process)
    if reached(process) and not after_kill then
      after_kill = true
      process.kill()
    end
  end)
  close()
  job.done = job.done_next or job.done
  local killed = result.signal == 9
  if not killed and result.code ~= 0 then
    error(("the job failed (%d, signal %d): %s"):format(result.code, result.signal, result.stderr), 0)
  end
  say(("  %d task%s, %s: %s after %.2f s, %d checkpoint%s"):format(parallelism,
    parallelism == 1 and "" or "s", moment[1], killed and "killed" or "came to its end", result.seconds,
    job.completed, job.completed == 1 and "" or "s"))
  return killed, moment[1]
end

--- Kill until there were enough.
-- @param options {log, folder (removed and made anew), kills, seed, seconds: of an undisturbed run,
--   expected: main_job.expected(log), interval, say = fn(line)}
-- @return {kills, rounds, by_moment = {name -> kills}}. Raises a sentence when something is wrong.
function kills.run(options)
  math.randomseed(options.seed)
  local random, say = math.random, options.say or function() end
  local stat = assert(io.open(options.log))
  local size = stat:seek("end")
  stat:close()
  local tally = { kills = 0, rounds = 0, by_moment = {} }
  while tally.kills < options.kills do
    tally.rounds = tally.rounds + 1
    local run = { log = options.log, interval = options.interval,
                  out = ("%s/out-%d"):format(options.folder, tally.rounds),
                  ckpt = ("%s/ckpt-%d"):format(options.folder, tally.rounds) }
    local job = { seconds = options.seconds, size = size, done = 0 }
    say(("round %d, %d kills so far"):format(tally.rounds, tally.kills))
    local finished = 0
    repeat
      local killed, moment = one_run(job, run, random, say)
      if killed then
        tally.kills = tally.kills + 1
        tally.by_moment[moment] = (tally.by_moment[moment] or 0) + 1
      else
        finished = finished + 1
      end
      -- A job that has ended may be started and killed, too, and must leave all as it is.
    until finished == 2 or finished == 1 and random() < 0.7
      or tally.kills >= options.kills and main_job.visits(run, random(4)).code == 0
    local wrong = main_job.wrong(run, options.expected)
    if wrong then error(("round %d: %s (seed %d)"):format(tally.rounds, wrong, options.seed), 0) end
    os.execute(("rm -rf '%s' '%s'"):format(run.out, run.ckpt))
  end
  return tally
end

return kills
