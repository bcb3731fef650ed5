-- config: option tables. They are checked strictly, so that a typing error is a sentence with the
-- nearest known name and not a default that silently applies.
--
-- A schema maps the name of an option to a rule: a `check` that turns what the user gave into what
-- the engine takes (or returns nil and what was expected), a `default`, or `options`, the schema of a
-- nested table. `unbuilt` marks parts that do not exist yet: true refuses the option altogether, a
-- function says which of its values need the missing part.

local misuse = require "streamckpt.misuse"

local config = {}

local DURATION_UNITS = { ms = 1, s = 1000, min = 60 * 1000, h = 3600 * 1000, d = 24 * 3600 * 1000 }
local SIZE_UNITS = { b = 1, kb = 1024, mb = 1024 ^ 2, gb = 1024 ^ 3, tb = 1024 ^ 4 }
-- Beyond a hundred years of milliseconds a number is a mistake, and sums could overflow.
local DURATION_MAX = 100 * 366 * DURATION_UNITS.d
local COUNT_MAX = 2147483647
-- "As many as it takes", as the engine has it.
config.UNLIMITED = -1

local function with_unit(value, units)
  if type(value) == "number" then return value end
  if type(value) ~= "string" then return nil end
  local digits, unit = value:match("^%s*(%d+%.?%d*)%s*(%a+)%s*$")
  local factor = unit and units[unit:lower()]
  return factor and tonumber(digits) * factor or nil
end

local function whole(number, least, most)
  if not number or number ~= number or number < least or number > most then return nil end
  return math.tointeger(math.floor(number))
end

--- A duration in whole milliseconds.
-- @param value a number of ms, or a string with a unit: "200ms", "1.5s", "10min", "2h", "1d"
-- @return an integer, 0 only for 0; or nil and what is expected
-- Example: config.duration("10s") --> 10000
function config.duration(value)
  local ms = with_unit(value, DURATION_UNITS)
  -- Half a millisecond is short, but it is not none at all, which 0 often stands for.
  if ms and ms > 0 and ms < 1 then ms = 1 end
  ms = whole(ms, 0, DURATION_MAX)
  if ms then return ms end
  return nil, "a duration: milliseconds, or a string such as \"200ms\", \"10s\", \"1min\", \"2h\", \"1d\""
end

--- A size in whole bytes.
-- @param value a number of bytes, or a string with a unit: "512b", "32kb", "64mb", "1gb"
-- @return an integer; or nil and what is expected
-- Example: config.size("32kb") --> 32768
function config.size(value)
  local bytes = whole(with_unit(value, SIZE_UNITS), 0, 2 ^ 53)
  if bytes then return bytes end
  return nil, "a size: bytes, or a string such as \"32kb\", \"64mb\", \"1gb\""
end

--- A rule for integers between two bounds, both allowed.
function config.integer(least, most)
  return function(value)
    if type(value) == "number" and math.tointeger(value) and value >= least and value <= most then
      return math.tointeger(value)
    end
    return nil, ("an integer from %d to %d"):format(least, most)
  end
end

--- A rule for one of some words.
function config.one_of(...)
  local words, known = { ... }, {}
  for _, word in ipairs(words) do known[word] = true end
  return function(value)
    if known[value] then return value end
    return nil, "one of '" .. table.concat(words, "', '") .. "'"
  end
end

--- A rule for true or false.
function config.boolean(value)
  if type(value) == "boolean" then return value end
  return nil, "true or false"
end

--- A rule for a string with at least one character, and no zero bytes.
function config.text(value)
  if type(value) == "string" and value ~= "" and not value:find("\0", 1, true) then return value end
  return nil, "a string that is not empty"
end

--- A rule for functions.
function config.callable(value)
  if type(value) == "function" then return value end
  return nil, "a function"
end

--- A rule for a count that may also be "unlimited".
local function count_or_unlimited(value)
  if value == "unlimited" then return config.UNLIMITED end
  local count = config.integer(0, COUNT_MAX)(value)
  if count then return count end
  return nil, "an integer from 0 on, or \"unlimited\""
end

local function slug_rule(value)
  if type(value) == "string" and value:find("^[%w_][%w_.-]*$") then return value end
  return nil, "a name for a folder: letters, digits, '.', '_' and '-', and no '.' or '-' in front"
end

local function longer_than_zero(value)
  local ms = config.duration(value)
  if ms and ms > 0 then return ms end
  return nil, "a duration longer than zero"
end

local function segment_size(value)
  local bytes = config.size(value)
  if bytes and bytes >= 256 and bytes <= 64 * 1024 * 1024 then return bytes end
  return nil, "a size from 256 bytes to 64mb"
end

local function anything_but(word)
  return function(value) return value ~= word end
end

local PARALLELISM = config.integer(1, 32768)

