-- A part of the job fails alone: the coordinator's side (reference 2.5: any failover, also of one
-- region, stops the scheduler and aborts what is pending; it starts again when all tasks run).
local Job = require "support.coordinator"
local probe = require "streamckpt.probe"
local list, find = Job.list, Job.find

-- Two parts: A1 feeds A2, B1 feeds B2.
local A1, A2, B1, B2 = 0, 1, 2, 3
local GRAPH = { {}, { A1 }, {}, { B1 } }
local ONLY_A, ALL = { true, true, false, false }, { true, true, true, true }

local function new(options)
  local job = Job.new(options, GRAPH)
  job:start()
  return job
end

local function fail(job, task) return list(job:event("suspend", "task_failed", task)) end

describe("a part of the job that fails alone", function()
  it("aborts what is pending and what was asked for, and counts no failure", function()
    local job = new { tolerable = 0 }
    job:request()
    job:request()
    job:ack(1, B1)
    local round = job:event("suspend", "task_failed", A1)
    assert.equal("abort 1 answer 1 answer 0", list(round))
    assert.equal("task_failed", find(round, "abort").reason)
    assert.equal(A1, find(round, "abort").task)
    assert.equal(0, probe.coordinator_failures(job.c))
  end)

  it("takes no late acknowledgement, of either part, for the aborted one", function()
    local job = new()
    job:request()
    job:ack(1, A1)
    job:ack(1, A2)
    fail(job, A2)
    assert.equal("discard 1", list(job:ack(1, B1)))
    job:event("resume", ONLY_A)
    assert.equal("discard 1", list(job:ack(1, B2)))
    assert.equal(0, probe.coordinator_latest(job.c))
  end)

  it("triggers nothing before all run again, then after a whole interval", function()
    local job = new { interval = 100 }
    job:at(50)
    fail(job, A1)
    assert.equal("", list(job:at(1000)))
    assert.equal("answer 0", list((select(2, job:request()))))
    job:event("resume", ONLY_A)
    assert.equal("", list(job:at(1099), "trigger"))
    assert.equal("trigger 1", list(job:at(1100), "trigger"))
  end)

  it("tells what was decided before to the tasks that run on", function()
    local job = new { interval = 100 }
    job:at(100)
    job:ack_all(1)
    assert.equal("", fail(job, A1))
    assert.is_true(probe.coordinator_writing(job.c))
    assert.equal("complete 1", list(job:event("written", 1, true)))
    assert.is_false(probe.coordinator_writing(job.c))
  end)

  it("tells nothing of it after a stop that follows", function()
    local job = new { interval = 100 }
    job:at(100)
    job:ack_all(1)
    fail(job, A1)
    job:event("stop", "stopped")
    assert.equal("", list(job:event("written", 1, true)))
  end)

  it("keeps the others' end, and their final snapshots", function()
    local job = new { interval = 100 }
    job:event("end_of_data", B1)
    job:event("end_of_data", B2)
    job:at(100)
    for task = B1, B2 do job:ack(1, task, "ended") end
    for task = A1, A2 do job:ack(1, task) end
    job:event("written", 1, true)
    assert.equal("finished 0", list(job:event("finish_request", B1)))
    fail(job, A2)
    job:event("resume", ONLY_A)
    -- B2 had ended and asked for nothing yet; B1 has left: three tasks are waited for.
    local trigger = find(job:at(200), "trigger")
    assert.same({ A1, B2 }, trigger.tasks)
    job:ack(2, A1)
    job:ack(2, B2, "ended")
    local write = find(job:ack(2, A2), "write")
    assert.equal(2, write.id)
    local ends = {}
    for i, snapshot in ipairs(write.snapshots) do ends[i] = snapshot["end"] end
    assert.same({ "running", "running", "finished", "ended" }, ends)
    assert.is_false(write.final)
  end)

  it("forgets the end and the final snapshots of those that were restarted", function()
    local job = new { interval = 100 }
    for task = A1, A2 do job:event("end_of_data", task) end
    job:at(100)
    for task = A1, A2 do job:ack(1, task, "ended") end
    for task = B1, B2 do job:ack(1, task) end
    job:event("written", 1, true)
    job:event("finish_request", A1)
    fail(job, A2)
    job:event("resume", ONLY_A)
    assert.same({ A1, B1 }, find(job:at(200), "trigger").tasks)
    -- Now B ends; A runs: no final one yet.
    for task = A1, A2 do job:ack(2, task) end
    for task = B1, B2 do job:ack(2, task) end
    job:event("written", 2, true)
    for task = B1, B2 do assert.equal("", list(job:event("end_of_data", task))) end
    job:event("end_of_data", A1)
    assert.equal("prepare 3 trigger 3", list(job:event("end_of_data", A2)))
  end)

  it("lets nobody leave in between; who asks again afterwards may", function()
    local job = new { interval = 100 }
    job:event("end_of_data", B1)
    job:at(100)
    job:ack(1, B1, "ended")
    for _, task in ipairs { A1, A2, B2 } do job:ack(1, task) end
    job:event("written", 1, true)
    fail(job, A1)
    assert.equal("", list(job:event("finish_request", B1)))
    job:event("resume", ONLY_A)
    assert.equal("", list(job:event("tick")))
    local round = job:event("finish_request", B1)
    assert.equal("finished 0", list(round))
    assert.equal(B1, round[1].task)
  end)

  it("may fail again and again, and in all its parts", function()
    local job = new { interval = 100 }
    for _ = 1, 3 do
      fail(job, A1)
      job:event("resume", ONLY_A)
      fail(job, B2)
      job:event("resume", ALL)
    end
    job:at(100)
    assert.equal("write 1", list(job:ack_all(1)))
  end)
end)
