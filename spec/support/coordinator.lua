-- A coordinator with a manual clock, for specs: carries out RESERVE and PREPARE at once (unless told
-- not to), and keeps all other actions in `log`.
local probe = require "streamckpt.probe"

local Job = {}
Job.__index = Job

-- options: those of the coordinator; graph: for each task the list of tasks that feed it (default
-- S -> M -> K, tasks 0, 1, 2); hold: kinds of actions that are not answered by themselves.
function Job.new(options, graph, hold)
  local self = setmetatable({ now = 1000000, mono = 0, log = {}, hold = hold or {} }, Job)
  self.c = probe.coordinator_new(options or {})
  self.graph = graph or { {}, { 0 }, { 1 } }
  return self
end

function Job:start()
  probe.coordinator_start(self.c, self.now, self.mono, self.graph)
  return self:drain()
end

-- Take all actions; those of this round are returned.
function Job:drain()
  local round = {}
  while true do
    local a = probe.coordinator_action(self.c)
    if not a then
      -- Ids that have come make a tick due at once, as whoever runs the coordinator sees.
      if probe.coordinator_deadline(self.c) > self.mono then return round end
      self.mono = math.max(self.mono, probe.coordinator_deadline(self.c))
      probe.coordinator_tick(self.c, self.now, self.mono)
    else
      round[#round + 1] = a
      self.log[#self.log + 1] = a
      if a.kind == "reserve" and not self.hold.reserve then
        probe.coordinator_reserved(self.c, a.id, true)
      elseif a.kind == "prepare" and not self.hold.prepare then
        probe.coordinator_prepared(self.c, self.now, self.mono, a.id, true)
      elseif a.kind == "delete" and not self.hold.delete then
        probe.coordinator_deleted(self.c, self.now, self.mono, a.id)
      end
    end
  end
end

-- Any event but those without times: job:event("written", 1, true)
function Job:event(name, ...)
  local result = probe["coordinator_" .. name](self.c, self.now, self.mono, ...)
  return self:drain(), result
end

-- Move both clocks to mono and tick, deadline by deadline.
function Job:at(mono)
  local all = {}
  while true do
    local next_ms = math.min(mono, probe.coordinator_deadline(self.c))
    if next_ms > self.mono then
      self.now, self.mono = self.now + next_ms - self.mono, next_ms
    end
    for _, a in ipairs(self:event("tick")) do all[#all + 1] = a end
    if self.mono >= mono then return all end
  end
end

function Job:ack(id, task, how, bytes)
  return self:event("ack", id, { task = task, ["end"] = how, bytes = bytes })
end

function Job:ack_all(id, how)
  local all = {}
  for task = 0, #self.graph - 1 do
    for _, a in ipairs(self:ack(id, task, how)) do all[#all + 1] = a end
  end
  return all
end

-- Acknowledged by all, and written.
function Job:complete(id, how)
  local all = self:ack_all(id, how)
  for _, a in ipairs(self:event("written", id, true)) do all[#all + 1] = a end
  return all
end

function Job:request()
  local round, number = self:event("request")
  return number, round
end

-- "kind id kind id ..." of the actions of some kinds (all without them).
function Job.list(actions, ...)
  local wanted, out = {}, {}
  for _, kind in ipairs { ... } do wanted[kind] = true end
  for _, a in ipairs(actions) do
    if not next(wanted) or wanted[a.kind] then out[#out + 1] = a.kind .. " " .. a.id end
  end
  return table.concat(out, " ")
end

function Job.find(actions, kind)
  for _, a in ipairs(actions) do
    if a.kind == kind then return a end
  end
end

return Job
