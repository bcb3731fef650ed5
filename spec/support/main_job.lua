-- main_job: examples/visits.lua as a process of its own that may be killed, what it has left in its
-- folders, and what it must find, by plain Lua that shares no line with it.
local uv = require "luv"

local main_job = {}

local SECOND, MINUTE = 1000, 60 * 1000
local GAP = 30 * MINUTE
local MONTHS = { "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" }

-- ---- what it must find ----

local function is_leap(year) return year % 4 == 0 and (year % 100 ~= 0 or year % 400 == 0) end

-- Midnights as ms since 1970, counted day by day.
local midnights = setmetatable({}, { __index = function(t, text)
  local day, month, year = text:match("^(%d%d)/(%a%a%a)/(%d%d%d%d)$")
  local count, lengths = 0, { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 }
  for y = 1970, tonumber(year) - 1 do count = count + (is_leap(y) and 366 or 365) end
  if is_leap(tonumber(year)) then lengths[2] = 29 end
  for i, name in ipairs(MONTHS) do
    if name == month then break end
    count = count + lengths[i]
  end
  t[text] = (count + tonumber(day) - 1) * 24 * 60 * MINUTE
  return t[text]
end })

-- Client, time in ms and bytes of a line, or nil. Zones other than +0000 do not occur in our logs.
local function read_hit(line)
  local open = line:find(" [", 1, true)
  local close = open and line:find("] \"", open, true)
  if not close then return nil end
  local stamp = line:sub(open + 2, close - 1)
  if #stamp ~= 26 or stamp:sub(-5) ~= "+0000" then return nil end
  local quote = line:find("\" ", close + 3, true)
  local size = quote and line:match("^%d%d%d (%S+)", quote + 2)
  if not size then return nil end
  local clock = tonumber(stamp:sub(13, 14)) * 60 * MINUTE + tonumber(stamp:sub(16, 17)) * MINUTE
    + tonumber(stamp:sub(19, 20)) * SECOND
  return line:sub(1, line:find(" ", 1, true) - 1), midnights[stamp:sub(1, 11)] + clock,
    size == "-" and 0 or math.tointeger(tonumber(size))
end

