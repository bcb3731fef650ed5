-- show: plain tables that read well when they are printed, at a prompt above all.
--
-- What the engine tells (a status, statistics, metrics, rows) stays a plain table for a script; it only
-- gets a metatable whose __tostring writes it, with names in order and nested tables indented. Arrays that
-- sc.array has marked print so, too.

local values = require "streamckpt.values"

local show = {}

local LINE_MAX = 76
local ROWS_MAX = 200

local function is_array(t)
  local count = 0
  for _ in pairs(t) do count = count + 1 end
  return count == #t
end

local function sorted_keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    if type(a) == type(b) and (type(a) == "number" or type(a) == "string") then return a < b end
    return type(a) < type(b)
  end)
  return keys
end

local function scalar(value)
  if type(value) == "string" then return ("%q"):format(value):gsub("\\\n", "\\n") end
  if math.type(value) == "float" and value % 1 ~= 0 then return ("%.6g"):format(value) end
  return tostring(value)
end

local write

-- A table on one line, or nil if it is too long for one.
local function on_one_line(t, depth)
  local words, length = {}, 0
  local array = is_array(t)
  for _, key in ipairs(array and {} or sorted_keys(t)) do
    words[#words + 1] = tostring(key) .. " = " .. write(t[key], "", depth + 1)
  end
  for i = 1, array and math.min(#t, ROWS_MAX) or 0 do words[i] = write(t[i], "", depth + 1) end
  for _, word in ipairs(words) do
    length = length + #word + 2
    if length > LINE_MAX or word:find("\n", 1, true) then return nil end
  end
  if array and #t > ROWS_MAX then return nil end
  return #words == 0 and "{}" or "{ " .. table.concat(words, ", ") .. " }"
end

function write(value, indent, depth)
  if value == values.null then return "null" end
  if type(value) ~= "table" then return (scalar(value)) end
  -- Deeper than this it is no report any more, or it goes in a circle.
  if depth > 8 then return "{...}" end
  local line = on_one_line(value, depth)
  if line and #indent + #line <= LINE_MAX + 2 then return line end
  local inner, lines = indent .. "  ", { "{" }
  local array = is_array(value)
  for i, key in ipairs(sorted_keys(value)) do
    if i > ROWS_MAX then
      lines[#lines + 1] = ("%s... and %d more"):format(inner, #sorted_keys(value) - ROWS_MAX)
      break
    end
    local name = array and "" or tostring(key) .. " = "
    lines[#lines + 1] = inner .. name .. write(value[key], inner, depth + 1) .. ","
  end
  lines[#lines + 1] = indent .. "}"
  return table.concat(lines, "\n")
end

--- The text of any value.
-- @return a string, of several lines where the value is large
function show.text(value)
  return write(value, "", 1)
end

local Shown = { __name = "streamckpt.table", __tostring = show.text }

-- A collect without rows is an empty array, which has a metatable of its own already.
values.array_metatable.__tostring = show.text

--- Let a plain table, and those in it, print themselves.
-- @param t a table; other values are returned as they are
-- @return the same table
function show.table(t)
  if type(t) == "table" and getmetatable(t) == nil then
    setmetatable(t, Shown)
    for _, inner in pairs(t) do show.table(inner) end
  end
  return t
end

local Status = { __name = "streamckpt.status" }

-- How many of several regions run, while not all do.
local function running_of(regions)
  local n = 0
  for _, region in ipairs(regions) do
    if region.state == "running" then n = n + 1 end
  end
  return ("%d of %d regions run"):format(n, #regions)
end

-- "running, attempt 2, 1 restart, checkpoint 7", or "stopped, checkpoint 8"; where the job failed its
-- whole error follows, with the traceback, and where it got over a failure only what that was.
function Status:__tostring()
  local words = { self.stopped and "stopped" or tostring(self.state) }
  -- It is 0 before the first has begun.
  if (self.attempt or 1) > 1 then words[#words + 1] = ("attempt %s"):format(self.attempt) end
  local restarts = self.restarts or 0
  if restarts ~= 0 then
    words[#words + 1] = restarts == 1 and "1 restart" or ("%s restarts"):format(restarts)
  end
  local last = self.last_checkpoint
  if type(last) == "table" then last = last.id end
  if last and last ~= 0 then words[#words + 1] = ("checkpoint %s"):format(last) end
  if self.regions and self.state == "restarting" then words[#words + 1] = running_of(self.regions) end
  local text = table.concat(words, ", ")
  if not self.error then return text end
  if self.state == "failed" then return text .. "\n" .. tostring(self.error) end
  return text .. "\nlast failure: " .. tostring(self.error):match("^[^\n]*")
end

--- Let a job's status print itself as a sentence.
-- @return the same table
function show.status(status)
  return type(status) == "table" and setmetatable(status, Status) or status
end

return show
