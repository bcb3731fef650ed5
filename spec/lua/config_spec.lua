local config = require "streamckpt.config"

-- The message of the error that fn raises, without its place; the place must be this file.
local function raised(fn, ...)
  local ok, message = pcall(fn, ...)
  assert.is_false(ok)
  local rest = message:match("^spec/lua/config_spec%.lua:%d+: (.*)$")
  assert.is_string(rest, "not raised at the caller's line: " .. tostring(message))
  return rest
end

local function job(options) return raised(function() local c = config.job(options) return c end) end

describe("durations", function()
  it("are milliseconds, or a number with a unit", function()
    assert.equals(250, config.duration(250))
    assert.equals(200, config.duration("200ms"))
    assert.equals(10000, config.duration("10s"))
    assert.equals(60000, config.duration("1min"))
    assert.equals(7200000, config.duration("2h"))
    assert.equals(86400000, config.duration("1d"))
    assert.equals(1500, config.duration("1.5s"))
    assert.equals(0, config.duration(0))
    assert.equals("integer", math.type(config.duration(2.5)))
    -- An interval of half a millisecond is not "no checkpoints", which 0 stands for.
    assert.equals(1, config.duration(0.5))
    assert.equals(1, config.duration("0.2ms"))
  end)

  it("are nothing else", function()
    for _, bad in ipairs { "10", "s", "ten s", "10 weeks", "-1s", -1, 0 / 0, math.huge, true, {}, "" } do
      local value, expected = config.duration(bad)
      assert.is_nil(value)
      assert.matches("duration", expected)
    end
  end)
end)

describe("sizes", function()
  it("are bytes, or a number with a unit", function()
    assert.equals(1, config.size(1))
    assert.equals(512, config.size("512b"))
    assert.equals(32768, config.size("32kb"))
    assert.equals(67108864, config.size("64mb"))
    assert.equals(67108864, config.size("64MB"))
    assert.equals(1073741824, config.size("1gb"))
    assert.is_nil((config.size("64m")))
    assert.is_nil((config.size("1e999kb")))
  end)
end)

