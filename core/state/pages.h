/*
 * pages: blocks of one size, for slabs (slab.h), and arrays, for tables, cut from larger chunks.
 *
 * malloc would do but for one thing: thousands of blocks that are given back together are sorted by
 * whoever asks it for a few bytes next, and that must not be the freeze of a snapshot.
 *
 * A chunk without blocks in use goes back to the system; one such is held for the next need. Arrays
 * are powers of two in size. One that was given back, since a table has grown, is used for another
 * of its size or cut into blocks, and goes back to the system at the end.
 *
 * State is read all over, and with a million keys each read looks up an address of its own: once
 * there are SC_PAGES_HUGE_FROM bytes, further chunks are such that the system may use huge pages.
 *
 * Threads: one at a time. Ownership: init/fini; every block is given back before fini (asserted).
 * Failure: none (mem.h).
 */
#ifndef SC_STATE_PAGES_H
#define SC_STATE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SC_PAGE_BYTES 8184 /* of a block; with the word in front of it two of the system's pages */

/* Of an array. Smaller ones are malloc's business; larger ones, too, which the system zeroes as
 * they are touched and not in the one write that needs them. */
#define SC_ARRAY_BYTES_MIN (32 * 1024)
#define SC_ARRAY_BYTES_MAX (1024 * 1024)
#define SC_PAGES_HUGE_FROM (8u << 20)

typedef struct sc_chunk sc_chunk_t;   /* private */
typedef struct sc_spread sc_spread_t; /* private: memory that arrays are cut from */

#define SC_ARRAY_SIZES 6 /* from the least to the greatest */

typedef struct sc_pages {
  sc_chunk_t *open;  /* chunks with blocks in use and with room */
  sc_chunk_t *spare; /* a chunk without blocks in use, or NULL */
  sc_spread_t *spreads; /* the newest first */
  void *arrays[SC_ARRAY_SIZES]; /* given back, linked, by size */
  uint64_t bytes;    /* memory of chunks */
  uint64_t array_bytes; /* memory of spreads, but for arrays that are chunks now */
  uint64_t in_use;   /* blocks */
} sc_pages_t;

void sc_pages_init(sc_pages_t *p);
void sc_pages_fini(sc_pages_t *p);
void *sc_pages_take(sc_pages_t *p); /* SC_PAGE_BYTES, zeroed, aligned to 8 */
void sc_pages_give(sc_pages_t *p, void *page);
static inline bool sc_pages_for_array(size_t bytes) {
  return bytes >= SC_ARRAY_BYTES_MIN && bytes <= SC_ARRAY_BYTES_MAX;
}
/* `bytes` is a power of two for which sc_pages_for_array is true; zeroed, aligned to 64. */
void *sc_pages_array(sc_pages_t *p, size_t bytes);
void sc_pages_array_give(sc_pages_t *p, void *array, size_t bytes);

#endif
