-- slot_luv: what `require "luv"` gives in a slot: luv, whose callbacks run protected.
--
-- luv ends the process when a callback raises, which would take every job along. Here an error in a
-- callback fails the task whose function registered it, with the place and the traceback, as an error in
-- the function itself does; and uv.run, if it runs, returns by raising it.
--
-- The slot runs its loop without waiting between two rounds of its tasks, and while it has nothing to do
-- it sleeps until something is due in the loop. So a callback needs no uv.run; a function of the job may
-- call it all the same, and blocks its slot meanwhile. A loop run so that waits for what never happens
-- hangs in C, where job:cancel cannot end it; callbacks it can end.

local slot_luv = {}

-- Their functions run in other Lua states, which they reach as bytecode: nothing can be wrapped around
-- those. The number is that of the first argument that is a callback of this state.
local FIRST_CALLBACK = { new_work = 2, new_thread = math.maxinteger }

local function callable(value)
  if type(value) == "function" then return true end
  local meta = type(value) == "table" and debug.getmetatable(value)
  return type(meta) == "table" and meta.__call ~= nil
end

-- luv as it is, wherever `require` would find it if there were no preloaded one.
local function find()
  local reasons = { "module 'luv' not found:" }
  for i = 2, #package.searchers do
    local loader, extra = package.searchers[i]("luv")
    if type(loader) == "function" then return loader("luv", extra) end
    if type(loader) == "string" then reasons[#reasons + 1] = loader end
  end
  error(table.concat(reasons, "\n\t"), 0)
end

-- A function of luv that wraps what it is given to call later.
local function wrap(fn, first, protect)
  return function(...)
    local count = select("#", ...)
    for i = first, count do
      if callable((select(i, ...))) then
        local arguments = { ... }
        for k = i, count do
          if callable(arguments[k]) then arguments[k] = protect(arguments[k]) end
        end
        return fn(table.unpack(arguments, 1, count))
      end
    end
    return fn(...)
  end
end

local function wrap_all(functions, protect)
  for name, fn in pairs(functions) do
    if type(fn) == "function" then
      functions[name] = wrap(fn, FIRST_CALLBACK[name] or 1, protect)
    end
  end
end

--- Load luv for this slot; for the binding (lua/binding/slot_luv.c).
-- @param guard a C function: guard(callback, told) makes the function that luv is to call; where the
--   callback raises, it fails the task and calls told(text)
-- @return the module; a function that runs what is due in its loop, without waiting, and returns for how
--   many ms nothing more will be (negative: until a descriptor is ready; nil: nothing is in the loop), and
--   the text of an error of a callback or nil; and the descriptor that becomes readable when something of
--   the loop is ready. Raises where there is no luv.
function slot_luv.load(guard)
  local uv = find()
  local run, stop, failure = uv.run, uv.stop, nil
  local loop_alive, backend_timeout = uv.loop_alive, uv.backend_timeout
  local function told(text)
    failure = failure or text
    stop()
  end
  local function protect(callback) return guard(callback, told) end
  local function finish(...)
    local text = failure
    failure = nil
    if text then error(text, 0) end
    return ...
  end
  wrap_all(uv, protect)
  -- The methods of handles are luv's own functions again, in metatables that are this state's alone.
  for name, meta in pairs(debug.getregistry()) do
    if type(name) == "string" and name:find("^uv_") and type(meta) == "table"
      and type(rawget(meta, "__index")) == "table" then
      wrap_all(meta.__index, protect)
    end
  end
  function uv.run(...) return finish(run(...)) end
  local function turn()
    run("nowait")
    local text = failure
    failure = nil
    -- What is unreferenced is not run when it is alone, so its descriptors must not wake anybody.
    return loop_alive() and backend_timeout() or nil, text
  end
  return uv, turn, uv.backend_fd()
end

return slot_luv
