#include "value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <msgpack/pack.h>

#include "../base/mem.h"

/* Reading. First bytes are those of the msgpack specification. */

static inline uint16_t load_be16(const uint8_t *p) { return __builtin_bswap16(sc_load_u16(p)); }
static inline uint32_t load_be32(const uint8_t *p) { return __builtin_bswap32(sc_load_u32(p)); }
static inline uint64_t load_be64(const uint8_t *p) { return __builtin_bswap64(sc_load_u64(p)); }

/* Big-endian number of 1, 2, 4 or 8 bytes. */
static inline uint64_t load_be(const uint8_t *p, size_t width) {
  switch (width) {
    case 1: return *p;
    case 2: return load_be16(p);
    case 4: return load_be32(p);
    default: return load_be64(p);
  }
}

/* Numbers whose bytes follow their head. They are inlined where the width is a constant: then a
 * number is one load. */

static inline int next_unsigned(sc_cursor_t *c, sc_token_t *token, size_t width) {
  if ((size_t)(c->end - c->at) < 1 + width)
    return SC_ECORRUPT;
  uint64_t bits = load_be(c->at + 1, width);
  if (bits > INT64_MAX)
    return SC_ECORRUPT;
  token->type = SC_INT;
  token->i = (int64_t)bits;
  c->at += 1 + width;
  return 1;
}

static inline int next_signed(sc_cursor_t *c, sc_token_t *token, size_t width) {
  if ((size_t)(c->end - c->at) < 1 + width)
    return SC_ECORRUPT;
  unsigned shift = 64 - 8 * (unsigned)width;
  token->type = SC_INT;
  /* The sign comes from the number's own width. */
  token->i = (int64_t)(load_be(c->at + 1, width) << shift) >> shift;
  c->at += 1 + width;
  return 1;
}

static inline int next_float(sc_cursor_t *c, sc_token_t *token, size_t width) {
  if ((size_t)(c->end - c->at) < 1 + width)
    return SC_ECORRUPT;
  uint64_t bits = load_be(c->at + 1, width);
  token->type = SC_FLOAT;
  if (width == 4) {
    float narrow;
    uint32_t word = (uint32_t)bits;
    memcpy(&narrow, &word, sizeof narrow);
    token->f = narrow;
  } else {
    memcpy(&token->f, &bits, sizeof token->f);
  }
  c->at += 1 + width;
  return 1;
}

/* A string whose length takes `width` bytes. */
static int next_string(sc_cursor_t *c, sc_token_t *token, size_t width) {
  size_t left = (size_t)(c->end - c->at) - 1;
  if (left < width)
    return SC_ECORRUPT;
  size_t n = (size_t)load_be(c->at + 1, width);
  if (left - width < n)
    return SC_ECORRUPT;
  token->type = SC_STR;
  token->s = sc_bytes(c->at + 1 + width, n);
  c->at += 1 + width + n;
  return 1;
}

/* The head of an array or map whose number takes `width` bytes. */
static int next_container(sc_cursor_t *c, sc_token_t *token, sc_type_t type, size_t width) {
  size_t left = (size_t)(c->end - c->at) - 1;
  if (left < width)
    return SC_ECORRUPT;
  uint64_t n = load_be(c->at + 1, width);
  if ((type == SC_MAP ? 2 * n : n) > left - width)
    return SC_ECORRUPT; /* an element takes a byte at least */
  token->type = type;
  token->n = (uint32_t)n;
  c->at += 1 + width;
  return 1;
}

