#include "buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "error.h"
#include "mem.h"

void sc__buf_grow(sc_buf_t *buf, size_t more) {
  size_t need = buf->len + more;
  sc_assert(need >= more);
  size_t cap = buf->cap ? buf->cap : 64;
  while (cap < need)
    cap = cap > SIZE_MAX / 2 ? need : cap * 2;
  buf->data = sc_realloc(buf->data, cap);
  buf->cap = cap;
}

void sc_buf_put_u16(sc_buf_t *buf, uint16_t v) {
  sc_store_u16(sc_buf_reserve(buf, 2), v);
  buf->len += 2;
}

void sc_buf_put_u32(sc_buf_t *buf, uint32_t v) {
  sc_store_u32(sc_buf_reserve(buf, 4), v);
  buf->len += 4;
}

void sc_buf_put_u64(sc_buf_t *buf, uint64_t v) {
  sc_store_u64(sc_buf_reserve(buf, 8), v);
  buf->len += 8;
}

void sc_buf_printf(sc_buf_t *buf, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  sc_assert(n >= 0);
  uint8_t *at = sc_buf_reserve(buf, (size_t)n + 1);
  va_start(args, format);
  vsnprintf((char *)at, (size_t)n + 1, format, args);
  va_end(args);
  buf->len += (size_t)n;
}

void sc_buf_free(sc_buf_t *buf) {
  free(buf->data);
  *buf = (sc_buf_t)SC_BUF_INIT;
}

int sc_bytes_compare(sc_bytes_t a, sc_bytes_t b) {
  size_t n = a.len < b.len ? a.len : b.len;
  if (n >= 8) { /* most differ early: a look at one word is less than a call */
    uint64_t x = __builtin_bswap64(sc_load_u64(a.data)), y = __builtin_bswap64(sc_load_u64(b.data));
    if (x != y)
      return x < y ? -1 : 1;
  }
  int order = n ? memcmp(a.data, b.data, n) : 0;
  return order ? order : a.len < b.len ? -1 : a.len > b.len;
}

sc_bytes_t sc_bytes_copy(sc_bytes_t b) {
  if (!b.len)
    return (sc_bytes_t){NULL, 0};
  uint8_t *data = sc_malloc(b.len);
  memcpy(data, b.data, b.len);
  return (sc_bytes_t){data, b.len};
}
