/* The rooms of core/data for specs, and msgpack-c's own unpacker beside them as an oracle. */
#include "probe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <msgpack/object.h>
#include <msgpack/unpack.h>

#include "../../core/base/mem.h"
#include "../../core/data/key.h"
#include "../../core/data/record.h"
#include "../../core/data/value.h"

/* A copy that ends where its memory ends, so that AddressSanitizer sees a read past it. Lua's own
 * strings have a byte more. For release(). */
static sc_bytes_t tight(lua_State *L, int arg) {
  sc_bytes_t b = probe_bytes(L, arg);
  uint8_t *copy = sc_malloc(b.len);
  if (b.len)
    memcpy(copy, b.data, b.len);
  return (sc_bytes_t){copy, b.len};
}

static void release(sc_bytes_t b) { free((void *)b.data); }

static int push_buf(lua_State *L, sc_buf_t *buf) {
  probe_push_bytes(L, sc_buf_bytes(buf));
  sc_buf_free(buf);
  return 1;
}

/* Tokens as text, the same from the cursor and from the oracle: "n" "b:1" "i:-5" "f:<bits>"
 * "s:<bytes>" "a:<elements>" "m:<pairs>". */

static void push_float(lua_State *L, double v) {
  char text[32];
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  snprintf(text, sizeof text, "f:%016" PRIx64, bits);
  lua_pushstring(L, text);
}

static void push_str(lua_State *L, const void *data, size_t n) {
  lua_pushliteral(L, "s:");
  lua_pushlstring(L, n ? data : "", n);
  lua_concat(L, 2);
}

static void push_token(lua_State *L, const sc_token_t *t) {
  switch (t->type) {
    case SC_NIL: lua_pushliteral(L, "n"); break;
    case SC_BOOL: lua_pushstring(L, t->b ? "b:1" : "b:0"); break;
    case SC_INT: lua_pushfstring(L, "i:%I", (LUAI_UACINT)t->i); break;
    case SC_FLOAT: push_float(L, t->f); break;
    case SC_STR: push_str(L, t->s.data, t->s.len); break;
    case SC_ARRAY: lua_pushfstring(L, "a:%d", (int)t->n); break;
    case SC_MAP: lua_pushfstring(L, "m:%d", (int)t->n); break;
  }
}

/* value_tokens(bytes) -> list, or nil and the message: all tokens up to the end. */
static int value_tokens(lua_State *L) {
  sc_bytes_t b = tight(L, 1);
  sc_cursor_t c = sc_cursor(b);
  sc_token_t t;
  int rc;
  lua_newtable(L);
  for (int i = 1; (rc = sc_cursor_next(&c, &t)) == 1; i++) {
    push_token(L, &t);
    lua_rawseti(L, -2, i);
  }
  release(b);
  sc_error_t err = SC_ERROR_INIT;
  return rc < 0 ? probe_fail(L, rc, &err) : 1;
}

/* value_int(bytes) -> integer, or nil; and how many bytes are left */
static int value_int(lua_State *L) {
  sc_bytes_t b = tight(L, 1);
  sc_cursor_t c = sc_cursor(b);
  int64_t v;
  if (sc_cursor_int(&c, &v))
    lua_pushinteger(L, v);
  else
    lua_pushnil(L);
  lua_pushinteger(L, c.end - c.at);
  release(b);
  return 2;
}

