#include "plan.h"

#include <string.h>

#include <lauxlib.h>

#include "../../core/base/mem.h"
#include "codec.h"
#include "fields.h"
#include "host.h"
#include "lua_operator.h"
#include "slot_luv.h"

#define LSC_PLAN "streamckpt.core.plan"

/* What every slot needs to make its Lua state; lives as long as the job. */
typedef struct lsc_job_host {
  char *blob, *path, *cpath;
  size_t blob_len;
  lua_CFunction open_core;
  lsc_factory_t *factories;
} lsc_job_host_t;

static int create_host(void *arg, sc_host_watch_t *watch, void **host, sc_error_t *err) {
  const lsc_job_host_t *h = arg;
  return lsc_host_create(h->blob, h->blob_len, h->path, h->cpath, h->open_core, watch,
                         (lsc_host_t **)host, err);
}

static void destroy_host(void *host) {
  lsc_host_destroy(host);
}

static bool has_loop(void *host) {
  return lsc_slot_luv_loaded(host);
}

static int turn_loop(void *host, sc_error_t *err) {
  return lsc_slot_luv_turn(host, err);
}

static void wait_in_loop(void *host, int fd, int64_t timeout_ns) {
  lsc_slot_luv_wait(host, fd, timeout_ns);
}

static void free_job_host(void *arg) {
  lsc_job_host_t *h = arg;
  if (!h)
    return;
  free(h->blob);
  free(h->path);
  free(h->cpath);
  free(h->factories);
  free(h);
}

static int plan_gc(lua_State *L) {
  lsc_plan_t *p = luaL_checkudata(L, 1, LSC_PLAN);
  sc_graph_destroy(p->graph);
  free_job_host(p->host);
  free(p->warnings);
  memset(p, 0, sizeof *p);
  return 0;
}

