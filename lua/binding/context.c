#include "context.h"

#include <lauxlib.h>
#include <math.h>
#include <string.h>

#include "codec.h"

/* ---- methods ---- */

lsc_op_t *lsc__method_op(lua_State *L, const char *usage) {
  lsc_op_t **box = lua_touserdata(L, lua_upvalueindex(1));
  lsc_op_t *op = *box;
  if (!op)
    luaL_error(L, "%s: closed, because its operator has ended", usage);
  if (!lua_rawequal(L, 1, lua_upvalueindex(2)))
    luaL_error(L, "call it with a colon: %s", usage);
  if (!op->running)
    luaL_error(L, "%s: used outside of a call of its own operator", usage);
  if (op->guard)
    luaL_error(L, "%s: used by a finalizer while the operator reads its state", usage);
  return op;
}

lsc_op_t *lsc__keyed_op(lua_State *L, const char *usage) {
  lsc_op_t *op = lsc__method_op(L, usage);
  if (!op->has_key)
    luaL_error(L, "%s: no current key; keyed state and timers belong to the key of a record or "
               "timer of a stream after key_by", usage);
  return op;
}

void lsc__method(lua_State *L, const char *name, lua_CFunction f, int box, int table, int n) {
  lua_pushvalue(L, box);
  lua_pushvalue(L, table);
  lua_rotate(L, -(n + 2), 2);
  lua_pushcclosure(L, f, n + 2);
  lua_setfield(L, table, name);
}

static int refuse_field(lua_State *L) {
  return luaL_error(L, "%s has no field '%s' to set", lua_tostring(L, lua_upvalueindex(1)),
                    luaL_tolstring(L, 2, NULL));
}

static int to_string(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  return 1;
}

void lsc__seal(lua_State *L, const char *name, lua_CFunction index, int box) {
  lua_createtable(L, 0, 4);
  lua_pushstring(L, name);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, "__name");
  lua_pushvalue(L, -1);
  lua_pushcclosure(L, to_string, 1);
  lua_setfield(L, -3, "__tostring");
  lua_pushcclosure(L, refuse_field, 1);
  lua_setfield(L, -2, "__newindex");
  lua_pushvalue(L, box);
  lua_pushcclosure(L, index, 1);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
}

int lsc__raise(lua_State *L, lsc_op_t *op) {
  luaL_where(L, 1);
  lua_pushstring(L, op->error.message ? op->error.message : sc_error_text(op->error.code));
  sc_error_clear(&op->error);
  lua_concat(L, 2);
  return lua_error(L);
}

int lsc__raise_fail(lua_State *L, lsc_op_t *op) {
  return luaL_error(L, "%s", op->fail.message ? op->fail.message : sc_error_text(op->fail.code));
}

int64_t lsc__check_time(lua_State *L, int arg, const char *what) {
  if (lua_isinteger(L, arg))
    return lua_tointeger(L, arg);
  if (lua_type(L, arg) != LUA_TNUMBER)
    luaL_error(L, "%s must be a number of milliseconds, not a %s", what, luaL_typename(L, arg));
  lua_Integer whole = 0;
  if (!lua_numbertointeger(floor(lua_tonumber(L, arg)), &whole))
    luaL_error(L, "%s must be a whole number of milliseconds that fits 64 bits, not %f", what,
               lua_tonumber(L, arg));
  return whole;
}

/* ---- emitting ---- */

static int emit_unchained(lua_State *L, lsc_op_t *op, int value, bool own) {
  sc_buf_clear(&op->scratch);
  if (lsc_encode(L, value, &op->scratch, &op->error) < 0)
    return lsc__raise(L, op);
  op->item.bytes = sc_buf_bytes(&op->scratch);
  int rc = sc_op_write(op->base.context, &op->item, &op->fail);
  if (rc < 0)
    return lsc__raise_fail(L, op);
  if (rc == 0)
    return 0;
  op->full = true;
  if (!own)
    return 0;
  op->yielded = LSC_YIELD_FULL;
  return lua_yield(L, 0);
}

static int emit_overflow(lua_State *L, lsc_op_t *op, int value) {
  size_t at = op->overflow.bytes.len;
  if (lsc_encode(L, value, &op->overflow.bytes, &op->error) < 0)
    return lsc__raise(L, op);
  lsc__overflow_add(op, &op->item, at);
  return 0;
}

/* A value that cannot be suspended for is copied only where it must be: see runner.h. */
static int emit(lua_State *L, lsc_op_t *op, uint16_t output, int value, const char *usage) {
  if (!op->may_emit)
    return luaL_error(L, "%s: nothing can be emitted in open and close; a push source emits by "
                      "sink:push(value)", usage);
  if (op->fail.code != SC_OK)
    return lsc__raise_fail(L, op);
  if (lua_isnoneornil(L, value))
    return luaL_error(L, "%s: nil cannot be emitted", usage);
  lsc__item(op, output);
  if (!lua_isnoneornil(L, value + 1)) {
    op->item.timestamp = lsc__check_time(L, value + 1, "the timestamp of an emitted value");
    op->item.has_timestamp = true;
  }
  bool own = L == op->co && lua_isyieldable(L);
  if (!op->chained[output])
    return emit_unchained(L, op, value, own);
  if (!own)
    return emit_overflow(L, op, value);
  lua_settop(L, value);
  op->item.shared = true; /* the function goes on, and may keep it */
  op->yielded = LSC_YIELD_VALUE;
  return lua_yield(L, 1);
}