/* value_ints(bytes, n) -> list, or nil */
static int value_ints(lua_State *L) {
  int64_t out[32];
  sc_bytes_t b = tight(L, 1);
  uint32_t n = (uint32_t)luaL_checkinteger(L, 2);
  sc_assert(n <= 32);
  bool good = sc_value_ints(b, out, n);
  release(b);
  if (!good)
    return 0;
  lua_createtable(L, (int)n, 0);
  for (uint32_t i = 0; i < n; i++) {
    lua_pushinteger(L, out[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* value_array(bytes) -> elements, or -1; and how many bytes are left */
static int value_array(lua_State *L) {
  sc_bytes_t b = tight(L, 1);
  sc_cursor_t c = sc_cursor(b);
  lua_pushinteger(L, sc_cursor_array(&c));
  lua_pushinteger(L, c.end - c.at);
  release(b);
  return 2;
}

static void oracle_append(lua_State *L, const msgpack_object *o) {
  switch (o->type) {
    case MSGPACK_OBJECT_NIL: lua_pushliteral(L, "n"); break;
    case MSGPACK_OBJECT_BOOLEAN: lua_pushstring(L, o->via.boolean ? "b:1" : "b:0"); break;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
      lua_pushfstring(L, "i:%I", (LUAI_UACINT)o->via.u64);
      break;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
      lua_pushfstring(L, "i:%I", (LUAI_UACINT)o->via.i64);
      break;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64: push_float(L, o->via.f64); break;
    case MSGPACK_OBJECT_STR: push_str(L, o->via.str.ptr, o->via.str.size); break;
    case MSGPACK_OBJECT_BIN: push_str(L, o->via.bin.ptr, o->via.bin.size); break;
    case MSGPACK_OBJECT_ARRAY: lua_pushfstring(L, "a:%d", (int)o->via.array.size); break;
    case MSGPACK_OBJECT_MAP: lua_pushfstring(L, "m:%d", (int)o->via.map.size); break;
    default: lua_pushliteral(L, "ext"); break;
  }
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  if (o->type == MSGPACK_OBJECT_ARRAY)
    for (uint32_t i = 0; i < o->via.array.size; i++)
      oracle_append(L, &o->via.array.ptr[i]);
  if (o->type == MSGPACK_OBJECT_MAP)
    for (uint32_t i = 0; i < o->via.map.size; i++) {
      oracle_append(L, &o->via.map.ptr[i].key);
      oracle_append(L, &o->via.map.ptr[i].val);
    }
}

/* oracle_tokens(bytes) -> list and the number of bytes that msgpack-c took, or nil. */
static int oracle_tokens(lua_State *L) {
  sc_bytes_t b = probe_bytes(L, 1);
  msgpack_unpacked result;
  msgpack_unpacked_init(&result);
  size_t taken = 0;
  msgpack_unpack_return rc = msgpack_unpack_next(&result, (const char *)b.data, b.len, &taken);
  if (rc == MSGPACK_UNPACK_SUCCESS) {
    lua_newtable(L);
    oracle_append(L, &result.data);
    lua_pushinteger(L, (lua_Integer)taken);
  } else {
    lua_pushnil(L);
    lua_pushnil(L);
  }
  msgpack_unpacked_destroy(&result);
  return 2;
}

static int value_check(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_bytes_t b = tight(L, 1);
  int rc = sc_value_check(b, &err);
  release(b);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  lua_pushboolean(L, 1);
  return 1;
}

/* value_split(bytes) -> the values that stand one behind the other in it. */
static int value_split(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_bytes_t b = tight(L, 1), value;
  sc_cursor_t c = sc_cursor(b);
  int rc;
  lua_newtable(L);
  for (int i = 1; (rc = sc_cursor_value(&c, &value)) == 1; i++) {
    probe_push_bytes(L, value);
    lua_rawseti(L, -2, i);
  }
  release(b);
  return rc < 0 ? probe_fail(L, rc, &err) : 1;
}

static int value_field(lua_State *L) {
  sc_bytes_t map = tight(L, 1), out;
  if (sc_value_field(map, probe_bytes(L, 2), &out) == 1)
    probe_push_bytes(L, out);
  else
    lua_pushnil(L);
  release(map);
  return 1;
}

static int value_field_int(lua_State *L) {
  lua_pushinteger(L, sc_value_field_int(probe_bytes(L, 1), luaL_checkstring(L, 2),
                                        luaL_checkinteger(L, 3)));
  return 1;
}

static int value_field_float(lua_State *L) {
  lua_pushnumber(L, sc_value_field_float(probe_bytes(L, 1), luaL_checkstring(L, 2),
                                         luaL_checknumber(L, 3)));
  return 1;
}

static int value_field_bool(lua_State *L) {
  lua_pushboolean(L, sc_value_field_bool(probe_bytes(L, 1), luaL_checkstring(L, 2),
                                         lua_toboolean(L, 3)));
  return 1;
}

static int value_field_str(lua_State *L) {
  char *text = sc_value_field_str(probe_bytes(L, 1), luaL_checkstring(L, 2));
  lua_pushstring(L, text);
  free(text);
  return 1;
}

static int value_print(lua_State *L) {
  sc_buf_t out = SC_BUF_INIT;
  sc_bytes_t b = tight(L, 1);
  sc_buf_puts(&out, luaL_optstring(L, 3, ""));
  sc_value_print(b, (size_t)luaL_optinteger(L, 2, 1000), &out);
  release(b);
  return push_buf(L, &out);
}

/* Packing: each returns the bytes of one token. */

static int pack_nil(lua_State *L) {
  sc_buf_t out = SC_BUF_INIT;
  sc_pack_nil(&out);
  return push_buf(L, &out);
}

static int pack_bool(lua_State *L) {
  sc_buf_t out = SC_BUF_INIT;
  sc_pack_bool(&out, lua_toboolean(L, 1));
  return push_buf(L, &out);
}

static int pack_int(lua_State *L) {
  lua_Integer v = luaL_checkinteger(L, 1);
  sc_buf_t out = SC_BUF_INIT;
  sc_pack_int(&out, v);
  return push_buf(L, &out);
}

static int pack_float(lua_State *L) {
  double v = luaL_checknumber(L, 1);
  sc_buf_t out = SC_BUF_INIT;
  sc_pack_float(&out, v);
  return push_buf(L, &out);
}

static int pack_str(lua_State *L) {
  sc_bytes_t v = probe_bytes(L, 1);
  sc_buf_t out = SC_BUF_INIT;
  sc_pack_str(&out, v);
  return push_buf(L, &out);
}

static int pack_array(lua_State *L) {
  uint32_t n = (uint32_t)luaL_checkinteger(L, 1);
  sc_buf_t out = SC_BUF_INIT;
  sc_pack_array(&out, n);
  return push_buf(L, &out);
}

static int pack_map(lua_State *L) {
  uint32_t n = (uint32_t)luaL_checkinteger(L, 1);
  sc_buf_t out = SC_BUF_INIT;
  sc_pack_map(&out, n);
  return push_buf(L, &out);
}

/* Keys. */

/* What a refused key must leave untouched stands before it: "before" is stripped again. */
static int push_key(lua_State *L, int rc, sc_buf_t *out, sc_error_t *err) {
  if (rc < 0) {
    sc_assert(out->len == 6);
    sc_buf_free(out);
    return probe_fail(L, rc, err);
  }
  lua_pushlstring(L, (const char *)out->data + 6, out->len - 6);
  sc_buf_free(out);
  return 1;
}

static int key_append(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_buf_t out = SC_BUF_INIT;
  sc_bytes_t value = tight(L, 1);
  sc_buf_puts(&out, "before");
  int rc = sc_key_append(&out, value, &err);
  release(value);
  return push_key(L, rc, &out, &err);
}

static int key_append_float(lua_State *L) {
  double v = luaL_checknumber(L, 1);
  sc_error_t err = SC_ERROR_INIT;
  sc_buf_t out = SC_BUF_INIT;
  sc_buf_puts(&out, "before");
  return push_key(L, sc_key_append_float(&out, v, &err), &out, &err);
}

static int key_hash32(lua_State *L) {
  lua_pushinteger(L, sc_key_hash32(probe_bytes(L, 1)));
  return 1;
}

static int key_spread(lua_State *L) {
  lua_pushinteger(L, sc_key_spread((int32_t)luaL_checkinteger(L, 1)));
  return 1;
}

static int key_group(lua_State *L) {
  lua_pushinteger(L, sc_key_group(probe_bytes(L, 1), (uint32_t)luaL_checkinteger(L, 2)));
  return 1;
}

static int key_range(lua_State *L) {
  sc_key_range_t r =
      sc_key_range((uint32_t)luaL_checkinteger(L, 1), (uint32_t)luaL_checkinteger(L, 2),
                   (uint32_t)luaL_checkinteger(L, 3));
  lua_pushinteger(L, r.first);
  lua_pushinteger(L, r.last);
  return 2;
}

static int key_group_owner(lua_State *L) {
  lua_pushinteger(L, sc_key_group_owner((uint32_t)luaL_checkinteger(L, 1),
                                        (uint32_t)luaL_checkinteger(L, 2),
                                        (uint16_t)luaL_checkinteger(L, 3)));
  return 1;
}

static int key_default_max_parallelism(lua_State *L) {
  lua_pushinteger(L, sc_default_max_parallelism((uint32_t)luaL_checkinteger(L, 1)));
  return 1;
}

static int key_parallelism_check(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  int rc = sc_parallelism_check(luaL_checkstring(L, 1), luaL_checkinteger(L, 2),
                                luaL_checkinteger(L, 3), &err);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  lua_pushboolean(L, 1);
  return 1;
}

/* Records. */

/* record_write{ kind, timestamp, key_group, key, value } -> bytes; absent parts set no flag. */
static int record_write(lua_State *L) {
  sc_record_t r = {0};
  lua_settop(L, 1);
  lua_getfield(L, 1, "kind");
  r.kind = (uint8_t)luaL_optinteger(L, 2, SC_RECORD_DATA);
  lua_getfield(L, 1, "timestamp");
  if (!lua_isnil(L, 3)) {
    r.flags |= SC_RECORD_HAS_TIMESTAMP;
    r.timestamp = luaL_checkinteger(L, 3);
  }
  lua_getfield(L, 1, "key");
  lua_getfield(L, 1, "key_group");
  if (!lua_isnil(L, 4)) {
    r.flags |= SC_RECORD_HAS_KEY;
    r.key = probe_bytes(L, 4);
    r.key_group = (uint16_t)luaL_checkinteger(L, 5);
  }
  lua_getfield(L, 1, "value");
  if (!lua_isnil(L, 6))
    r.value = probe_bytes(L, 6);
  size_t n = sc_record_size(&r);
  uint8_t *at = sc_malloc(n);
  sc_record_write(at, &r, n);
  lua_pushlstring(L, (char *)at, n);
  free(at);
  return 1;
}

/* record_read(bytes) -> record, rest; nil at the end; nil, message, code. */
static int record_read(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_bytes_t b = tight(L, 1), in = b;
  sc_record_t r;
  int rc = sc_record_read(&in, &r);
  if (rc <= 0) {
    sc_assert(in.data == b.data && in.len == b.len);
    release(b);
    lua_pushnil(L);
    return rc == 0 ? 1 : probe_fail(L, rc, &err);
  }
  lua_newtable(L);
  lua_pushinteger(L, r.kind);
  lua_setfield(L, -2, "kind");
  if (r.flags & SC_RECORD_HAS_TIMESTAMP) {
    lua_pushinteger(L, r.timestamp);
    lua_setfield(L, -2, "timestamp");
  }
  if (r.flags & SC_RECORD_HAS_KEY) {
    probe_push_bytes(L, r.key);
    lua_setfield(L, -2, "key");
    lua_pushinteger(L, r.key_group);
    lua_setfield(L, -2, "key_group");
  }
  probe_push_bytes(L, r.value);
  lua_setfield(L, -2, "value");
  probe_push_bytes(L, in);
  release(b);
  return 2;
}

void probe_data(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"value_tokens", value_tokens},
      {"value_check", value_check},
      {"value_split", value_split},
      {"value_int", value_int},
      {"value_array", value_array},
      {"value_ints", value_ints},
      {"value_field", value_field},
      {"value_field_int", value_field_int},
      {"value_field_float", value_field_float},
      {"value_field_bool", value_field_bool},
      {"value_field_str", value_field_str},
      {"value_print", value_print},
      {"value_oracle_tokens", oracle_tokens},
      {"value_pack_nil", pack_nil},
      {"value_pack_bool", pack_bool},
      {"value_pack_int", pack_int},
      {"value_pack_float", pack_float},
      {"value_pack_str", pack_str},
      {"value_pack_array", pack_array},
      {"value_pack_map", pack_map},
      {"key_append", key_append},
      {"key_append_float", key_append_float},
      {"key_hash32", key_hash32},
      {"key_spread", key_spread},
      {"key_group", key_group},
      {"key_range", key_range},
      {"key_group_owner", key_group_owner},
      {"key_default_max_parallelism", key_default_max_parallelism},
      {"key_parallelism_check", key_parallelism_check},
      {"record_write", record_write},
      {"record_read", record_read},
      {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
