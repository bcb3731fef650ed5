/* probe_chain: a chain whose operators are Lua tables.
 *
 * It is one of a graph (probe_graph.h); a node's `ops` are functions: begin(port, item),
 * begin_timer(domain, time, key, namespace), begin_watermark(w), begin_finish(), begin_idle(),
 * step() -> "done" | "emit", item | "blocked", poll() likewise; one that raises fails. */
#include <stdlib.h>

#include "../../core/base/mem.h"
#include "../../core/exchange/input.h"
#include "../../core/runtime/chain.h"
#include "probe_graph.h"

#define CHAIN "probe.chain"

/* ---- an operator that is a Lua table ---- */

/* Who called the method of the chain that runs: functions of operators are called there. */
static lua_State *caller;

typedef struct scripted {
  sc_operator_t op;
  sc_operator_ops_t ops;
  int ref;            /* of its table of functions */
  int kept;           /* of what its last item borrows */
} scripted_t;

/* Push the function of that name; false where there is none. */
static bool push_function(scripted_t *s, const char *name) {
  lua_rawgeti(caller, LUA_REGISTRYINDEX, s->ref);
  lua_getfield(caller, -1, name);
  lua_remove(caller, -2);
  if (!lua_isnil(caller, -1))
    return true;
  lua_pop(caller, 1);
  return false;
}

static int call(scripted_t *s, int args, int results, sc_error_t *err) {
  if (lua_pcall(caller, args, results, 0) == LUA_OK)
    return 0;
  int rc = sc_fail(err, SC_EUSER, "%s", lua_tostring(caller, -1));
  lua_pop(caller, 1);
  return rc;
}

static void push_bytes_field(lua_State *L, const char *name, sc_bytes_t b) {
  probe_push_bytes(L, b);
  lua_setfield(L, -2, name);
}

static int op_begin(sc_operator_t *op, uint32_t port, const sc_item_t *item, sc_error_t *err) {
  scripted_t *s = (scripted_t *)op;
  const sc_op_context_t *c = op->context;
  if (!push_function(s, "begin"))
    return 0;
  lua_pushinteger(caller, port);
  lua_newtable(caller);
  push_bytes_field(caller, "bytes", item->bytes);
  if (item->has_timestamp) {
    lua_pushinteger(caller, item->timestamp);
    lua_setfield(caller, -2, "timestamp");
  }
  if (c->has_key)
    push_bytes_field(caller, "key", c->key);
  int rc = call(s, 2, 1, err);
  if (rc < 0)
    return rc;
  bool taken = lua_isstring(caller, -1) && strcmp(lua_tostring(caller, -1), "taken") == 0;
  lua_pop(caller, 1);
  return taken ? SC_TAKEN : 0;
}

static int op_begin_timer(sc_operator_t *op, const sc_timer_t *timer, sc_error_t *err) {
  scripted_t *s = (scripted_t *)op;
  if (!push_function(s, "begin_timer"))
    return 0;
  lua_pushstring(caller, timer->domain == SC_EVENT_TIME ? "event" : "processing");
  lua_pushinteger(caller, timer->time);
  probe_push_bytes(caller, op->context->key);
  probe_push_bytes(caller, timer->name_space);
  return call(s, 4, 0, err);
}

static int op_begin_watermark(sc_operator_t *op, int64_t watermark, sc_error_t *err) {
  scripted_t *s = (scripted_t *)op;
  if (!push_function(s, "begin_watermark"))
    return 0;
  lua_pushinteger(caller, watermark);
  return call(s, 1, 0, err);
}

static int op_begin_finish(sc_operator_t *op, sc_error_t *err) {
  scripted_t *s = (scripted_t *)op;
  return push_function(s, "begin_finish") ? call(s, 0, 0, err) : 0;
}

static int op_begin_idle(sc_operator_t *op, sc_error_t *err) {
  scripted_t *s = (scripted_t *)op;
  if (!push_function(s, "begin_idle"))
    return 0;
  int rc = call(s, 0, 1, err);
  if (rc < 0)
    return rc;
  bool began = lua_toboolean(caller, -1);
  lua_pop(caller, 1);
  return began;
}

