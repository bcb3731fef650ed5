#include "lua_value.h"

#include "codec.h"

/* A receiver's function may have got hold of the coroutine where the value lies, and closed it. */
static int check_there(lua_State *from, sc_error_t *err) {
  if (lua_gettop(from) == 0)
    return sc_fail(err, SC_EUSER, "the coroutine of the emitting function was resumed or closed by "
                                  "another function");
  return 0;
}

static int value_encode(void *opaque, sc_buf_t *out, sc_error_t *err) {
  const lsc_value_t *v = opaque;
  int rc = check_there(v->from, err);
  return rc < 0 ? rc : lsc_encode(v->from, -1, out, err);
}

static int value_field(void *opaque, sc_bytes_t name, sc_buf_t *out, sc_error_t *err) {
  const lsc_value_t *v = opaque;
  int rc = check_there(v->from, err);
  if (rc == 0 && lua_type(v->from, -1) != LUA_TTABLE)
    return 0;
  if (rc == 0)
    rc = lsc_host_push_name(v->host, v->from, name, err);
  if (rc < 0)
    return rc;
  /* Raw, as encoding is: a field is the same whether the record has been encoded or not. */
  if (lua_rawget(v->from, -2) != LUA_TNIL)
    rc = lsc_encode(v->from, -1, out, err) < 0 ? SC_EVALUE : 1;
  lua_pop(v->from, 1);
  return rc;
}

const sc_opaque_ops_t lsc__value_ops = {value_encode, value_field};

typedef struct decode_args {
  sc_bytes_t bytes; /* one value */
  int rc;           /* out: what decoding returned */
  sc_error_t *err;  /* out: why it failed */
} decode_args_t;

static int decode(lua_State *L) {
  decode_args_t *args = lua_touserdata(L, 1);
  args->rc = lsc_decode(L, args->bytes, args->err);
  return args->rc < 0 ? 0 : 1;
}

/* Numbers, booleans and nil are made without memory: nothing can be raised. */
static bool is_scalar(sc_bytes_t bytes) {
  if (bytes.len == 0)
    return false;
  uint8_t b = bytes.data[0];
  return b < 0x80 || b >= 0xe0 || b == 0xc0 || b == 0xc2 || b == 0xc3 || (b >= 0xca && b <= 0xd3);
}

int lsc__value_push(lua_State *to, sc_bytes_t bytes, sc_error_t *err) {
  if (is_scalar(bytes))
    return lsc_decode(to, bytes, err);
  decode_args_t args = {bytes, 0, err};
  int rc = lsc_protect(to, decode, &args, 1, err);
  if (rc < 0)
    return rc;
  if (args.rc < 0)
    lua_pop(to, 1);
  return args.rc < 0 ? args.rc : 0;
}

/* Move a copy of the top of `from` to `to`. A null inside containers is nil on its own, as it would
 * be had it gone through bytes. */
static int push_reference(lua_State *from, lua_State *to, sc_error_t *err) {
  if (!lua_checkstack(from, 1) || !lua_checkstack(to, 1))
    return sc_fail(err, SC_ELIMIT, "the stack of the Lua state is full");
  int rc = check_there(from, err);
  if (rc < 0)
    return rc;
  if (lua_type(from, -1) == LUA_TLIGHTUSERDATA && !lua_touserdata(from, -1)) {
    lua_pushnil(to);
    return 0;
  }
  lua_pushvalue(from, -1);
  lua_xmove(from, to, 1);
  return 0;
}

/* ---- copies ---- */

static uint32_t count_fields(lua_State *L, int t) {
  uint32_t n = 0;
  for (lua_pushnil(L); lua_next(L, t); lua_pop(L, 1))
    n++;
  return n;
}

/* Push a copy of the table at the top, as it would come back from bytes; 0 with nothing pushed
 * where it holds what has none: bytes then say what that is. Twice as fast as the way through
 * bytes. */
static int copy_table(lua_State *L, int depth) {
  int from = lua_gettop(L);
  if (depth > SC_VALUE_DEPTH_MAX || !lua_checkstack(L, 6))
    return 0;
  uint32_t elements = (uint32_t)lua_rawlen(L, from), fields = count_fields(L, from);
  lua_createtable(L, (int)elements, fields > elements ? (int)(fields - elements) : 0);
  for (lua_pushnil(L); lua_next(L, from);) {
    int key = lua_type(L, -2), type = lua_type(L, -1);
    bool plain = type == LUA_TSTRING || type == LUA_TNUMBER || type == LUA_TBOOLEAN ||
                 (type == LUA_TLIGHTUSERDATA && !lua_touserdata(L, -1));
    bool named = key == LUA_TSTRING || key == LUA_TNUMBER || key == LUA_TBOOLEAN;
    if (!named || !(plain || (type == LUA_TTABLE && copy_table(L, depth + 1)))) {
      lua_settop(L, from);
      return 0;
    }
    if (!plain)
      lua_remove(L, -2); /* the original below its copy */
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, from + 1);
  }
  if (lsc_is_array(L, from)) {
    lsc_array_metatable(L);
    lua_setmetatable(L, from + 1);
  }
  return 1;
}

/* Protected. The original lies at the top of `from`, a thread that is not running. */
static int copy(lua_State *L) {
  lua_State *from = lua_touserdata(L, 1);
  lua_pushvalue(from, -1);
  lua_xmove(from, L, 1);
  return copy_table(L, 1);
}

/* Push a copy of the table at the top of `from`. */
static int push_copy(lua_State *from, lua_State *to, sc_buf_t *scratch, sc_error_t *err) {
  int rc = lsc_protect(to, copy, from, 1, err);
  if (rc < 0 || !lua_isnil(to, -1))
    return rc < 0 ? rc : 0;
  lua_pop(to, 1);
  sc_buf_clear(scratch);
  rc = lsc_encode(from, -1, scratch, err);
  if (rc < 0)
    return sc_fail_cause(err, rc, "a value that was emitted to it cannot be sent");
  return lsc__value_push(to, sc_buf_bytes(scratch), err);
}

int lsc__value_take(lsc_host_t *host, lua_State *to, const sc_item_t *item, sc_buf_t *scratch,
                    sc_error_t *err) {
  if (!item->opaque_ops)
    return lsc__value_push(to, item->bytes, err);
  const lsc_value_t *v = item->opaque;
  if (item->opaque_ops == &lsc__value_ops && v->host == host) {
    bool copied = item->shared && lua_gettop(v->from) > 0 && lua_istable(v->from, -1);
    if (copied && lua_checkstack(v->from, 1))
      return push_copy(v->from, to, scratch, err);
    return push_reference(v->from, to, err);
  }
  sc_buf_clear(scratch);
  int rc = item->opaque_ops->encode(item->opaque, scratch, err);
  return rc < 0 ? rc : lsc__value_push(to, sc_buf_bytes(scratch), err);
}
