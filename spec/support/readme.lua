-- README.md as something to run. What comes before a block, in a comment that readers do not see, says
-- what it is:
--
--   run: NAME[, twice]     a whole script; what it prints follows in blocks of output
--   output[, in any order][ of the first run | of the second run]
--   file: PATH             the text of that file
--   prompt                 a session: what is typed stands behind "> "
--   sample                 looks like this, and is not compared
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

--- What differs from run to run, made equal: times, and how long something took.
function readme.plain(text)
  return (text:gsub("%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d+Z", "TIME"):gsub("in %d+ ms", "in N ms"))
end

function readme.sorted(text)
  local lines = {}
  for line in text:gmatch("[^\n]+") do lines[#lines + 1] = line end
  table.sort(lines)
  return table.concat(lines, "\n") .. "\n"
end

--- Type lines into an interpreter.
-- @return for each line what was printed before the next prompt, without tracebacks
function readme.session(dir, lines)
  local out = {}
  for i, line in ipairs(lines) do
    -- A mark before and after each line, since prompts and echoes look different where stdin is no
    -- terminal: with readline the interpreter repeats what it reads, without it does not.
    out[#out + 1] = ("io.write('\\n<%d>\\n') io.stdout:flush()"):format(i)
    out[#out + 1] = line
  end
  local file <close> = assert(io.open(dir .. "/typed", "w"))
  file:write(table.concat(out, "\n"), "\n")
  file:flush()
  -- Readline breaks or cuts what it repeats at the terminal's width: a wide one, the same everywhere.
  local terminal = "env TERM=dumb COLUMNS=10000 INPUTRC=/dev/null "
  local said = readme.run(dir, terminal .. "lua5.4 -i -l sc=streamckpt < typed") .. "\n<"
  out = {}
  for i, line in ipairs(lines) do
    local text = said:match("\n<" .. i .. ">\n(.-)\n<") or "(it was not read)"
    local kept = {}
    for part in text:gmatch("[^\n]+") do
      part = part:gsub("^> ", "")
      local own = part == line or part == ">" or part == "" or part:find("^io%.write%('\\n<")
      if not own and part ~= "stack traceback:" and not part:find("^\t") then kept[#kept + 1] = part end
    end
    out[i] = #kept > 0 and table.concat(kept, "\n") .. "\n" or ""
  end
  return out
end

return readme
