-- streamckpt: streams with exactly-once checkpoints.
--
--   local sc = require "streamckpt"
--   local env = sc.env { checkpoint = { interval = "1s", dir = "ckpt" } }
--   env:from_file("access.log"):uid("log"):map(parse):key_by("ip"):process { ... }:print()
--   env:execute()
--
-- Requiring it sets no globals and starts nothing.

local env = require "streamckpt.env"
local misuse = require "streamckpt.misuse"
local state = require "streamckpt.state"
local values = require "streamckpt.values"

local sc = {}

--- The version of the library, as a string.
sc._VERSION = "0.1.0"

--- A new environment: options and graph of one job. See env.lua.
-- Example: local env = sc.env { parallelism = 2 }
sc.env = env.new

--- Stands for nil inside arrays and maps, and marks empty tables as arrays. See values.lua.
sc.null, sc.array = values.null, values.array

--- Keyed state for the `state` table of process: one value per key, or a map per key. See state.lua.
sc.value, sc.map = state.value, state.map

-- Known by name, and refused as such until they are built.
for _, name in ipairs { "list", "reducing", "aggregating", "list_state", "union_state",
                        "broadcast_state" } do
  sc[name] = state[name]
end
for _, name in ipairs { "tumbling", "sliding", "session", "global", "open_snapshot" } do
  sc[name] = function() misuse.raise("sc.%s is not built yet", name) end
end

-- It prints as what it is, and a name that it does not have is a sentence, not a nil to be called.
return setmetatable(sc, {
  __tostring = function() return "streamckpt " .. sc._VERSION end,
  __index = function(_, name)
    if type(name) ~= "string" or name:sub(1, 1) == "_" then return nil end
    misuse.raise("streamckpt has no '%s'%s", name, misuse.hint(name, sc))
  end,
})
