-- Failure and recovery as a script sees it: real threads, real files.
local trial = require "support.trial"

-- Fails where the flag file is absent, which it then makes: once in the life of a folder. What a
-- function closes over is copied, so the rules stand in each function's own upvalues.
local function once(at, name)
  return function(value, dir)
    if value.i ~= at then return end
    local flag = dir .. "/" .. (name or "failed")
    local seen = io.open(flag)
    if seen then seen:close() return end
    io.open(flag, "w"):close()
    error("trouble at record " .. at)
  end
end

local function always(at)
  return function(value) if value.i == at then error("trouble at record " .. at) end end
end

describe("recovery", function()
  local dir
  before_each(function() dir = trial.folder() end)
  after_each(trial.clean)

  for _, parallelism in ipairs { 1, 2, 3, 5 } do
    it("in the process gives the output of a run without failure, at parallelism " .. parallelism, function()
      local options = trial.options(dir, { parallelism = parallelism })
      local job = assert(trial.start(dir, { trouble = once(150) }, options))
      trial.held(job)
      local id = assert(job:checkpoint())
      trial.go(dir)
      local status = assert(trial.wait(job))
      assert.equal("finished", status.state)
      assert.equal(1, status.restarts)
      assert.same(trial.expected(), (trial.lines(dir .. "/out")))
      assert.matches(("recovered in %%d+ ms from [^\n]*chk%%-%d"):format(id), trial.log(dir))
    end)
  end

  it("goes on from the newest of several checkpoints, through several failures", function()
    local troubles = { once(91, "a"), once(120, "b"), once(200, "c") }
    local job = assert(trial.start(dir, { trouble = function(value, folder)
      for _, trouble in ipairs(troubles) do trouble(value, folder) end
    end }, trial.options(dir, nil, { retain = 1 })))
    trial.held(job)
    assert(job:checkpoint())
    assert(job:checkpoint())
    trial.go(dir)
    local status = assert(trial.wait(job))
    -- Two tasks may fail in one attempt, or one after the other: at least one restart for each flag is
    -- not promised, but no more than one.
    assert.is_true(status.restarts >= 1 and status.restarts <= 3)
    assert.same(trial.expected(), (trial.lines(dir .. "/out")))
  end)

  it("stops after the attempts that are allowed, with the cause", function()
    local options = trial.options(dir, { restart = { strategy = "fixed_delay", delay = 1, attempts = 2 } })
    local job = assert(trial.start(dir, { trouble = always(150) }, options))
    trial.held(job)
    local id = assert(job:checkpoint())
    trial.go(dir)
    local status, message, code = trial.wait(job)
    assert.is_nil(status)
    assert.equal("EUSER", code)
    assert.matches("trouble at record 150", message)
    assert.matches("tap", message)
    assert.equal("failed", job:status().state)
    assert.equal(2, job:status().restarts)
    local log = trial.log(dir)
    assert.matches("failed: .*trouble at record 150", log)
    assert.matches(("last checkpoint: [^\n]*chk%%-%d; continue with [^\n]*from = \"latest\""):format(id), log)
  end)

  it("an error in user code before the first checkpoint ends the job, whatever the strategy", function()
    local job = assert(trial.start(dir, { trouble = once(5) }))
    local status, message, code = trial.wait(job)
    assert.is_nil(status)
    assert.equal("EUSER", code)
    assert.matches("recovery_spec.lua:%d+: trouble at record 5", message)
    assert.matches("stack traceback", message)
    assert.equal(0, job:status().restarts)
    assert.matches("no checkpoint had completed", trial.log(dir))
  end)

  it("an error in user code after a restore restarts, also before a checkpoint of its own", function()
    local job = assert(trial.start(dir))
    trial.held(job)
    assert(job:checkpoint())
    trial.cancel(job)
    trial.go(dir)
    job = assert(trial.start(dir, { trouble = once(150) }, nil, { from = "latest" }))
    local status = assert(trial.wait(job))
    assert.equal(1, status.restarts)
    assert.same(trial.expected(), (trial.lines(dir .. "/out")))
  end)
end)

