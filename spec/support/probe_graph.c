#include "probe_graph.h"

#include <stdlib.h>
#include <string.h>

#include "../../core/base/mem.h"
#include "../../core/runtime/regions.h"

/* ---- reading a graph ---- */

static const sc_operator_type_t source_type = {.kind = "source", .is_source = true},
                                plain_type = {.kind = "plain"};

lua_Integer probe_opt_int(lua_State *L, const char *name, lua_Integer otherwise) {
  lua_getfield(L, -1, name);
  lua_Integer v = luaL_optinteger(L, -1, otherwise);
  lua_pop(L, 1);
  return v;
}

bool probe_opt_bool(lua_State *L, const char *name) {
  lua_getfield(L, -1, name);
  bool v = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return v;
}

const char *probe_opt_str(lua_State *L, const char *name, const char *otherwise) {
  lua_getfield(L, -1, name);
  const char *v = luaL_optstring(L, -1, otherwise);
  lua_pop(L, 1);
  return v;
}

#define NAMES_MAX 8

static uint32_t opt_names(lua_State *L, const char *name, const char **out) {
  lua_getfield(L, -1, name);
  uint32_t n = lua_isnil(L, -1) ? 0 : (uint32_t)luaL_len(L, -1);
  luaL_argcheck(L, n <= NAMES_MAX, 1, "too many names");
  for (uint32_t i = 0; i < n; i++) {
    lua_geti(L, -1, i + 1);
    out[i] = luaL_checkstring(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return n;
}

static int add_node(lua_State *L, sc_graph_t *g, sc_error_t *err) {
  const char *outputs[NAMES_MAX];
  uint32_t n = opt_names(L, "outputs", outputs);
  const char *uid = probe_opt_str(L, "uid", "uid");
  sc_node_spec_t spec = {.uid = uid,
                         .name = probe_opt_str(L, "name", uid),
                         .type = probe_opt_bool(L, "source") ? &source_type : &plain_type,
                         .parallelism = (uint32_t)probe_opt_int(L, "parallelism", 1),
                         .max_parallelism = (uint32_t)probe_opt_int(L, "max_parallelism", 0),
                         .keyed = probe_opt_bool(L, "keyed"),
                         .start_new_chain = probe_opt_bool(L, "new_chain"),
                         .disable_chaining = probe_opt_bool(L, "no_chain"),
                         .outputs = n ? outputs : NULL,
                         .n_outputs = n};
  return sc_graph_add(g, &spec, err);
}

static int add_edge(lua_State *L, sc_graph_t *g, sc_error_t *err) {
  const char *key[NAMES_MAX];
  uint32_t n = opt_names(L, "key", key);
  lua_geti(L, -1, 1);
  lua_geti(L, -2, 2);
  uint32_t from = (uint32_t)lua_tointeger(L, -2) - 1, to = (uint32_t)lua_tointeger(L, -1) - 1;
  lua_pop(L, 2);
  const char *name = probe_opt_str(L, "by", "forward");
  if (strcmp(name, "unnamed") == 0)
    return sc_graph_connect_unnamed(g, from, probe_opt_str(L, "output", "main"), to,
                                    (uint32_t)probe_opt_int(L, "port", 0), err);
  int by = sc_partitioner_from_name(name);
  luaL_argcheck(L, by >= 0, 1, "no partitioner");
  return sc_graph_connect(g, from, probe_opt_str(L, "output", "main"), to,
                          (uint32_t)probe_opt_int(L, "port", 0), (sc_partitioner_kind_t)by,
                          n ? key : NULL, n, err);
}

/* unchain = {edges, from 1} */
static void unchain(lua_State *L, sc_graph_t *g) {
  lua_getfield(L, -1, "unchain");
  bool *flags = sc_calloc(g->n_edges, sizeof *flags);
  lua_Integer n = lua_isnil(L, -1) ? 0 : luaL_len(L, -1);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_geti(L, -1, i);
    flags[lua_tointeger(L, -1) - 1] = true;
    lua_pop(L, 1);
  }
  if (n)
    sc_graph_unchain(g, flags);
  free(flags);
  lua_pop(L, 1);
}

sc_graph_t *probe_read_graph(lua_State *L, sc_error_t *err) {
  static int (*const add[])(lua_State *, sc_graph_t *, sc_error_t *) = {add_node, add_edge};
  static const char *const fields[] = {"nodes", "edges"};
  sc_graph_t *g = sc_graph_create();
  int rc = 0;
  for (int part = 0; part < 2; part++) {
    lua_getfield(L, -1, fields[part]);
    for (lua_Integer i = 1; rc >= 0 && !lua_isnil(L, -1) && i <= luaL_len(L, -1); i++) {
      lua_geti(L, -1, i);
      rc = add[part](L, g, err);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  if (rc >= 0)
    rc = sc_graph_finish(g, err);
  if (rc >= 0)
    unchain(L, g);
  if (rc >= 0)
    return g;
  sc_graph_destroy(g);
  return NULL;
}

/* ---- what became of a graph ---- */

static void push_chain(lua_State *L, const sc_graph_t *g, const sc_chain_plan_t *c) {
  lua_newtable(L);
  for (uint32_t i = 0; i < c->n_nodes; i++) {
    lua_pushstring(L, g->nodes[c->nodes[i]].uid);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushinteger(L, c->parallelism);
  lua_setfield(L, -2, "parallelism");
  lua_pushinteger(L, c->first_task);
  lua_setfield(L, -2, "first_task");
  char *name = sc_graph_chain_name(g, c);
  lua_pushstring(L, name);
  lua_setfield(L, -2, "name");
  free(name);
}

static void push_task(lua_State *L, const sc_graph_t *g, uint32_t task) {
  uint32_t subtask, *senders, n = sc_graph_senders(g, task, &senders);
  const sc_chain_plan_t *c = sc_graph_task(g, task, &subtask);
  lua_newtable(L);
  for (uint32_t i = 0; i < n; i++) {
    lua_pushinteger(L, senders[i]);
    lua_rawseti(L, -2, i + 1);
  }
  free(senders);
  lua_pushinteger(L, c - g->chains + 1);
  lua_setfield(L, -2, "chain");
  lua_pushinteger(L, subtask);
  lua_setfield(L, -2, "subtask");
}

static void push_partitioners(lua_State *L, const sc_graph_t *g) {
  lua_newtable(L);
  lua_newtable(L);
  for (uint32_t i = 0; i < g->n_edges; i++) {
    lua_pushstring(L, sc_partitioner_name(g->edges[i].partitioner));
    lua_rawseti(L, -3, i + 1);
    lua_pushstring(L, sc_partitioner_name(g->edges[i].known_as));
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -3, "known_as");
  lua_setfield(L, -2, "partitioners");
}

/* graph(spec): {chains, tasks (their senders), ordinals, partitioners, known_as,
 * max_parallelism by uid} or nil, error */
static int graph_build(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  lua_settop(L, 1);
  sc_graph_t *g = probe_read_graph(L, &err);
  if (!g)
    return probe_fail(L, err.code, &err);
  lua_newtable(L);
  lua_newtable(L);
  for (uint32_t i = 0; i < g->n_chains; i++) {
    push_chain(L, g, &g->chains[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "chains");
  lua_newtable(L);
  for (uint32_t i = 0; i < g->n_tasks; i++) {
    push_task(L, g, i);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "tasks");
  lua_newtable(L);
  for (uint32_t i = 0; i < g->n_edges; i++) {
    lua_pushinteger(L, g->edges[i].ordinal);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "ordinals");
  push_partitioners(L, g);
  lua_newtable(L);
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    lua_pushinteger(L, g->nodes[i].max_parallelism);
    lua_setfield(L, -2, g->nodes[i].uid);
  }
  lua_setfield(L, -2, "max_parallelism");
  sc_graph_destroy(g);
  return 1;
}

static void push_numbers(lua_State *L, const char *field, const uint32_t *list, uint32_t n) {
  lua_newtable(L);
  for (uint32_t i = 0; i < n; i++) {
    lua_pushinteger(L, list[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, field);
}

/* regions(spec): {of_node, of_task, n_tasks, parallelism, names} */
static int graph_regions(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  lua_settop(L, 1);
  sc_graph_t *g = probe_read_graph(L, &err);
  if (!g)
    return probe_fail(L, err.code, &err);
  sc_regions_t *r = sc_regions_create(g);
  lua_newtable(L);
  push_numbers(L, "of_node", r->of_node, g->n_nodes);
  push_numbers(L, "of_task", r->of_task, g->n_tasks);
  push_numbers(L, "n_tasks", r->n_tasks, r->n);
  push_numbers(L, "parallelism", r->parallelism, r->n);
  lua_newtable(L);
  for (uint32_t i = 0; i < r->n; i++) {
    char *name = sc_region_name(r, g, i);
    lua_pushstring(L, name);
    lua_rawseti(L, -2, i + 1);
    free(name);
  }
  lua_setfield(L, -2, "names");
  sc_regions_destroy(r);
  sc_graph_destroy(g);
  return 1;
}

void probe_graph(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"graph", graph_build}, {"regions", graph_regions}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
