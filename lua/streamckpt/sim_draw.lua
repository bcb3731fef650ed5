-- sim_draw: what a seed decides about a simulated run: how fast things are, what goes wrong when, and how
-- wide the job is at each start. Pure: equal arguments give equal results, and the script's own
-- math.random is left alone.

local sim_draw = {}

-- As many starts at most; after them nothing goes wrong any more.
local STARTS = 10
-- Clean runs take so long for a look at the clock.
local CLEAN_LOOK_NS = 20000
-- Clean runs but the first two take so long in all; and now and then a record stalls, as it does when a job
-- starts again: what depends on that depends on time.
local CLEAN_NS = 50 * 1000000
-- Checkpoints are far away in a clean run: its only one is the last.
local NEVER_MS = 3600 * 1000
-- Operations of the storage, as bits: create 1, write 2, sync 4, rename 8, remove 16, sync_dir 32,
-- make_dir 64, read 128.
local CHANGES, READS = 127, 128

-- splitmix64 (Steele and others 2014), as the core has it.
local Random = {}
Random.__index = Random

function Random:next()
  self.state = self.state + 0x9E3779B97F4A7C15
  local z = self.state
  z = (z ~ (z >> 30)) * 0xBF58476D1CE4E5B9
  z = (z ~ (z >> 27)) * 0x94D049BB133111EB
  return z ~ (z >> 31)
end

-- An integer from 1 to n.
function Random:below(n)
  return (self:next() >> 1) % n + 1
end

