-- Options as a script gives them: what they do, and what is said about those that are wrong.
local p = require "support.pipeline"
local sc = require "streamckpt"

after_each(p.clean)

local function refusal(options)
  local ok, message = pcall(sc.env, options)
  assert.is_false(ok)
  local rest = message:match("^spec/api/options_spec%.lua:%d+: (.*)$")
  return rest or message
end

describe("sc.env", function()
  it("refuses unknown options with the nearest known one, also nested ones", function()
    assert.matches("unknown option 'paralelism'; did you mean 'parallelism'?",
      refusal { paralelism = 2 }, 1, true)
    assert.matches("unknown option 'checkpoint.intervall'; did you mean 'checkpoint.interval'?",
      refusal { checkpoint = { intervall = 1 } }, 1, true)
    assert.matches("options are written name = value, and 'name' has no name", refusal { "name" }, 1, true)
  end)

  it("refuses wrong values with what is expected, and what came", function()
    assert.matches("parallelism must be an integer from 1 to 32768, got 0", refusal { parallelism = 0 }, 1, true)
    assert.matches("parallelism must be an integer from 1 to 32768, got -1", refusal { parallelism = -1 }, 1, true)
    assert.matches("got 32769", refusal { parallelism = 32769 }, 1, true)
    assert.matches("got 1.5", refusal { parallelism = 1.5 }, 1, true)
    assert.matches("max_parallelism must be an integer from 1 to 32768, got 0",
      refusal { max_parallelism = 0 }, 1, true)
    assert.matches("checkpoint.interval must be a duration", refusal { checkpoint = { interval = "soon" } }, 1, true)
    assert.matches("network.segment_size must be a size", refusal { network = { segment_size = "3 miles" } }, 1, true)
    assert.matches("network.debloat.target must be a duration longer than zero, got 0",
      refusal { network = { debloat = { target = 0 } } }, 1, true)
    assert.matches("network.debloat.threshold_percentages must be an integer from 0 to 100, got 101",
      refusal { network = { debloat = { threshold_percentages = 101 } } }, 1, true)
    assert.matches("unknown option 'network.debloat.percentages'",
      refusal { network = { debloat = { percentages = 25 } } }, 1, true)
    assert.matches("restart.strategy must be one of", refusal { restart = { strategy = "always" } }, 1, true)
    assert.matches("id must be a name for a folder", refusal { id = "../up" }, 1, true)
    assert.matches("checkpoint must be a table, got '1s'", refusal { checkpoint = "1s" }, 1, true)
    assert.matches("the options must be a table", refusal("visits"), 1, true)
  end)

  it("refuses combinations that cannot work", function()
    assert.matches("parallelism 3 is more than max_parallelism 2",
      refusal { parallelism = 3, max_parallelism = 2 }, 1, true)
    assert.matches("checkpoint.interval needs checkpoint.dir", refusal { checkpoint = { interval = "1s" } }, 1, true)
  end)

  it("refuses parts that are not built yet, as such", function()
    for _, options in ipairs {
      { state = { backend = "rocksdb" } }, { checkpoint = { compression = true } },
      { checkpoint = { savepoint_dir = "s" } },
      { state = { changelog = {} } },
    } do
      assert.matches("is not built yet", refusal(options), 1, true)
    end
  end)

  it("takes every way of checkpointing, and each gives the same rows", function()
    for _, checkpoint in ipairs {
      { unaligned = true }, { unaligned = true, aligned_timeout = "10ms" }, { mode = "at_least_once" },
      { mode = "at_least_once", max_concurrent = 2 }, { after_tasks_finish = false },
    } do
      local folder = p.folder()
      local options = p.checkpointing(folder)
      for name, value in pairs(checkpoint) do options.checkpoint[name] = value end
      assert.same({ 1, 2, 3 }, p.rows(options, function(env) return env:from_values { 1, 2, 3 } end))
    end
  end)

  it("refuses ways of checkpointing that contradict each other", function()
    assert.matches("checkpoint.unaligned needs the mode 'exactly_once'",
      refusal { checkpoint = { unaligned = true, mode = "at_least_once" } }, 1, true)
    assert.matches("checkpoint.unaligned needs checkpoint.max_concurrent = 1, got 2",
      refusal { checkpoint = { unaligned = true, max_concurrent = 2 } }, 1, true)
  end)

  it("takes what is the default of a part that is not built", function()
    assert.same({ 1 }, p.rows({ checkpoint = { compression = false },
                                state = { backend = "heap" } },
      function(env) return env:from_values { 1 } end))
  end)
end)

