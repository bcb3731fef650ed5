-- job:checkpoints(): what a user learns of each checkpoint, its tasks and their subtasks.
local p = require "support.pipeline"
local sc = require "streamckpt"

after_each(p.clean)

local SIZES = { "checkpointed_size", "state_size", "processed_data", "persisted_data" }
local OF_SUBTASK = { "ack_timestamp", "end_to_end_duration", "sync_duration", "async_duration",
                     "alignment_duration", "start_delay" }

local function task_named(checkpoint, name)
  for _, task in ipairs(checkpoint.tasks) do
    if task.name:find(name, 1, true) then return task end
  end
end

-- What holds of every checkpoint that has completed: sizes are the sums of what is inside, times the latest.
local function check_sums(checkpoint)
  local subtasks, sums, latest = 0, {}, 0
  for _, task in ipairs(checkpoint.tasks) do
    assert.equal("completed", task.status)
    assert.equal(#task.subtasks, task.num_subtasks)
    assert.equal(#task.subtasks, task.num_acknowledged_subtasks)
    local inside = {}
    for i, subtask in ipairs(task.subtasks) do
      subtasks = subtasks + 1
      assert.equal(i - 1, subtask.index)
      for _, field in ipairs(OF_SUBTASK) do assert.is_true(subtask[field] >= 0, field) end
      for _, field in ipairs(SIZES) do inside[field] = (inside[field] or 0) + subtask[field] end
      latest = math.max(latest, subtask.ack_timestamp)
    end
    for _, field in ipairs(SIZES) do
      assert.equal(inside[field], task[field], field)
      sums[field] = (sums[field] or 0) + task[field]
    end
  end
  for _, field in ipairs(SIZES) do assert.equal(sums[field], checkpoint[field], field) end
  assert.equal(subtasks, checkpoint.num_subtasks)
  assert.equal(subtasks, checkpoint.num_acknowledged_subtasks)
  assert.equal(latest, checkpoint.latest_ack_timestamp)
  assert.is_true(checkpoint.completed_timestamp >= latest)
end

describe("job:checkpoints()", function()
  it("tells of an aligned checkpoint all there is", function()
    local folder = p.folder()
    p.let(folder, 3)
    local job = p.start(p.checkpointing(folder, { parallelism = 2 }), function(env)
      return p.gated(env, folder, { "a", "b", "c" }):parallelism(1)
        :key_by(function(v) return v end)
        :process { uid = "count", state = { n = sc.value() }, on_element = function(ctx, v)
          ctx.state.n:set((ctx.state.n:get() or 0) + 1)
          ctx:emit(v)
        end }
    end)
    p.wait_for(job, function() return job:metrics("count").numRecordsIn == 3 end)
    for _ = 1, 3 do assert(job:checkpoint()) end
    -- Two are retained: the files of the oldest are gone, or about to be.
    p.wait_for(job, function() return job:checkpoints().history[3].discarded end)
    local all = job:checkpoints()
    assert.same({ triggered = 3, in_progress = 0, completed = 3, failed = 0, restored = 0 }, all.counts)
    local newest = all.history[1]
    assert.same({ 3, "completed", "checkpoint", true, false, folder .. "/ckpt/spec/chk-3" },
      { newest.id, newest.status, newest.checkpoint_type, newest.manual, newest.discarded, newest.path })
    check_sums(newest)
    local count, source = task_named(newest, "count"), task_named(newest, "gated")
    assert.equal(2, count.num_subtasks)
    assert.equal(1, source.num_subtasks)
    -- The heap writes all of its state every time, and an aligned checkpoint keeps nothing that is in flight.
    assert.equal(newest.state_size, newest.checkpointed_size)
    assert.equal(0, newest.persisted_data)
    local bytes = 0
    for _, file in ipairs(p.files(newest.path, "%.keys$")) do bytes = bytes + #p.read(file) end
    assert.is_true(bytes > 0)
    assert.is_true(newest.state_size >= bytes)
    for _, subtask in ipairs(count.subtasks) do assert.is_false(subtask.unaligned_checkpoint) end
    p.let(folder, "end")
    assert.equal("finished", assert(p.wait(job)).state)
  end)

  it("counts a subtask that has finished as acknowledged", function()
    local folder = p.folder()
    local job = p.start(p.checkpointing(folder), function(env)
      p.gated(env, folder, {}):collect():uid("open")
      return env:from_values({ 1 }):uid("short")
    end)
    -- The first that completes lets the short one leave, the second no longer waits for it.
    local finished = p.wait_for(job, function()
      assert(job:checkpoint())
      local task = task_named(job:checkpoints().history[1], "short")
      return task.subtasks[1].finished and task
    end)
    assert.same({ "completed", 1, 0, 0.0 }, { finished.status, finished.num_acknowledged_subtasks,
      finished.state_size, finished.end_to_end_duration })
    p.let(folder, "end")
    assert.equal("finished", assert(p.wait(job)).state)
  end)

  it("tells of an unaligned one what it kept of the data that was in flight", function()
    local folder = p.folder()
    local options = p.checkpointing(folder)
    options.checkpoint.unaligned = true
    local job = p.start(options, function(env)
      local numbers = {}
      for i = 1, 200 do numbers[i] = i end
      env:from_values(numbers):uid("numbers")
        :rebalance()
        :map(function(v)
          -- A ms a record until "go" is there, so that the queue before it is full for a while.
          local file = io.open(folder .. "/go")
          if file then file:close() else require "luv".sleep(1) end
          return v
        end):uid("slow")
        :to(function() end):uid("nowhere")
    end)
    p.wait_for(job, function()
      return job:metrics("numbers").numRecordsOut == 200 and job:metrics("slow").numRecordsIn > 0
    end)
    assert(job:checkpoint())
    assert.is_true(job:metrics("slow").numRecordsIn < 200, "nothing was in flight")
    p.write(folder .. "/go", "")
    local checkpoint
    for _, c in ipairs(job:checkpoints().history) do
      if c.id == 1 then checkpoint = c end
    end
    assert.equal("unaligned_checkpoint", checkpoint.checkpoint_type)
    check_sums(checkpoint)
    assert.is_true(task_named(checkpoint, "slow").subtasks[1].unaligned_checkpoint)
    -- Each record is more than ten bytes on its way, and the checkpoint keeps those that were on it.
    assert.is_true(checkpoint.persisted_data > 100, checkpoint.persisted_data)
    assert.is_true(checkpoint.checkpointed_size >= checkpoint.persisted_data)
    assert.is_true(checkpoint.state_size >= checkpoint.persisted_data)
    assert.equal("finished", assert(p.wait(job)).state)
  end)
end)
