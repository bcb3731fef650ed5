-- README.md as something to run. What comes before a block, in a comment that readers do not see, says
-- what it is:
--
--   run: NAME[, twice]     a whole script; what it prints follows in blocks of output
--   output[, in any order][ of the first run | of the second run]
--   file: PATH             the text of that file
--   prompt                 a session: what is typed stands behind "> "
--   sample                 looks like this, and is not compared
local terminal = require "support.terminal"

local readme = {}

local function read_file(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read("a")
end

--- The blocks of a Markdown file: {language, text, mark, line}; mark is nil where there is none.
function readme.blocks(path)
  local out, mark, block, number = {}, nil, nil, 0
  for line in (read_file(path) .. "\n"):gmatch("(.-)\n") do
    number = number + 1
    local fence = line:match("^```(.*)$")
    if block then
      if fence then
        block.text = table.concat(block.lines, "\n") .. "\n"
        out[#out + 1], block = block, nil
      else
        block.lines[#block.lines + 1] = line
      end
    elseif fence then
      block, mark = { language = fence, mark = mark, line = number, lines = {} }, nil
    else
      mark = line:match("^<!%-%- (.*) %-%->$") or mark
    end
  end
  return out
end

--- Put the files that a Markdown file shows into it as they are now.
function readme.refresh(path)
  local out, skip, mark = {}, false, nil
  for line in read_file(path):gmatch("(.-)\n") do
    local fence = line:find("^```")
    if skip and fence then skip, mark = false, nil end
    if not skip then out[#out + 1] = line .. "\n" end
    if fence and mark then
      out[#out + 1] = read_file(mark)
      skip, mark = true, nil
    end
    mark = line:match("^<!%-%- file: (.*) %-%->$") or mark
  end
  local file <close> = assert(io.open(path, "wb"))
  file:write(table.concat(out))
end

local function absolute(path, here)
  local out = {}
  for entry in path:gmatch("[^;]+") do out[#out + 1] = entry:find("^/") and entry or here .. "/" .. entry end
  return table.concat(out, ";")
end

--- Run a command in a folder, with this library on the path: all that it prints, errors too.
function readme.run(dir, command)
  local pipe <close> = assert(io.popen("pwd"))
  local here = pipe:read("l")
  local line = "cd '%s' && LUA_PATH_5_4='%s' LUA_CPATH_5_4='%s' timeout 120 %s 2>&1"
  local output <close> = assert(io.popen(line:format(dir, absolute(package.path, here),
    absolute(package.cpath, here), command)))
  return output:read("a")
end

--- What differs from run to run, made equal: times, how long something took, and in the tables of
-- job:checkpoints() and job:metrics() all numbers and the gaps between them.
function readme.plain(text)
  text = text:gsub("%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d+Z", "TIME"):gsub("in %d+ ms", "in N ms")
    :gsub("checkpoint %d+ took [%d.]+ m?s", "checkpoint N took N ms"):gsub("last, after [%d.]+ m?s", "last, after N ms")
    :gsub("checkpoint %d+ has been under way for [%d.]+ m?s", "checkpoint N has been under way for N ms")
  local out, inside = {}, false
  for line in text:gmatch("([^\n]*)\n") do
    inside = inside and line:find("^ *%S+  ") or line:find("^operator  ") or line:find("^ *id  status")
    out[#out + 1] = (inside and line:gsub("%d+[%d.:]*", "N"):gsub("N m?s ", "N ms "):gsub(" +", " ")
      or line) .. "\n"
  end
  return table.concat(out)
end

function readme.sorted(text)
  local lines = {}
  for line in text:gmatch("[^\n]+") do lines[#lines + 1] = line end
  table.sort(lines)
  return table.concat(lines, "\n") .. "\n"
end

--- Type lines into an interpreter at a terminal.
-- @return for each line what it showed, without tracebacks
function readme.session(dir, lines)
  local out = {}
  for i, text in ipairs((terminal.session(dir, lines))) do
    local kept = {}
    for line in text:gmatch("[^\n]+") do
      if line ~= "stack traceback:" and not line:find("^\t") then kept[#kept + 1] = line .. "\n" end
    end
    out[i] = table.concat(kept)
  end
  return out
end

return readme
