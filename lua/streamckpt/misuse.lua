-- misuse: errors that point at the line of the user's script which made the mistake.
--
-- A level counted by hand breaks as soon as a helper comes between, so the level is found: the first
-- function on the stack that does not belong to this library.

local misuse = {}

local HOME = debug.getinfo(1, "S").source:match("^@(.*)misuse%.lua$")

local function is_ours(info)
  return info.what == "C" or (HOME ~= nil and info.source:sub(1, #HOME + 1) == "@" .. HOME)
end

-- The first stack level, as the caller of this function counts, that is the user's; 0 if none is.
local function user_level()
  local level = 2
  while true do
    local info = debug.getinfo(level, "S")
    if not info then return 0 end
    if not is_ours(info) then return level - 1 end
    level = level + 1
  end
end

--- Raise a formatted sentence that begins with the user's file and line.
-- @param format string.format's format, then its arguments
-- Never returns. Example: misuse.raise("map needs a function, got %s", type(fn))
function misuse.raise(format, ...)
  local message = format
  if select("#", ...) > 0 then message = format:format(...) end
  error(message, user_level())
end

--- Where the user's script is now.
-- @return "file.lua:12", or "stdin" where no user function is on the stack: an expression that is typed
--   at the prompt is a tail call, which leaves none
function misuse.place()
  local level = user_level()
  if level == 0 then return "stdin" end
  local info = debug.getinfo(level, "Sl")
  return ("%s:%d"):format(info.short_src, info.currentline)
end

-- Number of single-character edits between two short words.
local function distance(a, b)
  local row = {}
  for j = 0, #b do row[j] = j end
  for i = 1, #a do
    local diagonal = row[0]
    row[0] = i
    for j = 1, #b do
      local cost = a:byte(i) == b:byte(j) and 0 or 1
      local best = math.min(row[j] + 1, row[j - 1] + 1, diagonal + cost)
      diagonal, row[j] = row[j], best
    end
  end
  return row[#b]
end

--- The end of a sentence about an unknown name: "; did you mean 'map'?", or "" where nothing is like it.
-- @param name, known as for nearest; names that begin with "_" are not offered
function misuse.hint(name, known)
  local offered = {}
  for candidate in pairs(known) do
    if type(candidate) == "string" and candidate:sub(1, 1) ~= "_" then offered[candidate] = true end
  end
  local nearest, edits = misuse.nearest(name, offered)
  if not nearest or edits > math.max(1, #tostring(name) // 2) then return "" end
  return ("; did you mean '%s'?"):format(nearest)
end

--- The name among the keys of `known` that is most like `name`.
-- @param name a string, or any other value, which is compared by its text
-- @param known a table whose keys are the names
-- @return the nearest name, the first in byte order among equals, and by how many edits they differ; nil
--   if there are none
function misuse.nearest(name, known)
  local best, best_distance
  for candidate in pairs(known) do
    if type(candidate) == "string" then
      local d = distance(tostring(name):lower(), candidate:lower())
      if not best or d < best_distance or (d == best_distance and candidate < best) then
        best, best_distance = candidate, d
      end
    end
  end
  return best, best_distance
end

--- "a stream", "an env": a noun with its article.
function misuse.a(noun)
  return (noun:find("^[aeiou]") and "an " or "a ") .. noun
end

--- A value as it reads well in a sentence: strings quoted, tables by their type.
-- @return a string
function misuse.shown(value)
  if type(value) == "string" then return ("'%s'"):format(value) end
  if type(value) == "number" or type(value) == "boolean" or value == nil then
    return tostring(value)
  end
  return "a " .. type(value)
end

return misuse
