-- Checkpoints that fail: what is said of them, what is counted, and that nothing of them comes late.
local p = require "support.pipeline"
local sc = require "streamckpt"

after_each(p.clean)

-- Values through a gate; the second operator reads from a pipe, where there is one, and stands still.
local function build(folder)
  return function(env)
    return p.gated(env, folder, { 1, 2, 3, 4, 5, 6 })
      :key_by(function() return "all" end)
      :process { uid = "stuck", state = { n = sc.value() }, on_element = function(ctx, v)
        local pipe <close> = io.open(folder .. "/pipe")
        if pipe then pipe:read("a") end
        ctx.state.n:set(v)
        ctx:emit(v)
      end }
  end
end

local function release(folder)
  assert(os.rename(folder .. "/pipe", folder .. "/gone")) -- who has it open keeps it
  os.execute("timeout 60 sh -c 'echo > " .. folder .. "/gone'")
end

describe("a checkpoint that fails", function()
  it("by expiry names a task that it waited for, and what is in the way", function()
    local folder = p.folder()
    local options = p.checkpointing(folder, { slots = 1 })
    options.checkpoint.timeout = 100
    local job = p.start(options, build(folder))
    assert(os.execute("mkfifo " .. folder .. "/pipe"))
    p.let(folder, 1)
    p.wait_for(job, function() return job:metrics("stuck").numRecordsIn == 1 end)
    local _, message, code = job:checkpoint()
    assert.equal("ETIMEOUT", code)
    -- The source stands first in line; it cannot move, since the slot is in the other's call.
    assert.matches("^ETIMEOUT: checkpoint %d+ was not taken: the checkpoint expired before all tasks acknowledged "
      .. "it, task gated.- 1/1: it had not acknowledged %(0 of %d tasks had%); its slot is busy with stuck[^;]* 1/1$",
      message)
    assert.matches("it had not acknowledged", job:checkpoints().latest.failed.reason, 1, true)
    release(folder)
    p.let(folder, "end")
    assert(p.wait(job))
  end)

  it("again and again behind a long block leaves no storm: the task takes at most one old snapshot", function()
    -- B-026. The reader goes on in its own slot, so the barriers of all that expire wait in the channel.
    local folder = p.folder()
    local options = p.checkpointing(folder, { parallelism = 2 })
    options.checkpoint.interval, options.checkpoint.timeout = 1, 5
    local job = p.start(options, build(folder))
    assert(os.execute("mkfifo " .. folder .. "/pipe"))
    p.let(folder, 2)
    p.wait_for(job, function() return job:metrics("stuck").numRecordsIn >= 1 end)
    p.wait_for(job, function() return job:checkpoints().counts.failed >= 60 end)
    local blocked
    for _, row in ipairs(job:metrics()) do
      if row.uid == "stuck" and row.numRecordsIn == 1 then blocked = row.subtask + 1 end
    end
    local failed = job:checkpoints().latest.failed.id
    release(folder)
    p.let(folder, "end")
    assert.equal("finished", assert(p.wait(job)).state)
    local old = 0
    for id, task in p.read(folder .. "/ckpt/spec/log"):gmatch("chk (%d+)%] stuck[^\n]- (%d)/2: came too late") do
      if tonumber(id) <= failed and tonumber(task) == blocked then old = old + 1 end
    end
    assert.is_true(old <= 1, old)
    assert.is_true(job:checkpoints().counts.completed >= 1)
  end)

  it("for want of an id counts, and is told, as any other", function()
    local folder = p.folder()
    local options = p.checkpointing(folder)
    options.checkpoint.interval = 0
    local job = p.start(options, build(folder))
    local seen = {}
    job:on("checkpoint_failed", function(event) seen[#seen + 1] = event end)
    p.wait_for(job, function() return job:status().state == "running" end)
    -- Ids are reserved at the first request here, in the job's folder, which is away.
    assert(os.rename(folder .. "/ckpt/spec", folder .. "/away"))
    local _, message, code = job:checkpoint()
    assert.equal("EIO", code)
    assert.equal("EIO: no checkpoint was taken: the checkpoint's folder or its id could not be made durable", message)
    assert.same({ 1, 0 }, { job:checkpoints().counts.failed, job:checkpoints().counts.triggered })
    assert.same({ 1, nil, "checkpoint_failed" }, { #seen, seen[1].id, seen[1].type })
    assert.matches("could not be made durable", seen[1].reason, 1, true)
    assert(os.rename(folder .. "/away", folder .. "/ckpt/spec"))
    assert(job:checkpoint())
    assert.same({ 1, 1 }, { job:checkpoints().counts.failed, job:checkpoints().counts.completed })
    job:cancel()
    assert(p.wait(job))
  end)
end)