/* The table on top as an item; it is kept until the next step, since the item borrows from it. */
static void read_item(scripted_t *s, sc_item_t *out) {
  lua_State *L = caller;
  *out = (sc_item_t){.output = (uint16_t)probe_opt_int(L, "output", 0)};
  lua_getfield(L, -1, "watermark");
  lua_getfield(L, -2, "idle");
  out->is_watermark = !lua_isnil(L, -2);
  out->is_status = !lua_isnil(L, -1);
  out->idle = lua_toboolean(L, -1);
  out->timestamp = out->is_watermark ? lua_tointeger(L, -2) : 0;
  lua_pop(L, 2);
  lua_getfield(L, -1, "timestamp");
  if (!lua_isnil(L, -1)) {
    out->has_timestamp = true;
    out->timestamp = lua_tointeger(L, -1);
  }
  lua_pop(L, 1);
  size_t n;
  const char *bytes = probe_opt_str(L, "bytes", NULL), *key = probe_opt_str(L, "key", NULL);
  if (bytes) {
    lua_getfield(L, -1, "bytes");
    lua_tolstring(L, -1, &n);
    lua_pop(L, 1);
    out->bytes = sc_bytes(bytes, n);
  }
  out->has_key = key != NULL;
  if (key)
    out->key = sc_bytes_str(key);
  luaL_unref(L, LUA_REGISTRYINDEX, s->kept);
  s->kept = luaL_ref(L, LUA_REGISTRYINDEX);
}

static int answer(scripted_t *s, const char *function, sc_item_t *out, sc_error_t *err) {
  static const char *const names[] = {"done", "emit", "blocked", "idle", "ended", "last"};
  if (!push_function(s, function))
    return SC_DONE;
  int rc = call(s, 0, 2, err);
  if (rc < 0)
    return rc;
  const char *word = lua_tostring(caller, -2);
  for (rc = SC_DONE; word && strcmp(word, names[rc]) != 0; rc++)
    sc_assert(rc < SC_LAST);
  if (rc == SC_EMIT || rc == SC_LAST)
    read_item(s, out);
  else
    lua_pop(caller, 1);
  lua_pop(caller, 1);
  return rc;
}

static int op_step(sc_operator_t *op, sc_item_t *out, sc_error_t *err) {
  return answer((scripted_t *)op, "step", out, err);
}

static int op_poll(sc_operator_t *op, sc_item_t *out, sc_error_t *err) {
  return answer((scripted_t *)op, "poll", out, err);
}

static void op_destroy(sc_operator_t *op) {
  scripted_t *s = (scripted_t *)op;
  luaL_unref(caller, LUA_REGISTRYINDEX, s->ref);
  luaL_unref(caller, LUA_REGISTRYINDEX, s->kept);
  free(s);
}

/* From the table of functions at the top, which is popped. */
static sc_operator_t *scripted_new(lua_State *L, sc_op_context_t *context) {
  scripted_t *s = sc_calloc(1, sizeof *s);
  s->ops = (sc_operator_ops_t){.begin = op_begin, .begin_timer = op_begin_timer,
                               .begin_watermark = op_begin_watermark,
                               .begin_finish = op_begin_finish, .step = op_step, .poll = op_poll,
                               .begin_idle = op_begin_idle, .destroy = op_destroy,
                               .swallows_watermarks = probe_opt_bool(L, "swallows")};
  s->op = (sc_operator_t){&s->ops, context};
  s->ref = luaL_ref(L, LUA_REGISTRYINDEX);
  s->kept = LUA_NOREF;
  return &s->op;
}

/* ---- a chain of a graph, its first subtask ---- */

typedef struct lane {
  sc_channel_t *channel;
  sc_input_t *input;    /* what its receiver sees */
} lane_t;

typedef struct exit_edge {
  sc_output_t *output;
  lane_t *lanes;
  uint32_t n;
} exit_edge_t;

typedef struct chain {
  sc_graph_t *graph;
  uint32_t driven;      /* which chain of it */
  sc_chain_t chain;
  sc_pool_t *pool;
  exit_edge_t *exits;   /* in the order of the graph's edges that leave the chain */
  uint32_t n_exits;
  sc_keyed_t *keyed;
  sc_timers_t *timers;
  bool alive;
} chain_t;

static bool chained(const sc_op_context_t *c, uint16_t output) {
  return sc_chain_chained(c->runtime, output);
}

static int write_item(sc_op_context_t *c, const sc_item_t *item, sc_error_t *err) {
  return sc_chain_write(c->runtime, item, err);
}

static const sc_op_services_t services = {.chained = chained, .write = write_item};

