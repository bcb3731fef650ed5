/*
 * partitioner: which channel of an edge a record goes to. Pure.
 *
 * FORWARD: the one channel to the same subtask. HASH: owner of the record's key group. REBALANCE:
 * round robin, beginning at the sender's subtask mod receivers. BROADCAST: all.
 * (rescale, shuffle, custom come later.) Names are stored in metadata: "forward" "hash" "rebalance"
 * "broadcast".
 *
 * Threads: a value belongs to one thread at a time. Ownership: owns nothing; copying it is fine.
 * Failure: none (an edge without channels is asserted).
 */
#ifndef SC_EXCHANGE_PARTITIONER_H
#define SC_EXCHANGE_PARTITIONER_H

#include <stdbool.h>

#include "../data/key.h"

typedef enum { SC_FORWARD, SC_HASH, SC_REBALANCE, SC_BROADCAST } sc_partitioner_kind_t;

typedef struct sc_partitioner {
  sc_partitioner_kind_t kind; /* the rule */
  uint32_t n_channels;        /* channels of the edge at this sender, >= 1; FORWARD: 1 */
  uint32_t max_parallelism;   /* HASH: of the receiver */
  uint32_t next;              /* REBALANCE: whose turn it is */
} sc_partitioner_t;

void sc_partitioner_init(sc_partitioner_t *p, sc_partitioner_kind_t kind, uint32_t n_channels,
                         uint32_t max_parallelism, uint32_t sender_subtask);
/* Channel for a record of a key group (ignored but for HASH); BROADCAST: UINT32_MAX (all). */
static inline uint32_t sc_partitioner_select(sc_partitioner_t *p, uint16_t key_group) {
  if (p->kind == SC_HASH)
    return sc_key_group_owner(p->max_parallelism, p->n_channels, key_group);
  if (p->kind == SC_BROADCAST)
    return UINT32_MAX;
  if (p->kind == SC_FORWARD)
    return 0;
  uint32_t channel = p->next;
  p->next = channel + 1 == p->n_channels ? 0 : channel + 1;
  return channel;
}
/* What lies in the channels of such an edge cannot be dealt anew, so no barrier overtakes it: its
 * records are at home at one subtask, or at all at once. */
bool sc_partitioner_rigid(sc_partitioner_kind_t kind);
const char *sc_partitioner_name(sc_partitioner_kind_t kind);
int sc_partitioner_from_name(const char *name); /* -1 if unknown */

#endif
