#include <stdlib.h>

#include "../../core/base/mem.h"
#include "../../core/base/ordered_map.h"
#include "../../core/state/backend.h"
#include "../../core/state/delta.h"
#include "../../core/state/timers.h"
#include "probe.h"

#define OMAP "probe.omap"
#define TABLE "probe.table"
#define DELTA "probe.delta"
#define HEAP "probe.heap"
#define ITERATOR "probe.heap_iterator"
#define HANDLE "probe.keyed_handle"
#define TIMERS "probe.timers"

static void **new_box(lua_State *L, const char *type) {
  void **box = lua_newuserdatauv(L, sizeof *box, 1);
  *box = NULL;
  luaL_setmetatable(L, type);
  return box;
}

static void *box(lua_State *L, int arg, const char *type) {
  void **b = luaL_checkudata(L, arg, type);
  luaL_argcheck(L, *b, arg, "closed");
  return *b;
}

static void push_or_nil(lua_State *L, bool found, sc_bytes_t b) {
  if (found)
    probe_push_bytes(L, b);
  else
    lua_pushnil(L);
}

static void new_type(lua_State *L, const char *type, lua_CFunction gc) {
  luaL_newmetatable(L, type);
  lua_pushcfunction(L, gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
}

/* An optional string argument as bytes. */
static const sc_bytes_t *optional_bytes(lua_State *L, int arg, sc_bytes_t *room) {
  if (lua_isnoneornil(L, arg))
    return NULL;
  *room = probe_bytes(L, arg);
  return room;
}

/* --- ordered map --- */

static int omap_gc(lua_State *L) {
  sc_omap_destroy(*(sc_omap_t **)luaL_checkudata(L, 1, OMAP));
  return 0;
}

static int omap_new(lua_State *L) {
  void **b = new_box(L, OMAP);
  *b = sc_omap_create();
  return 1;
}

static int omap_put(lua_State *L) {
  sc_omap_put(box(L, 1, OMAP), probe_bytes(L, 2), probe_bytes(L, 3));
  return 0;
}

static int push_entry(lua_State *L, const sc_omap_entry_t *e) {
  push_or_nil(L, e, e ? sc_omap_key(e) : sc_bytes(NULL, 0));
  push_or_nil(L, e, e ? sc_omap_value(e) : sc_bytes(NULL, 0));
  return 2;
}

static int omap_find(lua_State *L) {
  return push_entry(L, sc_omap_find(box(L, 1, OMAP), probe_bytes(L, 2)));
}

static int omap_seek(lua_State *L) {
  return push_entry(L, sc_omap_seek(box(L, 1, OMAP), probe_bytes(L, 2)));
}

static int omap_after(lua_State *L) {
  return push_entry(L, sc_omap_after(box(L, 1, OMAP), probe_bytes(L, 2)));
}

static int omap_remove(lua_State *L) {
  lua_pushboolean(L, sc_omap_remove(box(L, 1, OMAP), probe_bytes(L, 2)));
  return 1;
}

static int omap_clear(lua_State *L) {
  sc_omap_clear(box(L, 1, OMAP));
  return 0;
}

/* Flags of an entry: omap_flags(m, key) reads, omap_flags(m, key, n) sets. */
static int omap_flags(lua_State *L) {
  sc_omap_entry_t *e = sc_omap_find(box(L, 1, OMAP), probe_bytes(L, 2));
  luaL_argcheck(L, e, 2, "no such entry");
  if (!lua_isnoneornil(L, 3))
    e->flags = (uint8_t)luaL_checkinteger(L, 3);
  lua_pushinteger(L, e->flags);
  return 1;
}

static int omap_count(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)sc_omap_count(box(L, 1, OMAP)));
  lua_pushinteger(L, (lua_Integer)sc_omap_bytes(box(L, 1, OMAP)));
  return 2;
}

static void push_entries(lua_State *L, const sc_omap_t *map) {
  lua_newtable(L);
  lua_Integer n = 0;
  for (const sc_omap_entry_t *e = sc_omap_first(map); e; e = e->next) {
    probe_push_bytes(L, sc_omap_key(e));
    lua_rawseti(L, -2, ++n);
    probe_push_bytes(L, sc_omap_value(e));
    lua_rawseti(L, -2, ++n);
  }
}

static int omap_list(lua_State *L) {
  push_entries(L, box(L, 1, OMAP));
  return 1;
}

