#include "context.h"

#include <lauxlib.h>

/*
 * ctx.timers: event_time(t), processing_time(t), delete(domain, t) for the current key. Registering
 * a timer twice is one timer; one at or before the watermark fires at the next advance.
 */

static int change(lua_State *L, const char *usage, sc_time_domain_t domain, int arg, bool add) {
  lsc_op_t *op = lsc__keyed_op(L, usage);
  if (!op->base.context->timers)
    return luaL_error(L, "%s: %s has no timers; only an operator after key_by has", usage,
                      op->base.context->label);
  if (add && !op->has_on_timer)
    return luaL_error(L, "%s: the operator has no on_timer to call", usage);
  sc_timer_t timer = {.domain = domain,
                      .time = lsc__check_time(L, arg, "the time of a timer"),
                      .group = op->key_group,
                      .key = sc_buf_bytes(&op->key)};
  sc_timers_t *timers = op->base.context->timers;
  int rc = add ? sc_timers_register(timers, &timer, &op->fail)
               : sc_timers_delete(timers, &timer, &op->fail);
  return rc < 0 ? lsc__raise_fail(L, op) : 0;
}

static int timers_event_time(lua_State *L) {
  return change(L, "ctx.timers:event_time(ms)", SC_EVENT_TIME, 2, true);
}

static int timers_processing_time(lua_State *L) {
  return change(L, "ctx.timers:processing_time(ms)", SC_PROCESSING_TIME, 2, true);
}

static int timers_delete(lua_State *L) {
  const char *usage = "ctx.timers:delete(domain, ms)";
  const char *domain = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (strcmp(domain, "event") == 0)
    return change(L, usage, SC_EVENT_TIME, 3, false);
  if (strcmp(domain, "processing") == 0)
    return change(L, usage, SC_PROCESSING_TIME, 3, false);
  return luaL_error(L, "%s: the domain is \"event\" or \"processing\", not %s", usage,
                    luaL_tolstring(L, 2, NULL));
}

static int timers_index(lua_State *L) {
  return luaL_error(L, "ctx.timers has no '%s'; it has event_time, processing_time and delete",
                    luaL_tolstring(L, 2, NULL));
}

void lsc__timers_push(lsc_op_t *op, lua_State *L, int box) {
  lua_createtable(L, 0, 3);
  int table = lua_gettop(L);
  lsc__method(L, "event_time", timers_event_time, box, table, 0);
  lsc__method(L, "processing_time", timers_processing_time, box, table, 0);
  lsc__method(L, "delete", timers_delete, box, table, 0);
  lsc__seal(L, "ctx.timers", timers_index, box);
}