int sc__cursor_next_long(sc_cursor_t *c, sc_token_t *token) {
  uint8_t head = *c->at;
  switch (head) {
    case 0xc0:
      token->type = SC_NIL;
      c->at++;
      return 1;
    case 0xc2: case 0xc3:
      token->type = SC_BOOL;
      token->b = head == 0xc3;
      c->at++;
      return 1;
    case 0xca: return next_float(c, token, 4);
    case 0xcb: return next_float(c, token, 8);
    case 0xcc: return next_unsigned(c, token, 1);
    case 0xcd: return next_unsigned(c, token, 2);
    case 0xce: return next_unsigned(c, token, 4);
    case 0xcf: return next_unsigned(c, token, 8);
    case 0xd0: return next_signed(c, token, 1);
    case 0xd1: return next_signed(c, token, 2);
    case 0xd2: return next_signed(c, token, 4);
    case 0xd3: return next_signed(c, token, 8);
    case 0xc4: case 0xd9: return next_string(c, token, 1);
    case 0xc5: case 0xda: return next_string(c, token, 2);
    case 0xc6: case 0xdb: return next_string(c, token, 4);
    case 0xdc: return next_container(c, token, SC_ARRAY, 2);
    case 0xdd: return next_container(c, token, SC_ARRAY, 4);
    case 0xde: return next_container(c, token, SC_MAP, 2);
    case 0xdf: return next_container(c, token, SC_MAP, 4);
    default: return SC_ECORRUPT;
  }
}

/* Up to 8 bytes as one word, nothing beyond them. */
static inline uint64_t load_few(const uint8_t *at, size_t n) {
  if (n >= 4) {
    uint64_t first = sc_load_u32(at), last = sc_load_u32(at + n - 4);
    return first | last << 8 * (n - 4);
  }
  uint64_t word = 0;
  for (size_t i = 0; i < n; i++)
    word |= (uint64_t)at[i] << 8 * i;
  return word;
}

#define ALL UINT64_MAX
#define TOP ((uint64_t)1 << 63)
const sc_int_head_t sc__int_heads[256] = {
    [0x00 ... 0x7f] = {ALL, 0, 1, 0, 56}, /* the head is the number */
    [0xe0 ... 0xff] = {ALL, 0, 1, 0, 56},
    [0xcc] = {UINT8_MAX, 0, 2, 1, 56}, [0xcd] = {UINT16_MAX, 0, 3, 1, 48},
    [0xce] = {UINT32_MAX, 0, 5, 1, 32}, [0xcf] = {ALL, TOP, 9, 1, 0},
    [0xd0] = {ALL, 0, 2, 1, 56}, [0xd1] = {ALL, 0, 3, 1, 48},
    [0xd2] = {ALL, 0, 5, 1, 32}, [0xd3] = {ALL, 0, 9, 1, 0},
};

bool sc__cursor_int_long(sc_cursor_t *c, int64_t *v) {
  size_t left = (size_t)(c->end - c->at);
  if (left == 0)
    return false;
  const sc_int_head_t *head = &sc__int_heads[*c->at];
  uint64_t bad = 0;
  if (!head->length || head->length > left)
    return false;
  left -= head->skip;
  int64_t number = sc__int_at(head, load_few(c->at + head->skip, left < 8 ? left : 8), &bad);
  if (bad)
    return false;
  *v = number;
  c->at += head->length;
  return true;
}

/* The rare forms: the general way. */
static bool long_ints(sc_bytes_t value, int64_t *out, uint32_t n) {
  sc_cursor_t c = sc_cursor(value);
  bool good = sc_cursor_array(&c) == n;
  for (uint32_t i = 0; good && i < n; i++)
    good = sc_cursor_int(&c, &out[i]);
  return good && c.at == c.end;
}

bool sc_value_ints(sc_bytes_t value, int64_t *out, uint32_t n) {
  const uint8_t *data = value.data;
  size_t len = value.len, at = 1;
  if (n > 15 || len < 1 + (size_t)n || data[0] != 0x90 + n)
    return long_ints(value, out, n);
  /* Near the end the 8 bytes are taken from the last 8 of the value, shifted; a value of less than
   * 8 bytes is one word. */
  uint64_t last = len >= 8 ? sc_load_u64(data + len - 8) : load_few(data, len) << 8 * (8 - len);
  uint64_t bad = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (at >= len)
      return false;
    const sc_int_head_t *head = &sc__int_heads[data[at]];
    size_t from = at + head->skip, left = len - from;
    uint64_t bytes = left >= 8 ? sc_load_u64(data + from) : left ? last >> 8 * (8 - left) : 0;
    out[i] = sc__int_at(head, bytes, &bad);
    at += head->length; /* none: it stays there, before the end */
  }
  return !bad && at == len;
}

