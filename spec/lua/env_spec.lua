local fake = require "support.fake_core"
package.loaded["streamckpt.core"] = fake
local sc = require "streamckpt"
local slot = require "streamckpt.slot"

local function raised(fn)
  local ok, message = pcall(fn)
  assert.is_false(ok)
  local rest = message:match("^spec/lua/env_spec%.lua:%d+: (.*)$")
  assert.is_string(rest, "not raised at the caller's line: " .. tostring(message))
  return rest
end

local function keep(value) return value end

before_each(function()
  fake.plans, fake.handles, fake.refuse, fake.prepare = {}, {}, nil, nil
end)

describe("requiring the module", function()
  it("gives a version and sets no globals", function()
    assert.matches("^%d+%.%d+%.%d+$", sc._VERSION)
    assert.is_nil(rawget(_G, "streamckpt"))
    assert.equals(fake.null, sc.null)
    assert.equals(fake.array, sc.array)
  end)

  it("names what is not built yet", function()
    assert.equals("sc.tumbling is not built yet", raised(function() local x = sc.tumbling("1s") return x end))
    assert.matches("^sc.list is not built yet", raised(function() local x = sc.list() return x end))
    assert.equals("sc.value: ttl is not built yet",
      raised(function() local x = sc.value { ttl = "1d" } return x end))
  end)
end)

describe("an environment", function()
  it("makes the id from the name", function()
    local env = sc.env { name = "My Visits! (v2)" }
    env:from_values { 1 }
    env:start()
    assert.equals("my-visits-v2", fake.plans[1].job.id)
    assert.equals("My Visits! (v2)", fake.plans[1].job.name)
    local other = sc.env { name = "visits", id = "V1" }
    other:from_values { 1 }
    other:start()
    assert.equals("V1", fake.plans[2].job.id)
  end)

  it("takes the name from the script's file, and at a prompt from the process", function()
    local before = rawget(_G, "arg")
    finally(function() rawset(_G, "arg", before) end)
    rawset(_G, "arg", { [-1] = "lua5.4", [0] = "jobs/word count.lua" })
    assert.equals("word count", sc.env().name)
    assert.equals("word-count", sc.env().id)
    rawset(_G, "arg", { [0] = "lua5.4", "-i" })
    assert.matches("^repl%-%d+$", sc.env().id)
  end)

  it("fills in the plan", function()
    local env = sc.env {
      name = "j", parallelism = 2, checkpoint = { interval = "2s", dir = "/ck", retain = 3, min_pause = 5,
                                                     sync = false },
      state = { sync = true }, log = { level = "debug" },
    }
    env:from_values({ 1 }):map(keep)
    env:start { from = "latest", fallback = "older" }
    local j = fake.plans[1].job
    assert.same({ 2, 2, "/ck", 2000, 600000, 5, 1, -1, 3, "retain_on_cancellation", true, true },
      { j.parallelism, j.slots, j.dir, j.interval, j.timeout, j.min_pause, j.max_concurrent,
        j.tolerable_failures, j.retain, j.externalized, j.sync, j.unsynced })
    assert.same({ level = "debug" }, j.log)
    assert.same({ "latest", false, "older" }, { j.from, j.allow_non_restored_state, j.fallback })
    assert.equals("exponential_delay", j.restart.strategy)
    assert.equals(32768, j.network.segment_size)
  end)

  it("has as many slots as the widest operator, or as it was told", function()
    local env = sc.env { parallelism = 2 }
    env:from_values({ 1 }):map(keep):parallelism(5)
    env:start()
    assert.equals(5, fake.plans[1].job.slots)
    env = sc.env { parallelism = 4, slots = 2 }
    env:from_values { 1 }
    env:start()
    assert.equals(2, fake.plans[2].job.slots)
  end)

  it("refuses to start an empty graph", function()
    assert.matches("no streams yet", raised(function() local j = sc.env():start() return j end))
  end)

  it("is called with a colon", function()
    local env = sc.env()
    assert.matches("write env:from_file%(%.%.%.%)",
      raised(function() local s = env.from_file("x") return s end))
    assert.equals("sc.env is called with a colon; write sc.env { ... }, with a dot",
      raised(function() local e = sc:env { parallelism = 2 } return e end))
  end)

  it("prints readably and names methods that are missing", function()
    assert.equals("streamckpt.env<j, 0 operators>", tostring(sc.env { name = "j" }))
    assert.matches("did you mean 'from_file'",
      raised(function() local s = sc.env():from_fiel("x") return s end))
  end)
end)

