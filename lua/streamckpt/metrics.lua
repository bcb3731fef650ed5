-- metrics: the rows of job:metrics(), one for each operator and task, put together for one operator.

local metrics = {}

-- Shares of time: of several tasks their mean, so that they still add up to 1000.
local SHARES = { "idleTimeMsPerSecond", "backPressuredTimeMsPerSecond", "slotWaitTimeMsPerSecond" }

-- Of these the task that is worst off counts.
local MOST = { watermarkLag = true, debloatedBufferSize = true, inPoolUsage = true, outPoolUsage = true,
               inputExclusiveBuffersUsage = true, inputFloatingBuffersUsage = true,
               estimatedTimeToConsumeBuffersMs = true }

-- Added up: num..., accumulate..., pending..., and what is queued.
local function is_sum(name)
  return name:find("^num") or name:find("^accumulate") or name:find("^pending") or name:find("Queue")
end

local function add(sum, row)
  for name, value in pairs(row) do
    local before = sum[name]
    if before == nil then
      if is_sum(name) or MOST[name] then sum[name] = value end
    elseif is_sum(name) then
      sum[name] = before + value
    elseif MOST[name] then
      sum[name] = math.max(before, value)
    end
  end
  for _, name in ipairs(SHARES) do sum[name] = (sum[name] or 0) + (row[name] or 0) end
  -- Where a task has no watermark yet, they have none together.
  local watermark = row.currentWatermark
  if sum.parallelism == 1 then
    sum.currentWatermark = watermark
  else
    sum.currentWatermark = sum.currentWatermark and watermark and math.min(sum.currentWatermark, watermark)
  end
  sum.isBackPressured = sum.isBackPressured or row.isBackPressured or false
end

--- The rows of one operator's tasks as one: counters, rates and queues are added up, shares of time are
-- the mean of the tasks, pool usages those of the fullest, its watermark is that of the task that is
-- furthest behind.
-- @param rows as the engine gives them
-- @param uid of the operator
-- @return a table, which has parallelism instead of subtask; or nil where no row is of that operator
function metrics.of_operator(rows, uid)
  local sum
  for _, row in ipairs(rows) do
    if row.uid == uid then
      sum = sum or { uid = uid, name = row.name, task = row.task, attempt = row.attempt, parallelism = 0 }
      sum.parallelism = sum.parallelism + 1
      add(sum, row)
    end
  end
  if not sum then return nil end
  for _, name in ipairs(SHARES) do sum[name] = (sum[name] + sum.parallelism // 2) // sum.parallelism end
  local idle = sum.idleTimeMsPerSecond
  local waits = math.min(sum.backPressuredTimeMsPerSecond, 1000 - idle)
  sum.backPressuredTimeMsPerSecond, sum.busyTimeMsPerSecond = waits, 1000 - idle - waits
  return sum
end

return metrics
