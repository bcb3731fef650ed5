-- demo: kill a pipeline with SIGKILL, start it again, and lose nothing.
--
-- Runs examples/visits.lua on an access log twice: once undisturbed; and once killed after its
-- first checkpoint, started again with other parallelism, killed once more, and started again to
-- its end. Both must have written the same visits. Ends with status 1 if they have not.
--
--   lua5.4 examples/demo.lua [LOG] [LINES]  (makes a log of 1500000 lines, some ten seconds' work)

local uv = require "luv"

local EXAMPLES = arg[0]:match("^(.*/)") or "./"
local FOLDER = assert(uv.fs_mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/streamckpt-demo-XXXXXX"))
local LOG, LINES = arg[1], arg[2] or "1500000"
if LOG == "" then LOG = nil end

local function say(...) print((...):format(select(2, ...))) end

-- Run a script of this folder; `watch(kill, process)` is called every few ms and may kill it.
-- Returns its seconds, and nil if it came to its end, or the signal that ended it.
local function run(script, arguments, watch)
  local code, signal, process, pid
  local stdout, began = uv.new_pipe(), uv.hrtime()
  process, pid = uv.spawn(uv.exepath(),
    { args = { EXAMPLES .. script, table.unpack(arguments) }, stdio = { nil, stdout, 2 } },
    function(c, s) code, signal = c, s end)
  if not process then error("cannot start Lua: " .. tostring(pid), 0) end
  local output = {}
  stdout:read_start(function(_, data) if data then output[#output + 1] = data else stdout:close() end end)
  local timer = uv.new_timer()
  timer:start(0, 3, function()
    if watch then watch(function() process:kill("sigkill") end) end
    if code then timer:close() end
  end)
  uv.run()
  process:close()
  if code ~= 0 then error(script .. " failed", 0) end
  return (uv.hrtime() - began) / 1e9, signal ~= 0 and signal or nil, table.concat(output)
end

-- A watch that shows the checkpoints as they complete, and how long they took, from the job's log; and
-- kills the process when `enough(checkpoints so far, seconds)` says so.
local function checkpoints(folder, enough)
  local path, count, began = folder .. "/visits/log", 0, uv.hrtime()
  local file = io.open(path)
  if file then file:seek("end") end                -- what is there is of earlier runs
  return function(kill)
    file = file or io.open(path)
    for line in file and file:lines() or function() end do
      local id, ms = line:match("chk (%d+)%]: completed in (.*)")
      if id then
        io.write(count == 0 and "   checkpoints: " or count % 6 == 0 and ",\n                " or ", ",
          id, " (", ms, ")"):flush()
        count = count + 1
      end
    end
    if enough and enough(count, (uv.hrtime() - began) / 1e9) then
      kill()
      enough = nil
    end
  end
end

-- The lines of all committed parts, sorted.
local function committed(folder)
  local lines = {}
  for name, kind in uv.fs_scandir_next, assert(uv.fs_scandir(folder)) do
    if kind == "file" and not name:find("^%.") then
      for line in io.lines(folder .. "/" .. name) do lines[#lines + 1] = line end
    end
  end
  table.sort(lines)
  return lines
end

local function at(name) return FOLDER .. "/" .. name end

local function demo()
  if LOG and not io.open(LOG) then error("there is no file " .. LOG, 0) end
  if not LOG then
    LOG = at("access.log")
    local seconds = run("make_log.lua", { LOG, LINES })
    say("Made an access log of %s lines (%.0f MB) in %.1f s.", LINES, uv.fs_stat(LOG).size / 1e6, seconds)
  end

  say("\n1. Undisturbed, 2 tasks an operator:")
  local whole, _, result = run("visits.lua", { LOG, at("a"), at("a-ckpt"), "2" }, checkpoints(at("a-ckpt")))
  say("\n   the end, after %.1f s: %s", whole, result:match("^[^,]*,[^,]*"))

  -- A short log is over before the usual interval: then checkpoints come faster.
  local interval = ("%dms"):format(math.max(2, math.min(500, whole * 1000 // 50)))
  local function killed_run(parallelism, enough)
    local seconds, signal, text = run("visits.lua",
      { LOG, at("b"), at("b-ckpt"), tostring(parallelism), interval }, checkpoints(at("b-ckpt"), enough))
    if signal then
      say("\n   killed with SIGKILL after %.1f s", seconds)
    else
      say("\n   the end, after %.1f s: %s", seconds, text:match("^[^,]*,[^,]*"))
    end
    return signal
  end
  say("\n2. The same, to be killed after its first checkpoint:")
  local kills = killed_run(2, function(count) return count >= 1 end) and 1 or 0
  say("\n3. Started again, with 3 tasks an operator, to be killed before its end")
  say("   (an id is never used twice, so a new run goes on in the next thousand):")
  if killed_run(3, function(count, s) return count >= 1 and s > whole / 3 end) then kills = kills + 1 end
  say("\n4. Started again, with 1 task an operator:")
  killed_run(1)

  local a, b = committed(at("a")), committed(at("b"))
  local equal = #a == #b
  for i = 1, #a do equal = equal and a[i] == b[i] end
  local bad_a, bad_b = committed(at("a") .. "/bad"), committed(at("b") .. "/bad")
  say("\nVisits: %d undisturbed, %d after %d kills: %s.", #a, #b, kills,
    equal and "the same, line by line" or "THEY DIFFER")
  say("Lines that did not parse: %d and %d.", #bad_a, #bad_b)
  if a[1] then say("One of them: %s", a[#a // 2 + 1]) end
  return equal and #bad_a == #bad_b
end

local ok, result = pcall(demo)
os.execute(("rm -rf '%s'"):format(FOLDER))
if not ok then
  io.stderr:write("demo: ", tostring(result), "\n")
end
os.exit(ok and result)
