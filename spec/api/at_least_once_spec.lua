-- checkpoint.mode: what each of the two promises, where a barrier of one channel is late.
local p = require "support.pipeline"
local sc = require "streamckpt"

after_each(p.clean)

local BEFORE, AFTER = 10, 5 -- values of the quick reader before its barrier, and behind it

-- A key that belongs to the last of three tasks, which has the third slot for itself.
local function key_of_the_third()
  local keys = {}
  for i = 1, 40 do keys[i] = i end
  local rows = p.rows({ parallelism = 3 }, function(env)
    return env:from_values(keys):key_by(function(key) return key end)
      :process { uid = "where", on_element = function(ctx, key) ctx:emit { key, ctx.subtask } end }
  end)
  for _, row in ipairs(rows) do
    if row[2] == 2 then return row[1] end
  end
end

-- Two readers, each in its own slot, feed one counter in a third. The second stands still inside `read`,
-- so its barrier cannot come, until the file "go" is there; the first emits as many values as "gate" says.
local function build(folder, key)
  return function(env)
    return env:source {
      uid = "readers", splits = function() return { "quick", "slow" } end,
      read = function(ctx, split, at)
        at = at or 0
        if split == "slow" then
          local go
          repeat go = io.open(folder .. "/go") until go
          go:close()
          return nil
        end
        local file <close> = io.open(folder .. "/gate")
        local gate = file and file:read("n") or 0
        if at < gate then
          ctx:emit(at)
          return at + 1
        end
        if at == BEFORE + AFTER then return nil end
        return at, 1
      end,
    }
      :parallelism(2)
      :key_by(function() return key end)
      :process { uid = "count", state = { n = sc.value() }, on_element = function(ctx)
        local n = (ctx.state.n:get() or 0) + 1
        ctx.state.n:set(n)
        ctx:emit(n)
      end }
  end
end

-- The first checkpoint whose barrier the quick reader has passed, while it still waits for the slow one.
local function half_taken(job)
  return p.wait_for(job, function()
    for _, checkpoint in ipairs(job:checkpoints().history) do
      for _, task in ipairs(checkpoint.tasks) do
        for _, subtask in ipairs(task.subtasks) do
          if task.name:find("readers") and subtask.acknowledged and checkpoint.status == "in_progress" then
            return checkpoint.id
          end
        end
      end
    end
  end)
end

local function received(job) return job:metrics("count").numRecordsIn end

-- Run until a checkpoint with values behind a barrier is complete, and go on from it: the last count.
local function count(mode)
  local folder, key = p.folder(), key_of_the_third()
  local options = p.checkpointing(folder, { parallelism = 3 })
  options.checkpoint.mode, options.checkpoint.interval = mode, 1
  options.checkpoint.retain = 1000
  p.let(folder, BEFORE)
  local job = p.start(options, build(folder, key))
  local id = half_taken(job)
  p.let(folder, BEFORE + AFTER)
  if mode == "at_least_once" then
    -- Nothing is held back: they are counted though the checkpoint still waits.
    p.wait_for(job, function() return received(job) == BEFORE + AFTER end)
    assert.equal("in_progress", job:checkpoints().history[1].status)
  end
  p.write(folder .. "/go", "")
  local path = folder .. "/ckpt/spec/chk-" .. id
  p.wait_for(job, function() return p.read(path .. "/_metadata") end)
  job:cancel()
  assert(p.wait(job))
  local rows = p.rows(options, build(folder, key), { from = path })
  return rows[#rows]
end

describe("checkpoint.mode", function()
  it("at_least_once: no channel is held back, and what a restart repeats counts twice", function()
    -- The quick reader is at BEFORE or less in the checkpoint, and the counter at the end.
    local n = count("at_least_once")
    assert.is_true(n >= BEFORE + AFTER + AFTER and n <= 2 * (BEFORE + AFTER), n)
  end)

  it("exactly_once: a channel waits for the other's barrier, and each value counts once", function()
    assert.equal(BEFORE + AFTER, count("exactly_once"))
  end)
end)
