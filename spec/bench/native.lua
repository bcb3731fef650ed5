-- The native operators of the benchmarks (bench_module.c) in graphs that are built in Lua; needs the
-- module of the benchmarks, build/bench/streamckpt/core.so, first in LUA_CPATH_5_4.
local stream = require "streamckpt.stream"

local path = assert(package.searchpath("streamckpt.core", package.cpath))
local native = assert(package.loadlib(path, "luaopen_streamckpt_bench"), "not the benchmarks' module")()

-- Builders of the face know its own native operators only; these are made as it makes them.
local function add(env, kind, inputs, options)
  local made = stream.source(env, { call = kind, kind = kind, native = true, options = options or {} })
  made.node.inputs = inputs or made.node.inputs
  return made
end

-- The events of the work that native.begin described.
function native.source(env) return add(env, "count_source") end

-- Behind a hash exchange of records that bring their key.
function native.keyed(from)
  return setmetatable({ env = from.env, node = false, keyed = true, origins = {
    { node = from.node, output = "main", partitioner = "hash" } } }, getmetatable(from))
end

-- The native operator `kind` behind a stream.
function native.operator(from, kind, options)
  local made = add(from.env, kind, from.origins, options)
  made.node.keyed = from.keyed and kind == "count"
  return made
end

-- name=value words as a table over `defaults`; numbers become numbers.
function native.options(defaults)
  for _, word in ipairs(arg) do
    local name, value = word:match("^([%w_]+)=(.+)$")
    assert(name, "expected name=value, got " .. word)
    assert(defaults[name] ~= nil, "there is no option " .. name)
    defaults[name] = math.tointeger(tonumber(value)) or tonumber(value) or value
  end
  return defaults
end

return native