/* --- addresses: state, group, key, namespace from argument 2 on --- */

static sc_address_t address(lua_State *L) {
  return (sc_address_t){.state = (int)luaL_checkinteger(L, 2),
                        .group = (uint16_t)luaL_checkinteger(L, 3),
                        .key = probe_bytes(L, 4),
                        .name_space = probe_bytes(L, 5)};
}

/* --- table --- */

static int table_gc(lua_State *L) {
  sc_table_destroy(*(sc_table_t **)luaL_checkudata(L, 1, TABLE));
  return 0;
}

static int table_new(lua_State *L) {
  void **b = new_box(L, TABLE);
  *b = sc_table_create();
  return 1;
}

static int table_put(lua_State *L) {
  sc_address_t at = address(L);
  sc_table_put(box(L, 1, TABLE), &at, sc_table_hash(&at), probe_bytes(L, 6));
  return 0;
}

static int table_get(lua_State *L) {
  sc_address_t at = address(L);
  const sc_table_entry_t *e = sc_table_find(box(L, 1, TABLE), &at, sc_table_hash(&at));
  if (e && e->map)
    push_entries(L, e->map);
  else
    push_or_nil(L, e, e ? sc_table_value(e) : sc_bytes(NULL, 0));
  return 1;
}

static int table_remove(lua_State *L) {
  sc_address_t at = address(L);
  lua_pushboolean(L, sc_table_remove(box(L, 1, TABLE), &at, sc_table_hash(&at)));
  return 1;
}

static int table_map_put(lua_State *L) {
  sc_table_t *t = box(L, 1, TABLE);
  sc_address_t at = address(L);
  sc_table_map_put(t, sc_table_map(t, &at, sc_table_hash(&at)), probe_bytes(L, 6),
                   probe_bytes(L, 7));
  return 0;
}

static int table_map_remove(lua_State *L) {
  sc_table_t *t = box(L, 1, TABLE);
  sc_address_t at = address(L);
  lua_pushboolean(L, sc_table_map_remove(t, sc_table_map(t, &at, sc_table_hash(&at)),
                                         probe_bytes(L, 6)));
  return 1;
}

/* Remove entries in the order of a scan, at most n (argument 2): keys, and is it over? */
static int table_drain(lua_State *L) {
  sc_table_t *t = box(L, 1, TABLE);
  lua_Integer most = luaL_optinteger(L, 2, LUA_MAXINTEGER), n = 0;
  size_t cursor = 0;
  lua_newtable(L);
  while (n < most && cursor != SC_TABLE_END) {
    const sc_table_entry_t *e = sc_table_scan(t, &cursor, 3);
    if (!e)
      continue;
    probe_push_bytes(L, sc_table_key(e));
    lua_rawseti(L, -2, ++n);
    sc_address_t at = sc_table_address(e);
    sc_table_remove(t, &at, e->hash);
  }
  lua_pushboolean(L, cursor == SC_TABLE_END);
  return 2;
}

static int table_size(lua_State *L) {
  const sc_table_t *t = box(L, 1, TABLE);
  lua_pushinteger(L, (lua_Integer)sc_table_count(t));
  lua_pushinteger(L, (lua_Integer)sc_table_items(t));
  lua_pushinteger(L, (lua_Integer)sc_table_bytes(t));
  return 3;
}

/* --- delta --- */

static int delta_gc(lua_State *L) {
  sc_delta_destroy(*(sc_delta_t **)luaL_checkudata(L, 1, DELTA));
  return 0;
}

static int delta_new(lua_State *L) {
  void **b = new_box(L, DELTA);
  *b = sc_delta_create();
  return 1;
}

static int delta_put(lua_State *L) {
  sc_address_t at = address(L);
  sc_delta_put(box(L, 1, DELTA), &at, sc_table_hash(&at), probe_bytes(L, 6));
  return 0;
}

static int delta_remove(lua_State *L) {
  sc_address_t at = address(L);
  sc_delta_remove(box(L, 1, DELTA), &at, sc_table_hash(&at));
  return 0;
}

static int delta_map_put(lua_State *L) {
  sc_address_t at = address(L);
  sc_delta_map_put(box(L, 1, DELTA), &at, sc_table_hash(&at), probe_bytes(L, 6),
                   probe_bytes(L, 7));
  return 0;
}