describe("parallelism", function()
  local function failure(options, build)
    return p.failure(options, function(env) return build(env:from_values { 1 }) end)
  end

  it("of an operator is refused beyond its limits, with the operator and both numbers", function()
    local function keep(v) return v end
    assert.matches("parallelism must be an integer from 1 to 32768, got 0",
      failure({}, function(s) return s:map(keep):parallelism(0) end), 1, true)
    assert.matches("got 32769", failure({}, function(s) return s:map(keep):parallelism(32769) end), 1, true)
    assert.matches("max_parallelism must be an integer from 1 to 32768, got 0",
      failure({}, function(s) return s:map(keep):max_parallelism(0) end), 1, true)
    assert.matches("map 'm': parallelism 3 is more than max_parallelism 2",
      failure({}, function(s) return s:map(keep):uid("m"):parallelism(3):max_parallelism(2) end), 1, true)
    assert.matches("map 'm': parallelism 4 is more than max_parallelism 2",
      failure({ parallelism = 4 }, function(s) return s:map(keep):uid("m"):max_parallelism(2) end), 1, true)
  end)

  it("may be as large as max_parallelism, and no larger after a restore", function()
    local folder = p.folder()
    local function run(parallelism, start)
      local options = p.checkpointing(folder, { parallelism = parallelism, max_parallelism = 4 })
      return pcall(p.rows, options, function(env)
        return env:from_values { { k = 1 }, { k = 2 }, { k = 3 } }:key_by("k")
          :process { uid = "p", state = { n = sc.value() }, on_element = function(ctx) ctx:emit(ctx.key) end }
      end, start)
    end
    local ok, rows = run(4)
    assert.is_true(ok, rows)
    table.sort(rows)
    assert.same({ 1, 2, 3 }, rows)
    local refused, message = run(5, { from = "latest" })
    assert.is_false(refused)
    assert.matches("parallelism 5 is more than max_parallelism 4", message, 1, true)
  end)

  it("of the state's key groups is fixed by the checkpoint", function()
    local folder = p.folder()
    local function build(env)
      return p.gated(env, folder, { { k = 1 }, { k = 2 } }):key_by("k")
        :process { uid = "p", state = { n = sc.value() }, on_element = function(ctx) ctx.state.n:set(1) end }
    end
    local job = p.start(p.checkpointing(folder, { max_parallelism = 128 }), build)
    p.let(folder, 2)
    p.wait_for(job, function() return job:metrics("p").numRecordsIn == 2 end)
    assert(job:checkpoint())
    job:cancel()
    p.wait(job)
    local message = p.failure(p.checkpointing(folder, { max_parallelism = 256 }), build, { from = "latest" })
    assert.matches("p", message, 1, true)
    assert.matches("128", message, 1, true)
    assert.matches("256", message, 1, true)
  end)

  it("larger than the number of slots shares slots", function()
    local rows = p.sorted({ parallelism = 8, slots = 2 }, function(env)
      -- One reader: of several, the quickest may read the splits of others, and begin its rounds anew.
      return env:from_generator { count = 40 }:parallelism(1):rebalance():map(function(_, ctx) return ctx.subtask end)
    end)
    local seen = {}
    for _, subtask in ipairs(rows) do seen[subtask] = (seen[subtask] or 0) + 1 end
    for i = 0, 7 do assert.equals(5, seen[i]) end
  end)
end)

describe("names of the job", function()
  it("are the script's, where none is given", function()
    local out, err = p.script([[
      local sc = require "streamckpt"
      local env = sc.env()
      env:from_values { 1 }:collect():uid("out")
      print(env)
      print(env:execute())
    ]], p.folder())
    assert.equals("streamckpt.env<script, 2 operators>\nstreamckpt.result<script, finished>\n", out, err)
  end)
end)

describe("the log", function()
  it("goes to a file of the job's folder, whole lines with job and time", function()
    local folder = p.folder()
    local result = p.run(p.checkpointing(folder), function(env) return env:from_values { 1 } end)
    assert.equals("finished", result:status().state)
    local log = p.read(folder .. "/ckpt/spec/log")
    assert.matches("\n$", log)
    for line in log:gmatch("[^\n]+") do
      assert.matches("^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%dZ %u+ +%[spec", line)
    end
    assert.matches("chk 1]: completed", log, 1, true)
  end)

  it("warns of state without a uid where there are checkpoints", function()
    local folder = p.folder()
    p.run(p.checkpointing(folder), function(env)
      local s = env:from_values({ { k = 1 } }):key_by("k")
        :process { state = { n = sc.value() }, on_element = function() end }
      return s
    end)
    local log = p.read(folder .. "/ckpt/spec/log")
    assert.matches("WARN", log)
    assert.matches("process %(spec/api/options_spec.lua:%d+%) has state but no uid", log)
  end)

  it("says nothing on standard error about a job that went well", function()
    local out, err, code = p.script([[
      local sc = require "streamckpt"
      local env = sc.env()
      env:from_values { 1 }:print()
      env:execute()
    ]], p.folder())
    assert.same({ "1\n", "", 0 }, { out, err, code })
  end)
end)
