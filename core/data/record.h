/*
 * record: what travels in a buffer, byte by byte (DESIGN section 3), little endian:
 *
 *   u32 length of the rest | u8 kind | u8 flags | i64 timestamp, ms, if flag 1 |
 *   u16 key group, u32 n, n key bytes, if flag 2 | value in msgpack (the rest)
 *
 * kind 0 record; 1 watermark (flag 1 set, no value); 2 stream status (value: true = active,
 * false = idle). Stored in in-flight files later: never renumber.
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
/* Write at `at` (sc_record_size bytes, less than 4 GiB). */
void sc_record_write(uint8_t *at, const sc_record_t *r);
/* Take one record from the front of *in: 1, 0 if empty, SC_ECORRUPT (*in is then as before). */
int sc_record_read(sc_bytes_t *in, sc_record_t *r);

#endif