static int delta_map_remove(lua_State *L) {
  sc_address_t at = address(L);
  sc_delta_map_remove(box(L, 1, DELTA), &at, sc_table_hash(&at), probe_bytes(L, 6));
  return 0;
}

static int delta_map_clear(lua_State *L) {
  sc_address_t at = address(L);
  sc_delta_map_clear(box(L, 1, DELTA), &at, sc_table_hash(&at));
  return 0;
}

/* "unknown", "removed", or "present" and the value. */
static int push_answer(lua_State *L, sc_delta_answer_t answer, sc_bytes_t value) {
  lua_pushstring(L, answer == SC_DELTA_UNKNOWN ? "unknown"
                    : answer == SC_DELTA_REMOVED ? "removed" : "present");
  push_or_nil(L, answer == SC_DELTA_PRESENT, value);
  return 2;
}

static int delta_get(lua_State *L) {
  sc_address_t at = address(L);
  sc_bytes_t value = {NULL, 0};
  sc_delta_answer_t answer = sc_delta_get(box(L, 1, DELTA), &at, sc_table_hash(&at), &value);
  return push_answer(L, answer, value);
}

static int delta_map_get(lua_State *L) {
  sc_address_t at = address(L);
  sc_bytes_t value = {NULL, 0};
  sc_delta_answer_t answer = sc_delta_map_get(box(L, 1, DELTA), &at, sc_table_hash(&at),
                                              probe_bytes(L, 6), &value);
  return push_answer(L, answer, value);
}

/* The sink writes "verb key [map key] [value]" lines into a buffer. */
static void tell(void *arg, const char *verb, sc_bytes_t a, const sc_bytes_t *b,
                 const sc_bytes_t *c) {
  sc_buf_t *out = arg;
  sc_buf_puts(out, verb);
  const sc_bytes_t *words[] = {&a, b, c};
  for (size_t i = 0; i < 3; i++)
    if (words[i]) {
      sc_buf_puts(out, " ");
      sc_buf_put_bytes(out, *words[i]);
    }
  sc_buf_puts(out, "\n");
}

static void tell_put(void *arg, const sc_address_t *at, uint32_t hash, sc_bytes_t v) {
  tell(arg, "put", at->key, &v, NULL);
}

static void tell_remove(void *arg, const sc_address_t *at, uint32_t hash) {
  tell(arg, "remove", at->key, NULL, NULL);
}

static void tell_map_put(void *arg, const sc_address_t *at, uint32_t hash, sc_bytes_t m,
                         sc_bytes_t v) {
  tell(arg, "map_put", at->key, &m, &v);
}

static void tell_map_remove(void *arg, const sc_address_t *at, uint32_t hash, sc_bytes_t m) {
  tell(arg, "map_remove", at->key, &m, NULL);
}

static void tell_map_clear(void *arg, const sc_address_t *at, uint32_t hash) {
  tell(arg, "map_clear", at->key, NULL, NULL);
}

static int delta_fold(lua_State *L) {
  sc_buf_t out = SC_BUF_INIT;
  sc_delta_sink_t sink = {.arg = &out, .put = tell_put, .remove = tell_remove,
                          .map_put = tell_map_put, .map_remove = tell_map_remove,
                          .map_clear = tell_map_clear};
  int left = sc_delta_fold(box(L, 1, DELTA), (int)luaL_checkinteger(L, 2), &sink);
  lua_pushinteger(L, left);
  probe_push_bytes(L, sc_buf_bytes(&out));
  sc_buf_free(&out);
  return 2;
}

static int delta_size(lua_State *L) {
  const sc_delta_t *d = box(L, 1, DELTA);
  lua_pushinteger(L, (lua_Integer)sc_delta_items(d));
  lua_pushboolean(L, sc_delta_empty(d));
  return 2;
}

/* --- heap window --- */

static int heap_destroy(lua_State *L) {
  sc_keyed_t **b = luaL_checkudata(L, 1, HEAP);
  sc_keyed_destroy(*b);
  *b = NULL;
  return 0;
}

/* heap_new(uid, first group, last group) */
static int heap_new(lua_State *L) {
  void **b = new_box(L, HEAP);
  sc_key_range_t range = {(uint16_t)luaL_checkinteger(L, 2), (uint16_t)luaL_checkinteger(L, 3)};
  *b = sc_heap_create(luaL_checkstring(L, 1), range);
  return 1;
}

static sc_keyed_t *heap(lua_State *L) { return box(L, 1, HEAP); }