static void add_exit(chain_t *c, const sc_edge_t *e, uint32_t exclusive) {
  const sc_node_t *to = &c->graph->nodes[e->to];
  uint32_t n = e->partitioner == SC_FORWARD ? 1 : to->parallelism;
  c->exits = sc_realloc(c->exits, (c->n_exits + 1) * sizeof *c->exits);
  exit_edge_t *x = &c->exits[c->n_exits++];
  x->n = n;
  x->lanes = sc_calloc(n, sizeof *x->lanes);
  sc_channel_t **channels = sc_calloc(n, sizeof *channels);
  for (uint32_t i = 0; i < n; i++) {
    channels[i] = x->lanes[i].channel = sc_channel_create(exclusive, NULL, NULL);
    x->lanes[i].input = sc_input_create(&channels[i], &e->port, 1);
  }
  sc_partitioner_t p;
  sc_partitioner_init(&p, e->partitioner, n, to->max_parallelism, 0);
  x->output = sc_output_create(&p, channels, c->pool);
  sc_chain_add_exit(&c->chain, c->graph->nodes[e->from].position, e->output, x->output, e);
  free(channels);
}

static void make_link(lua_State *L, chain_t *c, uint32_t i) {
  sc_link_t *link = &c->chain.links[i];
  const sc_node_t *n = link->node;
  link->label = sc_format("%s (%s) 1/%u", n->name, n->uid, n->parallelism);
  link->context.label = link->label;
  link->context.uid = n->uid;
  link->context.services = &services;
  link->context.runtime = link;
  link->context.keyed = n->keyed ? c->keyed : NULL;
  link->context.timers = n->keyed ? c->timers : NULL;
  lua_getfield(L, 1, "nodes");
  lua_geti(L, -1, n - c->graph->nodes + 1);
  if (lua_getfield(L, -1, "ops") == LUA_TNIL) {
    lua_pop(L, 1);
    lua_newtable(L);
  }
  link->op = scripted_new(L, &link->context);
  lua_pop(L, 2);
}

/* The chain that the operator of this uid heads. */
static uint32_t find_chain(const sc_graph_t *g, const char *head) {
  for (uint32_t i = 0; head && i < g->n_chains; i++)
    if (strcmp(g->nodes[g->chains[i].nodes[0]].uid, head) == 0)
      return i;
  return 0;
}

/* chain_new(graph spec with `segment` and `exclusive` for its exchanges, and `driven`, the uid of
 * the chain's head; by default the first chain) */
static int chain_new(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  lua_settop(L, 1);
  sc_graph_t *g = probe_read_graph(L, &err);
  if (!g)
    return probe_fail(L, err.code, &err);
  uint32_t exclusive = (uint32_t)probe_opt_int(L, "exclusive", 1000);
  uint32_t segment = (uint32_t)probe_opt_int(L, "segment", 1024);
  const char *driven = probe_opt_str(L, "driven", NULL);
  chain_t *c = lua_newuserdatauv(L, sizeof *c, 0);
  memset(c, 0, sizeof *c);
  c->alive = true;
  c->graph = g;
  c->driven = find_chain(g, driven);
  luaL_setmetatable(L, CHAIN);
  c->pool = sc_pool_create(segment);
  sc_chain_init(&c->chain, g, &g->chains[c->driven], c);
  const sc_node_t *head = c->chain.links[0].node;
  if (head->keyed) {
    c->keyed = sc_heap_create(head->uid, sc_key_range(head->max_parallelism, head->parallelism, 0));
    if (sc_timers_create(c->keyed, &c->timers, &err) < 0)
      return probe_raise(L, &err);
  }
  for (uint32_t i = 0; i < c->chain.n_links; i++)
    make_link(L, c, i);
  for (uint32_t i = 0; i < g->n_edges; i++) {
    const sc_edge_t *e = &g->edges[i];
    if (!e->chained && g->nodes[e->from].chain == c->driven)
      add_exit(c, e, exclusive);
  }
  return 1;
}

static chain_t *check_chain(lua_State *L) {
  caller = L;
  return luaL_checkudata(L, 1, CHAIN);
}

static int chain_gc(lua_State *L) {
  chain_t *c = check_chain(L);
  if (!c->alive)
    return 0;
  c->alive = false;
  sc_chain_fini(&c->chain);
  sc_timers_destroy(c->timers);
  sc_keyed_destroy(c->keyed);
  for (uint32_t i = 0; i < c->n_exits; i++) {
    sc_output_destroy(c->exits[i].output);
    for (uint32_t k = 0; k < c->exits[i].n; k++) {
      sc_input_destroy(c->exits[i].lanes[k].input);
      sc_channel_destroy(c->exits[i].lanes[k].channel);
    }
    free(c->exits[i].lanes);
  }
  free(c->exits);
  sc_pool_destroy(c->pool); /* asserts that no buffer is left */
  sc_graph_destroy(c->graph);
  return 0;
}