describe("sources", function()
  it("from files", function()
    local env = sc.env()
    env:from_file("a.log")
    env:from_file({ "a", "b" }, { position = true, uid = "ab" })
    env:start()
    local first, second = table.unpack(fake.plans[1].operators)
    assert.same({ outputs = { "main" }, paths = { "a.log" }, position = false }, first.options)
    assert.same({ "file_source", true, "ab", false, true, { "a", "b" } },
      { second.kind, second.native, second.uid, second.auto_uid, second.options.position,
        second.options.paths })
    assert.matches("needs a path", raised(function() local s = env:from_file() return s end))
    assert.matches("without any", raised(function() local s = env:from_file {} return s end))
    assert.matches("number 2 is 7", raised(function() local s = env:from_file { "a", 7 } return s end))
    assert.matches("did you mean 'position'",
      raised(function() local s = env:from_file("a", { positon = true }) return s end))
  end)

  it("from values, which one task reads", function()
    local env = sc.env { parallelism = 3 }
    local values = { 1, "two", { 3 } }
    env:from_values(values)
    values[1] = 100
    env:start()
    assert.same({ 1, "two", { 3 } }, fake.plans[1].operators[1].options.values)
    assert.equals(1, fake.plans[1].operators[1].parallelism)
    assert.matches("keys 1 to n", raised(function() local s = env:from_values { 1, nil, 3 } return s end))
    assert.matches("keys 1 to n", raised(function() local s = env:from_values { 1, a = 2 } return s end))
    assert.matches("array of values", raised(function() local s = env:from_values("x") return s end))
  end)

  it("from a generator and from functions", function()
    local env = sc.env()
    env:from_generator { count = 5, rate = 10, fn = keep }
    env:source { splits = function() return { 1 } end, read = function() return nil end, replayable = false }
    env:start()
    local generator, source = table.unpack(fake.plans[1].operators)
    assert.same({ "generator", false, 5, 10 },
      { generator.kind, generator.native, generator.options.count, generator.options.rate })
    assert.same({ "source", false }, { source.kind, source.options.replayable })
    local root = slot.load(fake.plans[1].blob)
    assert.equals("v", root.operators[1].fn("v"))
    assert.same({ 1 }, root.operators[2].splits())
    assert.equals(package.path, root.package.path)
    assert.matches("fn must be a function", raised(function()
      local s = env:from_generator { fn = 3 }
      return s
    end))
    assert.matches("needs read", raised(function() local s = env:source { splits = keep } return s end))
    assert.matches("rate must be a number",
      raised(function() local s = env:from_generator { fn = keep, rate = 0 } return s end))
  end)
end)

describe("start and execute", function()
  local function small(options)
    local env = sc.env(options or { name = "small" })
    env:from_values({ 1 }):collect():uid("out")
    return env
  end

  it("return what the engine says when a job cannot start", function()
    fake.refuse = "ENOTFOUND: there is no checkpoint at 'x'"
    local job, message, code = small():start { from = "x" }
    assert.is_nil(job)
    assert.equals("ENOTFOUND: there is no checkpoint at 'x'", message)
    assert.equals("ENOTFOUND", code)
    assert.equals("job 'small' did not start: ENOTFOUND: there is no checkpoint at 'x'",
      raised(function() local r = small():execute { from = "x" } return r end))
  end)

  it("execute waits and gives a result", function()
    fake.prepare = function(handle) handle.collected.out = { 1, 2 } end
    local result = small():execute()
    assert.same({ "forever" }, fake.handles[1].waits)
    assert.same({ 1, 2 }, { table.unpack(result:rows("out")) })
    assert.equals(3, result:checkpoints().counts.completed)
    assert.equals(3, #result:metrics())
    assert.equals(14, result:metrics("m").numRecordsOut)
    assert.matches("no operator has the uid 'n'",
      raised(function() local r = result:metrics("n") return r end))
    assert.equals("finished", result:status().state)
    assert.matches("no collect has the uid 'in'", raised(function() local r = result:rows("in") return r end))
  end)

  it("execute raises the cause of a failure as a sentence", function()
    fake.prepare = function(handle)
      handle.state, handle.error = "failed", "EUSER: map 'parse': a.lua:3: attempt to index nil"
    end
    assert.equals("job 'small' failed: EUSER: map 'parse': a.lua:3: attempt to index nil",
      raised(function() local r = small():execute() return r end))
  end)

  it("execute takes the job down when it is interrupted", function()
    fake.prepare = function(handle)
      handle.on_wait = function(self)
        self.on_wait = nil
        error("interrupted!", 0)
      end
    end
    local env = small()
    assert.has_error(function() env:execute() end, "interrupted!")
    assert.equals("canceled", fake.handles[1].state)
    assert.same({ "forever", 2000 }, fake.handles[1].waits)
  end)

  it("refuse functions that cannot travel, at the caller's line", function()
    local env, file = sc.env(), io.tmpfile()
    env:from_values({ 1 }):map(function(v) return file and v end):uid("m")
    local message = raised(function() local r = env:execute() return r end)
    assert.matches("^operator 'm' %(spec/lua/env_spec.lua:%d+%) cannot run in the slots", message)
    assert.matches("upvalue 'file', which is a userdata %(FILE%*%)", message)
    assert.matches("'open'", message)
    assert.equals(0, #fake.plans)
    file:close()
  end)

  it("refuse functions that hold an environment", function()
    local env = sc.env()
    env:from_values({ 1 }):map(function(v) return env and v end)
    assert.matches("upvalue 'env', which is an environment, which stays in the script",
      raised(function() local r = env:execute() return r end))
  end)

  it("may start the same graph twice", function()
    local env = small()
    env:start()
    env:start()
    assert.same(fake.plans[1].operators, fake.plans[2].operators)
    assert.same(fake.plans[1].edges, fake.plans[2].edges)
  end)
end)
