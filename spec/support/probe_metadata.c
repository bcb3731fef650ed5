#include "probe_metadata.h"

#include <stdlib.h>

#include "../../core/base/mem.h"

static char *get_str(lua_State *L, int table, const char *key) {
  lua_getfield(L, table, key);
  char *v = sc_strdup(luaL_optstring(L, -1, NULL));
  lua_pop(L, 1);
  return v;
}

static bool get_raw(lua_State *L, int table, const char *key, sc_buf_t *out) {
  lua_getfield(L, table, key);
  bool there = !lua_isnil(L, -1);
  if (there)
    sc_buf_put_bytes(out, probe_bytes(L, -1));
  lua_pop(L, 1);
  return there;
}

/* Push an array field; its length. */
static uint32_t open_field(lua_State *L, int table, const char *key) {
  lua_getfield(L, table, key);
  return lua_isnil(L, -1) ? 0 : (uint32_t)lua_rawlen(L, -1);
}

static void set_int(lua_State *L, const char *key, int64_t v) {
  lua_pushinteger(L, v);
  lua_setfield(L, -2, key);
}

static void set_bool(lua_State *L, const char *key, bool v) {
  lua_pushboolean(L, v);
  lua_setfield(L, -2, key);
}

static void set_str(lua_State *L, const char *key, const char *v) {
  if (v) {
    lua_pushstring(L, v);
    lua_setfield(L, -2, key);
  }
}

static void to_inflight(lua_State *L, int table, sc_handle_t *h) {
  h->directory = get_str(L, table, "directory");
  h->inflight = (sc_handle_inflight_t){
      .edge = (uint32_t)probe_get_int(L, table, "edge", 0),
      .sender = (uint32_t)probe_get_int(L, table, "sender", 0),
      .receiver = (uint32_t)probe_get_int(L, table, "receiver", 0),
      .origin = (uint32_t)probe_get_int(L, table, "origin", probe_get_int(L, table, "receiver", 0)),
      .generation = (uint32_t)probe_get_int(L, table, "generation", 1),
      .side = (uint32_t)probe_get_int(L, table, "side", 0),
      .tagged = probe_get_int(L, table, "first", -1) >= 0,
      .idle = probe_get_bool(L, table, "idle"),
      .watermark = probe_get_int(L, table, "watermark", INT64_MIN),
      .offset = (uint64_t)probe_get_int(L, table, "offset", 0),
      .bytes = (uint64_t)probe_get_int(L, table, "bytes", 0),
      .skip = (uint32_t)probe_get_int(L, table, "skip", 0)};
}

