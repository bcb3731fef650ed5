#include "interrupt.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>

#include "../../core/base/mem.h"

/* The slot that lives on this thread. Written by it alone; read by the handler on the same
 * thread. */
static _Thread_local lsc_interrupt_t *current;

static bool canceled(void) {
  return current && current->watch && atomic_load(current->watch->canceled);
}

static bool is_ours(const lua_Debug *ar) {
  const char *home = current->home;
  return home && strncmp(ar->source, home, strlen(home)) == 0;
}

/* The innermost function of the user's, or of Lua if there is none: "job.lua:12 (function 'f')".
 * Nothing here may raise. */
static void tell_place(lua_State *L, bool returned) {
  char place[256];
  lua_Debug ar, at;
  bool found = false, ours = true;
  for (int level = 0; ours && lua_getstack(L, level, &at); level++)
    if (lua_getinfo(L, "Sln", &at) && at.currentline >= 0 && (!found || !is_ours(&at))) {
      ar = at;
      found = true;
      ours = is_ours(&at);
    }
  if (!found)
    return;
  if (ar.name)
    snprintf(place, sizeof place, "%s:%d (function '%s')", ar.short_src, ar.currentline, ar.name);
  else
    snprintf(place, sizeof place, "%s:%d (the function of line %d)", ar.short_src, ar.currentline,
             ar.linedefined);
  current->watch->seen(current->watch->arg, place, returned);
}

#define HOOKED (LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT)

static void hook(lua_State *L, lua_Debug *ar) {
  if (canceled())
    luaL_error(L, LSC_INTERRUPTED);
  lua_sethook(L, NULL, 0, 0);
  if (current && current->watch && atomic_exchange(&current->watch->asked, false))
    tell_place(L, ar->event == LUA_HOOKRET && lua_getinfo(L, "S", ar) && *ar->what == 'C');
}

/* Not watched by ThreadSanitizer, whose own code it may have interrupted. */
__attribute__((no_sanitize_thread)) static void on_signal(int number) {
  if (!current)
    return;
  current->asked = 1;
  if (current->watch)
    atomic_store(&current->watch->reached, true);
  lua_State *L = current->running;
  if (L)
    lua_sethook(L, hook, HOOKED, 1);
}

static void install_handler(void) {
  struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: a sleeping call returns */
  sigemptyset(&action.sa_mask);
  sigaction(SIGURG, &action, NULL);
  action.sa_flags = SA_RESTART;
  sigaction(SC_SIGNAL_SAMPLE, &action, NULL);
}

static void let_through(int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGURG);
  sigaddset(&set, SC_SIGNAL_SAMPLE);
  pthread_sigmask(how, &set, NULL);
}

void lsc_interrupt_enter(lsc_interrupt_t *i, sc_host_watch_t *watch) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, install_handler);
  i->watch = watch;
  i->running = NULL;
  i->asked = 0;
  i->home = NULL;
  current = i;
  if (watch)
    let_through(SIG_UNBLOCK);
}

void lsc_interrupt_leave(lsc_interrupt_t *i) {
  if (current != i)
    return;
  if (i->watch)
    let_through(SIG_BLOCK);
  current = NULL;
  free(i->home);
  i->home = NULL;
}

void lsc_interrupt_note_home(lua_State *L) {
  lua_Debug ar;
  lua_pushvalue(L, -1);
  lua_getinfo(L, ">S", &ar);
  const char *name = strrchr(ar.source, '/');
  if (!current || !name || *ar.source != '@')
    return;
  free(current->home);
  current->home = sc_strndup(ar.source, (size_t)(name - ar.source) + 1);
}

bool lsc_interrupt_asked(void) {
  return canceled() && current->asked;
}

lua_State *lsc_interrupt_mark(lua_State *L) {
  lsc_interrupt_t *i = current;
  if (!i)
    return NULL;
  lua_State *before = i->running;
  i->running = L;
  /* The signal came while nothing of Lua ran, or another thread of it, which may never run on. */
  if (L && i->asked && i->watch && atomic_load_explicit(&i->watch->asked, memory_order_relaxed))
    lua_sethook(L, hook, HOOKED, 1);
  return before;
}

/* ---- coroutines of users ---- */

/* resume(co, ...): upvalue 1 is Lua's own. It raises only for what is no coroutine, before anything
 * runs; what goes wrong inside comes back as false and a message. */
static int watched_resume(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_State *before = lsc_interrupt_mark(co ? co : L);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  lsc_interrupt_mark(before);
  return lua_gettop(L);
}

/* What wrap returns: upvalue 1 is the coroutine. Errors are handed on as Lua's wrap does: the
 * coroutine is closed, and a message gets the position of the caller. */
static int call_wrapped(lua_State *L) {
  lua_State *co = lua_tothread(L, lua_upvalueindex(1));
  int nargs = lua_gettop(L), nresults;
  if (lua_status(co) == LUA_OK && lua_gettop(co) == 0)
    return luaL_error(L, "cannot resume dead coroutine");
  if (lua_status(co) != LUA_OK && lua_status(co) != LUA_YIELD)
    return luaL_error(L, "cannot resume dead coroutine");
  if (!lua_checkstack(co, nargs))
    return luaL_error(L, "too many arguments to resume");
  lua_xmove(L, co, nargs);
  lua_State *before = lsc_interrupt_mark(co);
  int status = lua_resume(co, L, nargs, &nresults);
  lsc_interrupt_mark(before);
  if (status == LUA_OK || status == LUA_YIELD) {
    if (!lua_checkstack(L, nresults + 1)) {
      lua_pop(co, nresults);
      return luaL_error(L, "too many results to resume");
    }
    lua_xmove(co, L, nresults);
    return nresults;
  }
  lua_resetthread(co); /* closes its variables; its error, or theirs, is on top */
  lua_xmove(co, L, 1);
  if (lua_type(L, -1) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

static int watched_wrap(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_pushcclosure(L, call_wrapped, 1);
  return 1;
}

void lsc_interrupt_watch_coroutines(lua_State *L) {
  lua_getglobal(L, "coroutine");
  lua_getfield(L, -1, "resume");
  lua_pushcclosure(L, watched_resume, 1);
  lua_setfield(L, -2, "resume");
  lua_pushcfunction(L, watched_wrap);
  lua_setfield(L, -2, "wrap");
  lua_pop(L, 1);
}
