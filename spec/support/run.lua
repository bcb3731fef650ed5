-- Runs specs, each file in a busted process of its own, and counts what really ran.
--
--   lua5.4 spec/support/run.lua [--jobs N] [--limit SECONDS] PATH ...
--
-- A path is a spec file or a folder that is searched for *_spec.lua. Each file gets one line; what
-- its busted printed is shown where something failed, and the reason of each skipped test. A file
-- whose process ends without busted's closing line, with an exit status that the closing line does
-- not explain, without a test, or not within the limit, counts as a failed test and is named. The
-- last line is "N passed, N failed, N skipped"; the exit status is 0 only if nothing failed.
--
-- A sanitizer's reports go to files (SANITIZE_LOG, see sanitized/lua5.4), so that those of processes
-- that a spec starts are found too; a report fails the file that it came from.
local uv = require "luv"

local CLOSING = "^(%d+) success%a* / (%d+) failures? / (%d+) errors? / (%d+) pending : [%d.e+-]+ seconds"
-- Not a finding: what AddressSanitizer says of every program with fibers, as the simulator is one.
local FIBERS = "==%d+==WARNING: ASan doesn't fully support makecontext/swapcontext[^\n]*"
local USAGE = "usage: run.lua [--jobs N] [--limit SECONDS] PATH ..."

local function fail_usage(message)
  io.stderr:write(message, "\n", USAGE, "\n")
  os.exit(2)
end

