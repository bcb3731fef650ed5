-- Random msgpack values and a plain encoder for them, written from the msgpack specification: a
-- model to compare the engine's reading and packing with. Integers and strings come in any of the
-- forms that the specification allows when a `loose` encoder is asked for.
local values = {}

-- The seed of random specs: SC_SEED from the environment, else the time. Put it in the spec's name.
values.seed = math.tointeger(tonumber(os.getenv "SC_SEED")) or os.time()

local EDGES = {
  0, 1, -1, 31, 32, -32, -33, 127, 128, -127, -128, -129, 255, 256, 32767, 32768, -32768, -32769,
  65535, 65536, 2147483647, 2147483648, -2147483648, -2147483649, 4294967295, 4294967296,
  math.maxinteger, math.mininteger, (1 << 53) + 1,
}
local FLOATS = { 0.0, -0.0, 1.0, 0.1, -2.5, 1e300, 5e-324, 2.0 ^ 53, 1 / 0, -1 / 0, 0 / 0 }
local LENGTHS = { 0, 1, 2, 3, 5, 8, 31, 32, 33, 255, 256, 70 }

local function pick(list) return list[math.random(#list)] end

local function random_string()
  local bytes = {}
  for i = 1, pick(LENGTHS) do bytes[i] = string.char(math.random(0, 255)) end
  return table.concat(bytes)
end

-- A node is { kind, payload }: "nil", "bool" b, "int" i, "float" f, "str" s, "array" list of
-- nodes, "map" flat list of keys and values.
function values.scalar()
  local dice = math.random(6)
  if dice == 1 then return { "nil" } end
  if dice == 2 then return { "bool", math.random(2) == 1 } end
  if dice == 3 then return { "int", pick(EDGES) } end
  if dice == 4 then return { "int", math.random(0) >> math.random(0, 63) } end
  if dice == 5 then return { "float", pick(FLOATS) } end
  return { "str", random_string() }
end

function values.random(depth)
  if depth == 0 or math.random(3) == 1 then return values.scalar() end
  local map = math.random(2) == 1
  local list = {}
  local n = math.random(12) == 1 and math.random(14, 20) or math.random(0, 5)
  for i = 1, map and 2 * n or n do list[i] = values.random(depth - 1) end
  return { map and "map" or "array", list }
end

local function head(n, fix, fix_max, forms, loose)
  local fits = {}
  if n <= fix_max then fits[1] = string.char(fix | n) end
  for _, form in ipairs(forms) do
    local byte, format, max = form[1], form[2], form[3]
    if n <= max then fits[#fits + 1] = string.char(byte) .. string.pack(format, n) end
  end
  return loose and pick(fits) or fits[1]
end

local U8, U16, U32 = 0xff, 0xffff, 0xffffffff
local STR = { { 0xd9, ">I1", U8 }, { 0xda, ">I2", U16 }, { 0xdb, ">I4", U32 } }
local BIN = { { 0xc4, ">I1", U8 }, { 0xc5, ">I2", U16 }, { 0xc6, ">I4", U32 } }
local ARRAY = { { 0xdc, ">I2", U16 }, { 0xdd, ">I4", U32 } }
local MAP = { { 0xde, ">I2", U16 }, { 0xdf, ">I4", U32 } }

local function integer(i, loose)
  local fits = {}
  local function form(ok, byte, format)
    if ok then fits[#fits + 1] = string.char(byte) .. string.pack(format, i) end
  end
  if i >= 0 and i <= 127 or i < 0 and i >= -32 then fits[1] = string.pack("b", i) end
  form(i >= 0 and i <= U8, 0xcc, ">I1")
  form(i >= 0 and i <= U16, 0xcd, ">I2")
  form(i >= 0 and i <= U32, 0xce, ">I4")
  form(i >= 0, 0xcf, ">I8")
  local first_signed = #fits + 1
  form(i >= -128 and i <= 127, 0xd0, ">i1")
  form(i >= -32768 and i <= 32767, 0xd1, ">i2")
  form(i >= -2147483648 and i <= 2147483647, 0xd2, ">i4")
  form(true, 0xd3, ">i8")
  if loose then return pick(fits) end
  return fits[1] and (i >= 0 or first_signed > 1) and fits[1] or fits[first_signed]
end

local function float(f, loose)
  if loose and math.random(2) == 1 and (f ~= f or string.unpack(">f", string.pack(">f", f)) == f) then
    return "\xca" .. string.pack(">f", f)
  end
  return "\xcb" .. string.pack(">d", f)
end

function values.encode(node, loose)
  local kind, v = node[1], node[2]
  if kind == "nil" then return "\xc0" end
  if kind == "bool" then return v and "\xc3" or "\xc2" end
  if kind == "int" then return integer(v, loose) end
  if kind == "float" then return float(v, loose) end
  if kind == "str" then
    if loose and math.random(3) == 1 then return head(#v, 0, -1, BIN, true) .. v end
    return head(#v, 0xa0, 31, STR, loose) .. v
  end
  local parts = { kind == "array" and head(#v, 0x90, 15, ARRAY, loose)
    or head(#v // 2, 0x80, 15, MAP, loose) }
  for i, element in ipairs(v) do parts[i + 1] = values.encode(element, loose) end
  return table.concat(parts)
end

-- The tokens of a node in the probe's text form.
function values.tokens(node, into)
  into = into or {}
  local kind, v = node[1], node[2]
  if kind == "nil" then into[#into + 1] = "n"
  elseif kind == "bool" then into[#into + 1] = v and "b:1" or "b:0"
  elseif kind == "int" then into[#into + 1] = "i:" .. v
  elseif kind == "float" then into[#into + 1] = ("f:%016x"):format((string.unpack("i8", string.pack("d", v))))
  elseif kind == "str" then into[#into + 1] = "s:" .. v
  else
    into[#into + 1] = kind == "array" and "a:" .. #v or "m:" .. #v // 2
    for _, element in ipairs(v) do values.tokens(element, into) end
  end
  return into
end

return values
