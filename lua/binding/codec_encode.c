#include "codec.h"

#include <stdlib.h>

#include <lauxlib.h>

#include "../../core/base/mem.h"
#include "../../core/data/key.h"
#include "../../core/data/value.h"

#define FEW_PAIRS 32      /* of all maps that are open at once; more are kept in allocated memory */
#define INSERTION_MAX 16  /* up to here insertion is the fastest sort */
#define PATH_LEVELS_MAX 8 /* of a path in a message; the rest is "..." */
#define PATH_KEY_MAX 40   /* bytes of a key in a path */

/* One pair of a map that is being written, as offsets into the output: those stay true when the
 * output grows. */
typedef struct pair {
  uint64_t prefix; /* first 8 bytes of the encoded key, as a number that orders like the bytes */
  size_t start;    /* where the encoded key begins */
  size_t key_len;
  size_t end;      /* behind the value */
} pair_t;

typedef struct encoder {
  lua_State *L;
  sc_buf_t *out;
  sc_error_t *err;
  unsigned depth;                 /* containers that are open */
  int key_at[SC_VALUE_DEPTH_MAX]; /* stack index of the current key in each, for the path */
  pair_t *pairs;                  /* of all open maps, the innermost last; `few` or allocated */
  size_t n_pairs, cap_pairs;
  pair_t few[FEW_PAIRS];
} encoder_t;

static int encode_value(encoder_t *e, int index);

/* Paths and refusals. */

static bool is_identifier(const char *s, size_t n) {
  for (size_t i = 0; i < n; i++) {
    bool letter = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || s[i] == '_';
    if (!letter && !(i > 0 && s[i] >= '0' && s[i] <= '9'))
      return false;
  }
  return n > 0 && n <= PATH_KEY_MAX;
}

/* A scalar in readable form. */
static void print_key(lua_State *L, int index, sc_buf_t *text) {
  sc_buf_t packed = SC_BUF_INIT;
  if (lsc_encode(L, index, &packed, NULL) == 0)
    sc_value_print(sc_buf_bytes(&packed), PATH_KEY_MAX, text);
  sc_buf_free(&packed);
}

/* "value.user.tags[3]", down through `levels` of the open containers; with a final zero. */
static char *path(encoder_t *e, unsigned levels, sc_buf_t *text) {
  sc_buf_puts(text, "value");
  for (unsigned i = 0; i < levels && i < PATH_LEVELS_MAX; i++) {
    size_t n = 0;
    const char *s = NULL;
    if (lua_type(e->L, e->key_at[i]) == LUA_TSTRING)
      s = lua_tolstring(e->L, e->key_at[i], &n);
    if (s && is_identifier(s, n)) {
      sc_buf_put_u8(text, '.');
      sc_buf_put(text, s, n);
    } else {
      sc_buf_put_u8(text, '[');
      print_key(e->L, e->key_at[i], text);
      sc_buf_put_u8(text, ']');
    }
  }
  if (levels > PATH_LEVELS_MAX)
    sc_buf_puts(text, "...");
  sc_buf_put_u8(text, 0);
  return (char *)text->data;
}

/* "a function" and so on, of what cannot be stored. */
static const char *kind(lua_State *L, int index) {
  switch (lua_type(L, index)) {
    case LUA_TTABLE: return "a table";
    case LUA_TFUNCTION: return "a function";
    case LUA_TTHREAD: return "a coroutine";
    case LUA_TNIL: return "nil";
    default: return "a userdata";
  }
}

/* `what` follows the path of the current value, or with `up` of the container that holds it. */
static int refuse(encoder_t *e, unsigned up, const char *what) {
  sc_buf_t text = SC_BUF_INIT;
  int rc = sc_fail(e->err, SC_EVALUE, "%s %s", path(e, e->depth - up, &text), what);
  sc_buf_free(&text);
  return rc;
}

static int refuse_kind(encoder_t *e, int index) {
  sc_buf_t text = SC_BUF_INIT;
  int rc = sc_fail(e->err, SC_EVALUE,
                   "%s is %s; only nil, booleans, numbers, strings and tables can be stored",
                   path(e, e->depth, &text), kind(e->L, index));
  sc_buf_free(&text);
  return rc;
}

static int refuse_key_kind(encoder_t *e, int key) {
  sc_buf_t text = SC_BUF_INIT;
  int rc = sc_fail(e->err, SC_EVALUE,
                   "%s has a key that is %s; keys are strings, numbers and booleans",
                   path(e, e->depth - 1, &text), kind(e->L, key));
  sc_buf_free(&text);
  return rc;
}

/* A key other than 1..n in what has the key 1, or was made by sc.array. */
static int refuse_mixed(encoder_t *e, int key) {
  int type = lua_type(e->L, key);
  if (type != LUA_TSTRING && type != LUA_TNUMBER && type != LUA_TBOOLEAN)
    return refuse_key_kind(e, key);
  sc_buf_t text = SC_BUF_INIT, shown = SC_BUF_INIT;
  print_key(e->L, key, &shown);
  sc_buf_put_u8(&shown, 0);
  int rc = sc_fail(e->err, SC_EVALUE,
                   "%s has the key %s beside its array part; a table is an array with the keys "
                   "1..n or a map without the key 1",
                   path(e, e->depth - 1, &text), (char *)shown.data);
  sc_buf_free(&shown);
  sc_buf_free(&text);
  return rc;
}

