/*
 * record: what travels in a buffer, byte by byte (DESIGN section 3), little endian:
 *
 *   u32 length of the rest | u8 kind | u8 flags | i64 timestamp, ms, if flag 1 |
 *   u16 key group, u32 n, n key bytes, if flag 2 | value in msgpack (the rest)
 *
 * kind 0 record; 1 watermark (flag 1 set, no value); 2 stream status (value: true = active,
 * false = idle). Stored in in-flight files later: never renumber.
 *
 * Writing and reading are inline: they are what an exchange does for each record.
 *
 * Threads: pure. Ownership: a read record borrows from the bytes.
 * Failure: SC_ECORRUPT for anything that sc_record_write does not write; the msgpack inside a
 * record is not looked at (sc_value_check does that for bytes from outside).
 */
#ifndef SC_DATA_RECORD_H
#define SC_DATA_RECORD_H

#include "../base/buf.h"
#include "../base/error.h"

enum { SC_RECORD_DATA = 0, SC_RECORD_WATERMARK = 1, SC_RECORD_STATUS = 2 };
enum { SC_RECORD_HAS_TIMESTAMP = 1, SC_RECORD_HAS_KEY = 2 };

#define SC_WATERMARK_MIN INT64_MIN /* before any */
#define SC_WATERMARK_MAX INT64_MAX /* nothing comes after it */

typedef struct sc_record {
  uint8_t kind;       /* SC_RECORD_DATA ... */
  uint8_t flags;      /* SC_RECORD_HAS_* */
  uint16_t key_group; /* with SC_RECORD_HAS_KEY */
  int64_t timestamp;  /* with SC_RECORD_HAS_TIMESTAMP */
  sc_bytes_t key;     /* key bytes (key.h) */
  sc_bytes_t value;   /* msgpack */
  uint64_t key_hash;  /* sc_hash of the key where somebody has computed it, else 0; not written */
} sc_record_t;

#define SC_RECORD_HEAD 6 /* bytes of length, kind, flags */

/* Bytes that sc_record_write needs. */
static inline size_t sc_record_size(const sc_record_t *r) {
  size_t n = SC_RECORD_HEAD + r->value.len;
  if (r->flags & SC_RECORD_HAS_TIMESTAMP)
    n += 8;
  if (r->flags & SC_RECORD_HAS_KEY)
    n += 6 + r->key.len;
  return n;
}

/* Write at `at`; size is sc_record_size(r), less than 4 GiB. */
static inline void sc_record_write(uint8_t *at, const sc_record_t *r, size_t size) {
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
    sc_bytes_move(at + 6, r->key);
    at += 6 + r->key.len;
  }
  sc_bytes_move(at, r->value);
}

/* Watermarks and stream status come in one form each. */
bool sc__record_signal_valid(const sc_record_t *r);

/* Take one record from the front of *in: 1, 0 if empty, SC_ECORRUPT (*in is then as before). */
static inline int sc_record_read(sc_bytes_t *in, sc_record_t *r) {
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
  if (r->kind != SC_RECORD_DATA && !sc__record_signal_valid(r))
    return SC_ECORRUPT;
  *in = sc_bytes(end, in->len - size);
  return 1;
}

#endif
