-- slot: what runs in the Lua state of a slot before any record: it builds the job's functions from
-- the string that closure.lua made. The format is described there.

local slot = {}

local MAGIC = "streamckpt closure 1\n"

local unpack = string.unpack

-- Every use of a global that could not travel says so; only asking for its type does not.
local function stub(name, reason)
  local function fail()
    error(("%s of the script was not carried into the slots, because it is %s; make it in 'open', "
      .. "which runs in every slot, or get it by require from a module"):format(name, reason), 2)
  end
  local meta = { __name = "streamckpt.stub" }
  for _, event in ipairs { "index", "newindex", "call", "len", "concat", "unm", "add", "sub", "mul",
                           "div", "mod", "pow", "idiv", "band", "bor", "bxor", "bnot", "shl", "shr",
                           "eq", "lt", "le", "tostring", "pairs", "close" } do
    meta["__" .. event] = fail
  end
  return setmetatable({}, meta)
end

-- The value that a name stands for in this state.
local function resolve(path)
  if path[1] == "_G" and #path == 1 then return _G end
  local ok, value = pcall(require, path[1])
  if not ok then
    error(("module '%s', which functions of the job use, cannot be loaded in a slot: %s"):format(
      path[1], tostring(value)), 0)
  end
  for i = 2, #path do
    value = type(value) == "table" and rawget(value, path[i]) or nil
    if value == nil then
      error(("'%s', which functions of the job use, is not there when module '%s' is loaded in a "
        .. "slot; the script may have put it there"):format(table.concat(path, ".", 1, i), path[1]), 0)
    end
  end
  return value
end

local READERS = {
  n = function(_, _, at) return nil, at end,
  t = function(_, _, at) return true, at end,
  f = function(_, _, at) return false, at end,
  i = function(_, bytes, at) return unpack("<i8", bytes, at) end,
  d = function(_, bytes, at) return unpack("<d", bytes, at) end,
  s = function(_, bytes, at) return unpack("<s4", bytes, at) end,
  r = function(objects, bytes, at)
    local id, after = unpack("<I4", bytes, at)
    return objects[id], after
  end,
}

local function read_value(objects, bytes, at)
  return READERS[bytes:sub(at, at)](objects, bytes, at + 1)
end

-- The object of a node, still empty: nodes refer to each other in circles.
local function create(record, chunks)
  local kind = record:sub(1, 1)
  if kind == "T" or kind == "C" then return {} end
  if kind == "F" then return assert(load(chunks[unpack("<I4", record, 2)], "=job", "b")) end
  if kind == "S" then
    local name, reason = unpack("<s4s4", record, 2)
    return stub(name, reason)
  end
  local count, at = unpack("<B", record, 2)
  local path = {}
  for i = 1, count do path[i], at = unpack("<s4", record, at) end
  return resolve(path)
end

local function fill_table(objects, t, record)
  local count, at = unpack("<I4", record, 2)
  for _ = 1, count do
    local key, value
    key, at = read_value(objects, record, at)
    value, at = read_value(objects, record, at)
    rawset(t, key, value)
  end
  return (read_value(objects, record, at))
end

local function fill_function(objects, fn, record, owners)
  local _, count, at = unpack("<I4I4", record, 2)
  for i = 1, count do
    local cell
    cell, at = unpack("<I4", record, at)
    local owner = owners[cell]
    if owner then
      debug.upvaluejoin(fn, i, owner.fn, owner.i)
    else
      owners[cell] = { fn = fn, i = i }
      debug.setupvalue(fn, i, objects[cell].value)
    end
  end
end

local function fill(objects, records)
  local owners, metatables = {}, {}
  for id, record in ipairs(records) do
    local kind = record:sub(1, 1)
    if kind == "C" then objects[id].value = read_value(objects, record, 2)
    elseif kind == "T" then metatables[id] = fill_table(objects, objects[id], record) end
  end
  for id, record in ipairs(records) do
    if record:sub(1, 1) == "F" then fill_function(objects, objects[id], record, owners) end
  end
  -- Last, when all fields are there: a finalizer counts only if the metatable has it by now.
  for id, meta in pairs(metatables) do debug.setmetatable(objects[id], meta) end
end

local function read_strings(blob, at)
  local count, out
  count, at = unpack("<I4", blob, at)
  out = {}
  for i = 1, count do out[i], at = unpack("<s4", blob, at) end
  return out, at
end

local function read_header(blob)
  if type(blob) ~= "string" or blob:sub(1, #MAGIC) ~= MAGIC then
    error("the functions of the job are not in a format that this version of streamckpt reads", 0)
  end
  local version, path, cpath, at = unpack("<s4s4s4", blob, #MAGIC + 1)
  if version ~= _VERSION then
    error(("the functions of the job were made by %s, and this is %s"):format(version, _VERSION), 0)
  end
  return path, cpath, at
end

local function install_globals(objects, blob, at)
  local count
  count, at = unpack("<I4", blob, at)
  for _ = 1, count do
    local library, name, value
    library, name, at = unpack("<s4s4", blob, at)
    value, at = read_value(objects, blob, at)
    rawset(package.loaded[library], name, value)
  end
end

--- Build the functions of a job in this Lua state: package paths, modules, functions, globals.
-- @param blob the string that closure.dump made
-- @return the root that closure.dump was given, as this state has it
-- Raises a sentence where a module cannot be loaded here.
-- Example: local root = require("streamckpt.slot").load(blob); root.operators[1].fn(value)
function slot.load(blob)
  local path, cpath, at = read_header(blob)
  -- Before anything else: names are resolved by requiring modules.
  package.path, package.cpath = path, cpath
  local chunks, records, root
  chunks, at = read_strings(blob, at)
  records, at = read_strings(blob, at)
  local objects = {}
  for id, record in ipairs(records) do objects[id] = create(record, chunks) end
  fill(objects, records)
  root, at = read_value(objects, blob, at)
  install_globals(objects, blob, at)
  return root
end

return slot
