-- What a record of five fields costs on its way between Lua and bytes, beside what Lua itself takes
-- to build (and drop) the same table. Run with the probe on LUA_CPATH: lua5.4 spec/bench/codec.lua
local probe = require "streamckpt.probe"

local N, ROUNDS = 200000, 7

local function build()
  return { user = "u1234", url = "/index.html", ts = 1700000000123, bytes = 5120, ok = true }
end

local record = build()
local bytes = probe.codec_encode(record)

local paths = {
  { "build in Lua", function() for _ = 1, N do build() end end },
  { "to bytes", function() probe.codec_encode_times(record, N) end },
  { "from bytes", function() probe.codec_decode_times(bytes, N) end },
}

local best = {}
for _ = 1, ROUNDS do
  for i, path in ipairs(paths) do
    local start = os.clock()
    path[2]()
    best[i] = math.min(best[i] or math.huge, (os.clock() - start) / N * 1e9)
  end
end
for i, path in ipairs(paths) do
  print(("%-14s %6.0f ns  %5.2f x build in Lua"):format(path[1], best[i], best[i] / best[1]))
end
