-- Jobs that are taken down at every moment of their lives, and what they leave behind: nothing.
local pipeline = require "support.pipeline"
local sc = require "streamckpt"
local trial = require "support.trial"

local function count(what)
  local n, listing <close> = 0, assert(io.popen("ls /proc/$PPID/" .. what .. " 2>/dev/null"))
  for _ in listing:lines() do n = n + 1 end
  return n
end

-- Threads of jobs end right after the job has said that it ended; nothing else makes or ends any.
local function settles(what, expected)
  local n
  for _ = 1, 2000 do
    n = count(what)
    if n <= expected then return true end
    os.execute("sleep 0.005")
  end
  return false, ("%d of %s, expected %d"):format(n, what, expected)
end

-- Fails at record 150 as long as there is no file "mended".
local function until_mended(value, dir)
  if value.i ~= 150 then return end
  local file = io.open(dir .. "/mended")
  if not file then error("trouble") end
  file:close()
end

describe("a job that is canceled", function()
  local dir
  before_each(function() dir = trial.folder() end)
  after_each(trial.clean)

  it("at any moment ends as canceled or finished, frees its folder, and can be gone on with", function()
    trial.go(dir)
    for round = 0, 40 do
      local job = assert(trial.start(dir, nil, trial.options(dir, { parallelism = round % 4 + 1, max_parallelism = 12 },
        { interval = 1, retain = 1 }), { from = "latest" }))
      for _ = 1, round * 20 do job:status() end
      job:cancel()
      local status = assert(trial.wait(job))
      assert.is_true(status.state == "canceled" or status.state == "finished")
    end
    -- On a slow machine no round has come to the end: this one goes on from where they were.
    local job = assert(trial.start(dir, nil, trial.options(dir, { max_parallelism = 12 }), { from = "latest" }))
    assert.equal("finished", assert(trial.wait(job)).state)
    assert.same(trial.expected(), (trial.lines(dir .. "/out")))
  end)

  it("while it waits for a restart ends at once", function()
    local options = trial.options(dir, { restart = { strategy = "fixed_delay", delay = "1h" } })
    local job = assert(trial.start(dir, { trouble = until_mended }, options))
    trial.held(job)
    assert(job:checkpoint())
    trial.go(dir)
    trial.wait_for(job, function() return job:status().state == "restarting" end)
    assert.equal("canceled", trial.cancel(job).state)
    trial.write(dir .. "/mended")
    job = assert(trial.start(dir, { trouble = until_mended }, nil, { from = "latest" }))
    assert(trial.wait(job))
    assert.same(trial.expected(), (trial.lines(dir .. "/out")))
  end)

  it("between failures and restarts that follow each other ends, too", function()
    for round = 1, 12 do
      local place = dir .. "/" .. round
      trial.shell("mkdir", place)
      local options = trial.options(place, { restart = { strategy = "fixed_delay", delay = 0, attempts = "unlimited" } })
      local job = assert(trial.start(place, { trouble = until_mended }, options))
      trial.held(job)
      assert(job:checkpoint())
      trial.go(place)
      trial.wait_for(job, function() return job:status().restarts >= round end)
      for _ = 1, round * 50 do job:status() end
      assert.equal("canceled", trial.cancel(job).state)
      assert.same({ 1 }, (trial.checkpoints(place)))
    end
  end)

  it("while it waits for its last checkpoint is canceled, and its next start finishes", function()
    -- Its folder is away, so no checkpoint completes and the tasks cannot leave.
    trial.go(dir)
    local job = assert(trial.start(dir))
    trial.shell("mv", dir .. "/ckpt", dir .. "/away")
    trial.wait_for(job, function()
      return job:checkpoints().counts.completed > 0 -- it was faster
        or (trial.read(dir .. "/away/trial/log") or ""):find("WARN  [^\n]*cannot [rm]")
    end)
    local was = trial.cancel(job).state
    trial.shell("rm -rf", dir .. "/ckpt")
    trial.shell("mv", dir .. "/away", dir .. "/ckpt")
    assert.is_true(was == "canceled" or was == "finished")
    job = assert(trial.start(dir, nil, nil, { from = "latest" }))
    assert.equal("finished", assert(trial.wait(job)).state)
    assert.same(trial.expected(), (trial.lines(dir .. "/out")))
  end)
end)

