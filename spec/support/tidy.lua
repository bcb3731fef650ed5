-- Checks the house rules that a machine can check, over the tree in the current folder (or the one
-- given), and prints each breach as file:line: sentence. The exit status is 0 only without any.
--
--   lua5.4 spec/support/tidy.lua [FOLDER]
local uv = require "luv"

local COLUMNS, FUNCTION_LINES, FILE_LINES = 100, 70, 700

-- Each folder of core may use itself and those before it, never those behind it.
local LAYERS = { "base", "data", "snapshot", "exchange", "state", "checkpoint", "runtime", "operator",
                 "sim" }
local RANK = {}
for rank, name in ipairs(LAYERS) do RANK[name] = rank end

-- Protocols are pure: these rooms get time, chance, threads and files as arguments or not at all.
local PURE = { "^core/checkpoint/", "^core/data/", "^core/exchange/barrier", "^core/exchange/valve",
               "^core/exchange/debloater", "^core/state/timer", "^core/state/ttl", "^core/snapshot/redistribute",
               "^core/snapshot/list_plan", "^core/runtime/restart", "^core/runtime/enumerator",
               "^core/runtime/flow" }
local WORLDLY = { "clock_gettime", "gettimeofday", "time", "pthread_%w+", "fopen", "open", "openat",
                  "rand", "random", "getrandom", "usleep", "nanosleep" }
-- Split, so that this file does not break the rule that it states.
local MARKS = { "TO" .. "DO", "FIX" .. "ME", "XX" .. "X", "HA" .. "CK" }

local breaches = 0

local function breach(file, line, sentence, ...)
  breaches = breaches + 1
  print(("%s:%d: " .. sentence):format(file, line, ...))
end

local function read_lines(path)
  local lines = {}
  for line in io.lines(path) do lines[#lines + 1] = line end
  return lines
end

local function files_under(folder, found)
  local scan = uv.fs_scandir(folder)
  if not scan then return found end
  for name, kind in uv.fs_scandir_next, scan do
    local path = folder .. "/" .. name
    if kind == "directory" then files_under(path, found) else found[#found + 1] = path end
  end
  return found
end

local function tree_files()
  local found = {}
  for _, folder in ipairs { "core", "lua", "spec", "examples", "rocks", ".ci" } do
    files_under(folder, found)
  end
  local scan = assert(uv.fs_scandir("."))
  for name, kind in uv.fs_scandir_next, scan do
    if kind == "file" and name ~= ".git" then found[#found + 1] = name end
  end
  table.sort(found)
  return found
end

-- The folder that this checkout lies in, and the home folder, must not have found their way into a
-- file. A checkout right under the root has no telling name, and /tmp and /usr are nobody's own.
local function own_folders()
  local names = {}
  local outer = uv.cwd():match("^(/[^/]+/).")
  if outer and outer ~= "/tmp/" and outer ~= "/usr/" and outer ~= "/home/" then
    names[#names + 1] = outer
  end
  local home = uv.os_homedir()
  if home and #home > 1 then names[#names + 1] = home .. "/" end
  return names
end

local function check_text(file, lines, own)
  for n, line in ipairs(lines) do
    for _, mark in ipairs(MARKS) do
      if line:find("%f[%w_]" .. mark .. "%f[^%w_]") then
        breach(file, n, "a mark of unfinished work (%s)", mark)
      end
    end
    for _, name in ipairs(own) do
      local from = line:find(name, 1, true)
      if from and not line:sub(1, from - 1):find("[%w._~)}%%/-]$") then
        breach(file, n, "names a folder of this machine (%s)", name)
      end
    end
    if line:find("[ \t]$") then breach(file, n, "space at the end of the line") end
  end
end

-- A function starts at a line without indentation that opens a brace, or at the brace alone.
local function check_c_functions(file, lines)
  local opened
  for n, line in ipairs(lines) do
    if line:find("^[%a{].*{[ \t]*$") or line:find("^{") then opened = n end
    if line:find("^}") then
      if opened and n - opened > FUNCTION_LINES then
        breach(file, opened, "a function of %d lines (at most %d)", n - opened, FUNCTION_LINES)
      end
      opened = nil
    end
  end
end

local function check_columns(file, lines)
  for n, line in ipairs(lines) do
    local width = utf8.len(line) or #line
    if width > COLUMNS then breach(file, n, "%d columns (at most %d)", width, COLUMNS) end
  end
end

local function check_core(file, lines)
  local room = file:match("^core/([^/]+)/")
  for n, line in ipairs(lines) do
    local name = line:match('^%s*#%s*include%s*["<]([^">]+)[">]')
    if name then
      if name:find("^lua") or name:find("^lauxlib") or name:find("^uv") or name:find("/lua/") then
        breach(file, n, "core knows no Lua and no event library (%s)", name)
      end
      local other = name:match("^%.%./([^/]+)/")
      if other and (not RANK[other] or not RANK[room] or RANK[other] > RANK[room]) then
        breach(file, n, "core/%s may not use core/%s, which stands behind it", room, other)
      end
    end
  end
end

local function is_pure(file)
  for _, pattern in ipairs(PURE) do
    if file:find(pattern) then return true end
  end
end

local function check_pure(file, lines)
  for n, line in ipairs(lines) do
    local code = line:gsub("//.*", ""):gsub('"[^"]*"', '""')
    for _, call in ipairs(WORLDLY) do
      if code:find("%f[%w_]" .. call .. "%s*%(") then
        breach(file, n, "a protocol reaches for the world (%s)", code:match("%f[%w_]" .. call))
      end
    end
  end
end

-- A spec whose body is empty passes whatever the code does.
local function check_spec(file, lines)
  local text = table.concat(lines, "\n")
  for at in text:gmatch("()%f[%w_]it%s*%(%s*[\"'][^\n]-[\"']%s*,%s*function%s*%(%s*%)%s*end%s*%)") do
    local _, n = text:sub(1, at):gsub("\n", "")
    breach(file, n + 1, "a spec without a body")
  end
end

if arg[1] then assert(uv.chdir(arg[1])) end
local own, files = own_folders(), tree_files()
for _, file in ipairs(files) do
  local lines = read_lines(file)
  check_text(file, lines, own)
  if file:find("%.[ch]$") then
    check_columns(file, lines)
    check_c_functions(file, lines)
    if file:find("^core/") then check_core(file, lines) end
    if is_pure(file) then check_pure(file, lines) end
  end
  if file:find("_spec%.lua$") then check_spec(file, lines) end
  if file:find("^core/.*%.c$") or file:find("^lua/") then
    if #lines > FILE_LINES then
      breach(file, #lines, "%d lines (at most %d: one room, one idea)", #lines, FILE_LINES)
    end
  end
end
print(("tidy: %d files, %d breaches"):format(#files, breaches))
os.exit(breaches == 0)
