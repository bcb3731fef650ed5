#include "keyed_row.h"

enum { HAS_MAP_KEY = 1 /* flags; stored */, FIXED = 3 /* u16 state, u8 flags */ };

uint64_t sc__keyed_row_size(const sc_keyed_row_t *row) {
  uint64_t map_key = row->has_map_key ? 4 + (uint64_t)row->map_key.len : 0;
  return FIXED + 12 + (uint64_t)row->key.len + row->name_space.len + map_key + row->value.len;
}

/* Most are short, where a call costs more than the copy. */
static inline uint8_t *copy(uint8_t *to, const uint8_t *from, size_t n) {
  if (n >= 8 && n <= 16) { /* two words, which may overlap */
    uint64_t first, last;
    memcpy(&first, from, 8);
    memcpy(&last, from + n - 8, 8);
    memcpy(to, &first, 8);
    memcpy(to + n - 8, &last, 8);
  } else if (n < 8) {
    for (size_t i = 0; i < n; i++)
      to[i] = from[i];
  } else {
    memcpy(to, from, n);
  }
  return to + n;
}

static inline uint8_t *put_bytes(uint8_t *to, sc_bytes_t b) {
  sc_store_u32(to, (uint32_t)b.len);
  return copy(to + 4, b.data, b.len);
}

void sc__keyed_row_write(sc_buf_t *out, const sc_keyed_row_t *row) {
  uint8_t *begin = sc_buf_reserve(out, sc__keyed_row_size(row));
  sc_store_u16(begin, row->state);
  begin[2] = row->has_map_key ? HAS_MAP_KEY : 0;
  uint8_t *to = put_bytes(begin + FIXED, row->key);
  to = put_bytes(to, row->name_space);
  if (row->has_map_key)
    to = put_bytes(to, row->map_key);
  to = put_bytes(to, row->value);
  out->len += (size_t)(to - begin);
}

static bool take_bytes(sc_bytes_t *in, sc_bytes_t *out) {
  if (in->len < 4)
    return false;
  uint32_t n = sc_load_u32(in->data);
  if (n > in->len - 4)
    return false;
  *out = sc_bytes(in->data + 4, n);
  *in = sc_bytes(in->data + 4 + n, in->len - 4 - n);
  return true;
}

int sc__keyed_row_read(sc_bytes_t *in, sc_keyed_row_t *row) {
  if (in->len < FIXED)
    return SC_ECORRUPT;
  row->state = sc_load_u16(in->data);
  uint8_t flags = in->data[2];
  if (flags & ~HAS_MAP_KEY)
    return SC_ECORRUPT;
  row->has_map_key = flags & HAS_MAP_KEY;
  row->map_key = sc_bytes(NULL, 0);
  *in = sc_bytes(in->data + FIXED, in->len - FIXED);
  bool whole = take_bytes(in, &row->key) && take_bytes(in, &row->name_space) &&
               (!row->has_map_key || take_bytes(in, &row->map_key)) && take_bytes(in, &row->value);
  return whole ? 1 : SC_ECORRUPT;
}

int sc__keyed_row_compare(const sc_keyed_row_t *a, const sc_keyed_row_t *b) {
  if (a->state != b->state)
    return a->state < b->state ? -1 : 1;
  int order = sc_bytes_compare(a->key, b->key);
  if (order == 0)
    order = sc_bytes_compare(a->name_space, b->name_space);
  return order ? order : sc_bytes_compare(a->map_key, b->map_key);
}
