/* probe_operator: one native operator with services of its own, driven from Lua. Values, options
 * and list states cross as msgpack bytes (support/pack.lua reads and writes them). */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../core/base/mem.h"
#include "../../core/operator/file_sink.h"
#include "../../core/operator/json.h"
#include "../../core/runtime/operator.h"
#include "faulty_storage.h"
#include "probe.h"

#define STORAGE "probe.storage"
#define PARTS "probe.parts"
#define HARNESS "probe.operator"

/* ---- storage ---- */

static sc_storage_t *check_storage(lua_State *L, int arg) {
  return *(sc_storage_t **)luaL_checkudata(L, arg, STORAGE);
}

static int storage_new(lua_State *L) {
  sc_storage_t **box = lua_newuserdatauv(L, sizeof *box, 0);
  *box = NULL;
  luaL_setmetatable(L, STORAGE);
  *box = faulty_create();
  return 1;
}

static int storage_gc(lua_State *L) {
  sc_storage_t **box = luaL_checkudata(L, 1, STORAGE);
  sc_storage_destroy(*box);
  *box = NULL;
  return 0;
}

static int code_of(lua_State *L, const char *name) {
  for (int code = -1; code > -SC__ERR_COUNT - 1; code--)
    if (strcmp(sc_error_name(code), name) == 0)
      return code;
  return luaL_error(L, "no code %s", name);
}

static int storage_fail(lua_State *L) {
  faulty_fail(check_storage(L, 1), luaL_checkstring(L, 2), (int)luaL_checkinteger(L, 3),
              code_of(L, luaL_checkstring(L, 4)));
  return 0;
}

static int storage_die(lua_State *L) {
  faulty_die(check_storage(L, 1), (int)luaL_checkinteger(L, 2));
  return 0;
}

static int storage_dead(lua_State *L) {
  lua_pushboolean(L, faulty_dead(check_storage(L, 1)));
  return 1;
}

static int storage_power_cut(lua_State *L) {
  faulty_power_cut(check_storage(L, 1));
  return 0;
}

static int storage_reset(lua_State *L) {
  faulty_reset(check_storage(L, 1));
  return 0;
}

static int storage_log(lua_State *L) {
  probe_push_bytes(L, faulty_log(check_storage(L, 1)));
  return 1;
}

static const luaL_Reg storage_methods[] = {
    {"fail", storage_fail},           {"die", storage_die},     {"dead", storage_dead},
    {"power_cut", storage_power_cut}, {"reset", storage_reset}, {"log", storage_log},
    {NULL, NULL},
};

/* ---- parts ---- */

static sc_snapshot_parts_t **check_parts(lua_State *L, int arg) {
  return luaL_checkudata(L, arg, PARTS);
}

static sc_snapshot_parts_t *push_parts(lua_State *L) {
  sc_snapshot_parts_t **box = lua_newuserdatauv(L, sizeof *box, 0);
  *box = NULL;
  luaL_setmetatable(L, PARTS);
  return *box = sc_parts_create();
}

static int parts_new(lua_State *L) {
  push_parts(L);
  return 1;
}

static int parts_drop(lua_State *L) {
  sc_snapshot_parts_t **box = check_parts(L, 1);
  sc_parts_destroy(*box);
  *box = NULL;
  return 0;
}

static int parts_list(lua_State *L) {
  sc_parts_list(*check_parts(L, 1), luaL_checkstring(L, 2), (int)luaL_checkinteger(L, 3),
                probe_bytes(L, 4));
  return 0;
}

static int parts_declare(lua_State *L) {
  sc_parts_declare(*check_parts(L, 1), luaL_checkstring(L, 2), (int)luaL_checkinteger(L, 3));
  return 0;
}

/* A work that writes its name into a log shared by all, and fails where told so. */
typedef struct noted_work {
  char name[16];
  bool fails;
} noted_work_t;

static sc_buf_t works_log;

static int run_noted(void *arg, sc_error_t *err) {
  noted_work_t *work = arg;
  sc_buf_printf(&works_log, "run %s;", work->name);
  return work->fails ? sc_fail(err, SC_EIO, "%s failed", work->name) : 0;
}

static void drop_noted(void *arg) {
  sc_buf_printf(&works_log, "drop %s;", ((noted_work_t *)arg)->name);
  free(arg);
}

