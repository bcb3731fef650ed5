-- The module as LuaRocks and `make install` put it on a machine: built from this checkout without a
-- network, installed into a scratch tree, used from there by a script that finds nothing else.
local folder = require "support.folder"

local LUAROCKS = "luarocks --lua-version 5.4 "

-- What a make around the specs has told its children is not for the make that is run here, and no
-- installation may find the library in this checkout.
-- Nor is the interpreter that stands first in PATH for a sanitizer build: LuaRocks takes its folder
-- for the place where Lua lies.
local ALONE = "unset MAKEFLAGS MFLAGS MAKELEVEL CFLAGS LIBFLAG LUA_PATH_5_4 LUA_CPATH_5_4; "
  .. "PATH=${PATH#*/spec/support/sanitized:}; exec 2>&1 </dev/null; "

-- Runs a command in a shell, which must succeed; returns what it printed.
local function run(command)
  local pipe = assert(io.popen(ALONE .. command))
  local text = pipe:read("a")
  assert.is_true(pipe:close(), command .. "\n" .. text)
  return text
end

-- Paths of all files in a folder's parts, relative to it, in bytewise order.
local function files(path, parts)
  return run(("cd '%s' && find %s -type f | LC_ALL=C sort"):format(path, parts))
end

-- What may be installed: each Lua file of the library, and the C half.
local function installed(lua_dir, lib_dir)
  local expected = { lib_dir .. "/streamckpt/core.so" }
  for name in files("lua", "streamckpt"):gmatch("[^\n]+") do
    assert.matches("%.lua$", name)
    expected[#expected + 1] = lua_dir .. "/" .. name
  end
  table.sort(expected)
  return table.concat(expected, "\n") .. "\n"
end

describe("an installed streamckpt", function()
  local scratch, build

  setup(function()
    scratch = folder.new()
    -- A build folder of its own: LuaRocks brings other flags, and what lies in build/ is in use.
    build = ("export B='%s' MAKEFLAGS=-j2; "):format(scratch:at("build"))
    run(build .. "LUAROCKS_CONFIG=rocks/apt.lua " .. LUAROCKS .. "--tree '" .. scratch:at("tree")
      .. "' make streamckpt-scm-1.rockspec")
  end)
  teardown(function() scratch:remove() end)

  it("comes from a rockspec without faults", function()
    run(LUAROCKS .. "lint streamckpt-scm-1.rockspec")
  end)

  it("consists of the library's Lua files and its C half", function()
    assert.equals(installed("share/lua/5.4", "lib/lua/5.4"),
      files(scratch:at("tree"), "share/lua lib/lua"))
  end)

  it("is the same through make install, below DESTDIR", function()
    run(build .. "make PREFIX=/usr DESTDIR='" .. scratch:at("root") .. "' install")
    assert.equals(installed("usr/share/lua/5.4", "usr/lib/lua/5.4"), files(scratch:at("root"), "usr"))
  end)

  it("runs the main job", function()
    scratch:write("access.log", [[
10.0.0.1 - - [01/Jan/1970:00:00:00 +0000] "GET / HTTP/1.1" 200 100 "-" "-"
10.0.0.2 - - [01/Jan/1970:00:05:00 +0000] "GET / HTTP/1.1" 200 10 "-" "-"
10.0.0.1 - - [01/Jan/1970:00:10:00 +0000] "GET /a HTTP/1.1" 200 1 "-" "-"
10.0.0.1 - - [01/Jan/1970:01:00:00 +0000] "GET /b HTTP/1.1" 304 - "-" "-"
]])
    local luv = assert(package.searchpath("luv", package.cpath)):match("^(.*)/")
    local tree = scratch:at("tree")
    run(("cd '%s'; export LUA_PATH_5_4='%s/share/lua/5.4/?.lua;%s/share/lua/5.4/?/init.lua' "
      .. "LUA_CPATH_5_4='%s/lib/lua/5.4/?.so;%s/?.so'; "
      .. "lua5.4 tree/lib/luarocks/rocks-5.4/streamckpt/scm-1/examples/visits.lua access.log out ckpt 2")
      :format(scratch.path, tree, tree, tree, luv))
    assert.equals([[
{"hits":1,"last":300000,"bytes":10,"first":300000,"client":"10.0.0.2"}
{"hits":1,"last":3600000,"bytes":0,"first":3600000,"client":"10.0.0.1"}
{"hits":2,"last":600000,"bytes":101,"first":0,"client":"10.0.0.1"}
]], run(("cat '%s'/*.json | LC_ALL=C sort"):format(scratch:at("out"))))
  end)
end)
