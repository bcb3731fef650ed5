-- Checkpoints that explain themselves: jobs that are slow in one way, and the sentence that names it. What
-- is slow is held until the engine has said so, so nothing here depends on how fast the machine is.
local p = require "support.pipeline"

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

local function line_of(text)
  local n = 0
  for line in io.lines("spec/api/explain_spec.lua") do
    n = n + 1
    if line:find(text, 1, true) then return n end
  end
end

describe("a checkpoint that is slow is explained by", function()
  it("a slow function: where it was seen, while it is", function()
    local folder = p.folder()
    local job = p.start(options(folder), function(env)
      return p.gated(env, folder, { 1 }):rebalance():map(function(v)
        local go
        repeat for _ = 1, 1e5 do end go = io.open(folder .. "/go") until go -- here it turns
        go:close()
        return v
      end):uid("turning")
    end)
    p.let(folder, 1)
    local text, id = explained(job, "slow_function")
    assert.matches("turning", text, 1, true)
    assert.matches("has not acknowledged it; its user function is slow: it was seen in", text, 1, true)
    assert.matches(("explain_spec.lua:%d (the function of line "):format(line_of("-- here it turns")), text, 1, true)
    outlast(job, id)
    p.write(folder .. "/go", "")
    p.let(folder, "end")
    assert.equal("finished", assert(p.wait(job)).state)
    -- It is kept, and said in the log.
    local log = p.read(folder .. "/ckpt/spec/log")
    assert.matches(("WARN[^\n]*chk %d%%][^\n]*took[^\n]*turning[^\n]*its user function is slow: it was seen in "):format(id),
      log)
  end)

  it("a call of a library that does not return", function()
    local folder = p.folder()
    assert(os.execute("mkfifo " .. folder .. "/pipe"))
    local job = p.start(options(folder), function(env)
      return p.gated(env, folder, { 1 }):rebalance():map(function(v)
        local pipe <close> = io.open(folder .. "/pipe") -- here it stands
        pipe:read("a")
        return v
      end):uid("standing")
    end)
    p.let(folder, 1)
    local text, id = explained(job, "library_call")
    assert.matches("standing[^;]* has not acknowledged it; it was in a library call that did not return", text)
    outlast(job, id)
    os.execute("timeout 60 sh -c 'echo > " .. folder .. "/pipe'")
    p.let(folder, "end")
    assert.equal("finished", assert(p.wait(job)).state)
    -- The function goes on behind it, which says the place.
    assert.matches(("WARN[^\n]*chk %d%%][^\n]*standing[^\n]*library call that did not return, which was seen in "
      .. "[^\n]*explain_spec.lua:%d "):format(id, line_of("-- here it stands")), p.read(folder .. "/ckpt/spec/log"))
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
    local job = p.start(options(folder), function(env)
      return p.gated(env, folder, { 1 }):rebalance():map(function(v)
        local go
        repeat for _ = 1, 1e5 do end go = io.open(folder .. "/go") until go
        go:close()
        return v
      end):uid("turning")
    end)
    p.let(folder, 1)
    local _, id = explained(job, "slow_function")
    outlast(job, id)
    p.write(folder .. "/go", "")
    p.wait_for(job, function() return job:checkpoints().counts.completed > id end)
    p.let(folder, "end")
    assert.equal("finished", assert(p.wait(job)).state)
    assert.matches(("chk %d%%]: checkpoint %d waited [%%d.]+ s for the one before it to end, and then took "):format(
      id + 1, id + 1), p.read(folder .. "/ckpt/spec/log"))
  end)

  it("who was in the way, where it has expired", function()
    local folder = p.folder()
    local job = p.start(options(folder, { timeout = 400 }), function(env)
      return p.gated(env, folder, { 1 }):rebalance():map(function(v)
        local go
        repeat for _ = 1, 1e5 do end go = io.open(folder .. "/go") until go
        go:close()
        return v
      end):uid("turning")
    end)
    p.let(folder, 1)
    p.wait_for(job, function() return job:checkpoints().counts.failed > 0 end)
    p.write(folder .. "/go", "")
    p.let(folder, "end")
    assert.equal("finished", assert(p.wait(job)).state)
    assert.matches("checkpoint %d+ failed after %d+ ms: turning[^;]* has not acknowledged it; its user function is slow",
      p.read(folder .. "/ckpt/spec/log"))
  end)

  it("a key that has most of the records", function()
    local folder = p.folder()
    local numbers = {}
    for i = 1, 2000 do numbers[i] = i end
    local job = p.start(options(folder, { interval = "1h", explain_after = 300 }), function(env)
      return p.gated(env, folder, numbers)
        :map(function(v) return { v = v, filling = ("x"):rep(1000) } end)
        :key_by(function() return "hot" end)
        :process { uid = "keyed", on_element = function(_, r)
          if r.v > 1 then return end
          io.open(folder .. "/holding", "w"):close()
          local triggered
          repeat for _ = 1, 1e5 do end triggered = io.open(folder .. "/triggered") until triggered
          triggered:close()
          -- From here on the checkpoint waits, for longer than it may without being explained.
          local go
          repeat for _ = 1, 1e5 do end go = io.open(folder .. "/go") until go
          go:close()
        end }
    end)
    p.let(folder, "end")
    p.wait_for(job, function() return p.read(folder .. "/holding") end)
    os.execute(("(until [ -d %s/ckpt/spec/chk-1 ]; do sleep 0.02; done; touch %s/triggered; sleep 1.5; touch %s/go) &"):format(
      folder, folder, folder))
    local id = assert(job:checkpoint())
    local text, cause = job:checkpoints():explain(id)
    assert.equal("skewed_key", cause, text)
    assert.matches("keyed[^;]* behind [%d.]+ kB of records; no other subtask of it had more than 0 B before its barrier",
      text)
    assert.equal("finished", assert(p.wait(job)).state)
  end)
end)
