-- Whether this runs under ThreadSanitizer, which holds a signal back until its thread calls something
-- that it watches: a loop of plain Lua is then never interrupted. (AddressSanitizer does not.)
return (os.getenv "SANITIZE_PRELOAD" or ""):find("libtsan", 1, true) ~= nil
