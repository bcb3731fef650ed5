-- Pipelines for specs of the API: what a user's script does, with as few words as possible.
--
--   local p = require "support.pipeline"
--   after_each(p.clean)
--   local rows = p.rows({ parallelism = 2 }, function(env) return env:from_values { 1, 2 }:map(f) end)

local LOST_AFTER_MS = require "support.lost_after"
local sc = require "streamckpt"

local pipeline = {}

local SLICE_MS = 10

local folders = {}

local function quote(word)
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

--- A fresh folder; clean removes it.
function pipeline.folder()
  local name = os.tmpname()
  os.remove(name)
  assert(os.execute("mkdir " .. quote(name)))
  folders[#folders + 1] = name
  return name
end

--- Remove the folders of this spec: for after_each.
function pipeline.clean()
  for _, name in ipairs(folders) do os.execute("rm -rf " .. quote(name)) end
  folders = {}
end

--- Write a file, and return its path.
function pipeline.write(path, text)
  local file <close> = assert(io.open(path, "wb"))
  file:write(text)
  return path
end

--- The bytes of a file, or nil.
function pipeline.read(path)
  local file <close> = io.open(path, "rb")
  return file and file:read("a")
end

--- The paths of a folder's files that match a pattern, in order.
function pipeline.files(folder, pattern)
  local names, listing <close> = {}, assert(io.popen("ls -1 " .. quote(folder) .. " 2>/dev/null"))
  for name in listing:lines() do
    if name:find(pattern or ".") then names[#names + 1] = folder .. "/" .. name end
  end
  return names
end

--- The lines of all committed parts that a to_file left in a folder, sorted.
function pipeline.parts(folder)
  local lines = {}
  for _, path in ipairs(pipeline.files(folder, "%.%a+$")) do
    for line in io.lines(path) do lines[#lines + 1] = line end
  end
  table.sort(lines)
  return lines
end

-- An environment whose log does not fill the screen.
local function environment(options, build)
  local quiet = { log = { level = "off" } }
  for name, value in pairs(options) do quiet[name] = value end
  local env = sc.env(quiet)
  local stream = build(env)
  if stream then stream:collect():uid("rows") end
  return env
end

--- Run what `build(env)` makes to its end; where it returns a stream, that is collected.
-- @return the result of execute
function pipeline.run(options, build, start)
  return environment(options, build):execute(start)
end

--- The same, and the rows of the stream that `build` returned: rows, result.
function pipeline.rows(options, build, start)
  local result = pipeline.run(options, build, start)
  return table.move(result:rows("rows"), 1, #result:rows("rows"), 1, {}), result
end

--- The same, and the rows sorted: for streams without an order.
function pipeline.sorted(options, build, start)
  local rows, result = pipeline.rows(options, build, start)
  table.sort(rows)
  return rows, result
end

--- The sentence with which execute raises.
function pipeline.failure(options, build, start)
  local ok, message = pcall(pipeline.run, options, build, start)
  assert(not ok, "the job was expected to fail")
  assert(type(message) == "string", "execute raised no text")
  return message
end

--- Start the job and return it: job, env.
function pipeline.start(options, build, start)
  local env = environment(options, build)
  return assert(env:start(start)), env
end

--- Wait until `condition()` is true while `job` works; its value is returned.
function pipeline.wait_for(job, condition)
  for _ = 1, LOST_AFTER_MS // SLICE_MS do
    local value = condition()
    if value then return value end
    if job:wait(SLICE_MS) then return assert(condition(), "the job ended before it came true: " .. tostring(job:status())) end
  end
  error("it did not come true: " .. tostring(job:status()), 2)
end

--- Wait until the job has ended: its last status, or nil, message, code.
function pipeline.wait(job)
  return job:wait(LOST_AFTER_MS)
end

--- A source whose values a spec lets through one after another: pipeline.let(folder, n) lets the first n
-- through, pipeline.let(folder, "end") all of them, and then it ends. Where the spec waits for what they
-- cause before it lets more through, nothing depends on time.
function pipeline.gated(env, folder, values)
  return env:source {
    uid = "gated", splits = function() return { 0 } end,
    read = function(ctx, _, at)
      at = at or 0
      local file <close> = io.open(folder .. "/gate")
      local gate = file and file:read("a") or "0"
      if at < (tonumber(gate) or #values) then
        ctx:emit(values[at + 1])
        return at + 1
      end
      if gate == "end" then return nil end
      return at, 1
    end,
  }
end

function pipeline.let(folder, gate)
  pipeline.write(folder .. "/gate.new", tostring(gate))
  assert(os.rename(folder .. "/gate.new", folder .. "/gate"))
end

--- A function for operators that writes a line to a file of the folder, seen at once: pipeline.read.
function pipeline.noter(folder)
  return function(name, line)
    local file <close> = assert(io.open(folder .. "/" .. name, "a"))
    file:write(line, "\n")
  end
end

--- Options of a job that takes checkpoints only when it is told to.
function pipeline.checkpointing(folder, more)
  local options = { id = "spec", checkpoint = { interval = "1h", dir = folder .. "/ckpt", retain = 2 } }
  for name, value in pairs(more or {}) do options[name] = value end
  return options
end

--- Run a script in a process of its own: its standard output, standard error, exit code.
-- @param text the script
-- @param folder where it is written to and runs from; the library is still found
-- @param input what it reads from standard input; optional
-- @param flags words for the interpreter, such as "-i"; optional
function pipeline.script(text, folder, input, flags)
  local path = pipeline.write(folder .. "/script.lua", text)
  local out, err, into = folder .. "/stdout", folder .. "/stderr", folder .. "/stdin"
  pipeline.write(into, input or "")
  local here = io.popen("pwd"):read("l")
  local function absolute(paths)
    return (paths:gsub("[^;]+", function(p) return p:sub(1, 1) == "/" and p or here .. "/" .. p end))
  end
  -- The terminal of whoever runs the specs is no part of them: readline breaks or cuts the lines
  -- that it repeats at the terminal's width, so it gets one that is wide enough.
  local terminal = "TERM=dumb COLUMNS=10000 INPUTRC=/dev/null"
  local command = ("cd %s && %s LUA_PATH_5_4=%s LUA_CPATH_5_4=%s timeout 120 lua5.4 %s %s <%s >%s 2>%s"):format(
    quote(folder), terminal, quote("./?.lua;" .. absolute(package.path)), quote(absolute(package.cpath)),
    flags or "", quote(path), quote(into), quote(out), quote(err))
  local _, _, code = os.execute(command)
  return pipeline.read(out), pipeline.read(err), code
end

return pipeline
