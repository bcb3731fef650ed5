/*
 * fields: reading plain values out of the table on top of a Lua stack.
 *
 * For what the Lua side has checked already: a field of another type counts as absent.
 *
 * Threads: that of L. Ownership: strings are borrowed from the table. Failure: none.
 */
#ifndef LSC_FIELDS_H
#define LSC_FIELDS_H

#include <lua.h>
#include <stdbool.h>

static inline lua_Integer lsc_field_int(lua_State *L, const char *name, lua_Integer otherwise) {
  lua_getfield(L, -1, name);
  lua_Integer v = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : otherwise;
  lua_pop(L, 1);
  return v;
}

static inline bool lsc_field_bool(lua_State *L, const char *name) {
  lua_getfield(L, -1, name);
  bool v = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return v;
}

static inline const char *lsc_field_str(lua_State *L, const char *name, const char *otherwise) {
  lua_getfield(L, -1, name);
  const char *v = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : otherwise;
  lua_pop(L, 1);
  return v;
}

#endif
