-- testing: tries out a job before it runs in earnest.
--
--   local testing = require "streamckpt.testing"
--   local env = sc.env { ... }                        -- as it is, with its streams; not started
--   print(testing.simulate(env, { 1, 100 }))
--
-- simulate runs the graph of an environment in a simulated world: one thread, a clock that is a number, a
-- storage in memory; and with failures: the process dies between any two steps, tasks fail, files cannot
-- be written, the job is cancelled and starts again with more tasks or fewer. What it leaves in the end must
-- be what a run without failures leaves. Rooms: sim_graph (the graph, as wide as it may be), sim_draw (what a
-- seed decides), sim_compare (what differs), sim_report (what is returned), and in C lua/binding/simulate.h.

local config = require "streamckpt.config"
local env_module = require "streamckpt.env"
local misuse = require "streamckpt.misuse"
local sim_compare = require "streamckpt.sim_compare"
local sim_draw = require "streamckpt.sim_draw"
local sim_graph = require "streamckpt.sim_graph"
local sim_report = require "streamckpt.sim_report"

local testing = {}

local DEFAULT_SEEDS = { 1, 20 }
-- Clean runs that have to agree; the first two are alike in everything.
local CLEAN_RUNS = 4
-- Further clean runs before a difference is believed.
local CONTROL_RUNS = 8
-- Turns of a clean run, and calls in it; a job that takes more has no end, or takes too long here.
local CLEAN_TURNS, CLEAN_STEPS = 2000000, 20000000

-- ---- options ----

local function at_least_once_rule(value)
  if type(value) == "boolean" then return value end
  if type(value) ~= "table" then return nil, "true, or an array of uids of sinks" end
  local set = {}
  for _, uid in ipairs(value) do
    if type(uid) ~= "string" then return nil, "true, or an array of uids of sinks" end
    set[uid] = true
  end
  return set
end

local function widths_rule(value)
  local expected = "an array of numbers of tasks, from 1 to 64"
  if type(value) ~= "table" or #value == 0 then return nil, expected end
  local out = {}
  for i, width in ipairs(value) do
    if math.type(width) ~= "integer" or width < 1 or width > 64 then return nil, expected end
    out[i] = width
  end
  return out
end

local OPTIONS = {
  seeds = { check = config.integer(1, 1000000) }, parallelism = { check = widths_rule },
  count = { check = config.integer(1, 1000000), default = 1000 },
  at_least_once = { check = at_least_once_rule, default = false },
  shrink = { check = config.boolean, default = true },
}

local function seeds_of(seed, options)
  if seed ~= nil and options.seeds then
    misuse.raise("simulate: seeds = %d and a seed: one of the two", options.seeds)
  end
  if options.seeds then return { 1, options.seeds } end
  if seed == nil then return DEFAULT_SEEDS end
  if math.type(seed) == "integer" then return { seed, seed } end
  local first, last
  if type(seed) == "table" then first, last = seed[1], seed[2] end
  if math.type(first) ~= "integer" or math.type(last) ~= "integer" or first > last then
    misuse.raise("simulate needs a seed, an integer, or the first and the last of several, {1, 100}; got %s",
      type(seed) == "table" and "a table without them" or misuse.shown(seed))
  end
  return { first, last }
end

-- ---- a run ----

local Trial = {}
Trial.__index = Trial

-- The plan of a start: `width` tasks wide, with these settings.
local function plan_for(self, width, slots, settings)
  local plan, job = self.plans[width], {}
  for name, value in pairs(plan.job) do job[name] = value end
  job.interval, job.timeout, job.min_pause, job.tolerable_failures = settings.interval, 600000, 0, -1
  job.externalized, job.retain = "retain_on_cancellation", settings.retain or 1
  job.restart, job.network, job.slots = settings.restart, settings.network, slots
  return { job = job, operators = plan.operators, edges = plan.edges, blob = plan.blob }
end

-- Run with these settings; the result of core.simulate, where `error` says what went wrong by itself.
function Trial:run(settings, turns_max, steps_max)
  local plans, lives = {}, {}
  for i, width in ipairs(settings.widths) do
    plans[i], lives[i] = plan_for(self, width, settings.slots[i], settings), i
  end
  local result, message = require("streamckpt.core").simulate {
    plans = plans, lives = lives, seed = settings.seed, look_ns = settings.look_ns,
    latency_ns = settings.latency_ns, jump_one_in = settings.jump_one_in,
    pace_ns = settings.pace_ns, slow_ns = settings.slow_ns, stall_one_in = settings.stall_one_in,
    stall_ns = settings.stall_ns, pool_threads = settings.pool_threads, random = settings.random,
    lives_max = settings.lives_max, turns_max = turns_max, steps_max = steps_max,
    events = settings.events, files = self.files, sinks = self.sinks, keys = #settings.events == 0,
  }
  return result or { finished = false, error = tostring(message), story = "", lives = 0 }
end

