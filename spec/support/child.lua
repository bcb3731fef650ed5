-- child: a script in a process of its own that a spec watches, sends signals to, and types into.
--
-- What it prints is seen line by line while it runs, so that a spec acts when the process has come to a
-- place, not after a time. One that does not end within the limit is killed and says so.
local LOST_AFTER_MS = require "support.lost_after"
local uv = require "luv"

local child = {}


local function absolute(paths, here)
  return (paths:gsub("[^;]+", function(path) return path:find("^/") and path or here .. "/" .. path end))
end

-- The environment of this process, with this library and the specs on the path whatever the folder is.
local function environment()
  local list, here = {}, uv.cwd()
  local own = { LUA_PATH_5_4 = absolute(package.path, here), LUA_CPATH_5_4 = absolute(package.cpath, here),
                INPUTRC = "/dev/null", TERM = "dumb" }
  for name, value in pairs(uv.os_environ()) do
    if not own[name] then list[#list + 1] = name .. "=" .. value end
  end
  for name, value in pairs(own) do list[#list + 1] = name .. "=" .. value end
  return list
end

-- Collect what comes out of a pipe; each whole line goes to `on_line`, and then what stands behind the
-- last one to `on_rest`.
local function collect(pipe, result, name, on_line, on_rest)
  local chunks, rest = {}, ""
  pipe:read_start(function(_, data)
    if not data then
      result[name] = table.concat(chunks)
      return pipe:close()
    end
    chunks[#chunks + 1] = data
    rest = rest .. data
    while true do
      local line, after = rest:match("^(.-)\r?\n(.*)$")
      if not line then break end
      rest = after
      on_line(line)
    end
    on_rest(rest)
  end)
end

--- Run a command to its end.
-- @param options {command = { file, arguments ... }, folder: where it runs,
--   input: what it reads from standard input (without it: nothing),
--   on_line = fn(line, process), called for each line of its standard output; process has pid,
--   kill(name of a signal), write(text to its standard input);
--   on_rest = fn(text, process), called with what it has printed behind its last whole line, so far}
-- @return {code, signal, stdout, stderr, late = true if it had to be killed}
function child.run(options)
  local result, input = {}, uv.new_pipe()
  local out, err, timer = uv.new_pipe(), uv.new_pipe(), uv.new_timer()
  local handle, pid
  handle, pid = uv.spawn(options.command[1], {
    args = { table.unpack(options.command, 2) }, stdio = { input, out, err }, cwd = options.folder,
    env = environment(),
  }, function(code, signal)
    result.code, result.signal = code, signal
    timer:close()
    handle:close()
  end)
  assert(handle, pid)
  local seen = {
    pid = pid,
    kill = function(name) if not result.code then handle:kill(name) end end,
    write = function(text) input:write(text) end,
  }
  local failure
  local function call(name)
    return function(text)
      local fn = options[name]
      if not fn or failure then return end
      -- An error in a callback of the loop would end this process.
      local ok, message = pcall(fn, text, seen)
      if not ok then
        failure = message
        seen.kill("sigkill")
      end
    end
  end
  collect(out, result, "stdout", call "on_line", call "on_rest")
  collect(err, result, "stderr", function() end, function() end)
  if options.input then input:write(options.input) end
  if not options.on_line then input:shutdown() end
  uv.update_time() -- or the limit counts from when this loop ran last, which may be long ago
  timer:start(LOST_AFTER_MS, 0, function()
    result.late = true
    seen.kill("sigkill")
  end)
  while not (result.code and result.stdout and result.stderr) do uv.run("once") end
  input:close()
  uv.run("nowait")
  if failure then error(failure, 0) end
  return result
end

--- Write a script into a folder and run it there with lua5.4.
-- @param options as for run, without command; flags: an array of words for the interpreter
function child.script(folder, text, options)
  options = options or {}
  local file <close> = assert(io.open(folder .. "/script.lua", "wb"))
  file:write(text)
  file:flush()
  local command = { "lua5.4", table.unpack(options.flags or {}) }
  command[#command + 1] = "script.lua"
  return child.run { command = command, folder = folder, input = options.input, on_line = options.on_line }
end

return child