static int parts_async(lua_State *L) {
  noted_work_t *work = sc_calloc(1, sizeof *work);
  snprintf(work->name, sizeof work->name, "%s", luaL_checkstring(L, 2));
  work->fails = lua_toboolean(L, 3);
  sc_parts_async(*check_parts(L, 1), run_noted, drop_noted, work);
  return 0;
}

static int parts_works_log(lua_State *L) {
  probe_push_bytes(L, sc_buf_bytes(&works_log));
  sc_buf_free(&works_log);
  works_log = (sc_buf_t)SC_BUF_INIT;
  return 1;
}

static int parts_run(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  int rc = sc_parts_run(*check_parts(L, 1), &err);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  lua_pushboolean(L, 1);
  return 1;
}

static int parts_encode(lua_State *L) {
  sc_buf_t out = SC_BUF_INIT;
  if (sc_parts_encode(*check_parts(L, 1), &out))
    probe_push_bytes(L, sc_buf_bytes(&out));
  else
    lua_pushnil(L);
  sc_buf_free(&out);
  return 1;
}

static const luaL_Reg parts_methods[] = {
    {"list", parts_list}, {"declare", parts_declare}, {"async", parts_async}, {"run", parts_run},
    {"encode", parts_encode}, {"drop", parts_drop},   {NULL, NULL},
};

/* ---- an operator ---- */

typedef struct submitted {
  int (*run)(void *arg, sc_error_t *err);
  void (*done)(void *arg, int rc, sc_error_t *err);
  void (*dropped)(void *arg);
  void *arg;
  struct submitted *next;
} submitted_t;

typedef struct delivered {
  uint64_t id;
  sc_bytes_t rows;
  struct delivered *next;
} delivered_t;

typedef struct harness {
  sc_operator_t *op;
  sc_world_t world;
  sc_op_context_t context;
  char *job, *uid, *label;
  sc_buf_t options;       /* borrowed by the operator for its life */
  submitted_t *works, **works_end;
  delivered_t *rows, **rows_end;
  uint32_t asks, wakes;
  sc_error_t failed;
} harness_t;

static harness_t *of(const sc_op_context_t *c) {
  return c->runtime;
}

static bool no_chained(const sc_op_context_t *c, uint16_t output) {
  return true;
}

static int no_write(sc_op_context_t *c, const sc_item_t *item, sc_error_t *err) {
  return sc_fail(err, SC_EINTERNAL, "no exchange");
}

static void note_ask(sc_op_context_t *c) {
  of(c)->asks++;
}

static void note_submit(sc_op_context_t *c, int (*run)(void *arg, sc_error_t *err),
                        void (*done)(void *arg, int rc, sc_error_t *err),
                        void (*dropped)(void *arg), void *arg) {
  submitted_t *work = sc_malloc(sizeof *work);
  *work = (submitted_t){run, done, dropped, arg, NULL};
  *of(c)->works_end = work;
  of(c)->works_end = &work->next;
}

static void note_fail(sc_op_context_t *c, sc_error_t *err) {
  sc_error_move(&of(c)->failed, err);
}

static void note_wake(sc_op_context_t *c) {
  of(c)->wakes++;
}

static void note_deliver(sc_op_context_t *c, uint64_t id, sc_bytes_t rows) {
  delivered_t *d = sc_malloc(sizeof *d);
  *d = (delivered_t){id, sc_bytes_copy(rows), NULL};
  *of(c)->rows_end = d;
  of(c)->rows_end = &d->next;
}

static void no_count(sc_op_context_t *c, const char *metric, int64_t by) {
}

static const sc_op_services_t services = {no_chained, no_write,  note_ask,     note_submit,
                                          note_fail,  note_wake, note_deliver, no_count};

static harness_t *check_harness(lua_State *L) {
  harness_t *h = luaL_checkudata(L, 1, HARNESS);
  luaL_argcheck(L, h->op, 1, "the operator is destroyed");
  return h;
}

static lua_Integer field_int(lua_State *L, const char *name, lua_Integer otherwise) {
  lua_getfield(L, 1, name);
  lua_Integer v = luaL_optinteger(L, -1, otherwise);
  lua_pop(L, 1);
  return v;
}

static char *field_str(lua_State *L, const char *name, const char *otherwise) {
  lua_getfield(L, 1, name);
  char *v = sc_strdup(luaL_optstring(L, -1, otherwise));
  lua_pop(L, 1);
  return v;
}

