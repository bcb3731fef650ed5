#include "host.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/base/mem.h"
#include "allocator.h"
#include "codec.h"
#include "leave.h"
#include "slot_luv.h"

typedef struct name_entry {
  char *text;  /* the name's bytes */
  size_t len;  /* how many */
  int ref;     /* its Lua string in the registry */
} name_entry_t;

struct lsc_host {
  lua_State *L;        /* main thread */
  lsc_allocator_t *allocator; /* its memory */
  bool warns;          /* warnings are shown: the script said warn("@on") */
  bool warning;        /* one has begun and goes on */
  int root;            /* registry reference of the root table */
  name_entry_t *names; /* field names that were asked for */
  uint32_t n_names;    /* how many */
  struct lsc_op *current; /* whose function runs, or NULL */
  lsc_interrupt_t interrupt;
  lsc_slot_luv_t luv;  /* the event loop of the job's functions */
};

/* What load_root needs; it runs protected. */
typedef struct load_args {
  const char *text;        /* blob or source */
  size_t n;                /* its length */
  const char *path;        /* package.path, or NULL */
  const char *cpath;       /* package.cpath, or NULL */
  lua_CFunction open_core; /* module "streamckpt.core", or NULL */
  bool source;             /* text is Lua source */
  lsc_host_t *host;        /* being made */
} load_args_t;

/* An address says nothing, so what has no text is called what it is, as the interpreter does. */
static int to_text(lua_State *L) {
  if (lua_isnumber(L, 1) || luaL_getmetafield(L, 1, "__tostring") != LUA_TNIL)
    luaL_tolstring(L, 1, NULL);
  else
    lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
  return 1;
}

/* A __tostring that fails would call the handler again, and again. */
int lsc_host_traceback(lua_State *L) {
  if (lua_type(L, 1) != LUA_TSTRING) {
    lua_pushcfunction(L, to_text);
    lua_pushvalue(L, 1);
    if (lua_pcall(L, 1, 1, 0) != LUA_OK || lua_type(L, -1) != LUA_TSTRING)
      lua_pushliteral(L, "an error whose object has no text was raised");
  }
  luaL_traceback(L, L, lua_tostring(L, -1), 1);
  return 1;
}

/* The error object at the top of L becomes err. lua_tostring would convert a number in place, which
 * allocates and so may raise: only strings are read. */
static int take_error(lua_State *L, int status, sc_error_t *err) {
  const char *text = "an error whose object has no text was raised";
  if (lua_type(L, -1) == LUA_TSTRING)
    text = lua_tostring(L, -1);
  int rc = status == LUA_ERRMEM ? sc_fail(err, SC_ELIMIT, "not enough memory for Lua")
                                : sc_fail(err, SC_EUSER, "%s", text);
  lua_pop(L, 1);
  return rc;
}

static int protect(lua_State *L, lua_CFunction f, void *arg, int nresults, lua_CFunction handler,
                   sc_error_t *err) {
  if (!lua_checkstack(L, nresults + 4))
    return sc_fail(err, SC_ELIMIT, "the stack of the Lua state is full");
  int base = lua_gettop(L);
  if (handler)
    lua_pushcfunction(L, handler);
  lua_pushcfunction(L, f);
  lua_pushlightuserdata(L, arg);
  lua_State *before = lsc_interrupt_mark(L);
  int status = lua_pcall(L, 1, nresults, handler ? base + 1 : 0);
  lsc_interrupt_mark(before);
  if (handler)
    lua_remove(L, base + 1);
  return status == LUA_OK ? 0 : take_error(L, status, err);
}

int lsc_protect(lua_State *L, lua_CFunction f, void *arg, int nresults, sc_error_t *err) {
  return protect(L, f, arg, nresults, NULL, err);
}

int lsc_protect_traced(lua_State *L, lua_CFunction f, void *arg, int nresults, sc_error_t *err) {
  return protect(L, f, arg, nresults, lsc_host_traceback, err);
}

