-- Checkpoints that explain themselves: jobs that are slow in one way, and the sentence that names it. What
-- is slow is held until the engine has said so, so nothing here depends on how fast the machine is.
local p = require "support.pipeline"
local sc = require "streamckpt"

after_each(p.clean)

local function options(folder, more)
  local o = p.checkpointing(folder, { parallelism = 2 })
  o.checkpoint.interval, o.checkpoint.explain_after = 10, 50
  for name, value in pairs(more or {}) do o.checkpoint[name] = value end
  return o
end

-- Wait until the oldest checkpoint that is not done is explained by a cause.
local function explained(job, cause)
  local text, id
  p.wait_for(job, function()
    for _, c in ipairs(job:checkpoints().history) do
      if c.status == "in_progress" and c.cause == cause then text, id = c.explanation, c.id end
    end
    return text
  end)
  return text, id
end

-- Hold on until what is held has surely taken longer than anything else of a checkpoint does: its files on a
-- busy disk, or the next checkpoint, which has nothing to wait for.
local function outlast(job, id)
  p.wait_for(job, function()
    local took = job:checkpoints():explain(id):match("under way for ([%d.]+) s:")
    return took and tonumber(took) >= 1.5
  end)
end

-- The line of this file with such a comment.
local function line_of(text)
  local n = 0
  for line in io.lines("spec/api/explain_spec.lua") do
    n = n + 1
    if line:find("-- " .. text, 1, true) then return n end
  end
end

-- A record that turns in a function until the file "go" is there.
local function turning(env, folder)
  return p.gated(env, folder, { 1 }):rebalance():map(function(v)
    local go
    repeat for _ = 1, 1e5 do end go = io.open(folder .. "/go") until go -- here it turns
    go:close()
    return v
  end):uid("turning")
end

-- A job whose oldest checkpoint surely waits for the function that turns, longest of all: the job, the id, and
-- what was said of it first.
local function held_up(folder, o)
  local job = p.start(o, function(env)
    return turning(env, folder)
  end)
  p.let(folder, 1)
  local text, id = explained(job, "slow_function")
  outlast(job, id)
  return job, id, text
end

-- The input ends, and the job with it: its log.
local function finished(job, folder)
  p.let(folder, "end")
  assert.equal("finished", assert(p.wait(job)).state)
  return p.read(folder .. "/ckpt/spec/log")
end

