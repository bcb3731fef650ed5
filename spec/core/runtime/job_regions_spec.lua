-- A job of two pipelines that are not connected, on real threads and files: one fails, the other one
-- runs on. Each is gate --hash k--> tally --rebalance--> file sink (support/gated_operators.h).
local probe = require "streamckpt.probe"
local temp_dir = require "support.temp_dir"

local SPLITS, KEYS = 2, 7

describe("a job of two regions", function()
  local dir, engine

  before_each(function()
    dir = temp_dir.create()
    engine = probe.job_engine(SPLITS)
  end)

  after_each(function()
    engine:destroy()
    temp_dir.remove(dir)
  end)

  local function start(more)
    local options = { dir = dir .. "/ckpt", out = dir .. "/out", second = dir .. "/second", parallelism = 2 }
    for k, v in pairs(more or {}) do options[k] = v end
    return assert(engine:start(options))
  end

  -- Spins on what the job shows; a working job comes there within moments.
  local function wait_until(what, condition)
    local give_up = os.time() + 60
    while not condition() do assert(os.time() < give_up, what) end
  end

  local function names(folder)
    local list = {}
    local listing <close> = assert(io.popen("ls '" .. folder .. "'"))
    for name in listing:lines() do list[#list + 1] = name end
    return list
  end

  -- Each key's values are counted from 1 without a gap, and each count is there once.
  local function assert_exactly_once(out, each)
    local seen, lines = {}, 0
    for _, name in ipairs(names(out)) do
      for line in io.lines(out .. "/" .. name) do
        assert.is_nil(seen[line], line)
        seen[line], lines = true, lines + 1
      end
    end
    assert.equal(SPLITS * each, lines)
    for k = 0, KEYS - 1 do
      for n = 1, (SPLITS * each - k + KEYS - 1) // KEYS do
        assert.is_true(seen[('{"k":%d,"n":%d}'):format(k, n)], out .. k .. "/" .. n)
      end
    end
  end

  local function finish(job, first, second)
    engine:allow(first, 1)
    engine:allow(second, 2)
    engine:finish(1)
    engine:finish(2)
    local status = job:wait()
    assert.equal("finished", status.state, status.error)
    assert_exactly_once(dir .. "/out", first)
    assert_exactly_once(dir .. "/second", second)
    return status
  end

  local function allow_both(n)
    engine:allow(n, 1)
    engine:allow(n, 2)
  end

  -- Running again, after so many restarts.
  local function restarted(job, times)
    local status
    repeat
      status = job:wait("running")
      assert.equal("running", status.state, status.error)
    until status.restarts == times
  end

  local function attempts(job)
    local list = {}
    for i, region in ipairs(job:status().regions) do list[i] = region.attempt end
    return list
  end

  local function states(job)
    local list = {}
    for i, region in ipairs(job:status().regions) do list[i] = region.state end
    return table.concat(list, " ")
  end

  it("restarts the one that fails, alone, again and again; both are exactly once", function()
    local job = start { attempts = 10 }
    for i = 1, 3 do
      allow_both(100 * i)
      assert(job:checkpoint())
      allow_both(100 * i + 30)
      engine:break_gate(1)
      restarted(job, i)
    end
    assert.same({ 4, 1 }, attempts(job))
    local status = finish(job, 400, 350)
    assert.equal(3, status.restarts)
    assert.equal(3, status.regions[1].restarts)
    assert.equal(0, status.regions[2].restarts)
  end)

  it("goes on in the other one while the first waits for its restart", function()
    local job = start { attempts = 1, delay_ms = 3600000 }
    allow_both(100)
    assert(job:checkpoint())
    engine:break_gate(1)
    job:wait("restarting")
    assert.equal("restarting running", states(job))
    engine:allow(300, 2)
    wait_until("the second pipeline runs on", function() return job:records("tally2") == SPLITS * 300 end)
    assert.equal("restarting running", states(job))
    assert.same({ 1, 1 }, attempts(job))
    job:cancel()
    assert.equal("canceled", job:wait().state)
    finish(start { from = "latest" }, 150, 350)
  end)

  it("gives each its turn to fail, and both at once", function()
    local job = start { attempts = 100 }
    for round = 1, 8 do
      allow_both(20 * round)
      assert(job:checkpoint())
      allow_both(20 * round + 10)
      local before = job:status().restarts
      if round % 4 ~= 1 then engine:break_gate(1) end
      if round % 4 ~= 2 then engine:break_gate(2) end
      local failing = round % 4 < 3 and round % 4 > 0 and 1 or 2
      restarted(job, before + failing)
    end
    finish(job, 200, 200)
  end)

  it("leaves one that has finished as it is", function()
    local job = start { attempts = 3, interval_ms = 5 }
    allow_both(50)
    engine:finish(2)
    wait_until("the second pipeline ends", function() return job:status().regions[2].state == "ended" end)
    assert_exactly_once(dir .. "/second", 50)
    for i = 1, 2 do
      engine:allow(50 + 20 * i, 1)
      engine:break_gate(1)
      restarted(job, i)
    end
    assert.equal("running ended", states(job))
    local status = finish(job, 100, 50)
    assert.equal(1, status.regions[2].attempt)
    assert.equal(SPLITS * 50, job:records("tally2"))
  end)

  it("restores one that had finished as such, after the job was cancelled", function()
    local job = start { interval_ms = 5 }
    allow_both(50)
    engine:finish(2)
    wait_until("the second pipeline ends", function() return job:status().regions[2].state == "ended" end)
    assert(job:checkpoint())
    job:cancel()
    job:wait()
    job = start { from = "latest", interval_ms = 5, attempts = 3, parallelism = 3 }
    engine:allow(80, 1)
    assert(job:checkpoint())
    engine:break_gate(1)
    restarted(job, 1)
    finish(job, 100, 50)
  end)

  it("fails as a whole where no restart is left", function()
    local job = start { attempts = 1 }
    allow_both(50)
    assert(job:checkpoint())
    engine:break_gate(2)
    restarted(job, 1)
    engine:break_gate(1)
    local status = job:wait()
    assert.equal("failed", status.state)
    assert.matches("EIO: the gate fell", status.error)
    assert.equal("ended ended", states(job))
    finish(start { from = "latest" }, 60, 60)
  end)

  it("counts a failure of the whole job once", function()
    local job = start { attempts = 1, tolerable = 0 }
    allow_both(50)
    assert(job:checkpoint())
    engine:fail("rename", "_metadata", 1)
    allow_both(80)
    assert.is_nil((job:checkpoint()))
    restarted(job, 1)
    assert.same({ 2, 2 }, attempts(job))
    finish(job, 100, 100)
  end)

  it("restarts from the beginning where there is no checkpoint yet, alone", function()
    local job = start { attempts = 2 }
    allow_both(40)
    wait_until("both run", function()
      return job:records("tally") == SPLITS * 40 and job:records("tally2") == SPLITS * 40
    end)
    engine:break_gate(2)
    restarted(job, 1)
    assert.same({ 1, 2 }, attempts(job))
    finish(job, 50, 50)
  end)

  it("goes back to an older checkpoint alone, if its own sinks allow it", function()
    local job = start { attempts = 5, retain = 2 }
    allow_both(50)
    wait_until("both are in", function()
      return job:records("tally") == SPLITS * 50 and job:records("tally2") == SPLITS * 50
    end)
    assert.equal(1, assert(job:checkpoint()))
    engine:allow(80, 2) -- so only the second one's sink commits something of checkpoint 2
    wait_until("they are in", function() return job:records("tally2") == SPLITS * 80 end)
    assert.equal(2, assert(job:checkpoint()))
    wait_until("the second one's sink has committed it", function()
      return table.concat(names(dir .. "/second"), " "):find("job.out2.0000000002", 1, true)
    end)
    local metadata <close> = assert(io.open(dir .. "/ckpt/job/chk-2/_metadata", "wb"))
    metadata:write("damaged")
    metadata:flush()
    engine:break_gate(1)
    wait_until("it runs again", function() return job:status().regions[1].attempt == 2 end)
    assert.equal("running", job:wait("running").state)
    assert.same({ 2, 1 }, attempts(job))
    engine:break_gate(2)
    local status = job:wait()
    assert.equal("failed", status.state)
    assert.matches("a sink has committed checkpoint 2; going back to checkpoint 1", status.error)
  end)

  for _, again in ipairs { false, true } do
    it("259. one fails while the job drains" .. (again and ", which was asked for twice" or "") ..
      ": nothing that has ended by command stays so", function()
      local job = start { attempts = 10 }
      allow_both(30)
      assert(job:checkpoint())
      allow_both(60)
      wait_until("the values do not arrive", function()
        return job:records("out") == 60 * SPLITS and job:records("out2") == 60 * SPLITS
      end)
      -- The final checkpoint is declined by the second region's sink, and at the next try its task fails.
      engine:fail("sync", "/second/", 1)
      local ticket = job:ask_stop(true)
      if again then assert.matches("the job is being stopped already", (select(2, job:stop(true)))) end
      local id, message = job:answer(ticket)
      assert.is_nil(id)
      assert.matches("a task failed", message, 1, true)
      wait_until("it does not come back", function() return states(job) == "running running" end)
      assert.same({ 2, 2 }, attempts(job), "both had ended by command")
      local log <close> = assert(io.open(dir .. "/ckpt/job/log"))
      assert.is_nil(log:read("a"):find("the rest runs on", 1, true))
      finish(job, 90, 90)
    end)
  end

  it("stops as a whole, with a checkpoint or drained, where one region has ended before", function()
    local job = start { attempts = 3, interval_ms = 5 }
    allow_both(40)
    engine:finish(2)
    wait_until("the second pipeline ends", function() return job:status().regions[2].state == "ended" end)
    engine:break_gate(1)
    restarted(job, 1)
    assert(job:stop(false))
    local status = job:wait()
    assert.equal("finished", status.state, status.error)
    assert_exactly_once(dir .. "/second", 40)
    job = start { from = "latest", interval_ms = 5 }
    engine:allow(70, 1)
    wait_until("the first pipeline goes on", function() return job:records("tally") >= SPLITS * 30 end)
    assert(job:stop(true))
    status = job:wait()
    assert.equal("finished", status.state, status.error)
    assert_exactly_once(dir .. "/out", 70)
    assert_exactly_once(dir .. "/second", 40)
  end)

  it("neither stops nor takes a checkpoint while one region waits for its restart", function()
    local job = start { attempts = 1, delay_ms = 3600000 }
    allow_both(20)
    assert(job:checkpoint())
    engine:break_gate(2)
    job:wait("restarting")
    for _, ask in ipairs { "checkpoint", "stop" } do
      local id, message = job[ask](job)
      assert.is_nil(id)
      assert.matches("while the job is restarting: it starts in %d+ ms", message)
    end
    job:cancel()
    assert.equal("canceled", job:wait().state)
  end)
end)
