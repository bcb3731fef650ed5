-- watch: a job beside the script's own work, and what it tells while it runs.
--
-- The job runs on threads of its own; the script keeps its luv loop, in which the job's events arrive.
-- The function fails once, on purpose: the job goes back to its last checkpoint by itself, and the sum
-- comes out as if nothing had been.
--
--   lua5.4 examples/watch.lua

local sc = require "streamckpt"
local uv = require "luv"

local COUNT = 2000
local FOLDER = assert(uv.fs_mkdtemp(os.tmpname() .. "-XXXXXX"))
local TRIPPED = FOLDER .. "/tripped"               -- a file, since nothing else outlives a failure

local env = sc.env {
  name = "watch", parallelism = 2,
  checkpoint = { interval = "200ms", dir = FOLDER },
  restart = { strategy = "fixed_delay", attempts = 3, delay = "100ms" },
  log = { level = "off" },
}

env:from_generator { count = COUNT, rate = 1000 }:uid("numbers")
  :map(function(i)
    if i == COUNT // 2 and not io.open(TRIPPED) then
      assert(io.open(TRIPPED, "w")):close()
      error("the sky falls in at " .. i)
    end
    return { n = i, parity = i % 2 == 0 and "even" or "odd" }
  end):uid("parity")
  :key_by("parity")
  :reduce(function(a, b) return { n = a.n + b.n, parity = a.parity } end):uid("sum")
  :collect():uid("sums")

local job = assert(env:start())
local clock = uv.new_timer()
clock:start(300, 300, function() print("  the script's own timer sees " .. tostring(job)) end)

job:on("checkpoint", function(event) print("checkpoint " .. event.id .. " is complete") end)
job:on("restarting", function() print("it failed, and goes back to its last checkpoint") end)

local function ended()
  clock:close()
  local last = {}
  for _, row in ipairs(job:rows("sums") or {}) do last[row.parity] = row.n end
  print(job:status())
  print(("even numbers: %s, odd ones: %s"):format(last.even, last.odd))
end
for _, state in ipairs { "finished", "failed", "canceled" } do job:on(state, ended) end

uv.run()
