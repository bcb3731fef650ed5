#include "signals.h"

#include <pthread.h>

#include <lauxlib.h>

static lua_State *main_of(lua_State *L) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  lua_State *main = lua_tothread(L, -1);
  lua_pop(L, 1); /* the registry keeps it */
  return main;
}

static bool let_raise(lua_State *L) {
  lua_State *main = main_of(L);
  if (luaL_loadstring(main, "return") != LUA_OK || lua_pcall(main, 0, 0, 0) == LUA_OK)
    return true;
  if (main != L)
    lua_xmove(main, L, 1);
  return false;
}

bool lsc_signals_block(lua_State *L, sigset_t *before) {
  sigset_t all;
  luaL_checkstack(L, 4, NULL);
  luaL_checkstack(main_of(L), 4, NULL);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, before);
  return let_raise(L);
}

bool lsc_signals_unblock(lua_State *L, const sigset_t *before, bool calm) {
  pthread_sigmask(SIG_SETMASK, before, NULL);
  return calm && let_raise(L);
}
