/*
 * pages: blocks of one size, for slabs (slab.h), cut from larger chunks.
 *
 * malloc would do but for one thing: thousands of blocks that are given back together are sorted by
 * whoever asks it for a few bytes next, and that must not be the freeze of a snapshot.
 *
 * A chunk without blocks in use goes back to the system; one such is held for the next need.
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

typedef struct sc_chunk sc_chunk_t; /* private */

typedef struct sc_pages {
  sc_chunk_t *open;  /* chunks with blocks in use and with room */
  sc_chunk_t *spare; /* a chunk without blocks in use, or NULL */
  uint64_t bytes;    /* memory of chunks */
  uint64_t in_use;   /* blocks */
} sc_pages_t;

void sc_pages_init(sc_pages_t *p);
void sc_pages_fini(sc_pages_t *p);
void *sc_pages_take(sc_pages_t *p); /* SC_PAGE_BYTES, zeroed, aligned to 8 */
void sc_pages_give(sc_pages_t *p, void *page);

#endif
