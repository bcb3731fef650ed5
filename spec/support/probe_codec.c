/* lua/binding/codec for specs, and loops over it for its benchmark. */
#include "probe.h"

#include <stdlib.h>
#include <string.h>

#include "../../lua/binding/codec.h"

static const char before[] = "before";

/* What a failure must leave untouched stands before the bytes. */
static int push_encoded(lua_State *L, int rc, int top, sc_buf_t *out, sc_error_t *err) {
  size_t n = sizeof before - 1;
  sc_assert(lua_gettop(L) == top);
  sc_assert(out->len >= n && memcmp(out->data, before, n) == 0 && (rc == 0) == (out->len > n));
  if (rc == 0)
    lua_pushlstring(L, (const char *)out->data + n, out->len - n);
  sc_buf_free(out);
  return rc == 0 ? 1 : probe_fail(L, rc, err);
}

static int codec_encode(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_buf_t out = SC_BUF_INIT;
  luaL_checkany(L, 1);
  int top = lua_gettop(L);
  sc_buf_puts(&out, before);
  return push_encoded(L, lsc_encode(L, 1, &out, &err), top, &out, &err);
}

static int codec_encode_key(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_buf_t out = SC_BUF_INIT;
  luaL_checkany(L, 1);
  int top = lua_gettop(L);
  sc_buf_puts(&out, before);
  return push_encoded(L, lsc_encode_key(L, 1, &out, &err), top, &out, &err);
}

static int codec_decode(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_bytes_t b = sc_bytes_copy(probe_bytes(L, 1)); /* without the zero behind a Lua string */
  int top = lua_gettop(L);
  int rc = lsc_decode(L, b, &err);
  free((void *)b.data);
  sc_assert(lua_gettop(L) == top + (rc == 0));
  return rc == 0 ? 1 : probe_fail(L, rc, &err);
}

static int codec_null(lua_State *L) {
  lsc_push_null(L);
  return 1;
}

static int codec_array(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lsc_array_metatable(L);
  lua_setmetatable(L, 1);
  return 1;
}

static int codec_is_array(lua_State *L) {
  lua_pushboolean(L, lsc_is_array(L, 1));
  return 1;
}

/* codec_encode_times(value, n), codec_decode_times(bytes, n): for the benchmark. */

static int codec_encode_times(lua_State *L) {
  sc_buf_t out = SC_BUF_INIT;
  for (lua_Integer n = luaL_checkinteger(L, 2); n > 0; n--) {
    sc_buf_clear(&out);
    lsc_encode(L, 1, &out, NULL);
  }
  sc_buf_free(&out);
  return 0;
}

static int codec_decode_times(lua_State *L) {
  sc_bytes_t b = probe_bytes(L, 1);
  for (lua_Integer n = luaL_checkinteger(L, 2); n > 0; n--)
    if (lsc_decode(L, b, NULL) == 0)
      lua_pop(L, 1);
  return 0;
}

void probe_codec(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"codec_encode", codec_encode},
      {"codec_encode_key", codec_encode_key},
      {"codec_decode", codec_decode},
      {"codec_null", codec_null},
      {"codec_array", codec_array},
      {"codec_is_array", codec_is_array},
      {"codec_encode_times", codec_encode_times},
      {"codec_decode_times", codec_decode_times},
      {NULL, NULL}};
  lsc_codec_open(L);
  luaL_setfuncs(L, functions, 0);
}
