/*
 * buffer: the unit of exchange. 32 KiB of records by default, reference counted, from a pool.
 *
 * A record never spans buffers: a larger one gets a buffer of its own size, charged as several.
 * A writer may leave a buffer earlier (`limit`), and charge it otherwise, before it is queued.
 * The pool keeps freed buffers of the normal size for reuse and counts what is outstanding; it is
 * not what bounds a job (channels do, channel.h), it is what notices a leak: at the end of an
 * attempt nothing may be outstanding.
 *
 * Threads: any for the pool and for references (atomic); the bytes of a buffer belong to its
 * writer until it is queued, then to whoever takes it. `len` and `records` do not change any more
 * once the buffer is queued, so that several holders may read it.
 * Failure: none; a record of 4 GiB or more does not exist (record.h) and is asserted.
 */
#ifndef SC_EXCHANGE_BUFFER_H
#define SC_EXCHANGE_BUFFER_H

#include <stdatomic.h>

#include "../base/buf.h"

#define SC_SEGMENT_SIZE_DEFAULT (32 * 1024)

typedef struct sc_pool sc_pool_t;

typedef struct sc_buffer {
  atomic_uint refs;  /* holders; the last one to leave gives it back */
  sc_pool_t *pool;   /* where it goes back to */
  uint32_t cap;      /* bytes that fit */
  uint32_t limit;    /* bytes after which its writer leaves it; cap, or less (output.h) */
  uint32_t len;      /* bytes written */
  uint32_t units;    /* how many normal buffers it counts as, >= 1 */
  uint32_t records;  /* records in it */
  struct sc_buffer *next; /* the pool's */
  uint8_t data[];    /* cap bytes */
} sc_buffer_t;

sc_pool_t *sc_pool_create(uint32_t segment_size);    /* 0: SC_SEGMENT_SIZE_DEFAULT */
void sc_pool_destroy(sc_pool_t *pool);               /* asserts that nothing is outstanding */
uint32_t sc_pool_segment_size(const sc_pool_t *pool); /* of a normal buffer */
uint32_t sc_pool_outstanding(sc_pool_t *pool);       /* buffers that were taken and not freed */
/* A buffer for at least `need` bytes (one segment where that is enough), one reference. */
sc_buffer_t *sc_pool_take(sc_pool_t *pool, size_t need);
static inline sc_buffer_t *sc_buffer_ref(sc_buffer_t *b) {
  atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed); /* the caller holds one already */
  return b;
}
void sc_buffer_unref(sc_buffer_t *b); /* NULL is fine */

#endif