/* nil, "EUSER: ...", the operator's label */
static int fail(lua_State *L, int rc, sc_error_t *err) {
  lua_pushstring(L, err->operator_name);
  probe_fail(L, rc, err);
  lua_pop(L, 1);
  lua_pushvalue(L, -3);
  return 3;
}

/* chain:record(bytes, {port =, timestamp =, key =, group =}) */
static int chain_record(lua_State *L) {
  chain_t *c = check_chain(L);
  sc_error_t err = SC_ERROR_INIT;
  sc_item_t item = {.bytes = probe_bytes(L, 2)};
  lua_settop(L, 3);
  uint32_t port = 0;
  if (!lua_isnil(L, 3)) {
    port = (uint32_t)probe_opt_int(L, "port", 0);
    item.has_timestamp = probe_opt_int(L, "timestamp", -1) >= 0;
    item.timestamp = probe_opt_int(L, "timestamp", 0);
    const char *key = probe_opt_str(L, "key", NULL);
    item.has_key = key != NULL;
    if (key)
      item.key = sc_bytes_str(key);
    item.key_group = (uint16_t)probe_opt_int(L, "group", 0);
  }
  int rc = sc_chain_record(&c->chain, port, &item, &err);
  if (rc < 0)
    return fail(L, rc, &err);
  lua_pushboolean(L, 1);
  return 1;
}

static int chain_watermark(lua_State *L) {
  sc_chain_watermark(&check_chain(L)->chain, luaL_checkinteger(L, 2));
  return 0;
}

static int chain_status(lua_State *L) {
  sc_chain_status(&check_chain(L)->chain, lua_toboolean(L, 2));
  return 0;
}

static int chain_timers(lua_State *L) {
  sc_chain_timers(&check_chain(L)->chain, luaL_checkinteger(L, 2));
  return 0;
}

static int chain_finish(lua_State *L) {
  sc_chain_finish(&check_chain(L)->chain);
  return 0;
}

static int chain_begin_idle(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  int rc = sc_chain_begin_idle(&check_chain(L)->chain, &err);
  if (rc < 0)
    return fail(L, rc, &err);
  lua_pushboolean(L, rc);
  return 1;
}

/* chain:run([steps]): "idle", "blocked", "suspended" */
static int chain_run(lua_State *L) {
  static const char *const names[] = {"idle", "blocked", "suspended"};
  sc_error_t err = SC_ERROR_INIT;
  int rc = sc_chain_run(&check_chain(L)->chain, (int)luaL_optinteger(L, 2, 100000), &err);
  if (rc < 0)
    return fail(L, rc, &err);
  lua_pushstring(L, names[rc]);
  return 1;
}

static int chain_poll(lua_State *L) {
  static const char *const names[] = {"done", "emit", "blocked", "idle", "ended"};
  sc_error_t err = SC_ERROR_INIT;
  int rc = sc_chain_poll(&check_chain(L)->chain, &err);
  if (rc < 0)
    return fail(L, rc, &err);
  lua_pushstring(L, names[rc]);
  return 1;
}

/* chain:restored(link from 1, watermark, forwarded): as a restore leaves it. */
static int chain_restored(lua_State *L) {
  sc_link_t *link = &check_chain(L)->chain.links[luaL_checkinteger(L, 2) - 1];
  link->context.watermark = luaL_checkinteger(L, 3);
  link->forwarded = luaL_checkinteger(L, 4);
  return 0;
}

static int chain_resume(lua_State *L) {
  sc_chain_resume_watermarks(&check_chain(L)->chain);
  return 0;
}

/* chain:timer("event" | "processing", time, key, group [, namespace]) */
static int chain_timer(lua_State *L) {
  chain_t *c = check_chain(L);
  sc_error_t err = SC_ERROR_INIT;
  bool event = strcmp(luaL_checkstring(L, 2), "event") == 0;
  sc_timer_t timer = {.domain = event ? SC_EVENT_TIME : SC_PROCESSING_TIME,
                      .time = luaL_checkinteger(L, 3), .key = probe_bytes(L, 4),
                      .group = (uint16_t)luaL_checkinteger(L, 5),
                      .name_space = sc_bytes_str(luaL_optstring(L, 6, ""))};
  int rc = sc_timers_register(c->timers, &timer, &err);
  return rc < 0 ? probe_raise(L, &err) : 0;
}

