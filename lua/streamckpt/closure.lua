-- closure: the functions of a job as one string, from which every slot builds them again (slot.lua).
--
-- Everything reachable from the root travels as one graph: functions as bytecode, their upvalues by
-- value, and whatever is shared (a table, an upvalue that two functions write) is shared again in the
-- slot. What has a name in every state (known.lua) travels by its name, so `_ENV`, found by its value,
-- becomes the slot's globals. What the script defined globally travels, too; what of that cannot
-- becomes a stub that raises its name when used. Anything else that cannot travel is refused.
--
-- The string, little endian; "s" is a length of 4 bytes and that many bytes:
--   magic, s version of Lua, s package.path, s package.cpath
--   u32 number of chunks, each: s bytecode
--   u32 number of nodes, each: s record, whose first byte is its kind:
--     T u32 pairs, (value value) each, value: its metatable or nil
--     F u32 chunk, u32 upvalues, u32 node of a cell each
--     C value: a cell, the variable behind an upvalue
--     N u8 parts, s each: the name of a module, then field names inside it
--     S s name, s reason: a stub
--   value: the root
--   u32 number of globals, each: s library, s name, value
-- A value is a byte and what belongs to it: n, t, f (nil, true, false), i int64, d float64, s string,
-- r u32 number of a node, from 1.
--
-- The graph is walked with a queue and no recursion: a list of a million linked tables travels.

local known = require "streamckpt.known"

local closure = {}

closure.MAGIC = "streamckpt closure 1\n"

local pack = string.pack

local Refusal = {}
local Dumper = {}
Dumper.__index = Dumper

local CURE = "make it in 'open', which runs in every slot, or get it by require from a module"

local function describe(value)
  local kind = type(value)
  if kind == "function" then return "a C function that no loaded module has" end
  if kind == "thread" then return "a coroutine" end
  local meta = debug.getmetatable(value)
  if kind == "table" then return rawget(meta, "__stays") end
  local name = meta and type(meta) == "table" and rawget(meta, "__name")
  return type(name) == "string" and ("a userdata (%s)"):format(name) or "a userdata"
end

local function function_place(fn)
  local info = debug.getinfo(fn, "S")
  return ("%s:%d"):format(info.short_src, info.linedefined)
end

-- One step in words. Most steps are never shown, so they are kept as they are until then: as words, or
-- as FIELD and the key.
local FIELD = {}

local function step_words(how, key)
  if how ~= FIELD then return how end
  if type(key) == "string" then return ("field '%s'"):format(key) end
  if type(key) == "number" then return ("field [%s]"):format(key) end
  return "a field"
end