local CHECKPOINT = {
  interval = { check = config.duration, default = 0 },
  dir = { check = config.text },
  sync = { check = config.boolean, default = true },
  mode = { check = config.one_of("exactly_once", "at_least_once"), default = "exactly_once" },
  timeout = { check = longer_than_zero, default = 600000 },
  min_pause = { check = config.duration, default = 0 },
  failure_pause = { check = config.duration, default = 0 },
  explain_after = { check = longer_than_zero, default = 1000 },
  max_concurrent = { check = config.integer(1, 1000), default = 1 },
  tolerable_failures = { check = count_or_unlimited, default = config.UNLIMITED },
  retain = { check = config.integer(1, 1000000), default = 1 },
  externalized = { check = config.one_of("retain_on_cancellation", "delete_on_cancellation",
                                         "no_externalized"), default = "retain_on_cancellation" },
  after_tasks_finish = { check = config.boolean, default = true },
  unaligned = { check = config.boolean, default = false },
  aligned_timeout = { check = config.duration, default = 0 },
  max_subtasks_per_channel_state_file = { check = config.integer(1, 1000000), default = 5 },
  compression = { check = config.boolean, default = false, unbuilt = anything_but(false) },
  savepoint_dir = { unbuilt = true },
}

local STATE = {
  backend = { check = config.one_of("heap", "memory", "rocksdb"), default = "heap",
              unbuilt = anything_but("heap") },
  sync = { check = config.boolean, default = false },
  incremental = { check = config.boolean, default = false, unbuilt = anything_but(false) },
  local_recovery = { check = config.boolean, default = false, unbuilt = anything_but(false) },
  changelog = { unbuilt = true },
  rocksdb = { unbuilt = true },
  ttl_time = { unbuilt = true },
}

local function factor(least, most, expected)
  return function(value)
    if type(value) == "number" and value >= least and value <= most then return value + 0.0 end
    return nil, expected
  end
end

local RESTART = {
  strategy = { check = config.one_of("none", "fixed_delay", "failure_rate", "exponential_delay") },
  attempts = { check = count_or_unlimited },
  delay = { check = config.duration },
  max_failures = { check = config.integer(1, 1000000) },
  interval = { check = longer_than_zero },
  initial_backoff = { check = longer_than_zero },
  max_backoff = { check = longer_than_zero },
  multiplier = { check = factor(1.000001, 1000, "a number above 1") },
  jitter = { check = factor(0, 1, "a number from 0 to 1") },
  reset_threshold = { check = longer_than_zero },
}

-- What each strategy takes, with the reference's defaults.
local STRATEGIES = {
  none = {},
  fixed_delay = { attempts = 1, delay = 1000 },
  failure_rate = { max_failures = 1, interval = 60000, delay = 1000 },
  exponential_delay = { attempts = config.UNLIMITED, initial_backoff = 1000, max_backoff = 60000,
                        multiplier = 1.5, jitter = 0.1, reset_threshold = 3600000 },
}

local DEBLOAT = {
  enabled = { check = config.boolean, default = false },
  target = { check = longer_than_zero, default = 1000 },
  period = { check = longer_than_zero, default = 200 },
  samples = { check = config.integer(1, 1000000), default = 20 },
  threshold_percentages = { check = config.integer(0, 100), default = 25 },
}

local NETWORK = {
  segment_size = { check = segment_size, default = 32768 },
  exclusive_buffers = { check = config.integer(1, 100000), default = 2 },
  floating_buffers = { check = config.integer(0, 1000000), default = 8 },
  buffer_timeout = { check = config.duration, default = 100 },
  max_overdraft_buffers = { check = config.integer(0, 1000000), default = 5 },
  debloat = { options = DEBLOAT },
}

local LOG = {
  level = { check = config.one_of("debug", "info", "warn", "error", "off"), default = "warn" },
  file = { check = config.text },
}

local JOB = {
  name = { check = config.text },
  id = { check = slug_rule },
  parallelism = { check = PARALLELISM, default = 1 },
  max_parallelism = { check = PARALLELISM },
  slots = { check = config.integer(1, 1024) },
  checkpoint = { options = CHECKPOINT },
  state = { options = STATE },
  restart = { options = RESTART },
  network = { options = NETWORK },
  log = { options = LOG },
}

local START = {
  from = { check = config.text },
  allow_non_restored_state = { check = config.boolean, default = false },
  fallback = { check = config.one_of("older") },
  restore_mode = { unbuilt = true },
  verify = { unbuilt = true },
}

local function check_one(rule, value, what, path)
  if rule.options then return config.check(rule.options, value, what, path .. ".") end
  if rule.unbuilt == true then misuse.raise("%s: %s is not built yet", what, path) end
  local checked, expected = rule.check(value)
  if checked == nil then
    misuse.raise("%s: %s must be %s, got %s", what, path, expected, misuse.shown(value))
  end
  if rule.unbuilt and rule.unbuilt(checked) then
    misuse.raise("%s: %s = %s is not built yet", what, path, misuse.shown(checked))
  end
  return checked
end

