-- result: what a job leaves when it has ended.

local misuse = require "streamckpt.misuse"

local result = {}

local Result = { __name = "streamckpt.result", __stays = "a result, which stays in the script" }
local methods = {}

function Result.__index(_, name)
  local method = methods[name]
  if method or type(name) ~= "string" or name:sub(1, 1) == "_" then return method end
  misuse.raise("a result has no method '%s'%s", name, misuse.hint(name, methods))
end

function Result:__tostring()
  return ("streamckpt.result<%s, %s>"):format(self.job:id(), tostring(self.job:status()))
end

--- The rows of a collect.
-- @param uid the uid of the collect
-- @return an array. Raises at the caller's line if there is no such collect.
-- Example: local rows = env:execute():rows("counts")
function methods:rows(uid)
  local rows, message = self.job:rows(uid)
  if not rows then misuse.raise("rows: %s", message) end
  return rows
end

--- What became of the checkpoints, as job:checkpoints().
-- @return {counts, latest, history}; durations in ms, sizes in bytes
-- Example: print(env:execute():checkpoints().counts.completed)
function methods:checkpoints()
  return self.job:checkpoints()
end

--- What the tasks have done, as job:metrics(uid).
-- @param uid only the operator with this uid, its tasks added up; optional
-- @return a table of counters and gauges. Raises at the caller's line if no operator has the uid.
-- Example: print(env:execute():metrics("parse").numRecordsIn)
function methods:metrics(uid)
  local metrics, message = self.job:metrics(uid)
  if not metrics then misuse.raise("metrics: %s", message) end
  return metrics
end

--- How the job ended, as job:status().
-- @return {state = "finished" or "canceled", attempt, restarts, error, last_checkpoint, ...}
-- Example: print(env:execute():status()) --> finished, checkpoint 7
function methods:status()
  return self.job:status()
end

--- The result of a job that has ended; for env.lua.
function result.new(job)
  return setmetatable({ job = job }, Result)
end

return result
