-- Work count (count_work.h) as a graph that is built in Lua: native source and sink, and a counter in
-- Lua, or native (counter=native) to see what options of the job cost. Prints a line of JSON as the
-- program count does.
--   lua5.4 spec/bench/count_lua.lua [events=N] [keys=K] [skew=uniform|zipf] [parallelism=P] [counter=C]
local native = require "bench.native"
local sc = require "streamckpt"

local o = native.options { events = 5000000, keys = 1000000, skew = "uniform", parallelism = 1,
                           counter = "lua" }
native.begin { events = o.events, keys = o.keys, zipf = o.skew == "zipf" }

local env = sc.env { name = "count", parallelism = o.parallelism }
local counted = native.keyed(native.source(env))
if o.counter == "native" then
  counted = native.operator(counted, "count")
else
  counted = counted:process {
    state = { counter = sc.value() },
    on_element = function(ctx, event)
      local counter, amount = ctx.state.counter:get() or { 0, 0 }, event[1]
      counter[1], counter[2] = counter[1] + 1, counter[2] + amount
      ctx.state.counter:set(counter)
      ctx:emit { ctx.key, counter[1], amount }
    end,
  }
end
native.operator(counted, "count_sink")
env:execute()
print(native.result())
