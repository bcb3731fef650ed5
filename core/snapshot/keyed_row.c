#include "keyed_row.h"

enum { HAS_MAP_KEY = 1 /* flags; stored */, FIXED = 3 /* u16 state, u8 flags */ };

uint64_t sc__keyed_row_size(const sc_keyed_row_t *row) {
  uint64_t map_key = row->has_map_key ? 4 + (uint64_t)row->map_key.len : 0;
  return FIXED + 12 + (uint64_t)row->key.len + row->name_space.len + map_key + row->value.len;
}

static void put_bytes(sc_buf_t *out, sc_bytes_t b) {
  sc_buf_put_u32(out, (uint32_t)b.len);
  sc_buf_put_bytes(out, b);
}

void sc__keyed_row_write(sc_buf_t *out, const sc_keyed_row_t *row) {
  sc_buf_put_u16(out, row->state);
  sc_buf_put_u8(out, row->has_map_key ? HAS_MAP_KEY : 0);
  put_bytes(out, row->key);
  put_bytes(out, row->name_space);
  if (row->has_map_key)
    put_bytes(out, row->map_key);
  put_bytes(out, row->value);
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
