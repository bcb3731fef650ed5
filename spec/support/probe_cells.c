#include <pthread.h>
#include <stdlib.h>

#include "../../core/base/mem.h"
#include "../../core/state/cells.h"
#include "probe.h"

#define CELLS "probe.cells"
#define HEAP "probe.heap"           /* probe_state.c's */
#define HANDLE "probe.keyed_handle" /* probe_state.c's */

typedef struct box {
  sc_cells_t *cells;
  sc_pages_t pages;
  sc_cell_list_t kept;
} box_t;

static int cells_gc(lua_State *L) {
  box_t *b = luaL_checkudata(L, 1, CELLS);
  sc_cell_list_fini(&b->kept);
  sc_cells_destroy(b->cells);
  sc_pages_fini(&b->pages);
  return 0;
}

static int cells_new(lua_State *L) {
  box_t *b = lua_newuserdatauv(L, sizeof *b, 0);
  *b = (box_t){.cells = NULL};
  luaL_setmetatable(L, CELLS);
  sc_pages_init(&b->pages);
  b->cells = sc_cells_create(&b->pages);
  return 1;
}

static box_t *box(lua_State *L) { return luaL_checkudata(L, 1, CELLS); }

static sc_address_t address(lua_State *L) {
  return (sc_address_t){.state = (int)luaL_checkinteger(L, 2), .key = probe_bytes(L, 3),
                        .name_space = probe_bytes(L, 4)};
}

/* From argument `arg` on: epoch, keep, walked. */
static sc_cells_guard_t guard(lua_State *L, int arg) {
  return (sc_cells_guard_t){.epoch = (uint64_t)luaL_optinteger(L, arg, 1),
                            .keep = (uint64_t)luaL_optinteger(L, arg + 1, 0),
                            .kept = &box(L)->kept, .walked = lua_toboolean(L, arg + 2)};
}

/* cells_put(cells, state, key, space, value, epoch, keep, walked) */
static int cells_put(lua_State *L) {
  sc_address_t at = address(L);
  sc_cells_guard_t g = guard(L, 6);
  sc_cells_put(box(L)->cells, &at, sc_table_hash(&at), probe_bytes(L, 5), &g);
  return 0;
}

/* cells_put_own(cells, state, key, space, epoch, keep): the bytes that the cell holds */
static int cells_put_own(lua_State *L) {
  sc_address_t at = address(L);
  sc_cells_guard_t g = guard(L, 5);
  const sc_cell_t *e = sc_cells_find(box(L)->cells, &at, sc_table_hash(&at));
  at.key = sc_cell_key(e);
  sc_cells_put(box(L)->cells, &at, sc_table_hash(&at), sc_cell_value(e), &g);
  return 0;
}

static int cells_get(lua_State *L) {
  sc_address_t at = address(L);
  const sc_cell_t *e = sc_cells_find(box(L)->cells, &at, sc_table_hash(&at));
  if (e)
    probe_push_bytes(L, sc_cell_value(e));
  else
    lua_pushnil(L);
  return 1;
}

/* cells_remove(cells, state, key, space, epoch, keep, walked) */
static int cells_remove(lua_State *L) {
  sc_address_t at = address(L);
  sc_cells_guard_t g = guard(L, 5);
  sc_cells_remove(box(L)->cells, &at, sc_table_hash(&at), &g);
  return 0;
}

/* cells_walk(cells, epoch) -> values by "state|key|space"; a name that comes twice is an error */
static int cells_walk(lua_State *L) {
  sc_slab_walk_t walk = sc_slab_walk(&box(L)->cells->slab, (uint64_t)luaL_checkinteger(L, 2));
  lua_newtable(L);
  for (const sc_slot_t *slot; (slot = sc_slab_next(&walk)) != NULL;) {
    const sc_cell_t *e = (const sc_cell_t *)slot;
    lua_pushfstring(L, "%d|", (int)e->state);
    probe_push_bytes(L, sc_cell_key(e));
    lua_pushliteral(L, "|");
    probe_push_bytes(L, sc_cell_space(e));
    lua_concat(L, 4);
    lua_pushvalue(L, -1);
    if (lua_rawget(L, 3) != LUA_TNIL)
      return luaL_error(L, "a walk sees two cells of %s", lua_tostring(L, -2));
    lua_pop(L, 1);
    probe_push_bytes(L, sc_cell_value(e));
    lua_rawset(L, 3);
  }
  return 1;
}

/* cells_give(cells, budget) -> what is left of it */
static int cells_give(lua_State *L) {
  lua_pushinteger(L, sc_cell_list_give(&box(L)->kept, (int)luaL_checkinteger(L, 2)));
  return 1;
}

/* Values, cells that are held, memory; pages that they share, memory of their chunks. */
static int cells_size(lua_State *L) {
  const sc_cells_t *c = box(L)->cells;
  lua_pushinteger(L, (lua_Integer)c->count);
  lua_pushinteger(L, (lua_Integer)c->slab.live);
  lua_pushinteger(L, (lua_Integer)sc_cells_bytes(c));
  lua_pushinteger(L, (lua_Integer)box(L)->pages.in_use);
  lua_pushinteger(L, (lua_Integer)box(L)->pages.bytes);
  return 5;
}

