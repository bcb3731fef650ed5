-- A process as a whole: from its start to the first record, and what a job that waits takes.
--   lua5.4 spec/bench/process.lua [rounds]
local uv = require "luv"
local support = require "bench.support"

local ROUNDS = tonumber(arg[1]) or 10

local function write_script(text)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  return path
end

-- The clock is one for all processes of the machine.
local script = write_script [[
local uv = require "luv"
local sc = require "streamckpt"
local env = sc.env { name = "first" }
env:from_values { 1, 2, 3 }:map(function(v)
  if v == 1 then io.stdout:write(("%d\n"):format(uv.hrtime())) end
  return v
end)
env:execute()
]]

local first, bare = math.huge, math.huge
for _ = 1, ROUNDS do
  local start = uv.hrtime()
  local text = support.output("lua5.4 " .. script)
  first = math.min(first, (tonumber(text:match "%d+") - start) / 1e6)
  start = uv.hrtime()
  text = support.output("lua5.4 -e 'print((\"%d\"):format(require[[luv]].hrtime()))'")
  bare = math.min(bare, (tonumber(text:match "%d+") - start) / 1e6)
end
os.remove(script)
support.figure("start of the process to its first record", "%8.1f ms", first, "30 ms")
support.figure("the same of a script that prints the time", "%8.1f ms", bare)

local sc = require "streamckpt"
local env = sc.env { name = "idle", parallelism = 2 }
env:from_generator { count = 1000000, rate = 0.001, fn = function(i) return { i = i } end }
  :key_by("i"):process { state = { n = sc.value() }, on_element = function() end }
local job = env:start()
os.execute("sleep 0.3") -- the start itself does not count
local before = os.clock()
os.execute("sleep 2")
support.figure("CPU of an idle job, in 2 s", "%8.3f ms", (os.clock() - before) * 1000, "none")
job:cancel()
job:wait()
