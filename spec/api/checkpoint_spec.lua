-- Checkpoints as a script asks for them and finds them on disk.
local probe = require "streamckpt.probe"
local sc = require "streamckpt"
local trial = require "support.trial"

-- Everything below the job's folder that belongs to checkpoints, relative to it.
local function files_on_disk(dir)
  local files, folder = {}, trial.job_folder(dir)
  local listing <close> = assert(io.popen("find " .. trial.quote(folder) .. " -mindepth 2 -type f -printf '%P\\n'"))
  for name in listing:lines() do files[#files + 1] = name end
  table.sort(files)
  return files
end

-- What the retained checkpoints list, and their _metadata.
local function files_listed(dir)
  local seen, files = {}, {}
  local function add(name)
    if not seen[name] then seen[name], files[#files + 1] = true, name end
  end
  for _, id in ipairs((trial.checkpoints(dir))) do
    local path = ("chk-%d/_metadata"):format(id)
    add(path)
    local metadata = assert(probe.metadata_decode(trial.read(trial.job_folder(dir) .. "/" .. path)))
    for _, op in ipairs(metadata.operators) do
      for _, subtask in ipairs(op.subtasks) do
        for _, handle in ipairs(subtask.handles) do
          if handle.file then add((subtask.directory or "chk-" .. id) .. "/" .. handle.file) end
        end
      end
    end
  end
  table.sort(files)
  return files
end

local function audit(dir)
  assert.same(files_listed(dir), files_on_disk(dir))
end

describe("checkpoints on request", function()
  local dir
  before_each(function() dir = trial.folder() end)
  after_each(trial.clean)

  it("give their ids, grow, and stand in statistics, status and log", function()
    local job = assert(trial.start(dir))
    trial.held(job)
    for id = 1, 3 do
      assert.equal(id, job:checkpoint())
      assert.equal(id, job:status().last_checkpoint)
      assert.equal(trial.chk(dir, id), job:status().last_checkpoint_path)
    end
    -- The oldest one is deleted after the answer.
    trial.wait_for(job, function() return #trial.checkpoints(dir) == 2 end)
    assert.same({ 2, 3 }, (trial.checkpoints(dir)))
    local counts = job:checkpoints().counts
    assert.equal(3, counts.completed)
    assert.equal(0, counts.failed)
    assert.equal(0, counts.in_progress)
    trial.go(dir)
    assert(trial.wait(job))
    audit(dir)
    for id = 1, 4 do assert.matches(("chk %d%%]: completed in %%d+ ms"):format(id), trial.log(dir)) end
  end)

  it("after the end say that the job has ended", function()
    trial.go(dir)
    local job = assert(trial.start(dir))
    assert(trial.wait(job))
    local id, message, code = job:checkpoint()
    assert.is_nil(id)
    assert.equal("EDECLINED", code)
    assert.matches("finished", message)
  end)

  it("without a folder say so", function()
    local env = sc.env { log = { level = "off" } }
    env:from_generator { fn = function(i) return i end, rate = 100 }:to(function() end)
    local job = assert(env:start())
    local id, message, code = job:checkpoint()
    assert.is_nil(id)
    assert.equal("EUNSUPPORTED", code)
    assert.matches("set checkpoint.dir", message)
    trial.cancel(job)
  end)

  for _, state in ipairs { "running", "restarting" } do
    it(("pending at a cancel of a job that is %s are answered"):format(state), function()
      local trouble = function(value) if value.i > 100 then error("trouble") end end
      local job = assert(trial.start(dir, { trouble = trouble }, trial.options(dir, {
        restart = { strategy = "fixed_delay", delay = "1h" } })))
      trial.held(job)
      assert(job:checkpoint())
      if state == "restarting" then trial.go(dir) end
      trial.wait_for(job, function() return job:status().state == state end)
      job:cancel()
      local id, message, code = job:checkpoint()
      assert.is_nil(id)
      assert.is_true(code == "EDECLINED" or code == "ESTALE", message)
      assert.equal("canceled", assert(trial.wait(job)).state)
    end)
  end
end)

describe("retained checkpoints", function()
  local dir
  before_each(function() dir = trial.folder() end)
  after_each(trial.clean)

  for _, retain in ipairs { 1, 3 } do
    it(("are exactly %d, with exactly their files"):format(retain), function()
      local job = assert(trial.start(dir, nil, trial.options(dir, nil, { retain = retain })))
      trial.held(job)
      for _ = 1, 8 do assert(job:checkpoint()) end
      trial.go(dir)
      assert(trial.wait(job))
      local ids, all = trial.checkpoints(dir)
      assert.equal(retain, #ids)
      assert.same(ids, all)
      audit(dir)
    end)
  end

  -- A kill between the end of the last checkpoint and the deletion of the oldest leaves one too many;
  -- so does a start that wants to keep fewer.
  it("are no more than wanted after a start of a job that was complete", function()
    local job = assert(trial.start(dir, nil, trial.options(dir, nil, { retain = 3 })))
    trial.held(job)
    for _ = 1, 3 do assert(job:checkpoint()) end
    trial.go(dir)
    assert(trial.wait(job))
    local before = trial.checkpoints(dir)
    assert.equal(3, #before)
    job = assert(trial.start(dir, nil, trial.options(dir, nil, { retain = 1 }), { from = "latest" }))
    assert.is_true(assert(trial.wait(job)).was_complete)
    assert.same({ before[3] }, (trial.checkpoints(dir)))
    audit(dir)
  end)

  it("327. leave no file behind through failures, restarts and what expires on the way", function()
    local options = trial.options(dir, nil, { interval = 1, timeout = 300, max_concurrent = 2, retain = 2 })
    local job = assert(trial.start(dir, { trouble = function(value, folder)
      if value.i % 20 ~= 0 then return end
      local flag = ("%s/failed-%d"):format(folder, value.i)
      local file = io.open(flag)
      if file then file:close() return end
      -- Not before there is something to go back to.
      local log = io.open(folder .. "/ckpt/trial/log")
      local text = log and log:read("a") or ""
      if log then log:close() end
      if text:find("completed in") then
        io.open(flag, "w"):close()
        error("trouble")
      end
    end }, options))
    trial.wait_for(job, function()
      local counts = job:checkpoints().counts
      return counts.completed + counts.failed >= 60 and counts.completed > 0
    end)
    trial.go(dir)
    trial.wait_for(job, function() return job:metrics("tap").numRecordsIn > 0 end)
    local status = assert(trial.wait(job))
    assert.equal("finished", status.state)
    assert.same(trial.expected(), (trial.lines(dir .. "/out")))
    local ids, all = trial.checkpoints(dir)
    assert.equal(2, #ids)
    assert.same(ids, all)
    audit(dir)
    assert.same({}, trial.names(dir .. "/out", "inprogress$"))
  end)

  local ends = {
    finished = function(job, place) trial.go(place) return trial.wait(job) end,
    canceled = function(job) return trial.cancel(job) end,
    failed = function(job, place)
      trial.write(place .. "/fail")
      trial.go(place)
      return nil, trial.wait(job)
    end,
  }
  local kept = {
    retain_on_cancellation = { finished = true, canceled = true, failed = true },
    delete_on_cancellation = { finished = true, canceled = false, failed = true },
    no_externalized = { finished = false, canceled = false, failed = false },
  }
  for variant, expected in pairs(kept) do
    for how, finish in pairs(ends) do
      local what = expected[how] and "stay" or "go"
      it(("177. shutdown by job state: with %s %s when the job is %s"):format(variant, what, how), function()
        local options = trial.options(dir, { restart = { strategy = "none" } }, { externalized = variant })
        local job = assert(trial.start(dir, { trouble = function(value, folder)
          if value.i == 150 and io.open(folder .. "/fail") then error("trouble") end
        end }, options))
        trial.held(job)
        assert(job:checkpoint())
        assert(job:checkpoint())
        finish(job, dir)
        assert.equal(how, job:status().state)
        local ids, all = trial.checkpoints(dir)
        assert.equal(expected[how], #ids > 0)
        assert.same(ids, all)
        audit(dir)
        if how == "failed" then
          assert.matches(expected[how] and "continue with env:execute" or "its checkpoints are deleted", trial.log(dir))
        end
      end)
    end
  end
end)

describe("a checkpoint that fails", function()
  local dir
  before_each(function() dir = trial.folder() end)
  after_each(trial.clean)

  -- An operator that is stuck in a call, once: it reads from a pipe that nobody has written to.
  local function stuck(value, folder)
    if value.i ~= 100 or value.split ~= 101 or io.open(folder .. "/stuck") then return end
    io.open(folder .. "/stuck", "w"):close()
    local pipe = io.open(folder .. "/pipe")
    pipe:read("a")
    pipe:close()
  end

  it("expires where an operator is blocked; the job goes on, and so do checkpoints", function()
    trial.shell("mkfifo", dir .. "/pipe")
    local options = trial.options(dir, { slots = 1 }, { timeout = 100 })
    local job = assert(trial.start(dir, { trouble = stuck }, options))
    trial.held(job)
    local first
    repeat first = job:checkpoint() until first -- a loaded machine may need longer than that timeout
    trial.go(dir)
    -- In the one slot nothing else moves once the tap is stuck, so the count stands still.
    trial.wait_for(job, function() return trial.exists(dir .. "/stuck") end)
    local id, message, code
    repeat id, message, code = job:checkpoint() until not id
    assert.equal("ETIMEOUT", code)
    assert.matches("expired before all tasks acknowledged it, task .- %d/%d: it had not acknowledged "
      .. "%(%d of %d+ tasks had%)", message)
    assert.equal("running", job:status().state)
    trial.shell("timeout 60 sh -c 'echo > \"$0\"'", dir .. "/pipe")
    local status = assert(trial.wait(job))
    assert.equal(0, status.restarts)
    assert.is_true(status.last_checkpoint > first)
    assert.same(trial.expected(), (trial.lines(dir .. "/out")))
    assert.matches("WARN  [^\n]*aborted: the checkpoint expired[^\n]*1 failed in a row; last good checkpoint: [%d.]+ s ago",
      trial.log(dir))
    audit(dir)
  end)

  it("is declined by an asynchronous failure, with the cause; then the attempt fails, and all is written anew", function()
    local env = sc.env(trial.options(dir, { parallelism = 1 }))
    local sizes, gates = { 1, 70000, 70000, 5 }, { dir .. "/gate1", dir .. "/gate2" }
    env:source { uid = "source", splits = function() return { 1 } end, read = function(ctx, _, at)
      at = (at or 0) + 1
      if at > #sizes then return nil end
      local gate = at == 1 and gates[1] or at == 4 and gates[2]
      local file = not gate or io.open(gate)
      if not file then return at - 1, 2 end
      if gate then file:close() end
      ctx:emit(("x"):rep(sizes[at]))
      return at
    end }:to_file(dir .. "/out", { format = "lines" }):uid("sink")
    local job = assert(env:start())
    local function parts(folder, kind) return #trial.names(folder, kind .. "$") end
    trial.wait_for(job, function() return job:status().state == "running" end)
    assert(job:checkpoint()) -- of nothing: it promises no part of the folder that will be gone
    trial.write(gates[1])
    -- More than what a sink gathers before it writes: the part is begun, and its file open.
    trial.wait_for(job, function() return parts(dir .. "/out", "%.inprogress") == 1 end)
    trial.wait_for(job, function() return job:metrics("sink").numRecordsIn == 3 end)
    trial.shell("mv", dir .. "/out", dir .. "/away")
    local id, message, code = job:checkpoint()
    assert.is_nil(id)
    assert.equal("EDECLINED", code)
    assert.matches("could not be made durable", message)
    assert.matches("sink", message)
    assert.equal(0, job:status().restarts)
    assert.is_nil((job:checkpoint()), "a part that could not be made durable is not forgotten")
    trial.wait_for(job, function() return job:status().restarts == 1 end)
    trial.write(gates[2])
    assert(trial.wait(job))
    local written = {}
    for _, folder in ipairs { "/away", "/out" } do
      for _, name in ipairs(trial.names(dir .. folder, "^[^.].*%.txt$")) do
        for line in io.lines(dir .. folder .. "/" .. name) do written[#written + 1] = #line end
      end
    end
    table.sort(written)
    assert.same({ 1, 5, 70000, 70000 }, written)
    audit(dir)
  end)

  it("for want of its folder is a warning; later ones succeed once it is back", function()
    local job = assert(trial.start(dir))
    trial.held(job)
    local first = assert(job:checkpoint())
    trial.shell("mv", dir .. "/ckpt", dir .. "/away")
    local id, message, code = job:checkpoint()
    assert.is_nil(id)
    assert.equal("EIO", code)
    assert.matches("folder", message)
    assert.is_false(trial.exists(dir .. "/ckpt"), "nothing is put in its place")
    assert.equal("running", job:status().state)
    assert.equal(1, job:checkpoints().counts.failed)
    trial.shell("mv", dir .. "/away", dir .. "/ckpt")
    id = assert(job:checkpoint())
    assert.is_true(id > first)
    trial.go(dir)
    assert(trial.wait(job))
    assert.same(trial.expected(), (trial.lines(dir .. "/out")))
    assert.matches("cannot make the checkpoint's folder: the job's folder [^\n]+ is gone", trial.log(dir))
    audit(dir)
  end)

  it("more often than tolerable_failures allows fails the job", function()
    local options = trial.options(dir, { restart = { strategy = "none" } }, { tolerable_failures = 1 })
    local job = assert(trial.start(dir, nil, options))
    trial.held(job)
    trial.shell("mv", dir .. "/ckpt", dir .. "/away")
    assert.is_nil((job:checkpoint()))
    assert.equal("running", job:status().state)
    assert.is_nil((job:checkpoint()))
    local status, message, code = trial.wait(job)
    assert.is_nil(status)
    assert.equal("EFAILED", code)
    assert.matches("tolerable_failures %(1%)", message)
  end)
end)

describe("a sink's part", function()
  after_each(trial.clean)

  it("291. that cannot be committed for good, since it is gone, fails the job, naming the file", function()
    local dir = trial.folder()
    local job = assert(trial.start(dir, nil, trial.options(dir, { parallelism = 1 })))
    trial.held(job)
    local id = assert(job:checkpoint())
    trial.cancel(job)
    -- Whether it was committed before the cancel or not: it is there under neither name.
    trial.shell("mv", dir .. "/out", dir .. "/away")
    local options = trial.options(dir, { parallelism = 1, restart = { strategy = "fixed_delay", attempts = 1, delay = 1 } })
    job = assert(trial.start(dir, nil, options, { from = "latest" }))
    local status, message, code = trial.wait(job)
    assert.is_nil(status)
    assert.equal("ESTATE", code)
    assert.matches(("data was lost: .*%%.trial%%.sink%%.%010d%%.0%%.pending"):format(id), message)
    assert.equal(0, job:status().restarts) -- no attempt can get over it
    trial.shell("rm -rf", dir .. "/out")
    trial.shell("mv", dir .. "/away", dir .. "/out")
    trial.go(dir)
    assert(trial.wait(assert(trial.start(dir, nil, options, { from = "latest" }))))
    assert.same(trial.expected(), (trial.lines(dir .. "/out")))
  end)
end)

describe("the log of a job", function()
  after_each(trial.clean)

  it("has a line for each event, with time, level, job, attempt, checkpoint and task", function()
    local dir = trial.folder()
    local job = assert(trial.start(dir, { trouble = function(value, folder)
      if value.i ~= 150 then return end
      local file = io.open(folder .. "/failed")
      if file then file:close() return end
      io.open(folder .. "/failed", "w"):close()
      error("trouble")
    end }))
    trial.held(job)
    assert(job:checkpoint())
    trial.go(dir)
    assert(trial.wait(job))
    local log = trial.log(dir)
    local time = "%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%dZ"
    for _, event in ipairs {
      "INFO  %[trial #1 chk 1%]: triggered", "INFO  %[trial #1 chk 1%]: completed in %d+ ms",
      "WARN  %[trial #1%][^\n]*tap[^\n]*trouble", "WARN  %[trial #2 chk 1%]: recovered in %d+ ms",
      "INFO  %[trial #2%]: finished",
    } do
      assert.matches("\n" .. time .. " " .. event, "\n" .. log)
    end
  end)
end)
