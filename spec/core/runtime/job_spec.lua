-- Whole jobs of native operators on real threads and files, where the storage fails as told:
-- gate --hash k--> tally --rebalance--> file sink (support/gated_operators.h).
local probe = require "streamckpt.probe"
local msgpack = require "support.msgpack"
local plain = require "support.plain_reader"
local temp_dir = require "support.temp_dir"

local exists = require("support.gated_job").exists
local SPLITS, KEYS = 3, 7

describe("job", function()
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
    local options = { dir = dir .. "/ckpt", out = dir .. "/out" }
    for k, v in pairs(more or {}) do options[k] = v end
    return assert(engine:start(options))
  end

  local function has_checkpoint(id) return exists(dir .. "/ckpt/job/chk-" .. id .. "/_metadata") end

  -- How often each {k, n} is in a committed part.
  local function output()
    local seen, lines = {}, 0
    local list = assert(io.popen("ls '" .. dir .. "/out'"))
    for name in list:lines() do
      for line in io.lines(dir .. "/out/" .. name) do
        local k, n = line:match('^{"k":(%d+),"n":(%d+)}$')
        assert.truthy(k, line)
        seen[k .. "/" .. n] = (seen[k .. "/" .. n] or 0) + 1
        lines = lines + 1
      end
    end
    list:close()
    return seen, lines
  end

  -- Each key's values are counted from 1 without a gap and each count is there once: exactly once.
  -- The values are 0 to SPLITS * each - 1, so the number of each key's is plain arithmetic.
  local function assert_exactly_once(each)
    local seen, lines = output()
    local total = SPLITS * each
    assert.equal(total, lines)
    for k = 0, KEYS - 1 do
      local count = (total - k + KEYS - 1) // KEYS
      for n = 1, count do assert.equal(1, seen[k .. "/" .. n], k .. "/" .. n) end
      assert.is_nil(seen[k .. "/" .. (count + 1)])
    end
  end

  -- Wait until the sinks have got as many values of this attempt.
  local function arrived(job, count)
    local limit = os.time() + 60
    while job:records("out") < count do assert(os.time() < limit, "the values do not arrive") end
  end

  local function finish(job, each)
    engine:allow(each)
    engine:finish()
    local status = job:wait()
    assert.equal("finished", status.state, status.error)
    assert_exactly_once(each)
    return status
  end

  for _, case in ipairs { { 1, 1 }, { 2, 2 }, { 3, 2 }, { 4, 4 } } do
    it(("runs to its end at parallelism %d in %d slots"):format(case[1], case[2]), function()
      local job = start { parallelism = case[1], slots = case[2], interval_ms = 5 }
      finish(job, 400)
    end)
  end

  it("runs without checkpoints, and without a folder for them", function()
    local job = assert(engine:start { out = dir .. "/out", interval_ms = 0, parallelism = 2 })
    finish(job, 100)
  end)

  it("goes on at another parallelism where it was cancelled", function()
    local job
    for i, parallelism in ipairs { 2, 3, 1, 4 } do
      job = start { parallelism = parallelism, from = i > 1 and "latest" or nil, retain = 2 }
      engine:allow(100 * i)
      assert(job:checkpoint())
      engine:allow(100 * i + 50) -- of these some are out, and none is committed
      if i < 4 then
        job:cancel()
        assert.equal("canceled", job:wait().state)
      end
    end
    finish(job, 500)
  end)

  it("restarts from the last checkpoint where a task fails, and emits nothing twice", function()
    local job = start { parallelism = 2, attempts = 5 }
    for i = 1, 3 do
      engine:allow(100 * i)
      assert(job:checkpoint())
      engine:allow(100 * i + 30)
      engine:break_gate()
      repeat until job:wait("running").restarts == i
    end
    local status = finish(job, 400)
    assert.equal(4, status.attempt)
    assert.matches("EIO: the gate fell", status.error)
    assert.matches("gate", status.error)
  end)

  it("fails where no restart is left, with the cause and the task", function()
    local job = start { parallelism = 2 }
    assert(job:checkpoint())
    engine:break_gate()
    local status = job:wait()
    assert.equal("failed", status.state)
    assert.matches("EIO: the gate fell", status.error)
    assert.is_true(has_checkpoint(1))
  end)

  it("has nothing left to do where the run was complete", function()
    finish(start { parallelism = 2, interval_ms = 5 }, 50)
    local again = start { parallelism = 2, interval_ms = 5, from = "latest" }
    assert.equal("finished", again:wait().state)
    assert_exactly_once(50)
  end)

  it("restores tasks that had finished as such: their last word is not said again", function()
    local early = dir .. "/early"
    local function said()
      local lines = {}
      local list = assert(io.popen("cat '" .. early .. "'/*.json 2>&1"))
      for line in list:lines() do lines[#lines + 1] = line end
      list:close()
      table.sort(lines)
      return lines
    end
    local job = start { parallelism = 2, early = early }
    local n = 0
    repeat -- until the branch has ended, and then once more: that one lists tasks that have left
      n = n + 1
      engine:allow(n)
      assert(job:checkpoint())
    until #said() == 2
    assert(job:checkpoint())
    for _, parallelism in ipairs { 2, 3, 1 } do
      job:cancel()
      job:wait()
      job = start { parallelism = parallelism, early = early, from = "latest" }
      n = n + 1
      engine:allow(n)
      assert(job:checkpoint())
    end
    finish(job, n + 10)
    assert.same({ '"bye"', '"early"' }, said())
  end)

  it("takes a trigger between two records, whatever the last ones let expect of the next", function()
    engine:plug(0) -- so the second reader is dealt a split at least
    local job = start { parallelism = 2 }
    engine:allow(10)
    local dealt = os.time() + 60
    while job:records("tally") == 0 do assert(os.time() < dealt, "the second reader has no split") end
    engine:plug()
    arrived(job, SPLITS * 10)
    engine:plug(1)
    engine:allow(1000)
    local limit = os.time() + 60
    while not engine:plugged() do assert(os.time() < limit, "nobody comes to the plug") end
    local ticket = job:ask()
    -- Both readers were told before one of them could answer.
    local function other_has_it()
      for _, checkpoint in ipairs(msgpack.decode(job:statistics()).history) do
        for _, task in ipairs(checkpoint.tasks) do
          if task.name:find "^gate" and task.num_acknowledged_subtasks == 1 then return true end
        end
      end
    end
    while not other_has_it() do assert(os.time() < limit, "the other reader does not answer") end
    engine:plug()
    local folder = ("%s/ckpt/job/chk-%d"):format(dir, assert(job:answer(ticket)))
    local held = plain.operator(plain.metadata(folder), "gate").subtasks[2]
    local splits, out = 0, 0
    for _, item in ipairs(plain.list({ subtasks = { held } }, "splits")) do
      splits, out = splits + 1, out + item.out
    end
    assert.is_true(splits > 0)
    assert.equal(10 * splits + 1, out, "more than the record that was under way")
    finish(job, 1000)
  end)

  it("is taken down with its engine, whatever it does", function()
    for _, interval in ipairs { 1, 3600000 } do
      local job = start { parallelism = 3, slots = 2, interval_ms = interval, from = "latest",
                          dir = dir .. "/" .. interval, out = dir .. "/out-" .. interval }
      engine:allow(1000000000)
      assert(job:checkpoint())
      engine:destroy()
      assert.equal("canceled", job:status().state)
      engine = probe.job_engine(SPLITS)
    end
  end)

  describe("whose storage fails", function()
    -- What fails once, and what the user reads of it.
    local cases = {
      { "172: the rename of _metadata", "rename", "_metadata", "EIO", "_metadata could not be written" },
      { "172: a sync of _metadata", "sync", "_metadata", "EIO", "_metadata could not be written" },
      { "the folder of the checkpoint", "make_dir", "chk-2", "EACCES", "could not be made durable" },
      { "326: a full disk under keyed state", "write", ".keys", "ENOSPACE", "could not write its part" },
      { "keyed state that cannot be created", "create", ".keys", "EIO", "could not write its part" },
      { "keyed state that cannot be synced", "sync", ".keys", "EIO", "could not write its part" },
    }
    for _, case in ipairs(cases) do
      it("loses that checkpoint only: " .. case[1], function()
        local code = case[4] == "EACCES" and "EACCESS" or case[4]
        local job = start { parallelism = 2 }
        engine:allow(50)
        assert.equal(1, assert(job:checkpoint()))
        engine:fail(case[2], case[3], 1, code)
        engine:allow(100)
        local id, message = job:checkpoint()
        assert.is_nil(id)
        assert.matches("checkpoint 2 was not taken", message)
        assert.matches(case[5], message)
        assert.equal(1, engine:failed())
        assert.equal(1, job:status().last)
        assert.is_true(has_checkpoint(1))
        assert.is_false(has_checkpoint(2))
        engine:allow(150)
        assert.equal(3, assert(job:checkpoint()))
        assert.is_true(has_checkpoint(3))
        assert.equal(1, job:status().attempt)
        -- nothing of the failed one is left once its deletion, which is before this one, is done
        assert.equal(4, assert(job:checkpoint()))
        assert.is_false(exists(dir .. "/ckpt/job/chk-2"))
        finish(job, 200)
      end)
    end

    it("goes back to the last good one where the next was lost", function()
      local job = start { parallelism = 2 }
      engine:allow(50)
      assert(job:checkpoint())
      engine:fail("rename", "_metadata", 1)
      engine:allow(100)
      assert.is_nil((job:checkpoint()))
      job:cancel()
      job:wait()
      finish(start { parallelism = 3, from = "latest" }, 150)
    end)

    it("ends where more failed in a row than it tolerates", function()
      local job = start { tolerable = 1 }
      engine:allow(10)
      engine:fail("rename", "_metadata", 1000)
      assert.is_nil((job:checkpoint()))
      assert.is_nil((job:checkpoint()))
      local status = job:wait()
      assert.equal("failed", status.state)
      assert.matches("tolerable_failures", status.error)
    end)

    local function visible(lines)
      local limit = os.time() + 60
      while select(2, output()) < lines do assert(os.time() < limit, "the part is not committed") end
      assert.equal(lines, (select(2, output())))
    end

    it("282. order: what came behind a barrier is not seen before its own checkpoint is complete", function()
      local job = start { parallelism = 2 }
      for i = 1, 3 do
        engine:allow(50 * i)
        arrived(job, 50 * i * SPLITS)
        visible(50 * (i - 1) * SPLITS)
        assert(job:checkpoint())
        visible(50 * i * SPLITS)
      end
      finish(job, 200)
    end)

    it("283, 288. crash between durable and notice: 4 subtasks' parts are committed by 2, once", function()
      local job = start { parallelism = 4 }
      engine:allow(50)
      arrived(job, 50 * SPLITS)
      engine:fail("rename", "_metadata", 3) -- three parts of each subtask are pending then
      for i = 1, 3 do
        assert.is_nil((job:checkpoint()))
        engine:allow(50 + 10 * i)
        arrived(job, (50 + 10 * i) * SPLITS)
      end
      engine:fail("rename", "/out/job.out.", 1000)
      local id = assert(job:checkpoint())
      assert.equal("failed", job:wait().state)
      visible(0)
      engine:fail("rename", "/out/job.out.", 0)
      job = start { parallelism = 2, from = "latest" }
      visible(80 * SPLITS)
      assert.equal(id, job:wait("running").last)
      finish(job, 100)
    end)

    it("287. abort of checkpoint: what it held is committed with the next one", function()
      local job = start { parallelism = 2 }
      engine:allow(50)
      arrived(job, 50 * SPLITS)
      engine:fail("rename", "_metadata", 1)
      assert.is_nil((job:checkpoint()))
      engine:allow(60)
      arrived(job, 60 * SPLITS)
      visible(0)
      assert(job:checkpoint())
      visible(60 * SPLITS)
      finish(job, 70)
    end)

    it("289. empty transaction: neither an error nor a file", function()
      local job = start { parallelism = 2 }
      for _ = 1, 3 do assert(job:checkpoint()) end
      job:cancel()
      job:wait()
      local list <close> = assert(io.popen("ls -A '" .. dir .. "/out'"))
      assert.equal("", list:read("a"))
    end)

    for _, drain in ipairs { false, true } do
      local how = drain and "with" or "without"
      it(("259. a stop %s drain whose checkpoint cannot be written"):format(how), function()
        local job = start { parallelism = 2, attempts = 3, interval_ms = drain and 1 or nil }
        engine:allow(50)
        assert(job:checkpoint())
        engine:fail("rename", "_metadata", 1)
        local id, message = job:stop(drain)
        if drain then -- it is tried again: nothing else is left to do
          assert(id, message)
          assert.same({ "finished", false }, { job:wait().state, job:wait().stopped })
          return
        end
        assert.is_nil(id)
        assert.matches("_metadata could not be written", message, 1, true)
        finish(job, 100) -- it goes on
      end)

      it(("260. a stop %s drain of which a sink cannot commit"):format(how), function()
        local job = start { parallelism = 2, attempts = 3 }
        engine:allow(50)
        arrived(job, 50 * SPLITS)
        engine:fail("rename", "/out/job.out.", 1)
        local id = assert(job:stop(drain))
        local status = job:wait()
        assert.equal(1, engine:failed())
        if drain then -- the job is complete: the next attempt commits, and does nothing else
          assert.same({ "finished", 2 }, { status.state, status.attempt })
          assert_exactly_once(50)
          return
        end
        assert.same({ "failed", 1, id }, { status.state, status.attempt, status.last },
          "no attempt runs on behind the checkpoint that stopped it")
        finish(start { parallelism = 3, from = "latest" }, 100)
      end)
    end

    it("256. stops at any moment, again and again, and what follows goes on there", function()
      for round = 1, 15 do
        local job = start { parallelism = round % 3 + 1, interval_ms = 1,
                            from = round > 1 and "latest" or nil }
        engine:allow(20 * round)
        if round % 2 == 0 then job:wait_checkpoint(job:wait("running").last + 1) end
        assert(job:stop(false))
        local status = job:wait()
        assert.same({ "finished", true }, { status.state, status.stopped })
      end
      finish(start { parallelism = 2, from = "latest" }, 320)
    end)

    it("syncs what lies in its folder, unless it was told not to", function()
      local job = start { parallelism = 2 }
      engine:allow(50)
      for _, operation in ipairs { "sync", "sync_dir" } do
        engine:fail(operation, "/ckpt/", 1000000)
        assert.is_nil((job:checkpoint()))
      end
      job:cancel()
      job:wait()
      engine:fail("sync", "/ckpt/", 1000000)
      job = start { parallelism = 2, unsynced = 1, from = "latest" }
      local id = assert(job:checkpoint())
      engine:fail("sync_dir", "/ckpt/", 1000000)
      assert.equal(id + 1, assert(job:checkpoint()))
      assert.equal(0, engine:failed())
      finish(job, 100)
    end)

    it("328: goes on with checkpoints where old ones cannot be deleted", function()
      local job = start { parallelism = 2, retain = 1 }
      engine:fail("remove", "chk-", 1000000)
      for i = 1, 20 do
        engine:allow(10 * i)
        assert.equal(i, assert(job:checkpoint()))
      end
      assert.truthy(engine:failed() >= 18) -- the deletion of 19 may still be under way
      assert.is_true(has_checkpoint(20))
      engine:fail("remove", "chk-", 0)
      job:cancel()
      job:wait()
      -- a later run finds them and deletes all but the newest, before its second checkpoint
      local again = start { parallelism = 2, from = "latest" }
      local id = assert(again:checkpoint())
      assert.equal(id + 1, assert(again:checkpoint()))
      for old = 1, id - 1 do assert.is_false(has_checkpoint(old)) end
      finish(again, 300)
    end)

    it("fails by name where the sink cannot write, and loses nothing", function()
      local job = start { parallelism = 2, attempts = 3 }
      engine:allow(50)
      assert(job:checkpoint())
      engine:fail("write", ".inprogress", 1, "ENOSPACE")
      engine:allow(100)
      job:checkpoint() -- seals the part, which writes it
      finish(job, 200)
      assert.truthy(engine:failed() == 1)
    end)

    it("commits what was promised although the first commit fails", function()
      local job = start { parallelism = 2, attempts = 3 }
      engine:allow(50)
      engine:fail("rename", "/out/job.out.", 1)
      assert(job:checkpoint())
      finish(job, 100)
      assert.equal(1, engine:failed())
    end)
  end)
end)
