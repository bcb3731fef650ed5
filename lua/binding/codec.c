#include "codec.h"

#include <lauxlib.h>

#include "../../core/data/key.h"
#include "../../core/data/value.h"

/* The metatable of arrays lies in the registry under the address of this. */
static const char array_here;

#define PRESIZE_MAX 65536 /* elements that room is made for on the word of a head alone */

void lsc_codec_open(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &array_here) == LUA_TNIL) {
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "sc.array");
    lua_setfield(L, -2, "__name");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &array_here);
  }
  lua_pop(L, 1);
}

void lsc_push_null(lua_State *L) { lua_pushlightuserdata(L, NULL); }

void lsc_array_metatable(lua_State *L) { lua_rawgetp(L, LUA_REGISTRYINDEX, &array_here); }

bool lsc_is_array(lua_State *L, int index) {
  if (!lua_getmetatable(L, index))
    return false;
  lsc_array_metatable(L);
  bool equal = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return equal;
}

/* Decoding. Names of fields go to lua_pushlstring as they are: a cache from their bytes to strings
 * that Lua has already was no faster (measured), being a look-up of the same kind as Lua's own. */

typedef struct decoder {
  lua_State *L;
  sc_cursor_t c;   /* what is still to read */
  size_t len;      /* of the whole value */
  sc_error_t *err; /* the caller's, may be NULL */
} decoder_t;

static int decode_value(decoder_t *d, unsigned depth);

static int damaged(decoder_t *d, const char *what) {
  return sc_fail(d->err, SC_ECORRUPT, "the value is damaged at byte %zu of %zu: %s",
                 d->len - (size_t)(d->c.end - d->c.at), d->len, what);
}

static int decode_map_key(decoder_t *d) {
  sc_cursor_t before = d->c;
  sc_token_t token;
  if (sc_cursor_next(&d->c, &token) != 1)
    return damaged(d, "a key is missing or unreadable");
  switch (token.type) {
    case SC_STR: lua_pushlstring(d->L, (const char *)token.s.data, token.s.len); return 0;
    case SC_INT: lua_pushinteger(d->L, token.i); return 0;
    case SC_BOOL: lua_pushboolean(d->L, token.b); return 0;
    case SC_FLOAT:
      if (token.f == token.f) {
        lua_pushnumber(d->L, token.f);
        return 0;
      }
      break;
    default: break;
  }
  d->c = before;
  return sc_fail(d->err, SC_EVALUE,
                 "a map has a key at byte %zu that is %s; keys are strings, numbers and booleans",
                 d->len - (size_t)(d->c.end - d->c.at),
                 token.type == SC_FLOAT ? "NaN" : token.type == SC_NIL ? "nil" : "a container");
}

static int decode_map(decoder_t *d, uint32_t n, unsigned depth) {
  lua_createtable(d->L, 0, n < PRESIZE_MAX ? (int)n : PRESIZE_MAX);
  for (; n; n--) {
    int rc = decode_map_key(d);
    if (rc == 0)
      rc = decode_value(d, depth + 1);
    if (rc < 0)
      return rc;
    lua_rawset(d->L, -3);
  }
  return 0;
}

static int decode_array(decoder_t *d, uint32_t n, unsigned depth) {
  lua_createtable(d->L, n < PRESIZE_MAX ? (int)n : PRESIZE_MAX, 0);
  if (n == 0) {
    lsc_array_metatable(d->L);
    lua_setmetatable(d->L, -2);
  }
  for (uint32_t i = 1; n; i++, n--) {
    int rc = decode_value(d, depth + 1);
    if (rc < 0)
      return rc;
    lua_rawseti(d->L, -2, i);
  }
  return 0;
}

static int decode_container(decoder_t *d, const sc_token_t *token, unsigned depth) {
  if (depth == SC_VALUE_DEPTH_MAX)
    return damaged(d, "it is nested deeper than 64");
  if (!lua_checkstack(d->L, 6))
    return sc_fail(d->err, SC_ELIMIT, "the Lua stack cannot grow to decode a nested value");
  return token->type == SC_MAP ? decode_map(d, token->n, depth) : decode_array(d, token->n, depth);
}

