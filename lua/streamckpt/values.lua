-- values: what stands for a value that Lua has no way to write.
--
-- A room of its own because values travel into slots by the names that they have here, and each slot
-- has its own array metatable.

local core = require "streamckpt.core"

local values = {}

--- Stands for nil inside arrays and maps: what a stored nil comes back as.
-- Example: { name = "x", email = sc.null }
values.null = core.null

--- Mark a table as an array, for empty ones above all: an empty table without it is a map.
-- @param t a table with the keys 1..n, or nil for a new one
-- @return the table
-- Example: ctx:emit { tags = sc.array {} }
values.array = core.array

--- The metatable by which an array is known.
values.array_metatable = debug.getmetatable(core.array {})

return values