/* --- a window that changes while its snapshot is written --- */

typedef struct writing {
  sc_keyed_t *window;
  sc_keyed_snapshot_t *snap;
  const char *dir, *file;
  sc_handle_t *handle;
  sc_error_t err;
  int rc;
  atomic_bool over;
} writing_t;

static void *write_snapshot(void *arg) {
  writing_t *w = arg;
  sc_storage_t *s = sc_file_storage_create(false);
  w->rc = w->window->ops->snapshot_write(w->snap, s, w->dir, w->file, w->handle, &w->err);
  sc_storage_destroy(s);
  atomic_store(&w->over, true);
  return NULL;
}

/* One pass over the keys "k0", "k1" ...: some are removed, the others get the pass's number, filled
 * up so that some fit where the old value was. */
static void change_all(sc_keyed_t *window, int state, lua_Integer keys, lua_Integer pass) {
  uint32_t groups = (uint32_t)(window->range.last - window->range.first) + 1;
  for (lua_Integer i = 0; i < keys; i++) {
    char key[32], value[64];
    int n = snprintf(key, sizeof key, "k%lld", (long long)i);
    int m = snprintf(value, sizeof value, "%lld:%*s", (long long)pass, (int)((i * pass) % 20), "");
    sc_address_t at = {.state = state, .group = (uint16_t)(window->range.first + i % groups),
                       .key = sc_bytes(key, (size_t)n)};
    if ((i * 31 + pass) % 5 == 0)
      sc_keyed_clear(window, &at, NULL);
    else
      sc_keyed_put(window, &at, sc_bytes(value, (size_t)m), NULL);
  }
}

/* The same of maps "m0" ... "m199", each entry with a number of its own: one in 5 is removed, and
 * now and then a whole map cleared. */
static void change_maps(sc_keyed_t *window, int state, lua_Integer keys, lua_Integer pass) {
  uint32_t groups = (uint32_t)(window->range.last - window->range.first) + 1;
  for (lua_Integer i = 0; i < keys; i++) {
    char key[32], map_key[32], value[64];
    int n = snprintf(key, sizeof key, "m%lld", (long long)(i % 200));
    int k = snprintf(map_key, sizeof map_key, "%lld", (long long)i);
    int m = snprintf(value, sizeof value, "%lld", (long long)pass);
    sc_address_t at = {.state = state, .group = (uint16_t)(window->range.first + i % 200 % groups),
                       .key = sc_bytes(key, (size_t)n)};
    if ((i + pass) % 997 == 0)
      sc_keyed_clear(window, &at, NULL);
    else if ((i * 31 + pass) % 5 == 0)
      window->ops->map_remove(window, &at, sc_bytes(map_key, (size_t)k), NULL);
    else
      window->ops->map_put(window, &at, sc_bytes(map_key, (size_t)k), sc_bytes(value, (size_t)m),
                           NULL);
  }
}

/* heap_write_beside(h, snapshot, dir, file, state, map state, keys) -> handle, passes: the snapshot
 * is written by another thread while this one makes whole passes of changes, at least two. */
static int heap_write_beside(lua_State *L) {
  sc_handle_t *handle = lua_newuserdatauv(L, sizeof *handle, 0);
  memset(handle, 0, sizeof *handle);
  handle->kind = SC_HANDLE_KEYED;
  luaL_setmetatable(L, HANDLE);
  writing_t w = {.window = *(sc_keyed_t **)luaL_checkudata(L, 1, HEAP),
                 .snap = lua_touserdata(L, 2), .dir = luaL_checkstring(L, 3),
                 .file = luaL_checkstring(L, 4), .handle = handle, .err = SC_ERROR_INIT};
  int state = (int)luaL_checkinteger(L, 5), map_state = (int)luaL_checkinteger(L, 6);
  lua_Integer keys = luaL_checkinteger(L, 7), passes = 0;
  atomic_init(&w.over, false);
  pthread_t thread;
  if (pthread_create(&thread, NULL, write_snapshot, &w) != 0)
    return luaL_error(L, "cannot start a thread");
  while (passes < 2 || !atomic_load(&w.over)) {
    change_all(w.window, state, keys, ++passes);
    change_maps(w.window, map_state, keys, passes);
    w.window->ops->step(w.window, 1000);
  }
  pthread_join(thread, NULL);
  if (w.rc < 0)
    return probe_fail(L, w.rc, &w.err);
  lua_pushinteger(L, passes);
  return 2;
}

static const luaL_Reg functions[] = {
  {"cells_new", cells_new}, {"cells_put", cells_put}, {"cells_put_own", cells_put_own},
  {"cells_get", cells_get}, {"cells_remove", cells_remove}, {"cells_walk", cells_walk},
  {"cells_give", cells_give}, {"cells_size", cells_size},
  {"heap_write_beside", heap_write_beside},
  {NULL, NULL},
};

void probe_cells(lua_State *L) {
  luaL_newmetatable(L, CELLS);
  lua_pushcfunction(L, cells_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  luaL_setfuncs(L, functions, 0);
}