/* Arrays. The current key lies at stack index `key`, its value above it. */

static int begin_array(encoder_t *e, lua_Unsigned n) {
  if (n > UINT32_MAX)
    return refuse(e, 1, "has more than 2^32-1 elements");
  sc_pack_array(e->out, (uint32_t)n);
  return 0;
}

/* The number of keys, all of them integers from 1 on; else a refusal. Uses up the key. */
static int count_elements(encoder_t *e, int t, int key, lua_Unsigned *n) {
  lua_State *L = e->L;
  lua_settop(L, key - 1);
  lua_pushnil(L);
  for (*n = 0; lua_next(L, t); ++*n) {
    if (!lua_isinteger(L, key) || lua_tointeger(L, key) < 1)
      return refuse_mixed(e, key);
    lua_settop(L, key);
  }
  return 0;
}

/* An array whose keys `next` gives in another order, or what only looks like an array. */
static int encode_array_unordered(encoder_t *e, int t, int key) {
  lua_State *L = e->L;
  lua_Unsigned n;
  int rc = count_elements(e, t, key, &n);
  if (rc == 0)
    rc = begin_array(e, n);
  for (lua_Unsigned i = 1; rc == 0 && i <= n; i++) {
    lua_settop(L, key - 1);
    lua_pushinteger(L, (lua_Integer)i);
    if (lua_rawgeti(L, t, (lua_Integer)i) == LUA_TNIL)
      return refuse(e, 0, "is a hole; an array has all keys from 1 to n (sc.null keeps a place)");
    rc = encode_value(e, key + 1);
  }
  return rc;
}

static int encode_array(encoder_t *e, int t, int key) {
  lua_State *L = e->L;
  size_t start = e->out->len;
  lua_Integer i = 0;
  /* Where the keys come as 1, 2, ... to the last, the border is the only one there is. */
  int rc = begin_array(e, lua_rawlen(L, t));
  if (rc < 0)
    return rc;
  do {
    if (!lua_isinteger(L, key) || lua_tointeger(L, key) != ++i) {
      e->out->len = start;
      return encode_array_unordered(e, t, key);
    }
    rc = encode_value(e, key + 1);
    if (rc < 0)
      return rc;
    lua_settop(L, key);
  } while (lua_next(L, t));
  return 0;
}

/* Maps: the pairs are written as `next` gives them, then put in order. */

static inline uint64_t key_prefix(sc_buf_t *out, size_t start, size_t len) {
  sc_buf_reserve(out, 8); /* so that 8 bytes can be read wherever the key begins */
  uint64_t prefix = __builtin_bswap64(sc_load_u64(out->data + start));
  return len < 8 ? prefix & ~(UINT64_MAX >> (8 * len)) : prefix;
}

static void add_pair(encoder_t *e, size_t start, size_t key_len) {
  if (e->n_pairs == e->cap_pairs) {
    pair_t *old = e->pairs == e->few ? NULL : e->pairs;
    e->cap_pairs *= 2;
    e->pairs = sc_realloc(old, e->cap_pairs * sizeof *e->pairs);
    if (!old)
      memcpy(e->pairs, e->few, sizeof e->few);
  }
  e->pairs[e->n_pairs++] =
      (pair_t){key_prefix(e->out, start, key_len), start, key_len, e->out->len};
}

static int compare_pairs(const void *left, const void *right, void *bytes) {
  const pair_t *a = left, *b = right;
  if (a->prefix != b->prefix)
    return a->prefix < b->prefix ? -1 : 1;
  const uint8_t *base = bytes;
  return sc_bytes_compare(sc_bytes(base + a->start, a->key_len),
                          sc_bytes(base + b->start, b->key_len));
}

/* Sort; true if they were in order already. */
static bool sort_pairs(pair_t *pairs, size_t n, uint8_t *bytes) {
  bool sorted = true;
  for (size_t i = 1; i < n; i++) {
    if (compare_pairs(&pairs[i - 1], &pairs[i], bytes) <= 0)
      continue;
    sorted = false;
    if (n > INSERTION_MAX) {
      qsort_r(pairs, n, sizeof *pairs, compare_pairs, bytes);
      return false;
    }
    pair_t moving = pairs[i];
    size_t to = i;
    for (; to > 0 && compare_pairs(&pairs[to - 1], &moving, bytes) > 0; to--)
      pairs[to] = pairs[to - 1];
    pairs[to] = moving;
  }
  return sorted;
}

