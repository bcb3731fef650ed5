/*
 * value: msgpack values as bytes: a cursor over them, fields, equality, packing.
 *
 * Values inside the engine are always whole, well-formed msgpack: nil, booleans, integers that fit
 * int64, float64, str, arrays, maps. (Written by others, bin is read as str and float32 as float;
 * ext and integers above 2^63-1 are refused as SC_ECORRUPT.) Packing gives the shortest form, where
 * an integer >= 0 takes the unsigned one. It goes through msgpack-c but for what nearly every value
 * consists of: integers, and the heads of what is short. Reading is ours because msgpack-c's C face
 * builds an object tree (350 ns a record of five fields, measured, against a tenth for a cursor).
 *
 * Bytes from outside (files, sockets) pass sc_value_check once; after that the other functions
 * may assume well-formed input, yet never read past the end.
 *
 * Threads: all functions are pure. Ownership: tokens borrow from the bytes.
 * Failure: a cursor that met SC_ECORRUPT stays where it was.
 */
#ifndef SC_DATA_VALUE_H
#define SC_DATA_VALUE_H

#include "../base/buf.h"
#include "../base/error.h"

#define SC_VALUE_DEPTH_MAX 64 /* nesting of arrays and maps */

/* Type of a token, which says what member of its union is set. */
typedef enum { SC_NIL, SC_BOOL, SC_INT, SC_FLOAT, SC_STR, SC_ARRAY, SC_MAP } sc_type_t;

typedef struct sc_token {
  sc_type_t type;   /* which member below is set; none for SC_NIL */
  union {
    bool b;         /* SC_BOOL */
    int64_t i;      /* SC_INT */
    double f;       /* SC_FLOAT */
    sc_bytes_t s;   /* SC_STR: borrowed */
    uint32_t n;     /* SC_ARRAY: elements, SC_MAP: pairs that follow */
  };
} sc_token_t;

typedef struct sc_cursor {
  const uint8_t *at;  /* next byte to read */
  const uint8_t *end; /* behind the last */
} sc_cursor_t;

static inline sc_cursor_t sc_cursor(sc_bytes_t b) { return (sc_cursor_t){b.data, b.data + b.len}; }

/* Tokens whose first byte does not hold all of their length or number, nil and booleans;
 * c->at < c->end. */
int sc__cursor_next_long(sc_cursor_t *c, sc_token_t *token);

/* Next token: 1, or 0 at the end, or SC_ECORRUPT. After SC_ARRAY/SC_MAP the elements follow. An
 * array or map that claims more elements than bytes are left is refused at once, so its number is
 * safe to make room for. Inline: it is the inner loop of everything that looks at a record. */
static inline int sc_cursor_next(sc_cursor_t *c, sc_token_t *token) {
  size_t left = (size_t)(c->end - c->at);
  if (left == 0)
    return 0;
  uint8_t head = *c->at;
  if (head < 0x80 || head >= 0xe0) { /* the byte is the integer */
    token->type = SC_INT;
    token->i = (int8_t)head;
    c->at++;
    return 1;
  }
  if (head >= 0xc0)
    return sc__cursor_next_long(c, token);
  if (head >= 0xa0) { /* a string of up to 31 bytes */
    size_t n = head & 0x1f;
    if (n >= left)
      return SC_ECORRUPT;
    token->type = SC_STR;
    token->s = sc_bytes(c->at + 1, n);
    c->at += 1 + n;
    return 1;
  }
  bool map = head < 0x90; /* a map or array of up to 15; an element takes a byte at least */
  uint32_t n = head & 0x0f;
  if ((map ? 2 * n : n) >= left)
    return SC_ECORRUPT;
  token->type = map ? SC_MAP : SC_ARRAY;
  token->n = n;
  c->at++;
  return 1;
}
/* What the head of an integer says, for sc__int_at; length 0 where it is no integer's. */
typedef struct sc_int_head {
  uint64_t mask;   /* bits of an int64 that can be set: all, or the number's where it has no sign */
  uint64_t refuse; /* of those what must not be set: the last of a number up to 2^64-1 */
  uint8_t length;  /* bytes, the head included */
  uint8_t skip;    /* bytes before the number: 0 where it is the head itself */
  uint8_t shift;   /* bits of 8 bytes that are not the number's */
} sc_int_head_t;
extern const sc_int_head_t sc__int_heads[256];

/* The integer with that head, from the 8 bytes that begin at the number (those that are not its own
 * do not matter). *bad gets a bit where it is above 2^63-1. Without branches: in what native
 * operators read, widths and signs of numbers change from record to record, and each branch that is
 * guessed wrongly costs as much as all of this. */
static inline int64_t sc__int_at(const sc_int_head_t *head, uint64_t bytes, uint64_t *bad) {
  uint64_t v = (uint64_t)((int64_t)__builtin_bswap64(bytes) >> head->shift) & head->mask;
  *bad |= v & head->refuse;
  return (int64_t)v;
}

