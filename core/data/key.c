#include "key.h"

#include "value.h"

/* Bytes. */

int sc_key_refuse(sc_error_t *err, const char *what) {
  return sc_fail(err, SC_EKEY,
                 "a key must be a boolean, a number, a string or an array of these, not %s", what);
}

int sc_key_append_float(sc_buf_t *out, double v, sc_error_t *err) {
  if (v != v)
    return sc_key_refuse(err, "NaN");
  /* 2^63 itself is exact as a double, and the first whole number that no int64 holds. */
  if (v >= -0x1p63 && v < 0x1p63 && (double)(int64_t)v == v)
    sc_pack_int(out, (int64_t)v);
  else
    sc_pack_float(out, v);
  return 0;
}

static int append_scalar(sc_buf_t *out, const sc_token_t *token, sc_error_t *err) {
  switch (token->type) {
    case SC_BOOL: sc_pack_bool(out, token->b); return 0;
    case SC_INT: sc_pack_int(out, token->i); return 0;
    case SC_FLOAT: return sc_key_append_float(out, token->f, err);
    case SC_STR: sc_pack_str(out, token->s); return 0;
    case SC_NIL: return sc_key_refuse(err, "nil");
    case SC_MAP: return sc_key_refuse(err, "a map");
    default: return sc_key_refuse(err, "an array inside an array");
  }
}

static int append_value(sc_buf_t *out, sc_bytes_t value, sc_error_t *err) {
  sc_cursor_t c = sc_cursor(value);
  sc_token_t token = {.type = SC_NIL};
  int rc = sc_cursor_next(&c, &token);
  uint32_t left = 1;
  if (rc == 1 && token.type == SC_ARRAY) {
    left = token.n;
    sc_pack_array(out, left);
    rc = left ? sc_cursor_next(&c, &token) : 1;
  }
  for (; rc == 1 && left; left--) {
    int refused = append_scalar(out, &token, err);
    if (refused < 0)
      return refused;
    if (left > 1)
      rc = sc_cursor_next(&c, &token);
  }
  if (rc != 1 || c.at != c.end)
    return sc_fail(err, SC_ECORRUPT, "the value of a key is damaged");
  return 0;
}

int sc_key_append(sc_buf_t *out, sc_bytes_t value, sc_error_t *err) {
  size_t start = out->len;
  int rc = append_value(out, value, err);
  if (rc < 0)
    out->len = start;
  return rc;
}

/* Hashes. Unsigned arithmetic throughout: it wraps where the reference's does. */

static inline uint32_t fold(uint64_t v) { return (uint32_t)v ^ (uint32_t)(v >> 32); }

/* sum of s[i] * 31^(n-1-i), four bytes a round: one multiplication of the running value instead of
 * four that wait for each other. */
static uint32_t hash_str(sc_bytes_t s) {
  uint32_t h = 0;
  size_t i = 0;
  for (; s.len - i >= 4; i += 4) {
    const uint8_t *p = s.data + i;
    h = h * 923521u + p[0] * 29791u + p[1] * 961u + p[2] * 31u + p[3];
  }
  for (; i < s.len; i++)
    h = h * 31u + s.data[i];
  return h;
}

static inline uint32_t hash_scalar(const sc_token_t *token) {
  uint64_t bits;
  switch (token->type) {
    case SC_BOOL: return token->b ? 1231 : 1237;
    case SC_INT: return fold((uint64_t)token->i);
    case SC_FLOAT:
      memcpy(&bits, &token->f, sizeof bits);
      return fold(bits);
    case SC_STR: return hash_str(token->s);
    default: return 0; /* not in key bytes */
  }
}

/* Of a key that is no integer. */
static int32_t hash_long(sc_bytes_t key) {
  sc_cursor_t c = sc_cursor(key);
  sc_token_t token;
  if (sc_cursor_next(&c, &token) != 1)
    return 0;
  if (token.type != SC_ARRAY)
    return (int32_t)hash_scalar(&token);
  uint32_t h = 1;
  for (uint32_t left = token.n; left && sc_cursor_next(&c, &token) == 1; left--)
    h = h * 31u + hash_scalar(&token);
  return (int32_t)h;
}

static inline int32_t hash_key(sc_bytes_t key) {
  sc_cursor_t c = sc_cursor(key);
  int64_t number;
  return sc_cursor_int(&c, &number) ? (int32_t)fold((uint64_t)number) : hash_long(key);
}

int32_t sc_key_hash32(sc_bytes_t key) { return hash_key(key); }

static inline uint32_t rotate_left(uint32_t v, unsigned by) { return v << by | v >> (32 - by); }

static inline int32_t spread(int32_t hash) {
  uint32_t h = (uint32_t)hash;
  h = rotate_left(h * 0xcc9e2d51u, 15) * 0x1b873593u;
  h = rotate_left(h, 13) * 5 + 0xe6546b64u;
  h ^= 4; /* the length of what was hashed */
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  h ^= h >> 16;
  /* Its absolute value, and 0 where there is none. Without a branch: half of all keys would be
   * guessed wrongly. */
  uint32_t sign = 0u - (h >> 31);
  return (int32_t)(((h ^ sign) - sign) & INT32_MAX);
}

int32_t sc_key_spread(int32_t hash) { return spread(hash); }

uint16_t sc_key_group(sc_bytes_t key, uint32_t max_parallelism) {
  sc_assert(max_parallelism >= 1 && max_parallelism <= SC_MAX_PARALLELISM_LIMIT);
  uint32_t h = (uint32_t)spread(hash_key(key));
  /* A division would be a tenth of what a sender does for a record. */
  bool power_of_two = (max_parallelism & (max_parallelism - 1)) == 0;
  return (uint16_t)(power_of_two ? h & (max_parallelism - 1) : h % max_parallelism);
}

/* Groups and their owners. Products stay below 2^31: both factors are at most 2^15. */

static void assert_parallelism(uint32_t max_parallelism, uint32_t parallelism) {
  sc_assert(max_parallelism <= SC_MAX_PARALLELISM_LIMIT);
  sc_assert(parallelism >= 1 && parallelism <= max_parallelism);
}

sc_key_range_t sc_key_range(uint32_t max_parallelism, uint32_t parallelism, uint32_t index) {
  assert_parallelism(max_parallelism, parallelism);
  sc_assert(index < parallelism);
  uint32_t first = (index * max_parallelism + parallelism - 1) / parallelism;
  uint32_t last = ((index + 1) * max_parallelism - 1) / parallelism;
  return (sc_key_range_t){(uint16_t)first, (uint16_t)last};
}

uint32_t sc_default_max_parallelism(uint32_t parallelism) {
  uint64_t wanted = (uint64_t)parallelism + parallelism / 2;
  uint32_t n = 128;
  while (n < wanted && n < SC_MAX_PARALLELISM_LIMIT)
    n *= 2;
  return n;
}

int sc_parallelism_check(const char *what, int64_t parallelism, int64_t max_parallelism,
                         sc_error_t *err) {
  if (max_parallelism < 1 || max_parallelism > SC_MAX_PARALLELISM_LIMIT)
    return sc_fail(err, SC_EINVAL,
                   "%s: max_parallelism must be 1 to %d, not %lld (parallelism is %lld)", what,
                   SC_MAX_PARALLELISM_LIMIT, (long long)max_parallelism, (long long)parallelism);
  if (parallelism < 1 || parallelism > max_parallelism)
    return sc_fail(err, SC_EINVAL, "%s: parallelism must be 1 to max_parallelism %lld, not %lld",
                   what, (long long)max_parallelism, (long long)parallelism);
  return 0;
}