/* Give the pairs that begin one byte behind `start` their head and their order. */
static void finish_map(sc_buf_t *out, size_t start, pair_t *pairs, size_t n) {
  bool sorted = sort_pairs(pairs, n, out->data);
  if (sorted && n < 16) {
    out->data[start] = (uint8_t)(0x80 | n); /* the head that the byte was kept for */
    return;
  }
  size_t end = out->len;
  sc_pack_map(out, (uint32_t)n);
  sc_buf_reserve(out, end - start);
  for (size_t i = 0; i < n; i++) {
    size_t len = pairs[i].end - pairs[i].start;
    memcpy(out->data + out->len, out->data + pairs[i].start, len);
    out->len += len;
  }
  memmove(out->data + start, out->data + end, out->len - end);
  out->len -= end - start;
}

/* 0, or 1 for the key 1: then this is no map. */
static int encode_map_key(encoder_t *e, int key) {
  lua_State *L = e->L;
  lua_Integer i;
  size_t n;
  const char *s;
  switch (lua_type(L, key)) {
    case LUA_TSTRING:
      s = lua_tolstring(L, key, &n);
      if (n > UINT32_MAX)
        return refuse(e, 1, "has a key longer than 4 GiB");
      sc_pack_str(e->out, sc_bytes(s, n));
      return 0;
    case LUA_TNUMBER:
      if (!lua_isinteger(L, key))
        return sc_key_append_float(e->out, lua_tonumber(L, key), e->err);
      i = lua_tointeger(L, key);
      sc_pack_int(e->out, i);
      return i == 1;
    case LUA_TBOOLEAN:
      sc_pack_bool(e->out, lua_toboolean(L, key));
      return 0;
    default:
      return refuse_key_kind(e, key);
  }
}

static int encode_map(encoder_t *e, int t, int key) {
  lua_State *L = e->L;
  sc_buf_t *out = e->out;
  size_t start = out->len, first = e->n_pairs;
  sc_buf_put_u8(out, 0);
  do {
    size_t key_start = out->len;
    int rc = encode_map_key(e, key);
    if (rc == 1) {
      out->len = start;
      e->n_pairs = first;
      return encode_array_unordered(e, t, key);
    }
    size_t key_len = out->len - key_start;
    if (rc == 0)
      rc = encode_value(e, key + 1);
    if (rc < 0)
      return rc;
    add_pair(e, key_start, key_len);
    lua_settop(L, key);
  } while (lua_next(L, t));
  size_t n = e->n_pairs - first;
  e->n_pairs = first;
  if (n > UINT32_MAX)
    return refuse(e, 1, "has more than 2^32-1 pairs");
  finish_map(out, start, e->pairs + first, n);
  return 0;
}

static int encode_table(encoder_t *e, int t) {
  lua_State *L = e->L;
  if (e->depth == SC_VALUE_DEPTH_MAX)
    return refuse(e, 0, "is in a cycle or nesting deeper than 64");
  if (!lua_checkstack(L, 8))
    return sc_fail(e->err, SC_ELIMIT, "the Lua stack cannot grow to encode a nested value");
  bool made = lsc_is_array(L, t);
  int key = lua_gettop(L) + 1;
  lua_pushnil(L);
  if (!lua_next(L, t)) {
    if (made)
      sc_pack_array(e->out, 0);
    else
      sc_pack_map(e->out, 0);
    return 0;
  }
  e->key_at[e->depth++] = key;
  bool one = lua_isinteger(L, key) && lua_tointeger(L, key) == 1;
  int rc = made || one ? encode_array(e, t, key) : encode_map(e, t, key);
  e->depth--;
  lua_settop(L, key - 1);
  return rc;
}

static int encode_value(encoder_t *e, int index) {
  lua_State *L = e->L;
  size_t n;
  const char *s;
  switch (lua_type(L, index)) {
    case LUA_TSTRING:
      s = lua_tolstring(L, index, &n);
      if (n > UINT32_MAX)
        return refuse(e, 0, "is a string longer than 4 GiB");
      sc_pack_str(e->out, sc_bytes(s, n));
      return 0;
    case LUA_TNUMBER:
      if (lua_isinteger(L, index))
        sc_pack_int(e->out, lua_tointeger(L, index));
      else
        sc_pack_float(e->out, lua_tonumber(L, index));
      return 0;
    case LUA_TTABLE:
      return encode_table(e, index);
    case LUA_TBOOLEAN:
      sc_pack_bool(e->out, lua_toboolean(L, index));
      return 0;
    case LUA_TLIGHTUSERDATA:
      if (lua_touserdata(L, index))
        return refuse_kind(e, index);
      sc_pack_nil(e->out); /* sc.null */
      return 0;
    case LUA_TNIL:
      sc_pack_nil(e->out);
      return 0;
    default:
      return refuse_kind(e, index);
  }
}

int lsc_encode(lua_State *L, int index, sc_buf_t *out, sc_error_t *err) {
  encoder_t e; /* not zeroed as a whole: it is large, and this is once a record */
  e.L = L;
  e.out = out;
  e.err = err;
  e.depth = 0;
  e.pairs = e.few;
  e.n_pairs = 0;
  e.cap_pairs = FEW_PAIRS;
  size_t start = out->len;
  int rc = encode_value(&e, lua_absindex(L, index));
  if (rc < 0)
    out->len = start;
  if (e.pairs != e.few)
    free(e.pairs);
  return rc;
}
