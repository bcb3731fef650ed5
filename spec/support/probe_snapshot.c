#include <inttypes.h>
#include <stdlib.h>

#include "../../core/base/hash.h"
#include "../../core/base/mem.h"
#include "../../core/data/value.h"
#include "../../core/snapshot/job_dir.h"
#include "../../core/snapshot/keyed_file.h"
#include "../../core/snapshot/redistribute.h"
#include "probe_metadata.h"
#include "probe_storage.h"

#define DIR_TYPE "streamckpt.probe.job_dir"

static int done(lua_State *L, int rc, sc_error_t *err) {
  if (rc < 0)
    return probe_fail(L, rc, err);
  lua_pushinteger(L, rc);
  return 1;
}

/* ---- hash ---- */

/* checksum(pieces or string): in one go and piece by piece must agree */
static int checksum(lua_State *L) {
  if (lua_type(L, 1) == LUA_TSTRING) {
    lua_pushinteger(L, (lua_Integer)sc_checksum(probe_bytes(L, 1)));
    return 1;
  }
  sc_checksum_t *sum = sc_checksum_create();
  for (lua_Integer i = 1; i <= (lua_Integer)lua_rawlen(L, 1); i++) {
    lua_rawgeti(L, 1, i);
    sc_bytes_t piece = probe_bytes(L, -1);
    sc_checksum_update(sum, piece.data, piece.len);
    lua_pop(L, 1);
  }
  lua_pushinteger(L, (lua_Integer)sc_checksum_value(sum));
  sc_checksum_destroy(sum);
  return 1;
}

static int hash(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)sc_hash(probe_bytes(L, 1)));
  return 1;
}

/* ---- keyed files ---- */

static const char *field_str(lua_State *L, const char *key, size_t *n) {
  lua_getfield(L, -1, key);
  const char *s = luaL_optlstring(L, -1, "", n);
  lua_pop(L, 1); /* the table keeps it */
  return s;
}

static sc_bytes_t field_bytes(lua_State *L, const char *key) {
  size_t n;
  const char *s = field_str(L, key, &n);
  return sc_bytes(s, n);
}

static lua_Integer field_int(lua_State *L, const char *key) {
  lua_getfield(L, -1, key);
  lua_Integer v = luaL_optinteger(L, -1, 0);
  lua_pop(L, 1);
  return v;
}

static int put_rows(lua_State *L, int rows, sc_keyed_writer_t *w, sc_error_t *err) {
  int rc = 0;
  for (lua_Integer i = 1; rc == 0 && i <= (lua_Integer)lua_rawlen(L, rows); i++) {
    lua_rawgeti(L, rows, i);
    lua_getfield(L, -1, "map_key");
    bool has_map_key = !lua_isnil(L, -1);
    lua_pop(L, 1);
    sc_keyed_row_t row = {
      .group = (uint16_t)field_int(L, "group"), .state = (uint16_t)field_int(L, "state"),
      .has_map_key = has_map_key, .key = field_bytes(L, "key"),
      .name_space = field_bytes(L, "namespace"), .map_key = field_bytes(L, "map_key"),
      .value = field_bytes(L, "value")};
    rc = sc_keyed_writer_put(w, &row, err);
    lua_pop(L, 1);
  }
  return rc;
}

/* keyed_write(s, path, uid, first, last, states, rows, abandon) -> handle */
static int keyed_write(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_key_range_t range = {(uint16_t)luaL_checkinteger(L, 4), (uint16_t)luaL_checkinteger(L, 5)};
  uint32_t n = (uint32_t)lua_rawlen(L, 6);
  sc_keyed_file_state_t *states = sc_calloc(n, sizeof *states);
  for (uint32_t i = 0; i < n; i++) {
    lua_rawgeti(L, 6, i + 1);
    size_t len;
    states[i] = (sc_keyed_file_state_t){field_str(L, "name", &len),
                                        (sc_state_kind_t)field_int(L, "kind")};
    lua_pop(L, 1);
  }
  sc_keyed_writer_t *w;
  int rc = sc_keyed_writer_create(probe_check_storage(L, 1), luaL_checkstring(L, 2),
                                  luaL_checkstring(L, 3), range, states, n, &w, &err);
  free(states);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  rc = put_rows(L, 7, w, &err);
  if (rc < 0 || lua_toboolean(L, 8)) {
    sc_keyed_writer_abandon(w);
    return rc < 0 ? probe_fail(L, rc, &err) : 0;
  }
  sc_handle_t h = {0};
  rc = sc_keyed_writer_finish(w, &h, &err);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  probe_push_handle(L, &h);
  sc_handle_fini(&h);
  return 1;
}

