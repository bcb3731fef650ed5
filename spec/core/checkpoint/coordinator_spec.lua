local Job = require "support.coordinator"
local probe = require "streamckpt.probe"

local find, list = Job.find, Job.list
local S, M, K = 0, 1, 2

-- A started job that takes checkpoints on request only.
local function manual(options, graph, hold)
  local job = Job.new(options, graph, hold)
  job:start()
  return job
end

-- Which tasks are triggered where some are finished. vertices: parallelism of each; edges: lists of
-- { from, to, "all" or "pointwise" }; finished: per vertex the subtasks. Names are "vertex.subtask".
local function plan(vertices, edges, finished)
  local first, graph, names = {}, {}, {}
  for v, p in ipairs(vertices) do
    first[v] = #graph
    for i = 0, p - 1 do
      graph[#graph + 1] = {}
      names[#graph - 1] = (v - 1) .. "." .. i
    end
  end
  for _, e in ipairs(edges) do
    local from, to = e[1] + 1, e[2] + 1
    for i = 0, vertices[to] - 1 do
      local senders = graph[first[to] + i + 1]
      if e[3] == "all" then
        for k = 0, vertices[from] - 1 do senders[#senders + 1] = first[from] + k end
      else
        senders[#senders + 1] = first[from] + i % vertices[from]
      end
    end
  end
  local job = Job.new({}, graph)
  job:start()
  for v, subtasks in pairs(finished or {}) do
    for _, i in ipairs(subtasks) do
      probe.coordinator_restored_finished(job.c, { task = first[v + 1] + i })
      job:event("finish_request", first[v + 1] + i)
    end
  end
  local _, round = job:request()
  local out = {}
  for i, task in ipairs(find(round, "trigger").tasks) do out[i] = names[task] end
  return table.concat(out, " ")
end

local function numbers(v, from, to)
  local out = {}
  for i = from, to do out[#out + 1] = v .. "." .. i end
  return table.concat(out, " ")
end

describe("coordinator", function()
  it("157. happy path", function()
    local job = manual()
    local request, round = job:request()
    assert.equal("reserve 1000 prepare 1 trigger 1", list(round))
    assert.same({ S }, find(round, "trigger").tasks)
    assert.equal("", list(job:ack(1, S)))
    assert.equal("", list(job:ack(1, M)))
    round = job:ack(1, K)
    assert.equal("write 1", list(round))
    assert.equal(3, #round[1].snapshots)
    assert.is_false(round[1].final)
    assert.is_true(probe.coordinator_writing(job.c))
    assert.equal(0, probe.coordinator_latest(job.c))
    round = job:event("written", 1, true)
    assert.equal("complete 1 answer 1", list(round))
    assert.equal(request, round[2].request)
    assert.equal("none", round[2].reason)
    assert.equal(1, probe.coordinator_latest(job.c))
    assert.is_false(probe.coordinator_writing(job.c))
  end)

  it("158. ids rise, also over restarts", function()
    local job = Job.new { interval = 10 }
    job:start()
    for id = 1, 5 do
      assert.equal("prepare " .. id .. " trigger " .. id, list(job:at(id * 10), "prepare", "trigger"))
      if id == 3 then job:event("decline", 3, M, "declined", "no") else job:complete(id) end
    end
    job:event("stop", "stopped")
    assert.equal(math.maxinteger, probe.coordinator_deadline(job.c))
    assert.equal("", list(job:at(500)))
    job:start()
    for id = 6, 10 do
      assert.equal("prepare " .. id .. " trigger " .. id,
        list(job:at(500 + (id - 5) * 10), "prepare", "trigger"))
      job:complete(id)
    end
    local again = Job.new()
    probe.coordinator_begin_ids(again.c, 1000)
    again:start()
    local _, round = again:request()
    assert.equal("reserve 2000 prepare 1001 trigger 1001", list(round))
  end)

  it("158. triggers carry the wall clock of their start, which grows", function()
    local job, last = Job.new { interval = 10 }, 0
    job:start()
    for id = 1, 5 do
      local t = find(job:at(id * 10), "trigger").timestamp
      assert.equal(1000000 + id * 10, t)
      assert.is_true(t >= last)
      last = t
      job:complete(id)
    end
  end)

  it("159. not all tasks running: a request before the start is refused", function()
    local job = Job.new()
    local request, round = job:request()
    assert.equal("answer 0", list(round))
    assert.equal(request, round[1].request)
    assert.equal("not_running", round[1].reason)
  end)

  it("160. cancelled source: a request after the stop is refused", function()
    local job = manual()
    job:event("stop", "task_failed", S)
    local _, round = job:request()
    assert.equal("not_running", round[1].reason)
    assert.equal(0, probe.coordinator_failures(job.c))
  end)

  it("161. plan, all running", function()
    assert.equal(numbers(0, 0, 2) .. " " .. numbers(1, 0, 3), plan({ 3, 4, 5, 6 },
      { { 0, 2, "all" }, { 1, 2, "pointwise" }, { 2, 3, "all" } }))
  end)

  it("162. plan, all-to-all with finished sources", function()
    assert.equal("0.2", plan({ 3, 4 }, { { 0, 1, "all" } }, { [0] = { 0, 1 } }))
  end)

  it("163. plan, pointwise with finished sources", function()
    local edges = { { 0, 1, "pointwise" } }
    assert.equal("0.2 0.3 1.0 1.1", plan({ 4, 4 }, edges, { [0] = { 0, 1 } }))
    assert.equal("0.2 0.3 1.1", plan({ 4, 4 }, edges, { [0] = { 0, 1 }, [1] = { 0 } }))
  end)

  it("164. plan, multiple inputs", function()
    assert.equal("1.1 1.4 2.0 2.1 2.3", plan({ 3, 5, 5, 5 },
      { { 0, 3, "all" }, { 1, 3, "pointwise" }, { 2, 3, "pointwise" } },
      { [0] = { 0, 1, 2 }, [1] = { 0, 2, 3 }, [2] = { 2, 4 }, [3] = { 2 } }))
  end)

  it("165. plan, levels", function()
    local all = {}
    for i = 0, 15 do all[#all + 1] = i end
    assert.equal(table.concat({ numbers(0, 4, 15), numbers(2, 2, 3), numbers(3, 0, 3) }, " "),
      plan({ 16, 16, 16, 16, 16 }, { { 0, 2, "pointwise" }, { 0, 3, "pointwise" }, { 1, 2, "all" },
        { 1, 3, "pointwise" }, { 2, 4, "pointwise" }, { 3, 4, "all" } },
        { [0] = { 0, 1, 2, 3 }, [1] = all, [2] = { 0, 1 } }))
  end)

  it("166. duplicate ack", function()
    local job = manual()
    job:request()
    job:ack(1, M, "running", 5)
    assert.equal("", list(job:ack(1, M, "running", 6)))
    job:ack(1, S)
    local round = job:ack(1, K)
    assert.equal("write 1", list(round))
    assert.equal(5, round[1].snapshots[M + 1].bytes)
    assert.equal("", list(job:ack(1, K)), "while it is written")
    job:event("written", 1, true)
    assert.equal("", list(job:ack(1, K)), "its files are those of the completed checkpoint")
  end)

  it("167. ack from unknown task or old attempt", function()
    local job = manual()
    job:request()
    job:event("stop", "task_failed", M)
    job:start()
    job:request()
    local round = job:ack(1, M, "running", 77)
    assert.equal("discard 1", list(round))
    assert.equal(77, round[1].snapshots[1].bytes)
    assert.equal("discard 2", list(job:ack(2, 3)))
    assert.equal("discard 99", list(job:ack(99, M)))
    assert.equal("complete 2 answer 2", list(job:complete(2), "complete", "answer"))
  end)

  it("168. late ack after expiry", function()
    local job = manual { timeout = 100 }
    job:request()
    job:ack(1, S)
    assert.equal(100, probe.coordinator_deadline(job.c))
    local round = job:at(101)
    assert.equal("abort 1 answer 1", list(round))
    assert.equal("expired", round[1].reason)
    assert.equal("expired", round[2].reason)
    -- Who is waited for is what the user has to know.
    for _, a in ipairs(round) do
      assert.same({ M, "it had not acknowledged (1 of 3 tasks had)" }, { a.task, a.text })
    end
    assert.equal(1, probe.coordinator_failures(job.c))
    assert.equal("discard 1", list(job:ack(1, M)))
  end)

  it("168. a write that fails after expiry: what it had begun kept the folder, which goes now", function()
    local job = manual { timeout = 100 }
    job:request()
    assert.equal("abort 1 answer 1", list(job:at(101)))
    local round = job:event("decline", 1, M, "async_failed", "the disk is full")
    assert.equal("discard 1", list(round))
    assert.same({ M }, { round[1].snapshots[1].task })
    assert.equal(1, probe.coordinator_failures(job.c))
    assert.equal("", list(job:event("decline", 1, M, "superseded")), "it had written nothing")
    job:request()
    job:complete(2)
    assert.equal("", list(job:event("decline", 2, M, "async_failed")), "its files are needed")
  end)

  it("168. expires while its folder is being made, too", function()
    local job = manual({ timeout = 100 }, nil, { prepare = true })
    job:request()
    local round = job:at(100)
    assert.equal("abort 1 answer 1", list(round))
    assert.same({ nil, "its folder was still being made" }, { round[1].task, round[1].text })
    assert.equal("", list(job:event("prepared", 1, true)))
  end)

  it("168. neither expires nor is declined once it is decided", function()
    local job = manual { timeout = 100 }
    job:request()
    job:ack_all(1)
    assert.equal("", list(job:at(1000)))
    assert.equal("", list(job:event("decline", 1, M, "declined")))
    assert.equal("complete 1 answer 1", list(job:event("written", 1, true)))
  end)

  it("169. decline", function()
    local job = manual()
    job:request()
    local round = job:event("decline", 1, M, "declined", "the disk is full")
    assert.equal("abort 1 answer 1", list(round))
    assert.equal("declined", round[1].reason)
    assert.equal(M, round[1].task)
    assert.equal("the disk is full", round[1].text)
    assert.equal("the disk is full", round[2].text)
    assert.equal(1, probe.coordinator_failures(job.c))
    assert.equal("", list(job:event("decline", 1, K, "declined")))
    job:request()
    job:complete(2)
    assert.equal(0, probe.coordinator_failures(job.c))
  end)

  it("170. decline of a completed or unknown id", function()
    local job = manual()
    job:request()
    job:complete(1)
    assert.equal("", list(job:event("decline", 1, M, "declined")))
    assert.equal("", list(job:event("decline", 99, M, "declined")))
    job:request()
    assert.equal("", list(job:event("decline", 2, 17, "declined")), "there is no such task")
    assert.equal(0, probe.coordinator_failures(job.c))
  end)

  it("171. newer completes first", function()
    local job = manual { max_concurrent = 2 }
    local one = job:request()
    job:request()
    job:ack(1, S)
    job:ack(1, M)
    local round = job:complete(2)
    assert.equal("write 2 complete 2 answer 2 abort 1 answer 1", list(round))
    assert.equal("subsumed", round[4].reason)
    assert.equal(one, round[5].request)
    assert.equal("subsumed", round[5].reason)
    assert.equal("discard 1", list(job:ack(1, K)))
    assert.equal(0, probe.coordinator_failures(job.c))
  end)

  it("171. writes one at a time, in the order of ids", function()
    local job = manual { max_concurrent = 3 }
    for _ = 1, 3 do job:request() end
    assert.equal("write 1", list(job:ack_all(1)))
    assert.equal("", list(job:ack_all(3)))
    assert.equal("", list(job:ack_all(2)))
    assert.equal("complete 1 answer 1 write 2", list(job:event("written", 1, true)))
    assert.equal("complete 2 answer 2 delete 1 write 3", list(job:event("written", 2, true)))
    assert.equal("complete 3 answer 3 delete 2", list(job:event("written", 3, true)))
  end)

  it("171. an older one that is acknowledged while a newer one is written waits for the outcome", function()
    for _, ok in ipairs { true, false } do
      local job = manual { max_concurrent = 2 }
      job:request()
      job:request()
      job:ack_all(2)
      assert.equal("", list(job:ack_all(1)))
      assert.equal(ok and "complete 2 answer 2 abort 1 answer 1" or "abort 2 answer 2 write 1",
        list(job:event("written", 2, ok)))
      if not ok then assert.equal("complete 1 answer 1", list(job:event("written", 1, true))) end
    end
  end)

  it("172. metadata write fails", function()
    local job = manual()
    job:request()
    job:complete(1)
    job:request()
    job:ack_all(2)
    local round = job:event("written", 2, false)
    assert.equal("abort 2 answer 2", list(round))
    assert.equal("finalize", round[1].reason)
    assert.equal(1, probe.coordinator_latest(job.c))
    assert.equal(1, probe.coordinator_failures(job.c))
    assert.equal("", list(job:event("written", 2, true)))
  end)

  it("173. store add failure keeps old", function()
    local job = manual()
    probe.coordinator_add_completed(job.c, 99)
    local _, round = job:request()
    assert.equal("prepare 100", list(round, "prepare"))
    job:ack_all(100)
    assert.equal("abort 100 answer 100", list(job:event("written", 100, false)))
    assert.equal(99, probe.coordinator_latest(job.c))
  end)

  it("174. retention", function()
    for retain, expected in pairs { [1] = "delete 1 delete 2 delete 3", [3] = "delete 1", [0] =
      "delete 1 delete 2 delete 3" } do
      local job = manual { retain = retain }
      for id = 1, 4 do
        job:request()
        job:complete(id)
      end
      assert.equal(expected, list(job.log, "delete"))
      assert.equal(4, probe.coordinator_latest(job.c))
    end
  end)

  it("174. those found at the start leave when a new one completes, not before", function()
    local job = Job.new { retain = 2 }
    for id = 3, 6 do probe.coordinator_add_completed(job.c, id) end
    job:start()
    assert.equal(6, probe.coordinator_latest(job.c))
    assert.equal("", list(job.log, "delete"))
    job:request()
    assert.equal("delete 3 delete 4 delete 5", list(job:complete(7), "delete"))
  end)

  it("174. those found beside the last one of a complete job leave by themselves", function()
    local job = Job.new { retain = 2 }
    for id = 3, 6 do probe.coordinator_add_completed(job.c, id) end
    probe.coordinator_trim(job.c)
    assert.equal("delete 3 delete 4", list(job:drain()))
    assert.equal(6, probe.coordinator_latest(job.c))
    probe.coordinator_trim(job.c)
    assert.equal("", list(job:drain()))
  end)

  it("178. tolerable failures fail the job, and it is told once", function()
    local job = manual { tolerable = 1 }
    job:request()
    assert.equal("abort 1 answer 1", list(job:event("decline", 1, M, "declined")))
    job:request()
    assert.equal("abort 2 answer 2", list(job:event("decline", 2, M, "task_closing")))
    job:request()
    local round = job:event("decline", 3, M, "async_failed")
    assert.equal("abort 3 answer 3 fail_job 3", list(round))
    assert.equal("async_failed", round[3].reason)
    assert.equal(2, probe.coordinator_failures(job.c), "the log tells of those that were too many")
    job:event("stop", "stopped")
    job:start()
    job:request()
    assert.equal("abort 4 answer 4", list(job:event("decline", 4, M, "declined")))
    assert.equal(1, probe.coordinator_failures(job.c), "counted anew")
  end)

  it("179. task failure while pending", function()
    local job = manual { max_concurrent = 2 }
    job:request()
    job:request()
    job:request()
    job:ack(1, S)
    local round = job:event("stop", "task_failed", M)
    assert.equal("abort 1 answer 1 abort 2 answer 2 answer 0", list(round))
    for _, a in ipairs(round) do
      assert.equal("task_failed", a.reason)
      assert.equal(M, a.task)
    end
    assert.equal("discard 1", list(job:ack(1, M)))
    assert.equal("discard 1", list(job:ack(1, K)))
    assert.equal(0, probe.coordinator_failures(job.c))
  end)

  it("179. a decided one is let to its end, and nobody is told", function()
    local job = manual { max_concurrent = 2 }
    local one = job:request()
    job:request()
    job:ack_all(1)
    job:ack_all(2)
    assert.equal("", list(job:event("stop", "task_failed", M)))
    assert.is_true(probe.coordinator_writing(job.c))
    local round = job:event("written", 1, true)
    assert.equal("answer 1 write 2", list(round))
    assert.equal(one, round[1].request)
    assert.is_true(probe.coordinator_writing(job.c))
    assert.equal("answer 2 delete 1", list(job:event("written", 2, true)))
    assert.is_false(probe.coordinator_writing(job.c))
    assert.equal(2, probe.coordinator_latest(job.c))
  end)

  it("180. a checkpoint of the attempt before is not told to the next one's tasks", function()
    local job = manual()
    job:request()
    job:ack_all(1)
    job:event("stop", "task_failed", M)
    job:start()
    assert.equal("answer 1", list(job:event("written", 1, true)))
    assert.equal(1, probe.coordinator_latest(job.c))
  end)

  it("181. abort while trigger stage is running", function()
    local job = manual({}, nil, { prepare = true })
    job:request()
    job:event("stop", "task_failed", S)
    job:start()
    local _, round = job:request()
    assert.equal("prepare 2", list(round))
    assert.equal("", list(job:event("prepared", 1, true)))
    assert.equal("trigger 2", list(job:event("prepared", 2, true)))
  end)

  it("181. a folder that cannot be made aborts and counts", function()
    local job = manual({ tolerable = 0 }, nil, { prepare = true })
    job:request()
    local round = job:event("prepared", 1, false)
    assert.equal("abort 1 answer 1 fail_job 1", list(round))
    assert.equal("io", round[1].reason)
  end)

  it("182. queue when too many pending", function()
    local job = Job.new { interval = 100, timeout = 10000 }
    job:start()
    job:at(100)
    local request, round = job:request()
    assert.equal("", list(round))
    assert.equal("", list(job:at(950)), "periodic ones wait, too")
    assert.equal("complete 1 prepare 2 trigger 2", list(job:complete(1), "complete", "prepare", "trigger"))
    round = job:complete(2)
    assert.equal(request, find(round, "answer").request)
    assert.equal(3, find(round, "trigger").id)
    assert.equal("", list(job:complete(3), "prepare"), "intervals that passed are not made up for")
    assert.equal("prepare 4 trigger 4", list(job:at(1000), "prepare", "trigger"))
  end)

  it("183. queue when too many cleanups", function()
    local job = manual({ retain = 1 }, nil, { delete = true })
    for id = 1, 3 do
      job:request()
      job:complete(id)
    end
    assert.equal("delete 1 delete 2", list(job.log, "delete"))
    local _, round = job:request()
    assert.equal("", list(round))
    assert.equal("prepare 4 trigger 4", list(job:event("deleted", 1)))
  end)

  it("186. bounded queue", function()
    local job = manual()
    for _ = 1, 1001 do
      local _, round = job:request()
      assert.is_nil(find(round, "answer"))
    end
    local request, round = job:request()
    assert.equal("answer 0", list(round))
    assert.equal(request, round[1].request)
    assert.equal("too_many_requests", round[1].reason)
  end)

  it("188. pause measured from end", function()
    local job = Job.new { interval = 100, min_pause = 50 }
    job.mono = -100
    job:start()
    assert.equal("prepare 1", list(job:at(0), "prepare"))
    job:at(80)
    job:complete(1)
    assert.equal("", list(job:at(129)))
    assert.equal("prepare 2", list(job:at(130), "prepare"))
    job:at(160)
    job:complete(2)
    assert.equal("", list(job:at(229)))
    assert.equal("prepare 3", list(job:at(230), "prepare"))
  end)

  it("187. pause and kind: a manual one does not wait", function()
    local job = Job.new { interval = 100, min_pause = 50 }
    job:start()
    job:at(100)
    job:complete(1)
    local _, round = job:request()
    assert.equal("prepare 2 trigger 2", list(round))
  end)

  it("189. pause and failed checkpoint: none by default, one where it is asked for", function()
    for pause, starts in pairs { [0] = { 200 }, [150] = { 250, 400 } } do
      -- The second fails at 100 and the third at its own start.
      local job = Job.new { interval = 100, failure_pause = pause }
      job:start()
      job:at(100)
      job:event("decline", 1, M, "declined")
      for i, at in ipairs(starts) do
        assert.equal("", list(job:at(at - 1), "prepare"), at)
        assert.equal("prepare " .. i + 1, list(job:at(at), "prepare"))
        job:event("decline", i + 1, M, "async_failed")
      end
    end
  end)

  it("189. what is nobody's fault makes no pause, and a manual one heeds none", function()
    local job = Job.new { interval = 100, failure_pause = 1000 }
    job:start()
    job:at(100)
    job:event("decline", 1, M, "superseded")
    assert.equal("prepare 2", list(job:at(200), "prepare"))
    job:event("decline", 2, M, "declined")
    assert.equal("prepare 3", list(select(2, job:request()), "prepare"))
  end)

  it("190. pause read is consistent: a periodic one never starts within the pause of a completion", function()
    math.randomseed(190)
    local job = Job.new { interval = 10, min_pause = 7, max_concurrent = 3 }
    job:start()
    local ended, open = -math.huge, {}
    for _ = 1, 3000 do
      for _, a in ipairs(job:at(job.mono + math.random(0, 4))) do
        if a.kind == "prepare" then
          assert.is_true(job.mono - ended >= 7, job.mono)
          open[#open + 1] = a.id
        end
      end
      if #open > 0 and math.random(3) == 1 then
        local id = table.remove(open, math.random(#open))
        for _, a in ipairs(job:complete(id)) do
          assert.not_equal("prepare", a.kind)
          if a.kind == "complete" then ended = job.mono end
        end
      end
    end
    assert.is_true(job.log[#job.log].id > 100, "too few for a meaning")
  end)

  it("191. starvation: with a pause half the time has no checkpoint, however long they take", function()
    for pause, expected in pairs { [0] = 10000, [500] = 5000 } do
      local job, busy, begun, id = Job.new { interval = 10, min_pause = pause }, 0, nil, nil
      local function note(actions)
        local prepare = find(actions, "prepare")
        if prepare then begun, id = job.mono, prepare.id end
      end
      job:start()
      while job.mono < 10000 do
        note(job:at(job.mono + 1))
        if begun and job.mono >= begun + 500 then
          busy, begun = busy + 500, nil
          note(job:complete(id))
        end
      end
      assert.is_true(math.abs(busy - expected) <= 500, busy)
    end
  end)

  it("192. a long block of everything: one checkpoint, not all that were missed", function()
    local job = Job.new { interval = 10, timeout = 60000 }
    job:start()
    job.now, job.mono = job.now + 1000000, job.mono + 1000000
    assert.equal("prepare 1", list(job:event("tick"), "prepare"))
    assert.equal("prepare 2", list(job:complete(1), "prepare") .. list(job:at(job.mono + 10), "prepare"))
  end)

  it("192. wall clock jumps", function()
    local job = Job.new { interval = 100, timeout = 250, min_pause = 20 }
    job:start()
    job:at(100)
    job:complete(1)
    job.now = job.now - 3600000
    assert.equal("", list(job:at(199)))
    local round = job:at(200)
    assert.equal("prepare 2 trigger 2", list(round))
    assert.equal(1000000 + 200 - 3600000, round[1].timestamp)
    job.now = job.now + 7200000
    assert.equal("", list(job:at(449)))
    assert.equal("abort 2 prepare 3 trigger 3", list(job:at(450)))
  end)
end)

describe("coordinator: ids", function()
  it("waits for the reservation and uses no id before it", function()
    local job = manual({}, nil, { reserve = true })
    local request, round = job:request()
    assert.equal("reserve 1000", list(round))
    assert.equal("", list(select(2, job:request())))
    probe.coordinator_reserved(job.c, 1000, true)
    round = job:drain()
    assert.equal("prepare 1 trigger 1", list(round))
    assert.equal(request, round[1].request)
  end)

  it("asks for the next block before the ids run out", function()
    local job = manual({}, nil, { reserve = true })
    job:request()
    probe.coordinator_reserved(job.c, 1000, true)
    job:drain()
    for id = 1, 1000 do
      local round = job:complete(id)
      assert.equal(id, find(round, "answer").id)
      if id < 1000 then job:request() end
    end
    assert.equal("reserve 1000 reserve 2000", list(job.log, "reserve"))
    assert.equal("", list(select(2, job:request())), "1001 is not reserved yet")
    probe.coordinator_reserved(job.c, 2000, true)
    assert.equal("prepare 1001 trigger 1001", list(job:drain()))
  end)

  it("fails what waited when ids cannot be reserved, and tries again for the next", function()
    local job = manual({ tolerable = 1 }, nil, { reserve = true })
    local one = job:request()
    local two = job:request()
    probe.coordinator_reserved(job.c, 1000, false)
    local round = job:drain()
    assert.equal("refused 0 answer 0 reserve 1000", list(round))
    assert.equal(one, round[2].request)
    assert.equal("io", round[1].reason)
    assert.equal("io", round[2].reason)
    probe.coordinator_reserved(job.c, 1000, false)
    round = job:drain()
    assert.equal("refused 0 answer 0 fail_job 0", list(round))
    assert.equal(two, round[2].request)
  end)

  it("reserves at the start where checkpoints are periodic, and waits for nothing then", function()
    local job = Job.new({ interval = 10 }, nil, { reserve = true })
    assert.equal("reserve 1000", list(job:start()))
    assert.equal("", list(job:at(35)), "no id, no checkpoint")
    probe.coordinator_reserved(job.c, 1000, true)
    assert.equal("prepare 1 trigger 1", list(job:drain()))
  end)

  it("goes on when a reservation comes after the stop", function()
    local job = manual({}, nil, { reserve = true })
    job:request()
    assert.equal("answer 0", list(job:event("stop", "stopped")))
    probe.coordinator_reserved(job.c, 1000, true)
    assert.equal("", list(job:drain()))
    job:start()
    local _, round = job:request()
    assert.equal("prepare 1 trigger 1", list(round))
  end)
end)

describe("coordinator: barriers that may overtake", function()
  local function overtake_at(options, mono)
    local job = Job.new(options)
    job.mono = mono
    job:start()
    return find(select(2, job:request()), "trigger").overtake_at
  end

  it("are told never, at once, or from when", function()
    assert.equal(0, overtake_at({}, 500))
    assert.equal(1, overtake_at({ unaligned = true }, 500))
    assert.equal(700, overtake_at({ unaligned = true, aligned_timeout = 200 }, 500))
    assert.equal(2, overtake_at({ unaligned = true, aligned_timeout = 1 }, 0), "1 is at once")
    assert.equal(math.maxinteger, overtake_at({ unaligned = true, aligned_timeout = math.maxinteger }, 5))
  end)

  it("count from the start of the checkpoint, not from when its folder was made", function()
    local job = manual({ unaligned = true, aligned_timeout = 100 }, nil, { prepare = true })
    job:request()
    job:at(70)
    assert.equal(100, find(job:event("prepared", 1, true), "trigger").overtake_at)
  end)

  it("have no other checkpoint beside them, whatever ends it", function()
    local job = manual { unaligned = true, max_concurrent = 5, timeout = 100 }
    for _ = 1, 4 do job:request() end
    assert.equal("prepare 1 trigger 1", list(job.log, "prepare", "trigger"))
    assert.equal("complete 1 prepare 2 trigger 2", list(job:complete(1), "complete", "prepare", "trigger"))
    assert.equal("prepare 3 trigger 3", list(job:event("decline", 2, M, "declined"), "prepare", "trigger"))
    assert.equal("prepare 4 trigger 4", list(job:at(100), "prepare", "trigger"))
  end)
end)

describe("coordinator: a stop", function()
  local function ask(job, drain)
    local round, number = job:event("request_stop", drain)
    return round, number
  end
  local function end_all(job)
    for task = 0, 2 do job:event("end_of_data", task) end
  end
  local function leave_all(job)
    local all = {}
    for task = 0, 2 do
      for _, a in ipairs(job:event("finish_request", task)) do all[#all + 1] = a end
    end
    return list(all)
  end

  it("256. stop without drain: tasks stand still after their snapshot, and leave when it is complete", function()
    local job = Job.new { interval = 100, unaligned = true }
    job:start()
    local round, number = ask(job, false)
    local trigger = find(round, "trigger")
    assert.same({ true, 0, 1 }, { trigger.stop, trigger.overtake_at, trigger.id }, "aligned")
    assert.equal("", list(job:at(1000)), "nothing else begins")
    round = job:ack_all(1)
    assert.same({ true, false }, { round[1].stop, round[1].final })
    round = job:event("written", 1, true)
    assert.equal("complete 1 answer 1", list(round))
    assert.same({ true, false }, { round[1].stop, round[1].final })
    assert.same({ number, "none" }, { round[2].request, round[2].reason })
    assert.equal("", list(job:at(5000)))
    assert.equal("finished 0 finished 0 finished 0", leave_all(job))
  end)

  it("257. stop with drain: sources end, and the final checkpoint answers", function()
    for _, interval in ipairs { 0, 100 } do
      local job = Job.new { interval = interval }
      job:start()
      local round, number = ask(job, true)
      assert.equal("drain 0", list(round, "drain", "prepare"))
      assert.equal("", list(job:at(1000)), "none is half drained")
      end_all(job)
      round = job:complete(1, "ended")
      assert.equal("write 1 complete 1 answer 1", list(round))
      assert.same({ true, false }, { round[2].final, round[2].stop })
      assert.same({ number, "none" }, { round[3].request, round[3].reason })
      assert.equal("finished 0 finished 0 finished 0", leave_all(job))
    end
  end)

  it("257. a task of a job without periodic checkpoints waits for the final one, too", function()
    local job = manual()
    ask(job, true)
    job:event("end_of_data", S)
    assert.equal("", list(job:event("finish_request", S)))
    job:event("end_of_data", M)
    job:event("end_of_data", K)
    assert.equal("complete 1 answer 1 finished 0", list(job:complete(1, "ended"), "complete", "answer", "finished"))
  end)

  it("257. a final checkpoint that fails is tried again, and answers then", function()
    local job = Job.new { interval = 100 }
    job:start()
    local _, number = ask(job, true)
    end_all(job)
    assert.equal("abort 1", list(job:event("decline", 1, K, "async_failed")))
    job:at(100)
    assert.equal(number, find(job:complete(2, "ended"), "answer").request)
  end)

  it("answers with the last of two final checkpoints, since the older one is deleted", function()
    for _, drain in ipairs { true, false } do
      local job = Job.new { interval = 100, max_concurrent = 2, retain = 1 }
      job:start()
      job:at(100)
      end_all(job) -- the first was triggered before, and will hold the end of all
      assert.equal("trigger 1 trigger 2", list(job.log, "trigger"))
      local round, number = ask(job, drain)
      assert.equal("", list(round))
      assert.equal("complete 1", list(job:complete(1, "ended"), "complete", "answer"))
      round = job:complete(2, "ended")
      assert.equal("complete 2 answer 2 delete 1", list(round, "complete", "answer", "delete"))
      assert.equal(number, find(round, "answer").request)
    end
  end)

  it("answers with the last of two final checkpoints also where all leave while it is written", function()
    local job = Job.new { interval = 100, max_concurrent = 2, retain = 1 }
    job:start()
    job:at(100)
    end_all(job)
    local _, number = ask(job, true)
    job:ack_all(1, "ended")
    job:ack_all(2, "ended")
    assert.equal("complete 1 write 2", list(job:event("written", 1, true)))
    assert.equal("finished 0 finished 0 finished 0", leave_all(job))
    assert.equal("", list(job:event("stop", "stopped")))
    local answer = find(job:event("written", 2, true), "answer")
    assert.same({ number, 2, "none" }, { answer.request, answer.id, answer.reason })
  end)

  it("answers with the older of two final checkpoints where the other fails, or the job leaves", function()
    for _, how in ipairs { "fails", "ends", "late" } do
      local job = Job.new { interval = 100, max_concurrent = 2, retain = 1 }
      job:start()
      job:at(100)
      end_all(job)
      local number = how ~= "late" and select(2, ask(job, true))
      assert.equal("complete 1", list(job:complete(1, "ended"), "complete", "answer"))
      if how == "late" then number = select(2, ask(job, true)) end
      local round = how == "ends" and job:event("stop", "stopped") or job:event("decline", 2, K, "async_failed")
      local answer = find(round, "answer")
      assert.same({ number, 1, "none" }, { answer.request, answer.id, answer.reason })
    end
  end)

  it("258. stop while a source ends by itself: the final checkpoint is the one to stop with", function()
    for _, drain in ipairs { true, false } do
      -- All had ended: it is under way.
      local job = Job.new { interval = 100 }
      job:start()
      end_all(job)
      local round, number = ask(job, drain)
      assert.equal("", list(round))
      assert.equal(number, find(job:complete(1, "ended"), "answer").request)
      -- It is complete, and tasks are leaving.
      job = Job.new { interval = 100 }
      job:start()
      end_all(job)
      job:complete(1, "ended")
      job:event("finish_request", S)
      round, number = ask(job, drain)
      assert.equal("answer 1", list(round))
      assert.same({ number, "none" }, { round[1].request, round[1].reason })
    end
  end)

  it("258. all end while it is taken: it is the final one", function()
    local job = Job.new { interval = 100 }
    job:start()
    local _, number = ask(job, false)
    end_all(job)
    local round = job:complete(1, "ended")
    assert.equal("write 1 complete 1 answer 1", list(round))
    assert.same({ true, number }, { round[2].final, round[3].request })
    assert.equal("", list(job:at(1000)))
  end)

  it("258. a part has ended: their final snapshots are listed, the others' as they are", function()
    local job = Job.new { interval = 100 }
    job:start()
    job:event("end_of_data", S)
    job:at(100)
    job:ack(1, S, "ended", 7)
    job:ack(1, M)
    job:ack(1, K)
    job:event("written", 1, true)
    assert.equal("finished 0", list(job:event("finish_request", S)))
    assert.same({ M }, find(ask(job, false), "trigger").tasks)
    job:ack(2, M)
    local write = find(job:ack(2, K), "write")
    assert.same({ 7, "finished" }, { write.snapshots[1].bytes, write.snapshots[1]["end"] })
  end)

  it("258. no task leaves whose state it would lose, until it has failed", function()
    local job = manual({}, nil, { prepare = true })
    job:event("end_of_data", S)
    ask(job, false)
    assert.equal("", list(job:event("finish_request", S)))
    assert.equal("abort 1 answer 1 finished 0", list(job:event("prepared", 1, false)))
  end)

  it("259. stop declined or failed: the job goes on, and can be stopped again", function()
    local job = Job.new { interval = 100, timeout = 50 }
    job:start()
    local _, number = ask(job, false)
    local round = job:event("decline", 1, M, "async_failed", "the disk is full")
    assert.equal("abort 1 answer 1", list(round))
    assert.same({ number, "async_failed", "the disk is full" },
      { round[2].request, round[2].reason, round[2].text })
    assert.equal("prepare 2 trigger 2", list(job:at(100), "prepare", "trigger"))
    job:complete(2)
    assert.is_true(find(ask(job, false), "trigger").stop)
    assert.equal("expired", find(job:at(150), "answer").reason)
    assert.is_true(find(ask(job, false), "trigger").stop)
    assert.equal("complete 4 answer 4", list(job:complete(4), "complete", "answer"))
  end)

  it("259. the attempt ends: it is answered, and the next one is not stopped", function()
    for _, drain in ipairs { true, false } do
      local job = Job.new { interval = 100 }
      job:start()
      local _, number = ask(job, drain)
      local answer = find(job:event("stop", "task_failed", M), "answer")
      assert.same({ number, "task_failed" }, { answer.request, answer.reason })
      job:start()
      local round = job:at(100)
      assert.is_false(find(round, "trigger").stop)
      assert.equal("complete", find(job:complete(find(round, "trigger").id), "complete").kind)
    end
  end)

  it("260. decided before a task fails: it completes, and answers", function()
    local job = Job.new { interval = 100 }
    job:start()
    ask(job, false)
    assert.is_true(find(job:ack_all(1), "write").stop)
    assert.equal("", list(job:event("stop", "task_failed", M)))
    local round = job:event("written", 1, true)
    assert.equal("answer 1", list(round))
    assert.equal("none", round[1].reason)
  end)

  it("185. savepoint before checkpoint: it goes before all that waits, and beside what is pending", function()
    local job = manual { max_concurrent = 1 }
    job:request()
    local second = job:request()
    assert.equal("prepare 2 trigger 2", list((ask(job, false))))
    assert.equal("complete 2 answer 2 abort 1 answer 1", list(job:complete(2), "complete", "answer", "abort"))
    assert.equal("", list(job:event("tick")), "what waited is not begun any more")
    local round = job:event("stop", "stopped")
    assert.equal("answer 0", list(round))
    assert.equal(second, round[1].request)
  end)

  it("waits for a folder that is being made, and is not overtaken then", function()
    local job = manual({}, nil, { prepare = true })
    job:request()
    assert.equal("", list((ask(job, false))))
    assert.equal("trigger 1 prepare 2", list(job:event("prepared", 1, true)))
    assert.is_true(find(job:event("prepared", 2, true), "trigger").stop)
  end)

  it("lets a checkpoint of before go on while it drains", function()
    local job = Job.new { interval = 100 }
    job:start()
    job:at(100)
    assert.equal("drain 0", list((ask(job, true))))
    assert.equal("complete 1", list(job:complete(1), "complete", "prepare"))
    end_all(job)
    assert.equal("complete 2 answer 2", list(job:complete(2, "ended"), "complete", "answer"))
  end)

  it("is refused while another is under way, and where none can be taken", function()
    local job = manual()
    ask(job, false)
    assert.equal("stopping", ask(job, true)[1].reason)
    job = manual()
    job:event("end_of_data", S)
    job:event("finish_request", S) -- leaves, and nothing holds its state
    for _, drain in ipairs { true, false } do
      local round = ask(job, drain)
      assert.equal("answer 0", list(round))
      assert.equal("not_running", round[1].reason)
    end
    assert.equal("not_running", ask(Job.new(), false)[1].reason, "before the start")
  end)

  it("is refused where some have ended and none is taken then; with drain it is not", function()
    local job = Job.new { interval = 100, all_or_none = true }
    job:start()
    job:event("end_of_data", S)
    local round = ask(job, false)
    assert.equal("not_running", round[1].reason)
    assert.matches("after_tasks_finish = false", round[1].text, 1, true)
    assert.equal("drain 0", list((ask(job, true))))
  end)

  it("fails where no id can be reserved for it", function()
    local job = manual({}, nil, { reserve = true })
    ask(job, false)
    probe.coordinator_reserved(job.c, 1000, false)
    local round = job:drain()
    assert.equal("refused 0 answer 0", list(round, "answer", "refused"))
    assert.equal("io", round[1].reason)
  end)
end)

describe("coordinator: none while only some tasks have ended", function()
  it("takes checkpoints until the first task has ended, and then the final one", function()
    local job = Job.new { interval = 100, all_or_none = true }
    job:start()
    assert.equal("prepare 1 trigger 1", list(job:at(100), "prepare", "trigger"))
    job:complete(1)
    job:event("end_of_data", S)
    local told = job:at(250)
    assert.equal("refused 0", list(told), "a user wonders where they stay")
    assert.same({ "not_running", "only some tasks have ended, and with checkpoint.after_tasks_finish = false "
      .. "none is taken before all have" }, { told[1].reason, told[1].text })
    assert.equal("", list(job:at(350)), "once is enough")
    local _, round = job:request()
    assert.equal("answer 0", list(round))
    assert.equal("not_running", round[1].reason)
    job:event("end_of_data", M)
    assert.equal("prepare 2 trigger 2", list(job:event("end_of_data", K)))
    assert.is_true(find(job:complete(2, "ended"), "complete").final)
    assert.equal(0, probe.coordinator_failures(job.c))
  end)

  it("gives up one in which some had ended and others not", function()
    local job = Job.new { interval = 100, all_or_none = true }
    job:start()
    job:at(100)
    job:ack(1, S, "ended")
    job:ack(1, M)
    local round = job:ack(1, K)
    assert.equal("abort 1", list(round))
    assert.equal("task_closing", round[1].reason)
    assert.equal(0, probe.coordinator_failures(job.c), "nobody's fault")
  end)

  it("keeps one in which none had ended, though one has since", function()
    local job = Job.new { interval = 100, all_or_none = true }
    job:start()
    job:at(100)
    job:ack(1, S)
    job:event("end_of_data", S)
    job:ack(1, M)
    assert.equal("write 1", list(job:ack(1, K)))
  end)

  it("looks again when the folder is there", function()
    local job = Job.new({ all_or_none = true }, nil, { prepare = true })
    job:start()
    job:request()
    job:event("end_of_data", S)
    local round = job:event("prepared", 1, true)
    assert.equal("abort 1 answer 1", list(round))
    assert.equal("not_running", round[1].reason)
  end)
end)

describe("coordinator: end of input", function()
  local function end_all(job)
    local all = {}
    for task = 0, #job.graph - 1 do
      for _, a in ipairs(job:event("end_of_data", task)) do all[#all + 1] = a end
    end
    return all
  end

  it("296. final checkpoint", function()
    local job = Job.new { interval = 1000, min_pause = 500 }
    job:start()
    job:at(1000)
    job:complete(1)
    job:at(1003)
    assert.equal("prepare 2 trigger 2", list(end_all(job)), "at once, whatever the pause")
    local round = job:ack_all(2, "ended")
    assert.is_true(find(round, "write").final)
    round = job:event("written", 2, true)
    assert.equal("complete 2 delete 1", list(round))
    assert.is_true(round[1].final)
    for task = 0, 2 do
      round = job:event("finish_request", task)
      assert.equal("finished 0", list(round))
      assert.equal(task, round[1].task)
    end
    assert.equal("", list(job:at(9999), "prepare"), "there is no task left to take one")
    assert.equal("not_running", select(2, job:request())[1].reason)
  end)

  it("297. final id is the next one", function()
    local job = Job.new { interval = 1000 }
    probe.coordinator_begin_ids(job.c, 41)
    job:start()
    assert.equal(42, find(end_all(job), "trigger").id)
  end)

  it("296. waits for the one that is pending, and takes none if that was final", function()
    for _, how in ipairs { "running", "ended" } do
      local job = Job.new { interval = 1000 }
      job:start()
      job:at(1000)
      assert.equal("", list(end_all(job)))
      assert.equal(how == "running" and "prepare 2 trigger 2" or "",
        list(job:complete(1, how), "prepare", "trigger"))
    end
  end)

  it("296. is tried again after a pause where it fails", function()
    for interval, pause in pairs { [300] = 300, [60000] = 1000 } do
      local job = Job.new { interval = interval }
      job:start()
      end_all(job)
      assert.equal("", list(job:event("decline", 1, K, "async_failed"), "prepare"))
      assert.equal(pause, probe.coordinator_deadline(job.c))
      assert.equal("", list(job:at(pause - 1)))
      assert.equal("prepare 2 trigger 2", list(job:at(pause), "prepare", "trigger"))
      job:ack_all(2, "ended")
      assert.is_true(find(job:event("written", 2, true), "complete").final)
    end
  end)

  it("296. is tried again as often as its _metadata cannot be written", function()
    local job = Job.new { interval = 60000 }
    job:start()
    end_all(job)
    -- Each pause is twice the one before, up to ten seconds.
    local at = 0
    for id, pause in ipairs { 1000, 2000, 4000, 8000, 10000, 10000 } do
      job:ack_all(id, "ended")
      local round = job:event("written", id, false)
      assert.equal("abort " .. id, list(round))
      assert.same({ true, pause, 600000 }, { round[1].final, round[1].retry, round[1].timeout })
      at = at + pause
      assert.equal(at, probe.coordinator_deadline(job.c))
      assert.equal(id + 1, find(job:at(at), "trigger").id)
    end
    assert.is_true(find(job:complete(7, "ended"), "complete").final)
    assert.is_true(probe.coordinator_deadline(job.c) > 2 ^ 62, "nothing is planned after the final one")
  end)

  it("296. is given twice the time when it expires, since nothing else is left to do", function()
    local job = Job.new { interval = 50, timeout = 100 }
    job:start()
    end_all(job)
    local at = 0
    for id, timeout in ipairs { 100, 200, 400, 800 } do
      at = at + timeout
      assert.equal("", list(job:at(at - 1), "abort"))
      local abort = find(job:at(at), "abort")
      assert.same({ "expired", S, 2 * timeout }, { abort.reason, abort.task, abort.timeout })
      at = at + abort.retry
      assert.equal(id + 1, find(job:at(at), "trigger").id)
    end
    assert.is_true(find(job:complete(5, "ended"), "complete").final)
  end)

  it("296. has its usual time again in a new attempt", function()
    local job = Job.new { interval = 50, timeout = 100 }
    job:start()
    end_all(job)
    assert.equal(200, find(job:at(100), "abort").timeout)
    job:event("stop", "task_failed", K)
    job:start()
    end_all(job)
    assert.equal(200, find(job:at(200), "abort").timeout)
  end)

  it("296. is followed by no periodic one while the tasks leave", function()
    local job = Job.new { interval = 1000 }
    job:start()
    end_all(job)
    assert.is_true(find(job:complete(1, "ended"), "complete").final)
    assert.equal("", list(job:at(5000)))
    for task = 0, 2 do assert.equal("finished 0", list(job:event("finish_request", task))) end
  end)

  it("299. different end times", function()
    -- Three sources feed one sink (task 3).
    local job = Job.new({ interval = 100, retain = 10 }, { {}, {}, {}, { 0, 1, 2 } })
    local ended, ends_at = {}, { [2] = 0, [5] = 1, [9] = 2 }
    job:start()
    for id = 1, 9 do
      local round = job:at(id * 100)
      local running = {}
      for task = 0, 2 do
        if not ended[task] then running[#running + 1] = task end
      end
      assert.same(running, find(round, "trigger").tasks)
      local ends = ends_at[id]
      if ends then job:event("end_of_data", ends) end
      for _, task in ipairs(running) do
        job:ack(id, task, task == ends and "ended" or "running", 10 * id + task)
      end
      local write = find(job:ack(id, 3), "write")
      for task in pairs(ended) do
        assert.equal("finished", write.snapshots[task + 1]["end"])
        assert.equal(10 * ended[task] + task, write.snapshots[task + 1].bytes, "what its final one listed")
      end
      for i, snap in ipairs(write.snapshots) do assert.equal(i - 1, snap.task) end
      assert.is_false(write.final)
      job:event("written", id, true)
      if ends then
        assert.equal("finished 0", list(job:event("finish_request", ends)))
        ended[ends] = id
      end
    end
    -- The sink ends last: only it is triggered, since all that feed it have left.
    local round = job:event("end_of_data", 3)
    assert.same({ 3 }, find(round, "trigger").tasks)
    round = job:ack(10, 3, "ended")
    assert.is_true(find(round, "write").final)
    assert.equal("complete 10", list(job:event("written", 10, true)))
  end)

  it("answers a task that wants to leave when no pending checkpoint waits for it", function()
    local job = manual { max_concurrent = 2 }
    job:request()
    assert.equal("", list(job:event("finish_request", S)))
    assert.equal("finished 0", list(job:ack(1, S, "ended")))
    assert.equal("", list(job:event("finish_request", S)), "it has its answer")
    job:event("finish_request", M)
    assert.equal("abort 1 answer 1 finished 0", list(job:event("decline", 1, K, "declined")))
  end)

  it("ignores acks and declines of tasks that had left", function()
    local job = manual()
    job:request()
    job:complete(1, "ended")
    job:event("finish_request", S)
    local _, round = job:request()
    assert.same({ M }, find(round, "trigger").tasks)
    assert.equal("discard 2", list(job:ack(2, S, "ended")))
    assert.equal("", list(job:event("decline", 2, S, "declined")))
    job:ack(2, M, "ended")
    assert.equal("write 2", list(job:ack(2, K, "ended")))
  end)

  it("lets a task leave while the folder is being made, and then does not wait for it", function()
    local job = manual({}, nil, { prepare = true })
    job:request()
    job:event("prepared", 1, true)
    job:complete(1, "ended")
    job:request()
    assert.equal("finished 0", list(job:event("finish_request", S)))
    assert.same({ M }, find(job:event("prepared", 2, true), "trigger").tasks)
    job:event("stop", "stopped")
    job:start()
    job:request()
    for task = 0, 2 do job:event("finish_request", task) end
    local round = job:event("prepared", 3, true)
    assert.equal("abort 3 answer 3", list(round))
    assert.equal("not_running", round[1].reason)
  end)

  it("305. checkpointing off", function()
    local job = manual()
    assert.equal("", list(end_all(job)))
    assert.equal(math.maxinteger, probe.coordinator_deadline(job.c))
    assert.equal("finished 0", list(job:event("finish_request", S)))
    local _, round = job:request()
    assert.equal("not_running", round[1].reason, "the state of the task that left would be lost")
    for task = 1, 2 do assert.equal("finished 0", list(job:event("finish_request", task))) end
  end)

  it("306. all finished at restore", function()
    local job = Job.new { interval = 100 }
    job:start()
    for task = 0, 2 do
      probe.coordinator_restored_finished(job.c, { task = task, ["end"] = "finished" })
    end
    for task = 0, 2 do assert.equal("", list(job:event("end_of_data", task))) end
    for task = 0, 2 do assert.equal("finished 0", list(job:event("finish_request", task))) end
    assert.equal("", list(job:at(1000), "prepare"))
  end)

  it("lists what was restored of a task that leaves before any checkpoint", function()
    local job = Job.new { interval = 100 }
    job:start()
    probe.coordinator_restored_finished(job.c, { task = S, bytes = 123, ["end"] = "finished" })
    assert.equal("finished 0", list(job:event("finish_request", S)))
    job:at(100)
    job:ack(1, M)
    local write = find(job:ack(1, K), "write")
    assert.equal(123, write.snapshots[1].bytes)
    assert.equal("finished", write.snapshots[1]["end"])
    assert.is_false(write.final)
  end)

  it("lists the newest final snapshot of a task in what was planned with an older one", function()
    local job = manual({ max_concurrent = 3 })
    job:request()
    for task = 0, 2 do job:ack(1, task, task == S and "ended" or "running", 10) end
    job:event("written", 1, true)
    job:request()
    job:ack(2, S, "ended", 20)
    job:event("finish_request", S)
    job:request() -- 3 is planned with what 1 had
    job:ack(2, M)
    job:ack(2, K)
    -- With 2 complete 1 goes, and the files of its snapshots with it: 3 lists what 2 has.
    assert.truthy(find(job:event("written", 2, true), "delete"))
    job:ack(3, M)
    local last = find(job:ack(3, K), "write").snapshots[1]
    assert.same({ 20, "finished" }, { last.bytes, last["end"] })
    job:event("written", 3, true)
    job:request()
    job:ack(4, M)
    assert.equal(20, find(job:ack(4, K), "write").snapshots[1].bytes)
  end)

  it("does not try a final checkpoint that could not be taken", function()
    local job = Job.new { interval = 5000 }
    job:start()
    job:event("finish_request", S)
    assert.equal("", list(end_all(job)))
    assert.equal(5000, probe.coordinator_deadline(job.c))
    assert.equal("", list(job:at(20000), "prepare", "answer", "fail_job"))
  end)

  it("takes the final one beside others that were begun before, but not two of them", function()
    local job = Job.new { interval = 100, max_concurrent = 3 }
    job:start()
    job:at(100)
    assert.equal("prepare 2 trigger 2", list(end_all(job)))
    assert.equal("", list(job:event("tick")))
    assert.equal("write 2 complete 2 abort 1", list(job:complete(2, "ended")))
  end)

  it("takes a final one at once in a new attempt, whatever failed in the last", function()
    local job = Job.new { interval = 60000 }
    job:start()
    end_all(job)
    job:event("decline", 1, K, "declined")
    job:event("stop", "task_failed", K)
    job:start()
    assert.equal("prepare 2 trigger 2", list(end_all(job)))
  end)

  it("tells nobody that it may leave after the stop", function()
    local job = manual { max_concurrent = 2 }
    job:request()
    job:request()
    job:ack_all(1)
    job:event("finish_request", S)
    assert.equal("abort 2 answer 2", list(job:event("stop", "stopped")))
    assert.equal("answer 1", list(job:event("written", 1, true)))
  end)

  it("a new attempt begins with all tasks running", function()
    local job = Job.new { interval = 100 }
    job:start()
    end_all(job)
    job:complete(1, "ended")
    for task = 0, 2 do job:event("finish_request", task) end
    job:event("stop", "task_failed", K)
    assert.equal("", list(job:event("end_of_data", S)))
    assert.equal("", list(job:event("finish_request", S)))
    job:start()
    job:at(100)
    assert.equal("write 2", list(job:ack_all(2)))
  end)

  it("says how long one has waited for another to end, and not how long it paused", function()
    local job = manual {}
    assert.equal(0, find(select(2, job:request()), "trigger").waited)
    job:request()
    job:at(30)
    job:request()
    job:at(70)
    -- The second was asked for at 0; the third waits from now on for nobody but the second.
    assert.equal(70, find(job:complete(1), "trigger").waited)
    job:at(100)
    assert.equal(30, find(job:complete(2), "trigger").waited)
    job = Job.new { interval = 100, min_pause = 50 }
    job:start()
    job:at(100)
    job:at(190)
    job:complete(1)
    assert.equal(0, find(job:at(240), "trigger").waited)
  end)
end)
