std = "lua54"
codes = true
max_line_length = 110
exclude_files = { "build", "lua_modules", ".luarocks" }
-- A sentence that a spec expects stands whole on its line.
files["spec"] = { std = "+busted", max_line_length = 128 }
ignore = { "212/self", "212/_.*" } -- unused self and _names are interface, not mistakes
files["spec/lua/job_spec.lua"] = { ignore = { "122/io" } } -- catches what is written to stderr