/* print, as slots have it: they share standard output, so a line is written in one piece. */
static int print_whole(lua_State *L) {
  int n = lua_gettop(L);
  luaL_Buffer line;
  luaL_buffinit(L, &line);
  for (int i = 1; i <= n; i++) {
    if (i > 1)
      luaL_addchar(&line, '\t');
    luaL_tolstring(L, i, NULL);
    luaL_addvalue(&line);
  }
  luaL_addchar(&line, '\n');
  luaL_pushresult(&line);
  size_t len;
  const char *text = lua_tolstring(L, -1, &len);
  fwrite(text, 1, len, stdout);
  fflush(stdout);
  return 0;
}

static void set_package_field(lua_State *L, const char *field, const char *value) {
  if (value) {
    lua_pushstring(L, value);
    lua_setfield(L, -2, field);
  }
}

static bool seeds_random;
static uint64_t random_seed;

void lsc_host_seed_random(uint64_t seed) {
  seeds_random = true;
  random_seed = seed;
}

static void seed_random(lua_State *L) {
  if (!seeds_random)
    return;
  lua_getglobal(L, "math");
  lua_getfield(L, -1, "randomseed");
  lua_pushinteger(L, (lua_Integer)random_seed++);
  lua_call(L, 1, 0);
  lua_pop(L, 1);
}

static char host_here; /* its address is the key in the registry that only states of hosts have */

bool lsc_host_is(lua_State *L) {
  bool is = lua_rawgetp(L, LUA_REGISTRYINDEX, &host_here) != LUA_TNIL;
  lua_pop(L, 1);
  return is;
}

static int load_root(lua_State *L) {
  load_args_t *args = lua_touserdata(L, 1);
  lua_pushboolean(L, true);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &host_here);
  luaL_openlibs(L);
  seed_random(L);
  lua_register(L, "print", print_whole);
  lsc_interrupt_watch_coroutines(L);
  lsc_leave_open(L);
  lsc_slot_luv_open(L, args->host);
  lsc_codec_open(L);
  lua_getglobal(L, "package");
  set_package_field(L, "path", args->path);
  set_package_field(L, "cpath", args->cpath);
  if (args->open_core) {
    lua_getfield(L, -1, "preload");
    lua_pushcfunction(L, args->open_core);
    lua_setfield(L, -2, "streamckpt.core");
  }
  if (args->source) {
    if (luaL_loadbufferx(L, args->text, args->n, "=source", "t") != LUA_OK)
      return lua_error(L);
    lua_call(L, 0, 1);
  } else {
    lua_getglobal(L, "require");
    lua_pushliteral(L, "streamckpt.slot");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "load");
    lsc_interrupt_note_home(L);
    lua_pushlstring(L, args->text, args->n);
    lua_call(L, 1, 1);
  }
  if (!lua_istable(L, -1))
    return luaL_error(L, "the functions of the job did not load: a %s came instead of a table",
                      luaL_typename(L, -1));
  args->host->root = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

/* As in the standard interpreter: off until "@on"; a warning of one piece that begins with '@' is a
 * control message. */
static void show_warning(void *arg, const char *text, int to_be_continued) {
  lsc_host_t *host = arg;
  bool first = !host->warning;
  host->warning = to_be_continued;
  if (first && !to_be_continued && text[0] == '@') {
    if (strcmp(text, "@on") == 0 || strcmp(text, "@off") == 0)
      host->warns = text[2] == 'n';
    return;
  }
  if (host->warns)
    fprintf(stderr, "%s%s%s", first ? "Lua warning: " : "", text, to_be_continued ? "" : "\n");
}

