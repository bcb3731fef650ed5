/*
 * channel_parts: the inside of a channel, for its two halves: channel.c (the queue, its bounds and
 * wakes) and channel_barrier.c (what barriers and captures do to it). Everybody else includes
 * channel.h, which says all there is to say.
 */
#ifndef SC_EXCHANGE_CHANNEL_PARTS_H
#define SC_EXCHANGE_CHANNEL_PARTS_H

#include <pthread.h>

#include "channel.h"

struct sc_channel {
  pthread_mutex_t lock;    /* guards all that is not atomic or constant */
  sc_element_t *ring;      /* the queue, `cap` places, grows by doubling */
  uint32_t cap;            /* power of two */
  uint32_t head;           /* place of the oldest element */
  uint32_t count;          /* elements queued */
  uint32_t units;          /* units of queued buffers */
  uint32_t borrowed;       /* of these, from the floating share */
  uint32_t buffers;        /* queued buffers */
  uint64_t bytes;          /* bytes in them */
  uint64_t passed_buffers; /* queued since it is there */
  uint64_t passed_bytes;
  bool ended, closed;      /* END, CLOSE were pushed */
  bool gone;               /* the receiver is: drop whatever comes */
  atomic_uint charged;     /* units - borrowed; written under the lock */
  atomic_bool any;         /* count > 0; written under the lock */
  atomic_bool starved;     /* a has_room has answered false since the last wake of the producer */
  atomic_uint buffer_size; /* that the receiver asks for; 0: it has not */
  uint32_t exclusive;      /* constant, >= 1 */
  sc_floating_t *floating; /* constant, or NULL */
  sc_channel_ends_t ends;  /* constant */
  sc_channel_name_t name;  /* constant */
  sc_channel_word_cb told; /* constant, or NULL */
  void *told_arg;
  sc_cut_t *capture;       /* a hold of it while a capture is open, or NULL */
  sc_inflight_part_t captured; /* what it has kept so far */
};

/* What a piece of work under the lock leaves to be done behind it: holds to release, a part to hand
 * over first, and whom to tell. */
typedef struct sc__after {
  sc_cut_t *settled;        /* a barrier was, with `part` if that holds anything */
  sc_inflight_part_t part;
  sc_cut_t *closed;         /* a capture was, with `captured` */
  sc_inflight_part_t captured;
  uint64_t word;            /* id of the barrier that came or moved, 0: none */
  bool head;                /* and it stands at the head */
} sc__after_t;

/* ---- channel.c, under the lock ---- */
void sc__channel_insert(sc_channel_t *ch, uint32_t place, const sc_element_t *e);
void sc__channel_settle(sc_channel_t *ch); /* the atomic copies of the counts */
static inline sc_element_t *sc__channel_at(sc_channel_t *ch, uint32_t place) {
  return &ch->ring[(ch->head + place) & (ch->cap - 1)];
}

/* ---- channel_barrier.c ---- */
/* Under the lock: e was just taken from the queue. */
void sc__channel_taken(sc_channel_t *ch, sc_element_t *e, sc__after_t *after);
/* Outside of it. */
void sc__channel_after(sc_channel_t *ch, sc__after_t *after);
/* With the channel's end: nothing is released, the cuts may be beyond reach of their tasks. */
void sc__channel_forget(sc_channel_t *ch);

#endif