/* The same where only an integer is expected: true, or false with the cursor where it was. */
bool sc__cursor_int_long(sc_cursor_t *c, int64_t *v);
static inline bool sc_cursor_int(sc_cursor_t *c, int64_t *v) {
  if (c->end - c->at < 9) /* fewer than may be read */
    return sc__cursor_int_long(c, v);
  const sc_int_head_t *head = &sc__int_heads[*c->at];
  uint64_t bad = 0;
  *v = sc__int_at(head, sc_load_u64(c->at + head->skip), &bad);
  c->at += bad ? 0 : head->length;
  return head->length && !bad;
}
/* Exactly an array of n integers, nothing behind it. */
bool sc_value_ints(sc_bytes_t value, int64_t *out, uint32_t n);
/* The head of an array: how many elements follow, or -1 with the cursor where it was. */
int64_t sc__cursor_array_long(sc_cursor_t *c);
static inline int64_t sc_cursor_array(sc_cursor_t *c) {
  size_t left = (size_t)(c->end - c->at);
  if (left == 0 || (*c->at & 0xf0) != 0x90 || (*c->at & 0x0f) >= left)
    return sc__cursor_array_long(c);
  return *c->at++ & 0x0f;
}
/* Step over one whole value: 1, 0 at the end, SC_ECORRUPT. */
int sc_cursor_skip(sc_cursor_t *c);
/* One whole value as bytes, borrowed: 1, 0 at the end, SC_ECORRUPT. */
int sc_cursor_value(sc_cursor_t *c, sc_bytes_t *value);

/* Exactly one well-formed value, nothing after it, not nested deeper than the limit: 0, or
 * SC_ECORRUPT with the offset in err. Says nothing about the types or order of map keys. */
int sc_value_check(sc_bytes_t value, sc_error_t *err);
/* Value of a string key of a map, borrowed: 1 found, 0 not there or not a map. */
int sc_value_field(sc_bytes_t map, sc_bytes_t name, sc_bytes_t *out);
/* Conveniences over sc_value_field for options and metadata: the field's value if it is of that
 * type (an integer where a float is asked for counts), else `otherwise`. */
int64_t sc_value_field_int(sc_bytes_t map, const char *name, int64_t otherwise);
double sc_value_field_float(sc_bytes_t map, const char *name, double otherwise);
bool sc_value_field_bool(sc_bytes_t map, const char *name, bool otherwise);
/* A copy (free it) of a string field, or NULL. */
char *sc_value_field_str(sc_bytes_t map, const char *name);
/* Append a short readable form for error messages and logs, JSON-like, valid UTF-8, one line. Of a
 * longer one about the first `max` bytes, then "..."; damaged bytes show as <damaged>. */
void sc_value_print(sc_bytes_t value, size_t max, sc_buf_t *out);

void sc_pack_nil(sc_buf_t *out);
void sc_pack_bool(sc_buf_t *out, bool v);
/* An integer written at `at`, where SC_INT_BYTES_MAX bytes have room; returns its end. For
 * operators that make room once for all they write. */
#define SC_INT_BYTES_MAX 9
static inline uint8_t *sc_put_int(uint8_t *at, int64_t v) {
  if (v >= -32 && v < 128) {
    *at = (uint8_t)v;
    return at + 1;
  }
  uint64_t sign = (uint64_t)(v >> 63); /* all bits, or none: no branch, see sc__int_at */
  unsigned bits = 64 - (unsigned)__builtin_clzll((uint64_t)v ^ sign) + (unsigned)(sign & 1);
  unsigned k = (bits > 8) + (bits > 16) + (bits > 32), width = 1u << k;
  *at = (uint8_t)(0xcc + (sign & 4) + k);
  /* All 8 bytes are written, of which the first `width` count. */
  sc_store_u64(at + 1, __builtin_bswap64((uint64_t)v << (64 - 8 * width)));
  return at + 1 + width;
}
static inline void sc_pack_int(sc_buf_t *out, int64_t v) {
  uint8_t *at = sc_buf_reserve(out, SC_INT_BYTES_MAX);
  out->len += (size_t)(sc_put_int(at, v) - at);
}
void sc_pack_float(sc_buf_t *out, double v);  /* always float64 */
void sc__pack_str_long(sc_buf_t *out, sc_bytes_t v);
static inline void sc_pack_str(sc_buf_t *out, sc_bytes_t v) {
  if (v.len > 255) {
    sc__pack_str_long(out, v);
    return;
  }
  uint8_t *at = sc_buf_reserve(out, 2 + v.len);
  size_t head = v.len < 32 ? 1 : 2;
  at[0] = v.len < 32 ? (uint8_t)(0xa0 + v.len) : 0xd9;
  at[1] = (uint8_t)v.len; /* the string's first byte where it is short */
  sc_bytes_move(at + head, v);
  out->len += head + v.len;
}
void sc_pack_cstr(sc_buf_t *out, const char *v);
void sc__pack_container_long(sc_buf_t *out, sc_type_t type, uint32_t n);
static inline void sc_pack_array(sc_buf_t *out, uint32_t n) {
  if (n < 16)
    sc_buf_put_u8(out, (uint8_t)(0x90 + n));
  else
    sc__pack_container_long(out, SC_ARRAY, n);
}
static inline void sc_pack_map(sc_buf_t *out, uint32_t pairs) {
  if (pairs < 16)
    sc_buf_put_u8(out, (uint8_t)(0x80 + pairs));
  else
    sc__pack_container_long(out, SC_MAP, pairs);
}

#endif