static bool field_bool(lua_State *L, const char *name) {
  lua_getfield(L, 1, name);
  bool v = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return v;
}

/* Destroy the operator as after the death of its attempt: works that did not run are dropped. */
static void harness_end(harness_t *h) {
  if (h->op)
    h->op->ops->destroy(h->op);
  h->op = NULL;
  while (h->works) {
    submitted_t *work = h->works;
    h->works = work->next;
    work->dropped(work->arg);
    free(work);
  }
  while (h->rows) {
    delivered_t *d = h->rows;
    h->rows = d->next;
    free((void *)d->rows.data);
    free(d);
  }
  free(h->job);
  free(h->uid);
  free(h->label);
  h->job = h->uid = h->label = NULL;
  sc_buf_free(&h->options);
  h->options = (sc_buf_t)SC_BUF_INIT;
  sc_error_clear(&h->failed);
}

static int operator_gc(lua_State *L) {
  harness_end(luaL_checkudata(L, 1, HARNESS));
  return 0;
}

static const sc_operator_type_t *check_type(lua_State *L, const char *kind) {
  const sc_operator_type_t *type = sc_operator_type_find(kind);
  if (!type)
    luaL_error(L, "no type %s", kind);
  return type;
}

/* operator_new{kind=, options=, storage=, job=, uid=, subtask=, parallelism=, attempt=,
 * restored_id=, checkpointing=}: not opened yet. */
static int operator_new(lua_State *L) {
  lua_getfield(L, 1, "storage");
  sc_storage_t *storage = check_storage(L, -1);
  lua_getfield(L, 1, "kind");
  const sc_operator_type_t *type = check_type(L, luaL_checkstring(L, -1));
  lua_getfield(L, 1, "options");
  sc_bytes_t options = probe_bytes(L, lua_gettop(L));
  harness_t *h = lua_newuserdatauv(L, sizeof *h, 1);
  memset(h, 0, sizeof *h);
  h->works_end = &h->works;
  h->rows_end = &h->rows;
  luaL_setmetatable(L, HARNESS);
  lua_getfield(L, 1, "storage");
  lua_setiuservalue(L, -2, 1); /* lives as long as the operator */
  sc_buf_put_bytes(&h->options, options);
  h->world.storage = storage;
  h->job = field_str(L, "job", "job");
  h->uid = field_str(L, "uid", "out");
  uint32_t subtask = (uint32_t)field_int(L, "subtask", 0);
  uint32_t parallelism = (uint32_t)field_int(L, "parallelism", 1);
  h->label = sc_format("%s (%s) %u/%u", type->kind, h->uid, subtask + 1, parallelism);
  h->context = (sc_op_context_t){
      .job_id = h->job,
      .uid = h->uid,
      .name = type->kind,
      .label = h->label,
      .subtask = subtask,
      .parallelism = parallelism,
      .max_parallelism = 128,
      .attempt = (uint64_t)field_int(L, "attempt", 1),
      .restored_id = (uint64_t)field_int(L, "restored_id", 0),
      .checkpointing = field_bool(L, "checkpointing"),
      .world = &h->world,
      .watermark = SC_WATERMARK_MIN,
      .wake_at_ms = 0,
      .n_outputs = 1,
      .services = &services,
      .runtime = h,
  };
  h->context.restored = h->context.restored_id > 0;
  sc_error_t err = SC_ERROR_INIT;
  int rc = type->create(NULL, sc_buf_bytes(&h->options), &h->context, &h->op, &err);
  return rc < 0 ? probe_fail(L, rc, &err) : 1;
}

static int result(lua_State *L, int rc, sc_error_t *err) {
  if (rc < 0)
    return probe_fail(L, rc, err);
  sc_error_clear(err);
  lua_pushinteger(L, rc);
  return 1;
}

static int operator_restore(lua_State *L) {
  harness_t *h = check_harness(L);
  sc_error_t err = SC_ERROR_INIT;
  return result(L, h->op->ops->restore(h->op, probe_bytes(L, 2), &err), &err);
}

static int operator_open(lua_State *L) {
  harness_t *h = check_harness(L);
  sc_error_t err = SC_ERROR_INIT;
  return result(L, h->op->ops->open ? h->op->ops->open(h->op, &err) : 0, &err);
}

