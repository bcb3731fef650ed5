/*
 * usage: how full the queues of one side of a task are, as its metrics show it (SPEC B12).
 *
 * There is one queue between two tasks, so what one counts as its output queues the others count
 * as their input queues. An input's pool is what its channels have for themselves and the floating
 * shares of its gates; an output's is what its channels have for themselves, have borrowed, and
 * could borrow now. Both are 1 when full, and above that where a record needed overdraft.
 *
 * Add the channels of one side, those of a gate one after another (its floating share counts once).
 * Threads: any; a channel is locked for the look. Ownership: a plain value. Failure: none.
 */
#ifndef SC_EXCHANGE_USAGE_H
#define SC_EXCHANGE_USAGE_H

#include "channel.h"

typedef struct sc_usage {
  uint64_t buffers, bytes;     /* queued */
  uint64_t passed_buffers;     /* that went into the queues, since they are there */
  uint64_t passed_bytes;
  uint64_t units;              /* that the queued buffers count as */
  uint64_t exclusive;          /* units that the channels have for themselves */
  uint64_t exclusive_used;
  uint64_t borrowed;           /* units of floating shares that the channels have now */
  uint64_t floating;           /* units of the shares in all */
  uint64_t available;          /* of these, that nobody has */
  uint32_t buffer_size;        /* the largest that a receiver asks for; 0: none does */
  const sc_floating_t *last;   /* the share that was counted last */
} sc_usage_t;

void sc_usage_add(sc_usage_t *u, sc_channel_t *ch);
double sc_usage_in_pool(const sc_usage_t *u);
double sc_usage_out_pool(const sc_usage_t *u);
double sc_usage_exclusive(const sc_usage_t *u); /* used, of what the channels have for themselves */
double sc_usage_floating(const sc_usage_t *u);  /* borrowed, of the shares; 0 where there is none */

#endif
