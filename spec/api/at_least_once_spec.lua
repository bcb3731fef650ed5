-- checkpoint.mode: what each of the two promises, where a barrier of one channel is late.
local p = require "support.pipeline"
local sc = require "streamckpt"

after_each(p.clean)

local BEFORE, AFTER = 10, 5 -- values of the quick reader before its barrier, and behind it

-- Two readers, each in its own slot, feed one counter, which shares the first one's. The second stands still
-- inside `read`, so its barrier cannot come, until the file "go" is there; the first emits as many values as
-- "gate" says. A split goes to whoever asks first, and later perhaps to the other one: which of them the second
-- stands still in is in the file "slow". Before that is written the first reads nothing (nor does it, waiting,
-- ask for another split).
local function build(folder)
  return function(env)
    return env:source {
      uid = "readers", splits = function() return { "a", "b" } end,
      read = function(ctx, split, at)
        at = at or 0
        local slow
        repeat
          local file <close> = io.open(folder .. "/slow")
          slow = file and file:read("a")
          if not file and ctx.subtask == 1 then
            local new <close> = io.open(folder .. "/slow.new", "w")
            new:write(split)
            new:close()
            os.rename(folder .. "/slow.new", folder .. "/slow")
          end
        until slow
        if split == slow then
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
      :key_by(function() return 1 end)
      :process { uid = "count", state = { n = sc.value() }, on_element = function(ctx)
        local n = (ctx.state.n:get() or 0) + 1
        ctx.state.n:set(n)
        ctx:emit(n)
      end }
  end
end

-- The first checkpoint that the quick reader has passed, while it still waits for the slow one. (One that began
-- before that stood still may have the slow one's part already.)
local function half_taken(job, folder)
  return p.wait_for(job, function()
    for _, checkpoint in ipairs(p.read(folder .. "/slow") and job:checkpoints().history or {}) do
      for _, task in ipairs(checkpoint.tasks) do
        local passed = {}
        for _, subtask in ipairs(task.subtasks) do passed[subtask.index] = subtask.acknowledged end
        if task.name:find("readers") and checkpoint.status == "in_progress" and passed[0] and not passed[1] then
          return checkpoint.id
        end
      end
    end
  end)
end

local function received(job) return job:metrics("count").numRecordsIn end

-- Run until a checkpoint with values behind a barrier is complete, and go on from it: the last count.
local function count(mode)
  local folder = p.folder()
  local options = p.checkpointing(folder, { parallelism = 1, slots = 2 })
  options.checkpoint.mode, options.checkpoint.interval = mode, 1
  options.checkpoint.retain = 1000
  p.let(folder, BEFORE)
  local job = p.start(options, build(folder))
  local id = half_taken(job, folder)
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
  local rows = p.rows(options, build(folder), { from = path })
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
