-- state: descriptors of keyed state, as they stand in the `state` table of a process operator.

local config = require "streamckpt.config"
local misuse = require "streamckpt.misuse"

local state = {}

local Descriptor = { __name = "streamckpt.state" }

function Descriptor:__tostring()
  return ("streamckpt.state<%s>"):format(self.kind)
end

local OPTIONS = { ttl = { unbuilt = true }, default = { unbuilt = true } }

local function descriptor(kind, options)
  config.check(OPTIONS, options, "sc." .. kind)
  return setmetatable({ kind = kind }, Descriptor)
end

--- One value per key.
-- @param options none are built yet
-- @return a descriptor; in callbacks ctx.state.NAME has get(), set(v), clear()
-- Example: state = { open = sc.value() }
function state.value(options)
  return descriptor("value", options)
end

--- A map per key, whose entries are read and written one by one.
-- @param options none are built yet
-- @return a descriptor; in callbacks ctx.state.NAME has get(k), set(k, v), remove(k), has(k),
--   pairs(), clear()
-- Example: state = { seen = sc.map() }
function state.map(options)
  return descriptor("map", options)
end

for _, kind in ipairs { "list", "reducing", "aggregating", "list_state", "union_state",
                        "broadcast_state" } do
  --- Kinds of state that are known by name and refused until they are built.
  state[kind] = function()
    misuse.raise("sc.%s is not built yet; sc.value and sc.map are", kind)
  end
end

--- The `state` table of an operator as plain data for the slots.
-- @param states {name = descriptor}; nil is none
-- @param what the call, for messages
-- @return {name = {kind = "value"}}, or nil if there are none. Raises at the user's line.
function state.plain(states, what)
  if states == nil then return nil end
  if type(states) ~= "table" then
    misuse.raise("%s: state must be a table of descriptors, got %s", what, misuse.shown(states))
  end
  local plain = {}
  for name, given in pairs(states) do
    if type(name) ~= "string" or name == "" then
      misuse.raise("%s: the name of a state must be a string that is not empty, got %s", what,
        misuse.shown(name))
    end
    if getmetatable(given) ~= Descriptor then
      misuse.raise("%s: state.%s must be a descriptor such as sc.value() or sc.map(), got %s", what,
        name, misuse.shown(given))
    end
    plain[name] = { kind = given.kind }
  end
  return next(plain) and plain or nil
end

return state
