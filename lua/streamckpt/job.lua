-- job: the handle of a running job, as scripts and prompts see it.
--
-- The engine never calls into the script by itself. Events wait in the handle until the script's own
-- luv loop, if it has one, sees the handle's descriptor become readable, or until any method of the job
-- is called: so callbacks also run at a prompt without a loop. They run protected, since an error in a
-- callback of a loop would end the process.

local config = require "streamckpt.config"
local metrics = require "streamckpt.metrics"
local misuse = require "streamckpt.misuse"
local report = require "streamckpt.report"
local show = require "streamckpt.show"

local job = {}

local Job = { __name = "streamckpt.job", __stays = "a job, which stays in the script" }
local methods = {}

local UNBUILT = { savepoint = true, rescale = true, replace = true, state = true,
                  peek = true }

-- What on() knows; the engine's events have these in their field `type`.
local EVENTS = { checkpoint = true, checkpoint_failed = true, starting = true, running = true,
                 restarting = true, canceling = true, finished = true, failed = true, canceled = true }
local LAST_EVENTS = { finished = true, failed = true, canceled = true }

-- How long wait sleeps in the engine between two looks at events that have callbacks.
local WAIT_SLICE_MS = 50

function Job.__index(_, name)
  local method = methods[name]
  if method or type(name) ~= "string" or name:sub(1, 1) == "_" then return method end
  if UNBUILT[name] then misuse.raise("job:%s is not built yet", name) end
  misuse.raise("a job has no method '%s'%s", name, misuse.hint(name, methods))
end

function Job:__tostring()
  local ok, status = pcall(self.handle.status, self.handle)
  if not ok or type(status) ~= "table" then return ("streamckpt.job<%s>"):format(self.title) end
  local last = status.last_checkpoint
  if type(last) == "table" then last = last.id end
  local checkpoint = last and last ~= 0 and (", checkpoint %s"):format(last) or ""
  return ("streamckpt.job<%s, %s%s>"):format(self.title, tostring(status.state), checkpoint)
end

-- Stopped and not closed: luv 1.44 frees a handle that is still about to close when the interpreter
-- ends, and looks into it afterwards; and the loop that would close it may never run again. The handle
-- is kept for the next callback, and knows the job only while it polls.
local function stop_polling(self)
  if self.polled then
    self.poll:stop()
    self.polled.job, self.polled = nil, false
  end
end

-- What the interpreter raises at Ctrl-C, with or without a place before it.
local function is_interrupt(err)
  return type(err) == "string" and err:find("interrupted!$") ~= nil
end

-- An error in a callback is reported and changes nothing else. But Ctrl-C is for whoever waits, not for
-- the callback that it happened to meet: what it raised is returned.
local function run_callback(fn, event)
  local cause
  local ok, trace = xpcall(fn, function(err)
    cause = err
    return debug.traceback(err, 2)
  end, event)
  if ok then return nil end
  if is_interrupt(cause) then return cause end
  io.stderr:write(("streamckpt: error in the callback for '%s': %s\n"):format(event.type, tostring(trace)))
  return nil
end