--- Check an option table against a schema.
-- @param schema as in the head of this file
-- @param options the user's table; nil is an empty one
-- @param what the call, for messages: "sc.env"
-- @param prefix path of the options so far, with its dot: "checkpoint."; "" by default
-- @return a new table with defaults and nested tables filled in
-- Raises at the user's line for an unknown name, a wrong value, or a part that is not built yet.
function config.check(schema, options, what, prefix)
  prefix = prefix or ""
  if options ~= nil and type(options) ~= "table" then
    misuse.raise("%s: %s must be a table, got %s", what,
      prefix == "" and "the options" or prefix:sub(1, -2), misuse.shown(options))
  end
  for name in pairs(options or {}) do
    if type(name) ~= "string" then
      misuse.raise("%s: options are written name = value, and %s has no name", what,
        misuse.shown(options[name]))
    end
    if not schema[name] then
      misuse.raise("%s: unknown option '%s%s'; did you mean '%s%s'?", what, prefix, name, prefix,
        misuse.nearest(name, schema) or "")
    end
  end
  local out = {}
  for name, rule in pairs(schema) do
    local value = options and options[name]
    if value ~= nil then
      out[name] = check_one(rule, value, what, prefix .. name)
    elseif rule.options then
      out[name] = config.check(rule.options, nil, what, prefix .. name .. ".")
    else
      out[name] = rule.default
    end
  end
  return out
end

local function list_into(out, schema, prefix)
  for name, rule in pairs(schema) do
    if rule.options then
      list_into(out, rule.options, prefix .. name .. ".")
    elseif rule.unbuilt ~= true then
      out[#out + 1] = { path = prefix .. name, default = rule.default, check = rule.check }
    end
  end
end

--- The options that sc.env takes, for documentation and tools; those of parts that are not built are
-- left out.
-- @return an array of {path = "checkpoint.interval", default (as the engine takes it, or nil where it
--   depends on others), check = function(value) -> checked value, or nil and what is expected}, by path
-- Example: for _, option in ipairs(config.list()) do print(option.path, option.default) end
function config.list()
  local out = {}
  list_into(out, JOB, "")
  table.sort(out, function(a, b) return a.path < b.path end)
  return out
end

-- Without a strategy there is the default: exponential_delay where there is something to go back to,
-- none otherwise; but whoever says how often and how long has said fixed_delay.
local function fill_restart(restart, checkpointing, what)
  local strategy = restart.strategy
  if not strategy then
    local fixed = restart.attempts or restart.delay
    strategy = fixed and "fixed_delay" or checkpointing and "exponential_delay" or "none"
  end
  local defaults = STRATEGIES[strategy]
  for name in pairs(restart) do
    if name ~= "strategy" and defaults[name] == nil then
      misuse.raise("%s: restart.%s has no meaning with the strategy '%s'", what, name, strategy)
    end
  end
  for name, default in pairs(defaults) do
    if restart[name] == nil then restart[name] = default end
  end
  if strategy == "exponential_delay" and restart.max_backoff < restart.initial_backoff then
    misuse.raise("%s: restart.max_backoff is less than restart.initial_backoff", what)
  end
  restart.strategy = strategy
end

-- What barriers may do depends on what else was asked for.
local function check_barriers(checkpoint, what)
  if checkpoint.aligned_timeout > 0 and not checkpoint.unaligned then
    misuse.raise("%s: checkpoint.aligned_timeout has a meaning only together with "
      .. "checkpoint.unaligned = true", what)
  end
  if not checkpoint.unaligned then return end
  if checkpoint.mode == "at_least_once" then
    misuse.raise("%s: checkpoint.unaligned needs the mode 'exactly_once': at least once, no barrier "
      .. "waits for another anyway", what)
  end
  if checkpoint.max_concurrent > 1 then
    misuse.raise("%s: checkpoint.unaligned needs checkpoint.max_concurrent = 1, got %d", what,
      checkpoint.max_concurrent)
  end
end

--- Check the options of sc.env and fill in what is not given.
-- @param options the user's table or nil
-- @return the checked options. Durations are ms, sizes bytes; `name` and `id` may still be nil.
-- Raises at the user's line.
function config.job(options)
  local what = "sc.env"
  local checked = config.check(JOB, options, what)
  local checkpoint = checked.checkpoint
  if checkpoint.interval > 0 and not checkpoint.dir then
    misuse.raise("%s: checkpoint.interval needs checkpoint.dir, the folder that checkpoints go to", what)
  end
  check_barriers(checkpoint, what)
  if checked.max_parallelism and checked.max_parallelism < checked.parallelism then
    misuse.raise("%s: parallelism %d is more than max_parallelism %d", what, checked.parallelism,
      checked.max_parallelism)
  end
  fill_restart(checked.restart, checkpoint.interval > 0, what)
  return checked
end

--- Check the options of env:start and env:execute.
-- @param options {from = path or "latest", allow_non_restored_state = false, fallback = "older"}
-- @param what the call, for messages
-- @param has_dir whether the job has a checkpoint folder, without which there is no "latest"
-- @return the checked options. Raises at the user's line.
function config.start(options, what, has_dir)
  local checked = config.check(START, options, what)
  if checked.from == "latest" and not has_dir then
    misuse.raise("%s: from = \"latest\" needs checkpoint.dir in sc.env, the folder to look in", what)
  end
  if checked.fallback and not checked.from then
    misuse.raise("%s: fallback = \"older\" has a meaning only together with from", what)
  end
  return checked
end

return config
