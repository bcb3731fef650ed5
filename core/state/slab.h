/*
 * slab: memory for slots of many sizes, which one other thread may walk while its owner changes it.
 *
 * Slots of one size lie side by side in pages. Each carries a stamp: when it was born, a number of
 * the owner's that only grows (its epoch). A walk up to epoch n sees exactly the slots that were
 * born at or before n. So whoever wants a copy of everything as it is now counts his epoch on and
 * lets another thread walk up to the old one; meanwhile new slots are made as always, and no old
 * one is changed or given back: that is the owner's part of the promise (cells.h keeps it).
 *
 *   taken -publish-> born (walks see it) -give-> free       (taken, not published: no walk sees it)
 *
 * A page that is empty goes back to the system, but not while somebody may be walking.
 *
 * Threads: the owner calls everything; another thread may walk. What a walk hands out stands still.
 * Ownership: init/fini; slots belong to the slab and die
 * with it; slabs of one owner may share their source of pages. Failure: none (mem.h).
 */
#ifndef SC_STATE_SLAB_H
#define SC_STATE_SLAB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pages.h"

typedef struct sc_slab sc_slab_t;
typedef struct sc_page sc_page_t;   /* private: slots of one size */
typedef struct sc_shelf sc_shelf_t; /* private: pages of one size of slots that have room */

/* The beginning of every slot; what is stored in it follows, 8 bytes at least. */
typedef struct sc_slot {
  atomic_uint_least64_t stamp; /* epoch of birth, or 0, above 16 bits of where in its page it is */
} sc_slot_t;

#define SC_EPOCH_MAX (UINT64_MAX >> 16)

struct sc_slab {
  _Atomic(sc_page_t *) pages; /* all of them, the newest first */
  sc_shelf_t *shelves;        /* n_shelves of them */
  uint32_t n_shelves;         /* sizes that were ever asked for: a few */
  uint64_t live;              /* slots that are taken */
  uint64_t bytes;             /* memory of pages */
  sc_pages_t *source;         /* of full-grown pages; borrowed */
};

void sc_slab_init(sc_slab_t *s, sc_pages_t *source);
void sc_slab_fini(sc_slab_t *s);

/* A slot of `size` bytes or a few more, *room of them. No walk sees it before it is published. */
sc_slot_t *sc_slab_take(sc_slab_t *s, size_t size, size_t *room);
/* What was stored is complete: born in `epoch` (above 0). */
void sc_slab_publish(sc_slot_t *slot, uint64_t epoch);
static inline uint64_t sc_slab_born(const sc_slot_t *slot) {
  /* Relaxed: the owner's question, who wrote it. */
  return atomic_load_explicit(&slot->stamp, memory_order_relaxed) >> 16;
}
/* Give a slot back to the slab that it came from. walked: somebody may be walking. */
void sc_slab_give(sc_slot_t *slot, bool walked);

/* Slots born up to `upto`, in no order that means anything. */
typedef struct sc_slab_walk {
  const sc_page_t *page; /* that it is at, or NULL at the end */
  uint32_t at;           /* next slot of it */
  uint64_t upto;         /* as given */
} sc_slab_walk_t;
sc_slab_walk_t sc_slab_walk(const sc_slab_t *s, uint64_t upto);
const sc_slot_t *sc_slab_next(sc_slab_walk_t *w); /* NULL at the end */

#endif