static int operator_add_split(lua_State *L) {
  harness_t *h = check_harness(L);
  sc_error_t err = SC_ERROR_INIT;
  return result(L, h->op->ops->add_split(h->op, probe_bytes(L, 2), &err), &err);
}

static int operator_no_more(lua_State *L) {
  harness_t *h = check_harness(L);
  h->op->ops->no_more_splits(h->op);
  return 0;
}

/* A table {bytes=, timestamp=, watermark=} of an item. */
static int push_item(lua_State *L, const sc_item_t *item) {
  sc_error_t err = SC_ERROR_INIT;
  sc_buf_t value = SC_BUF_INIT;
  lua_newtable(L);
  if (item->is_watermark) {
    lua_pushinteger(L, item->timestamp);
    lua_setfield(L, -2, "watermark");
    return 1;
  }
  int rc = 0;
  if (item->opaque_ops)
    rc = item->opaque_ops->encode(item->opaque, &value, &err);
  else
    sc_buf_put_bytes(&value, item->bytes);
  probe_push_bytes(L, sc_buf_bytes(&value));
  sc_buf_free(&value);
  if (rc < 0)
    return probe_raise(L, &err);
  lua_setfield(L, -2, "bytes");
  if (item->has_timestamp) {
    lua_pushinteger(L, item->timestamp);
    lua_setfield(L, -2, "timestamp");
  }
  return 1;
}

/* "emit", item | "done" | "idle" | "ended" | nil, error */
static int operator_poll(lua_State *L) {
  static const char *const names[] = {"done", "emit", "blocked", "idle", "ended"};
  harness_t *h = check_harness(L);
  sc_error_t err = SC_ERROR_INIT;
  sc_item_t item = {0};
  int rc = h->op->ops->poll(h->op, &item, &err);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  lua_pushstring(L, names[rc]);
  return rc == SC_EMIT ? 1 + push_item(L, &item) : 1;
}

/* Step until done: an array of what was emitted, or nil, error. */
static int run_steps(lua_State *L, harness_t *h) {
  sc_error_t err = SC_ERROR_INIT;
  lua_newtable(L);
  for (;;) {
    sc_item_t out = {0};
    int rc = h->op->ops->step(h->op, &out, &err);
    if (rc < 0)
      return probe_fail(L, rc, &err);
    if (rc == SC_DONE)
      return 1;
    push_item(L, &out);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    if (rc == SC_LAST)
      return 1;
  }
}

/* An opaque value whose pointer is an sc_bytes_t of msgpack: what core sees of a Lua table. */
static int opaque_encode(void *opaque, sc_buf_t *out, sc_error_t *err) {
  sc_bytes_t value = *(sc_bytes_t *)opaque;
  if (value.len == 0)
    return sc_fail(err, SC_EVALUE, "value cannot be stored: a function");
  sc_buf_put_bytes(out, value);
  return 0;
}

static int opaque_field(void *opaque, sc_bytes_t name, sc_buf_t *out, sc_error_t *err) {
  sc_bytes_t field;
  if (!sc_value_field(*(sc_bytes_t *)opaque, name, &field))
    return 0;
  sc_buf_put_bytes(out, field);
  return 1;
}

static const sc_opaque_ops_t opaque_ops = {opaque_encode, opaque_field};

/* op:push(bytes [, timestamp [, opaque]]) */
static int operator_push(lua_State *L) {
  harness_t *h = check_harness(L);
  sc_bytes_t value = probe_bytes(L, 2);
  sc_item_t item = {.bytes = value,
                    .has_timestamp = !lua_isnoneornil(L, 3),
                    .timestamp = luaL_optinteger(L, 3, 0)};
  if (lua_toboolean(L, 4)) {
    item.bytes = (sc_bytes_t){0};
    item.opaque = &value;
    item.opaque_ops = &opaque_ops;
  }
  sc_error_t err = SC_ERROR_INIT;
  int rc = h->op->ops->begin(h->op, 0, &item, &err);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  if (rc != SC_TAKEN)
    return run_steps(L, h);
  lua_newtable(L);
  return 1;
}

static int operator_idle(lua_State *L) {
  harness_t *h = check_harness(L);
  sc_error_t err = SC_ERROR_INIT;
  int rc = h->op->ops->begin_idle ? h->op->ops->begin_idle(h->op, &err) : 0;
  if (rc < 0)
    return probe_fail(L, rc, &err);
  if (rc > 0)
    return run_steps(L, h);
  lua_newtable(L);
  return 1;
}