int64_t sc__cursor_array_long(sc_cursor_t *c) {
  sc_token_t token;
  sc_cursor_t ahead = *c;
  if (sc_cursor_next(&ahead, &token) != 1 || token.type != SC_ARRAY)
    return -1;
  *c = ahead;
  return token.n;
}

/* How many values follow directly inside the one that begins with this token. */
static inline uint64_t elements(const sc_token_t *token) {
  return token->type == SC_ARRAY ? token->n : token->type == SC_MAP ? 2 * (uint64_t)token->n : 0;
}

int sc_cursor_skip(sc_cursor_t *c) {
  sc_cursor_t ahead = *c;
  /* A count of values still to come is all that skipping needs, whatever the nesting. It stays far
   * below 2^64: each head adds less than what the bytes behind it can hold. */
  for (uint64_t open = 1; open; open--) {
    sc_token_t token;
    int rc = sc_cursor_next(&ahead, &token);
    if (rc <= 0)
      return rc == 0 && ahead.at == c->at ? 0 : SC_ECORRUPT;
    open += elements(&token);
  }
  c->at = ahead.at;
  return 1;
}

int sc_cursor_value(sc_cursor_t *c, sc_bytes_t *value) {
  const uint8_t *start = c->at;
  int rc = sc_cursor_skip(c);
  if (rc == 1)
    *value = sc_bytes(start, (size_t)(c->at - start));
  return rc;
}

/* Checking. */

static int check_failed(sc_error_t *err, sc_bytes_t value, const sc_cursor_t *c, const char *what) {
  return sc_fail(err, SC_ECORRUPT, "the value is damaged at byte %zu of %zu: %s",
                 value.len ? (size_t)(c->at - value.data) : 0, value.len, what);
}

/* Why no token could be read here. */
static const char *bad_token(const sc_cursor_t *c) {
  uint8_t head = *c->at;
  if (head == 0xc1)
    return "no value begins with this byte";
  if ((head >= 0xc7 && head <= 0xc9) || (head >= 0xd4 && head <= 0xd8))
    return "extension types are not supported";
  if (head == 0xcf && c->end - c->at >= 9)
    return "the integer is above 2^63-1";
  return "it ends too early";
}

int sc_value_check(sc_bytes_t value, sc_error_t *err) {
  uint64_t open[SC_VALUE_DEPTH_MAX + 1]; /* values still to come, by nesting */
  unsigned depth = 0;
  sc_cursor_t c = sc_cursor(value);
  open[0] = 1;
  for (;;) {
    while (open[depth] == 0) {
      if (depth == 0)
        return c.at == c.end ? 0 : check_failed(err, value, &c, "something follows it");
      depth--;
    }
    sc_token_t token;
    sc_cursor_t before = c;
    int rc = sc_cursor_next(&c, &token);
    if (rc <= 0)
      return check_failed(err, value, &c, rc == 0 ? "it ends too early" : bad_token(&c));
    open[depth]--;
    if (token.type == SC_ARRAY || token.type == SC_MAP) {
      if (depth == SC_VALUE_DEPTH_MAX)
        return check_failed(err, value, &before, "it is nested deeper than 64");
      open[++depth] = elements(&token);
    }
  }
}

_Static_assert(SC_VALUE_DEPTH_MAX == 64, "the messages say 64");

/* Fields. */

int sc_value_field(sc_bytes_t map, sc_bytes_t name, sc_bytes_t *out) {
  sc_cursor_t c = sc_cursor(map);
  sc_token_t token;
  if (sc_cursor_next(&c, &token) != 1 || token.type != SC_MAP)
    return 0;
  for (uint32_t left = token.n; left; left--) {
    sc_cursor_t key_at = c;
    sc_token_t key;
    if (sc_cursor_next(&c, &key) != 1)
      return 0;
    if (key.type == SC_STR && sc_bytes_equal(key.s, name))
      return sc_cursor_value(&c, out) == 1;
    if (key.type == SC_ARRAY || key.type == SC_MAP) {
      c = key_at;
      if (sc_cursor_skip(&c) != 1)
        return 0;
    }
    if (sc_cursor_skip(&c) != 1)
      return 0;
  }
  return 0;
}

