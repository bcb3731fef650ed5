/*
 * inflight_plan: from the in-flight data of a snapshot to the receivers of a new attempt. Pure.
 *
 * An old channel (edge, sender, receiver) whose data was kept becomes a *virtual channel* of every
 * new receiver that owns any of it: what the receiver had taken, then what was left in the sender's
 * queue. On an edge by key a record is read by the owner of its key group, and only where the group
 * lies in the tag under which it was kept; so a virtual channel is given to each new subtask whose
 * groups meet the tag, with what they have in common. On an edge without keys it goes whole to the
 * new subtask receiver mod parallelism. A gate reads its virtual channels in the order of their
 * generations, and nothing else before they are drained: what was sent by an older attempt comes
 * before what a newer one sent.
 *
 * Edges are known by (from, output, to, port, partitioner, ordinal), never by their position; an
 * edge for which the user named no exchange as rebalance, also where equal parallelisms have made
 * it forward (graph.h). Then the virtual channels of receiver mod parallelism hold up its one real
 * channel, as they do on any edge. Whether that edge will be captured again is not asked here: it
 * is not while it is forward, and a checkpoint that overtakes elsewhere starts at such a receiver
 * when it has read them.
 *
 * Refused (SC_ESTATE): data of an edge that has no equal in the new graph, or one inside a chain,
 * where nothing could give it out (so whoever lays out the graph asks sc_inflight_edges first), and
 * data of an edge by key whose receiver's max_parallelism has changed. SC_ECORRUPT: data that no
 * checkpoint can hold.
 *
 * Threads: pure. Ownership: create/destroy; a plan borrows handles from the metadata.
 */
#ifndef SC_SNAPSHOT_INFLIGHT_PLAN_H
#define SC_SNAPSHOT_INFLIGHT_PLAN_H

#include "metadata.h"

typedef struct sc_inflight_edge { /* of the new graph */
  const char *from_uid, *output, *to_uid;
  const char *partitioner;  /* that it is known by */
  bool chained;             /* there is no exchange */
  uint32_t port, ordinal;
  uint32_t parallelism, max_parallelism; /* of the receiver */
} sc_inflight_edge_t;

typedef struct sc_virtual_channel {
  uint32_t edge;            /* of the new graph */
  uint32_t sender, origin, generation; /* as in sc_handle_inflight_t */
  bool tagged;              /* only records of `range` are this receiver's */
  bool idle;                /* its status in front of the first byte ... */
  int64_t watermark;        /* ... and its watermark there */
  sc_key_range_t range;
  const sc_handle_t *parts[2]; /* n_parts, to be read in this order */
  uint32_t n_parts;
} sc_virtual_channel_t;

typedef struct sc_inflight_plan sc_inflight_plan_t;

/* Flags those of the new graph's edges on which something is in flight; others stay as they are. */
void sc_inflight_edges(const sc_metadata_t *m, const sc_inflight_edge_t *edges, uint32_t n_edges,
                       bool *flags);
/* *out is NULL where nothing was in flight; 0 or a refusal. */
int sc_inflight_plan(const sc_metadata_t *m, const sc_inflight_edge_t *edges, uint32_t n_edges,
                     sc_inflight_plan_t **out, sc_error_t *err);
void sc_inflight_plan_destroy(sc_inflight_plan_t *plan); /* NULL is fine */
/* Those of a receiver at an edge, oldest generation first; *n of them. A NULL plan has none. */
const sc_virtual_channel_t *sc_inflight_plan_of(const sc_inflight_plan_t *plan, uint32_t edge,
                                                uint32_t receiver, uint32_t *n);
/* The generation of what is sent by an attempt that begins with this plan. */
uint32_t sc_inflight_plan_generation(const sc_inflight_plan_t *plan);

#endif