describe("a checkpoint that is slow is explained by", function()
  it("a slow function: where it was seen, while it is", function()
    local folder = p.folder()
    local job, id, text = held_up(folder, options(folder))
    assert.matches("turning", text, 1, true)
    assert.matches("has not acknowledged it; its user function is slow: it was seen in", text, 1, true)
    assert.matches(("explain_spec.lua:%d (the function of line "):format(line_of("here it turns")), text, 1, true)
    p.write(folder .. "/go", "")
    -- It is kept, and said in the log.
    assert.matches(("WARN[^\n]*chk %d%%][^\n]*took[^\n]*turning[^\n]*its user function is slow: it was seen in "):format(id),
      finished(job, folder))
  end)

  it("a slow function that kept the thread of its source, not that source", function()
    local folder = p.folder()
    local o = options(folder, { interval = 300 })
    o.parallelism = 1 -- one thread: the source comes to the trigger when the function is done
    local job, id = held_up(folder, o)
    p.write(folder .. "/go", "")
    assert.matches(("WARN[^\n]*chk %d%%][^\n]*turning[^\n]*its user function is slow: it was seen in "
      .. "[^\n]*explain_spec.lua:%d "):format(id, line_of("here it turns")), finished(job, folder))
  end)

  -- A record that stands in a call which opens a pipe, until somebody writes there.
  local function stands_in(mark, call)
    local folder = p.folder()
    assert(os.execute("mkfifo " .. folder .. "/pipe"))
    local job = p.start(options(folder), function(env)
      return p.gated(env, folder, { 1 }):rebalance():map(call(folder .. "/pipe")):uid("standing")
    end)
    p.let(folder, 1)
    local text, id = explained(job, "library_call")
    assert.matches("standing[^;]* has not acknowledged it; it was in a library call that did not return", text)
    outlast(job, id)
    os.execute("timeout 60 sh -c ': > " .. folder .. "/pipe'")
    -- The function goes on behind it, which says the place.
    assert.matches(("WARN[^\n]*chk %d%%][^\n]*standing[^\n]*library call that did not return, which was seen in "
      .. "[^\n]*explain_spec.lua:%d "):format(id, line_of(mark)), finished(job, folder))
  end

  it("a call of a library that does not return", function()
    stands_in("here it stands", function(pipe)
      return function(v)
        io.open(pipe):close() -- here it stands
        return v
      end
    end)
  end)

  it("a call of luv, by the user's line", function()
    stands_in("here luv stands", function(pipe)
      local uv = require "luv"
      return function(v)
        local fd = assert(uv.fs_open(pipe, "r", 0)) -- here luv stands
        assert(uv.fs_close(fd))
        return v
      end
    end)
  end)

  it("a slow sink, behind what waits for it", function()
    local folder = p.folder()
    local job = p.start(options(folder, { explain_after = 50 }), function(env)
      p.gated(env, folder, { 1, 2, 3 }):rebalance():to(function()
        local go
        repeat for _ = 1, 1e5 do end go = io.open(folder .. "/go") until go
        go:close()
      end):uid("drain")
    end)
    p.let(folder, 3)
    local text = explained(job, "slow_sink")
    assert.matches("drain[^;]* has not acknowledged it; this sink is slower than what comes before it, which was seen in",
      text)
    p.write(folder .. "/go", "")
    p.let(folder, "end")
    assert.equal("finished", assert(p.wait(job)).state)
  end)

  it("the one before it, where it was queued behind that", function()
    local folder = p.folder()
    local job, id = held_up(folder, options(folder))
    p.write(folder .. "/go", "")
    p.wait_for(job, function() return job:checkpoints().counts.completed > id end)
    assert.matches(("chk %d%%]: checkpoint %d waited [%%d.]+ s for the one before it to end, and then took "):format(
      id + 1, id + 1), finished(job, folder))
  end)

  it("who was in the way, where it has expired", function()
    local folder = p.folder()
    local job = p.start(options(folder, { timeout = 400 }), function(env)
      return turning(env, folder)
    end)
    p.let(folder, 1)
    p.wait_for(job, function() return job:checkpoints().counts.failed > 0 end)
    p.write(folder .. "/go", "")
    p.let(folder, "end")
    assert.equal("finished", assert(p.wait(job)).state)
    assert.matches("checkpoint %d+ failed after %d+ ms: turning[^;]* has not acknowledged it; its user function is slow",
      p.read(folder .. "/ckpt/spec/log"))
  end)

  for _, case in ipairs {
    { "", {} },
    { ", though its barrier may overtake", { unaligned = true } },
    { ", though its barrier may overtake later", { unaligned = true, aligned_timeout = "1h" } },
  } do
    it("a source that does not come to its trigger" .. case[1], function()
      local folder = p.folder()
      local job = p.start(options(folder, case[2]), function(env)
        local stuck = env:source {
          uid = "stuck", splits = function() return { 0 } end,
          read = function(_, _, at)
            local stick <close> = io.open(folder .. "/stick")
            if not stick then return at or 0, 1 end
            local go
            repeat for _ = 1, 1e5 do end go = io.open(folder .. "/go") until go -- here it sticks
            go:close()
            return nil
          end,
        }
        return p.gated(env, folder, { 1 }):union(stuck):rebalance():map(function(v) return v end):uid("behind")
      end)
      p.write(folder .. "/stick", "")
      local text, id = explained(job, "slow_function")
      local place = ("explain_spec.lua:%d (the function of line "):format(line_of("here it sticks"))
      assert.matches("stuck", text, 1, true)
      assert.matches("has not acknowledged it; its user function is slow: it was seen in", text, 1, true)
      assert.matches(place, text, 1, true)
      outlast(job, id)
      p.write(folder .. "/go", "")
      p.let(folder, "end")
      assert.equal("finished", assert(p.wait(job)).state)
      -- Nor do those who waited for it count when it is over: not who aligned, nor who captured.
      local said = p.read(folder .. "/ckpt/spec/log"):match(("chk %d%%]: (checkpoint %d took [^\n]*)"):format(id, id))
      assert.matches("its user function is slow: it was seen in", said, 1, true)
      assert.matches(place, said, 1, true)
    end)
  end

  it("a source that is still listing its splits", function()
    local folder = p.folder()
    local job = p.start(options(folder), function(env)
      return env:source {
        uid = "many",
        splits = function()
          local go
          repeat for _ = 1, 1e5 do end go = io.open(folder .. "/go") until go -- here it lists
          go:close()
          return { 0 }
        end,
        read = function() return nil end,
      }
    end)
    local text = explained(job, "slow_function")
    assert.matches("many[^;]* has not acknowledged it; its user function is slow: it was seen in", text)
    assert.matches(("explain_spec.lua:%d (the function of line "):format(line_of("here it lists")), text, 1, true)
    p.write(folder .. "/go", "")
    assert.equal("finished", assert(p.wait(job)).state)
  end)

  it("much state", function()
    local folder = p.folder()
    local o = options(folder, { explain_after = 1, sync = false })
    o.parallelism = 1
    local job = p.start(o, function(env)
      return p.gated(env, folder, { 1 })
        :flat_map(function(_, ctx) for key = 1, 50000 do ctx:emit { key = key } end end)
        :key_by("key")
        :process { uid = "keyed", state = { seen = sc.value() }, on_element = function(ctx) ctx.state.seen:set(true) end }
    end)
    p.let(folder, 1)
    -- Of many checkpoints, in whose time nothing else happens, the first that nothing else has delayed.
    local text
    p.wait_for(job, function()
      for _, c in ipairs(job:checkpoints().history) do
        if c.status == "completed" and c.cause == "large_state" then text = c.explanation end
      end
      return text
    end)
    assert.matches("the asynchronous part of keyed[^,]* 1/1, which writes [%d.]+ [kM]B of state, took [%d.]+ m?s", text)
    p.let(folder, "end")
    assert.equal("finished", assert(p.wait(job)).state)
  end)

  -- A keyed operator of two tasks behind an endless source, and the first checkpoint that has completed and is
  -- explained by the cause. What is slow takes its time at each record, so that barriers pass between two.
  local function keyed(key_of, slow, cause)
    local folder = p.folder()
    local job = p.start(options(folder), function(env)
      env:source {
        uid = "endless", splits = function() return { 0 } end,
        read = function(ctx, _, at)
          at = at or 0
          ctx:emit { key = key_of(at), filling = ("x"):rep(1000) }
          return at + 1
        end,
      } :key_by("key")
        :process { uid = "keyed", on_element = function(ctx, r)
          if slow(ctx, r) then require "luv".sleep(1) end
        end }
        :to(function() end):uid("nowhere")
    end)
    local text, id
    p.wait_for(job, function()
      for _, c in ipairs(job:checkpoints().history) do
        if c.status == "completed" and c.cause == cause then text, id = c.explanation, c.id end
      end
      return text
    end)
    job:cancel()
    assert.equal("canceled", assert(p.wait(job)).state)
    return text, id
  end

  it("a key that has most of the records", function()
    local text = keyed(function(n) return n % 10 > 0 and "hot" or n end, function() return true end, "skewed_key")
    assert.matches("reached keyed[^;]* last, after [^;]* behind [%d.]+ kB of records; it got [%d.]+ [kM]B since the "
      .. "checkpoint before, no other "
      .. "subtask of it more than [%d.]+ [kM]?B", text)
  end)

  it("a slow function, where one task is slower than another that gets as much", function()
    local text = keyed(function(n) return n end, function(ctx) return ctx.subtask == 1 end, "slow_function")
    assert.matches("keyed[^;]* 2/2 last, after [^;]*; its user function is slow: it was seen in", text)
  end)
end)