local function add_visits(lines, client, hits)
  table.sort(hits, function(a, b) return a[1] < b[1] end)
  local first, last, n, bytes
  local function close()
    if n then
      lines[#lines + 1] = ('{"hits":%d,"last":%d,"bytes":%d,"first":%d,"client":"%s"}')
        :format(n, last, bytes, first, client)
    end
  end
  for _, hit in ipairs(hits) do
    if not n or hit[1] - last > GAP then
      close()
      first, n, bytes = hit[1], 0, 0
    end
    last, n, bytes = hit[1], n + 1, bytes + hit[2]
  end
  close()
end

--- What is in a log: the visits' lines as the job writes them, sorted; clients, hits, the numbers of
-- lines that are no hits; hits of each minute, by its "2015-05-17 10:05".
function main_job.expected(path)
  local of_client, minutes = {}, {}
  local out = { visits = {}, clients = 0, hits = 0, bad_lines = {}, minutes = {} }
  local number = 0
  for line in io.lines(path) do
    number = number + 1
    local client, at, bytes = read_hit(line)
    if client then
      local hits = of_client[client]
      if not hits then
        hits = {}
        of_client[client], out.clients = hits, out.clients + 1
      end
      hits[#hits + 1] = { at, bytes }
      out.hits = out.hits + 1
      minutes[at // MINUTE] = (minutes[at // MINUTE] or 0) + 1
    else
      out.bad_lines[#out.bad_lines + 1] = number
    end
  end
  for client, hits in pairs(of_client) do add_visits(out.visits, client, hits) end
  for minute, hits in pairs(minutes) do
    out.minutes[#out.minutes + 1] = ('{"hits":%d,"minute":"%s"}')
      :format(hits, os.date("!%Y-%m-%d %H:%M", minute * 60))
  end
  table.sort(out.visits)
  table.sort(out.minutes)
  return out
end

-- ---- what it has left ----

--- The names in a folder, sorted; none where there is no folder.
function main_job.names(folder)
  local names = {}
  local scan = uv.fs_scandir(folder)
  for name in scan and uv.fs_scandir_next or function() end, scan do names[#names + 1] = name end
  table.sort(names)
  return names
end

--- The lines of all committed parts of a folder, sorted.
function main_job.committed(folder)
  local lines = {}
  for _, name in ipairs(main_job.names(folder)) do
    if name:find("^[^.].*%.json$") then
      for line in io.lines(folder .. "/" .. name) do lines[#lines + 1] = line end
    end
  end
  table.sort(lines)
  return lines
end

-- The first difference of two sorted arrays of lines, as a sentence, or nil.
local function difference(what, expected, actual)
  for i = 1, math.max(#expected, #actual) do
    if expected[i] ~= actual[i] then
      return ("%s: %d lines, expected %d; line %d is %s, expected %s"):format(what, #actual, #expected,
        i, tostring(actual[i]), tostring(expected[i]))
    end
  end
end

-- A name in the output folders that is no committed part, or nil.
local function stray_part(run)
  for _, folder in ipairs { run.out, run.out .. "/bad" } do
    for _, name in ipairs(main_job.names(folder)) do
      if not (name:find("^visits%.%a+%.%d+%.%d+%.json$") or name == "bad") then
        return ("%s/%s is left over"):format(folder, name)
      end
    end
  end
end

-- Whether a checkpoint names the file: its own folder's, or another, of a task that finished early.
local function is_listed(metadata, chk, name)
  for owner, bytes in pairs(metadata) do
    if bytes:find(name, 1, true) and (owner == chk or bytes:find(chk, 1, true)) then return true end
  end
end

-- What is in the checkpoints' folder besides the (at most 2) retained ones and what they list, or nil.
local function stray_checkpoint(run)
  local folder, metadata, count = run.ckpt .. "/visits", {}, 0
  for _, name in ipairs(main_job.names(folder)) do
    local file = io.open(("%s/%s/_metadata"):format(folder, name), "rb")
    if file then
      metadata[name], count = file:read("a"), count + 1
      file:close()
    elseif not (name:find("^chk%-%d+$") or name == "ids" or name == "lock" or name:find("^log")) then
      return ("%s/%s is left over"):format(folder, name)
    end
  end
  if count > 2 then return ("%d checkpoints are kept, and 2 were wanted"):format(count) end
  for _, chk in ipairs(main_job.names(folder)) do
    local inner = chk:find("^chk%-") and main_job.names(folder .. "/" .. chk) or { "_metadata" }
    if #inner == 0 then return ("%s/%s is empty"):format(folder, chk) end
    for _, name in ipairs(inner) do
      if name ~= "_metadata" and not is_listed(metadata, chk, name) then
        return ("%s/%s/%s is listed by no checkpoint"):format(folder, chk, name)
      end
    end
  end
end

--- What is wrong with the folders {out, ckpt} of a job that has ended, as a sentence, or nil.
function main_job.wrong(run, expected)
  local bad = main_job.committed(run.out .. "/bad")
  return difference("visits", expected.visits, main_job.committed(run.out)) or stray_part(run)
    or stray_checkpoint(run) or #bad ~= #expected.bad_lines
    and ("%d bad lines, expected %d"):format(#bad, #expected.bad_lines) or nil
end

-- ---- the process ----

-- Characters that a process has read so far; 0 where it is gone.
local function characters_read(pid)
  local file = io.open(("/proc/%d/io"):format(pid))
  local text = file and file:read("a") or ""
  if file then file:close() end
  return tonumber(text:match("rchar: (%d+)")) or 0
end

--- Run a script of examples/ to its end, or until it is killed.
-- @param script its name
-- @param arguments an array
-- @param watch nil, or a function(process) that is called every 2 ms while it runs; process has
--   kill(), pid, seconds, read (characters)
-- @return {code, signal, seconds, stdout, stderr}
function main_job.script(script, arguments, watch)
  local result, began = {}, uv.hrtime()
  local out, err, timer = uv.new_pipe(), uv.new_pipe(), uv.new_timer()
  local process, pid
  process, pid = uv.spawn(os.getenv("LUA") or "lua5.4", {
    args = { "examples/" .. script, table.unpack(arguments) }, stdio = { nil, out, err },
  }, function(code, signal)
    result.code, result.signal = code, signal
    result.seconds = (uv.hrtime() - began) / 1e9
    timer:close()
    process:close()
  end)
  assert(process, pid)
  local function collect(pipe, name)
    local chunks = {}
    pipe:read_start(function(_, data)
      if data then chunks[#chunks + 1] = data else
        result[name] = table.concat(chunks)
        pipe:close()
      end
    end)
  end
  collect(out, "stdout")
  collect(err, "stderr")
  local seen = { pid = pid, kill = function() process:kill("sigkill") end }
  timer:start(0, 2, function()
    if not watch or result.code then return end
    seen.seconds, seen.read = (uv.hrtime() - began) / 1e9, characters_read(pid)
    -- An error in a callback of the loop would end this process.
    local ok, message = pcall(watch, seen)
    if not ok then
      watch, result.error = nil, message
      process:kill("sigkill")
    end
  end)
  while not (result.code and result.stdout and result.stderr) do uv.run("once") end
  if result.error then error(result.error, 0) end
  return result
end

--- Run the main job once.
-- @param run {log, out, ckpt, interval}
-- @param parallelism of this run
-- @param watch as for script
function main_job.visits(run, parallelism, watch)
  return main_job.script("visits.lua",
    { run.log, run.out, run.ckpt, tostring(parallelism), run.interval or "500ms" }, watch)
end

return main_job