static int chain_next_timer(lua_State *L) {
  lua_pushinteger(L, sc_chain_next_timer(&check_chain(L)->chain));
  return 1;
}

/* chain:link(i): {watermark, forwarded, idle, records_in, records_out, has_key} */
static int chain_link(lua_State *L) {
  sc_link_t *link = &check_chain(L)->chain.links[luaL_checkinteger(L, 2) - 1];
  lua_newtable(L);
  lua_pushinteger(L, link->context.watermark);
  lua_setfield(L, -2, "watermark");
  lua_pushinteger(L, link->forwarded);
  lua_setfield(L, -2, "forwarded");
  lua_pushboolean(L, link->idle);
  lua_setfield(L, -2, "idle");
  lua_pushinteger(L, (lua_Integer)atomic_load(&link->records_in));
  lua_setfield(L, -2, "records_in");
  lua_pushinteger(L, (lua_Integer)atomic_load(&link->records_out));
  lua_setfield(L, -2, "records_out");
  lua_pushboolean(L, link->context.has_key);
  lua_setfield(L, -2, "has_key");
  return 1;
}

static int chain_is_idle(lua_State *L) {
  lua_pushboolean(L, sc_chain_idle(&check_chain(L)->chain));
  return 1;
}

static int chain_is_divisible(lua_State *L) {
  lua_pushboolean(L, sc_chain_divisible(&check_chain(L)->chain));
  return 1;
}

/* chain:overdraft(n): what is in hand may push so many buffers beyond the room. */
static int chain_overdraft(lua_State *L) {
  check_chain(L)->chain.overdraft = (uint32_t)luaL_checkinteger(L, 2);
  return 0;
}

static void push_event(lua_State *L, const sc_input_event_t *e) {
  switch (e->kind) {
    case SC_INPUT_RECORD:
      lua_pushlstring(L, (const char *)e->record.value.data, e->record.value.len);
      if (e->record.flags & SC_RECORD_HAS_KEY) {
        lua_pushliteral(L, "@");
        lua_pushinteger(L, e->record.key_group);
        lua_concat(L, 3);
      }
      break;
    case SC_INPUT_WATERMARK: lua_pushfstring(L, "w%I", (LUAI_UACINT)e->watermark); break;
    case SC_INPUT_STATUS: lua_pushstring(L, e->idle ? "idle" : "active"); break;
    default: lua_pushfstring(L, "event %d", e->kind);
  }
}

/* chain:taken(exit [, lane [, at most]]): what the receiver of a lane reads now, "a b w5" */
static int chain_taken(lua_State *L) {
  exit_edge_t *x = &check_chain(L)->exits[luaL_checkinteger(L, 2) - 1];
  lane_t *lane = &x->lanes[luaL_optinteger(L, 3, 1) - 1];
  lua_Integer most = luaL_optinteger(L, 4, LUA_MAXINTEGER);
  sc_error_t err = SC_ERROR_INIT;
  sc_input_event_t e;
  sc_output_flush(x->output);
  lua_newtable(L);
  for (lua_Integer n = 1; n <= most; n++) {
    if (sc_input_next(lane->input, &e, &err) < 0)
      return probe_raise(L, &err);
    if (e.kind == SC_INPUT_NONE)
      break;
    push_event(L, &e);
    lua_rawseti(L, -2, n);
  }
  return 1;
}

static const luaL_Reg chain_methods[] = {
    {"record", chain_record},   {"watermark", chain_watermark}, {"status", chain_status},
    {"timers", chain_timers},   {"finish", chain_finish},       {"begin_idle", chain_begin_idle},
    {"run", chain_run},         {"poll", chain_poll},           {"restored", chain_restored},
    {"resume", chain_resume},   {"timer", chain_timer},         {"next_timer", chain_next_timer},
    {"link", chain_link},       {"idle", chain_is_idle},        {"taken", chain_taken},
    {"divisible", chain_is_divisible}, {"overdraft", chain_overdraft},
    {"destroy", chain_gc},      {"__gc", chain_gc},             {NULL, NULL},
};

void probe_chain(lua_State *L) {
  luaL_newmetatable(L, CHAIN);
  luaL_setfuncs(L, chain_methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  static const luaL_Reg functions[] = {{"chain_new", chain_new}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