describe("options of a job", function()
  it("have the defaults of the design", function()
    local c = config.job()
    assert.equals(1, c.parallelism)
    assert.is_nil(c.slots)
    assert.same({ interval = 0, sync = true, mode = "exactly_once", timeout = 600000, min_pause = 0,
      failure_pause = 0, explain_after = 1000,
      max_concurrent = 1, tolerable_failures = -1, retain = 1, externalized = "retain_on_cancellation",
      after_tasks_finish = true, unaligned = false, aligned_timeout = 0,
      max_subtasks_per_channel_state_file = 5, compression = false }, c.checkpoint)
    assert.same({ strategy = "none" }, c.restart)
    assert.same({ segment_size = 32768, exclusive_buffers = 2, floating_buffers = 8,
      max_overdraft_buffers = 5, buffer_timeout = 100, debloat = { enabled = false, target = 1000, period = 200,
      samples = 20, threshold_percentages = 25 } }, c.network)
    assert.equals("heap", c.state.backend)
    assert.equals("warn", c.log.level)
  end)

  it("restart by default only where there are checkpoints", function()
    local c = config.job { checkpoint = { interval = "1s", dir = "d" } }
    assert.same({ strategy = "exponential_delay", attempts = config.UNLIMITED, initial_backoff = 1000,
      max_backoff = 60000, multiplier = 1.5, jitter = 0.1, reset_threshold = 3600000 }, c.restart)
    c = config.job { restart = { strategy = "fixed_delay" } }
    assert.same({ strategy = "fixed_delay", attempts = 1, delay = 1000 }, c.restart)
    c = config.job { restart = { attempts = "unlimited", delay = "5s" } }
    assert.same({ strategy = "fixed_delay", attempts = config.UNLIMITED, delay = 5000 }, c.restart)
    assert.matches("no meaning with the strategy 'none'",
      job { restart = { strategy = "none", attempts = 3 } })
    c = config.job { restart = { strategy = "failure_rate", max_failures = 3 } }
    assert.same({ strategy = "failure_rate", max_failures = 3, interval = 60000, delay = 1000 }, c.restart)
    assert.matches("restart.delay has no meaning with the strategy 'exponential_delay'",
      job { restart = { strategy = "exponential_delay", delay = 5 } })
    assert.matches("restart.max_backoff is less than restart.initial_backoff",
      job { restart = { strategy = "exponential_delay", initial_backoff = "2min" } })
  end)

  it("refuse an unknown name and tell the nearest", function()
    assert.equals("sc.env: unknown option 'paralelism'; did you mean 'parallelism'?",
      job { paralelism = 2 })
    assert.equals("sc.env: unknown option 'checkpoint.intervall'; did you mean 'checkpoint.interval'?",
      job { checkpoint = { intervall = 1 } })
    assert.equals("sc.env: options are written name = value, and 'x' has no name", job { "x" })
  end)

  it("refuse wrong values and say what is expected", function()
    assert.equals("sc.env: parallelism must be an integer from 1 to 32768, got 0", job { parallelism = 0 })
    assert.equals("sc.env: parallelism must be an integer from 1 to 32768, got 'two'",
      job { parallelism = "two" })
    assert.matches("^sc%.env: checkpoint%.interval must be a duration",
      job { checkpoint = { interval = "1x" } })
    assert.equals("sc.env: checkpoint must be a table, got 'often'", job { checkpoint = "often" })
    assert.matches("^sc%.env: id must be a name for a folder", job { id = "../x" })
    assert.equals("sc.env: the options must be a table, got 3", job(3))
    assert.matches("one of 'retain_on_cancellation'", job { checkpoint = { externalized = "keep" } })
    assert.matches("needs checkpoint.dir", job { checkpoint = { interval = "1s" } })
    assert.matches("parallelism 4 is more than max_parallelism 2",
      job { parallelism = 4, max_parallelism = 2 })
  end)

  it("refuse parts that are not built yet, each by its name", function()
    assert.equals("sc.env: checkpoint.compression = true is not built yet",
      job { checkpoint = { compression = true } })
    assert.equals("sc.env: checkpoint.savepoint_dir is not built yet",
      job { checkpoint = { savepoint_dir = "s" } })
    assert.equals("sc.env: state.backend = 'rocksdb' is not built yet",
      job { state = { backend = "rocksdb" } })
    assert.is_false(config.job { checkpoint = { compression = false } }.checkpoint.compression)
  end)

  it("let barriers overtake only where that means something", function()
    local c = config.job { checkpoint = { unaligned = true, aligned_timeout = "200ms" } }.checkpoint
    assert.same({ true, 200, "exactly_once" }, { c.unaligned, c.aligned_timeout, c.mode })
    assert.equals("at_least_once", config.job { checkpoint = { mode = "at_least_once",
      max_concurrent = 3 } }.checkpoint.mode)
    assert.equals("sc.env: checkpoint.aligned_timeout has a meaning only together with "
      .. "checkpoint.unaligned = true", job { checkpoint = { aligned_timeout = "1s" } })
    assert.matches("^sc%.env: checkpoint%.unaligned needs the mode 'exactly_once'",
      job { checkpoint = { unaligned = true, mode = "at_least_once" } })
    assert.equals("sc.env: checkpoint.unaligned needs checkpoint.max_concurrent = 1, got 2",
      job { checkpoint = { unaligned = true, max_concurrent = 2 } })
    assert.matches("must be an integer from 1 to 1000000, got 0",
      job { checkpoint = { max_subtasks_per_channel_state_file = 0 } })
  end)

  it("do not change the user's table", function()
    local given = { checkpoint = { interval = "1s", dir = "d" } }
    config.job(given)
    assert.same({ checkpoint = { interval = "1s", dir = "d" } }, given)
  end)
end)

describe("start options", function()
  local function start(options, has_dir)
    return raised(function() local c = config.start(options, "start", has_dir) return c end)
  end

  it("are checked likewise", function()
    assert.same({ allow_non_restored_state = false }, config.start(nil, "start", false))
    assert.same({ from = "latest", allow_non_restored_state = true, fallback = "older" },
      config.start({ from = "latest", allow_non_restored_state = true, fallback = "older" }, "start", true))
    assert.matches("needs checkpoint.dir", start({ from = "latest" }, false))
    assert.equals("start: restore_mode is not built yet", start({ restore_mode = "claim" }, true))
    assert.matches("did you mean 'from'", start({ form = "latest" }, true))
    assert.matches("only together with from", start({ fallback = "older" }, true))
    assert.matches("fallback must be one of 'older'", start({ from = "x", fallback = "newer" }, true))
  end)
end)
