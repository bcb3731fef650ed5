/*
 * channel: one queue between exactly two tasks, under one short lock per element.
 *
 * Elements: DATA (a buffer), BARRIER, END (end of input: the sender has handed on everything),
 * CLOSE (the sender has left; stands for all later barriers). A barrier always lies between
 * buffers. END and CLOSE each come once; after CLOSE nothing.
 *
 * Bounds: a channel has room while its queued units are below `exclusive`, or while its gate's
 * floating share (sc_floating_t, shared by the channels of one gate) has some left. Pushing never
 * fails and never blocks: the producer asks sc_channel_has_room first, and what it pushes beyond
 * is overdraft. Units come back when the buffer is *taken*, not when it is freed, except that a
 * consumer holds at most the one it is reading.
 * A channel whose receiver is finished (sc_channel_receiver_gone) takes and drops everything and is
 * never full.
 *
 * Wakes: pushing into an empty queue calls wake(consumer_arg); taking from a queue that was full
 * calls wake(producer_arg). Outside the lock.
 *
 * Threads: push by the producer's thread, take by the consumer's; has_room, any from both.
 * Later (unaligned): barriers at the head, captures, both under this same lock.
 */
#ifndef SC_EXCHANGE_CHANNEL_H
#define SC_EXCHANGE_CHANNEL_H

#include "buffer.h"

typedef enum { SC_ELEMENT_DATA, SC_ELEMENT_BARRIER, SC_ELEMENT_END, SC_ELEMENT_CLOSE } sc_element_kind_t;

typedef struct sc_barrier {
  uint64_t id;           /* checkpoint */
  int64_t timestamp_ms;  /* wall clock at the coordinator's trigger */
} sc_barrier_t;

typedef struct sc_element {
  sc_element_kind_t kind;
  sc_buffer_t *buffer;   /* DATA: one reference, the taker's */
  sc_barrier_t barrier;  /* BARRIER */
} sc_element_t;

typedef struct sc_floating sc_floating_t; /* shared by a gate's channels; reference counted */
sc_floating_t *sc_floating_create(uint32_t units);
void sc_floating_unref(sc_floating_t *f);

typedef struct sc_channel sc_channel_t;

typedef struct sc_channel_ends {
  void (*wake)(void *arg);  /* NULL: nobody needs waking (both ends on one thread) */
  void *producer_arg, *consumer_arg;
} sc_channel_ends_t;

sc_channel_t *sc_channel_create(uint32_t exclusive, sc_floating_t *floating, const sc_channel_ends_t *ends);
void sc_channel_destroy(sc_channel_t *ch); /* drops what is queued */

bool sc_channel_has_room(sc_channel_t *ch);       /* lock-free; may be stale for an instant */
void sc_channel_push_buffer(sc_channel_t *ch, sc_buffer_t *b); /* takes the reference */
void sc_channel_push_barrier(sc_channel_t *ch, const sc_barrier_t *b);
void sc_channel_push_end(sc_channel_t *ch);
void sc_channel_push_close(sc_channel_t *ch);
bool sc_channel_empty(sc_channel_t *ch);          /* lock-free; may be stale for an instant */
/* 1 and the element at the head, or 0. */
int sc_channel_take(sc_channel_t *ch, sc_element_t *out);
/* Kind of the head element without taking it: -1 where empty. Consumer only. */
int sc_channel_peek(sc_channel_t *ch);
void sc_channel_receiver_gone(sc_channel_t *ch);
void sc_channel_usage(sc_channel_t *ch, uint32_t *buffers, uint64_t *bytes); /* queued now */

#endif
