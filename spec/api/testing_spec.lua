-- testing.simulate: jobs that are right stand all that goes wrong; mistakes that only a failure shows are
-- found and named; nothing of it touches the world outside.
local sc = require "streamckpt"
local testing = require "streamckpt.testing"
local child = require "support.child"
local p = require "support.pipeline"

after_each(p.clean)

local function values(n)
  local out = {}
  for i = 1, n do out[i] = { k = "k" .. i % 5, n = i } end
  return out
end

local function count(ctx, v)
  local n = (ctx.state.n:get() or 0) + v.n
  ctx.state.n:set(n)
  ctx:emit { k = ctx.key, n = n }
end

local COUNT = { uid = "count", state = { n = sc.value() }, on_element = count }

local function keyed(options, spec, values_of)
  local env = sc.env(options or { parallelism = 2 })
  return env, env:from_values(values_of or values(60)):uid("values"):key_by("k"):process(spec or COUNT)
end

local function assert_ok(report)
  assert.is_true(report.ok, tostring(report))
  assert.same({}, report.differences)
end

-- The report's sentences, as one text.
local function differences(report)
  assert.is_false(report.ok, tostring(report))
  return table.concat(report.differences, "\n")
end

-- A source with three splits of ten numbers each, which goes on where it was told to.
local NUMBERS = {
  uid = "numbers", splits = function() return { 0, 1, 2 } end,
  read = function(ctx, split, at)
    at = (at or 0) + 1
    if at > 10 then return nil end
    ctx:emit({ k = "k" .. at % 3, n = 100 * split + at }, 1000 * at)
    return at
  end,
}

