-- A stand-in for the engine: it keeps the plans that it was asked to start, and its jobs do what a spec
-- says. `rows`, `events`, `state` and the like are fields of the handle.

local fake = { plans = {}, handles = {} }

local Handle = {}
Handle.__index = Handle

function Handle:id() return self.plan.job.id end
function Handle:status()
  return { state = self.state, attempt = 1, restarts = 0, error = self.error, last_checkpoint = self.last }
end
function Handle:wait(ms)
  self.waits[#self.waits + 1] = ms or "forever"
  if self.on_wait then return self:on_wait(ms) end
  return true
end
function Handle:cancel() self.state = "canceled" return true end
function Handle:checkpoint() return nil, "ESTALE: checkpoint 7 was aborted", "ESTALE" end
function Handle:statistics()
  return { counts = { triggered = 3, in_progress = 0, completed = 3, failed = 0, restored = 0 }, latest = {},
           history = {} }
end
function Handle:metrics()
  local rows = { { uid = "m", name = "parse", subtask = 0, attempt = 1, currentWatermark = 9, numRecordsIn = 3,
                   numRecordsOut = 2 },
                 { uid = "m", name = "parse", subtask = 1, attempt = 1, currentWatermark = 5, numRecordsIn = 4,
                   numRecordsOut = 12 },
                 { uid = "o", name = "out", subtask = 0, attempt = 1, currentWatermark = 4, numRecordsIn = 14,
                   numRecordsOut = 0 } }
  for _, row in ipairs(rows) do
    row.task, row.isBackPressured, row.slotWaitTimeMsPerSecond = row.name, false, 0
    row.busyTimeMsPerSecond, row.idleTimeMsPerSecond, row.backPressuredTimeMsPerSecond = 750, 250, 0
  end
  return rows
end
function Handle:rows(uid)
  local rows = self.collected[uid]
  if rows then return rows end
  return nil, ("ENOTFOUND: no collect has the uid '%s'"):format(uid), "ENOTFOUND"
end
function Handle:poll_events()
  local events = self.events
  self.events = {}
  return events
end
function Handle:fd() return self.descriptor end

fake.null = setmetatable({}, { __name = "streamckpt.null" })
local array_metatable = {}
function fake.array(t) return setmetatable(t or {}, array_metatable) end

function fake.start(plan)
  fake.plans[#fake.plans + 1] = plan
  if fake.refuse then return nil, fake.refuse, fake.refuse:match("^E%u+") end
  local handle = setmetatable({ plan = plan, state = "finished", events = {}, collected = {}, waits = {},
                                descriptor = -1 }, Handle)
  if fake.prepare then fake.prepare(handle) end
  fake.handles[#fake.handles + 1] = handle
  return handle
end

return fake