describe("a process", function()
  after_each(trial.clean)

  it("has no more threads and descriptors after twenty jobs that finish, fail, or are canceled", function()
    local dir = trial.folder()
    local function rounds(from, to)
      for round = from, to do
        local place = dir .. "/" .. round
        trial.shell("mkdir", place)
        local options = trial.options(place, { restart = { strategy = "none" }, parallelism = 3 })
        local job = assert(trial.start(place, round % 4 == 0 and { trouble = until_mended } or nil, options))
        if round % 2 == 0 then
          trial.go(place)
          trial.wait(job)
        else
          trial.held(job)
          assert(job:checkpoint())
          trial.cancel(job)
        end
      end
    end
    rounds(1, 4) -- the engine's own threads are there from now on
    collectgarbage()
    collectgarbage()
    local threads, descriptors = count("task"), count("fd")
    rounds(5, 24)
    collectgarbage()
    collectgarbage()
    assert(settles("task", threads))
    assert(settles("fd", descriptors))
  end)

  it("refused starts leave no thread, descriptor or lock", function()
    local dir = trial.folder()
    local function refuse()
      local job = trial.start(dir, nil, nil, { from = dir .. "/nothing" })
      assert.is_nil(job)
    end
    refuse()
    collectgarbage()
    collectgarbage()
    local threads, descriptors = count("task"), count("fd")
    for _ = 1, 20 do refuse() end
    collectgarbage()
    collectgarbage()
    assert(settles("task", threads))
    assert(settles("fd", descriptors))
  end)

  -- What a script does with a running job whose sources hold, and how it leaves.
  local function leaving(how)
    local dir = trial.folder()
    local out, err, code = pipeline.script([[
      local trial = require "support.trial"
      local dir = "]] .. dir .. [["
      local job = assert(trial.start(dir))
      trial.held(job)
      assert(job:checkpoint())
    ]] .. how, dir)
    return dir, out, err, code
  end

  for name, how in pairs {
    ["by the end of its script"] = "",
    ["by os.exit"] = "os.exit(0)",
    ["by os.exit that closes the state"] = "os.exit(0, true)",
    ["right after it asked for more"] = "job:cancel() job:wait() trial.start(dir, nil, nil, { from = 'latest' })",
  } do
    it("leaves cleanly " .. name .. ", and its job can be gone on with", function()
      local dir, _, err, code = leaving(how)
      assert.equal("", err)
      assert.equal(0, code)
      trial.go(dir)
      assert(trial.wait(assert(trial.start(dir, nil, nil, { from = "latest" }))))
      assert.same(trial.expected(), (trial.lines(dir .. "/out")))
    end)
  end

  it("leaves with the error of its script, and its job can be gone on with", function()
    local dir, _, err, code = leaving("error('in the script')")
    assert.equal(1, code)
    assert.matches("in the script", err)
    trial.go(dir)
    assert(trial.wait(assert(trial.start(dir, nil, nil, { from = "latest" }))))
    assert.same(trial.expected(), (trial.lines(dir .. "/out")))
  end)
end)

describe("tasks that have left", function()
  local dir
  before_each(function() dir = trial.folder() end)
  after_each(trial.clean)

  -- A short source whose tasks leave early, and a long one that holds and then fails once.
  local function start(options, trouble, from)
    local env = sc.env(options)
    local go, failed = dir .. "/go", dir .. "/failed"
    local long = env:source { uid = "long", splits = function() return { 1, 2, 3 } end,
      read = function(ctx, split, at)
        at = (at or 0) + 1
        if at > 100 then return nil end
        if at > 50 then
          local file = io.open(go)
          if not file then return at - 1, 2 end
          file:close()
        end
        if trouble and at == 80 and not io.open(failed) then
          io.open(failed, "w"):close()
          error("trouble")
        end
        ctx:emit { k = split, i = at }
        return at
      end }
    local short = env:from_values { { k = 1, i = -1 }, { k = 2, i = -2 }, { k = 7, i = -3 } }:uid("short")
      :map(function(v) return v end):uid("alone"):parallelism(1)
    long:union(short):key_by("k"):process { uid = "count", state = { n = sc.value() },
      on_element = function(ctx)
        local n = (ctx.state.n:get() or 0) + 1
        ctx.state.n:set(n)
        ctx:emit { k = ctx.key, n = n }
      end }:to_file(dir .. "/out"):uid("out")
    return assert(env:start { from = from })
  end

  local function expected()
    local lines = {}
    for k, n in pairs { [1] = 101, [2] = 101, [3] = 100, [7] = 1 } do
      for i = 1, n do lines[#lines + 1] = ('{"k":%d,"n":%d}'):format(k, i) end
    end
    table.sort(lines)
    return lines
  end

  -- The short source has left once a checkpoint completed after its end: the next one lists it so.
  local function left(job)
    trial.wait_for(job, function()
      local counted = job:metrics("count")
      return counted and counted.numRecordsIn == 153
    end)
    for _ = 1, 4 do assert(job:checkpoint()) end
  end

  it("are not waited for, and a restart gives the same output", function()
    local job = start(trial.options(dir), true)
    left(job)
    trial.go(dir)
    local status = assert(trial.wait(job))
    assert.equal(1, status.restarts)
    assert.same(expected(), (trial.lines(dir .. "/out")))
  end)

  it("are restored at other parallelisms", function()
    for _, widths in ipairs { { 1, 3 }, { 3, 1 }, { 2, 4 } } do
      dir = trial.folder()
      local job = start(trial.options(dir, { parallelism = widths[1], max_parallelism = 16 }))
      left(job)
      trial.cancel(job)
      trial.go(dir)
      job = start(trial.options(dir, { parallelism = widths[2], max_parallelism = 16 }), false, "latest")
      assert(trial.wait(job))
      assert.same(expected(), (trial.lines(dir .. "/out")))
    end
  end)
end)