describe("simulate finds nothing wrong with", function()
  it("state for each key, and files that are written exactly once", function()
    local env, stream = keyed()
    stream:to_file("out"):uid("out")
    local report = testing.simulate(env, { 1, 60 })
    assert_ok(report)
    -- It did go through a lot: the sixty runs have all kinds of failures, and go on from checkpoints.
    for _, name in ipairs { "crashes", "task_failures", "storage_failures", "cancels", "rescales" } do
      assert.is_true(report[name] > 0, name)
    end
    assert.is_true(report.restores > 30 and report.checkpoints > 100, tostring(report))
    assert.same({ { label = "to_file 'out'", rows = 60, stable = true, counted = true, keys = 5 } },
                report.compared.sinks)
    assert.same({ "process 'count'" }, report.compared.states)
  end)

  it("rows that are collected, at any parallelism", function()
    local env, stream = keyed { parallelism = 3 }
    stream:map(function(v) return { sum = v.n } end):uid("sum"):collect():uid("rows")
    assert_ok(testing.simulate(env, { 1, 60 }))
  end)

  it("sources in Lua, windows by timers, and side outputs", function()
    local env = sc.env { parallelism = 2 }
    local windows = env:source(NUMBERS):watermarks { out_of_orderness = "20s", uid = "time" }:key_by("k")
      :process {
        uid = "windows", state = { open = sc.map() },
        on_element = function(ctx, v)
          local start = ctx.timestamp // 4000 * 4000
          ctx.state.open:set(start, (ctx.state.open:get(start) or 0) + v.n)
          ctx.timers:event_time(start + 3999)
          if v.n % 7 == 0 then ctx:side("sevens", v) end
        end,
        on_timer = function(ctx, time)
          local start = time - 3999
          ctx:emit { k = ctx.key, start = start, sum = ctx.state.open:get(start) }
          ctx.state.open:remove(start)
        end,
      }
    windows:to_file("out", { format = "json" }):uid("windows out")
    windows:side("sevens"):collect():uid("sevens")
    local report = testing.simulate(env, { 1, 60 })
    assert_ok(report)
    assert.same({}, report.notes)
  end)

  it("files that are really there, and writes none", function()
    local folder = p.folder()
    local path, lines = folder .. "/words", {}
    for i = 1, 40 do lines[i] = "word" .. i % 7 end
    p.write(path, table.concat(lines, "\n") .. "\n")
    local env = sc.env { parallelism = 2, checkpoint = { interval = "1s", dir = folder .. "/ckpt" } }
    env:from_file(path):uid("words"):to_file(folder .. "/out", { format = "lines" }):uid("out")
    local report = testing.simulate(env, { 1, 30 })
    assert_ok(report)
    assert.equals(40, report.compared.sinks[1].rows)
    assert.same({ path }, p.files(folder))
  end)

  it("generators: those without an end get one", function()
    local env = sc.env { parallelism = 2 }
    env:from_generator { uid = "g", rate = 100, fn = function(i) return { i = i } end }:collect():uid("rows")
    local report = testing.simulate(env, { 1, 10 }, { count = 70 })
    assert_ok(report)
    assert.equals(70, report.compared.sinks[1].rows)
  end)

  it("what is printed or told twice, where that is said to be all right", function()
    local env = sc.env()
    env:from_values(values(30)):uid("values"):to(function() end, { uid = "tell" })
    env:from_values(values(30)):uid("others"):print():name("shown")
    local report = testing.simulate(env, { 1, 30 }, { at_least_once = { "tell" } })
    assert_ok(report)
    assert.equals(2, #report.notes, tostring(report))
    assert.matches("^print 'shown': %d+ rows? %w+ given to it twice", report.notes[1])
    assert.matches("^to 'tell': %d+ rows? %w+ given to it twice", report.notes[2])
  end)

  it("an environment that stays as it is, and runs for real afterwards", function()
    local env, stream = keyed { parallelism = 2, log = { level = "off" } }
    stream:collect():uid("rows")
    assert_ok(testing.simulate(env, { 1, 3 }))
    assert.equals(60, #env:execute():rows("rows"))
    assert_ok(testing.simulate(env, { 1, 3 }))
  end)
end)

describe("simulate finds, within ten seeds,", function()
  it("state that is kept in a table of the script", function()
    local sums = {}
    local env, stream = keyed(nil, { uid = "sums", on_element = function(ctx, v)
      sums[ctx.key] = (sums[ctx.key] or 0) + v.n
      ctx:emit { k = ctx.key, n = sums[ctx.key] }
    end })
    stream:to_file("out"):uid("out")
    local report = testing.simulate(env, { 1, 10 })
    assert.matches("to_file 'out': %d+ rows are missing, {\"k\":\"k%d\",\"n\":%d+} among them", differences(report))
    assert.matches("that a run without failures does not have", differences(report))
    -- One event is what it takes, and the story ends with the job's.
    assert.is_true(report.shrunk)
    assert.equals(1, #report.events, tostring(report))
    assert.matches("restor[^\n]* from ckpt/", report.story)
    assert.matches("finished\n$", report.story)
  end)

  it("a function of a sink that is called again", function()
    local env = sc.env()
    env:from_values(values(60)):uid("values"):to(function() end, { uid = "alert" })
    assert.matches("to 'alert': %d+ rows? %w+ given to it twice.*at_least_once",
                   differences(testing.simulate(env, { 1, 10 })))
  end)

  it("a source that does not go on where it was", function()
    local env = sc.env()
    local at = 0
    env:source { uid = "numbers", splits = function() return { 1 } end, read = function(ctx)
      at = at + 1
      if at > 40 then return nil end
      ctx:emit { n = at }
      return at
    end }:to_file("out"):uid("out")
    assert.matches("to_file 'out': %d+ rows were written twice, {\"n\":%d+} among them",
                   differences(testing.simulate(env, { 1, 10 })))
  end)

  it("state that differs though no row shows it", function()
    local seen = {}
    local env, stream = keyed(nil, { uid = "marks", state = { n = sc.value() }, on_element = function(ctx)
      -- The first of each key counts one, all others ten; but a process that begins anew has seen none.
      ctx.state.n:set((ctx.state.n:get() or 0) + (seen[ctx.key] and 10 or 1))
      seen[ctx.key] = true
    end })
    stream:collect():uid("nothing")
    assert.matches("process 'marks', state 'n': key \"k%d\" has %d+, not 111",
                   differences(testing.simulate(env, { 1, 10 })))
  end)

  it("rows of a key in another order", function()
    -- What is held back until the end is in state, but by numbers that begin anew with the process.
    local number = 0
    local env, stream = keyed({ parallelism = 1 }, { uid = "held", state = { held = sc.map() },
      on_element = function(ctx, v)
        number = number + 1
        ctx.state.held:set(number * 1000 + v.n, v.n)
        ctx.timers:event_time(1)
      end,
      on_timer = function(ctx)
        local list = {}
        for at, n in ctx.state.held:pairs() do list[#list + 1] = { at, n } end
        table.sort(list, function(a, b) return a[1] < b[1] end)
        for _, x in ipairs(list) do ctx:emit { n = x[2] } end
        ctx.state.held:clear()
      end,
    })
    stream:to_file("out"):uid("out")
    assert.matches("to_file 'out': rows of one key come in another order: number %d+ is {\"n\":%d+}, not {\"n\":%d+}",
                   differences(testing.simulate(env, { 1, 10 })))
  end)

  it("a function that fails only after a restore", function()
    local env, seen = sc.env(), nil
    env:from_values(values(60)):uid("values"):map(function(v)
      if v.n == 1 then seen = {} end
      seen[#seen + 1] = v.n
      return v
    end):uid("seen"):collect():uid("rows")
    assert.matches("after a failure the job does not go on as it should: EUSER: seen %(seen%).*upvalue 'seen'",
                   differences(testing.simulate(env, { 1, 10 }, { parallelism = { 1 } })))
  end)
end)

describe("simulate says", function()
  it("that a job fails by itself, with the traceback", function()
    local env = sc.env()
    env:from_values { 1, 2 }:uid("values"):map(function(v) return v.x.y end):uid("broken"):collect()
    local report = testing.simulate(env, 1)
    assert.matches("^without any failure the job fails: EUSER: broken.*testing_spec.lua", differences(report))
    assert.equals(0, report.runs)
    assert.matches("^not simulated: ", tostring(report))
  end)

  it("that a file is missing", function()
    local env = sc.env()
    env:from_file("nowhere.log"):uid("log"):collect()
    assert.matches("the job fails: ENOTFOUND: there is no file nowhere.log", differences(testing.simulate(env, 1)))
  end)

  it("that a function left the process", function()
    local env = sc.env()
    env:from_values { 1 }:uid("values"):map(function() os.exit(7) end):collect()
    assert.matches("the simulated process ended by exit code 7", differences(testing.simulate(env, 1)))
  end)

  it("that functions do not give the same each time, and compares numbers", function()
    local env = sc.env()
    env:from_values(values(30)):uid("values"):map(function(v) return { v.n, math.random(1 << 30) } end)
      :uid("random"):collect():uid("rows")
    local report = testing.simulate(env, { 1, 20 })
    assert_ok(report)
    assert.matches("do not give the same each time", report.notes[1])
    assert.matches("collect 'rows' %(30 rows, only their number%)", tostring(report))
  end)

  it("that runs without failures differ with time, and finds losses all the same", function()
    -- Sums of what comes from three splits depend on how the splits meet; that there are thirty does not.
    local seen = {}
    local env = sc.env { parallelism = 2 }
    env:source(NUMBERS):key_by("k"):process {
      uid = "sums", state = { sum = sc.value() },
      on_element = function(ctx, v)
        local sum = ctx.state.sum:get()
        ctx.state.sum:set((sum or 0) + v.n)
        -- A mistake: the first of a key after a restore is taken for one that was seen before.
        if not sum or seen[ctx.key] then ctx:emit { k = ctx.key, sum = (sum or 0) + v.n } end
        seen[ctx.key] = true
      end,
    }:collect():uid("rows")
    local report = testing.simulate(env, { 1, 20 })
    assert.matches("differ with the order in which tasks have their turns", report.notes[1])
    assert.matches("collect 'rows': 2%d rows instead of 30", differences(report))
  end)

  it("that another parallelism gives something else by itself, and leaves it out", function()
    local env = sc.env()
    env:from_generator { uid = "g", count = 20, fn = function(i) return { i = i } end }
      :process { uid = "where", on_element = function(ctx, v) ctx:emit { i = v.i, of = ctx.parallelism } end }
      :collect():uid("rows")
    local report = testing.simulate(env, { 1, 20 })
    assert_ok(report)
    assert.same({
      "with parallelism 2 even a run without failures gives something else: it is left out",
      "with parallelism 3 even a run without failures gives something else: it is left out",
    }, report.notes)
    assert.equals(0, report.rescales)
  end)
end)

describe("a report", function()
  local function mistaken()
    local n = {}
    local env, stream = keyed(nil, { uid = "sums", on_element = function(ctx)
      n[ctx.key] = (n[ctx.key] or 0) + 1
      ctx:emit { k = ctx.key, n = n[ctx.key] }
    end })
    stream:to_file("out"):uid("out")
    return env
  end

  it("is the same for the same seeds", function()
    local first = testing.simulate(mistaken(), { 1, 10 }, { parallelism = { 2 } })
    local second = testing.simulate(mistaken(), { 1, 10 }, { parallelism = { 2 } })
    assert.equals(tostring(first), tostring(second))
    assert.equals(first.story, second.story)
    local again = testing.simulate(mistaken(), first.failed_seed, { parallelism = { 2 } })
    assert.same(first.differences, again.differences)
    assert.equals(first.story, again.story)
    local env, stream = keyed()
    stream:collect():uid("rows")
    first, second = testing.simulate(env, { 5, 25 }), testing.simulate(env, { 5, 25 })
    assert.equals(tostring(first), tostring(second))
    assert.not_equals(tostring(first), tostring(testing.simulate(env, { 6, 26 })))
  end)

  it("prints what differed, what it takes, and the story, on a screen", function()
    local report = testing.simulate(mistaken(), { 1, 10 }, { parallelism = { 2 } })
    local text = tostring(report)
    assert.matches("^simulated %d+ runs? %(seeds 1 to 10%): seed %d+ differs from a run without failures\n  %- to_file",
                   text)
    assert.matches("\nwhat it takes:\n  %- ", text)
    assert.matches("\nstory %(ms, what happened.-%):\n", text)
    assert.is_true(select(2, text:gsub("\n", "\n")) < 50, text)
    assert.has_error(function() return report.failures end)
  end)

  it("leaves a failing run as it is where told to", function()
    local report = testing.simulate(mistaken(), { 1, 10 }, { shrink = false })
    assert.is_false(report.ok)
    assert.is_false(report.shrunk)
    assert.matches("\nwhat went wrong on purpose:\n", tostring(report))
  end)
end)

describe("simulate leaves nothing behind:", function()
  it("no descriptor, no process, no memory", function()
    local out, err = p.script([[
      local sc = require "streamckpt"
      local testing = require "streamckpt.testing"
      local uv = require "luv"
      local function look()
        collectgarbage()
        collectgarbage()
        local files, scan = 0, assert(uv.fs_scandir("/proc/self/fd"))
        while uv.fs_scandir_next(scan) do files = files + 1 end
        local children <close> = assert(io.open(("/proc/self/task/%d/children"):format(uv.os_getpid())))
        return files, children:read("a"), collectgarbage("count")
      end
      local env = sc.env { parallelism = 2 }
      env:from_generator { uid = "g", count = 60, fn = function(i) return { k = i % 5, n = i } end }:key_by("k")
        :process { uid = "sums", state = { n = sc.value() }, on_element = function(ctx, v)
          ctx.state.n:set((ctx.state.n:get() or 0) + v.n)
          ctx:emit(v)
        end }:collect():uid("rows")
      testing.simulate(env, 1)
      local files, processes, memory = look()
      testing.simulate(env, { 1, 50 })
      local files_after, processes_after, memory_after = look()
      -- A run's result is some ten kilobytes: fifty of them would be seen.
      print(files_after - files, processes_after == processes, memory_after - memory < 200)
    ]], p.folder())
    assert.same({ "0\ttrue\ttrue\n", "" }, { out, err })
  end)

  it("what functions print is not seen, and the script's own is seen once", function()
    local out, err, code = p.script([[
      local sc = require "streamckpt"
      local testing = require "streamckpt.testing"
      io.stdout:setvbuf("full")
      io.write("before\n")
      local env = sc.env()
      env:from_values { 1, 2, 3 }:uid("v"):map(function(v)
        print("a function") io.stderr:write("said\n")
        return v
      end):uid("m"):print()
      print(testing.simulate(env, { 1, 5 }).ok)
    ]], p.folder())
    assert.same({ "before\ntrue\n", "", 0 }, { out, err, code })
  end)

  it("Ctrl-C ends it, though a function loops for ever", function()
    local folder = p.folder()
    -- The function finds the script's process, which is its parent, and interrupts it.
    local result = child.script(folder, [[
      local sc = require "streamckpt"
      local testing = require "streamckpt.testing"
      local env = sc.env()
      env:from_values { 1 }:uid("v"):map(function()
        local pid, parent = io.open("/proc/self/stat"):read("a"):match("^(%d+) %b() %a (%d+)")
        io.open("pid", "w"):write(pid):close()
        os.execute("kill -INT " .. parent)
        while true do end
      end):uid("m"):collect()
      print(pcall(testing.simulate, env, 1))
      local pid = io.open("pid"):read("a")
      print(io.open("/proc/" .. pid .. "/stat"))
    ]])
    assert.is_nil(result.late)
    assert.matches("^false\tinterrupted!\nnil\t", result.stdout, nil, result.stderr)
  end)

  it("and other jobs of the process go on meanwhile", function()
    if (os.getenv("SANITIZE_PRELOAD") or ""):find("libtsan", 1, true) then
      pending("ThreadSanitizer's allocator stays locked in a child whose parent's threads were in it")
      return
    end
    local env = sc.env { log = { level = "off" } }
    env:from_generator { rate = 1000, fn = function(i) return { k = i % 3, n = 1 } end }:uid("g"):key_by("k")
      :process(COUNT):to(function() end)
    local job = assert(env:start())
    local other, stream = keyed()
    stream:collect():uid("rows")
    assert_ok(testing.simulate(other, { 1, 5 }))
    assert.is_nil(job:status().error)
    job:cancel()
    assert.equals("canceled", assert(job:wait("1min")).state)
  end)
end)

describe("simulate refuses, at the caller's line,", function()
  local function refused(pattern, ...)
    local ok, message = pcall(testing.simulate, ...)
    assert.is_false(ok)
    assert.matches("^[^\n]*testing_spec.lua:%d+: " .. pattern .. "$", message)
  end

  local function small()
    local env = sc.env()
    env:from_values { 1 }:uid("values"):collect():uid("rows")
    return env
  end

  it("what is no environment", function()
    refused("simulate needs an environment, what sc.env returns, got nil")
    refused("simulate needs an environment, what sc.env returns, got a table", {}, 1)
  end)

  it("what are no seeds", function()
    refused("simulate needs a seed, an integer, or the first and the last of several, {1, 100}; got 'x'", small(), "x")
    refused("simulate needs a seed.* got a table without them", small(), { 3, 1 })
    refused("simulate needs a seed.* got 1.5", small(), 1.5)
    refused("simulate: seeds = 5 and a seed: one of the two", small(), 1, { seeds = 5 })
  end)

  it("unknown and wrong options", function()
    refused("simulate: unknown option 'seed'; did you mean 'seeds'%?", small(), 1, { seed = 1 })
    refused("simulate: parallelism must be an array of numbers of tasks, from 1 to 64, got a table", small(), 1,
            { parallelism = { 0 } })
    refused("simulate: at_least_once must be true, or an array of uids of sinks, got 'x'", small(), 1,
            { at_least_once = "x" })
  end)

  it("an empty graph, and functions that cannot travel", function()
    refused("the environment has no streams yet.*", sc.env(), 1)
    local file = io.tmpfile()
    local env = sc.env()
    env:from_values { 1 }:map(function(v) return file and v end):uid("m"):collect()
    refused("operator 'm' .* cannot run in the slots: .*", env, 1)
  end)

  it("a source that cannot be read again, by name", function()
    local env = sc.env()
    env:source { uid = "once", replayable = false, splits = NUMBERS.splits, read = NUMBERS.read }:collect()
    refused("simulate: source 'once' cannot be read again %(replayable = false%).*", env, 1)
  end)

  it("a parallelism that the graph cannot have", function()
    local env = sc.env { max_parallelism = 2 }
    env:from_generator { uid = "g", count = 5 }:collect():uid("rows")
    refused("simulate: the graph cannot be 3 tasks wide: .*max_parallelism 2", env, 1, { parallelism = { 3 } })
  end)

  it("names that it does not have", function()
    local ok, message = pcall(function() return testing.simulat end)
    assert.is_false(ok)
    assert.matches("testing_spec.lua:%d+: streamckpt.testing has no 'simulat'; did you mean 'simulate'%?$", message)
  end)
end)
