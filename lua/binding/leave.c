#include "leave.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include <lauxlib.h>

static pthread_mutex_t leaving = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool by_this_slot;
static atomic_bool by_no_slot; /* written by who has the lock */

bool lsc_leave_begin(void) {
  if (by_this_slot || pthread_mutex_lock(&leaving) != 0)
    return false;
  atomic_store(&by_no_slot, true);
  return true;
}

void lsc_leave_end(void) {
  atomic_store(&by_no_slot, false);
  pthread_mutex_unlock(&leaving);
}

/* Upvalue 1 is Lua's own. */
static int exit_from_slot(lua_State *L) {
  while (pthread_mutex_trylock(&leaving) != 0) {
    if (atomic_load(&by_no_slot)) /* it waits for this thread */
      return luaL_error(L, "os.exit: the process is leaving already");
    /* Another slot leaves, whose exit ends this thread, too; or its arguments were wrong. */
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
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