void lsc_plan_open(lua_State *L) {
  luaL_newmetatable(L, LSC_PLAN);
  lua_pushcfunction(L, plan_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
}

/* ---- fields of the table on top ---- */

static double field_number(lua_State *L, const char *name, double otherwise) {
  lua_getfield(L, -1, name);
  double v = lua_isnumber(L, -1) ? lua_tonumber(L, -1) : otherwise;
  lua_pop(L, 1);
  return v;
}

/* Push the named table; false (nothing pushed) where it is none. */
static bool push_table(lua_State *L, const char *name) {
  lua_getfield(L, -1, name);
  if (lua_istable(L, -1))
    return true;
  lua_pop(L, 1);
  return false;
}

/* The strings of the array on top, as a userdata that is pushed below nothing: popped by the caller
 * with the array. */
static const char **strings(lua_State *L, uint32_t *n) {
  *n = (uint32_t)lua_rawlen(L, -1);
  const char **list = lua_newuserdatauv(L, (*n + 1) * sizeof *list, 0);
  for (uint32_t i = 0; i < *n; i++) {
    lua_rawgeti(L, -2, i + 1);
    list[i] = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    lua_pop(L, 1);
  }
  return list;
}

/* ---- operators and edges ---- */

static const sc_operator_type_t *find_type(const char *kind, bool native, sc_error_t *err) {
  const sc_operator_type_t *type = native ? sc_operator_type_find(kind) : lsc_operator_type(kind);
  if (!type)
    sc_fail(err, SC_EUNSUPPORTED, "there is no operator of the kind \"%s\"", kind);
  return type;
}

/* The operator's table is on top. */
static int add_operator(lua_State *L, lsc_plan_t *p, int number, lua_Integer parallelism,
                        sc_error_t *err) {
  const char *kind = lsc_field_str(L, "kind", NULL);
  bool native = lsc_field_bool(L, "native");
  const sc_operator_type_t *type = find_type(kind ? kind : "", native, err);
  if (!type)
    return SC_EUNSUPPORTED;
  p->host->factories[number].index = number + 1;
  sc_buf_t options = SC_BUF_INIT;
  lua_getfield(L, -1, "options");
  int rc = lsc_encode(L, -1, &options, err);
  if (rc < 0) {
    sc_buf_free(&options);
    lua_pop(L, 1); /* the operator is on top again */
    sc_error_set_operator(err, lsc_field_str(L, "name", NULL));
    return rc;
  }
  /* The bytes move to a userdata at once: what follows may raise for memory. */
  void *kept = lua_newuserdatauv(L, options.len + 1, 0);
  memcpy(kept, options.data, options.len);
  size_t n_options = options.len;
  sc_buf_free(&options);
  lua_getfield(L, -2, "outputs");
  sc_node_spec_t spec = {.type = type, .data = native ? NULL : &p->host->factories[number],
                         .options = sc_bytes(kept, n_options)};
  if (lua_istable(L, -1))
    spec.outputs = strings(L, &spec.n_outputs);
  else
    lua_pushnil(L);
  lua_pushvalue(L, -5); /* operator, options, kept, outputs, list */
  spec.uid = lsc_field_str(L, "uid", NULL);
  spec.name = lsc_field_str(L, "name", NULL);
  lua_Integer own = lsc_field_int(L, "parallelism", 0);
  spec.parallelism = (uint32_t)(own > 0 ? own : parallelism);
  spec.max_parallelism = (uint32_t)lsc_field_int(L, "max_parallelism", 0);
  spec.keyed = lsc_field_bool(L, "keyed");
  spec.start_new_chain = lsc_field_bool(L, "start_new_chain");
  spec.disable_chaining = lsc_field_bool(L, "disable_chaining");
  rc = sc_graph_add(p->graph, &spec, err);
  lua_pop(L, 5);
  return rc < 0 ? rc : 0;
}

/* The edge's table is on top. What became of one for which the user named no exchange is no news:
 * the graph goes by the same rule. */
static int add_edge(lua_State *L, lsc_plan_t *p, sc_error_t *err) {
  const char *name = lsc_field_str(L, "partitioner", NULL);
  const char *output = lsc_field_str(L, "output", NULL);
  output = output ? output : "main";
  int partitioner = sc_partitioner_from_name(name ? name : "");
  if (partitioner < 0)
    return sc_fail(err, SC_EUNSUPPORTED, "there is no partitioner \"%s\"", name ? name : "");
  uint32_t from = (uint32_t)lsc_field_int(L, "from", 0), to = (uint32_t)lsc_field_int(L, "to", 0);
  if (lsc_field_bool(L, "unnamed"))
    return sc_graph_connect_unnamed(p->graph, from - 1, output, to - 1,
                                    (uint32_t)lsc_field_int(L, "port", 0), err);
  uint32_t port = (uint32_t)lsc_field_int(L, "port", 0), n_key = 0;
  const char **key = NULL;
  int top = lua_gettop(L);
  if (push_table(L, "key"))
    key = strings(L, &n_key);
  int rc = sc_graph_connect(p->graph, from - 1, output, to - 1, port,
                            (sc_partitioner_kind_t)partitioner, key, n_key, err);
  lua_settop(L, top);
  return rc;
}

static int read_graph(lua_State *L, lsc_plan_t *p, lua_Integer parallelism, sc_error_t *err) {
  int rc = 0;
  p->graph = sc_graph_create();
  if (push_table(L, "operators")) {
    int n = (int)lua_rawlen(L, -1);
    p->host->factories = sc_calloc((size_t)n, sizeof *p->host->factories);
    for (int i = 0; i < n && rc >= 0; i++) {
      lua_rawgeti(L, -1, i + 1);
      rc = add_operator(L, p, i, parallelism, err);
      lua_pop(L, rc < 0 ? 0 : 1);
    }
    if (rc < 0)
      return rc;
    lua_pop(L, 1);
  }
  if (push_table(L, "edges")) {
    lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
    for (lua_Integer i = 1; i <= n && rc >= 0; i++) {
      lua_rawgeti(L, -1, i);
      rc = add_edge(L, p, err);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  return rc < 0 ? rc : sc_graph_finish(p->graph, err);
}

/* ---- options: plan.job is on top ---- */

static int read_restart(lua_State *L, sc_job_options_t *o, sc_error_t *err) {
  int rc = sc_restart_config("none", &o->restart, err);
  if (!push_table(L, "restart"))
    return rc;
  const char *strategy = lsc_field_str(L, "strategy", NULL);
  rc = sc_restart_config(strategy ? strategy : "none", &o->restart, err);
  sc_restart_config_t *r = &o->restart;
  r->attempts = lsc_field_int(L, "attempts", r->attempts);
  r->delay_ms = lsc_field_int(L, "delay", r->delay_ms);
  r->max_failures = lsc_field_int(L, "max_failures", r->max_failures);
  r->interval_ms = lsc_field_int(L, "interval", r->interval_ms);
  r->initial_backoff_ms = lsc_field_int(L, "initial_backoff", r->initial_backoff_ms);
  r->max_backoff_ms = lsc_field_int(L, "max_backoff", r->max_backoff_ms);
  r->multiplier = field_number(L, "multiplier", r->multiplier);
  r->jitter = field_number(L, "jitter", r->jitter);
  r->reset_threshold_ms = lsc_field_int(L, "reset_threshold", r->reset_threshold_ms);
  lua_pop(L, 1);
  return rc;
}

/* plan.job.network is on top; the defaults stand in config.lua. */
static void read_debloat(lua_State *L, sc_debloat_t *d) {
  *d = (sc_debloat_t){0};
  if (!push_table(L, "debloat"))
    return;
  d->enabled = lsc_field_bool(L, "enabled");
  d->target_ms = lsc_field_int(L, "target", 1000);
  d->period_ms = lsc_field_int(L, "period", 200);
  d->samples = (uint32_t)lsc_field_int(L, "samples", 20);
  d->threshold_percent = (uint32_t)lsc_field_int(L, "threshold_percentages", 25);
  lua_pop(L, 1);
}

static void read_network(lua_State *L, sc_job_options_t *o) {
  o->segment_size = SC_SEGMENT_SIZE_DEFAULT;
  o->exclusive_buffers = 2;
  o->floating_buffers = 8;
  o->overdraft_buffers = 5;
  o->buffer_timeout_ms = 100;
  if (!push_table(L, "network"))
    return;
  o->segment_size = (uint32_t)lsc_field_int(L, "segment_size", o->segment_size);
  o->exclusive_buffers = (uint32_t)lsc_field_int(L, "exclusive_buffers", o->exclusive_buffers);
  o->floating_buffers = (uint32_t)lsc_field_int(L, "floating_buffers", o->floating_buffers);
  o->overdraft_buffers = (uint32_t)lsc_field_int(L, "max_overdraft_buffers", o->overdraft_buffers);
  o->buffer_timeout_ms = lsc_field_int(L, "buffer_timeout", o->buffer_timeout_ms);
  read_debloat(L, &o->debloat);
  lua_pop(L, 1);
}

static void read_log(lua_State *L, sc_job_options_t *o) {
  o->log_level = SC_LOG_WARN;
  if (!push_table(L, "log"))
    return;
  const char *level = lsc_field_str(L, "level", NULL);
  int known = level ? sc_log_level_from_name(level) : -1;
  if (known >= 0)
    o->log_level = (sc_log_level_t)known;
  o->log_file = lsc_field_str(L, "file", NULL);
  lua_pop(L, 1);
}

static sc_externalized_t externalized(const char *name) {
  if (name && strcmp(name, "delete_on_cancellation") == 0)
    return SC_EXTERNALIZED_DELETE_ON_CANCELLATION;
  return name && strcmp(name, "no_externalized") == 0 ? SC_EXTERNALIZED_NONE
                                                      : SC_EXTERNALIZED_RETAIN;
}

static int read_options(lua_State *L, lsc_plan_t *p, sc_error_t *err) {
  sc_job_options_t *o = &p->options;
  o->id = lsc_field_str(L, "id", NULL);
  o->name = lsc_field_str(L, "name", NULL);
  o->dir = lsc_field_str(L, "dir", NULL);
  o->unsynced = lsc_field_bool(L, "unsynced");
  o->checkpoint = (sc_coordinator_config_t){
      .interval_ms = lsc_field_int(L, "interval", 0),
      .timeout_ms = lsc_field_int(L, "timeout", 600000),
      .min_pause_ms = lsc_field_int(L, "min_pause", 0),
      .failure_pause_ms = lsc_field_int(L, "failure_pause", 0),
      .max_concurrent = (uint32_t)lsc_field_int(L, "max_concurrent", 1),
      .tolerable_failures = lsc_field_int(L, "tolerable_failures", -1),
      .retain = (uint32_t)lsc_field_int(L, "retain", 1),
      .unaligned = lsc_field_bool(L, "unaligned"),
      .aligned_timeout_ms = lsc_field_int(L, "aligned_timeout", 0),
      .all_or_none = lsc_field_bool(L, "all_or_none")};
  if (!o->dir)
    o->checkpoint.interval_ms = 0;
  o->checkpoint.final = o->dir != NULL;
  o->explain_after_ms = lsc_field_int(L, "explain_after", 0);
  o->externalized = externalized(lsc_field_str(L, "externalized", NULL));
  o->synchronous = lsc_field_bool(L, "sync");
  o->at_least_once = lsc_field_bool(L, "at_least_once");
  o->subtasks_per_file = (uint32_t)lsc_field_int(L, "subtasks_per_file", 5);
  o->n_slots = (uint32_t)lsc_field_int(L, "slots", 1);
  const char *fallback = lsc_field_str(L, "fallback", NULL);
  o->from = lsc_field_str(L, "from", NULL);
  o->allow_non_restored_state = lsc_field_bool(L, "allow_non_restored_state");
  o->fallback_older = fallback && strcmp(fallback, "older") == 0;
  read_network(L, o);
  read_log(L, o);
  if (push_table(L, "warnings")) {
    uint32_t n;
    const char **list = strings(L, &n);
    p->warnings = sc_malloc((n + 1) * sizeof *p->warnings);
    memcpy(p->warnings, list, n * sizeof *list);
    o->warnings = p->warnings;
    o->n_warnings = n;
    lua_pop(L, 2);
  }
  return read_restart(L, o, err);
}

static char *copy_field(lua_State *L, const char *name, size_t *len) {
  size_t n = 0;
  lua_getfield(L, -1, name);
  const char *s = lua_tolstring(L, -1, &n);
  char *copy = s ? sc_strndup(s, n) : NULL;
  lua_pop(L, 1);
  if (len)
    *len = n;
  return copy;
}

int lsc_plan_read(lua_State *L, int index, lua_CFunction open_core, lsc_plan_t **out,
                  sc_error_t *err) {
  index = lua_absindex(L, index);
  lsc_plan_t *p = lua_newuserdatauv(L, sizeof *p, 0);
  memset(p, 0, sizeof *p);
  luaL_setmetatable(L, LSC_PLAN);
  int box = lua_gettop(L);
  p->host = sc_calloc(1, sizeof *p->host);
  p->host->open_core = open_core;
  lua_pushvalue(L, index);
  p->host->blob = copy_field(L, "blob", &p->host->blob_len);
  lua_getglobal(L, "package");
  if (lua_istable(L, -1)) {
    p->host->path = copy_field(L, "path", NULL);
    p->host->cpath = copy_field(L, "cpath", NULL);
  }
  lua_pop(L, 1);
  lua_Integer parallelism = 1;
  int rc = 0;
  if (push_table(L, "job")) {
    parallelism = lsc_field_int(L, "parallelism", 1);
    rc = read_options(L, p, err);
    lua_pop(L, 1);
  }
  if (rc >= 0)
    rc = read_graph(L, p, parallelism, err);
  p->options.host = (sc_host_ops_t){.create = create_host,
                                    .destroy = destroy_host,
                                    .has_loop = has_loop,
                                    .turn = turn_loop,
                                    .wait = wait_in_loop,
                                    .arg = p->host};
  p->options.free_host_arg = free_job_host;
  lua_settop(L, box);
  *out = p;
  return rc;
}