/* Push the next value, which `depth` containers are around. */
static int decode_value(decoder_t *d, unsigned depth) {
  sc_token_t token;
  if (sc_cursor_next(&d->c, &token) != 1)
    return damaged(d, "a value is missing or unreadable");
  switch (token.type) {
    case SC_STR: lua_pushlstring(d->L, (const char *)token.s.data, token.s.len); return 0;
    case SC_INT: lua_pushinteger(d->L, token.i); return 0;
    case SC_FLOAT: lua_pushnumber(d->L, token.f); return 0;
    case SC_BOOL: lua_pushboolean(d->L, token.b); return 0;
    case SC_NIL:
      if (depth)
        lsc_push_null(d->L);
      else
        lua_pushnil(d->L);
      return 0;
    default: return decode_container(d, &token, depth);
  }
}

int lsc_decode(lua_State *L, sc_bytes_t value, sc_error_t *err) {
  int top = lua_gettop(L);
  decoder_t d = {L, sc_cursor(value), value.len, err};
  if (!lua_checkstack(L, 6))
    return sc_fail(err, SC_ELIMIT, "the Lua stack cannot grow to decode a value");
  int rc = decode_value(&d, 0);
  if (rc == 0 && d.c.at != d.c.end)
    rc = damaged(&d, "something follows it");
  if (rc < 0)
    lua_settop(L, top);
  return rc;
}

/* Keys. */

static int encode_key_scalar(lua_State *L, int index, sc_buf_t *out, sc_error_t *err) {
  size_t n;
  const char *s;
  switch (lua_type(L, index)) {
    case LUA_TSTRING:
      s = lua_tolstring(L, index, &n);
      if (n > UINT32_MAX)
        return sc_key_refuse(err, "a string longer than 4 GiB");
      sc_pack_str(out, sc_bytes(s, n));
      return 0;
    case LUA_TNUMBER:
      if (!lua_isinteger(L, index))
        return sc_key_append_float(out, lua_tonumber(L, index), err);
      sc_pack_int(out, lua_tointeger(L, index));
      return 0;
    case LUA_TBOOLEAN:
      sc_pack_bool(out, lua_toboolean(L, index));
      return 0;
    case LUA_TNIL: return sc_key_refuse(err, "nil");
    case LUA_TFUNCTION: return sc_key_refuse(err, "a function");
    case LUA_TTHREAD: return sc_key_refuse(err, "a coroutine");
    case LUA_TTABLE: return sc_key_refuse(err, "a table inside an array");
    default: return sc_key_refuse(err, lua_touserdata(L, index) ? "a userdata" : "nil");
  }
}

/* Is the number of keys n, no more? */
static bool has_keys(lua_State *L, int t, lua_Unsigned n) {
  lua_Unsigned count = 0;
  lua_pushnil(L);
  while (lua_next(L, t)) {
    lua_pop(L, 1);
    if (++count > n) {
      lua_pop(L, 1);
      return false;
    }
  }
  return count == n;
}

static int encode_key_array(lua_State *L, int t, sc_buf_t *out, sc_error_t *err) {
  if (!lua_checkstack(L, 4))
    return sc_fail(err, SC_ELIMIT, "the Lua stack cannot grow to encode a key");
  lua_Unsigned n = lua_rawlen(L, t);
  if (n > UINT32_MAX || !has_keys(L, t, n))
    return sc_key_refuse(err, n ? "an array with holes or other keys" : "a map");
  if (n == 0 && !lsc_is_array(L, t))
    return sc_key_refuse(err, "a map (an empty array is made by sc.array)");
  sc_pack_array(out, (uint32_t)n);
  /* With n keys in all, none of 1..n nil means that there are no others. */
  for (lua_Unsigned i = 1; i <= n; i++) {
    lua_rawgeti(L, t, (lua_Integer)i);
    int rc = lua_isnil(L, -1) ? sc_key_refuse(err, "an array with holes or other keys")
                              : encode_key_scalar(L, -1, out, err);
    lua_pop(L, 1);
    if (rc < 0)
      return rc;
  }
  return 0;
}

int lsc_encode_key(lua_State *L, int index, sc_buf_t *out, sc_error_t *err) {
  if (!lua_istable(L, index))
    return encode_key_scalar(L, index, out, err);
  size_t start = out->len;
  int rc = encode_key_array(L, lua_absindex(L, index), out, err);
  if (rc < 0)
    out->len = start;
  return rc;
}
