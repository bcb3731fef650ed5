-- A configuration for LuaRocks where Lua modules come from apt and no network is there:
--
--   LUAROCKS_CONFIG=rocks/apt.lua luarocks --lua-version 5.4 --tree TREE make streamckpt-scm-1.rockspec
--
-- It tells LuaRocks which versions Debian 12 provides (lua-luv, lua-busted), since apt leaves no
-- manifest; versions are still compared with what the rockspec asks for.
rocks_provided = { luv = "1.44.2-0", busted = "2.1.1-1" }
rocks_servers = {}
