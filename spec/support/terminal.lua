-- terminal: an interpreter at a terminal, with lines typed into it one after another, as a user does who
-- waits for what each one shows.
local child = require "support.child"

local terminal = {}

local PROMPT = "> "

--- Type lines into `lua5.4 -i -l sc=streamckpt`, which runs in a folder; then leave.
-- @param lines an array: strings; or {line, after = fn(write, text), during = fn(write, text)}, where
--   `after` is called with all that the line showed before the next line is typed, and may wait for
--   anything, `during` for each line that it shows; write(text) types more
-- @param last what is typed to leave; end of file by default
-- @return an array with what each line showed, without its echo and prompts; the result of child.run
function terminal.session(folder, lines, last)
  -- `at` is the line whose output comes; `echoed` whether the terminal has repeated it.
  local shown, at, echoed = {}, 0, true
  local function entry(i)
    local line = lines[i]
    return type(line) == "table" and line or { line }
  end
  local function on_line(text, process)
    if at == 0 or at > #lines then return end
    if not echoed then
      echoed = true -- whatever the terminal made of it
      return
    end
    table.insert(shown[at], text)
    if entry(at).during then entry(at).during(process.write, text) end
  end
  local function on_rest(text, process)
    if text ~= PROMPT or not echoed then return end
    if entry(at).after then entry(at).after(process.write, table.concat(shown[at], "\n")) end
    at, echoed = at + 1, false
    if at > #lines then return process.write(last or "\4") end
    shown[at] = {}
    process.write(entry(at)[1] .. "\n")
  end
  local result = child.run {
    -- A line that is as wide as any: readline would move longer ones to and fro.
    command = { "script", "-qec", "stty cols 4000; exec lua5.4 -i -l sc=streamckpt", "/dev/null" },
    folder = folder, on_line = on_line, on_rest = on_rest,
  }
  for i = 1, #lines do shown[i] = shown[i] and table.concat(shown[i], "\n") or "(it was not read)" end
  return shown, result
end

return terminal
