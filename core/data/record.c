#include "record.h"

static inline uint8_t *put(uint8_t *at, sc_bytes_t b) {
  if (b.len)
    memcpy(at, b.data, b.len);
  return at + b.len;
}

void sc_record_write(uint8_t *at, const sc_record_t *r) {
  size_t size = sc_record_size(r);
  sc_assert(size - 4 <= UINT32_MAX);
  sc_store_u32(at, (uint32_t)(size - 4));
  at[4] = r->kind;
  at[5] = r->flags;
  at += SC_RECORD_HEAD;
  if (r->flags & SC_RECORD_HAS_TIMESTAMP) {
    sc_store_u64(at, (uint64_t)r->timestamp);
    at += 8;
  }
  if (r->flags & SC_RECORD_HAS_KEY) {
    sc_store_u16(at, r->key_group);
    sc_store_u32(at + 2, (uint32_t)r->key.len);
    at = put(at + 6, r->key);
  }
  put(at, r->value);
}

/* Watermarks and stream status come in one form each. */
static bool signal_valid(const sc_record_t *r) {
  if (r->kind == SC_RECORD_WATERMARK)
    return r->flags == SC_RECORD_HAS_TIMESTAMP && r->value.len == 0;
  return r->kind == SC_RECORD_STATUS && r->flags == 0 && r->value.len == 1 &&
         (r->value.data[0] == 0xc2 || r->value.data[0] == 0xc3);
}

int sc_record_read(sc_bytes_t *in, sc_record_t *r) {
  if (in->len == 0)
    return 0;
  if (in->len < SC_RECORD_HEAD)
    return SC_ECORRUPT;
  size_t size = 4 + (size_t)sc_load_u32(in->data);
  if (size < SC_RECORD_HEAD || size > in->len)
    return SC_ECORRUPT;
  const uint8_t *at = in->data + SC_RECORD_HEAD, *end = in->data + size;
  *r = (sc_record_t){.kind = in->data[4], .flags = in->data[5]};
  if (r->flags & ~(SC_RECORD_HAS_TIMESTAMP | SC_RECORD_HAS_KEY))
    return SC_ECORRUPT;
  if (r->flags & SC_RECORD_HAS_TIMESTAMP) {
    if (end - at < 8)
      return SC_ECORRUPT;
    r->timestamp = (int64_t)sc_load_u64(at);
    at += 8;
  }
  if (r->flags & SC_RECORD_HAS_KEY) {
    if (end - at < 6 || (size_t)(end - at) - 6 < sc_load_u32(at + 2))
      return SC_ECORRUPT;
    r->key_group = sc_load_u16(at);
    r->key = sc_bytes(at + 6, sc_load_u32(at + 2));
    at += 6 + r->key.len;
  }
  r->value = sc_bytes(at, (size_t)(end - at));
  if (r->kind != SC_RECORD_DATA && !signal_valid(r))
    return SC_ECORRUPT;
  *in = sc_bytes(end, in->len - size);
  return 1;
}
