#include "slot_luv.h"

#include <lauxlib.h>

#include "runner.h"

/* ---- callbacks ---- */

/* The text of an error lies at the top of L. A running operator fails when its call ends, since its
 * coroutine is in use; another one at once. */
static void fail(lua_State *L, lsc_op_t *op) {
  sc_op_context_t *context = op->base.context;
  sc_error_t err = SC_ERROR_INIT;
  sc_fail(&err, SC_EUSER, "%s: a callback of luv: %s", context->label, lua_tostring(L, -1));
  sc_error_set_operator(&err, context->label);
  if (!op->running)
    context->services->fail(context, &err);
  else if (op->fail.code == SC_OK)
    sc_error_move(&op->fail, &err);
  sc_error_clear(&err);
}

/* Call upvalue 1 with the n arguments on L above the handler at 1; LUA_OK, or an error's text. */
static int call_watched(lua_State *L, int n, lsc_op_t **current, lsc_op_t *op) {
  lsc_op_t *outer = *current;
  *current = op;
  lua_State *before = lsc_interrupt_mark(L);
  int status = lua_pcall(L, n, LUA_MULTRET, 1);
  lsc_interrupt_mark(before);
  *current = outer;
  return status;
}

/* What luv calls. Upvalues: the callback; the box of the operator that registered it, or nil; the
 * host; a function to be told the text of an error, which ends the loop. */
static int guarded(lua_State *L) {
  lsc_host_t *host = lua_touserdata(L, lua_upvalueindex(3));
  lsc_op_t **box = lua_touserdata(L, lua_upvalueindex(2));
  lsc_op_t **current = lsc_host_current(host), *op = box ? *box : *current;
  int n = lua_gettop(L);
  luaL_checkstack(L, 4, NULL);
  lua_pushcfunction(L, lsc_host_traceback);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_rotate(L, 1, 2);
  if (lsc_interrupt_asked())
    lua_pushliteral(L, LSC_INTERRUPTED);
  else if (call_watched(L, n, current, op) == LUA_OK)
    return lua_gettop(L) - 1;
  lua_sethook(L, NULL, 0, 0); /* what an interrupt has left: it has done its work here */
  if (op)
    fail(L, op);
  lua_pushvalue(L, lua_upvalueindex(4));
  lua_insert(L, -2);
  lua_pcall(L, 1, 0, 0); /* nothing may raise into luv */
  return 0;
}

/* guard(callback, told): what luv is to call instead. Upvalue: the host. */
static int guard(lua_State *L) {
  lsc_host_t *host = lua_touserdata(L, lua_upvalueindex(1));
  lsc_op_t *op = *lsc_host_current(host);
  lua_settop(L, 2);
  lua_pushvalue(L, 1);
  if (op)
    lsc__op_push_box(op, L);
  else
    lua_pushnil(L);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, guarded, 4);
  return 1;
}

/* ---- require "luv" ---- */

/* In the main thread: the host as light userdata -> luv. */
static int load_here(lua_State *L) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "streamckpt.slot_luv");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "load");
  lua_pushvalue(L, 1);
  lua_pushcclosure(L, guard, 1);
  lua_call(L, 1, 1);
  return 1;
}

static int load_in_main(lua_State *L) {
  lsc_host_t *host = lua_touserdata(L, lua_upvalueindex(1));
  lua_State *main = lsc_host_state(host);
  luaL_checkstack(L, 1, NULL);
  luaL_checkstack(main, 4, NULL);
  lua_pushcfunction(main, load_here);
  lua_pushlightuserdata(main, host);
  lua_State *before = lsc_interrupt_mark(main);
  int status = lua_pcall(main, 1, 1, 0);
  lsc_interrupt_mark(before);
  if (main != L)
    lua_xmove(main, L, 1);
  return status == LUA_OK ? 1 : lua_error(L);
}

void lsc_slot_luv_open(lua_State *L, lsc_host_t *host) {
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "preload");
  lua_pushlightuserdata(L, host);
  lua_pushcclosure(L, load_in_main, 1);
  lua_setfield(L, -2, "luv");
  lua_pop(L, 2);
}
