-- known: which values have a name that means the same in every Lua state, because `require` finds
-- them there: loaded modules, and the functions inside them.
--
-- A value counts as known only if a new state can really find it: its module must be a standard
-- library, or found on package.path or package.cpath, or be a part of this library; a Lua function
-- inside a module must come from some module's file, for the script may have put it there; and what
-- the script added to a standard library is not part of that library.

local known = {}

local function set(words)
  local out = {}
  for word in words:gmatch("%S+") do out[word] = true end
  return out
end

-- What a new Lua 5.4 state holds, by library. `_G` is the table of globals.
known.FRESH = {
  _G = set [[_G _VERSION assert collectgarbage coroutine debug dofile error getmetatable io ipairs
    load loadfile math next os package pairs pcall print rawequal rawget rawlen rawset require
    select setmetatable string table tonumber tostring type utf8 warn xpcall]],
  coroutine = set "close create isyieldable resume running status wrap yield",
  debug = set [[debug gethook getinfo getlocal getmetatable getregistry getupvalue getuservalue
    setcstacklimit sethook setlocal setmetatable setupvalue setuservalue traceback upvalueid
    upvaluejoin]],
  io = set "close flush input lines open output popen read stderr stdin stdout tmpfile type write",
  math = set [[abs acos asin atan ceil cos cosh deg exp floor fmod frexp huge ldexp log log10 max
    maxinteger min mininteger modf pi pow rad random randomseed sin sinh sqrt tan tanh tointeger
    type ult]],
  os = set "clock date difftime execute exit getenv remove rename setlocale time tmpname",
  package = set "config cpath loaded loadlib path preload searchers searchpath",
  string = set [[byte char dump find format gmatch gsub len lower match pack packsize rep reverse
    sub unpack upper]],
  table = set "concat insert move pack remove sort unpack",
  utf8 = set "char charpattern codepoint codes len offset",
}

-- The standard functions as they were when this library was loaded: a script that replaces `print`
-- usually keeps the old one in a local.
local ORIGINALS = {}
for library, names in pairs(known.FRESH) do
  for name in pairs(names) do
    local value = type(package.loaded[library]) == "table" and rawget(package.loaded[library], name)
    if type(value) == "function" and debug.getinfo(value, "S").what == "C" then
      ORIGINALS[value] = { library, name }
    end
  end
end

local function is_ours(name)
  return name == "streamckpt" or name:sub(1, 11) == "streamckpt."
end

-- The Lua file of a module, or nil; and whether a new state can find the module at all.
local function find_module(name)
  if known.FRESH[name] or is_ours(name) then return package.searchpath(name, package.path), true end
  local file = package.searchpath(name, package.path)
  if file then return file, true end
  local root = name:match("^[^.]+")
  return nil, (package.searchpath(name, package.cpath)
    or root and root ~= name and package.searchpath(root, package.cpath)) and true or false
end

-- The modules that a new state can find, in the order in which they may name a value: standard
-- libraries first, then bytewise; and the sources of their Lua functions.
local function findable_modules()
  local names, sources = {}, {}
  for name, value in next, package.loaded do
    if type(name) == "string" and value ~= true then
      local file, found = find_module(name)
      if found then names[#names + 1] = name end
      if file then sources["@" .. file] = true end
    end
  end
  table.sort(names, function(a, b)
    local fresh_a, fresh_b = known.FRESH[a] ~= nil, known.FRESH[b] ~= nil
    if fresh_a ~= fresh_b then return fresh_a end
    return a < b
  end)
  return names, sources
end

-- Tables inside modules are data and travel by value, but a class or another metatable, or a constant
-- that is told by its identity, must be the module's own.
local function is_class(t, name)
  return debug.getmetatable(t) ~= nil or rawget(t, "__index") ~= nil or rawget(t, "__name") ~= nil
    or name:find("metatable", 1, true) ~= nil
end

local function may_be_named(value, name, sources, fresh)
  local kind = type(value)
  if kind == "function" then
    local info = debug.getinfo(value, "S")
    return info.what == "C" or (not fresh and sources[info.source] == true)
  end
  return kind == "userdata" or (kind == "table" and is_class(value, name))
end

local function add_fields(index, container, entry, sources, depth)
  local fresh = known.FRESH[entry[1]]
  local keys = {}
  for key in next, container do
    if type(key) == "string" and (not fresh or fresh[key]) then keys[#keys + 1] = key end
  end
  table.sort(keys)
  local inner = {}
  for _, key in ipairs(keys) do
    local value = rawget(container, key)
    local path = { table.unpack(entry) }
    path[#path + 1] = key
    if value ~= nil and not index[value] and may_be_named(value, key, sources, fresh) then
      index[value] = path
    end
    if type(value) == "table" then inner[#inner + 1] = { value, path } end
  end
  if depth < 2 and not fresh then
    for _, pair in ipairs(inner) do add_fields(index, pair[1], pair[2], sources, depth + 1) end
  end
end

--- Everything that has a name now.
-- @return a table from value to {module name, field, ...}: {"string", "format"}, {"_G"}
function known.index()
  local index = { [_G] = { "_G" } }
  local names, sources = findable_modules()
  for _, name in ipairs(names) do
    local module = package.loaded[name]
    if type(module) ~= "string" and type(module) ~= "number" and type(module) ~= "boolean"
      and not index[module] then
      index[module] = { name }
    end
  end
  for _, name in ipairs(names) do
    local module = package.loaded[name]
    if type(module) == "table" then add_fields(index, module, { name }, sources, 1) end
  end
  for value, entry in pairs(ORIGINALS) do index[value] = index[value] or entry end
  return index
end

--- What the script defined: globals, and additions to standard libraries, that a new state lacks.
-- A standard function that the script replaced by one in Lua counts, too.
-- @return an array of {library, name, value}, in bytewise order; library "_G" are the globals
function known.defined()
  local out = {}
  for library, fresh in pairs(known.FRESH) do
    local container = package.loaded[library]
    if library ~= "package" and type(container) == "table" then
      for name, value in next, container do
        local replaced = type(value) == "function" and debug.getinfo(value, "S").what ~= "C"
        if type(name) == "string" and (not fresh[name] or replaced) then
          out[#out + 1] = { library, name, value, replaced = fresh[name] or nil }
        end
      end
    end
  end
  table.sort(out, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[2] < b[2]
  end)
  return out
end

return known
