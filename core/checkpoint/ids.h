/*
 * ids: the numbers of checkpoints, taken from a block that is durably reserved.
 *
 * (I1) An id is used only when a reservation that covers it is durable. (I2) None is given twice,
 * whatever became of it. A new reservation is asked for while some are left, so that normally
 * nobody waits for it.
 *
 * Threads: one (the coordinator's). A plain value.
 */
#ifndef SC_CHECKPOINT_IDS_H
#define SC_CHECKPOINT_IDS_H

#include <stdbool.h>
#include <stdint.h>

#define SC_IDS_BLOCK 1000 /* reserved at a time */
#define SC_IDS_LOW 100    /* with fewer left, the next block is reserved */

typedef struct sc_ids {
  uint64_t last;     /* last id given */
  uint64_t reserved; /* durable up to here */
  bool reserving;    /* asked for, no answer yet */
} sc_ids_t;

/* Ids up to `highest` are used or may be. */
void sc_ids_begin(sc_ids_t *ids, uint64_t highest);
/* Where few are left and nothing is under way: reserve up to which id; else 0. */
uint64_t sc_ids_ask(sc_ids_t *ids);
void sc_ids_reserved(sc_ids_t *ids, uint64_t up_to, bool ok);
/* The next id, or 0 where none is reserved. */
uint64_t sc_ids_take(sc_ids_t *ids);

#endif