function Random:one_of(list)
  return list[self:below(#list)]
end

-- Small numbers as likely as large ones: half of the time an integer up to n, else one up to a random part.
function Random:upto(n)
  return self:below(self:below(2) == 1 and n or self:below(n))
end

local function random(seed)
  return setmetatable({ state = seed * 0xD1B54A32D192ED03 + 1 }, Random)
end

-- What may go wrong, as often as it stands here.
local KINDS = { "call", "call", "call", "turn", "turn", "op", "op", "task", "task", "task", "storage",
                "storage", "cancel" }

local function draw_event(r, size)
  local kind = r:one_of(KINDS)
  local event = { kind = kind, times = 1, power = r:below(2) == 1 }
  if kind == "call" or kind == "task" then
    event.at = r:below(size.calls * 3 // 2 + 1)
  elseif kind == "turn" or kind == "cancel" then
    event.at = r:upto(size.turns * 2 + 100)
  else
    event.at = r:upto(size.ops * 6 + 100)
    event.mask = r:one_of { CHANGES, CHANGES, 2, 4, 8, 32 }
  end
  if kind == "storage" then
    event.mask = r:one_of { CHANGES, CHANGES, 2, 4, 8, 32, READS }
    event.times = r:one_of { 1, 1, 2, 5 }
    event.space = r:below(2) == 1
  end
  return event
end

local function draw_restart(r, own)
  local which = r:below(4)
  if which == 1 then return own end
  if which == 2 then return { strategy = "none" } end
  return { strategy = "fixed_delay", attempts = -1, delay = r:one_of { 0, 1, 50 } }
end

local function draw_network(r, own)
  return {
    segment_size = r:one_of { 256, 1024, own.segment_size }, exclusive_buffers = r:one_of { 1, 1, 2 },
    floating_buffers = r:one_of { 0, 1, 8 }, buffer_timeout = r:one_of { 0, 1, 10, 100 },
  }
end

-- Sizes of buffers that change all the time, for some runs; as the user wants them, for some others.
local function draw_debloat(r, own)
  local which = r:below(3)
  if which == 1 then return own end
  if which == 2 then return nil end
  return { enabled = true, target = r:one_of { 1, 20, 200 }, period = r:one_of { 1, 5, 20 },
           samples = r:one_of { 1, 3, 20 }, threshold_percentages = r:one_of { 0, 25 } }
end

--- A run without any failure.
-- @param number 1, 2, ...: each has another order of turns, and other buffers; but 1 and 2 are alike, except
--   for what math.random gives
-- @param job {restart, network} of the user's
-- @param size as for sim_draw.disturbed; nil as long as it is not known
-- @return settings, as sim_draw.disturbed gives them, without widths
function sim_draw.clean(number, job, size)
  local schedule = math.max(number, 2)
  local r, first = random(-schedule), number <= 2
  return {
    seed = schedule, look_ns = first and CLEAN_LOOK_NS or r:one_of { 1000, 20000, 200000 },
    latency_ns = 20000, pace_ns = not first and CLEAN_NS // (size.records + 1) or 0,
    stall_one_in = not first and 10 or 0, stall_ns = r:one_of { 20, 200, 2000 } * 1000000, pool_threads = 2,
    random = number, lives_max = 1, events = {}, interval = NEVER_MS,
    restart = { strategy = "none" }, network = first and job.network or draw_network(r, job.network),
    slots = { first and 2 or r:below(3) },
  }
end

--- A run with failures.
-- @param seed an integer
-- @param size {calls, turns, ops, records, time_ns} of a clean run
-- @param job {restart, network, retain} of the user's
-- @param widths how wide the job may be, an array; the first is the user's own
-- @return {seed, random, look_ns, latency_ns, pace_ns, slow_ns, pool_threads, jump_one_in, lives_max, events,
--   interval (ms), restart, network, retain, slots, widths}; the last two are arrays with an entry for each
--   start
function sim_draw.disturbed(seed, size, job, widths)
  local r = random(seed)
  local out = { lives_max = STARTS, jump_one_in = 400, events = {}, slots = {}, widths = {} }
  out.seed, out.random, out.pool_threads = r:next(), r:next(), r:below(3)
  -- Were sources as fast as in life, a test's few records would be through before the first checkpoint.
  local whole_ns = r:one_of { 20, 60, 200 } * 1000000
  -- Where records pile up before slow operators, barriers meet full queues.
  local slow = r:below(2) == 1
  out.pace_ns = not slow and whole_ns // (size.records + 1) or 0
  out.slow_ns = slow and whole_ns // (size.calls - size.records + 1) or 0
  out.look_ns, out.latency_ns = r:one_of { 200, 5000, 50000 }, r:one_of { 1000, 10000, 100000 }
  local expected_ms = (size.time_ns + whole_ns) // 1000000
  out.interval = math.max(1, expected_ms // r:one_of { 4, 8, 16, 32 })
  out.restart, out.network = draw_restart(r, job.restart), draw_network(r, job.network)
  out.retain = r:one_of { 1, 2, job.retain }
  for i = 1, r:below(4) do out.events[i] = draw_event(r, size) end
  for i = 1, STARTS + 4 do
    local same = i > 1 and r:below(3) == 1
    out.widths[i] = same and out.widths[i - 1] or r:one_of(widths)
    out.slots[i] = r:below(3)
  end
  out.network.debloat = draw_debloat(r, job.network.debloat) -- last: all else was drawn before there was any
  return out
end

local OPERATIONS = { [CHANGES] = "a change of a file", [2] = "a write", [4] = "a sync", [8] = "a rename",
                     [32] = "the sync of a folder", [READS] = "a read" }

--- An event as a sentence.
-- Example: sim_draw.tell { kind = "call", at = 7 } --> "the process dies at call 7 of an operator"
function sim_draw.tell(event)
  local lost = event.power and ", and what was not synced is lost" or ""
  if event.kind == "call" then
    return ("the process dies at call %d of an operator%s"):format(event.at, lost)
  end
  if event.kind == "turn" then return ("the process dies at turn %d%s"):format(event.at, lost) end
  if event.kind == "task" then return ("a task fails at call %d of an operator"):format(event.at) end
  if event.kind == "cancel" then return ("the job is canceled at turn %d"):format(event.at) end
  local what = OPERATIONS[event.mask]
  if event.kind == "op" then
    return ("the process dies at %s, operation %d or later%s"):format(what, event.at, lost)
  end
  return ("%s fails%s, from operation %d on"):format(what,
    event.times > 1 and (" (%d times)"):format(event.times) or "", event.at)
end

return sim_draw
