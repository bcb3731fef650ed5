-- XXH64 in plain Lua, from the algorithm's public description: the oracle for checksums of files,
-- and proof that a page of Lua can check a snapshot.
local P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
local P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5

local function rotl(x, n) return x << n | x >> (64 - n) end
local function round(acc, lane) return rotl(acc + lane * P2, 31) * P1 end
local function merge(h, acc) return (h ~ round(0, acc)) * P1 + P4 end

return function(data, seed)
  seed = seed or 0
  local at, h = 1, seed + P5
  if #data >= 32 then
    local a, b, c, d = seed + P1 + P2, seed + P2, seed, seed - P1
    while at + 31 <= #data do
      local w, x, y, z = string.unpack("<i8i8i8i8", data, at)
      a, b, c, d = round(a, w), round(b, x), round(c, y), round(d, z)
      at = at + 32
    end
    h = rotl(a, 1) + rotl(b, 7) + rotl(c, 12) + rotl(d, 18)
    h = merge(merge(merge(merge(h, a), b), c), d)
  end
  h = h + #data
  while at + 7 <= #data do
    h = rotl(h ~ round(0, (string.unpack("<i8", data, at))), 27) * P1 + P4
    at = at + 8
  end
  if at + 3 <= #data then
    h = rotl(h ~ string.unpack("<I4", data, at) * P1, 23) * P2 + P3
    at = at + 4
  end
  for i = at, #data do
    h = rotl(h ~ data:byte(i) * P5, 11) * P1
  end
  h = (h ~ h >> 33) * P2
  h = (h ~ h >> 29) * P3
  return h ~ h >> 32
end