function Trial:clean(number, width)
  local settings = sim_draw.clean(number, self.own, self.size)
  settings.widths = { width }
  return self:run(settings, CLEAN_TURNS, CLEAN_STEPS)
end

local function same(known, sinks)
  for i in ipairs(sinks) do if not known.sinks[i].stable then return false end end
  return next(known.unstable_states) == nil
end

-- Does this width agree with the user's own, in all in which the clean runs of that agree?
local function agrees(self, run)
  return #sim_compare.differences(self.known, run, self.sinks, self.labels) == 0
end

local function failed_text(run)
  if run.error:find("does not come to its end", 1, true) then
    return "without any failure " .. run.error .. ": a source has to end, or the job has more records than "
      .. "can be simulated"
  end
  return "without any failure the job fails: " .. run.error
end

local NOISY = "two runs without failures that are alike in everything differ: functions of the job do not "
  .. "give the same each time (math.random, os.time, the order of pairs?), so less can be compared"
local TIMELY = "runs without failures differ with the order in which tasks have their turns: what the job "
  .. "gives depends on time, or on how records of several sources or splits meet, so less can be compared"

local function size_of(run)
  return { calls = run.calls, turns = run.turns, ops = run.ops, steps = run.steps, records = run.records,
           time_ns = run.time_ns }
end

-- Why a width is left out; nil where a run without failures gives the same.
local function not_so_wide(self, width)
  local run = self:clean(1, width)
  if not run.finished then return "even a run without failures fails" end
  return not agrees(self, run) and "even a run without failures gives something else" or nil
end

