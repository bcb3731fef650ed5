-- job:stop{ drain = ... }: a last checkpoint, what it holds, and what happens when it cannot be taken.
local p = require "support.pipeline"
local sc = require "streamckpt"

after_each(p.clean)

local VALUES = {}
for i = 1, 60 do VALUES[i] = { k = i % 3, n = i, ts = i * 100 } end

-- Values through a gate, counted for each key, with an event-time timer far behind the last of them;
-- whoever is told to (`trouble`) raises where it commits, or stands still.
local function build(folder, more)
  more = more or {}
  return function(env)
    p.gated(env, folder, VALUES)
      :watermarks({ timestamp = "ts" }):uid("w")
      :key_by("k")
      :process {
        uid = "count", state = { n = sc.value() },
        on_element = function(ctx, e)
          if more.trouble then more.trouble(e) end
          local n = (ctx.state.n:get() or 0) + 1
          ctx.state.n:set(n)
          ctx.timers:event_time(1000000)
          ctx:emit { k = ctx.key, n = n }
        end,
        on_timer = function(ctx) ctx:emit { k = ctx.key, total = ctx.state.n:get() } end,
      }
      :to_file(folder .. "/out"):uid("out")
  end
end

-- The lines that the first `n` values give, sorted; with the totals where the input has ended.
local function expected(n, ended)
  local seen, lines = {}, {}
  for i = 1, n do
    local k = VALUES[i].k
    seen[k] = (seen[k] or 0) + 1
    lines[#lines + 1] = ('{"k":%d,"n":%d}'):format(k, seen[k])
  end
  for k, total in pairs(ended and seen or {}) do
    lines[#lines + 1] = ('{"k":%d,"total":%d}'):format(k, total)
  end
  table.sort(lines)
  return lines
end

local function lines(folder) return p.parts(folder .. "/out") end

local function start(folder, from, more, options)
  return p.start(options or p.checkpointing(folder), build(folder, more), from and { from = from })
end

local function counted(job, n)
  return p.wait_for(job, function() return job:metrics("count").numRecordsIn >= n end)
end

describe("job:stop()", function()
  it("256. stop without drain: all is committed, no timer fires, and a start goes on", function()
    for _, checkpoint in ipairs { {}, { interval = 0 }, { interval = 1 }, { unaligned = true },
        { mode = "at_least_once" }, { externalized = "no_externalized" } } do
      local folder = p.folder()
      local options = p.checkpointing(folder)
      for name, value in pairs(checkpoint) do options.checkpoint[name] = value end
      local job = start(folder, nil, nil, options)
      p.let(folder, 20)
      counted(job, 20)
      local path = assert(job:stop())
      assert.matches("/ckpt/spec/chk%-%d+$", path)
      assert.is_string(p.read(path .. "/_metadata"))
      assert.same(expected(20), lines(folder))
      local status = assert(p.wait(job))
      assert.same({ "finished", true, path }, { status.state, status.stopped, status.last_checkpoint_path })
      assert.matches("^stopped, checkpoint %d+$", tostring(status))

      p.let(folder, "end")
      job = start(folder, "latest", nil, options)
      assert.equal("finished", assert(p.wait(job)).state)
      assert.same(expected(60, true), lines(folder))
    end
  end)

  it("257. stop with drain: the input ends there, timers fire, and the job is complete", function()
    for _, checkpoint in ipairs { {}, { interval = 0 }, { interval = 1 }, { unaligned = true },
        { after_tasks_finish = false } } do
      local folder = p.folder()
      local options = p.checkpointing(folder)
      for name, value in pairs(checkpoint) do options.checkpoint[name] = value end
      local job = start(folder, nil, nil, options)
      p.let(folder, 20)
      counted(job, 20)
      local path = assert(job:stop { drain = true })
      assert.is_string(p.read(path .. "/_metadata"))
      assert.same(expected(20, true), lines(folder))
      -- Also in a job that takes none by itself it is the checkpoint that commits, not the end.
      assert.equal(0, #p.files(folder .. "/out", "spec%.out%.0000000000"))
      local status = assert(p.wait(job))
      assert.same({ "finished" }, { status.state, status.stopped })

      p.let(folder, "end")
      job = start(folder, "latest", nil, options)
      status = assert(p.wait(job))
      assert.same({ "finished", true }, { status.state, status.was_complete })
      assert.same(expected(20, true), lines(folder))
    end
  end)

  it("258. stop while a source ends by itself: either way all is there, and it never hangs", function()
    for round = 1, 24 do
      local folder = p.folder()
      local job = start(folder)
      p.let(folder, 10)
      counted(job, 10)
      p.let(folder, "end")
      for _ = 1, round % 8 * 40 do job:status() end
      local path, message, code = job:stop { drain = round % 2 == 0 }
      if path then
        assert.is_string(p.read(path .. "/_metadata"))
      else
        assert.equal("EDECLINED", code, message)
        assert.matches("the job has ended (finished)", message, 1, true)
      end
      local status = assert(p.wait(job))
      assert.equal("finished", status.state)
      if round % 2 == 1 then
        assert(p.wait(start(folder, "latest")))
        assert.same(expected(60, true), lines(folder))
      end
    end
  end)

  it("259. stop that fails: the job goes on, takes checkpoints, and can be stopped", function()
    local folder = p.folder()
    local job = start(folder)
    p.let(folder, 10)
    counted(job, 10)
    assert(job:checkpoint())
    -- Nothing can be made durable any more: the folder is away.
    assert(os.rename(folder .. "/ckpt/spec", folder .. "/away"))
    local path, message, code = job:stop()
    assert.same({ nil, "EIO" }, { path, code })
    assert.matches("^EIO: checkpoint %d+ was not taken: ", message)
    assert.equal("running", job:status().state)
    p.let(folder, 30)
    counted(job, 30)
    assert(os.rename(folder .. "/away", folder .. "/ckpt/spec"))
    assert(job:checkpoint())
    p.wait_for(job, function() return #lines(folder) == 30 end) -- it is committed behind the call
    assert(job:stop())
    assert.same(expected(30), lines(folder))
    assert.equal("finished", assert(p.wait(job)).state)
  end)

  it("259. a task fails while it is stopped: the job restarts, and is not stopped", function()
    local folder = p.folder()
    -- The value that fails once is read only when the stop is under way: its barrier waits behind it.
    local job = start(folder, nil, { trouble = function(e)
      local held <close> = e.n == 15 and io.open(folder .. "/raise")
      if held then
        os.remove(folder .. "/raise")
        error("on purpose")
      end
    end }, p.checkpointing(folder, { restart = { strategy = "fixed_delay", delay = 0, attempts = 3 } }))
    p.let(folder, 10)
    counted(job, 10)
    assert(job:checkpoint())
    p.write(folder .. "/raise", "")
    p.let(folder, 20)
    -- It may be before or after the failure.
    local path, message = job:stop()
    if not path then
      assert.matches("a task failed", message, 1, true)
      p.wait_for(job, function() return job:status().restarts == 1 and job:status().state == "running" end)
      assert(job:stop())
    end
    assert.equal("finished", assert(p.wait(job)).state)
    p.let(folder, "end")
    assert(p.wait(start(folder, "latest")))
    assert.same(expected(60, true), lines(folder))
  end)

  it("260. failure after the checkpoint is durable: it says so, and a start commits the rest", function()
    local folder = p.folder()
    local out = folder .. "/out"
    local function heavy(env) -- writing its state takes longer than the sink's part
      p.gated(env, folder, VALUES):key_by("k")
        :process {
          uid = "count", state = { n = sc.value() },
          on_element = function(ctx, e)
            ctx.state.n:set(("x"):rep(e.n <= 3 and 10000000 or 1))
            ctx:emit { n = e.n }
          end,
        }
        :to_file(out):uid("out")
    end
    local options = p.checkpointing(folder, {
      restart = { strategy = "fixed_delay", delay = 0, attempts = "unlimited" } })
    local job = p.start(options, heavy)
    p.let(folder, 3)
    counted(job, 3)
    -- When the part is safe, somebody takes the name that it is to get.
    local name = out .. "/spec.out.0000000001.0.json"
    assert(os.execute(("( for i in $(seq 2000); do if [ -e %s/.spec.out.0000000001.0.pending ]; then "
      .. "mkdir %s; exit; fi; sleep 0.005; done ) &"):format(out, name)))
    local path, message, code = job:stop()
    os.execute("rmdir " .. name .. " 2>/dev/null")
    if not path then -- else the sink was faster
      assert.equal("EFAILED", code, message)
      assert.matches("chk-1 is complete, but the job failed before all sinks had committed", message, 1, true)
      assert.equal("failed", job:status().state)
    end
    p.let(folder, "end")
    assert(p.wait(p.start(options, heavy, { from = "latest" })))
    local seen = {}
    for i = 1, #VALUES do seen[i] = ('{"n":%d}'):format(i) end
    table.sort(seen)
    assert.same(seen, lines(folder))
  end)

  it("is refused, in one sentence, where there is nothing to stop or nowhere to write", function()
    local folder = p.folder()
    local job = p.start({}, function(env) return p.gated(env, folder, VALUES) end)
    local _, message, code = job:stop()
    assert.same({ "EUNSUPPORTED: the job has no checkpoint directory: set checkpoint.dir", "EUNSUPPORTED" },
      { message, code })
    job:cancel()
    p.wait(job)
    job = start(folder)
    p.let(folder, "end")
    assert(p.wait(job))
    assert.same({ nil, "EDECLINED: the job has ended (finished)", "EDECLINED" }, { job:stop() })
    local ok, raised = pcall(job.stop, job, { drained = true })
    assert.is_false(ok)
    assert.matches("unknown option 'drained'; did you mean 'drain'?", raised, 1, true)
  end)

  it("right after the start waits until the job runs", function()
    for _ = 1, 10 do
      local folder = p.folder()
      local job = start(folder)
      local path = assert(job:stop())
      assert.is_string(p.read(path .. "/_metadata"))
      p.let(folder, "end")
      assert(p.wait(start(folder, "latest")))
      assert.same(expected(60, true), lines(folder))
    end
  end)

  it("is not waited out with a restart's delay; nor is a checkpoint", function()
    local folder = p.folder()
    local job = start(folder, nil, { trouble = function(e) if e.n == 11 then error("on purpose") end end },
      p.checkpointing(folder, { restart = { strategy = "fixed_delay", delay = "1h" } }))
    p.let(folder, 10)
    counted(job, 10)
    assert(job:checkpoint())
    p.let(folder, 11)
    p.wait_for(job, function() return job:status().state == "restarting" end)
    for _, call in ipairs { "checkpoint", "stop" } do
      local _, message, code = job[call](job)
      assert.equal("EDECLINED", code)
      assert.matches("^EDECLINED: no checkpoint can be taken while the job is restarting: it starts in %d+ ms$", message)
    end
    job:cancel()
    assert.equal("canceled", assert(p.wait(job)).state)
  end)

  it("by two at once stops it once, and says so to the other", function()
    local folder = p.folder()
    local job = start(folder)
    p.let(folder, 20)
    counted(job, 20)
    -- A second handle call cannot run while the first waits; but the job has ended for it then.
    local path = assert(job:stop())
    local again, message = job:stop { drain = true }
    assert.is_nil(again)
    assert.matches("the job has ended (finished)", message, 1, true)
    assert.equal(path, job:status().last_checkpoint_path)
  end)
end)