/* The first token of a field's value: true if the field is there. */
static bool field_token(sc_bytes_t map, const char *name, sc_token_t *token) {
  sc_bytes_t value;
  if (sc_value_field(map, sc_bytes_str(name), &value) != 1)
    return false;
  sc_cursor_t c = sc_cursor(value);
  return sc_cursor_next(&c, token) == 1;
}

int64_t sc_value_field_int(sc_bytes_t map, const char *name, int64_t otherwise) {
  sc_token_t token;
  return field_token(map, name, &token) && token.type == SC_INT ? token.i : otherwise;
}

double sc_value_field_float(sc_bytes_t map, const char *name, double otherwise) {
  sc_token_t token;
  if (!field_token(map, name, &token))
    return otherwise;
  return token.type == SC_FLOAT ? token.f : token.type == SC_INT ? (double)token.i : otherwise;
}

bool sc_value_field_bool(sc_bytes_t map, const char *name, bool otherwise) {
  sc_token_t token;
  return field_token(map, name, &token) && token.type == SC_BOOL ? token.b : otherwise;
}

char *sc_value_field_str(sc_bytes_t map, const char *name) {
  sc_token_t token;
  if (!field_token(map, name, &token) || token.type != SC_STR)
    return NULL;
  return sc_strndup(token.s.len ? (const char *)token.s.data : "", token.s.len);
}

/* Printing. */

/* Length of the valid UTF-8 sequence of several bytes that begins at p, or 0. */
static size_t utf8_sequence(const uint8_t *p, const uint8_t *end) {
  if (*p < 0xc2 || *p > 0xf4)
    return 0;
  size_t n = *p >= 0xf0 ? 4 : *p >= 0xe0 ? 3 : 2;
  if ((size_t)(end - p) < n)
    return 0;
  for (size_t i = 1; i < n; i++)
    if ((p[i] & 0xc0) != 0x80)
      return 0;
  /* Overlong forms, surrogates and what lies above U+10FFFF. */
  bool bad = (*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) ||
             (*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] > 0x8f);
  return bad ? 0 : n;
}

/* A quoted string; stops early once `out` is longer than `limit`. */
static void print_str(sc_bytes_t s, size_t limit, sc_buf_t *out) {
  const uint8_t *end = s.data + s.len;
  sc_buf_put_u8(out, '"');
  for (const uint8_t *p = s.data; p < end && out->len <= limit;) {
    size_t n = utf8_sequence(p, end);
    if (n) {
      sc_buf_put(out, p, n);
      p += n;
      continue;
    }
    if (*p == '"' || *p == '\\')
      sc_buf_printf(out, "\\%c", *p);
    else if (*p == '\n' || *p == '\t' || *p == '\r')
      sc_buf_printf(out, "\\%c", *p == '\n' ? 'n' : *p == '\t' ? 't' : 'r');
    else if (*p < 0x20 || *p >= 0x7f)
      sc_buf_printf(out, "\\x%02x", *p);
    else
      sc_buf_put_u8(out, *p);
    p++;
  }
  sc_buf_put_u8(out, '"');
}

/* The shorter of two forms that reads back as v, always recognisable as a float. */
static void print_float(double v, sc_buf_t *out) {
  char text[40];
  snprintf(text, sizeof text, "%.14g", v);
  if (isfinite(v) && strtod(text, NULL) != v)
    snprintf(text, sizeof text, "%.17g", v);
  sc_buf_puts(out, text);
  if (isfinite(v) && !strpbrk(text, ".e"))
    sc_buf_puts(out, ".0");
}