-- The steps from a root through node `from` to the last one, `how`.
local function steps_to(self, from, how, key)
  local steps, node = { { how = step_words(how, key) } }, from
  while node ~= 0 do
    local origin = self.origins[node]
    steps[#steps + 1] = { how = step_words(origin.how, origin.key), fn = origin.fn }
    node = origin.from
  end
  for i = 1, #steps // 2 do steps[i], steps[#steps + 1 - i] = steps[#steps + 1 - i], steps[i] end
  return steps
end

-- The steps from number `first` on, in words; of a long way only the ends.
local function join_steps(steps, first)
  local words = {}
  for i = first, #steps do
    if steps[i].how ~= "" then words[#words + 1] = steps[i].how end
  end
  if #words > 8 then
    table.move(words, #words - 3, #words, 6)
    words[5] = "..."
    for i = #words, 10, -1 do words[i] = nil end
  end
  return table.concat(words, ", ")
end

-- "operator 'visits': on_element (a.lua:10) holds upvalue 'db', field 'conn', which is ..."
local function refusal(self, value, steps)
  local innermost
  for i, step in ipairs(steps) do
    if step.fn then innermost = i end
  end
  local what, where = describe(value), self.label or "the job"
  if not innermost then
    return ("%s cannot run in the slots: %s is %s; %s"):format(where, join_steps(steps, 1), what, CURE)
  end
  local fn = steps[innermost]
  return ("%s cannot run in the slots: the function at %s (%s) holds %s, which is %s; %s"):format(
    where, function_place(fn.fn), fn.how, join_steps(steps, innermost + 1), what, CURE)
end

-- A place for one more object; `how` and `key` say for messages how node `from` leads to it.
local function add_node(self, from, how, key, object, record)
  local id = #self.records + 1
  self.records[id] = record or false
  self.origins[id] = { from = from, how = how, key = key,
                       fn = type(object) == "function" and object or nil }
  if not record then self.pending[#self.pending + 1] = { id = id, object = object } end
  return id
end

-- The node of a stub for what cannot travel; where nothing may be missing, a refusal is raised.
local function refuse(self, value, from, how, key)
  local steps = steps_to(self, from, how, key)
  if not self.lenient then error(setmetatable({ refusal(self, value, steps) }, Refusal)) end
  local name = join_steps(steps, 1)
  return add_node(self, from, how, key, nil, pack("<c1s4s4", "S", name, describe(value)))
end

local function stays(value)
  local meta = debug.getmetatable(value)
  return type(meta) == "table" and rawget(meta, "__stays") ~= nil
end

local function named_record(path)
  local parts = { pack("<c1B", "N", #path) }
  for _, part in ipairs(path) do parts[#parts + 1] = pack("<s4", part) end
  return table.concat(parts)
end

local function node_of(self, value, from, how, key)
  local id = self.ids[value]
  if id then return id end
  local path, kind = self.known[value], type(value)
  if path then
    id = add_node(self, from, how, key, nil, named_record(path))
  elseif (kind == "table" and not stays(value))
    or (kind == "function" and debug.getinfo(value, "S").what ~= "C") then
    id = add_node(self, from, how, key, value)
  else
    id = refuse(self, value, from, how, key)
  end
  self.ids[value] = id
  return id
end

-- One value in the format of the head of this file.
function Dumper:value(value, from, how, key)
  local kind = math.type(value) or type(value)
  if kind == "nil" then return "n" end
  if kind == "boolean" then return value and "t" or "f" end
  if kind == "integer" then return pack("<c1i8", "i", value) end
  if kind == "float" then return pack("<c1d", "d", value) end
  if kind == "string" then return pack("<c1s4", "s", value) end
  return pack("<c1I4", "r", node_of(self, value, from, how, key))
end

local function table_record(self, id, t)
  local parts, n = { "" }, 0
  for key, value in next, t do
    n = n + 1
    parts[#parts + 1] = self:value(key, id, "a key")
    parts[#parts + 1] = self:value(value, id, FIELD, key)
  end
  parts[1] = pack("<c1I4", "T", n)
  parts[#parts + 1] = self:value(debug.getmetatable(t), id, "its metatable")
  return table.concat(parts)
end

-- Some hosts give scripts an empty table as _ENV that looks everything up in the globals; such a view
-- means the globals.
local function views_globals(name, value)
  if name ~= "_ENV" or type(value) ~= "table" or next(value) ~= nil then return false end
  local ok, seen = pcall(function() return rawequal(value.string, _G.string) and value.pairs end)
  return ok and seen ~= nil and rawequal(seen, pairs)
end

local function cell_node(self, id, fn, i)
  local identity = debug.upvalueid(fn, i)
  local cell = self.cells[identity]
  if cell then return cell end
  local name, value = debug.getupvalue(fn, i)
  if views_globals(name, value) then value = _G end
  -- A stripped function has upvalues without names.
  local how = name ~= "" and name ~= "(no name)" and ("upvalue '%s'"):format(name)
    or ("upvalue %d"):format(i)
  -- Not a step of its own for a reader of messages: the value behind it is named by the upvalue.
  cell = add_node(self, id, "", nil, nil, "C")
  self.cells[identity] = cell
  self.records[cell] = "C" .. self:value(value, cell, how)
  return cell
end

local function chunk_number(self, fn)
  local code = string.dump(fn)
  local number = self.chunk_numbers[code]
  if not number then
    number = #self.chunks + 1
    self.chunks[number], self.chunk_numbers[code] = pack("<s4", code), number
  end
  return number
end

local function function_record(self, id, fn)
  local count = debug.getinfo(fn, "u").nups
  local parts = { pack("<c1I4I4", "F", chunk_number(self, fn), count) }
  for i = 1, count do parts[#parts + 1] = pack("<I4", cell_node(self, id, fn, i)) end
  return table.concat(parts)
end

-- Write the records of all nodes that were found but not yet looked into.
local function drain(self)
  local pending, at = self.pending, 1
  while at <= #pending do
    local node = pending[at]
    pending[at], at = false, at + 1
    local write = type(node.object) == "table" and table_record or function_record
    self.records[node.id] = write(self, node.id, node.object)
  end
  self.pending = {}
end

-- Operators one by one, so that a refusal can name the one whose function leads to it.
local function dump_operators(self, root, labels)
  for i, spec in pairs(root.operators or {}) do
    self.label = labels and labels[i]
    for name, value in next, spec do
      self:value(value, 0, tostring(name))
      drain(self)
    end
  end
  self.label = nil
  local value = self:value(root, 0, "the root")
  drain(self)
  return value
end

local function dump_globals(self)
  self.lenient = true
  local defined = known.defined()
  local parts = { pack("<I4", #defined) }
  for _, item in ipairs(defined) do
    local library, name, value = item[1], item[2], item[3]
    local shown = library == "_G" and name or library .. "." .. name
    parts[#parts + 1] = pack("<s4s4", library, name)
    parts[#parts + 1] = self:value(value, 0, ("global '%s'"):format(shown))
    drain(self)
  end
  return table.concat(parts)
end

local function framed(records)
  local parts = { pack("<I4", #records) }
  for _, record in ipairs(records) do parts[#parts + 1] = pack("<s4", record) end
  return table.concat(parts)
end

local function dump(root, labels)
  local self = setmetatable({
    known = known.index(),  -- value -> name that every state knows
    ids = {},               -- object -> number of its node
    cells = {},             -- identity of an upvalue -> number of its node
    records = {},           -- number of a node -> its bytes; false until it was looked into
    origins = {},           -- number of a node -> what led to it, for messages
    pending = {},           -- nodes that are still to be looked into
    chunks = {},            -- bytecode in the order of its numbers
    chunk_numbers = {},     -- bytecode -> its number
    lenient = false,        -- what cannot travel becomes a stub
    label = nil,            -- the operator that is looked at
  }, Dumper)
  local value = dump_operators(self, root, labels)
  local globals = dump_globals(self)
  local paths = root.package or {}
  return closure.MAGIC
    .. pack("<s4s4s4", _VERSION, paths.path or package.path, paths.cpath or package.cpath)
    .. pack("<I4", #self.chunks) .. table.concat(self.chunks)
    .. framed(self.records) .. value .. globals
end

--- Pack the functions of a job, and all they need, into one string.
-- @param root {operators = {[i] = table of the operator's functions}, package = {path, cpath}}; any
--   other fields travel, too
-- @param labels {[i] = how messages name operator i}; optional
-- @return the string for slot.load; or nil and a sentence that names what cannot travel
-- Example: local blob = assert(closure.dump({ operators = { { fn = f } } }, { "operator 'parse'" }))
function closure.dump(root, labels)
  local ok, blob = pcall(dump, root, labels)
  if ok then return blob end
  if getmetatable(blob) == Refusal then return nil, blob[1] end
  error(blob, 0)
end

return closure