static int heap_declare(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_state_descriptor_t d = {luaL_checkstring(L, 2), (sc_state_kind_t)luaL_checkinteger(L, 3)};
  int rc = sc_keyed_declare(heap(L), &d, &err);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  lua_pushinteger(L, rc);
  return 1;
}

/* heap_expect(heap, group, key) */
static int heap_expect(lua_State *L) {
  sc_keyed_t *k = heap(L);
  sc_record_t record = {.flags = SC_RECORD_HAS_KEY, .key = probe_bytes(L, 3),
                        .key_group = (uint16_t)luaL_checkinteger(L, 2)};
  record.key_hash = sc_hash(record.key);
  k->ops->expect(k, &record, 1);
  return 0;
}

static int push_found(lua_State *L, int rc, sc_bytes_t value, sc_error_t *err) {
  if (rc < 0)
    return probe_fail(L, rc, err);
  push_or_nil(L, rc == 1, value);
  return 1;
}

static int push_done(lua_State *L, int rc, sc_error_t *err) {
  if (rc < 0)
    return probe_fail(L, rc, err);
  lua_pushboolean(L, 1);
  return 1;
}

static int heap_get(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_address_t at = address(L);
  sc_bytes_t value = {NULL, 0};
  int rc = sc_keyed_get(heap(L), &at, &value, &err);
  return push_found(L, rc, value, &err);
}

static int heap_put(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_address_t at = address(L);
  return push_done(L, sc_keyed_put(heap(L), &at, probe_bytes(L, 6), &err), &err);
}

/* What was there, or nil; now it is another value. */
static int heap_replace(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_address_t at = address(L);
  sc_place_t place;
  int found = sc_keyed_find(heap(L), &at, &place, &err);
  sc_bytes_t before = sc_bytes_copy(found > 0 ? place.value : sc_bytes(NULL, 0));
  int rc = found < 0 ? found : sc_keyed_replace(heap(L), &place, probe_bytes(L, 6), &err);
  int pushed = push_found(L, rc < 0 ? rc : found, before, &err);
  free((void *)(uintptr_t)before.data);
  return pushed;
}

/* Put back what get hands out, by the borrowed bytes themselves. */
static int heap_put_own(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_address_t at = address(L);
  sc_bytes_t value = {NULL, 0};
  int rc = sc_keyed_get(heap(L), &at, &value, &err);
  return push_done(L, rc == 1 ? sc_keyed_put(heap(L), &at, value, &err) : rc, &err);
}

static int heap_clear(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_address_t at = address(L);
  return push_done(L, sc_keyed_clear(heap(L), &at, &err), &err);
}

static int heap_map_get(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_address_t at = address(L);
  sc_bytes_t value = {NULL, 0};
  int rc = heap(L)->ops->map_get(heap(L), &at, probe_bytes(L, 6), &value, &err);
  return push_found(L, rc, value, &err);
}

static int heap_map_put(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_address_t at = address(L);
  int rc = heap(L)->ops->map_put(heap(L), &at, probe_bytes(L, 6), probe_bytes(L, 7), &err);
  return push_done(L, rc, &err);
}

static int heap_map_remove(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_address_t at = address(L);
  return push_done(L, heap(L)->ops->map_remove(heap(L), &at, probe_bytes(L, 6), &err), &err);
}

/* Remove every entry of a map by the borrowed key that its iterator hands out. */
static int heap_map_remove_all(lua_State *L) {
  sc_address_t at = address(L);
  sc_map_iterator_t *it = heap(L)->ops->map_iterate(heap(L), &at, NULL);
  sc_bytes_t key, value;
  lua_Integer n = 0;
  for (; heap(L)->ops->map_next(it, &key, &value); n++)
    heap(L)->ops->map_remove(heap(L), &at, key, NULL);
  heap(L)->ops->map_done(it);
  lua_pushinteger(L, n);
  return 1;
}

static int heap_map_first(lua_State *L) {
  sc_address_t at = address(L);
  sc_bytes_t room, key = {NULL, 0}, value = {NULL, 0};
  const sc_bytes_t *from = optional_bytes(L, 6, &room);
  bool found = heap(L)->ops->map_first(heap(L), &at, from, &key, &value) == 1;
  push_or_nil(L, found, key);
  push_or_nil(L, found, value);
  return 2;
}