static void print_scalar(const sc_token_t *token, size_t limit, sc_buf_t *out) {
  switch (token->type) {
    case SC_NIL: sc_buf_puts(out, "null"); break;
    case SC_BOOL: sc_buf_puts(out, token->b ? "true" : "false"); break;
    case SC_INT: sc_buf_printf(out, "%lld", (long long)token->i); break;
    case SC_FLOAT: print_float(token->f, out); break;
    default: print_str(token->s, limit, out); break;
  }
}

/* One array or map whose elements are being printed. */
typedef struct level {
  bool map;      /* else an array */
  uint64_t left; /* values still to come; of a map keys and values */
  bool first;    /* nothing of it was printed yet */
} level_t;

/* What stands before the next value inside a level. */
static void print_separator(level_t *level, sc_buf_t *out) {
  if (level->map && level->left % 2)
    sc_buf_puts(out, ": ");
  else if (!level->first)
    sc_buf_puts(out, ", ");
  level->first = false;
  level->left--;
}

/* Print one value token by token; false where it turned out to be damaged or too deep. */
static bool print_value(sc_cursor_t *c, size_t limit, sc_buf_t *out) {
  level_t levels[SC_VALUE_DEPTH_MAX];
  unsigned depth = 0;
  do {
    sc_token_t token;
    if (sc_cursor_next(c, &token) != 1)
      return false;
    if (depth)
      print_separator(&levels[depth - 1], out);
    if (token.type == SC_ARRAY || token.type == SC_MAP) {
      if (depth == SC_VALUE_DEPTH_MAX)
        return false;
      sc_buf_put_u8(out, token.type == SC_MAP ? '{' : '[');
      levels[depth++] = (level_t){token.type == SC_MAP, elements(&token), true};
    } else {
      print_scalar(&token, limit, out);
    }
    while (depth && levels[depth - 1].left == 0)
      sc_buf_put_u8(out, levels[--depth].map ? '}' : ']');
  } while (depth && out->len <= limit);
  return true;
}

void sc_value_print(sc_bytes_t value, size_t max, sc_buf_t *out) {
  size_t start = out->len;
  size_t limit = max > SIZE_MAX - start ? SIZE_MAX : start + max;
  sc_cursor_t c = sc_cursor(value);
  if (!print_value(&c, limit, out))
    sc_buf_puts(out, "<damaged>");
  if (out->len <= limit)
    return;
  size_t cut = limit;
  while (cut > start && (out->data[cut] & 0xc0) == 0x80)
    cut--; /* never through the middle of a character */
  out->len = cut;
  sc_buf_puts(out, "...");
}

/* Packing. */

static int append(void *data, const char *bytes, size_t n) {
  sc_buf_put(data, bytes, n);
  return 0;
}

static inline msgpack_packer packer(sc_buf_t *out) { return (msgpack_packer){out, append}; }

void sc_pack_nil(sc_buf_t *out) {
  msgpack_packer pk = packer(out);
  msgpack_pack_nil(&pk);
}

void sc_pack_bool(sc_buf_t *out, bool v) {
  msgpack_packer pk = packer(out);
  if (v)
    msgpack_pack_true(&pk);
  else
    msgpack_pack_false(&pk);
}

void sc_pack_float(sc_buf_t *out, double v) {
  msgpack_packer pk = packer(out);
  msgpack_pack_double(&pk, v);
}

void sc__pack_str_long(sc_buf_t *out, sc_bytes_t v) {
  sc_assert(v.len <= UINT32_MAX); /* the format has no room for more */
  msgpack_packer pk = packer(out);
  msgpack_pack_str(&pk, v.len);
  msgpack_pack_str_body(&pk, v.data, v.len);
}

void sc_pack_cstr(sc_buf_t *out, const char *v) { sc_pack_str(out, sc_bytes_str(v)); }

void sc__pack_container_long(sc_buf_t *out, sc_type_t type, uint32_t n) {
  msgpack_packer pk = packer(out);
  if (type == SC_MAP)
    msgpack_pack_map(&pk, n);
  else
    msgpack_pack_array(&pk, n);
}
