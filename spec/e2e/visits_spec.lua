-- The main job as a user runs it: a process of its own, real files, real kills; against a plain Lua
-- computation of the same log.
local folder = require "support.folder"
local kills = require "support.kills"
local main_job = require "support.main_job"

local REAL = (os.getenv("STREAMCKPT_DATA") or "../shared/data") .. "/access.log"

local function succeeded(result)
  assert.equals(0, result.code, result.stderr)
  return result
end

describe("examples/visits.lua", function()
  local dir
  before_each(function() dir = folder.new() end)
  after_each(function() dir:remove() end)

  local function run_of(log, name, interval)
    return { log = log, out = dir:at("out" .. (name or "")), ckpt = dir:at("ckpt" .. (name or "")),
             interval = interval }
  end

  describe("on a real log", function()
    local expected

    local function real()
      local file = io.open(REAL)
      if not file then return pending("skipped: there is no " .. REAL) end
      file:close()
      expected = expected or main_job.expected(REAL)
      return true
    end

    -- A watch that kills as soon as the job's log shows a completed checkpoint.
    local function after_first_checkpoint(run)
      return function(process)
        local file = io.open(run.ckpt .. "/visits/log")
        local text = file and file:read("a") or ""
        if file then file:close() end
        if text:find("]: completed", 1, true) then process.kill() end
      end
    end

    it("is found by a plain computation to hold 3052 visits, 1753 clients, 10000 hits", function()
      if not real() then return end
      assert.same({ 3052, 1753, 10000, 0, 84 },
        { #expected.visits, expected.clients, expected.hits, #expected.bad_lines, #expected.minutes })
    end)

    it("finds exactly these at parallelism 1, 2, 3 and 4", function()
      if not real() then return end
      for parallelism = 1, 4 do
        local run = run_of(REAL, parallelism)
        local result = succeeded(main_job.visits(run, parallelism))
        assert.is_nil(main_job.wrong(run, expected))
        assert.matches("3052 visits by 1753 clients, 10000 hits", result.stdout, 1, true)
        assert.matches("0 lines did not parse", result.stdout, 1, true)
      end
    end)

    it("finds them when it is killed and started again, at the same and other parallelism", function()
      if not real() then return end
      for _, pair in ipairs { { 2, 2 }, { 1, 4 }, { 4, 1 }, { 3, 2 }, { 2, 3 } } do
        local run = run_of(REAL, ("%d-%d"):format(pair[1], pair[2]), "2ms")
        main_job.visits(run, pair[1], after_first_checkpoint(run))
        succeeded(main_job.visits(run, pair[2]))
        assert.is_nil(main_job.wrong(run, expected))
      end
    end)

    it("fills exactly 84 minutes, killed or not", function()
      if not real() then return end
      for parallelism = 1, 4 do
        local out, ckpt = dir:at("minutes" .. parallelism), dir:at("minutes-ckpt" .. parallelism)
        local arguments = { REAL, out, ckpt, tostring(parallelism) }
        local reads = parallelism * 400000             -- another place in the log each time
        main_job.script("per_minute.lua", arguments, function(process)
          if process.read > reads then process.kill() end
        end)
        arguments[4] = tostring(parallelism % 4 + 1)
        succeeded(main_job.script("per_minute.lua", arguments))
        assert.same(expected.minutes, main_job.committed(out))
      end
    end)
  end)

  describe("on a log of the generator", function()
    local log, expected

    -- 40000 lines: what a quarter of a second brings, some ten checkpoints of 20 ms.
    before_each(function()
      log = dir:at("access.log")
      succeeded(main_job.script("make_log.lua", { log, "40000", "7" }))
      expected = main_job.expected(log)
    end)

    it("writes the same output over real kills at moments by chance", function()
      local run = run_of(log, nil, "20ms")
      local undisturbed = succeeded(main_job.visits(run, 2))
      assert.is_nil(main_job.wrong(run, expected))
      local seed = os.time()
      print(("kills of the main job: seed %d"):format(seed))
      local tally = kills.run { log = log, folder = dir.path, kills = 8, seed = seed, interval = "20ms",
                                seconds = undisturbed.seconds, expected = expected }
      assert.is_true(tally.kills >= 8)
    end)

    it("shows the bad lines of all runs, with file and number", function()
      assert.is_true(#expected.bad_lines > 0)
      local run = run_of(log, nil, "5ms")
      local size = assert(io.open(log)):seek("end")
      main_job.visits(run, 2, function(process) if process.read > size / 2 then process.kill() end end)
      local result = succeeded(main_job.visits(run, 3))
      assert.matches(("; %d lines did not parse"):format(#expected.bad_lines), result.stdout, 1, true)
      local numbers = {}
      for i, line in ipairs(main_job.committed(run.out .. "/bad")) do
        assert.matches('"file":"' .. log .. '"', line, 1, true)
        numbers[i] = tonumber(line:match('"line":(%d+)'))
      end
      table.sort(numbers)
      assert.same(expected.bad_lines, numbers)
      assert.is_nil(main_job.wrong(run, expected))
    end)

    it("ends at once where it is complete", function()
      local run = run_of(log)
      succeeded(main_job.visits(run, 2))
      local result = succeeded(main_job.visits(run, 4))
      assert.matches("the job is complete", result.stderr, 1, true)
      assert.is_nil(main_job.wrong(run, expected))
    end)
  end)
end)

describe("examples/make_log.lua", function()
  it("makes the same log for the same seed, and another for another", function()
    local dir = folder.new()
    finally(function() dir:remove() end)
    for name, seed in pairs { a = "1", b = "1", c = "2" } do
      succeeded(main_job.script("make_log.lua", { dir:at(name), "2000", seed }))
    end
    assert.equals(dir:read("a"), dir:read("b"))
    assert.not_equals(dir:read("a"), dir:read("c"))
  end)

  it("is out of order by less than a minute, and has lines that do not parse", function()
    local dir = folder.new()
    finally(function() dir:remove() end)
    local log = dir:at("log")
    succeeded(main_job.script("make_log.lua", { log, "20000", "3" }))
    local latest, behind, worst = 0, 0, 0
    for line in io.lines(log) do
      local day, h, m, s = line:match("%[(%d+)/Jan/2026:(%d+):(%d+):(%d+) %+0000%]")
      if day then
        local at = ((day * 24 + h) * 60 + m) * 60 + s
        latest = math.max(latest, at)
        if at < latest then behind, worst = behind + 1, math.max(worst, latest - at) end
      end
    end
    assert.is_true(behind > 500)
    assert.is_true(worst > 30 and worst < 60)
    local expected = main_job.expected(log)
    assert.is_true(#expected.bad_lines > 0 and #expected.bad_lines < 40)
    assert.equals(20000, expected.hits + #expected.bad_lines)
    -- Visits of more than one hit, clients that come again.
    assert.is_true(#expected.visits < expected.hits / 2 and expected.clients < #expected.visits)
  end)
end)