typedef struct iterator {
  sc_keyed_t *keyed;
  sc_map_iterator_t *it;
} iterator_t;

static int heap_iterate(lua_State *L) {
  sc_address_t at = address(L);
  sc_bytes_t room;
  const sc_bytes_t *from = optional_bytes(L, 6, &room);
  iterator_t *i = lua_newuserdatauv(L, sizeof *i, 1);
  i->keyed = heap(L);
  i->it = heap(L)->ops->map_iterate(heap(L), &at, from);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, ITERATOR);
  return 1;
}

static int heap_next(lua_State *L) {
  iterator_t *i = luaL_checkudata(L, 1, ITERATOR);
  sc_bytes_t key = {NULL, 0}, value = {NULL, 0};
  bool found = i->keyed->ops->map_next(i->it, &key, &value) == 1;
  push_or_nil(L, found, key);
  push_or_nil(L, found, value);
  return 2;
}

static int heap_done_iterating(lua_State *L) {
  iterator_t *i = luaL_checkudata(L, 1, ITERATOR);
  i->keyed->ops->map_done(i->it);
  i->it = NULL;
  return 0;
}

static int heap_freeze(lua_State *L) {
  heap(L)->ops->freeze(heap(L), (uint64_t)luaL_checkinteger(L, 2));
  return 0;
}

/* A snapshot and its id, or nil. */
static int heap_ready(lua_State *L) {
  sc_keyed_snapshot_t *snap = heap(L)->ops->ready(heap(L));
  if (!snap) {
    lua_pushnil(L);
    return 1;
  }
  lua_pushlightuserdata(L, snap);
  lua_pushinteger(L, (lua_Integer)heap(L)->ops->snapshot_id(snap));
  return 2;
}

static int handle_gc(lua_State *L) {
  sc_handle_fini(luaL_checkudata(L, 1, HANDLE));
  return 0;
}

/* heap_write(h, snapshot, dir, file) -> handle */
static int heap_write(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_handle_t *handle = lua_newuserdatauv(L, sizeof *handle, 0);
  memset(handle, 0, sizeof *handle);
  handle->kind = SC_HANDLE_KEYED;
  luaL_setmetatable(L, HANDLE);
  sc_storage_t *s = sc_file_storage_create(false);
  int rc = heap(L)->ops->snapshot_write(lua_touserdata(L, 2), s, luaL_checkstring(L, 3),
                                        luaL_checkstring(L, 4), handle, &err);
  sc_storage_destroy(s);
  return rc < 0 ? probe_fail(L, rc, &err) : 1;
}

static int heap_snapshot_done(lua_State *L) {
  heap(L)->ops->snapshot_done(heap(L), lua_touserdata(L, 2));
  return 0;
}

static int heap_abort(lua_State *L) {
  heap(L)->ops->abort(heap(L), (uint64_t)luaL_checkinteger(L, 2));
  return 0;
}

static int heap_step(lua_State *L) {
  lua_pushboolean(L, heap(L)->ops->step(heap(L), (int)luaL_checkinteger(L, 2)));
  return 1;
}

/* heap_load(h, dir, handle, first group, last group) */
static int heap_load(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_restore_keyed_t part = {.handle = luaL_checkudata(L, 3, HANDLE),
                             .range = {(uint16_t)luaL_checkinteger(L, 4),
                                       (uint16_t)luaL_checkinteger(L, 5)}};
  sc_storage_t *s = sc_file_storage_create(false);
  int rc = heap(L)->ops->load(heap(L), s, luaL_checkstring(L, 2), &part, &err);
  sc_storage_destroy(s);
  return push_done(L, rc, &err);
}

static int heap_usage(lua_State *L) {
  uint64_t entries, bytes;
  heap(L)->ops->usage(heap(L), &entries, &bytes);
  lua_pushinteger(L, (lua_Integer)entries);
  lua_pushinteger(L, (lua_Integer)bytes);
  return 2;
}

static void set_bytes(lua_State *L, const char *name, sc_bytes_t b) {
  probe_push_bytes(L, b);
  lua_setfield(L, -2, name);
}

static void push_row(lua_State *L, const sc_keyed_row_t *row, const char *state) {
  lua_newtable(L);
  lua_pushinteger(L, row->group);
  lua_setfield(L, -2, "group");
  lua_pushstring(L, state);
  lua_setfield(L, -2, "state");
  set_bytes(L, "key", row->key);
  set_bytes(L, "space", row->name_space);
  set_bytes(L, "value", row->value);
  if (row->has_map_key)
    set_bytes(L, "map_key", row->map_key);
}

