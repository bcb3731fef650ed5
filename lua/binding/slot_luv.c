#include "slot_luv.h"

#include <lauxlib.h>
#include <poll.h>
#include <time.h>

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
  lsc_slot_luv_t *luv = lsc_host_luv(host);
  int n = lua_gettop(L);
  if (luv->closing)
    return 0;
  luv->calls++;
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
  else
    luv->orphan = true;
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
  lsc_slot_luv_t *luv = lsc_host_luv(lua_touserdata(L, 1));
  lua_getglobal(L, "require");
  lua_pushliteral(L, "streamckpt.slot_luv");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "load");
  lua_pushvalue(L, 1);
  lua_pushcclosure(L, guard, 1);
  lua_call(L, 1, 3);
  luv->fd = (int)lua_tointeger(L, -1);
  lua_pop(L, 1);
  luv->turn = luaL_ref(L, LUA_REGISTRYINDEX);
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

/* ---- the loop ---- */

bool lsc_slot_luv_loaded(const lsc_host_t *host) {
  return lsc_host_luv(host)->turn != 0;
}

typedef struct turn_args {
  lsc_slot_luv_t *luv;
  sc_error_t *err;
} turn_args_t;

static int turn(lua_State *L) {
  turn_args_t *args = lua_touserdata(L, 1);
  lsc_slot_luv_t *luv = args->luv;
  lua_rawgeti(L, LUA_REGISTRYINDEX, luv->turn);
  lua_call(L, 0, 2);
  luv->alive = !lua_isnil(L, -2);
  luv->timeout_ms = (int)lua_tointeger(L, -2);
  if (luv->orphan && lua_type(L, -1) == LUA_TSTRING)
    sc_fail(args->err, SC_EUSER, "a callback of luv, registered by a module: %s",
            lua_tostring(L, -1));
  return 0;
}

int lsc_slot_luv_turn(lsc_host_t *host, sc_error_t *err) {
  lsc_slot_luv_t *luv = lsc_host_luv(host);
  uint64_t before = luv->calls;
  turn_args_t args = {luv, err};
  luv->orphan = false;
  int rc = lsc_protect(lsc_host_state(host), turn, &args, 0, err);
  if (rc < 0)
    return rc;
  return luv->orphan ? SC_EUSER : luv->calls != before;
}

void lsc_slot_luv_wait(lsc_host_t *host, int fd, int64_t timeout_ns) {
  const lsc_slot_luv_t *luv = lsc_host_luv(host);
  struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = luv->fd, .events = POLLIN}};
  if (luv->alive && luv->timeout_ms >= 0) {
    int64_t due_ns = (int64_t)luv->timeout_ms * 1000000;
    timeout_ns = timeout_ns < 0 || due_ns < timeout_ns ? due_ns : timeout_ns;
  }
  struct timespec t = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
  /* An interrupted wait is one that ends early: whoever sleeps looks around and comes again. */
  ppoll(fds, luv->alive ? 2 : 1, timeout_ns < 0 ? NULL : &t, NULL);
}

void lsc_slot_luv_close(lsc_host_t *host) {
  if (!lsc_slot_luv_loaded(host))
    return;
  lsc_host_luv(host)->closing = true;
  lsc_slot_luv_turn(host, NULL);
}

void lsc_slot_luv_open(lua_State *L, lsc_host_t *host) {
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "preload");
  lua_pushlightuserdata(L, host);
  lua_pushcclosure(L, load_in_main, 1);
  lua_setfield(L, -2, "luv");
  lua_pop(L, 2);
}
