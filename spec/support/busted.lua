-- Starts busted on the interpreter that runs this file, however busted was installed: the launcher
-- of apt asks for Lua 5.1, the one of LuaRocks is a shell script.
require "busted.runner" { standalone = false }
