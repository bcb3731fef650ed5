/* probe_debloat: the size of a gate's buffers (core/exchange/debloater). Times are ms here. */
#include <lauxlib.h>

#include "../../core/exchange/debloater.h"
#include "probe.h"

#define DEBLOATER "probe.debloater"
#define NS_PER_MS 1000000

static sc_debloater_t *check_debloater(lua_State *L) {
  return *(sc_debloater_t **)luaL_checkudata(L, 1, DEBLOATER);
}

static int debloater_gc(lua_State *L) {
  sc_debloater_destroy(check_debloater(L));
  return 0;
}

static lua_Integer field(lua_State *L, const char *name, lua_Integer or_else) {
  lua_getfield(L, 1, name);
  lua_Integer value = luaL_optinteger(L, -1, or_else);
  lua_pop(L, 1);
  return value;
}

/* debloater_new{target =, period =, samples =, threshold =, segment =, gates =} */
static int debloater_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  sc_debloat_t o = {.enabled = true,
                    .target_ms = field(L, "target", 1000),
                    .period_ms = field(L, "period", 200),
                    .samples = (uint32_t)field(L, "samples", 20),
                    .threshold_percent = (uint32_t)field(L, "threshold", 25)};
  sc_debloater_t **d = lua_newuserdatauv(L, sizeof *d, 0);
  *d = sc_debloater_create(&o, (uint32_t)field(L, "segment", 32768),
                           (uint32_t)field(L, "gates", 1));
  luaL_setmetatable(L, DEBLOATER);
  return 1;
}

/* debloater:due(ms) */
static int debloater_due(lua_State *L) {
  lua_pushboolean(L, sc_debloater_due(check_debloater(L), luaL_checkinteger(L, 2) * NS_PER_MS));
  return 1;
}

/* debloater:measure(ms, bytes so far, active ms so far) */
static int debloater_measure(lua_State *L) {
  sc_debloater_measure(check_debloater(L), luaL_checkinteger(L, 2) * NS_PER_MS,
                       (uint64_t)luaL_checkinteger(L, 3), luaL_checkinteger(L, 4) * NS_PER_MS);
  return 0;
}

/* debloater:skip(ms, bytes so far, active ms so far) */
static int debloater_skip(lua_State *L) {
  sc_debloater_skip(check_debloater(L), luaL_checkinteger(L, 2) * NS_PER_MS,
                    (uint64_t)luaL_checkinteger(L, 3), luaL_checkinteger(L, 4) * NS_PER_MS);
  return 0;
}

/* debloater:gate(units, gate from 1 on or nil) -> the size that is announced, or 0 */
static int debloater_gate(lua_State *L) {
  lua_pushinteger(L, sc_debloater_gate(check_debloater(L), (uint32_t)luaL_optinteger(L, 3, 1) - 1,
                                       (uint64_t)luaL_checkinteger(L, 2)));
  return 1;
}

/* debloat_start_size(segment size) */
static int debloat_start_size(lua_State *L) {
  lua_pushinteger(L, sc_debloat_start_size((uint32_t)luaL_checkinteger(L, 1)));
  return 1;
}

void probe_debloat(lua_State *L) {
  static const luaL_Reg methods[] = {{"due", debloater_due},
                                     {"measure", debloater_measure},
                                     {"skip", debloater_skip},
                                     {"gate", debloater_gate},
                                     {NULL, NULL}};
  static const luaL_Reg functions[] = {{"debloater_new", debloater_new},
                                       {"debloat_start_size", debloat_start_size},
                                       {NULL, NULL}};
  luaL_newmetatable(L, DEBLOATER);
  lua_pushcfunction(L, debloater_gc);
  lua_setfield(L, -2, "__gc");
  luaL_newlib(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  luaL_setfuncs(L, functions, 0);
}
