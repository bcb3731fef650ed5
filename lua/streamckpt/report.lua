-- report: what the engine tells of checkpoints and tasks, printed as columns.
--
-- As in show.lua the tables stay plain for a script; only printing the whole of one gives columns, which
-- leave out what a screen has no room for. The tables inside print all that they hold.

local show = require "streamckpt.show"

local report = {}

-- Lines of columns: `heads` are their names; a column is aligned to the right where its name begins
-- with '>', which is not shown.
local function columns(heads, rows)
  local widths, right = {}, {}
  local head = {}
  for i, name in ipairs(heads) do
    right[i], head[i] = name:sub(1, 1) == ">", name:gsub("^>", "")
    widths[i] = #head[i]
    for _, row in ipairs(rows) do widths[i] = math.max(widths[i], #row[i]) end
  end
  local lines = {}
  local function add(row)
    local cells = {}
    for i, text in ipairs(row) do
      local gap = (" "):rep(widths[i] - #text)
      cells[i] = right[i] and gap .. text or text .. gap
    end
    lines[#lines + 1] = (table.concat(cells, "  "):gsub(" +$", ""))
  end
  add(head)
  for _, row in ipairs(rows) do add(row) end
  return lines
end

local function duration(ms)
  if not ms then return "" end
  if ms < 1000 then return ("%.0f ms"):format(ms) end
  if ms < 120000 then return ("%.1f s"):format(ms / 1000) end
  return ("%.0f min"):format(ms / 60000)
end

local function size(bytes)
  if bytes < 1024 then return ("%d B"):format(bytes) end
  local unit, value = 0, bytes
  while value >= 1024 and unit < 4 do unit, value = unit + 1, value / 1024 end
  return ("%.1f %sB"):format(value, ("kMGT"):sub(unit, unit))
end

local function checkpoint_row(c)
  return {
    tostring(c.id), c.status == "in_progress" and "in progress" or c.status,
    os.date("%H:%M:%S", c.trigger_timestamp // 1000), duration(c.end_to_end_duration),
    size(c.state_size), ("%d/%d"):format(c.num_acknowledged_subtasks, c.num_subtasks),
    c.path or c.reason or "",
  }
end

-- "8 completed, 1 failed, 1 in progress", then the newest ones.
local function checkpoints_text(t)
  local counts, words = t.counts, {}
  for _, name in ipairs { "completed", "failed", "in_progress", "restored" } do
    if name == "completed" or counts[name] ~= 0 then
      words[#words + 1] = ("%d %s"):format(counts[name], (name:gsub("_", " ")))
    end
  end
  local lines, rows = { "checkpoints: " .. table.concat(words, ", ") }, {}
  local restored = t.latest.restored
  if restored then lines[2] = "restored from " .. restored.path end
  for i, c in ipairs(t.history) do rows[i] = checkpoint_row(c) end
  if #rows > 0 then
    table.move(columns({ ">id", "status", "begun", ">took", ">state", ">tasks", "where, or why not" }, rows),
      1, #rows + 1, #lines + 1, lines)
  end
  return table.concat(lines, "\n")
end

-- What is not shown of the numbers that all tasks have, or is shown elsewhere.
local function is_common(name)
  return name:find("PerSecond$") or name:find("^numRecordsIn$") or name:find("^numRecordsOut$")
    or name:find("^numBytes") or name:find("^numBuffers")
end

-- Names of counters that only some operators have, in order.
local function further_counters(rows)
  local seen, names = {}, {}
  for _, row in ipairs(rows) do
    for name in pairs(row) do
      if name:find("^num") and not is_common(name) and not seen[name] then
        seen[name], names[#names + 1] = true, name
      end
    end
  end
  table.sort(names)
  return names
end

local function percent(part, whole)
  return part and ("%.0f%%"):format(100 * part / whole) or ""
end

-- What a task does with its time, and how full its input is: in the row of its first operator.
local FLOW = {
  { ">busy", function(row) return percent(row.busyTimeMsPerSecond, 1000) end },
  { ">idle", function(row) return percent(row.idleTimeMsPerSecond, 1000) end },
  { ">backpressured", function(row) return percent(row.backPressuredTimeMsPerSecond, 1000) end },
  { ">in queue", function(row) return percent(row.inPoolUsage, 1) end },
}

-- A watermark that nothing can come behind is said in a word.
local function watermark_text(watermark)
  return watermark == math.maxinteger and "end" or tostring(watermark or "")
end

local function metrics_text(t)
  if #t == 0 then return "no task runs" end
  local widths, names, has_flow = {}, further_counters(t), false
  for _, row in ipairs(t) do
    widths[row.uid] = (widths[row.uid] or 0) + 1
    has_flow = has_flow or row.busyTimeMsPerSecond ~= nil
  end
  local flow, heads = has_flow and FLOW or {}, { "operator", ">task", ">in", ">out" }
  for _, column in ipairs(flow) do heads[#heads + 1] = column[1] end
  heads[#heads + 1] = ">watermark"
  for _, name in ipairs(names) do heads[#heads + 1] = ">" .. name:gsub("^numRecords", ""):lower() end
  local rows = {}
  for i, row in ipairs(t) do
    local before = t[i - 1]
    local chained = before and before.task == row.task and before.subtask == row.subtask
    local cells = { row.uid, ("%d/%d"):format(row.subtask + 1, widths[row.uid]),
                    tostring(row.numRecordsIn), tostring(row.numRecordsOut) }
    for _, column in ipairs(flow) do cells[#cells + 1] = chained and "" or column[2](row) end
    cells[#cells + 1] = watermark_text(row.currentWatermark)
    for _, name in ipairs(names) do cells[#cells + 1] = tostring(row[name] or "") end
    rows[i] = cells
  end
  return table.concat(columns(heads, rows), "\n")
end

-- Not fields, so that a script that walks over the table meets only what the engine told.
local explained = {}

--- What took a checkpoint's time, and what to do about it.
-- @param id of a checkpoint in the history; without it the newest
-- @return one or two sentences, and the cause as a word: "none", "queued_behind_another", "skewed_key",
--   "library_call", "slow_sink", "slow_function", "in_flight_data", "slow_snapshot", "slow_storage",
--   "large_state", "unknown"; or nil, a message and ENOTFOUND
-- Example: print(job:checkpoints():explain(7))
function explained:explain(id)
  for _, c in ipairs(self.history) do
    if id == nil or c.id == id then return c.explanation, c.cause end
  end
  return nil, ("ENOTFOUND: the history has no checkpoint %s"):format(id == nil and "yet" or tostring(id)),
    "ENOTFOUND"
end

local Checkpoints = { __name = "streamckpt.checkpoints", __tostring = checkpoints_text, __index = explained }
local Metrics = { __name = "streamckpt.metrics", __tostring = metrics_text }

local function print_as(meta, t)
  for _, inner in pairs(t) do show.table(inner) end
  return setmetatable(t, meta)
end

--- Let the statistics of a job's checkpoints print as a table, newest first.
-- @return the same table
function report.checkpoints(t) return print_as(Checkpoints, t) end

--- Let the metrics of a job's tasks print as a table, a line a task.
-- @return the same table
function report.metrics(t) return print_as(Metrics, t) end

return report