static void set_bytes(lua_State *L, const char *key, sc_bytes_t b) {
  probe_push_bytes(L, b);
  lua_setfield(L, -2, key);
}

static void push_row(lua_State *L, const sc_keyed_row_t *row) {
  lua_newtable(L);
  lua_pushinteger(L, row->group);
  lua_setfield(L, -2, "group");
  lua_pushinteger(L, row->state);
  lua_setfield(L, -2, "state");
  set_bytes(L, "key", row->key);
  set_bytes(L, "namespace", row->name_space);
  if (row->has_map_key)
    set_bytes(L, "map_key", row->map_key);
  set_bytes(L, "value", row->value);
}

static void push_states(lua_State *L, const sc_keyed_reader_t *r) {
  const sc_keyed_file_state_t *states;
  uint32_t n = sc_keyed_reader_states(r, &states);
  lua_newtable(L);
  for (uint32_t i = 0; i < n; i++) {
    lua_newtable(L);
    lua_pushstring(L, states[i].name);
    lua_setfield(L, -2, "name");
    lua_pushinteger(L, states[i].kind);
    lua_setfield(L, -2, "kind");
    lua_rawseti(L, -2, i + 1);
  }
}

/* keyed_read(s, dir, handle, first, last) -> rows, states */
static int keyed_read(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_handle_t h = {0};
  probe_to_handle(L, 3, &h);
  sc_keyed_reader_t *r;
  int rc = sc_keyed_reader_open(probe_check_storage(L, 1), luaL_checkstring(L, 2), &h, &r, &err);
  sc_handle_fini(&h);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  if (!lua_isnoneornil(L, 4))
    sc_keyed_reader_select(r, (sc_key_range_t){(uint16_t)luaL_checkinteger(L, 4),
                                               (uint16_t)luaL_checkinteger(L, 5)});
  lua_newtable(L);
  sc_keyed_row_t row;
  for (lua_Integer i = 1; (rc = sc_keyed_reader_next(r, &row, &err)) == 1; i++) {
    push_row(L, &row);
    lua_rawseti(L, -2, i);
  }
  push_states(L, r);
  sc_keyed_reader_close(r);
  return rc < 0 ? probe_fail(L, rc, &err) : 2;
}

/* ---- metadata ---- */

static int metadata_encode(lua_State *L) {
  sc_metadata_t *m = probe_to_metadata(L, 1);
  sc_buf_t out = SC_BUF_INIT;
  sc_metadata_encode(m, &out);
  probe_push_bytes(L, sc_buf_bytes(&out));
  sc_buf_free(&out);
  sc_metadata_destroy(m);
  return 1;
}

static int push_result(lua_State *L, int rc, sc_metadata_t *m, sc_error_t *err) {
  if (rc < 0)
    return probe_fail(L, rc, err);
  probe_push_metadata(L, m);
  sc_metadata_destroy(m);
  return 1;
}

static int metadata_decode(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_metadata_t *m = NULL;
  /* A copy of its own size, so that reading past the end is seen by the sanitizers. */
  sc_bytes_t bytes = sc_bytes_copy(probe_bytes(L, 1));
  int rc = sc_metadata_decode(bytes, &m, &err);
  free((void *)bytes.data);
  return push_result(L, rc, m, &err);
}

static int metadata_write(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_metadata_t *m = probe_to_metadata(L, 3);
  int rc = sc_metadata_write(probe_check_storage(L, 1), luaL_checkstring(L, 2), m, &err);
  sc_metadata_destroy(m);
  return done(L, rc, &err);
}