static int operator_finish(lua_State *L) {
  harness_t *h = check_harness(L);
  sc_error_t err = SC_ERROR_INIT;
  int rc = h->op->ops->begin_finish ? h->op->ops->begin_finish(h->op, &err) : 0;
  return rc < 0 ? probe_fail(L, rc, &err) : run_steps(L, h);
}

static int operator_snapshot(lua_State *L) {
  harness_t *h = check_harness(L);
  sc_error_t err = SC_ERROR_INIT;
  sc_snapshot_parts_t *parts = push_parts(L);
  int rc = h->op->ops->snapshot(h->op, (uint64_t)luaL_checkinteger(L, 2), parts, &err);
  return rc < 0 ? probe_fail(L, rc, &err) : 1;
}

static int operator_complete(lua_State *L) {
  harness_t *h = check_harness(L);
  sc_error_t err = SC_ERROR_INIT;
  return result(L, h->op->ops->complete(h->op, (uint64_t)luaL_checkinteger(L, 2), &err), &err);
}

static int operator_aborted(lua_State *L) {
  harness_t *h = check_harness(L);
  if (h->op->ops->aborted)
    h->op->ops->aborted(h->op, (uint64_t)luaL_checkinteger(L, 2));
  return 0;
}

static int operator_busy(lua_State *L) {
  harness_t *h = check_harness(L);
  lua_pushboolean(L, h->op->ops->busy && h->op->ops->busy(h->op));
  return 1;
}

/* Run the oldest submitted work and its `done` (with "run" only the former: the attempt dies
 * between the two). False if there is none. */
static int operator_work(lua_State *L) {
  harness_t *h = check_harness(L);
  bool only_run = strcmp(luaL_optstring(L, 2, ""), "run") == 0;
  submitted_t *work = h->works;
  lua_pushboolean(L, work != NULL);
  if (!work)
    return 1;
  h->works = work->next;
  if (!h->works)
    h->works_end = &h->works;
  sc_error_t err = SC_ERROR_INIT;
  int rc = work->run(work->arg, &err);
  if (only_run)
    work->dropped(work->arg);
  else
    work->done(work->arg, rc, &err);
  sc_error_clear(&err);
  free(work);
  return 1;
}

/* The sentence with which the operator failed its task, or nil. */
static int operator_failed(lua_State *L) {
  harness_t *h = check_harness(L);
  if (!h->failed.code)
    return 0;
  char *text = sc_error_format(&h->failed);
  lua_pushstring(L, text);
  free(text);
  return 1;
}

