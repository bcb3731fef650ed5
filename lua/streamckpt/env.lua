-- env: the environment, where a job's graph begins and from where it is started.

local closure = require "streamckpt.closure"
local config = require "streamckpt.config"
local job = require "streamckpt.job"
local misuse = require "streamckpt.misuse"
local plan = require "streamckpt.plan"
local producers = require "streamckpt.producers"
local result = require "streamckpt.result"
local stream = require "streamckpt.stream"

local env = {}

-- How long an interrupted execute waits for its job to end.
local LEAVE_MS = 2000

local Env = { __name = "streamckpt.env", __stays = "an environment, which stays in the script" }
local methods = {}

Env.__index = stream.lookup(methods, {}, "env")

function Env:__tostring()
  return ("streamckpt.env<%s, %d operators>"):format(self.name, #self.nodes)
end

-- The script that the interpreter was started with; nil at a prompt, with -e, and from stdin.
local function script_path()
  local arguments = rawget(_G, "arg")
  if type(arguments) ~= "table" or not arguments[-1] then return nil end
  local path = arguments[0]
  return type(path) == "string" and path ~= "-" and path or nil
end

-- The number of this process; Linux tells it in a file.
local function process_id()
  local file <close> = io.open("/proc/self/stat")
  return file and file:read("n") or 0
end

local function default_name()
  local path = script_path()
  if not path then return ("repl-%d"):format(process_id()) end
  local name = path:match("([^/]+)$") or path
  return name:match("^(.+)%.lua$") or name
end

-- A name as it can be a folder: what is no letter, digit, '.', '_' becomes one '-'.
local function slug(name)
  local out = name:lower():gsub("[^%w_.]+", "-"):gsub("^[-.]+", ""):gsub("%-+$", "")
  return out ~= "" and out or "job"
end

--- A new environment: the options of one job, and its graph.
-- @param options a table, checked strictly; durations are ms or "10s", sizes bytes or "64mb":
--   name (the script's file name), id (folder of its checkpoints; made from the name),
--   parallelism (1), max_parallelism (derived), slots: threads (the largest parallelism),
--   checkpoint { interval (0: on request), dir, mode ("exactly_once"; "at_least_once": no channel waits for
--     another, what a failure repeats may count twice), unaligned (false: barriers wait their turn;
--     true: they may overtake data, which becomes part of the checkpoint), aligned_timeout (0: at once;
--     they overtake only after so long), timeout ("10min"), min_pause (0: from a completed one to the
--     next), failure_pause (0: from a failed one), explain_after ("1s": one that takes longer is
--     explained in the log), max_concurrent (1), tolerable_failures
--     ("unlimited"), retain (1), externalized ("retain_on_cancellation"), after_tasks_finish (true;
--     false: none while only some tasks have ended, then only the final one),
--     max_subtasks_per_channel_state_file (5),
--     sync (true; false: a checkpoint outlives the process, but perhaps not a loss of power) },
--   state { backend ("heap"), sync (false: snapshots are written while records flow) },
--   restart { strategy: "none" (without checkpoints), "fixed_delay" { attempts (1), delay ("1s") },
--     "failure_rate" { max_failures (1), interval ("1min"), delay ("1s") }, "exponential_delay" (with
--     checkpoint.interval) { attempts ("unlimited"), initial_backoff ("1s"), max_backoff ("1min"),
--     multiplier (1.5), jitter (0.1), reset_threshold ("1h") } },
--   network { segment_size ("32kb"), exclusive_buffers (2), floating_buffers (8),
--     max_overdraft_buffers (5), buffer_timeout ("100ms"), debloat { enabled (false; true: buffers are
--       only so large that what is in flight between two tasks is about target of work),
--       target ("1s"), period ("200ms"), samples (20), threshold_percentages (25) } },
--   log { level: what goes to stderr ("warn"; debug, info, error, off), file: what goes there from
--     info on (DIR/ID/log) }
-- @return the environment. Raises at the caller's line for an option that is unknown, wrong, or not
--   built yet.
-- Example: local env = sc.env { parallelism = 2, checkpoint = { interval = "1s", dir = "ckpt" } }
function env.new(options)
  if type(options) == "table" and rawget(options, "env") == env.new then
    misuse.raise("sc.env is called with a colon; write sc.env { ... }, with a dot")
  end
  local checked = config.job(options)
  local name = checked.name or default_name()
  return setmetatable({ options = checked, name = name, id = checked.id or slug(name), nodes = {} }, Env)
end

local function check_self(self, call)
  if getmetatable(self) ~= Env then
    misuse.raise("%s is called on %s; write env:%s(...), with a colon", call, misuse.shown(self), call)
  end
end

local NAMES = { uid = { check = config.text }, name = { check = config.text } }

local function with_names(schema)
  for name, rule in pairs(NAMES) do schema[name] = rule end
  return schema
end

local FILE_OPTIONS = with_names { position = { check = config.boolean, default = false } }

--- The lines of text files, without their ends. Tasks share the files between them.
-- @param paths a path, or an array of paths
-- @param options {position = true: values are {text, file, line} instead of strings, uid, name}
-- @return a stream of strings. Raises at the caller's line for anything but paths.
-- Example: env:from_file("access.log"):uid("log")
function methods:from_file(paths, options)
  check_self(self, "from_file")
  if type(paths) == "string" then paths = { paths } end
  if type(paths) ~= "table" or #paths == 0 then
    misuse.raise("from_file needs a path or an array of paths, got %s",
      type(paths) == "table" and "a table without any" or misuse.shown(paths))
  end
  local copy = {}
  for i, path in ipairs(paths) do
    if not config.text(path) then
      misuse.raise("from_file needs paths, and number %d is %s", i, misuse.shown(path))
    end
    copy[i] = path
  end
  local checked = config.check(FILE_OPTIONS, options, "from_file")
  return stream.source(self, {
    call = "from_file", kind = "file_source", native = true, stateful = true, uid = checked.uid,
    name = checked.name, options = { paths = copy, position = checked.position },
  })
end

--- The values of an array, in order, from one task.
-- @param values an array without holes
-- @param options {uid, name}
-- @return a stream
-- Example: env:from_values { "a", "b", "c" }
function methods:from_values(values, options)
  check_self(self, "from_values")
  if type(values) ~= "table" then
    misuse.raise("from_values needs an array of values, got %s", misuse.shown(values))
  end
  local count = 0
  for _ in pairs(values) do count = count + 1 end
  if count ~= #values then
    misuse.raise("from_values needs an array: keys 1 to n without holes, and no others")
  end
  local checked = config.check(NAMES, options, "from_values")
  return stream.source(self, {
    call = "from_values", kind = "values_source", native = true, stateful = true, parallelism = 1,
    uid = checked.uid, name = checked.name,
    options = { values = table.move(values, 1, count, 1, {}) },
  })
end

local function rate_rule(value)
  if type(value) == "number" and value > 0 and value < math.huge then return value end
  return nil, "a number of values a second, more than 0"
end

local GENERATOR = with_names {
  fn = { check = config.callable }, rate = { check = rate_rule },
  count = { check = config.integer(0, math.maxinteger) },
}

--- Values made by a function.
-- @param spec {fn = fn(i) -> value, nil for none, with i from 0 (without fn the values are the i),
--   count: how many i (endless by default), rate: how many a second over all tasks (as fast as possible
--   by default), uid, name}
-- @return a stream
-- Example: env:from_generator { count = 1000, fn = function(i) return { n = i } end }
function methods:from_generator(spec)
  check_self(self, "from_generator")
  local checked = config.check(GENERATOR, spec, "from_generator")
  return stream.source(self, {
    call = "from_generator", kind = "generator", native = false, stateful = true, uid = checked.uid,
    name = checked.name, options = { count = checked.count, rate = checked.rate },
    spec = { fn = checked.fn, count = checked.count, rate = checked.rate },
  })
end

-- Lines that somebody else sends, by one reader that cannot ask for them again.
local function pushed_lines(self, call, push, checked)
  return stream.source(self, {
    call = call, kind = "push_source", native = false, stateful = true, parallelism = 1, single = true,
    uid = checked.uid, name = checked.name, spec = { push = push, capacity = checked.capacity },
  })
end

local CAPACITY = { check = config.integer(1, 1000000000), default = 10000 }

local function reconnect_rule(value)
  if value == true then return 1000 end
  if value == false then return value end
  local ms = config.duration(value)
  if ms and ms > 0 then return ms end
  return nil, "true, false, or a duration longer than zero"
end

local SOCKET = with_names { listen = { check = config.boolean, default = false }, capacity = CAPACITY,
                            reconnect = { check = reconnect_rule } }

--- The lines that a TCP peer sends, without their ends. What has come cannot be asked for again: after a
-- failure the lines since the last checkpoint are lost. The peer waits while the job takes no more.
-- @param host a name or an address
-- @param port its number
-- @param options {listen = true: listen there, and read whoever connects, one peer after another, without
--   end (without it the job connects, and the input ends when the peer closes), reconnect = true or a
--   duration: connect again (after "1s") where the peer closes, is lost, or does not listen yet; the input
--   then has no end, capacity = how many lines wait before the peer does (10000), uid, name}
-- @return a stream of strings, from one task. Raises at the caller's line for wrong options.
-- Example: env:from_socket("localhost", 9000, { reconnect = "5s" }):uid("lines")
function methods:from_socket(host, port, options)
  check_self(self, "from_socket")
  if not config.text(host) then misuse.raise("from_socket needs a host, got %s", misuse.shown(host)) end
  local checked_port, expected = config.integer(1, 65535)(port)
  if not checked_port then
    misuse.raise("from_socket needs a port, %s, got %s", expected, misuse.shown(port))
  end
  local checked = config.check(SOCKET, options, "from_socket")
  if checked.listen and checked.reconnect then
    misuse.raise("from_socket: reconnect has no meaning with listen: peers come by themselves")
  end
  local push = checked.listen and producers.server(host, checked_port)
    or producers.client(host, checked_port, checked.reconnect or nil)
  return pushed_lines(self, "from_socket", push, checked)
end

local STDIN = with_names { capacity = CAPACITY }

--- The lines of standard input, without their ends, until it ends. They cannot be asked for again: after a
-- failure those since the last checkpoint are lost.
-- @param options {capacity = how many lines wait before reading does (10000), uid, name}
-- @return a stream of strings, from one task. Raises at the caller's line if the job has such a source.
-- Example: env:from_stdin():uid("stdin")
function methods:from_stdin(options)
  check_self(self, "from_stdin")
  local checked = config.check(STDIN, options, "from_stdin")
  for _, node in ipairs(self.nodes) do
    if node.call == "from_stdin" then
      misuse.raise("from_stdin: standard input is already read by the source at %s; use its stream twice",
        node.where)
    end
  end
  return pushed_lines(self, "from_stdin", producers.stdin(), checked)
end

-- A source whose values come by callbacks.
local function push_source(self, checked)
  for _, name in ipairs { "splits", "read", "close" } do
    if checked[name] then
      misuse.raise("source with push has no %s: %s", name, name == "close"
        and "push may return a table with a function close" or "values come when they are pushed")
    end
  end
  if checked.replayable then
    misuse.raise("source with push is not replayable: what was pushed is nobody's to push again")
  end
  return stream.source(self, {
    call = "source", kind = "push_source", native = false, stateful = true, uid = checked.uid,
    name = checked.name,
    spec = { push = checked.push, open = checked.open, capacity = checked.capacity },
  })
end

--- A source in Lua. Its splits are found once and dealt to the tasks; where each of them stands is
-- in every checkpoint. Or, with push, one whose values come by callbacks of luv.
-- @param spec {splits = function(parallelism) -> array of plain values, called once, in one slot; a task
--     reads one split after another, and takes a further one when all that it has wait,
--   read = function(ctx, split, position) -> the new position, or nil when the split is at its end;
--     a second result is how many ms to wait before the next call. position is nil at first;
--     ctx:emit(value [, timestamp in ms]) emits,
--   open = function(ctx), close = function(ctx), replayable = false if it cannot read again from a
--   position (true by default), uid, name}; or {push = function(ctx, sink), called once in each task: its
--     callbacks give what comes to sink:push(value [, timestamp]); it may return {pause = function(),
--     resume = function(), close = function()}, capacity = how many values wait before pause is called
--     (1024); without pause, what comes while so many wait is dropped and counted, open, uid, name}.
--   sink has push, which returns whether the value was taken; lines(chunk), which pushes the lines of a
--   text that comes in pieces, and flush(), what stands behind the last one; finish(): the input has
--   ended; fail(message); warn(message): a line in the log
-- @return a stream
-- Example: env:source { splits = function() return { 1, 2 } end, read = function(ctx, split, at)
--   at = (at or 0) + 1; if at > 10 then return nil end; ctx:emit(split * at); return at end }
function methods:source(spec)
  check_self(self, "source")
  local checked = config.check(stream.SOURCE_SPEC, spec, "source")
  if checked.push then return push_source(self, checked) end
  if checked.capacity then misuse.raise("source: capacity has a meaning only together with push") end
  for _, name in ipairs { "splits", "read" } do
    if not checked[name] then misuse.raise("source needs %s, a function", name) end
  end
  local replayable = checked.replayable ~= false
  return stream.source(self, {
    call = "source", kind = "source", native = false, stateful = true, uid = checked.uid,
    name = checked.name, options = { replayable = replayable },
    spec = { splits = checked.splits, read = checked.read, open = checked.open, close = checked.close,
             replayable = replayable },
  })
end

-- The part of the plan that says how to run the graph.
local function job_plan(self, start, built)
  local options = self.options
  local checkpoint, network, log = options.checkpoint, options.network, options.log
  return {
    id = self.id, name = self.name, script = script_path(), parallelism = options.parallelism,
    slots = built.slots, dir = checkpoint.dir, unsynced = not checkpoint.sync, interval = checkpoint.interval,
    timeout = checkpoint.timeout, min_pause = checkpoint.min_pause,
    failure_pause = checkpoint.failure_pause, explain_after = checkpoint.explain_after,
    max_concurrent = checkpoint.max_concurrent, tolerable_failures = checkpoint.tolerable_failures,
    retain = checkpoint.retain, externalized = checkpoint.externalized, sync = options.state.sync,
    unaligned = checkpoint.unaligned, aligned_timeout = checkpoint.aligned_timeout,
    at_least_once = checkpoint.mode == "at_least_once",
    all_or_none = not checkpoint.after_tasks_finish,
    subtasks_per_file = checkpoint.max_subtasks_per_channel_state_file,
    restart = options.restart, network = network,
    log = { level = log.level, file = log.file },
    from = start.from, allow_non_restored_state = start.allow_non_restored_state,
    fallback = start.fallback, warnings = built.warnings,
  }
end

--- What the engine starts: the graph and the options of an environment, and its functions as bytes.
-- @param self the environment, or a table with options, nodes, id and name like one
-- @param start the checked options of start
-- @return a plan as core.start takes it. Raises at the user's line for a graph that cannot run, and for
--   functions that cannot be carried into the slots.
-- Example: local job = core.start(env.describe(self, config.start(options, "env:start", true)))
function env.describe(self, start)
  local built = plan.build(self.nodes, self.options)
  local blob, refusal = closure.dump({
    operators = built.functions, package = { path = package.path, cpath = package.cpath },
  }, built.labels)
  if not blob then misuse.raise("%s", refusal) end
  return { job = job_plan(self, start, built), operators = built.operators, edges = built.edges,
           blob = blob }
end

--- Whether a value is an environment.
-- @param value anything
-- @return true or false
-- Example: env.is(sc.env()) --> true
function env.is(value)
  return getmetatable(value) == Env
end

local function start_job(self, options, call)
  check_self(self, call)
  local start = config.start(options, call, self.options.checkpoint.dir ~= nil)
  local described = env.describe(self, start)
  -- Asked for only now, so that this file can be read where there is no engine.
  local core = require "streamckpt.core"
  local handle, message, code = core.start(described)
  if not handle then return nil, message, code end
  return job.wrap(handle, self.name)
end

--- Start the job and return at once.
-- @param options {from = path of a checkpoint, or "latest": the newest of this job if there is one,
--   allow_non_restored_state = true: drop state that no operator of the graph has,
--   fallback = "older": take an older checkpoint where the newest is damaged}
-- @return the job; or nil, a message that begins with a code, and the code
-- Raises at the caller's line for wrong options, a graph that cannot run, and functions that cannot
-- be carried into the slots.
-- Example: local job = assert(env:start { from = "latest" })
function methods:start(options)
  return start_job(self, options, "start")
end

--- Start the job and wait until it ends.
-- @param options as for start
-- @return a result with rows(uid), checkpoints(), metrics(), status()
-- Raises a sentence with the cause if the job cannot start or fails. Interrupted by Ctrl-C, it cancels
-- the job, whose last checkpoint is kept, and raises.
-- Example: local rows = env:execute():rows("counts")
function methods:execute(options)
  local started, message = start_job(self, options, "execute")
  if not started then misuse.raise("job '%s' did not start: %s", self.name, tostring(message)) end
  local ok, status
  ok, status, message = pcall(started.wait, started)
  if not ok then
    -- Ctrl-C raises here: the job ends with the call that ran it, and its last checkpoint is kept.
    started:cancel()
    started:wait(LEAVE_MS)
    error(status, 0)
  end
  if not status then misuse.raise("job '%s' failed: %s", self.name, tostring(message)) end
  return result.new(started)
end

return env
