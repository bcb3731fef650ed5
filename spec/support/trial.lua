-- Trials of failure and recovery: a pipeline whose every step a spec controls through files, since
-- nothing else survives a restart of a job or reaches its slots.
--
--   source: two of them, with several splits each, united; a split goes on behind its record HOLD only
--           when the file "go" is there, so that a spec can act while nothing moves
--   tap:    a map that runs `trouble` (a function given by the spec) on each record
--   count:  keyed; emits {k, n} for the n-th record of each key, and at the end of time {k, total}
--   sink:   to_file, exactly once
--
-- What comes out is known without running anything: for each key, n = 1 .. its records, and total.

local sc = require "streamckpt"
local pipeline = require "support.pipeline"

local trial = { folder = pipeline.folder, clean = pipeline.clean, read = pipeline.read,
                wait = pipeline.wait, wait_for = pipeline.wait_for }

trial.SPLITS, trial.RECORDS, trial.KEYS, trial.HOLD = 3, 200, 17, 90

function trial.quote(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

function trial.shell(command, ...)
  local words = { ... }
  for i, word in ipairs(words) do words[i] = trial.quote(tostring(word)) end
  assert(os.execute(command .. " " .. table.concat(words, " ")), "the shell failed: " .. command)
end

function trial.write(path, text)
  local file <close> = assert(io.open(path, "wb"))
  file:write(text or "")
end

function trial.exists(path)
  local file = io.open(path, "rb")
  if file then file:close() end
  return file ~= nil
end

-- Change the byte at an offset (from the end where negative).
function trial.flip(path, offset)
  local bytes = assert(trial.read(path))
  local at = offset < 0 and #bytes + offset + 1 or offset + 1
  trial.write(path, bytes:sub(1, at - 1) .. string.char(bytes:byte(at) ~ 0x20) .. bytes:sub(at + 1))
end

--- The names in a folder, hidden ones too, in order.
function trial.names(folder, pattern)
  local names, listing <close> = {}, assert(io.popen("LC_ALL=C ls -1A " .. trial.quote(folder) .. " 2>/dev/null"))
  for name in listing:lines() do
    if not pattern or name:find(pattern) then names[#names + 1] = name end
  end
  return names
end

--- The lines of all committed parts, sorted, and how many parts there are.
function trial.lines(out)
  local lines, parts = {}, trial.names(out, "^[^.].*%.%a+$")
  for _, name in ipairs(parts) do
    for line in io.lines(out .. "/" .. name) do lines[#lines + 1] = line end
  end
  table.sort(lines)
  return lines, #parts
end

--- Where the checkpoints of a trial in `dir` lie.
function trial.job_folder(dir) return dir .. "/ckpt/trial" end
function trial.chk(dir, id) return ("%s/chk-%d"):format(trial.job_folder(dir), id) end

--- Ids of the checkpoints that have a _metadata, in order; and all chk-N folders.
function trial.checkpoints(dir)
  local ids, all = {}, {}
  for _, name in ipairs(trial.names(trial.job_folder(dir), "^chk%-%d+$")) do
    local id = tonumber(name:match("%d+"))
    all[#all + 1] = id
    if trial.exists(trial.chk(dir, id) .. "/_metadata") then ids[#ids + 1] = id end
  end
  table.sort(ids)
  table.sort(all)
  return ids, all
end

function trial.log(dir) return trial.read(trial.job_folder(dir) .. "/log") or "" end

--- Options of a trial: a checkpoint only when it is asked for, and at the end.
function trial.options(dir, more, checkpoint)
  local options = { id = "trial", parallelism = 2, log = { level = "off" },
                    checkpoint = { interval = "1h", dir = dir .. "/ckpt", retain = 2 },
                    restart = { strategy = "fixed_delay", delay = 1, attempts = 20 } }
  for name, value in pairs(more or {}) do options[name] = value end
  for name, value in pairs(checkpoint or {}) do options.checkpoint[name] = value end
  return options
end

--- A source whose splits all hold the same numbers: value(split, i) for i = 1 to records.
-- @param o {uid, splits: their names, records, value = fn(split, i), timestamped: i is the timestamp,
--   hold, go: behind the record `hold` a split goes on only where the file `go` is there}
function trial.source(env, o)
  -- A function gets copies of what it closes over, so all it needs stands in upvalues of its own.
  local splits, records, value, timestamped = o.splits, o.records, o.value, o.timestamped
  local hold, go = o.hold or math.huge, o.go
  return env:source {
    uid = o.uid,
    splits = function() return splits end,
    read = function(ctx, split, at)
      at = (at or 0) + 1
      if at > records then return nil end
      if at > hold then
        local file = io.open(go)
        if not file then return at - 1, 2 end
        file:close()
      end
      ctx:emit(value(split, at), timestamped and at or nil)
      return at
    end,
  }
end

--- Such a source that gives {s = split, i, k = i % keys}; its splits are named after it.
-- @param o {splits: how many, records, keys, timestamped}
function trial.numbers(env, name, o)
  local keys, splits = o.keys, {}
  for i = 1, o.splits do splits[i] = name .. i end
  return trial.source(env, { uid = name, splits = splits, records = o.records, timestamped = o.timestamped,
                             value = function(split, i) return { s = split, i = i, k = i % keys } end })
end

local function source(env, dir, number)
  local splits = {}
  for i = 1, trial.SPLITS do splits[i] = number * 100 + i end
  return trial.source(env, {
    uid = "source" .. number, splits = splits, records = trial.RECORDS, timestamped = true,
    hold = trial.HOLD, go = dir .. "/go", value = function(split, i) return { split = split, i = i } end })
end

--- Build the pipeline. parts: {trouble = fn(value, dir), on the way to the count; sink = options}
function trial.build(env, dir, parts)
  parts = parts or {}
  local trouble, keys = parts.trouble or function() end, trial.KEYS
  return source(env, dir, 1):union(source(env, dir, 2))
    :map(function(value)
      trouble(value, dir)
      return { k = (value.split * 7 + value.i) % keys }
    end):uid("tap")
    :watermarks { timestamp = "k" }:uid("clock")
    :key_by("k")
    :process {
      uid = "count", state = { n = sc.value() },
      on_element = function(ctx, value)
        local n = (ctx.state.n:get() or 0) + 1
        ctx.state.n:set(n)
        ctx.timers:event_time(1000000)
        ctx:emit { k = value.k, n = n }
      end,
      on_timer = function(ctx) ctx:emit { k = ctx.key, total = ctx.state.n:get() } end,
    }
    :to_file(parts.out or dir .. "/out", parts.sink):uid("sink")
end

--- What the pipeline must write, by a plain loop.
function trial.expected()
  local totals, lines = {}, {}
  for number = 1, 2 do
    for split = 1, trial.SPLITS do
      for i = 1, trial.RECORDS do
        local k = ((number * 100 + split) * 7 + i) % trial.KEYS
        totals[k] = (totals[k] or 0) + 1
      end
    end
  end
  for k, total in pairs(totals) do
    for n = 1, total do lines[#lines + 1] = ('{"k":%d,"n":%d}'):format(k, n) end
    lines[#lines + 1] = ('{"k":%d,"total":%d}'):format(k, total)
  end
  table.sort(lines)
  return lines
end

--- Start it: the job, or nil, message, code.
function trial.start(dir, parts, options, start)
  local env = sc.env(options or trial.options(dir))
  trial.build(env, dir, parts)
  return env:start(start)
end

function trial.go(dir) trial.write(dir .. "/go") end

--- Wait until every split of a fresh job has come to where it holds.
function trial.held(job)
  local want = 2 * trial.SPLITS * trial.HOLD
  trial.wait_for(job, function()
    local count = job:metrics("count")
    return count and count.numRecordsIn == want
  end)
end

--- Cancel and wait.
function trial.cancel(job)
  job:cancel()
  return assert(trial.wait(job))
end

return trial