describe("a start from \"latest\"", function()
  local dir
  before_each(function() dir = trial.folder() end)
  after_each(trial.clean)

  it("after success says so, ends at once, and commits nothing twice", function()
    trial.go(dir)
    assert(trial.wait(assert(trial.start(dir))))
    local lines, parts = trial.lines(dir .. "/out")
    assert.same(trial.expected(), lines)
    local ids = trial.checkpoints(dir)
    local job = assert(trial.start(dir, nil, nil, { from = "latest" }))
    local status = assert(trial.wait(job))
    assert.equal("finished", status.state)
    assert.is_true(status.was_complete)
    assert.matches("chk%-" .. ids[#ids] .. "$", status.restored_from)
    local again, parts_again = trial.lines(dir .. "/out")
    assert.same(lines, again)
    assert.equal(parts, parts_again)
    assert.same(ids, (trial.checkpoints(dir)))
    assert.matches("the job is complete: nothing is left to do. To run it anew, start without", trial.log(dir))
  end)

  it("without any checkpoint is a fresh start", function()
    trial.go(dir)
    local job = assert(trial.start(dir, nil, nil, { from = "latest" }))
    local status = assert(trial.wait(job))
    assert.is_nil(status.restored_from)
    assert.same(trial.expected(), (trial.lines(dir .. "/out")))
  end)

  it("after a cancel goes on, at any parallelism", function()
    for round, widths in ipairs { { 1, 4 }, { 4, 1 }, { 3, 2 } } do
      local place = dir .. "/" .. round
      trial.shell("mkdir", place)
      local options = trial.options(place, { parallelism = widths[1], max_parallelism = 12 })
      local job = assert(trial.start(place, nil, options))
      trial.held(job)
      local id = assert(job:checkpoint())
      assert.equal("canceled", trial.cancel(job).state)
      assert.same({ id }, (trial.checkpoints(place)))
      trial.go(place)
      options = trial.options(place, { parallelism = widths[2], max_parallelism = 12 })
      job = assert(trial.start(place, nil, options, { from = "latest" }))
      local status = assert(trial.wait(job))
      assert.equal(trial.chk(place, id), status.restored_from)
      assert.same(trial.expected(), (trial.lines(place .. "/out")))
      assert.equal(2, #trial.checkpoints(place), "it owns what it began from, so retain counts it")
    end
  end)

  it("after a failure goes on", function()
    local options = trial.options(dir, { restart = { strategy = "none" } })
    local job = assert(trial.start(dir, { trouble = once(150) }, options))
    trial.held(job)
    assert(job:checkpoint())
    trial.go(dir)
    local _, message = trial.wait(job)
    assert.matches("trouble", message)
    job = assert(trial.start(dir, nil, options, { from = "latest" }))
    assert(trial.wait(job))
    assert.same(trial.expected(), (trial.lines(dir .. "/out")))
  end)

  it("takes ids above all that were used or found", function()
    local job = assert(trial.start(dir))
    trial.held(job)
    local id = assert(job:checkpoint())
    trial.cancel(job)
    trial.shell("mkdir", trial.chk(dir, 5000))
    trial.write(trial.chk(dir, 5000) .. "/left-over.keys", "half")
    trial.go(dir)
    job = assert(trial.start(dir, nil, nil, { from = "latest" }))
    local status = assert(trial.wait(job))
    assert.equal(trial.chk(dir, id), status.restored_from, "a folder without _metadata is no checkpoint")
    assert.is_true(status.last_checkpoint > 5000)
    local _, all = trial.checkpoints(dir)
    assert.same({ id, status.last_checkpoint }, all, "and it is swept")
    assert.same(trial.expected(), (trial.lines(dir .. "/out")))
  end)
end)

describe("a start from a path", function()
  local dir
  before_each(function() dir = trial.folder() end)
  after_each(trial.clean)

  local function canceled_at_hold(options)
    local job = assert(trial.start(dir, nil, options))
    trial.held(job)
    local id = assert(job:checkpoint())
    trial.cancel(job)
    return id
  end

  it("restores from a folder or its _metadata, which may be called so, too", function()
    for _, tail in ipairs { "", "/", "/_metadata" } do
      dir = trial.folder()
      local path = trial.chk(dir, canceled_at_hold())
      trial.go(dir)
      local job = assert(trial.start(dir, nil, trial.options(dir, nil, { retain = 1 }), { from = path .. tail }))
      local status = assert(trial.wait(job))
      assert.equal(path, status.restored_from)
      assert.same(trial.expected(), (trial.lines(dir .. "/out")))
      assert.is_true(trial.exists(path .. "/_metadata"), "what was asked for by path stays the user's")
    end
  end)

  it("that is no snapshot is refused in one sentence", function()
    local job, message, code = trial.start(dir, nil, nil, { from = dir .. "/nowhere" })
    assert.is_nil(job)
    assert.equal("ENOTFOUND", code)
    assert.matches("nowhere", message)
    trial.write(dir .. "/_metadata", "")
    job, message, code = trial.start(dir, nil, nil, { from = dir })
    assert.is_nil(job)
    assert.equal("ECORRUPT", code)
    assert.matches("_metadata", message)
  end)

  it("with another max_parallelism is refused with both numbers", function()
    local path = trial.chk(dir, canceled_at_hold(trial.options(dir, { max_parallelism = 128 })))
    local job, message, code = trial.start(dir, nil, trial.options(dir, { max_parallelism = 64 }), { from = path })
    assert.is_nil(job)
    assert.equal("ESTATE", code)
    assert.matches("128", message)
    assert.matches("64", message)
  end)
end)