local function parse_arguments(args)
  local options, paths, i = { jobs = 1, limit = 600 }, {}, 1
  while args[i] do
    local name = args[i]:match("^%-%-(%a+)$")
    if not name then
      paths[#paths + 1] = args[i]
    else
      local value = math.tointeger(tonumber(args[i + 1]))
      if not options[name] then fail_usage("there is no option --" .. name) end
      if not value or value < 1 then fail_usage("--" .. name .. " wants a whole number, at least 1") end
      options[name], i = value, i + 1
    end
    i = i + 1
  end
  if #paths == 0 then fail_usage("no spec was named") end
  return options, paths
end

local function files_under(folder, found)
  local names = {}
  local scan = assert(uv.fs_scandir(folder))
  for name, kind in uv.fs_scandir_next, scan do names[#names + 1] = { name = name, kind = kind } end
  table.sort(names, function(a, b) return a.name < b.name end)
  for _, entry in ipairs(names) do
    local path = folder .. "/" .. entry.name
    if entry.kind == "directory" then
      files_under(path, found)
    elseif entry.name:find("_spec%.lua$") then
      found[#found + 1] = path
    end
  end
  return found
end

local function find_specs(paths)
  local specs = {}
  for _, path in ipairs(paths) do
    path = path:gsub("(.)/+$", "%1")
    local stat = uv.fs_stat(path)
    if not stat then fail_usage("there is no " .. path) end
    local found = stat.type == "directory" and files_under(path, {}) or { path }
    if #found == 0 then fail_usage("there is no *_spec.lua under " .. path) end
    table.move(found, 1, #found, #specs + 1, specs)
  end
  return specs
end

-- Everything that a folder's files hold, and the files gone.
local function take_reports(folder)
  local texts = {}
  local scan = uv.fs_scandir(folder)
  for name in uv.fs_scandir_next, scan do
    local file = assert(io.open(folder .. "/" .. name, "rb"))
    local text = file:read("a"):gsub(FIBERS, "")
    if text:find("%S") then texts[#texts + 1] = text end
    file:close()
    os.remove(folder .. "/" .. name)
  end
  uv.fs_rmdir(folder)
  return table.concat(texts, "\n")
end

-- What one process left behind: counts, and the sentences that say why a file failed as a whole.
local function judge(run, limit)
  local result = { passed = 0, failed = 0, skipped = 0, output = run.output, why = {} }
  local function fault(sentence)
    result.failed = result.failed + 1
    result.why[#result.why + 1] = sentence
  end
  local closing
  for line in run.output:gmatch("[^\n]+") do
    local passed, failures, errors, skipped = line:match(CLOSING)
    if passed then
      closing = true
      result.passed, result.skipped = tonumber(passed), tonumber(skipped)
      result.failed = tonumber(failures) + tonumber(errors)
    end
  end
  local ended = run.signal ~= 0 and "was ended by signal " .. run.signal
    or "ended with exit status " .. run.code
  if run.reports ~= "" then fault("a sanitizer reports:\n" .. run.reports) end
  if run.late then
    fault(("it did not end within %d seconds"):format(limit))
  elseif not closing then
    fault("its process " .. ended .. " before busted could count")
  elseif result.failed == 0 and (run.code ~= 0 or run.signal ~= 0) then
    fault("all its tests passed, but its process " .. ended)
  elseif result.passed + result.failed + result.skipped == 0 then
    fault("it holds no test")
  end
  return result
end

local function indent(text)
  return (text:gsub("%s+$", ""):gsub("([^\n]*)\n?", function(line)
    return line == "" and "\n" or "    " .. line .. "\n"
  end):gsub("\n+$", "\n"))
end

-- The blocks that busted prints for skipped tests, reasons included.
local function skipped_blocks(output)
  local blocks = {}
  for block in (output .. "\n\n"):gmatch("(.-)\n\n+") do
    local pending = block:match("^%s*(Pending.*)")
    if pending then blocks[#blocks + 1] = pending end
  end
  return table.concat(blocks, "\n")
end

local function report(file, result, seconds)
  local counts = { result.passed .. " passed" }
  if result.failed > 0 then counts[#counts + 1] = result.failed .. " failed" end
  if result.skipped > 0 then counts[#counts + 1] = result.skipped .. " skipped" end
  io.write(("%-6s %-52s %s (%.1f s)\n"):format(result.failed > 0 and "FAILED" or "ok", file,
    table.concat(counts, ", "), seconds))
  if result.failed > 0 then
    io.write(indent(result.output))
    for _, sentence in ipairs(result.why) do io.write("    ", file, ": ", sentence, "\n") end
  elseif result.skipped > 0 then
    io.write(indent(skipped_blocks(result.output)))
  end
  io.flush()
end

local running = {}

local function environment(log)
  local list = {}
  for name, value in pairs(uv.os_environ()) do
    if name ~= "SANITIZE_LOG" then list[#list + 1] = name .. "=" .. value end
  end
  if log then list[#list + 1] = "SANITIZE_LOG=" .. log end
  return list
end

-- Starts busted on a file; calls done(run) when it has ended and all it printed is here. It gets a
-- process group of its own: at the limit, what it started ends with it.
local function start(file, limit, done)
  local pipe, timer, parts = uv.new_pipe(), uv.new_timer(), {}
  local log = os.getenv("SANITIZE_PRELOAD") and os.tmpname()
  if log then
    os.remove(log)
    assert(uv.fs_mkdir(log, 448))
  end
  local run = { began = uv.hrtime() }
  local open = 2
  local function closed()
    open = open - 1
    if open > 0 then return end
    run.output, run.reports = table.concat(parts), log and take_reports(log) or ""
    done(run)
  end
  -- One pipe takes both streams, so that they stay in the order in which they were written.
  local ends = assert(uv.pipe({ nonblock = true }, {}))
  assert(pipe:open(ends.read))
  local handle, pid
  handle, pid = uv.spawn(os.getenv("LUA") or "lua5.4", {
    args = { "spec/support/busted.lua", "--ignore-lua", file },
    stdio = { nil, ends.write, ends.write }, env = environment(log), detached = true,
  }, function(code, signal)
    run.code, run.signal = code, signal
    running[pid] = nil
    uv.kill(-pid, "sigkill") -- what it left running would hold the pipe open for ever
    timer:close()
    handle:close()
    closed()
  end)
  if not handle then fail_usage("lua5.4 cannot be started: " .. pid) end
  uv.fs_close(ends.write)
  running[pid] = true
  pipe:read_start(function(err, data)
    if data then
      parts[#parts + 1] = data
    else
      if err then parts[#parts + 1] = "\n" .. err .. "\n" end
      pipe:close()
      closed()
    end
  end)
  timer:start(limit * 1000, 0, function()
    run.late = true
    uv.kill(-pid, "sigkill")
  end)
end

local options, paths = parse_arguments(arg)
local specs = find_specs(paths)
local total = { passed = 0, failed = 0, skipped = 0 }
local bad, next_spec = {}, 1

local function start_next()
  local file = specs[next_spec]
  if not file then return end
  next_spec = next_spec + 1
  start(file, options.limit, function(run)
    local result = judge(run, options.limit)
    for name in pairs(total) do total[name] = total[name] + result[name] end
    if result.failed > 0 then bad[#bad + 1] = file end
    report(file, result, (uv.hrtime() - run.began) / 1e9)
    start_next()
  end)
end

for _, name in ipairs { "sigint", "sigterm" } do
  local signal = uv.new_signal()
  signal:start(name, function()
    for pid in pairs(running) do uv.kill(-pid, "sigkill") end
    os.exit(130)
  end)
  signal:unref()
end
for _ = 1, options.jobs do start_next() end
uv.run()

if #bad > 0 then io.write("\nFailed: ", table.concat(bad, " "), "\n") end
io.write(("%d passed, %d failed, %d skipped\n"):format(total.passed, total.failed, total.skipped))
os.exit(total.failed == 0)