/* heap_rows(handle, dir) -> list of rows, list of state names */
static int heap_rows(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  const sc_handle_t *handle = luaL_checkudata(L, 1, HANDLE);
  const char *dir = luaL_checkstring(L, 2);
  lua_settop(L, 2);
  lua_newtable(L);
  lua_newtable(L);
  if (handle->length == 0)
    return 2;
  sc_storage_t *s = sc_file_storage_create(false);
  sc_keyed_reader_t *r;
  const sc_keyed_file_state_t *states;
  int rc = sc_keyed_reader_open(s, dir, handle, &r, &err);
  if (rc >= 0) {
    uint32_t n = sc_keyed_reader_states(r, &states);
    for (uint32_t i = 0; i < n; i++) {
      lua_pushstring(L, states[i].name);
      lua_rawseti(L, 4, i + 1);
    }
    sc_keyed_row_t row;
    for (lua_Integer i = 1; (rc = sc_keyed_reader_next(r, &row, &err)) == 1; i++) {
      push_row(L, &row, states[row.state].name);
      lua_rawseti(L, 3, i);
    }
    sc_keyed_reader_close(r);
  }
  sc_storage_destroy(s);
  return rc < 0 ? probe_raise(L, &err) : 2;
}

/* Length, checksum, file, number of groups that have a block. */
static int heap_handle(lua_State *L) {
  const sc_handle_t *h = luaL_checkudata(L, 1, HANDLE);
  lua_Integer blocks = 0;
  for (uint32_t i = 0; h->length && i <= (uint32_t)(h->range.last - h->range.first); i++)
    blocks += h->offsets[i] != 0;
  lua_pushinteger(L, (lua_Integer)h->length);
  lua_pushinteger(L, (lua_Integer)h->checksum);
  lua_pushstring(L, h->file);
  lua_pushinteger(L, blocks);
  return 4;
}

/* heap_group(key bytes, max parallelism) */
static int heap_group(lua_State *L) {
  lua_pushinteger(L, sc_key_group(probe_bytes(L, 1), (uint32_t)luaL_checkinteger(L, 2)));
  return 1;
}

/* heap_range(max parallelism, parallelism, index) -> first, last */
static int heap_range(lua_State *L) {
  sc_key_range_t r = sc_key_range((uint32_t)luaL_checkinteger(L, 1),
                                  (uint32_t)luaL_checkinteger(L, 2),
                                  (uint32_t)luaL_checkinteger(L, 3));
  lua_pushinteger(L, r.first);
  lua_pushinteger(L, r.last);
  return 2;
}

static int heap_make_dir(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_storage_t *s = sc_file_storage_create(false);
  int rc = s->ops->make_dir(s, luaL_checkstring(L, 1), &err);
  sc_storage_destroy(s);
  return rc < 0 ? probe_raise(L, &err) : 0;
}

/* --- timers --- */

static int timers_gc(lua_State *L) {
  sc_timers_destroy(*(sc_timers_t **)luaL_checkudata(L, 1, TIMERS));
  return 0;
}

/* timers_new(heap) */
static int timers_new(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_keyed_t *k = heap(L);
  void **b = new_box(L, TIMERS);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  sc_timers_t *t;
  int rc = sc_timers_create(k, &t, &err);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  *b = t;
  return 1;
}

static int timers_rebuild(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  return push_done(L, sc_timers_rebuild(box(L, 1, TIMERS), &err), &err);
}

/* (timers, domain, time, group, key, namespace) */
static sc_timer_t timer(lua_State *L) {
  return (sc_timer_t){.domain = (sc_time_domain_t)luaL_checkinteger(L, 2),
                      .time = luaL_checkinteger(L, 3),
                      .group = (uint16_t)luaL_checkinteger(L, 4),
                      .key = probe_bytes(L, 5),
                      .name_space = probe_bytes(L, 6)};
}

static int timers_register(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_timer_t what = timer(L);
  return push_done(L, sc_timers_register(box(L, 1, TIMERS), &what, &err), &err);
}

static int timers_delete(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_timer_t what = timer(L);
  return push_done(L, sc_timers_delete(box(L, 1, TIMERS), &what, &err), &err);
}

