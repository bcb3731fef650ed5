/* A rig for the Lua operators: one host from Lua source, a chain of operators (spec i of the root
 * table is operator i), a small driver, and services that note what they are asked. What happens is
 * noted in C and told at the end of each call: nothing of the test's own Lua state is touched while
 * the host's runs. */
#include "probe.h"

#include <stdlib.h>

#include "../../core/base/mem.h"
#include "../../core/snapshot/handle.h"
#include "../../lua/binding/codec.h"
#include "../../lua/binding/lua_operator.h"

#define RIG "streamckpt.rig"
#define OPS_MAX 4
#define MAX_PARALLELISM 128

typedef struct event {
  const char *how; /* "emit", "write", "blocked", "ask", "count" */
  uint32_t op;     /* from 1 */
  sc_item_t item;  /* without what it borrows */
  sc_buf_t value, key, field;
  char *error;     /* the value could not be encoded */
} event_t;

typedef struct rig rig_t;

typedef struct rig_op {
  rig_t *rig;
  sc_operator_t *op;
  const sc_operator_type_t *type;
  sc_op_context_t context;
  lsc_factory_t factory;
  sc_buf_t options;
  sc_buf_t key;      /* what context.key points at */
  char *field;       /* ask opaque values for this field */
  bool chained[8];   /* of each output */
} rig_op_t;

struct rig {
  lsc_host_t *host;
  sc_world_t world;
  sc_log_t *log;
  int64_t now_ms;
  rig_op_t ops[OPS_MAX];
  uint32_t n;
  bool full;         /* writes say so */
  bool failing;      /* writes fail */
  event_t *events;
  uint32_t n_events;
};

/* ---- services and world ---- */

static rig_t *rig_of_world(sc_world_t *w) {
  return (rig_t *)((char *)w - offsetof(rig_t, world));
}

static int64_t world_now(sc_world_t *w) {
  return rig_of_world(w)->now_ms;
}

static int64_t log_now(void *arg) {
  return ((rig_t *)arg)->now_ms;
}

static const sc_world_ops_t world_ops = {.now_ms = world_now};

static event_t *note(rig_t *rig, const char *how, uint32_t op) {
  rig->events = sc_realloc(rig->events, (rig->n_events + 1) * sizeof *rig->events);
  event_t *e = &rig->events[rig->n_events++];
  *e = (event_t){.how = how, .op = op + 1};
  return e;
}

static void note_item(rig_op_t *o, const char *how, const sc_item_t *item) {
  event_t *e = note(o->rig, how, (uint32_t)(o - o->rig->ops));
  sc_error_t err = SC_ERROR_INIT;
  e->item = *item;
  sc_buf_put_bytes(&e->key, item->key);
  if (!item->opaque_ops)
    sc_buf_put_bytes(&e->value, item->bytes);
  else if (item->opaque_ops->encode(item->opaque, &e->value, &err) < 0)
    e->error = sc_strdup(err.message);
  if (item->opaque_ops && o->field &&
      item->opaque_ops->field(item->opaque, sc_bytes_str(o->field), &e->field, &err) < 0)
    e->error = sc_strdup(err.message);
  sc_error_clear(&err);
}

static rig_op_t *op_of(const sc_op_context_t *c) {
  return c->runtime;
}

static bool chained(const sc_op_context_t *c, uint16_t output) {
  return op_of(c)->chained[output];
}

static int write_item(sc_op_context_t *c, const sc_item_t *item, sc_error_t *err) {
  rig_op_t *o = op_of(c);
  if (o->rig->failing)
    return sc_fail(err, SC_EIO, "the exchange is broken");
  note_item(o, "write", item);
  return o->rig->full;
}

static void ask_split(sc_op_context_t *c) {
  note(op_of(c)->rig, "ask", (uint32_t)(op_of(c) - op_of(c)->rig->ops));
}

