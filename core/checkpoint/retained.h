/*
 * retained: the completed checkpoints that are kept, oldest first, at most `limit` of them.
 *
 * Those found at a start may be more than the limit: they leave when a new one completes (or the
 * job was complete, sc_coordinator_trim), so that a job which has not got that far yet never has
 * fewer to go back to than it found.
 *
 * Threads: one (the coordinator's). Ownership: init/fini, embedded.
 */
#ifndef SC_CHECKPOINT_RETAINED_H
#define SC_CHECKPOINT_RETAINED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sc_retained {
  uint32_t limit;           /* at least 1 */
  uint64_t *ids;            /* growing */
  size_t n, allocated;      /* used and allocated entries of ids */
} sc_retained_t;

void sc_retained_init(sc_retained_t *r, uint32_t limit);
void sc_retained_fini(sc_retained_t *r);
/* Ids come in growing order. */
void sc_retained_add(sc_retained_t *r, uint64_t id);
/* The oldest beyond the limit, taken out; 0 if there is none. */
uint64_t sc_retained_evict(sc_retained_t *r);
bool sc_retained_has(const sc_retained_t *r, uint64_t id);
uint64_t sc_retained_latest(const sc_retained_t *r); /* 0 if there is none */

#endif
