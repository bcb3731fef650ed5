#include "probe.h"

#include <stdlib.h>

int probe_fail(lua_State *L, int rc, sc_error_t *err) {
  char *text = sc_error_format(err);
  lua_pushnil(L);
  lua_pushstring(L, err->code ? text : sc_error_name(rc));
  lua_pushstring(L, sc_error_name(rc));
  free(text);
  sc_error_clear(err);
  return 3;
}

int probe_raise(lua_State *L, sc_error_t *err) {
  probe_fail(L, err->code, err);
  lua_pop(L, 1);
  return lua_error(L);
}

sc_bytes_t probe_bytes(lua_State *L, int arg) {
  size_t n;
  const char *s = luaL_checklstring(L, arg, &n);
  return sc_bytes(s, n);
}

lua_Integer probe_get_int(lua_State *L, int table, const char *name, lua_Integer otherwise) {
  lua_getfield(L, table, name);
  lua_Integer n = luaL_optinteger(L, -1, otherwise);
  lua_pop(L, 1);
  return n;
}

bool probe_get_bool(lua_State *L, int table, const char *name) {
  lua_getfield(L, table, name);
  bool yes = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return yes;
}

void probe_push_bytes(lua_State *L, sc_bytes_t b) {
  lua_pushlstring(L, b.len ? (const char *)b.data : "", b.len);
}

/* Rooms without a probe yet are absent: the weak symbols stay NULL. */
#define WEAK __attribute__((weak))
WEAK void probe_base(lua_State *L);
WEAK void probe_data(lua_State *L);
WEAK void probe_snapshot(lua_State *L);
WEAK void probe_exchange(lua_State *L);
WEAK void probe_inflight(lua_State *L);
WEAK void probe_state(lua_State *L);
WEAK void probe_cells(lua_State *L);
WEAK void probe_checkpoint(lua_State *L);
WEAK void probe_operator(lua_State *L);
WEAK void probe_codec(lua_State *L);
WEAK void probe_binding(lua_State *L);
WEAK void probe_graph(lua_State *L);
WEAK void probe_chain(lua_State *L);
WEAK void probe_world(lua_State *L);
WEAK void probe_job(lua_State *L);
WEAK void probe_flow(lua_State *L);
WEAK void probe_debloat(lua_State *L);
WEAK void probe_explain(lua_State *L);

__attribute__((visibility("default"))) int luaopen_streamckpt_probe(lua_State *L);
int luaopen_streamckpt_probe(lua_State *L) {
  void (*const parts[])(lua_State *) = {
      probe_base,     probe_data,  probe_snapshot, probe_exchange, probe_state, probe_checkpoint,
      probe_operator, probe_codec, probe_binding,  probe_graph,    probe_chain, probe_world,
      probe_job,      probe_inflight, probe_cells, probe_flow, probe_explain,
      probe_debloat};
  lua_newtable(L);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (parts[i])
      parts[i](L);
  return 1;
}