void probe_to_handle(lua_State *L, int table, sc_handle_t *h) {
  table = lua_absindex(L, table);
  h->kind = (sc_handle_kind_t)probe_get_int(L, table, "kind", SC_HANDLE_KEYED);
  h->file = get_str(L, table, "file");
  h->length = (uint64_t)probe_get_int(L, table, "length", 0);
  h->checksum = (uint64_t)probe_get_int(L, table, "checksum", 0);
  h->range.first = (uint16_t)probe_get_int(L, table, "first", 0);
  h->range.last = (uint16_t)probe_get_int(L, table, "last", 0);
  get_raw(L, table, "lists", &h->inlined);
  if (h->kind == SC_HANDLE_INFLIGHT)
    to_inflight(L, table, h);
  if (h->kind != SC_HANDLE_KEYED)
    return;
  h->offsets = sc_calloc(sc_key_range_count(h->range), sizeof *h->offsets);
  uint32_t n = open_field(L, table, "offsets");
  for (uint32_t i = 0; i < n && i < sc_key_range_count(h->range); i++) {
    lua_rawgeti(L, -1, i + 1);
    h->offsets[i] = (uint64_t)luaL_checkinteger(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  h->n_states = open_field(L, table, "states");
  h->states = sc_calloc(h->n_states, sizeof *h->states);
  for (uint32_t i = 0; i < h->n_states; i++) {
    lua_rawgeti(L, -1, i + 1);
    h->states[i] = sc_strdup(luaL_checkstring(L, -1));
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static void push_inflight(lua_State *L, const sc_handle_t *h) {
  const sc_handle_inflight_t *f = &h->inflight;
  set_int(L, "edge", f->edge);
  set_int(L, "sender", f->sender);
  set_int(L, "receiver", f->receiver);
  set_int(L, "origin", f->origin);
  set_int(L, "generation", f->generation);
  set_int(L, "side", f->side);
  set_bool(L, "idle", f->idle);
  set_int(L, "watermark", f->watermark);
  if (f->tagged) {
    set_int(L, "first", h->range.first);
    set_int(L, "last", h->range.last);
  }
  set_str(L, "directory", h->directory);
  set_str(L, "file", h->file);
  if (!h->file)
    return;
  set_int(L, "length", (int64_t)h->length);
  set_int(L, "checksum", (int64_t)h->checksum);
  set_int(L, "offset", (int64_t)f->offset);
  set_int(L, "bytes", (int64_t)f->bytes);
  set_int(L, "skip", f->skip);
}

void probe_push_handle(lua_State *L, const sc_handle_t *h) {
  lua_newtable(L);
  set_int(L, "kind", h->kind);
  if (h->kind == SC_HANDLE_INFLIGHT) {
    push_inflight(L, h);
    return;
  }
  if (h->kind != SC_HANDLE_KEYED) {
    probe_push_bytes(L, sc_buf_bytes(&h->inlined));
    lua_setfield(L, -2, "lists");
    return;
  }
  set_str(L, "file", h->file);
  set_int(L, "length", (int64_t)h->length);
  set_int(L, "checksum", (int64_t)h->checksum);
  set_int(L, "first", h->range.first);
  set_int(L, "last", h->range.last);
  lua_newtable(L);
  for (uint32_t i = 0; i < sc_key_range_count(h->range); i++) {
    lua_pushinteger(L, (lua_Integer)h->offsets[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "offsets");
  lua_newtable(L);
  for (uint32_t i = 0; i < h->n_states; i++) {
    lua_pushstring(L, h->states[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "states");
}

static void to_subtask(lua_State *L, int table, sc_metadata_subtask_t *t) {
  table = lua_absindex(L, table);
  t->end = (sc_task_end_t)probe_get_int(L, table, "end", 0);
  t->directory = get_str(L, table, "directory");
  t->state.watermark = probe_get_int(L, table, "watermark", INT64_MIN);
  t->state.forwarded = probe_get_int(L, table, "forwarded", INT64_MIN);
  t->state.idle = probe_get_bool(L, table, "idle");
  uint32_t n = open_field(L, table, "handles");
  for (uint32_t i = 0; i < n; i++) {
    lua_rawgeti(L, -1, i + 1);
    probe_to_handle(L, -1, sc_operator_snapshot_add(&t->state, SC_HANDLE_KEYED));
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static void to_operator(lua_State *L, int table, sc_metadata_t *m) {
  table = lua_absindex(L, table);
  uint32_t n = open_field(L, table, "subtasks");
  char *uid = get_str(L, table, "uid"), *name = get_str(L, table, "name");
  uint32_t p = (uint32_t)probe_get_int(L, table, "parallelism", n);
  sc_metadata_operator_t *op = sc_metadata_add_operator(
      m, uid ? uid : "op", name ? name : "op", p,
      (uint32_t)probe_get_int(L, table, "max_parallelism", 128));
  free(uid);
  free(name);
  op->has_enumerator = get_raw(L, table, "enumerator", &op->enumerator);
  for (uint32_t i = 0; i < n && i < p; i++) {
    lua_rawgeti(L, -1, i + 1);
    to_subtask(L, -1, &op->subtasks[i]);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

sc_metadata_t *probe_to_operator(lua_State *L, int table) {
  sc_metadata_t *m = sc_metadata_create();
  to_operator(L, table, m);
  return m;
}

static void to_edge(lua_State *L, int table, sc_metadata_edge_t *e) {
  table = lua_absindex(L, table);
  e->from_uid = get_str(L, table, "from");
  e->output = get_str(L, table, "output");
  e->to_uid = get_str(L, table, "to");
  e->partitioner = get_str(L, table, "partitioner");
  e->port = (uint32_t)probe_get_int(L, table, "port", 0);
  e->ordinal = (uint32_t)probe_get_int(L, table, "ordinal", 0);
  e->from_parallelism = (uint32_t)probe_get_int(L, table, "from_parallelism", 0);
  e->to_parallelism = (uint32_t)probe_get_int(L, table, "to_parallelism", 0);
}

sc_metadata_t *probe_to_metadata(lua_State *L, int table) {
  table = lua_absindex(L, table);
  sc_metadata_t *m = sc_metadata_create();
  m->id = (uint64_t)probe_get_int(L, table, "id", 0);
  m->timestamp_ms = probe_get_int(L, table, "time", 0);
  m->job_id = get_str(L, table, "job_id");
  m->job_name = get_str(L, table, "job_name");
  m->attempt = (uint64_t)probe_get_int(L, table, "attempt", 0);
  m->finished = probe_get_bool(L, table, "finished");
  m->savepoint = probe_get_bool(L, table, "savepoint");
  uint32_t n = open_field(L, table, "operators");
  for (uint32_t i = 0; i < n; i++) {
    lua_rawgeti(L, -1, i + 1);
    to_operator(L, -1, m);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  n = open_field(L, table, "edges");
  for (uint32_t i = 0; i < n; i++) {
    lua_rawgeti(L, -1, i + 1);
    to_edge(L, -1, sc_metadata_add_edge(m));
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return m;
}

static void push_subtask(lua_State *L, const sc_metadata_subtask_t *t) {
  lua_newtable(L);
  set_int(L, "end", t->end);
  set_int(L, "watermark", t->state.watermark);
  set_int(L, "forwarded", t->state.forwarded);
  set_bool(L, "idle", t->state.idle);
  set_str(L, "directory", t->directory);
  lua_newtable(L);
  for (uint32_t i = 0; i < t->state.n_handles; i++) {
    probe_push_handle(L, &t->state.handles[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "handles");
}

static void push_operator(lua_State *L, const sc_metadata_operator_t *op) {
  lua_newtable(L);
  set_str(L, "uid", op->uid);
  set_str(L, "name", op->name);
  set_int(L, "parallelism", op->parallelism);
  set_int(L, "max_parallelism", op->max_parallelism);
  if (op->has_enumerator) {
    probe_push_bytes(L, sc_buf_bytes(&op->enumerator));
    lua_setfield(L, -2, "enumerator");
  }
  lua_newtable(L);
  for (uint32_t i = 0; i < op->parallelism; i++) {
    push_subtask(L, &op->subtasks[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "subtasks");
}

static void push_edge(lua_State *L, const sc_metadata_edge_t *e) {
  lua_newtable(L);
  set_str(L, "from", e->from_uid);
  set_str(L, "output", e->output);
  set_str(L, "to", e->to_uid);
  set_str(L, "partitioner", e->partitioner);
  set_int(L, "port", e->port);
  set_int(L, "ordinal", e->ordinal);
  set_int(L, "from_parallelism", e->from_parallelism);
  set_int(L, "to_parallelism", e->to_parallelism);
}

void probe_push_metadata(lua_State *L, const sc_metadata_t *m) {
  lua_newtable(L);
  set_int(L, "id", (int64_t)m->id);
  set_int(L, "time", m->timestamp_ms);
  set_str(L, "job_id", m->job_id);
  set_str(L, "job_name", m->job_name);
  set_int(L, "attempt", (int64_t)m->attempt);
  set_bool(L, "finished", m->finished);
  set_bool(L, "savepoint", m->savepoint);
  lua_newtable(L);
  for (uint32_t i = 0; i < m->n_operators; i++) {
    push_operator(L, &m->operators[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "operators");
  lua_newtable(L);
  for (uint32_t i = 0; i < m->n_edges; i++) {
    push_edge(L, &m->edges[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "edges");
}