/* Rows delivered so far: {{id, bytes}, ...}. */
static int operator_rows(lua_State *L) {
  harness_t *h = check_harness(L);
  lua_newtable(L);
  lua_Integer n = 0;
  for (delivered_t *d = h->rows; d; d = d->next) {
    lua_createtable(L, 2, 0);
    lua_pushinteger(L, (lua_Integer)d->id);
    lua_rawseti(L, -2, 1);
    probe_push_bytes(L, d->rows);
    lua_rawseti(L, -2, 2);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

static int operator_asks(lua_State *L) {
  lua_pushinteger(L, check_harness(L)->asks);
  return 1;
}

static int operator_wake_at(lua_State *L) {
  lua_pushinteger(L, check_harness(L)->context.wake_at_ms);
  return 1;
}

static const luaL_Reg operator_methods[] = {
    {"restore", operator_restore},   {"open", operator_open},
    {"add_split", operator_add_split}, {"no_more", operator_no_more},
    {"poll", operator_poll},         {"push", operator_push},
    {"idle", operator_idle},         {"finish", operator_finish},
    {"snapshot", operator_snapshot}, {"complete", operator_complete},
    {"aborted", operator_aborted},   {"busy", operator_busy},
    {"work", operator_work},         {"failed", operator_failed},
    {"rows", operator_rows},         {"asks", operator_asks},
    {"wake_at", operator_wake_at},   {"destroy", operator_gc},
    {NULL, NULL},
};

/* ---- types, and the rest ---- */

static int operator_type(lua_State *L) {
  const sc_operator_type_t *type = sc_operator_type_find(luaL_checkstring(L, 1));
  if (!type)
    return 0;
  lua_newtable(L);
  lua_pushstring(L, type->kind);
  lua_setfield(L, -2, "kind");
  lua_pushboolean(L, type->is_source);
  lua_setfield(L, -2, "is_source");
  lua_pushboolean(L, type->replayable);
  lua_setfield(L, -2, "replayable");
  lua_pushboolean(L, type->exactly_once);
  lua_setfield(L, -2, "exactly_once");
  lua_pushboolean(L, type->in_pool);
  lua_setfield(L, -2, "in_pool");
  return 1;
}

static int operator_splits(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_buf_t out = SC_BUF_INIT;
  const sc_operator_type_t *type = check_type(L, luaL_checkstring(L, 1));
  int rc = type->list_splits(NULL, probe_bytes(L, 2), 1, NULL, &out, &err);
  if (rc == 0)
    probe_push_bytes(L, sc_buf_bytes(&out));
  sc_buf_free(&out);
  return rc < 0 ? probe_fail(L, rc, &err) : 1;
}

/* operator_prepare(storage, kind, options, job, uid [, lists of each old subtask [, fresh]]):
 * without lists it is a fresh start */
static int operator_prepare(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  const sc_operator_type_t *type = check_type(L, luaL_checkstring(L, 2));
  bool none = lua_isnoneornil(L, 6);
  sc_past_t past = {.fresh = none || lua_toboolean(L, 7)};
  past.n_lists = none ? 0 : (uint32_t)lua_rawlen(L, 6);
  sc_bytes_t *lists = lua_newuserdatauv(L, (past.n_lists + 1) * sizeof *lists, 0);
  past.lists = lists;
  for (uint32_t i = 0; i < past.n_lists; i++) {
    lua_rawgeti(L, 6, (lua_Integer)i + 1); /* the table keeps the string */
    lists[i] = probe_bytes(L, -1);
    lua_pop(L, 1);
  }
  int rc = type->prepare(NULL, probe_bytes(L, 3), luaL_checkstring(L, 4), luaL_checkstring(L, 5),
                         &past, check_storage(L, 1), &err);
  return result(L, rc, &err);
}

/* operator_highest(storage, dir, job, uid) */
static int operator_highest(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  int64_t id = sc_file_sink_highest_committed(check_storage(L, 1), luaL_checkstring(L, 2),
                                              luaL_checkstring(L, 3), luaL_checkstring(L, 4), &err);
  if (id < 0)
    return probe_fail(L, (int)id, &err);
  lua_pushinteger(L, id);
  return 1;
}

static int json_text(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_buf_t out = SC_BUF_INIT;
  int rc = sc_json_append(&out, probe_bytes(L, 1), &err);
  if (rc == 0)
    probe_push_bytes(L, sc_buf_bytes(&out));
  sc_buf_free(&out);
  return rc < 0 ? probe_fail(L, rc, &err) : 1;
}

/* Call a function with standard output going to a file. */
static int operator_stdout_to(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  fflush(stdout);
  int kept = dup(STDOUT_FILENO);
  FILE *file = fopen(path, "w");
  if (kept < 0 || !file)
    return luaL_error(L, "cannot redirect standard output to %s", path);
  dup2(fileno(file), STDOUT_FILENO);
  lua_settop(L, 2);
  int rc = lua_pcall(L, 0, LUA_MULTRET, 0);
  fflush(stdout);
  clearerr(stdout);
  dup2(kept, STDOUT_FILENO);
  close(kept);
  fclose(file);
  return rc == LUA_OK ? lua_gettop(L) - 1 : lua_error(L);
}

static const luaL_Reg functions[] = {
    {"operator_storage", storage_new},
    {"operator_new", operator_new},
    {"operator_type", operator_type},
    {"operator_splits", operator_splits},
    {"operator_prepare", operator_prepare},
    {"operator_highest", operator_highest},
    {"operator_stdout_to", operator_stdout_to},
    {"json_text", json_text},
    {"parts_new", parts_new},
    {"parts_works_log", parts_works_log},
    {NULL, NULL},
};

static void make_class(lua_State *L, const char *name, const luaL_Reg *methods, lua_CFunction gc) {
  luaL_newmetatable(L, name);
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
}

void probe_operator(lua_State *L) {
  make_class(L, STORAGE, storage_methods, storage_gc);
  make_class(L, PARTS, parts_methods, parts_drop);
  make_class(L, HARNESS, operator_methods, operator_gc);
  luaL_setfuncs(L, functions, 0);
}
