-- Damaged and missing files of checkpoints, as a start and a restart meet them.
local trial = require "support.trial"

-- A job that was canceled where its sources hold, with `n` checkpoints: their ids. Whether a sink has
-- committed what belongs to the newest one is what decides about going back, so it is made certain:
-- nothing was written since the one before, or everything is committed.
local function canceled(dir, n)
  local job = assert(trial.start(dir, nil, trial.options(dir, nil, { retain = n })))
  trial.held(job)
  local ids = {}
  for i = 1, n do ids[i] = assert(job:checkpoint()) end
  trial.wait_for(job, function() return #trial.names(dir .. "/out", "%.pending$") == 0 end)
  trial.cancel(job)
  return ids
end

local function state_file(dir, id)
  local name = trial.names(trial.chk(dir, id), "%.keys$")[1]
  return trial.chk(dir, id) .. "/" .. assert(name)
end

local damages = {
  ["a flipped byte in _metadata"] = function(chk) trial.flip(chk .. "/_metadata", 40) end,
  ["a truncated _metadata"] = function(chk)
    trial.write(chk .. "/_metadata", trial.read(chk .. "/_metadata"):sub(1, -20))
  end,
  ["an empty _metadata"] = function(chk) trial.write(chk .. "/_metadata", "") end,
  ["a missing state file"] = function(_, file) os.remove(file) end,
  ["a short state file"] = function(_, file) trial.write(file, trial.read(file):sub(1, -2)) end,
  ["a flipped byte in a state file"] = function(_, file) trial.flip(file, -30) end,
}

describe("a damaged newest checkpoint", function()
  local dir
  before_each(function() dir = trial.folder() end)
  after_each(trial.clean)

  for name, damage in pairs(damages) do
    it("with " .. name .. " gives way to an older one where nothing newer was committed", function()
      local ids = canceled(dir, 2) -- the second one had nothing to commit
      damage(trial.chk(dir, ids[2]), state_file(dir, ids[2]))
      trial.go(dir)
      local job = assert(trial.start(dir, nil, nil, { from = "latest" }))
      local status = assert(trial.wait(job))
      assert.equal("finished", status.state)
      assert.same(trial.expected(), (trial.lines(dir .. "/out")))
      local log = trial.log(dir)
      assert.matches(("chk %d%%]: is damaged: "):format(ids[2]), log)
      assert.matches(("chk %d%%]: is taken instead of the damaged checkpoint %d"):format(ids[1], ids[2]), log)
    end)
  end

  -- A checkpoint before anything was written, one after, whose part is committed.
  local function committed(place)
    local job = assert(trial.start(place, nil, trial.options(place, nil, { retain = 3 })))
    trial.held(job)
    local first = assert(job:checkpoint())
    trial.go(place)
    local status = assert(trial.wait(job))
    assert.is_true(status.last_checkpoint > first)
    return first, status.last_checkpoint
  end

  for name, damage in pairs(damages) do
    it("with " .. name .. " is refused where a sink has committed it, naming both ids", function()
      local older, newest = committed(dir)
      damage(trial.chk(dir, newest), state_file(dir, newest))
      local job, message, code = trial.start(dir, nil, nil, { from = "latest" })
      if job then -- found only when it is read
        local status
        status, message, code = trial.wait(job)
        assert.is_nil(status)
        assert.equal(0, job:status().restarts, "a damaged file does not mend by restarts")
      end
      assert.equal("ECORRUPT", code)
      assert.matches("checkpoint " .. newest .. ", the newest, is damaged", message)
      assert.matches("checkpoint " .. older .. " would emit again", message)
      assert.matches('fallback = "older"', message)
      assert.same(trial.expected(), (trial.lines(dir .. "/out")), "nothing was emitted")
    end)

    it("with " .. name .. " gives way to an older one where told so, which says what comes again", function()
      local older, newest = committed(dir)
      damage(trial.chk(dir, newest), state_file(dir, newest))
      local job = assert(trial.start(dir, nil, nil, { from = "latest", fallback = "older" }))
      local status = assert(trial.wait(job))
      assert.equal("finished", status.state)
      assert.matches(("chk %d%%]: a sink has committed checkpoint %d: what was committed since will be emitted again")
        :format(older, newest), trial.log(dir))
      local expected = {}
      for _, line in ipairs(trial.expected()) do expected[line] = 1 end
      local twice = 0
      for _, line in ipairs((trial.lines(dir .. "/out"))) do
        expected[line] = expected[line] - 1
        if expected[line] < 0 then twice = twice + 1 end
      end
      for line, left in pairs(expected) do assert.is_true(left <= 0, line .. " was lost") end
      assert.is_true(twice > 0)
    end)
  end

  it("is refused by its path, whatever else there is", function()
    local ids = canceled(dir, 2)
    for _, name in ipairs { "a truncated _metadata", "a missing state file" } do
      damages[name](trial.chk(dir, ids[2]), state_file(dir, ids[2]))
      local job, message = trial.start(dir, nil, nil, { from = trial.chk(dir, ids[2]) })
      assert.is_nil(job)
      assert.matches("chk%-" .. ids[2], message)
    end
  end)

  it("whose damage only reading finds fails a start from its path, in one attempt", function()
    local ids = canceled(dir, 1)
    local file = state_file(dir, ids[1])
    trial.flip(file, -30)
    local job = assert(trial.start(dir, nil, trial.options(dir, { id = "other" }), { from = trial.chk(dir, ids[1]) }))
    local status, message, code = trial.wait(job)
    assert.is_nil(status)
    assert.equal("ECORRUPT", code)
    assert.matches(file, message, 1, true)
    assert.equal(0, job:status().restarts)
  end)
end)

describe("every byte of a state file", function()
  after_each(trial.clean)

  it("323. is covered: no flip goes unseen", function()
    local dir = trial.folder()
    local id = canceled(dir, 1)[1]
    local file = state_file(dir, id)
    local whole = trial.read(file)
    math.randomseed(323)
    for _ = 1, 25 do
      local at = math.random(#whole) - 1
      trial.flip(file, at)
      local job, message = trial.start(dir, nil, nil, { from = "latest" })
      if job then
        local status
        status, message = trial.wait(job)
        assert.is_nil(status, "a flip at byte " .. at .. " was not seen")
      end
      assert.matches("damaged", message)
      trial.write(file, whole)
    end
    trial.go(dir)
    assert(trial.wait(assert(trial.start(dir, nil, nil, { from = "latest" }))))
    assert.same(trial.expected(), (trial.lines(dir .. "/out")))
  end)
end)

describe("a path to a checkpoint older than what a sink has committed", function()
  after_each(trial.clean)

  -- A job that runs to its end: a checkpoint in its middle, and its last one.
  local function finish(dir)
    local job = assert(trial.start(dir, nil, trial.options(dir, nil, { retain = 3 })))
    trial.held(job)
    local first = assert(job:checkpoint())
    trial.go(dir)
    return first, assert(trial.wait(job)).last_checkpoint
  end

  it("is refused with both ids, and taken where told so", function()
    local dir = trial.folder()
    local first, last = finish(dir)
    local from = trial.chk(dir, first)
    local refused, message, code = trial.start(dir, nil, nil, { from = from })
    assert.is_nil(refused)
    assert.equal("EEXIST", code)
    assert.matches(("committed checkpoint %d; going back to checkpoint %d would emit again"):format(last, first), message)
    local job = assert(trial.start(dir, nil, nil, { from = from, fallback = "older" }))
    assert.equal("finished", assert(trial.wait(job)).state)
    assert.is_true(#trial.lines(dir .. "/out") > #trial.expected())
  end)

  -- As if the process had died between a checkpoint and the commits that follow it.
  local function uncommit(dir, id)
    local parts = trial.names(dir .. "/out", ("^[^.].*%%.%010d%%.%%d+%%.json$"):format(id))
    assert.is_true(#parts > 0)
    for _, name in ipairs(parts) do
      assert(os.rename(dir .. "/out/" .. name, dir .. "/out/." .. name:gsub("json$", "pending")))
    end
  end

  it("leaves the newer one whole where its output waits: a later start may take that after all", function()
    local dir = trial.folder()
    local first, last = finish(dir)
    uncommit(dir, last)
    assert.is_true(#trial.lines(dir .. "/out") < #trial.expected())
    os.remove(dir .. "/go")
    -- nothing newer is committed, so it may go back; but it comes to no checkpoint of its own
    trial.cancel(assert(trial.start(dir, nil, nil, { from = trial.chk(dir, first) })))
    local job = assert(trial.start(dir, nil, nil, { from = "latest" }))
    assert.equal("finished", assert(trial.wait(job)).state)
    assert.same(trial.expected(), (trial.lines(dir .. "/out")))
  end)
end)

describe("a restart in the process", function()
  local dir
  before_each(function() dir = trial.folder() end)
  after_each(trial.clean)

  -- The trouble waits for the file "fail", so that the spec can damage things before it.
  local function trouble(value, folder)
    if value.i ~= 150 then return end
    local file = io.open(folder .. "/failed")
    if file then file:close() return end
    io.open(folder .. "/failed", "w"):close()
    error("trouble")
  end

  for name, damage in pairs(damages) do
    it("takes an older checkpoint where the newest has " .. name .. " and nothing newer was committed", function()
      local job = assert(trial.start(dir, { trouble = trouble }))
      trial.held(job)
      local older, newest = assert(job:checkpoint()), assert(job:checkpoint())
      damage(trial.chk(dir, newest), state_file(dir, newest))
      trial.go(dir)
      local status = assert(trial.wait(job))
      assert.equal("finished", status.state)
      assert.same(trial.expected(), (trial.lines(dir .. "/out")))
      assert.matches(("chk %d%%]: is taken instead of the damaged checkpoint %d"):format(older, newest), trial.log(dir))
    end)
  end

  it("ends the job where there is no older one, and never begins anew", function()
    local job = assert(trial.start(dir, { trouble = trouble }, trial.options(dir, nil, { retain = 1 })))
    trial.held(job)
    local id = assert(job:checkpoint())
    trial.write(trial.chk(dir, id) .. "/_metadata", "")
    trial.go(dir)
    local status, message, code = trial.wait(job)
    assert.is_nil(status)
    assert.equal("ECORRUPT", code)
    assert.matches("no older valid one", message)
    assert.equal("failed", job:status().state)
  end)

  it("ends the job where its checkpoints are gone, and never begins anew", function()
    local job = assert(trial.start(dir, { trouble = trouble }, trial.options(dir, nil, { retain = 1 })))
    trial.held(job)
    local id = assert(job:checkpoint())
    trial.shell("rm -rf", trial.chk(dir, id))
    trial.go(dir)
    local status, message, code = trial.wait(job)
    assert.is_nil(status)
    assert.equal("ENOTFOUND", code)
    assert.matches("chk%-" .. id, message)
  end)
end)
