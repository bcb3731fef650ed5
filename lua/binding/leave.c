#include "leave.h"

#include <pthread.h>

#include <lauxlib.h>

static pthread_mutex_t leaving = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool by_this_slot;

bool lsc_leave_begin(void) {
  return !by_this_slot && pthread_mutex_lock(&leaving) == 0;
}

void lsc_leave_end(void) {
  pthread_mutex_unlock(&leaving);
}

/* Upvalue 1 is Lua's own. */
static int exit_from_slot(lua_State *L) {
  if (pthread_mutex_trylock(&leaving) != 0)
    return luaL_error(L, "os.exit: the process is leaving already");
  by_this_slot = true; /* for good, with the lock: exit does not return */
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  int status = lua_pcall(L, lua_gettop(L) - 1, 0, 0);
  by_this_slot = false; /* its arguments were wrong */
  pthread_mutex_unlock(&leaving);
  return status == LUA_OK ? 0 : lua_error(L);
}

void lsc_leave_open(lua_State *L) {
  lua_getglobal(L, "os");
  lua_getfield(L, -1, "exit");
  lua_pushcclosure(L, exit_from_slot, 1);
  lua_setfield(L, -2, "exit");
  lua_pop(L, 1);
}
