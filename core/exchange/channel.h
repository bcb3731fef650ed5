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
 * A channel whose receiver is finished (sc_channel_receiver_gone) takes and drops everything, is
 * never full, and settles a barrier at once.
 *
 * The receiver may say how large the buffers shall be that are begun for it from now on (flow
 * control, debloater.h); those that are queued stay as they are.
 *
 * Barriers (DESIGN section 4; channel_barrier.c). One that overtakes goes to the head of the queue,
 * behind others that stand there already, and keeps the data buffers that it passed (SENDER). One
 * that may overtake later waits at the tail and is *settled* once: taken in its turn with nothing
 * kept, or moved to the head (sc_channel_move, by the sender's timer or by the receiver when it
 * switches), or dropped with its receiver. A *capture* is the receiver's: from its start on each
 * buffer that it takes is kept (RECEIVER), until the barrier of that checkpoint is put or moved to
 * the head, or taken in its turn, or the closing element is taken. So each buffer is kept by
 * exactly one side, which the lock decides. What is kept goes to a cut (cut.h).
 *
 *   queue   [B3 head] d d [B2 tail] d        capture:  none --sc_channel_capture--> open
 *             ^ taken at once        ^ taken in its turn          --barrier, CLOSE, drop--> none
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
 *   (W6) A barrier that may overtake wakes the consumer in any case, after the listener was told:
 *        it may be waiting for room.
 *
 * Threads: push, barrier by the producer's thread; take, peek, capture, drop_capture,
 * receiver_gone, set_buffer_size by the consumer's; has_room, empty, usage, buffer_size, move from
 * any.
 * Ownership: the channel owns what is queued, a reference on the floating share, and a hold of the
 * cut for each barrier to settle and each capture.
 * Failure: none; a push that the order above forbids is asserted.
 */
#ifndef SC_EXCHANGE_CHANNEL_H
#define SC_EXCHANGE_CHANNEL_H

#include "cut.h"

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
  uint64_t ahead;        /* BARRIER: bytes that stood before it when it came into the queue */
  bool head;             /* BARRIER: it was taken at the head, and overtook what is behind it */
  sc_cut_t *settle;      /* the channel's: a hold that taking or moving it releases; else NULL */
} sc_element_t;

/* Shared by a gate's channels; reference counted: create gives the caller one reference, each
 * channel takes its own. */
typedef struct sc_floating sc_floating_t;
sc_floating_t *sc_floating_create(uint32_t units);
void sc_floating_unref(sc_floating_t *f);            /* NULL is fine */
uint32_t sc_floating_units(const sc_floating_t *f);  /* as created */
uint32_t sc_floating_available(sc_floating_t *f);    /* units that nobody has borrowed now */

typedef struct sc_channel sc_channel_t;

typedef struct sc_channel_ends {
  void (*wake)(void *arg);  /* NULL: nobody needs waking (both ends on one thread) */
  void *producer_arg;       /* wake's argument to wake the producer */
  void *consumer_arg;       /* wake's argument to wake the consumer */
} sc_channel_ends_t;

/* Whose data it carries, for what is kept of it. */
typedef struct sc_channel_name {
  uint32_t edge;             /* of the graph */
  uint32_t sender, receiver; /* subtasks of the edge's two ends */
  bool rigid;                /* its edge cannot be captured (sc_partitioner_rigid) */
} sc_channel_name_t;

/* floating and ends may be NULL (no share; nobody needs waking); *ends is copied. */
sc_channel_t *sc_channel_create(uint32_t exclusive, sc_floating_t *floating,
                                const sc_channel_ends_t *ends);
void sc_channel_destroy(sc_channel_t *ch); /* drops what is queued; NULL is fine */
/* Before it is used; nameless it is edge 0 from 0 to 0, and can be captured. */
void sc_channel_set_name(sc_channel_t *ch, const sc_channel_name_t *name);
const sc_channel_name_t *sc_channel_name(const sc_channel_t *ch);
/* Before it is used: told(arg, id, head) is called outside the lock when a barrier that may
 * overtake was queued, or moved to the head, on the thread that did so. */
typedef void (*sc_channel_word_cb)(void *arg, uint64_t id, bool head);
void sc_channel_listen(sc_channel_t *ch, sc_channel_word_cb told, void *arg);

bool sc_channel_has_room(sc_channel_t *ch);       /* lock-free; may be stale for an instant */
void sc_channel_push_buffer(sc_channel_t *ch, sc_buffer_t *b); /* takes the reference */
void sc_channel_push_barrier(sc_channel_t *ch, const sc_barrier_t *b); /* aligned: at the tail */
/* A barrier of the checkpoint of `cut`: at the head where `now` or its receiver has switched, else
 * at the tail, holding `cut` where it may yet be moved. Rigid channels: always aligned. */
void sc_channel_barrier(sc_channel_t *ch, const sc_barrier_t *b, bool now, sc_cut_t *cut);
/* A barrier of id that waits in its turn goes to the head; false where there is none to move. */
bool sc_channel_move(sc_channel_t *ch, uint64_t id);
/* The receiver starts `cut` while its barrier is still to come, and `kept` (taken over; made by
 * sc_channel_part) is what it had begun to read: a barrier that waits is moved to the head; where
 * the closing element is queued, what stands before it is kept; else a capture is opened. */
void sc_channel_capture(sc_channel_t *ch, sc_cut_t *cut, sc_inflight_part_t *kept);
/* Close the capture of a checkpoint up to id, whose cut was dropped. */
void sc_channel_drop_capture(sc_channel_t *ch, uint64_t id);
sc_inflight_part_t sc_channel_part(const sc_channel_t *ch, sc_inflight_side_t side); /* empty */
void sc_channel_push_end(sc_channel_t *ch);
void sc_channel_push_close(sc_channel_t *ch);
bool sc_channel_empty(sc_channel_t *ch);          /* lock-free; may be stale for an instant */
/* 1 and the element at the head, or 0. */
int sc_channel_take(sc_channel_t *ch, sc_element_t *out);
/* Likewise, but only a barrier that overtook. */
int sc_channel_take_head(sc_channel_t *ch, sc_element_t *out);
/* Kind of the head element without taking it: -1 where empty. Consumer only. */
int sc_channel_peek(sc_channel_t *ch);
void sc_channel_receiver_gone(sc_channel_t *ch);
void sc_channel_set_buffer_size(sc_channel_t *ch, uint32_t bytes);
uint32_t sc_channel_buffer_size(sc_channel_t *ch); /* 0: nothing was said, as large as segments */
void sc_channel_usage(sc_channel_t *ch, uint32_t *buffers, uint64_t *bytes); /* queued now */

#endif