static void count(sc_op_context_t *c, const char *metric, int64_t by) {
  event_t *e = note(op_of(c)->rig, "count", (uint32_t)(op_of(c) - op_of(c)->rig->ops));
  sc_pack_cstr(&e->value, metric);
}

static const sc_op_services_t services = {
    .chained = chained, .write = write_item, .ask_split = ask_split, .count = count};

/* ---- telling ---- */

static void push_value(lua_State *L, const sc_buf_t *bytes) {
  sc_error_t err = SC_ERROR_INIT;
  if (!bytes->len)
    lua_pushnil(L);
  else if (lsc_decode(L, sc_buf_bytes(bytes), &err) < 0)
    probe_raise(L, &err);
}

static void push_event(lua_State *L, const event_t *e) {
  lua_createtable(L, 0, 8);
  lua_pushstring(L, e->how);
  lua_setfield(L, -2, "how");
  lua_pushinteger(L, e->op);
  lua_setfield(L, -2, "op");
  lua_pushinteger(L, e->item.output);
  lua_setfield(L, -2, "output");
  push_value(L, &e->value);
  lua_setfield(L, -2, "value");
  push_value(L, &e->field);
  lua_setfield(L, -2, "field");
  push_value(L, &e->key);
  lua_setfield(L, -2, "key");
  lua_pushstring(L, e->error);
  lua_setfield(L, -2, "error");
  if (e->item.has_timestamp) {
    lua_pushinteger(L, e->item.timestamp);
    lua_setfield(L, -2, "ts");
  }
}

static void forget_events(rig_t *rig) {
  for (uint32_t i = 0; i < rig->n_events; i++) {
    sc_buf_free(&rig->events[i].value);
    sc_buf_free(&rig->events[i].key);
    sc_buf_free(&rig->events[i].field);
    free(rig->events[i].error);
  }
  free(rig->events);
  rig->events = NULL;
  rig->n_events = 0;
}

