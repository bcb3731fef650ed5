/*
 * buf: bytes, borrowed (sc_bytes_t) and growing (sc_buf_t). Integers are little endian.
 *
 * Ownership: an sc_bytes_t owns nothing; whoever gives one says how long it lives. An sc_buf_t
 * owns its memory: SC_BUF_INIT ... sc_buf_free.
 * Threads: a buffer belongs to one thread at a time.
 */
#ifndef SC_BASE_BUF_H
#define SC_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct sc_bytes {
  const uint8_t *data; /* may be NULL where len is 0 */
  size_t len;
} sc_bytes_t;

typedef struct sc_buf {
  uint8_t *data;
  size_t len; /* bytes written */
  size_t cap; /* bytes allocated */
} sc_buf_t;

#define SC_BUF_INIT {NULL, 0, 0}

void sc__buf_grow(sc_buf_t *buf, size_t more);

/* Make room for n more bytes and return where they go; len is not changed. */
static inline uint8_t *sc_buf_reserve(sc_buf_t *buf, size_t n) {
  if (buf->cap - buf->len < n)
    sc__buf_grow(buf, n);
  return buf->data + buf->len;
}

static inline void sc_buf_put(sc_buf_t *buf, const void *data, size_t n) {
  if (n) {
    memcpy(sc_buf_reserve(buf, n), data, n);
    buf->len += n;
  }
}

static inline void sc_buf_put_bytes(sc_buf_t *buf, sc_bytes_t b) { sc_buf_put(buf, b.data, b.len); }
static inline void sc_buf_puts(sc_buf_t *buf, const char *text) {
  sc_buf_put(buf, text, strlen(text));
}
static inline void sc_buf_put_u8(sc_buf_t *buf, uint8_t v) {
  *sc_buf_reserve(buf, 1) = v;
  buf->len++;
}
void sc_buf_put_u16(sc_buf_t *buf, uint16_t v);
void sc_buf_put_u32(sc_buf_t *buf, uint32_t v);
void sc_buf_put_u64(sc_buf_t *buf, uint64_t v);
void sc_buf_printf(sc_buf_t *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline void sc_buf_clear(sc_buf_t *buf) { buf->len = 0; }
void sc_buf_free(sc_buf_t *buf);
static inline sc_bytes_t sc_buf_bytes(const sc_buf_t *buf) {
  return (sc_bytes_t){buf->data, buf->len};
}

static inline sc_bytes_t sc_bytes(const void *data, size_t len) {
  return (sc_bytes_t){(const uint8_t *)data, len};
}
/* What was stored an instant ago, read word by word. A compiler copies both words at once, and that
 * load waits until two stores of one word each have left the processor: some 5 ns, for each record
 * on its way from one operator to the next. */
static inline sc_bytes_t sc_bytes_just_stored(const sc_bytes_t *b) {
  const uint8_t *data = b->data;
  __asm__("" : "+r"(data)); /* nothing, but the compiler has to have it in a register */
  return sc_bytes(data, b->len);
}
static inline sc_bytes_t sc_bytes_str(const char *text) { return sc_bytes(text, strlen(text)); }
/* Bytewise order; a prefix comes first. Returns <0, 0, >0. */
int sc_bytes_compare(sc_bytes_t a, sc_bytes_t b);
/* A copy in memory of its own (free(data)); of an empty one NULL and 0. */
sc_bytes_t sc_bytes_copy(sc_bytes_t b);

/* Little-endian loads and stores at any alignment. */
static inline uint16_t sc_load_u16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return v; }
static inline uint32_t sc_load_u32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return v; }
static inline uint64_t sc_load_u64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return v; }
static inline void sc_store_u16(uint8_t *p, uint16_t v) { memcpy(p, &v, 2); }
static inline void sc_store_u32(uint8_t *p, uint32_t v) { memcpy(p, &v, 4); }
static inline void sc_store_u64(uint8_t *p, uint64_t v) { memcpy(p, &v, 8); }
/* Copy the bytes to `to`, which may overlap them. Keys and values are short, and a call costs as
 * much as copying them: up to 64 bytes are a few words, of which the last overlap the first. */
static inline void sc_bytes_move(uint8_t *to, sc_bytes_t b) {
  typedef struct words { uint64_t w[4]; } words_t;
  if (b.len - 8 <= 8) {
    uint64_t first = sc_load_u64(b.data), last = sc_load_u64(b.data + b.len - 8);
    sc_store_u64(to, first);
    sc_store_u64(to + b.len - 8, last);
  } else if (b.len - 4 < 4) {
    uint32_t first = sc_load_u32(b.data), last = sc_load_u32(b.data + b.len - 4);
    sc_store_u32(to, first);
    sc_store_u32(to + b.len - 4, last);
  } else if (b.len - 32 <= 32) {
    words_t first, last;
    memcpy(&first, b.data, sizeof first);
    memcpy(&last, b.data + b.len - sizeof last, sizeof last);
    memcpy(to, &first, sizeof first);
    memcpy(to + b.len - sizeof last, &last, sizeof last);
  } else if (b.len) {
    memmove(to, b.data, b.len);
  }
}
/* Keys are short: up to 16 bytes are compared as two words that overlap. */
static inline bool sc_bytes_equal(sc_bytes_t a, sc_bytes_t b) {
  if (a.len != b.len)
    return false;
  if (a.len - 8 <= 8)
    return sc_load_u64(a.data) == sc_load_u64(b.data) &&
           sc_load_u64(a.data + a.len - 8) == sc_load_u64(b.data + a.len - 8);
  return a.len == 0 || memcmp(a.data, b.data, a.len) == 0;
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "formats are stored as the machine has them");

#endif
