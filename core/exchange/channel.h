/*
 * channel: one queue between exactly two tasks, under one short lock per element.
 *
 * Elements: DATA (a buffer), BARRIER, END (end of input: the sender has handed on everything),
 * CLOSE (the sender has left; stands for all later barriers). A barrier always lies between
 * buffers. END and CLOSE each come once (a second one is ignored); between END and CLOSE only
 * barriers; after CLOSE nothing.
 *
 * Bounds: a channel has room while its queued units are below `exclusive`, or while its gate's
 * floating share (sc_floating_t, shared by the channels of one gate) has some left. A push above
 * `exclusive` borrows from the share, a take returns what is no longer needed. Pushing never fails
 * and never blocks: the producer asks sc_channel_has_room first, and what it pushes beyond both is
 * overdraft, which has to be worked off before there is room again. Units come back when the
 * buffer is *taken*, not when it is freed (a consumer holds at most the one it is reading).
 * `exclusive` is at least 1 (0 counts as 1): so an empty channel always has room, and channels
 * that are held back while they have borrowed the whole share cannot starve the one whose barrier
 * they wait for.
 * A channel whose receiver is finished (sc_channel_receiver_gone) takes and drops everything and is
 * never full.
 *
 * Wakes: ends->wake is called outside the lock, and promises that whoever was asleep looks again
 * after the call began (it synchronizes with that look). Spurious wakes are allowed and happen.
 *   (W1) Consumer: the push that finds the queue empty wakes. Emptiness is decided under the lock,
 *        so of the pushes since a take that found nothing exactly the first one wakes. A consumer
 *        that left elements on purpose (held back, no room downstream) knows that they are there.
 *   (W2) Producer: a sc_channel_has_room that answers false has first raised `starved`, and then
 *        looked once more; a take first gives the units back, and then looks at `starved`. All four
 *        are sequentially consistent, so either the producer's second look sees the units, or the
 *        take sees the flag, lowers it, and wakes. A take that leaves no room keeps the flag up.
 *   (W3) Floating units that *another* channel returns wake nobody here; that loses nothing: a
 *        channel without room holds `exclusive` >= 1 units at least, so a take of its own is still
 *        to come, and (W2) holds for that one.
 *   (W4) Producer, leaving: from END on, each take that empties the queue wakes it, since it waits
 *        for its queues to drain (sc_output_drained).
 *   (W5) sc_channel_receiver_gone always wakes the producer.
 *
 * Threads: push by the producer's thread; take, peek, receiver_gone by the consumer's; has_room,
 * empty, usage from any.
 * Ownership: the channel owns what is queued and a reference on the floating share.
 * Failure: none; a push that the order above forbids is asserted.
 * Later (unaligned): barriers at the head, captures, both under this same lock.
 */
#ifndef SC_EXCHANGE_CHANNEL_H
#define SC_EXCHANGE_CHANNEL_H

#include "buffer.h"

typedef enum {
  SC_ELEMENT_DATA,
  SC_ELEMENT_BARRIER,
  SC_ELEMENT_END,
  SC_ELEMENT_CLOSE
} sc_element_kind_t;

typedef struct sc_barrier {
  uint64_t id;           /* checkpoint */
  int64_t timestamp_ms;  /* wall clock at the coordinator's trigger */
  int64_t overtake_at_ms; /* monotonic ms of the world from which it may overtake data: 0 never
                             (aligned), 1 at once (unaligned), else the checkpoint's start plus its
                             aligned timeout */
  bool stop;             /* the job is suspended with it: after its snapshot a task stands still */
} sc_barrier_t;

typedef struct sc_element {
  sc_element_kind_t kind; /* which of the two below counts, if any */
  sc_buffer_t *buffer;   /* DATA: one reference, the taker's */
  sc_barrier_t barrier;  /* BARRIER */
} sc_element_t;

/* Shared by a gate's channels; reference counted: create gives the caller one reference, each
 * channel takes its own. */
typedef struct sc_floating sc_floating_t;
sc_floating_t *sc_floating_create(uint32_t units);
void sc_floating_unref(sc_floating_t *f);            /* NULL is fine */
uint32_t sc_floating_available(sc_floating_t *f);    /* units that nobody has borrowed now */

typedef struct sc_channel sc_channel_t;

typedef struct sc_channel_ends {
  void (*wake)(void *arg);  /* NULL: nobody needs waking (both ends on one thread) */
  void *producer_arg;       /* wake's argument to wake the producer */
  void *consumer_arg;       /* wake's argument to wake the consumer */
} sc_channel_ends_t;

/* floating and ends may be NULL (no share; nobody needs waking); *ends is copied. */
sc_channel_t *sc_channel_create(uint32_t exclusive, sc_floating_t *floating,
                                const sc_channel_ends_t *ends);
void sc_channel_destroy(sc_channel_t *ch); /* drops what is queued; NULL is fine */

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
