/* probe_flow: the accounting of a task's time (core/runtime/flow). Times are ms here. */
#include <lauxlib.h>

#include "../../core/base/mem.h"
#include "../../core/runtime/flow.h"
#include "probe.h"

#define FLOW "probe.flow"
#define COUNTERS 2
#define NS_PER_MS 1000000

static const char *const names[] = {"idle", "back_pressured", "ready", "busy", NULL};

static sc_flow_t *check_flow(lua_State *L) {
  return *(sc_flow_t **)luaL_checkudata(L, 1, FLOW);
}

static int flow_gc(lua_State *L) {
  sc_flow_destroy(check_flow(L));
  return 0;
}

static int flow_new(lua_State *L) {
  sc_flow_t **f = lua_newuserdatauv(L, sizeof *f, 0);
  *f = sc_flow_create(COUNTERS);
  luaL_setmetatable(L, FLOW);
  return 1;
}

/* flow:begin(ms) */
static int flow_begin(lua_State *L) {
  sc_flow_begin(check_flow(L), luaL_checkinteger(L, 2) * NS_PER_MS);
  return 0;
}

/* flow:finish(ms, moved, waits) -> whether a mark is due */
static int flow_finish(lua_State *L) {
  sc_flow_state_t waits = (sc_flow_state_t)luaL_checkoption(L, 4, "idle", names);
  lua_pushboolean(L, sc_flow_end(check_flow(L), luaL_checkinteger(L, 2) * NS_PER_MS,
                                 lua_toboolean(L, 3), waits));
  return 1;
}

/* flow:mark(counter, counter) */
static int flow_mark(lua_State *L) {
  uint64_t counters[COUNTERS];
  for (int i = 0; i < COUNTERS; i++)
    counters[i] = (uint64_t)luaL_optinteger(L, i + 2, 0);
  sc_flow_mark(check_flow(L), counters);
  return 0;
}

static void set_ms(lua_State *L, const char *name, const int64_t ns[SC_FLOW_STATES]) {
  lua_createtable(L, 0, SC_FLOW_STATES);
  for (int i = 0; i < SC_FLOW_STATES; i++) {
    lua_pushinteger(L, ns[i] / NS_PER_MS);
    lua_setfield(L, -2, names[i]);
  }
  lua_setfield(L, -2, name);
}

/* flow:read(ms, counter, counter) -> {state, total, sampled, window, grown, in_ms} */
static int flow_read(lua_State *L) {
  uint64_t counters[COUNTERS];
  sc_flow_shown_t shown;
  for (int i = 0; i < COUNTERS; i++)
    counters[i] = (uint64_t)luaL_optinteger(L, i + 3, 0);
  sc_flow_read(check_flow(L), luaL_checkinteger(L, 2) * NS_PER_MS, counters, &shown);
  lua_createtable(L, 0, 6);
  lua_pushstring(L, names[shown.state]);
  lua_setfield(L, -2, "state");
  set_ms(L, "total", shown.total_ns);
  set_ms(L, "sampled", shown.sampled_ns);
  lua_pushinteger(L, shown.window_ns / NS_PER_MS);
  lua_setfield(L, -2, "window");
  lua_pushinteger(L, shown.rate_ns / NS_PER_MS);
  lua_setfield(L, -2, "in_ms");
  lua_createtable(L, COUNTERS, 0);
  for (int i = 0; i < COUNTERS; i++) {
    lua_pushinteger(L, (lua_Integer)counters[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "grown");
  return 1;
}

static const luaL_Reg flow_methods[] = {
    {"begin", flow_begin}, {"finish", flow_finish}, {"mark", flow_mark},
    {"read", flow_read},   {"__gc", flow_gc},       {NULL, NULL},
};

void probe_flow(lua_State *L) {
  luaL_newmetatable(L, FLOW);
  luaL_setfuncs(L, flow_methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  static const luaL_Reg functions[] = {{"flow_new", flow_new}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
