-- A small msgpack in plain Lua: what specs compare the engine's bytes with. Maps come back as tables
-- by key, arrays as sequences, nil as msgpack.null.
local msgpack = { null = setmetatable({}, { __tostring = function() return "null" end }) }

local read

local function many(n, s, at)
  local out = {}
  for i = 1, n do out[i], at = read(s, at) end
  return out, at
end

local function pairs_of(n, s, at)
  local out = {}
  for _ = 1, n do
    local key, after = read(s, at)
    out[key], at = read(s, after)
  end
  return out, at
end

local fixed = {
  [0xc0] = function() return msgpack.null end, [0xc2] = function() return false end,
  [0xc3] = function() return true end,
}
local numbers = {
  [0xca] = ">f", [0xcb] = ">d", [0xcc] = ">B", [0xcd] = ">I2", [0xce] = ">I4", [0xcf] = ">i8",
  [0xd0] = ">b", [0xd1] = ">i2", [0xd2] = ">i4", [0xd3] = ">i8",
}
local strings = { [0xd9] = ">s1", [0xda] = ">s2", [0xdb] = ">s4", [0xc4] = ">s1" }
local arrays = { [0xdc] = ">I2", [0xdd] = ">I4" }
local maps = { [0xde] = ">I2", [0xdf] = ">I4" }

function read(s, at)
  local b = s:byte(at)
  assert(b, "bytes end inside a value")
  at = at + 1
  if b < 0x80 then return b, at end
  if b < 0x90 then return pairs_of(b - 0x80, s, at) end
  if b < 0xa0 then return many(b - 0x90, s, at) end
  if b < 0xc0 then return s:sub(at, at + b - 0xa0 - 1), at + b - 0xa0 end
  if b >= 0xe0 then return b - 256, at end
  if fixed[b] then return fixed[b](), at end
  if numbers[b] then return string.unpack(numbers[b], s, at) end
  if strings[b] then return string.unpack(strings[b], s, at) end
  local n
  if arrays[b] then
    n, at = string.unpack(arrays[b], s, at)
    return many(n, s, at)
  end
  n, at = string.unpack(assert(maps[b], "unknown type byte"), s, at)
  return pairs_of(n, s, at)
end

function msgpack.decode(s)
  local value, at = read(s, 1)
  assert(at == #s + 1, "bytes follow the value")
  return value
end

-- Arrays of strings, integers (fixint and int64) and booleans: enough for what specs hand in.
function msgpack.encode(v)
  if type(v) == "boolean" then return v and "\xc3" or "\xc2" end
  if math.type(v) == "integer" then
    return v >= 0 and v < 128 and string.char(v) or string.pack(">Bi8", 0xd3, v)
  end
  if type(v) == "string" then return string.pack(">Bs2", 0xda, v) end
  local out = { string.pack(">BI2", 0xdc, #v) }
  for _, x in ipairs(v) do out[#out + 1] = msgpack.encode(x) end
  return table.concat(out)
end

return msgpack
