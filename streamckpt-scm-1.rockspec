rockspec_format = "3.0"
package = "streamckpt"
version = "scm-1"
-- `luarocks make` builds the checkout that this file lies in and never reads the address.
source = { url = "git+file://." }
description = {
  summary = "Stream processing with exactly-once checkpoints, as a Lua module",
  detailed = [[
A stateful stream engine: a Lua script describes a graph of operators, a C core runs it on worker
threads, keeps its state, and takes consistent checkpoints while records flow; after a crash it goes
on from the last one, and each result is written exactly once. Linux only. Needs the headers of
msgpack-c and xxHash (Debian: apt-get install libmsgpack-dev libxxhash-dev).]],
  license = "MIT",
  labels = { "stream", "checkpoint", "state", "exactly-once" },
}
supported_platforms = { "linux" }
dependencies = { "lua >= 5.4, < 5.5", "luv >= 1.44" }
external_dependencies = {
  MSGPACK = { header = "msgpack.h", library = "msgpackc" },
  XXHASH = { header = "xxhash.h", library = "xxhash" },
}
test_dependencies = { "busted >= 2.1" }
build = {
  type = "make",
  build_variables = {
    CC = "$(CC)", CFLAGS = "$(CFLAGS)", LIBFLAG = "$(LIBFLAG)", LUA_INCDIR = "$(LUA_INCDIR)",
    MSGPACK_INCDIR = "$(MSGPACK_INCDIR)", MSGPACK_LIBDIR = "$(MSGPACK_LIBDIR)",
    XXHASH_INCDIR = "$(XXHASH_INCDIR)", XXHASH_LIBDIR = "$(XXHASH_LIBDIR)",
  },
  -- The flags once more: installing must find the module as it was built, not build it anew.
  install_variables = {
    CC = "$(CC)", CFLAGS = "$(CFLAGS)", LIBFLAG = "$(LIBFLAG)", LUA_INCDIR = "$(LUA_INCDIR)",
    MSGPACK_INCDIR = "$(MSGPACK_INCDIR)", MSGPACK_LIBDIR = "$(MSGPACK_LIBDIR)",
    XXHASH_INCDIR = "$(XXHASH_INCDIR)", XXHASH_LIBDIR = "$(XXHASH_LIBDIR)",
    LUADIR = "$(LUADIR)", LIBDIR = "$(LIBDIR)",
  },
  copy_directories = { "examples" },
}
test = { type = "command", command = "make test" }