local function learn_widths(self, notes)
  local kept = { self.widths[1] }
  for i = 2, #self.widths do
    local why = not_so_wide(self, self.widths[i])
    if why then
      notes[#notes + 1] = ("with parallelism %d %s: it is left out"):format(self.widths[i], why)
    else
      kept[#kept + 1] = self.widths[i]
    end
  end
  return kept
end

-- The runs without failures: what they agree on, and how large they are. Nil, why not, and the story.
function Trial:learn(notes)
  local runs, own = {}, self.widths[1]
  for i = 1, CLEAN_RUNS do
    runs[i] = self:clean(i, own)
    if not runs[i].finished then return nil, failed_text(runs[i]), runs[i].story end
    self.size = self.size or size_of(runs[i])
  end
  self.clean_runs = runs
  self.known = sim_compare.learn(runs, self.sinks)
  if not same(sim_compare.learn({ runs[1], runs[2] }, self.sinks), self.sinks) then
    notes[#notes + 1] = NOISY
  elseif not same(self.known, self.sinks) then
    notes[#notes + 1] = TIMELY
  end
  self.widths = learn_widths(self, notes)
  for _, sink in ipairs(self.sinks) do
    sink.ordered = sim_graph.promises_order(self.plans, self.widths, sink)
  end
  return true
end

-- ---- differences ----

-- What is wrong with a run: sentences with their kinds, and what is only to be mentioned.
local function judge(self, run)
  if not run.finished then
    local text = "after a failure the job does not go on as it should: " .. run.error
    return { { kind = "failed", text = text } }, {}
  end
  return sim_compare.differences(self.known, run, self.sinks, self.labels)
end

-- Further clean runs, as wide as this seed's starts, may show that less can be asked for: then what is known
-- changes.
local function learn_more(self, settings)
  for i = 1, CONTROL_RUNS do
    local run = self:clean(CLEAN_RUNS + i, settings.widths[i % #settings.widths + 1])
    if run.finished and not agrees(self, run) then
      self.clean_runs[#self.clean_runs + 1] = run
      self.known = sim_compare.learn(self.clean_runs, self.sinks)
    end
  end
end

-- What a run with failures may take: the same several times over.
local function run_disturbed(self, settings)
  return self:run(settings, 40 * math.max(self.size.turns, self.size.calls) + 50000,
    40 * self.size.steps + 50000)
end

local function without(list, i)
  local out = table.move(list, 1, #list, 1, {})
  table.remove(out, i)
  return out
end

local function with(settings, name, value)
  local out = {}
  for k, v in pairs(settings) do out[k] = v end
  out[name] = value
  return out
end

local function fails_alike(self, settings, kind)
  local run = run_disturbed(self, settings)
  local differences = judge(self, run)
  if differences[1] and differences[1].kind == kind then return { settings, run, differences } end
end

-- Fewer events, and no other width, as long as it fails in the same way.
local function shrink(self, found)
  local kind = found[3][1].kind
  for i = #found[1].events, 1, -1 do
    if #found[1].events > 1 then
      found = fails_alike(self, with(found[1], "events", without(found[1].events, i)), kind) or found
    end
  end
  local one_width = {}
  for i in ipairs(found[1].widths) do one_width[i] = self.widths[1] end
  return fails_alike(self, with(found[1], "widths", one_width), kind) or found
end

local COUNTS = { "crashes", "task_failures", "storage_failures", "cancels", "restores", "checkpoints" }

local function add_counts(report, settings, run)
  for _, name in ipairs(COUNTS) do report[name] = report[name] + (run[name] or 0) end
  for i = 2, run.lives do
    if settings.widths[i] ~= settings.widths[i - 1] then report.rescales = report.rescales + 1 end
  end
end

local function tell_failure(self, report, seed, found)
  report.ok, report.failed_seed = false, seed
  if self.shrink and found[2].lives > 0 then
    found, report.shrunk = shrink(self, found), true
  end
  for i, difference in ipairs(found[3]) do report.differences[i] = difference.text end
  for i, event in ipairs(found[1].events) do report.events[i] = sim_draw.tell(event) end
  report.story = found[2].story
end

-- One seed. False where it differs.
local function try_seed(self, report, seed, mentioned)
  local settings = sim_draw.disturbed(seed, self.size, self.own, self.widths)
  local run = run_disturbed(self, settings)
  report.runs = report.runs + 1
  add_counts(report, settings, run)
  local differences, notes = judge(self, run)
  if #differences > 0 and run.finished then
    learn_more(self, settings)
    differences, notes = judge(self, run)
  end
  for _, note in ipairs(notes) do mentioned[note.kind] = mentioned[note.kind] or note.text end
  if #differences == 0 then return true end
  tell_failure(self, report, seed, { settings, run, differences })
  return false
end

local function tell_compared(self, report)
  for i, sink in ipairs(self.sinks) do
    local k, keys = self.known.sinks[i], 0
    for _ in pairs(k.order) do keys = keys + 1 end
    report.compared.sinks[i] = { label = sink.label, rows = k.number, stable = k.stable, counted = k.counted,
                                 keys = sink.ordered and keys or 0 }
  end
  local seen = {}
  for _, row in pairs(self.known.states) do
    local label = self.labels[row.uid] or row.uid
    if not self.known.unstable_states[row.uid .. "\0" .. row.state] and not seen[label] then
      seen[label] = true
      table.insert(report.compared.states, label)
    end
  end
  table.sort(report.compared.states)
end

local function new_trial(env, options)
  local widths, plans = sim_graph.plans(env, options.parallelism, options.count)
  local sinks, labels, files = sim_graph.parts(env, plans[widths[1]], options.at_least_once)
  local own = env.options
  return setmetatable({
    widths = widths, plans = plans, sinks = sinks, labels = labels, files = files, shrink = options.shrink,
    own = { restart = own.restart, network = own.network, retain = own.checkpoint.retain,
            unaligned = own.checkpoint.unaligned },
  }, Trial)
end

--- Run the graph of an environment in a simulated world, with failures, and say what differs from a run
-- without any. Nothing is started for real, and no file is written: `from_file` reads the real files, all
-- else lies in memory. What the job's own functions do by themselves (io.open, os.execute) they do.
-- @param env the environment, with its streams; it stays as it is
-- @param seed an integer, or {first, last}: each decides other failures, and equal seeds give equal runs
--   (as far as the job's functions do); by default {1, 20}
-- @param options {seeds = n: {1, n}, parallelism = {1, 2, 3}: how wide the job may be when it starts again,
--   count = 1000: how many values a generator without count gives, at_least_once = true or the uids of sinks
--   whose function may be called again with the same value, shrink = false: leave a failing run as it is}
-- @return a report, which prints: ok, seeds, runs, failed_seed (it stops there), differences, notes, events
--   and story (of the failing run), crashes, task_failures, storage_failures, cancels, restores, rescales,
--   checkpoints, compared. Raises at the caller's line for wrong arguments, a graph that cannot run, and a
--   source that cannot be read again.
-- Example: assert(testing.simulate(env, { 1, 100 }).ok)
function testing.simulate(env, seed, options)
  if not env_module.is(env) then
    misuse.raise("simulate needs an environment, what sc.env returns, got %s", misuse.shown(env))
  end
  local checked = config.check(OPTIONS, options, "simulate")
  local seeds = seeds_of(seed, checked)
  local trial = new_trial(env, checked)
  local report, mentioned = sim_report.new(seeds), {}
  local ok, why, story = trial:learn(report.notes)
  if not ok then
    report.ok, report.differences[1], report.story = false, why, story
    return report
  end
  for s = seeds[1], seeds[2] do
    if not try_seed(trial, report, s, mentioned) then break end
  end
  tell_compared(trial, report)
  local kinds = {}
  for kind in pairs(mentioned) do kinds[#kinds + 1] = kind end
  table.sort(kinds)
  for _, kind in ipairs(kinds) do report.notes[#report.notes + 1] = mentioned[kind] end
  return report
end

return setmetatable(testing, {
  __index = function(_, name)
    if type(name) ~= "string" or name:sub(1, 1) == "_" then return nil end
    misuse.raise("streamckpt.testing has no '%s'%s", name, misuse.hint(name, testing))
  end,
})