static int timers_next(lua_State *L) {
  int64_t time;
  if (sc_timers_next(box(L, 1, TIMERS), (sc_time_domain_t)luaL_checkinteger(L, 2), &time))
    lua_pushinteger(L, time);
  else
    lua_pushnil(L);
  return 1;
}

static int timers_begin(lua_State *L) {
  sc_timers_begin_advance(box(L, 1, TIMERS), (sc_time_domain_t)luaL_checkinteger(L, 2));
  return 0;
}

/* timers_pop(timers, domain, upto) -> time, group, key, namespace; nil at the end */
static int timers_pop(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_timer_t out;
  int rc = sc_timers_pop(box(L, 1, TIMERS), (sc_time_domain_t)luaL_checkinteger(L, 2),
                         luaL_checkinteger(L, 3), &out, &err);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  if (rc == 0)
    return 0;
  lua_pushinteger(L, out.time);
  lua_pushinteger(L, out.group);
  probe_push_bytes(L, out.key);
  probe_push_bytes(L, out.name_space);
  return 4;
}

static int timers_count(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)sc_timers_count(box(L, 1, TIMERS),
                                                  (sc_time_domain_t)luaL_checkinteger(L, 2)));
  return 1;
}

static const luaL_Reg functions[] = {
  {"omap_new", omap_new}, {"omap_put", omap_put}, {"omap_find", omap_find},
  {"omap_seek", omap_seek}, {"omap_after", omap_after}, {"omap_remove", omap_remove},
  {"omap_clear", omap_clear}, {"omap_flags", omap_flags}, {"omap_count", omap_count},
  {"omap_list", omap_list},
  {"table_new", table_new}, {"table_put", table_put}, {"table_get", table_get},
  {"table_remove", table_remove}, {"table_map_put", table_map_put},
  {"table_map_remove", table_map_remove}, {"table_drain", table_drain},
  {"table_size", table_size},
  {"delta_new", delta_new}, {"delta_put", delta_put}, {"delta_remove", delta_remove},
  {"delta_map_put", delta_map_put}, {"delta_map_remove", delta_map_remove},
  {"delta_map_clear", delta_map_clear}, {"delta_get", delta_get},
  {"delta_map_get", delta_map_get}, {"delta_fold", delta_fold}, {"delta_size", delta_size},
  {"heap_new", heap_new}, {"heap_destroy", heap_destroy}, {"heap_declare", heap_declare},
  {"heap_expect", heap_expect}, {"heap_get", heap_get}, {"heap_put", heap_put},
  {"heap_put_own", heap_put_own},
  {"heap_replace", heap_replace},
  {"heap_clear", heap_clear}, {"heap_map_get", heap_map_get}, {"heap_map_put", heap_map_put},
  {"heap_map_remove", heap_map_remove}, {"heap_map_remove_all", heap_map_remove_all},
  {"heap_map_first", heap_map_first}, {"heap_iterate", heap_iterate}, {"heap_next", heap_next},
  {"heap_done_iterating", heap_done_iterating}, {"heap_freeze", heap_freeze},
  {"heap_ready", heap_ready}, {"heap_write", heap_write},
  {"heap_snapshot_done", heap_snapshot_done}, {"heap_abort", heap_abort},
  {"heap_step", heap_step}, {"heap_load", heap_load}, {"heap_usage", heap_usage},
  {"heap_rows", heap_rows}, {"heap_handle", heap_handle}, {"heap_group", heap_group},
  {"heap_range", heap_range}, {"heap_make_dir", heap_make_dir},
  {"timers_new", timers_new}, {"timers_rebuild", timers_rebuild},
  {"timers_register", timers_register}, {"timers_delete", timers_delete},
  {"timers_next", timers_next}, {"timers_begin", timers_begin}, {"timers_pop", timers_pop},
  {"timers_count", timers_count},
  {NULL, NULL},
};

/* Iterators are finished by the specs; a window's destruction finishes the rest. */
void probe_state(lua_State *L) {
  new_type(L, OMAP, omap_gc);
  new_type(L, TABLE, table_gc);
  new_type(L, DELTA, delta_gc);
  new_type(L, HEAP, heap_destroy);
  new_type(L, HANDLE, handle_gc);
  new_type(L, TIMERS, timers_gc);
  luaL_newmetatable(L, ITERATOR);
  lua_pop(L, 1);
  luaL_setfuncs(L, functions, 0);
}