static int context_emit(lua_State *L) {
  lsc_op_t *op = lsc__method_op(L, "ctx:emit(value)");
  if (!op->family->emits)
    return luaL_error(L, "ctx:emit(value): a %s has no main output", op->family->noun);
  return emit(L, op, 0, 2, "ctx:emit(value)");
}

/* Upvalue 3: names of the side outputs to their indices. */
static int context_side(lua_State *L) {
  lsc_op_t *op = lsc__method_op(L, "ctx:side(name, value)");
  lua_pushvalue(L, 2);
  if (lua_isnil(L, 2) || lua_rawget(L, lua_upvalueindex(3)) != LUA_TNUMBER)
    return luaL_error(L, "ctx:side(name, value): no side output '%s' is used; take it with "
                      "stream:side(name)", luaL_tolstring(L, 2, NULL));
  uint16_t output = (uint16_t)lua_tointeger(L, -1);
  lua_pop(L, 1);
  return emit(L, op, output, 3, "ctx:side(name, value)");
}

static int context_now(lua_State *L) {
  lsc_op_t *op = lsc__method_op(L, "ctx:now()");
  lua_pushinteger(L, sc_world_now_ms(op->base.context->world));
  return 1;
}

/* ---- fields that change ---- */

static int context_key(lua_State *L, lsc_op_t *op) {
  if (!op->running || !op->has_key)
    return luaL_error(L, "ctx.key: no current key");
  op->guard = true;
  int rc = lsc_decode(L, sc_buf_bytes(&op->key), &op->error);
  op->guard = false;
  return rc < 0 ? lsc__raise(L, op) : 1;
}

static int context_index(lua_State *L) {
  lsc_op_t **box = lua_touserdata(L, lua_upvalueindex(1));
  lsc_op_t *op = *box;
  const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (!op)
    return luaL_error(L, "ctx.%s: closed, because its operator has ended", name);
  if (strcmp(name, "key") == 0)
    return context_key(L, op);
  if (strcmp(name, "timestamp") == 0) {
    if (op->has_timestamp)
      lua_pushinteger(L, op->timestamp);
    else
      lua_pushnil(L);
    return 1;
  }
  if (strcmp(name, "watermark") == 0) {
    lua_pushinteger(L, op->base.context->watermark);
    return 1;
  }
  return luaL_error(L, "ctx has no field '%s'", luaL_tolstring(L, 2, NULL));
}

/* ---- making it ---- */

static void push_side_outputs(lua_State *L, sc_bytes_t options) {
  lua_newtable(L);
  sc_bytes_t outputs;
  if (sc_value_field(options, sc_bytes_str("outputs"), &outputs) != 1)
    return;
  sc_cursor_t c = sc_cursor(outputs);
  sc_token_t t;
  if (sc_cursor_next(&c, &t) != 1 || t.type != SC_ARRAY)
    return;
  uint32_t n = t.n;
  for (uint32_t i = 0; i < n && sc_cursor_next(&c, &t) == 1 && t.type == SC_STR; i++)
    if (i > 0) {
      lua_pushlstring(L, (const char *)t.s.data, t.s.len);
      lua_pushinteger(L, i);
      lua_rawset(L, -3);
    }
}

void lsc__context_push(lsc_op_t *op, lua_State *L, int box, sc_bytes_t options) {
  const sc_op_context_t *c = op->base.context;
  lua_createtable(L, 0, 12);
  int ctx = lua_gettop(L);
  lsc__method(L, "emit", context_emit, box, ctx, 0);
  push_side_outputs(L, options);
  lsc__method(L, "side", context_side, box, ctx, 1);
  lsc__method(L, "now", context_now, box, ctx, 0);
  lsc__states_push(op, L, box);
  lua_setfield(L, ctx, "state");
  lsc__timers_push(op, L, box);
  lua_setfield(L, ctx, "timers");
  lua_pushinteger(L, c->subtask);
  lua_setfield(L, ctx, "subtask");
  lua_pushinteger(L, c->parallelism);
  lua_setfield(L, ctx, "parallelism");
  lua_pushstring(L, c->name);
  lua_setfield(L, ctx, "name");
  lua_pushstring(L, c->uid);
  lua_setfield(L, ctx, "uid");
  lua_pushfstring(L, "ctx of %s", c->label);
  const char *title = lua_tostring(L, -1);
  lua_insert(L, ctx); /* the title stays alive below while it is copied into the metatable */
  lsc__seal(L, title, context_index, box);
  lua_remove(L, ctx);
}
