-- A job under back-pressure whose barriers overtake, as a script of its own that a spec kills:
--
--   lua5.4 pressed_job.lua FOLDER RECORDS PARALLELISM ALIGNED_TIMEOUT
--
-- The last operator is slower than the source, so that the buffers of three exchanges are full when a
-- checkpoint begins. Prints "checkpoint N" for each that completes, and "end".
local sc = require "streamckpt"
local uv = require "luv"

local folder, records, parallelism, timeout = arg[1], tonumber(arg[2]), tonumber(arg[3]), tonumber(arg[4])
local KEYS = 100

local env = sc.env {
  name = "pressed", parallelism = parallelism, max_parallelism = 16, slots = 2,
  checkpoint = { interval = "50ms", dir = folder .. "/ckpt", unaligned = true, aligned_timeout = timeout,
                 retain = 2 },
}
env:from_generator { uid = "numbers", count = records, fn = function(i) return { k = i % KEYS, i = i } end }
  :rebalance():map(function(e) return e end):uid("dealt")
  :key_by("k"):process {
    uid = "counted", state = { n = sc.value() },
    on_element = function(ctx, e)
      local n = (ctx.state.n:get() or 0) + 1
      ctx.state.n:set(n)
      ctx:emit { k = e.k, i = e.i, n = n }
    end,
  }
  :key_by("i"):process {
    uid = "slow",
    on_element = function(ctx, e)
      local begin = uv.hrtime()
      while uv.hrtime() - begin < 50000 do end
      ctx:emit(e)
    end,
  }
  :to_file(folder .. "/out", { format = "json" }):uid("out")

io.stdout:setvbuf("line")
local job = env:start { from = "latest" }
job:on("checkpoint", function(event) print("checkpoint " .. event.id) end)
-- The waits end with a callback's turn; a job that fails ends them, too.
local status, message, code
repeat status, message, code = job:wait(20) until status or code ~= "ETIMEOUT"
assert(status, message)
print("end")