static int host_create(load_args_t *args, sc_host_watch_t *watch, lsc_host_t **out,
                       sc_error_t *err) {
  lsc_host_t *host = sc_calloc(1, sizeof *host);
  lsc_interrupt_enter(&host->interrupt, watch);
  host->root = LUA_NOREF;
  host->allocator = lsc_allocator_create();
  host->L = lua_newstate(lsc_allocate, host->allocator);
  if (host->L)
    lua_setwarnf(host->L, show_warning, host);
  args->host = host;
  int rc = host->L ? lsc_protect_traced(host->L, load_root, args, 0, err)
                   : sc_fail(err, SC_ELIMIT, "not enough memory for a Lua state");
  if (rc < 0) {
    lsc_host_destroy(host);
    return rc;
  }
  *out = host;
  return 0;
}

int lsc_host_create(const char *blob, size_t n, const char *path, const char *cpath,
                    lua_CFunction open_core, sc_host_watch_t *watch, lsc_host_t **out,
                    sc_error_t *err) {
  load_args_t args = {blob, n, path, cpath, open_core, false, NULL};
  return host_create(&args, watch, out, err);
}

int lsc_host_create_from_source(const char *source, size_t n, const char *path, const char *cpath,
                                lua_CFunction open_core, lsc_host_t **out, sc_error_t *err) {
  load_args_t args = {source, n, path, cpath, open_core, true, NULL};
  return host_create(&args, NULL, out, err);
}

void lsc_host_destroy(lsc_host_t *host) {
  if (!host)
    return;
  if (host->L) {
    lsc_slot_luv_close(host);
    lua_close(host->L);
  }
  lsc_allocator_destroy(host->allocator);
  lsc_interrupt_leave(&host->interrupt);
  for (uint32_t i = 0; i < host->n_names; i++)
    free(host->names[i].text);
  free(host->names);
  free(host);
}

lsc_interrupt_t *lsc_host_interrupt(lsc_host_t *host) {
  return &host->interrupt;
}

struct lsc_op **lsc_host_current(lsc_host_t *host) {
  return &host->current;
}

lsc_slot_luv_t *lsc_host_luv(const lsc_host_t *host) {
  return (lsc_slot_luv_t *)&host->luv;
}

lua_State *lsc_host_state(lsc_host_t *host) {
  return host->L;
}

void lsc_host_push_spec(lsc_host_t *host, lua_State *L, int index) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, host->root);
  lua_getfield(L, -1, "operators");
  if (!lua_istable(L, -1))
    luaL_error(L, "the job's root table has no operators");
  if (lua_rawgeti(L, -1, index) != LUA_TTABLE)
    luaL_error(L, "the job's root table has no operator %d", index);
  lua_replace(L, -3);
  lua_pop(L, 1);
}

typedef struct name_args {
  sc_bytes_t name; /* to be made a Lua string */
  int ref;         /* out: where it is kept */
} name_args_t;

static int make_name(lua_State *L) {
  name_args_t *args = lua_touserdata(L, 1);
  lua_pushlstring(L, args->name.len ? (const char *)args->name.data : "", args->name.len);
  args->ref = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

int lsc_host_push_name(lsc_host_t *host, lua_State *L, sc_bytes_t name, sc_error_t *err) {
  if (!lua_checkstack(L, 1))
    return sc_fail(err, SC_ELIMIT, "the stack of the Lua state is full");
  for (uint32_t i = 0; i < host->n_names; i++) {
    const name_entry_t *e = &host->names[i];
    if (sc_bytes_equal(sc_bytes(e->text, e->len), name)) {
      lua_rawgeti(L, LUA_REGISTRYINDEX, e->ref);
      return 0;
    }
  }
  name_args_t args = {name, LUA_NOREF};
  int rc = lsc_protect(host->L, make_name, &args, 0, err);
  if (rc < 0)
    return rc;
  host->names = sc_realloc(host->names, (host->n_names + 1) * sizeof *host->names);
  host->names[host->n_names++] =
      (name_entry_t){sc_strndup((const char *)name.data, name.len), name.len, args.ref};
  lua_rawgeti(L, LUA_REGISTRYINDEX, args.ref);
  return 0;
}
