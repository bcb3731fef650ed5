-- pack: msgpack in plain Lua, for specs that must not trust the code they test.
local pack = {}

pack.null = setmetatable({}, { __tostring = function() return "null" end })

local array_mt, map_mt = {}, {}
-- An array although it is empty.
function pack.array(t) return setmetatable(t, array_mt) end
-- A map of {key, value} pairs in that order (any keys).
function pack.pairs(list) return setmetatable(list, map_mt) end

local function header(n, fix, fix_max, wide16, wide32)
  if n <= fix_max then return string.char(fix + n) end
  if n < 65536 then return string.pack(">B I2", wide16, n) end
  return string.pack(">B I4", wide32, n)
end

local function encode_string(s)
  if #s < 32 then return string.char(0xa0 + #s) .. s end
  if #s < 256 then return string.pack(">B s1", 0xd9, s) end
  if #s < 65536 then return string.pack(">B s2", 0xda, s) end
  return string.pack(">B s4", 0xdb, s)
end

local function encode_integer(i)
  if i >= 0 and i < 128 then return string.char(i) end
  if i < 0 and i >= -32 then return string.char(256 + i) end
  return string.pack(">B i8", 0xd3, i)
end

local function encode_map(list)
  local out = { header(#list, 0x80, 15, 0xde, 0xdf) }
  for _, pair in ipairs(list) do
    out[#out + 1] = pack.encode(pair[1]) .. pack.encode(pair[2])
  end
  return table.concat(out)
end

local function encode_table(t)
  if getmetatable(t) == map_mt then return encode_map(t) end
  if #t > 0 or getmetatable(t) == array_mt then
    local out = { header(#t, 0x90, 15, 0xdc, 0xdd) }
    for i, v in ipairs(t) do out[i + 1] = pack.encode(v) end
    return table.concat(out)
  end
  local list = {}
  for k, v in pairs(t) do list[#list + 1] = { k, v } end
  table.sort(list, function(a, b) return pack.encode(a[1]) < pack.encode(b[1]) end)
  return encode_map(list)
end

function pack.encode(v)
  local kind = math.type(v) or type(v)
  if v == nil or v == pack.null then return "\xc0" end
  if kind == "boolean" then return v and "\xc3" or "\xc2" end
  if kind == "integer" then return encode_integer(v) end
  if kind == "float" then return string.pack(">B d", 0xcb, v) end
  if kind == "string" then return encode_string(v) end
  return encode_table(v)
end

local decode

local function decode_array(s, at, n)
  local t = pack.array {}
  for i = 1, n do t[i], at = decode(s, at) end
  return t, at
end

local function decode_map(s, at, n)
  local t = {}
  for _ = 1, n do
    local k, v
    k, at = decode(s, at)
    v, at = decode(s, at)
    t[k] = v
  end
  return t, at
end

local scalars = {
  [0xca] = ">f", [0xcb] = ">d", [0xcc] = ">I1", [0xcd] = ">I2", [0xce] = ">I4", [0xcf] = ">I8",
  [0xd0] = ">i1", [0xd1] = ">i2", [0xd2] = ">i4", [0xd3] = ">i8",
  [0xd9] = ">s1", [0xda] = ">s2", [0xdb] = ">s4",
}
local containers = {
  [0xdc] = { ">I2", decode_array }, [0xdd] = { ">I4", decode_array },
  [0xde] = { ">I2", decode_map }, [0xdf] = { ">I4", decode_map },
}

function decode(s, at)
  local b = s:byte(at)
  at = at + 1
  if b < 0x80 then return b, at end
  if b < 0x90 then return decode_map(s, at, b - 0x80) end
  if b < 0xa0 then return decode_array(s, at, b - 0x90) end
  if b < 0xc0 then return s:sub(at, at + b - 0xa1), at + b - 0xa0 end
  if b == 0xc0 then return pack.null, at end
  if b == 0xc2 or b == 0xc3 then return b == 0xc3, at end
  if b >= 0xe0 then return b - 256, at end
  if scalars[b] then return string.unpack(scalars[b], s, at) end
  local container = assert(containers[b], "no msgpack of ours")
  local n
  n, at = string.unpack(container[1], s, at)
  return container[2](s, at, n)
end

function pack.decode(s)
  local v, at = decode(s, 1)
  assert(at == #s + 1, "bytes after the value")
  return v
end

return pack