static void push_events(lua_State *L, rig_t *rig) {
  lua_createtable(L, (int)rig->n_events, 0);
  for (uint32_t i = 0; i < rig->n_events; i++) {
    push_event(L, &rig->events[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  forget_events(rig);
}

/* Events, or nil, message, code, events. */
static int tell(lua_State *L, rig_t *rig, int rc, sc_error_t *err) {
  if (rc < 0)
    probe_fail(L, rc, err);
  push_events(L, rig);
  return rc < 0 ? 4 : 1;
}

/* ---- the driver ---- */

static void set_key(rig_op_t *o, bool has, sc_bytes_t key) {
  sc_buf_clear(&o->key);
  sc_buf_put_bytes(&o->key, key);
  o->context.has_key = has;
  o->context.key = sc_buf_bytes(&o->key);
  o->context.key_group = has ? sc_key_group(o->context.key, MAX_PARALLELISM) : 0;
}

static int drive(rig_t *rig, uint32_t i, sc_error_t *err);

static int begin(rig_t *rig, uint32_t i, const sc_item_t *item, sc_error_t *err) {
  rig_op_t *o = &rig->ops[i];
  if (o->context.keyed)
    set_key(o, item->has_key, item->key);
  int rc = o->op->ops->begin(o->op, 0, item, err);
  return rc < 0 ? rc : drive(rig, i, err);
}

static int hand_on(rig_t *rig, uint32_t i, const sc_item_t *item, sc_error_t *err) {
  note_item(&rig->ops[i], "emit", item);
  if (item->output != 0 || i + 1 == rig->n)
    return 0;
  return begin(rig, i + 1, item, err);
}

static int drive(rig_t *rig, uint32_t i, sc_error_t *err) {
  sc_operator_t *op = rig->ops[i].op;
  for (;;) {
    sc_item_t out = {0};
    int rc = op->ops->step(op, &out, err);
    if (rc == SC_EMIT)
      rc = hand_on(rig, i, &out, err);
    else if (rc == SC_BLOCKED)
      note(rig, "blocked", i);
    else if (rc == SC_DONE)
      return 0;
    if (rc < 0)
      return rc;
  }
}

/* ---- methods ---- */

static rig_t *check(lua_State *L) {
  rig_t *rig = *(rig_t **)luaL_checkudata(L, 1, RIG);
  return rig ? rig : (luaL_error(L, "closed"), NULL);
}

static void encode_arg(lua_State *L, int arg, sc_buf_t *out) {
  sc_error_t err = SC_ERROR_INIT;
  if (lsc_encode(L, arg, out, &err) < 0)
    probe_raise(L, &err);
}

/* rig:open() -> true, or nil, message, code */
static int rig_open(lua_State *L) {
  rig_t *rig = check(L);
  sc_error_t err = SC_ERROR_INIT;
  for (uint32_t i = 0; i < rig->n; i++) {
    sc_operator_t *op = rig->ops[i].op;
    int rc = op->ops->open(op, &err);
    if (rc < 0)
      return probe_fail(L, rc, &err);
  }
  lua_pushboolean(L, 1);
  return 1;
}

/* rig:push(value [, ts [, key]]) -> events */
static int rig_push(lua_State *L) {
  rig_t *rig = check(L);
  sc_error_t err = SC_ERROR_INIT;
  sc_buf_t value = SC_BUF_INIT, key = SC_BUF_INIT;
  lua_settop(L, 4);
  encode_arg(L, 2, &value);
  sc_item_t item = {.bytes = sc_buf_bytes(&value), .has_timestamp = !lua_isnil(L, 3)};
  item.timestamp = item.has_timestamp ? lua_tointeger(L, 3) : 0;
  item.has_key = !lua_isnil(L, 4);
  if (item.has_key && lsc_encode_key(L, 4, &key, &err) < 0)
    probe_raise(L, &err);
  item.key = sc_buf_bytes(&key);
  int rc = begin(rig, 0, &item, &err);
  sc_buf_free(&value);
  sc_buf_free(&key);
  return tell(L, rig, rc, &err);
}

static int fire(rig_t *rig, sc_time_domain_t domain, int64_t upto, sc_error_t *err) {
  int rc = 0;
  for (uint32_t i = 0; i < rig->n && rc >= 0; i++) {
    rig_op_t *o = &rig->ops[i];
    sc_timer_t timer;
    if (!o->context.timers)
      continue;
    sc_timers_begin_advance(o->context.timers, domain);
    while ((rc = sc_timers_pop(o->context.timers, domain, upto, &timer, err)) == 1) {
      set_key(o, true, timer.key);
      timer.key = o->context.key;
      rc = o->op->ops->begin_timer(o->op, &timer, err);
      if (rc == 0)
        rc = drive(rig, i, err);
      if (rc < 0)
        break;
    }
  }
  return rc;
}

/* rig:watermark(t), rig:time(t) -> events */
static int rig_watermark(lua_State *L) {
  rig_t *rig = check(L);
  sc_error_t err = SC_ERROR_INIT;
  int64_t t = luaL_checkinteger(L, 2);
  for (uint32_t i = 0; i < rig->n; i++)
    rig->ops[i].context.watermark = t;
  return tell(L, rig, fire(rig, SC_EVENT_TIME, t, &err), &err);
}

static int rig_time(lua_State *L) {
  rig_t *rig = check(L);
  sc_error_t err = SC_ERROR_INIT;
  rig->now_ms = luaL_checkinteger(L, 2);
  return tell(L, rig, fire(rig, SC_PROCESSING_TIME, rig->now_ms, &err), &err);
}

/* rig:timers() -> event, processing timers of the last operator */
static int rig_timers(lua_State *L) {
  rig_t *rig = check(L);
  sc_timers_t *t = rig->ops[rig->n - 1].context.timers;
  lua_pushinteger(L, (lua_Integer)sc_timers_count(t, SC_EVENT_TIME));
  lua_pushinteger(L, (lua_Integer)sc_timers_count(t, SC_PROCESSING_TIME));
  return 2;
}

/* rig:entries() -> entries in the window of the last operator */
static int rig_entries(lua_State *L) {
  rig_t *rig = check(L);
  uint64_t entries, bytes;
  sc_keyed_t *k = rig->ops[rig->n - 1].context.keyed;
  k->ops->usage(k, &entries, &bytes);
  lua_pushinteger(L, (lua_Integer)entries);
  return 1;
}

/* rig:full(bool), rig:failing(bool) */
static int rig_full(lua_State *L) {
  check(L)->full = lua_toboolean(L, 2);
  return 0;
}

static int rig_failing(lua_State *L) {
  check(L)->failing = lua_toboolean(L, 2);
  return 0;
}

/* ---- sources: the first operator ---- */

static const char *const poll_names[] = {"done", "emit", "blocked", "idle", "ended"};

/* rig:poll() -> state, events, mid_record, wake_at; or nil, message, code, events */
static int rig_poll(lua_State *L) {
  rig_t *rig = check(L);
  sc_error_t err = SC_ERROR_INIT;
  sc_operator_t *op = rig->ops[0].op;
  sc_item_t out = {0};
  int rc = op->ops->poll(op, &out, &err);
  int handed = rc == SC_EMIT ? hand_on(rig, 0, &out, &err) : 0;
  if (rc < 0 || handed < 0)
    return tell(L, rig, rc < 0 ? rc : handed, &err);
  lua_pushstring(L, poll_names[rc]);
  push_events(L, rig);
  lua_pushboolean(L, op->ops->mid_record(op));
  lua_pushinteger(L, rig->ops[0].context.wake_at_ms);
  return 4;
}

/* rig:splits(parallelism) -> array, or nil, message, code */
static int rig_splits(lua_State *L) {
  rig_t *rig = check(L);
  rig_op_t *o = &rig->ops[0];
  sc_error_t err = SC_ERROR_INIT;
  sc_buf_t out = SC_BUF_INIT;
  int rc = o->type->list_splits(&o->factory, sc_buf_bytes(&o->options),
                                (uint32_t)luaL_checkinteger(L, 2), rig->host, &out, &err);
  if (rc < 0) {
    lua_pushinteger(L, (lua_Integer)out.len);
    sc_buf_free(&out);
    return probe_fail(L, rc, &err);
  }
  push_value(L, &out);
  sc_buf_free(&out);
  return 1;
}

static int rig_add_split(lua_State *L) {
  rig_t *rig = check(L);
  sc_error_t err = SC_ERROR_INIT;
  sc_buf_t value = SC_BUF_INIT;
  encode_arg(L, 2, &value);
  int rc = rig->ops[0].op->ops->add_split(rig->ops[0].op, sc_buf_bytes(&value), &err);
  sc_buf_free(&value);
  return tell(L, rig, rc, &err);
}

static int rig_no_more(lua_State *L) {
  rig_t *rig = check(L);
  rig->ops[0].op->ops->no_more_splits(rig->ops[0].op);
  return 0;
}

/* rig:snapshot() -> list state as bytes */
static int rig_snapshot(lua_State *L) {
  rig_t *rig = check(L);
  sc_error_t err = SC_ERROR_INIT;
  sc_buf_t out = SC_BUF_INIT;
  sc_snapshot_parts_t *parts = sc_parts_create();
  int rc = rig->ops[0].op->ops->snapshot(rig->ops[0].op, 1, parts, &err);
  bool some = sc_parts_encode(parts, &out);
  sc_parts_destroy(parts);
  if (rc < 0 || !some)
    return probe_fail(L, rc < 0 ? rc : SC_EINTERNAL, &err);
  probe_push_bytes(L, sc_buf_bytes(&out));
  sc_buf_free(&out);
  return 1;
}

/* rig:restore(bytes) -> true, or nil, message, code */
static int rig_restore(lua_State *L) {
  rig_t *rig = check(L);
  sc_error_t err = SC_ERROR_INIT;
  int rc = rig->ops[0].op->ops->restore(rig->ops[0].op, probe_bytes(L, 2), &err);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  lua_pushboolean(L, 1);
  return 1;
}

/* ---- making and closing ---- */

static void rig_free(rig_t *rig) {
  for (uint32_t i = 0; i < OPS_MAX; i++) {
    rig_op_t *o = &rig->ops[i];
    if (o->op)
      o->op->ops->destroy(o->op);
    sc_timers_destroy(o->context.timers);
    sc_keyed_destroy(o->context.keyed);
    sc_buf_free(&o->options);
    sc_buf_free(&o->key);
    free(o->field);
  }
  lsc_host_destroy(rig->host);
  sc_log_destroy(rig->log);
  forget_events(rig);
  free(rig);
}

static int rig_close(lua_State *L) {
  rig_t **box = luaL_checkudata(L, 1, RIG);
  if (*box)
    rig_free(*box);
  *box = NULL;
  return 0;
}

/* rig:end_operator(i): destroy one operator while the host goes on. */
static int rig_end_operator(lua_State *L) {
  rig_t *rig = check(L);
  rig_op_t *o = &rig->ops[luaL_checkinteger(L, 2) - 1];
  o->op->ops->destroy(o->op);
  o->op = NULL;
  rig->n--;
  return 0;
}

static void read_chained(lua_State *L, rig_op_t *o) {
  lua_getfield(L, -1, "chained");
  for (int i = 0; i < 8; i++) {
    o->chained[i] = true;
    if (lua_istable(L, -1)) {
      lua_rawgeti(L, -1, i + 1);
      o->chained[i] = lua_toboolean(L, -1);
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
}

/* One operator from the table at the top. */
static int add_op(lua_State *L, rig_t *rig, sc_error_t *err) {
  uint32_t i = rig->n;
  rig_op_t *o = &rig->ops[i];
  o->rig = rig;
  lua_getfield(L, -1, "kind");
  o->type = lsc_operator_type(luaL_checkstring(L, -1));
  lua_pop(L, 1);
  if (!o->type)
    return sc_fail(err, SC_EINVAL, "no such kind");
  o->factory.index = (int)i + 1;
  lua_getfield(L, -1, "field");
  o->field = sc_strdup(lua_tostring(L, -1));
  lua_pop(L, 1);
  read_chained(L, o);
  encode_arg(L, lua_gettop(L), &o->options);
  o->context = (sc_op_context_t){.job_id = "job",
                                 .uid = "u1",
                                 .name = "visits",
                                 .label = "visits (u1) 2/4",
                                 .subtask = 1,
                                 .parallelism = 4,
                                 .max_parallelism = MAX_PARALLELISM,
                                 .host = rig->host,
                                 .world = &rig->world,
                                 .log = rig->log,
                                 .watermark = INT64_MIN,
                                 .wake_at_ms = INT64_MAX,
                                 .services = &services,
                                 .runtime = o};
  if (lua_getfield(L, -1, "keyed") != LUA_TNIL && lua_toboolean(L, -1)) {
    o->context.keyed = sc_heap_create("u1", (sc_key_range_t){0, MAX_PARALLELISM - 1});
    if (sc_timers_create(o->context.keyed, &o->context.timers, err) < 0)
      return err->code;
  }
  lua_pop(L, 1);
  int rc = o->type->create(&o->factory, sc_buf_bytes(&o->options), &o->context, &o->op, err);
  if (rc == 0)
    rig->n++;
  return rc;
}

/* binding_new(source, { {kind=, outputs=, chained=, keyed=, field=}, ... } [, log file]) -> rig, or
 * nil, message, code */
static int binding_new(lua_State *L) {
  size_t n;
  const char *source = luaL_checklstring(L, 1, &n);
  luaL_checktype(L, 2, LUA_TTABLE);
  sc_error_t err = SC_ERROR_INIT;
  rig_t **box = lua_newuserdatauv(L, sizeof *box, 0);
  *box = sc_calloc(1, sizeof **box);
  rig_t *rig = *box;
  luaL_setmetatable(L, RIG);
  int at = lua_gettop(L);
  rig->world.ops = &world_ops;
  if (lua_isstring(L, 3)) {
    rig->log = sc_log_create(log_now, rig, SC_LOG_OFF);
    if (sc_log_open_file(rig->log, lua_tostring(L, 3), SC_LOG_INFO, 0, &err) < 0)
      return probe_raise(L, &err);
  }
  int rc = lsc_host_create_from_source(source, n, NULL, NULL, NULL, &rig->host, &err);
  for (int i = 1; rc == 0 && lua_rawgeti(L, 2, i) == LUA_TTABLE; i++) {
    rc = add_op(L, rig, &err);
    lua_settop(L, at);
  }
  lua_settop(L, at);
  if (rc < 0) {
    rig_free(rig);
    *box = NULL;
    return probe_fail(L, rc, &err);
  }
  return 1;
}

static int open_marker(lua_State *L) {
  lua_newtable(L);
  lua_pushliteral(L, "core");
  lua_setfield(L, -2, "marker");
  return 1;
}

/* binding_host(blob, path, cpath) -> what its global function answer says, or nil, message, code: a
 * host from a blob, whose "streamckpt.core" has a field marker = "core". */
static int binding_host(lua_State *L) {
  size_t n;
  const char *blob = luaL_checklstring(L, 1, &n);
  sc_error_t err = SC_ERROR_INIT;
  lsc_host_t *host = NULL;
  int rc = lsc_host_create(blob, n, luaL_optstring(L, 2, NULL), luaL_optstring(L, 3, NULL),
                           open_marker, NULL, &host, &err);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  lua_State *H = lsc_host_state(host);
  lua_getglobal(H, "answer");
  lua_pushstring(L, lua_pcall(H, 0, 1, 0) == LUA_OK ? lua_tostring(H, -1) : "failed");
  lsc_host_destroy(host);
  return 1;
}

/* binding_type(kind) -> {is_source, replayable, exactly_once}, or nil */
static int binding_type(lua_State *L) {
  const sc_operator_type_t *t = lsc_operator_type(luaL_checkstring(L, 1));
  if (!t)
    return 0;
  lua_newtable(L);
  lua_pushboolean(L, t->is_source);
  lua_setfield(L, -2, "is_source");
  lua_pushboolean(L, t->replayable);
  lua_setfield(L, -2, "replayable");
  lua_pushboolean(L, t->exactly_once);
  lua_setfield(L, -2, "exactly_once");
  return 1;
}

static const luaL_Reg methods[] = {
    {"open", rig_open},           {"push", rig_push},         {"watermark", rig_watermark},
    {"time", rig_time},           {"timers", rig_timers},     {"entries", rig_entries},
    {"full", rig_full},           {"failing", rig_failing},   {"poll", rig_poll},
    {"splits", rig_splits},       {"add_split", rig_add_split}, {"no_more", rig_no_more},
    {"snapshot", rig_snapshot},   {"restore", rig_restore},   {"close", rig_close},
    {"end_operator", rig_end_operator}, {NULL, NULL}};

static const luaL_Reg functions[] = {{"binding_new", binding_new},
                                     {"binding_host", binding_host},
                                     {"binding_type", binding_type},
                                     {NULL, NULL}};

void probe_binding(lua_State *L) {
  lsc_codec_open(L);
  luaL_newmetatable(L, RIG);
  lua_pushcfunction(L, rig_close);
  lua_setfield(L, -2, "__gc");
  luaL_newlib(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  luaL_setfuncs(L, functions, 0);
  lsc_push_null(L);
  lua_setfield(L, -2, "binding_null");
}