-- Run the callbacks of one event: nil, or what Ctrl-C raised.
local function deliver_event(self, event)
  -- A copy, since a callback may add or remove callbacks.
  local callbacks, interrupt = self.callbacks[event.type] or {}, nil
  for _, fn in ipairs(table.move(callbacks, 1, #callbacks, 1, {})) do
    interrupt = run_callback(fn, show.table(event)) or interrupt
  end
  if LAST_EVENTS[event.type] then stop_polling(self) end
  return interrupt
end

local Delivery = { __close = function(delivery) delivery.job.delivering = false end }

-- Run the callbacks of the events that wait. A callback may call methods of the job, which come here
-- again: then there is nothing to do, and what happened meanwhile is delivered by the next call, or by
-- the loop, for the handle stays readable. Ctrl-C raises when all have run.
local function deliver(self)
  if self.delivering or not next(self.callbacks) then return end
  -- Ctrl-C may also raise between any two lines here.
  local _ <close> = setmetatable({ job = self }, Delivery)
  self.delivering = true
  local interrupt
  for _, event in ipairs(self.handle:poll_events() or {}) do
    interrupt = deliver_event(self, event) or interrupt
  end
  if interrupt then error(interrupt, 0) end
end

local function enter(self, call)
  if getmetatable(self) ~= Job then
    misuse.raise("%s is called on %s; write job:%s(...), with a colon", call, misuse.shown(self), call)
  end
  deliver(self)
  return self.handle
end

--- The id of the job: the name of its folder of checkpoints.
-- @return a string. Example: print(job:id())
function methods:id()
  return enter(self, "id"):id()
end

--- How the job is.
-- @return {state = "starting" "running" "restarting" "canceling" "finished" "failed" "canceled",
--   attempt, restarts, error and error_code (what ended it, or the last attempt), last_checkpoint (its
--   id), last_checkpoint_path, restored_from (a path), was_complete = true where it began from the last
--   checkpoint of a finished run, stopped = true where job:stop ended it before its input was at an
--   end, regions where the graph has several parts that are not connected, which restart alone: a list
--   of {operators (their uids), state, attempt, restarts}}; it prints as a sentence
-- Example: print(job:status()) --> running, checkpoint 7
function methods:status()
  return show.status(enter(self, "status"):status())
end

-- The first result, or nil, message, code; where an engine gives no message there is one all the same.
local function failure(message, code, fallback, fallback_code)
  code = code or (type(message) == "string" and message:match("^(E%u+): ")) or fallback_code
  return nil, message or ("%s: %s"):format(code, fallback), code
end

-- Wait in slices while there are callbacks, so that they run meanwhile.
local function wait_in_slices(self, handle, ms)
  local left = ms
  while next(self.callbacks) do
    local slice = left and math.min(left, WAIT_SLICE_MS) or WAIT_SLICE_MS
    local ok, message, code = handle:wait(slice)
    deliver(self)
    if ok or (code ~= nil and code ~= "ETIMEOUT") then return ok, message, code end
    left = left and left - slice
    if left and left <= 0 then return ok, message, code end
  end
  return handle:wait(left)
end

--- Wait until the job has ended.
-- @param timeout a duration (ms or "10s"); without it as long as it takes
-- @return the last status; or nil, a message that begins with a code, and the code: ETIMEOUT when it
--   still runs, another one when it failed
-- Example: assert(job:wait("1min"))
function methods:wait(timeout)
  local handle = enter(self, "wait")
  local ms
  if timeout ~= nil then
    local expected
    ms, expected = config.duration(timeout)
    if not ms then misuse.raise("wait takes %s, got %s", expected, misuse.shown(timeout)) end
  end
  local ok, message, code = wait_in_slices(self, handle, ms)
  deliver(self)
  if not ok then return failure(message, code, "the job still runs", "ETIMEOUT") end
  local status = show.status(handle:status())
  if status.state == "failed" then
    local cause = status.error and tostring(status.error)
    if cause and not cause:find("^E%u+: ") then cause = "EFAILED: " .. cause end
    return failure(cause, nil, "the job failed", "EFAILED")
  end
  return status
end

-- A table that prints itself, alone, so that print(job:metrics()) shows nothing else; or nil, message,
-- code.
local function shown(as, t, message, code)
  if t == nil then return nil, message, code end
  return as(t)
end

--- End the job at once; its last checkpoint is kept.
-- @return true; or nil, message, code
-- Example: job:cancel()
function methods:cancel()
  return enter(self, "cancel"):cancel()
end

--- Take a checkpoint now, or as soon as the job runs, and wait for it.
-- @return its id; or nil, message, code: the job has no folder for it, ended first, or waits to restart
--   (EDECLINED), or the checkpoint failed
-- Example: local id = assert(job:checkpoint())
function methods:checkpoint()
  local handle = enter(self, "checkpoint")
  local id, message, code = handle:checkpoint()
  deliver(self)
  if not id then return nil, message, code end
  return id
end

local STOP = { drain = { check = config.boolean, default = false } }

--- Stop the job with a last checkpoint, which is kept whatever the options say, and wait until it has
-- ended: its sinks have committed all that the checkpoint holds.
-- @param options {drain = false: the input stops where it is, no timer fires, and a start with
--   from = "latest" goes on there; drain = true: the input ends here, the greatest watermark is handed
--   on, and the job is complete}
-- @return the path of the checkpoint; or nil, message, code: the checkpoint failed and the job goes on
--   (the code says why), or the job failed (EFAILED) or was canceled (ECANCELED) while it committed
-- Example: local path = assert(job:stop())
function methods:stop(options)
  local checked = config.check(STOP, options, "stop")
  local path, message, code = enter(self, "stop"):stop(checked.drain)
  deliver(self)
  if not path then return nil, message, code end
  return path
end

--- What became of the checkpoints: counts, the latest ones, a history with every task and its subtasks.
-- @return {counts = {triggered, in_progress, completed, failed, restored}, latest = {completed, savepoint,
--   failed, restored}, history = the ten newest, newest first}; or nil, message, code.
--   Each has id, status ("in_progress", "completed", "failed"), checkpoint_type ("checkpoint",
--   "unaligned_checkpoint", "savepoint"), manual, trigger_timestamp, latest_ack_timestamp,
--   end_to_end_duration, num_subtasks, num_acknowledged_subtasks, checkpointed_size (written for it),
--   state_size (all that it refers to), processed_data (read while it was aligned), persisted_data (in
--   flight, and kept), tasks; a completed one completed_timestamp, path, discarded (deleted since); a failed
--   one failure_timestamp, reason. A task has name, status, the same times, counts and sizes, subtasks; a
--   subtask index (from 0), acknowledged, finished (it had, before the checkpoint), ack_timestamp,
--   end_to_end_duration, sync_duration, async_duration, alignment_duration, start_delay,
--   unaligned_checkpoint, the same sizes. Durations are in ms, timestamps in ms since 1970, sizes in bytes;
--   what is not known is absent.
-- Example: print(job:checkpoints().counts.completed); print(job:checkpoints():explain(7))
function methods:checkpoints()
  return shown(report.checkpoints, enter(self, "checkpoints"):statistics())
end

local function operator_metrics(rows, uid)
  local sum = metrics.of_operator(rows, uid)
  if sum then return sum end
  if #rows == 0 then
    -- No task runs yet, so nothing has been done.
    return { uid = uid, parallelism = 0, numRecordsIn = 0, numRecordsOut = 0 }
  end
  return nil, ("ENOTFOUND: no operator has the uid '%s'"):format(uid), "ENOTFOUND"
end

--- What the tasks do, and have done so far.
-- @param uid only what the operator with this uid does, its tasks together; optional
-- @return an array with an entry for each operator and task: uid, name, task (the chain's name), subtask
--   (from 0), attempt, numRecordsIn, numRecordsOut, the same PerSecond, currentWatermark and watermarkLag
--   (ms; absent before the first), and counters such as numRecordsSkipped where they are not 0.
--   Of the task, all its operators together: busyTimeMsPerSecond, idleTimeMsPerSecond,
--   backPressuredTimeMsPerSecond (over the last one or two seconds; they add up to 1000),
--   slotWaitTimeMsPerSecond (the part of busy in which another task had the thread), isBackPressured, and
--   since it began accumulateBusyTimeMs, accumulateIdleTimeMs, accumulateBackPressuredTimeMs.
--   Of what it reads (with its first operator): numBuffersIn, numBytesIn, the same PerSecond, inPoolUsage,
--   inputExclusiveBuffersUsage, inputFloatingBuffersUsage, inputQueueLength (buffers), inputQueueSize
--   (bytes), estimatedTimeToConsumeBuffersMs, debloatedBufferSize. Of what an operator sends to other
--   tasks: numBuffersOut, numBytesOut, the same PerSecond, outPoolUsage, outputQueueLength,
--   outputQueueSize, and exchanges, a list with these for each of them and the uid that it leads `to`. Of a
--   source, where it knows: pendingRecords, pendingBytes.
--   With uid one such table, which has parallelism instead of subtask: counters, rates and queues added up,
--   shares of time as the mean, usages of the fullest. Or nil, message, code
-- Example: print(job:metrics()); print(job:metrics("parse").numRecordsIn)
function methods:metrics(uid)
  if uid ~= nil and type(uid) ~= "string" then
    misuse.raise("metrics takes the uid of an operator, got %s", misuse.shown(uid))
  end
  local rows, message, code = enter(self, "metrics"):metrics()
  if not uid then return shown(report.metrics, rows, message, code) end
  if rows then rows, message, code = operator_metrics(rows, uid) end
  return shown(show.table, rows, message, code)
end

--- The rows that a collect has released so far.
-- @param uid the uid of the collect
-- @return an array; or nil, message, code
-- Example: for _, row in ipairs(job:rows("counts")) do print(row.word, row.n) end
function methods:rows(uid)
  if type(uid) ~= "string" then misuse.raise("rows needs the uid of a collect, got %s", misuse.shown(uid)) end
  return shown(show.table, enter(self, "rows"):rows(uid))
end

-- Let the script's own loop deliver events; scripts without luv do so by calling methods.
local function start_polling(self)
  local uv = package.loaded.luv
  if self.polled or type(uv) ~= "table" or not uv.new_poll then return end
  local fd = self.handle:fd()
  if type(fd) ~= "number" or fd < 0 then return end
  if not self.poll or self.poll:is_closing() then self.poll = uv.new_poll(fd) end
  if not self.poll then return end
  local polled = { job = self }
  self.polled = polled
  self.poll:start("r", function()
    local polling = polled.job
    if not polling then return end
    local ok, trace = xpcall(deliver, function(err)
      return is_interrupt(err) and err or debug.traceback(err)
    end, polling)
    -- Ctrl-C ends a loop of luv as it does from any other callback.
    if is_interrupt(trace) then error(trace, 0) end
    if not ok then
      -- Without this an unreadable handle would be reported again at every turn of the loop.
      stop_polling(polling)
      io.stderr:write(("streamckpt: events of job '%s' are lost: %s\n"):format(polling.title,
        tostring(trace)))
    end
  end)
end

--- Call a function when something happens: in the script's luv loop if it has one, and inside every
-- method of the job. An error in it is reported on stderr and changes nothing else.
-- @param event "checkpoint" (event.id, event.path), "checkpoint_failed" (event.reason, and event.id
--   unless it failed before it had one), or a state that the job comes to: "starting", "running",
--   "restarting", "canceling", "finished", "failed", "canceled" (event.error where something failed)
-- @param fn fn(event), where event.type is its name
-- @return a function that removes the callback. Raises at the caller's line for unknown events.
-- Example: job:on("checkpoint", function(event) print("checkpoint", event.id) end)
function methods:on(event, fn)
  if not EVENTS[event] then
    misuse.raise("on: unknown event %s; did you mean '%s'?", misuse.shown(event),
      misuse.nearest(event, EVENTS))
  end
  if type(fn) ~= "function" then misuse.raise("on needs a function, got %s", misuse.shown(fn)) end
  local callbacks = self.callbacks[event] or {}
  self.callbacks[event] = callbacks
  callbacks[#callbacks + 1] = fn
  enter(self, "on")
  start_polling(self)
  return function()
    for i, other in ipairs(callbacks) do
      if other == fn then table.remove(callbacks, i) break end
    end
    if #callbacks == 0 and self.callbacks[event] == callbacks then self.callbacks[event] = nil end
    if not next(self.callbacks) then stop_polling(self) end
  end
end

--- Wrap the engine's handle; for env.lua.
-- @param handle the userdata that core.start returned
-- @param title the job's name, for messages
function job.wrap(handle, title)
  return setmetatable({ handle = handle, title = title, callbacks = {}, delivering = false,
                        poll = false, polled = false }, Job)
end

return job
