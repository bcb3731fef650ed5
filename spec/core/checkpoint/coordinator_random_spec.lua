-- Random histories of a coordinator against what must hold in any of them. The model here keeps only
-- what was told and what was done, and judges each action by it.
local probe = require "streamckpt.probe"

local World = {}
World.__index = World

local function pick(list) return list[math.random(#list)] end
local function chance(percent) return math.random(100) <= percent end

local function new_world()
  local self = setmetatable({
    now = 10 ^ 6 // 1, mono = math.random(0, 1000), running = false, attempt = 0,
    durable = 0, last_id = 0, reserves = {}, prepares = {}, deletes = {}, writing = nil,
    open = {},      -- checkpoints that were prepared and have not ended, by id
    ended = {},     -- "completed" or "aborted", by id
    requests = {},  -- answers by number; false until there is one
    finals = {},    -- attempts of which a final checkpoint completed
    completed = {}, latest = 0, last_write = 0, tag = 0, tasks = {}, fail_jobs = 0,
  }, World)
  self.options = { interval = pick { 0, 7, 50 }, timeout = pick { 20, 200 }, min_pause = pick { 0, 0, 15 },
    max_concurrent = math.random(3), tolerable = pick { -1, 0, 3 }, retain = math.random(3),
    failure_pause = pick { 0, 0, 30 }, all_or_none = chance(20), unaligned = chance(40),
    aligned_timeout = pick { 0, 10 } }
  if self.options.unaligned then self.options.max_concurrent = 1 end
  self.c = probe.coordinator_new(self.options)
  self.durable = pick { 0, 5, 999 }
  self.last_id = self.durable
  probe.coordinator_begin_ids(self.c, self.durable)
  return self
end

-- Layers of tasks; each is fed by some of the layer before. Behind those of `graph`, with which they are
-- not connected.
local function random_part(graph)
  local before = {}
  for _ = 1, math.random(3) do
    local layer = {}
    for _ = 1, math.random(2) do
      local senders = {}
      for _, task in ipairs(before) do
        if #senders == 0 or chance(60) then senders[#senders + 1] = task end
      end
      graph[#graph + 1] = senders
      layer[#layer + 1] = #graph - 1
    end
    before = layer
  end
  return #graph
end

-- One part or two; `cut` is how many tasks the first one has.
local function random_graph()
  local graph = {}
  local cut = random_part(graph)
  if chance(50) then random_part(graph) end
  return graph, cut
end

function World:count_open()
  local n = 0
  for _ in pairs(self.open) do n = n + 1 end
  return n
end

-- ---- what each action must be ----

local judge = {}

function judge.reserve(w, a)
  assert(a.id > w.durable, "reserves what is durable")
  assert(#w.reserves == 0, "two reservations at a time")
  w.reserves[1] = a.id
end

function judge.prepare(w, a)
  assert(w.running, "begins without an attempt")
  assert(a.id == w.last_id + 1, "ids do not grow by one")
  assert(a.id <= w.durable, "an id that is not reserved")
  w.last_id = a.id
  w.open[a.id] = { attempt = w.attempt, acks = {}, waits = {}, left = {}, request = a.request,
    expires = w.mono + w.options.timeout }
  local stop, p = w.stop, w.open[a.id]
  p.after_end, p.begun, p.stops = w:all_ended(), w.mono, stop ~= nil and a.request == stop.request
  if p.stops then
    assert(not stop.drain and not p.after_end and not stop.id, "stops in the wrong way")
    stop.id = a.id
  else
    assert(not stop or (p.after_end and not stop.id and not stop.done), "begins though the job stops")
    assert(w:count_open() <= w.options.max_concurrent, "too many at a time")
    assert(#w.deletes <= w.options.max_concurrent or stop, "begins while many are deleted")
  end
  w.prepares[#w.prepares + 1] = a.id
end

function judge.trigger(w, a)
  local p = assert(w.open[a.id], "triggers what is not open")
  assert(p.prepared and not p.triggered and p.attempt == w.attempt)
  p.triggered = true
  assert(a.stop == p.stops, "stops, or does not, against its request")
  local o = w.options
  if not o.unaligned or a.stop or p.after_end then
    assert(a.overtake_at == 0, "overtakes")
  else
    assert(a.overtake_at == (o.aligned_timeout == 0 and 1 or math.max(2, p.begun + o.aligned_timeout)))
    assert(w:count_open() == 1, "overtakes beside another")
  end
  local ends = {}
  for _, t in pairs(w.tasks) do ends[t.life ~= "running"] = true end
  assert(not (o.all_or_none and ends[true] and ends[false]), "taken while some have ended")
  local expected = {}
  for task, t in pairs(w.tasks) do
    if t.life == "finished" then
      p.left[task] = t.final
    else
      p.waits[task] = true
      local fed = false
      for _, sender in ipairs(w.graph[task + 1]) do fed = fed or w.tasks[sender].life ~= "finished" end
      if not fed then expected[#expected + 1] = task end
    end
  end
  table.sort(expected)
  assert.same(expected, a.tasks)
end

function judge.write(w, a)
  local p = assert(w.open[a.id], "writes what is not open")
  assert(not w.writing, "writes two at a time")
  assert(a.id > w.latest, "writes behind a completed one")
  assert(a.id > w.last_write or w.write_failed, "writes out of order")
  assert(not p.written)
  p.written, w.writing, w.last_write = true, a.id, a.id
  assert(next(p.waits) == nil, "writes without all acknowledgements")
  local final, n = true, 0
  for task, s in pairs(p.acks) do
    assert.same({ task, s.tag, s.how }, { a.snapshots[task + 1].task, a.snapshots[task + 1].bytes,
      a.snapshots[task + 1]["end"] })
    final, n = final and s.how == "ended", n + 1
  end
  for task, tag in pairs(p.left) do
    assert.same({ task, tag, "finished" }, { a.snapshots[task + 1].task, a.snapshots[task + 1].bytes,
      a.snapshots[task + 1]["end"] })
    n = n + 1
  end
  assert(n == #a.snapshots)
  assert(a.final == final)
  p.final = final
  assert(a.stop == p.stops)
  local ended = 0
  for _, s in pairs(p.acks) do ended = ended + (s.how == "ended" and 1 or 0) end
  assert(not w.options.all_or_none or ended == 0 or final or next(p.left) or ended == n, "mixed")
end

function judge.complete(w, a)
  assert(w.alive and w.ended[a.id] == "completed" and w.just == a.id, "tells of no completion")
  assert(w.just_attempt == w.attempt, "tells another attempt")
  assert(a.stop == w.just_stops)
  w.told[a.id] = true
end

function judge.abort(w, a)
  local p = assert(w.open[a.id], "aborts what is not open")
  assert(not w.ended[a.id], "ends twice")
  assert(a.reason ~= "none")
  if a.reason == "expired" then assert(w.mono >= p.expires, "expires too early") end
  if p.written then assert(a.reason == "finalize", "aborts what is written") end
  if p.triggered and next(p.waits) == nil and not p.written then
    assert(a.reason == "subsumed" or (w.options.all_or_none and a.reason == "task_closing"),
      "aborts what is decided")
  end
  if a.reason == "expired" and p.triggered then assert(p.waits[a.task], "blames who has acknowledged") end
  if w.stop and w.stop.id == a.id then w.stop = nil end
  if a.reason == "subsumed" then assert(a.id < w.latest) end
  w.ended[a.id] = "aborted"
  w.open[a.id] = nil
end

function judge.delete(w, a)
  assert(a.id == w.completed[1], "deletes another than the oldest")
  assert(#w.completed > w.options.retain, "deletes what is to be kept")
  table.remove(w.completed, 1)
  w.deletes[#w.deletes + 1] = a.id
end

function judge.discard(w, a)
  assert(#a.snapshots == 1)
  assert(a.snapshots[1].bytes == w.delivered, "discards something else")
  w.discarded = true
end

function judge.finished(w, a)
  local t = w.tasks[a.task]
  assert(t.asked and t.life ~= "finished", "answers nobody")
  for id, p in pairs(w.open) do
    assert(not (p.attempt == w.attempt and p.waits[a.task]), "leaves though it is waited for by " .. id)
  end
  if w.stop and not w.stop.done then assert(t.final, "leaves though the stop needs it") end
  t.life = "finished"
end

function judge.drain(w)
  assert(w.stop and w.stop.drain and not w.stop.told, "drains unasked")
  w.stop.told = true
end

function judge.refused(w, a)
  if a.reason == "not_running" then
    assert(w.options.all_or_none and not w.forbidden, "tells twice that none is taken")
    w.forbidden = true
  else
    assert(a.reason == "io", "tells of what is nobody's fault")
  end
end

function judge.answer(w, a)
  assert(w.requests[a.request] == false, "answers twice or nobody")
  w.requests[a.request] = a.reason
  if a.reason == "none" then assert(w.ended[a.id] == "completed") end
  if w.stop and a.request == w.stop.request then
    if a.reason == "none" then w.stop.done = true else w.stop = nil end
  end
end

function judge.fail_job(w)
  assert(w.options.tolerable >= 0)
  w.fail_jobs = w.fail_jobs + 1
end

function World:drain()
  while true do
    local a = probe.coordinator_action(self.c)
    if not a then break end
    judge[a.kind](self, a)
  end
  assert(#self.completed <= self.options.retain, "keeps more than it should")
  assert(self.latest == probe.coordinator_latest(self.c))
  local decided = false
  for _, p in pairs(self.open) do
    if p.triggered and next(p.waits) == nil then decided = true end
    if not self.running then assert(p.triggered and next(p.waits) == nil, "pending after the stop") end
  end
  assert(decided == probe.coordinator_writing(self.c))
  assert(decided == (self.writing ~= nil))
end

function World:all_ended()
  for _, t in pairs(self.tasks) do
    if t.life == "running" then return false end
  end
  return true
end

function World:event(name, ...)
  probe["coordinator_" .. name](self.c, self.now, self.mono, ...)
  self:drain()
end

-- ---- what may happen ----

local happen = {}

function happen.pass(w)
  local by = math.random(0, 12)
  w.mono = w.mono + by
  w.now = w.now + by + (chance(5) and math.random(-1000, 1000) or 0)
  if chance(70) then happen.tick(w) end
end

function happen.tick(w)
  w:event("tick")
  assert(probe.coordinator_deadline(w.c) > w.mono, "a deadline that stays in the past")
end

function happen.request(w)
  local expected = #w.requests + 1
  w.requests[expected] = false
  assert(expected == probe.coordinator_request(w.c, w.now, w.mono))
  w:drain()
end

function happen.request_stop(w)
  if chance(80) then return end
  local expected, drain = #w.requests + 1, chance(50)
  w.requests[expected] = false
  local was = w.stop
  if w.running and not was then w.stop = { request = expected, drain = drain } end
  assert(expected == probe.coordinator_request_stop(w.c, w.now, w.mono, drain))
  w:drain()
  if was then assert(w.requests[expected] == "stopping") end
end

function happen.reserved(w)
  local up_to = table.remove(w.reserves)
  if not up_to then return end
  local ok = w.calm or chance(85)
  if ok then w.durable = math.max(w.durable, up_to) end
  probe.coordinator_reserved(w.c, up_to, ok)
  w:drain()
end

function happen.prepared(w)
  if #w.prepares == 0 then return end
  local id = table.remove(w.prepares, math.random(#w.prepares))
  local ok = w.calm or chance(90)
  if w.open[id] then w.open[id].prepared = ok end
  w:event("prepared", id, ok)
end

function happen.deleted(w)
  if #w.deletes > 0 then w:event("deleted", table.remove(w.deletes, math.random(#w.deletes))) end
end

function happen.written(w)
  local id = w.writing
  if not id then return end
  local ok = w.calm or chance(85)
  w.writing, w.write_failed = nil, not ok
  if ok then
    local p = w.open[id]
    w.ended[id], w.open[id], w.latest = "completed", nil, id
    w.completed[#w.completed + 1] = id
    w.just, w.just_attempt, w.just_stops = id, p.attempt, p.stops
    if p.final then w.finals[p.attempt] = true end
    if w.alive and p.attempt == w.attempt then
      for task, s in pairs(p.acks) do
        if s.how == "ended" then w.tasks[task].final = s.tag end
      end
    end
    -- What is still open and younger lists the newest final snapshots: the older ones' files may go now.
    for other, q in pairs(w.open) do
      for task in pairs(other > id and q.attempt == p.attempt and q.left or {}) do
        local s = p.acks[task]
        q.left[task] = s and s.how == "ended" and s.tag or p.left[task] or q.left[task]
      end
    end
    if w.stop and w.stop.id == id and w.running and p.attempt == w.attempt then w.stop.done = true end
    probe.coordinator_written(w.c, w.now, w.mono, id, ok)
    -- Retention is judged by what was there before, so the list may be one too long until now.
    w:drain()
    assert(not (w.alive and p.attempt == w.attempt) or w.told[id], "does not tell the tasks")
    return
  end
  w:event("written", id, ok)
  assert(w.ended[id] == "aborted")
end

function happen.ack(w)
  local ids = {}
  for id, p in pairs(w.open) do
    if p.triggered then ids[#ids + 1] = id end
  end
  table.sort(ids)
  if not w.running then return end
  local wild = not w.calm and (#ids == 0 or chance(5))
  if #ids == 0 and not wild then return end
  local id = wild and math.random(1, w.last_id + 2) or pick(ids)
  local task = math.random(0, #w.graph - (wild and 0 or 1))
  local p, t = w.open[id], w.tasks[task]
  w.tag, w.discarded = w.tag + 1, false
  w.delivered = w.tag
  local how = t and t.life ~= "running" and "ended" or "running"
  local known = p and p.triggered and p.attempt == w.attempt
  local taken = known and p.waits[task]
  -- It may have expired in the meantime, which the coordinator finds out first.
  if taken and w.mono >= p.expires then happen.tick(w) end
  if taken and not w.open[id] then return end
  if taken then
    p.waits[task] = nil
    p.acks[task] = { tag = w.tag, how = how }
  end
  w:event("ack", id, { task = task, bytes = w.tag, ["end"] = how })
  if taken then assert(not w.discarded, "discards what it needs") end
end

function happen.decline(w)
  if w.last_id == 0 or w.calm then return end
  local id = math.random(math.max(1, w.last_id - 3), w.last_id + 1)
  local reason = pick { "declined", "async_failed", "task_closing", "superseded" }
  local kept = false
  for _, other in ipairs(w.completed) do kept = kept or other == id end
  local gone = not w.open[id] and not kept
  w.discarded, w.delivered = false, 0 -- only a folder that may have become empty
  w:event("decline", id, math.random(0, 5), reason, chance(50) and "a text" or nil)
  if reason ~= "async_failed" or kept then assert(not w.discarded, "discards for nothing") end
  if reason == "async_failed" and gone then assert(w.discarded, "leaves a folder behind") end
end

function happen.end_of_data(w)
  if not w.running then return end
  local task = math.random(0, #w.graph - 1)
  for _, sender in ipairs(w.graph[task + 1]) do
    if w.tasks[sender].life == "running" then return end
  end
  if w.tasks[task].life == "running" then w.tasks[task].life = "ended" end
  w:event("end_of_data", task)
end

function happen.finish_request(w)
  if not w.running then return end
  local task = math.random(0, #w.graph - 1)
  local t = w.tasks[task]
  if t.life == "running" or (w.options.interval > 0 and not t.final) then return end
  t.asked = true
  w:event("finish_request", task)
end

-- The answer to a stop waits for a younger final checkpoint that is still being written.
local function none_forgotten(w)
  for number, answer in ipairs(w.requests) do
    if not answer then
      local waits = w.finals[w.attempt] and next(w.open) ~= nil
      for _, p in pairs(w.open) do waits = waits or p.request == number end
      assert(waits, "a request is forgotten by the stop")
    end
  end
end

function happen.start(w)
  if w.alive then return end
  w.graph, w.cut = random_graph()
  w.tasks, w.told, w.stop = {}, {}, nil
  for task = 0, #w.graph - 1 do w.tasks[task] = { life = "running" } end
  w.running, w.alive, w.attempt = true, true, w.attempt + 1
  w.forbidden = false
  probe.coordinator_start(w.c, w.now, w.mono, w.graph)
  w:drain()
  none_forgotten(w)
end

function happen.stop(w, surely)
  if not w.alive or (not surely and chance(70)) then return end
  w.running, w.alive = false, false
  w:event("stop", pick { "task_failed", "stopped" }, chance(50) and 0 or nil)
  w.stop = nil
  none_forgotten(w)
end

function happen.suspend(w)
  if not w.running or chance(50) then return end
  w.running = false
  for _, t in pairs(w.tasks) do t.asked = false end
  w:event("suspend", "task_failed", 0)
  w.stop = nil
  none_forgotten(w)
end

-- One part of the graph, or all, goes on from a checkpoint; the other one as it was.
function happen.resume(w)
  if not w.alive or w.running or w.writing then return end
  local restarted, which = {}, math.random(3)
  for task = 0, #w.graph - 1 do
    restarted[task + 1] = which == 3 or (which == 1) == (task < w.cut)
    if restarted[task + 1] then w.tasks[task] = { life = "running" } end
  end
  w.running, w.forbidden = true, false
  w:event("resume", restarted)
end

local usual = { "pass", "pass", "pass", "tick", "request", "reserved", "prepared", "prepared", "deleted",
  "written", "written", "ack", "ack", "ack", "ack", "ack", "ack", "ack", "ack", "decline", "end_of_data",
  "finish_request", "start", "stop", "suspend", "resume", "resume", "request_stop" }
local calm = { "tick", "reserved", "prepared", "deleted", "written", "ack", "ack", "ack", "ack" }

-- Is there a task left to take a checkpoint, and has every other left with a final snapshot?
local function can_be_taken(w)
  local left, ends = 0, {}
  for _, t in pairs(w.tasks) do
    ends[t.life ~= "running"] = true
    if t.life == "finished" and not t.final then return false end
    left = left + (t.life == "finished" and 1 or 0)
  end
  return left < #w.graph and not (w.options.all_or_none and ends[true] and ends[false])
end

-- From any state, with everything going well, a request is answered with a completed checkpoint,
-- unless no checkpoint can be taken any more. (With the very one that answers it the last tasks may
-- leave, so what cannot be taken afterwards may have been taken.)
local function settle(w)
  w.calm = true
  happen.tick(w)
  if w.stop then happen.stop(w, true) end -- a request behind that of a user who stops waits for its end
  happen.start(w)
  while w.writing and not w.running do happen.written(w) end
  happen.resume(w)
  local could = can_be_taken(w)
  happen.request(w)
  for _ = 1, 5000 do
    local answer = w.requests[#w.requests]
    -- A periodic one that was begun later may well be acknowledged first.
    if answer and answer ~= "subsumed" then break end
    if answer then
      could = can_be_taken(w)
      happen.request(w)
    end
    happen[pick(calm)](w)
  end
  local answer = w.requests[#w.requests]
  local expected = can_be_taken(w) and { none = true } or { none = could, not_running = true }
  assert(expected[answer], "ends as " .. tostring(answer))
end

describe("coordinator", function()
  it("keeps its promises in random histories", function()
    local base = tonumber(os.getenv "SC_SEED") or os.time()
    for round = 1, tonumber(os.getenv "SC_ROUNDS") or 150 do
      math.randomseed(base, round)
      local w = new_world()
      local ok, why = xpcall(function()
        for _ = 1, math.random(400) do happen[pick(usual)](w) end
        settle(w)
        if w.running then
          w.running, w.alive = false, false
          w:event("stop", "stopped")
        end
        while w.writing do happen.written(w) end
        for number, answer in ipairs(w.requests) do assert(answer, "no answer to request " .. number) end
        for id = 1, w.last_id do assert(w.ended[id] or id <= 999, "no end of " .. id) end
        assert(next(w.open) == nil)
      end, debug.traceback)
      assert(ok, "SC_SEED=" .. base .. " round " .. round .. ": " .. tostring(why))
    end
  end)
end)
