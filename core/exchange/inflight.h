/*
 * inflight: data that a checkpoint found in the channels, on its way from the tasks that kept it to
 * the files that hold it (DESIGN section 4). What is kept is whole buffers by reference: nothing is
 * copied in a task's synchronous part.
 *
 * For one channel (edge, sender, receiver) and one checkpoint there are at most two parts: what the
 * barrier overtook in the sender's queue (SENDER), and what the receiver had taken or took before
 * the barrier reached it (RECEIVER). At a restore the receiver's comes first.
 *
 * Threads: a value has one owner at a time (task, then pool). Ownership: holds one reference of
 * each buffer; sc_inflight_fini gives them back, and is to be reached on every path. Failure: none.
 */
#ifndef SC_EXCHANGE_INFLIGHT_H
#define SC_EXCHANGE_INFLIGHT_H

#include "buffer.h"

typedef enum { SC_INFLIGHT_RECEIVER = 0, SC_INFLIGHT_SENDER = 1 } sc_inflight_side_t; /* stored */

typedef struct sc_inflight_part {
  uint32_t edge;            /* of the graph */
  uint32_t sender, receiver; /* subtasks of the edge's two ends */
  sc_inflight_side_t side;  /* who kept it */
  int64_t watermark;        /* RECEIVER: the channel's, in front of the first byte kept, as the
                               valve knew it */
  bool idle;                /* RECEIVER: its status there */
  sc_buffer_t **buffers;    /* n_buffers, oldest first, one reference each */
  uint32_t n_buffers;
  uint32_t skip;            /* bytes of the first buffer that had been read before the start */
} sc_inflight_part_t;

typedef struct sc_inflight {
  sc_inflight_part_t *parts;
  uint32_t n_parts, cap;
} sc_inflight_t;

/* An empty part at the end, borrowed until the next call; the caller fills it. */
sc_inflight_part_t *sc_inflight_add(sc_inflight_t *f);
/* Append a buffer to a part; takes the reference. */
void sc_inflight_keep(sc_inflight_part_t *p, sc_buffer_t *b);
uint64_t sc_inflight_bytes(const sc_inflight_t *f); /* kept, without what was read before */
void sc_inflight_fini(sc_inflight_t *f);            /* gives every reference back; then empty */

#endif