static int metadata_read(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_metadata_t *m = NULL;
  int rc = sc_metadata_read(probe_check_storage(L, 1), luaL_checkstring(L, 2), &m, &err);
  return push_result(L, rc, m, &err);
}

/* metadata_verify(s, dir, job_dir, metadata, full) */
static int metadata_verify(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_metadata_t *m = probe_to_metadata(L, 4);
  int rc = sc_metadata_verify(probe_check_storage(L, 1), luaL_checkstring(L, 2),
                              luaL_checkstring(L, 3), m, lua_toboolean(L, 5), &err);
  sc_metadata_destroy(m);
  return done(L, rc, &err);
}

/* ---- handles: a deep copy of a deep copy, the original gone ---- */

static int snapshot_copy(lua_State *L) {
  sc_metadata_t *m = probe_to_operator(L, 1);
  sc_task_snapshot_t *snap = sc_task_snapshot_create(3, 1, 2);
  sc_operator_snapshot_fini(&snap->operators[0]);
  sc_operator_snapshot_copy(&snap->operators[0], &m->operators[0].subtasks[0].state);
  sc_metadata_destroy(m);
  sc_task_snapshot_t *copy = sc_task_snapshot_copy(snap);
  sc_task_snapshot_destroy(snap);
  lua_newtable(L);
  for (uint32_t i = 0; i < copy->operators[0].n_handles; i++) {
    probe_push_handle(L, &copy->operators[0].handles[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushinteger(L, copy->task);
  lua_pushinteger(L, copy->subtask);
  lua_pushinteger(L, copy->operators[1].watermark);
  sc_task_snapshot_destroy(copy);
  return 4;
}

/* ---- redistribution ---- */

/* lists_encode{{name, mode, {item, ...}}, ...}; items are integers */
static int lists_encode(lua_State *L) {
  sc_buf_t out = SC_BUF_INIT;
  uint32_t n = (uint32_t)lua_rawlen(L, 1);
  sc_lists_begin(&out, n);
  for (uint32_t i = 1; i <= n; i++) {
    lua_rawgeti(L, 1, i);
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    lua_rawgeti(L, -3, 3);
    uint32_t items = (uint32_t)lua_rawlen(L, -1);
    sc_lists_list(&out, luaL_checkstring(L, -3), (int)luaL_checkinteger(L, -2), items);
    for (uint32_t k = 1; k <= items; k++) {
      lua_rawgeti(L, -1, k);
      sc_pack_int(&out, luaL_checkinteger(L, -1));
      lua_pop(L, 1);
    }
    lua_pop(L, 4);
  }
  probe_push_bytes(L, sc_buf_bytes(&out));
  sc_buf_free(&out);
  return 1;
}

/* lists_find(bytes, name) -> items, or nil where absent, or an error */
static int lists_find(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_bytes_t items;
  uint32_t n;
  int rc = sc_lists_find(probe_bytes(L, 1), luaL_checkstring(L, 2), &items, &n);
  if (rc <= 0)
    return rc < 0 ? probe_fail(L, rc, &err) : 0;
  lua_newtable(L);
  sc_cursor_t c = sc_cursor(items);
  sc_token_t token;
  for (uint32_t i = 1; i <= n && sc_cursor_next(&c, &token) == 1; i++) {
    lua_pushinteger(L, token.i);
    lua_rawseti(L, -2, i);
  }
  return 1;
}

static void push_range(lua_State *L, sc_key_range_t range, int64_t watermark) {
  lua_newtable(L);
  lua_pushinteger(L, range.first);
  lua_setfield(L, -2, "first");
  lua_pushinteger(L, range.last);
  lua_setfield(L, -2, "last");
  lua_pushinteger(L, watermark);
  lua_setfield(L, -2, "watermark");
}

static void push_plan(lua_State *L, const sc_restore_subtask_t *t) {
  lua_newtable(L);
  set_bytes(L, "lists", sc_buf_bytes(&t->lists));
  lua_pushinteger(L, t->watermark);
  lua_setfield(L, -2, "watermark");
  lua_pushinteger(L, t->forwarded);
  lua_setfield(L, -2, "forwarded");
  lua_pushboolean(L, t->idle);
  lua_setfield(L, -2, "idle");
  lua_newtable(L);
  for (uint32_t i = 0; i < t->n_groups; i++) {
    push_range(L, t->groups[i].range, t->groups[i].watermark);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "groups");
  lua_newtable(L);
  for (uint32_t i = 0; i < t->n_keyed; i++) {
    push_range(L, t->keyed[i].range, t->keyed[i].watermark);
    lua_pushstring(L, t->keyed[i].handle->file);
    lua_setfield(L, -2, "file");
    if (t->keyed[i].directory) {
      lua_pushstring(L, t->keyed[i].directory);
      lua_setfield(L, -2, "directory");
    }
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "keyed");
}

/* redistribute(operator, parallelism, max_parallelism, level) -> {finished, subtasks...} */
static int redistribute(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_metadata_t *m = probe_to_operator(L, 1);
  sc_restore_operator_t *plan;
  int rc = sc_redistribute(&m->operators[0], (uint32_t)luaL_checkinteger(L, 2),
                           (uint32_t)luaL_checkinteger(L, 3), lua_toboolean(L, 4), &plan, &err);
  if (rc == 0) {
    lua_newtable(L);
    lua_pushboolean(L, plan->finished);
    lua_setfield(L, -2, "finished");
    for (uint32_t i = 0; i < plan->parallelism; i++) {
      push_plan(L, &plan->subtasks[i]);
      lua_rawseti(L, -2, i + 1);
    }
    sc_restore_operator_destroy(plan);
  }
  sc_metadata_destroy(m);
  return rc < 0 ? probe_fail(L, rc, &err) : 1;
}

/* ---- the job's folder ---- */

static sc_job_dir_t **check_box(lua_State *L) {
  return luaL_checkudata(L, 1, DIR_TYPE);
}

static int job_close(lua_State *L) {
  sc_job_dir_t **box = check_box(L);
  sc_job_dir_close(*box);
  *box = NULL;
  return 0;
}

/* job_open(s, dir, id) */
static int job_open(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_storage_t *s = probe_check_storage(L, 1);
  sc_job_dir_t **box = lua_newuserdatauv(L, sizeof *box, 1);
  *box = NULL;
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1); /* the storage lives as long */
  if (luaL_newmetatable(L, DIR_TYPE)) {
    lua_pushcfunction(L, job_close);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  int rc = sc_job_dir_open(s, luaL_checkstring(L, 2), luaL_checkstring(L, 3), box, &err);
  return rc < 0 ? probe_fail(L, rc, &err) : 1;
}

static int job_highest(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)sc_job_dir_highest_id(*check_box(L)));
  return 1;
}

static int job_reserve(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  return done(L, sc_job_dir_reserve(*check_box(L), (uint64_t)luaL_checkinteger(L, 2), &err), &err);
}

static int job_next_attempt(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  uint64_t attempt;
  int rc = sc_job_dir_next_attempt(*check_box(L), &attempt, &err);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  lua_pushinteger(L, (lua_Integer)attempt);
  return 1;
}

static int job_prepare(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  return done(L, sc_job_dir_prepare(*check_box(L), (uint64_t)luaL_checkinteger(L, 2), &err), &err);
}

static int job_delete(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  return done(L, sc_job_dir_delete(*check_box(L), (uint64_t)luaL_checkinteger(L, 2), &err), &err);
}

/* job_discard(d, id, {file, or {folder, file}, ...}) */
static int job_discard(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_task_snapshot_t *snap = sc_task_snapshot_create(0, 0, 1);
  for (lua_Integer i = 1; i <= (lua_Integer)lua_rawlen(L, 3); i++) {
    lua_rawgeti(L, 3, i);
    sc_handle_t *h = sc_operator_snapshot_add(&snap->operators[0], SC_HANDLE_KEYED);
    if (lua_istable(L, -1)) {
      lua_rawgeti(L, -1, 1);
      lua_rawgeti(L, -2, 2);
      h->directory = sc_strdup(luaL_checkstring(L, -2));
      h->file = sc_strdup(luaL_checkstring(L, -1));
      lua_pop(L, 2);
    } else {
      h->file = sc_strdup(luaL_checkstring(L, -1));
    }
    lua_pop(L, 1);
  }
  int rc = sc_job_dir_discard(*check_box(L), (uint64_t)luaL_checkinteger(L, 2), snap, &err);
  sc_task_snapshot_destroy(snap);
  return done(L, rc, &err);
}

/* job_sweep(d) -> files removed */
static int job_sweep(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  uint64_t removed;
  int rc = sc_job_dir_sweep(*check_box(L), &removed, &err);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  lua_pushinteger(L, (lua_Integer)removed);
  return 1;
}

static sc_job_scan_t *scan_or_raise(lua_State *L, sc_job_look_t look) {
  sc_error_t err = SC_ERROR_INIT;
  sc_job_scan_t *scan = NULL;
  if (sc_job_scan(probe_check_storage(L, 1), luaL_checkstring(L, 2), look, &scan, &err) < 0)
    probe_raise(L, &err);
  return scan;
}

/* job_scan(s, path, files) -> {{id, "valid"/"damaged"/"nothing", error}, ...} */
static int job_scan(lua_State *L) {
  static const char *const names[] = {"nothing", "damaged", "valid"};
  sc_job_scan_t *scan = scan_or_raise(L, lua_toboolean(L, 3));
  lua_newtable(L);
  for (uint32_t i = 0; i < scan->n; i++) {
    const sc_found_t *f = &scan->list[i];
    lua_newtable(L);
    lua_pushinteger(L, (lua_Integer)f->id);
    lua_rawseti(L, -2, 1);
    lua_pushstring(L, names[f->state]);
    lua_rawseti(L, -2, 2);
    if (f->error.code) {
      char *text = sc_error_format(&f->error);
      lua_pushstring(L, text);
      free(text);
      lua_rawseti(L, -2, 3);
    }
    lua_rawseti(L, -2, i + 1);
  }
  sc_job_scan_destroy(scan);
  return 1;
}

/* job_choose(s, path, older, committed or "unknown", files) -> id, or false where there is none */
static int job_choose(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  uint64_t committed = lua_type(L, 4) == LUA_TSTRING ? SC_COMMITTED_UNKNOWN
                                                     : (uint64_t)luaL_checkinteger(L, 4);
  sc_job_scan_t *scan = scan_or_raise(L, lua_toboolean(L, 5));
  const sc_found_t *chosen;
  int rc = sc_job_scan_choose(scan, lua_toboolean(L, 3), committed, &chosen, &err);
  if (rc == 1)
    lua_pushinteger(L, (lua_Integer)chosen->id);
  else
    lua_pushboolean(L, 0);
  sc_job_scan_destroy(scan);
  return rc < 0 ? probe_fail(L, rc, &err) : 1;
}

void probe_snapshot(lua_State *L) {
  static const luaL_Reg functions[] = {
    {"hash_checksum", checksum}, {"hash_bytes", hash}, {"keyed_write", keyed_write},
    {"keyed_read", keyed_read}, {"metadata_encode", metadata_encode},
    {"metadata_decode", metadata_decode}, {"metadata_write", metadata_write},
    {"metadata_read", metadata_read}, {"metadata_verify", metadata_verify},
    {"handle_copy", snapshot_copy}, {"lists_encode", lists_encode}, {"lists_find", lists_find},
    {"redistribute", redistribute}, {"job_open", job_open}, {"job_close", job_close},
    {"job_highest", job_highest}, {"job_reserve", job_reserve},
    {"job_next_attempt", job_next_attempt}, {"job_prepare", job_prepare},
    {"job_delete", job_delete}, {"job_discard", job_discard}, {"job_sweep", job_sweep},
    {"job_scan", job_scan}, {"job_choose", job_choose}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  probe_storage(L);
}
