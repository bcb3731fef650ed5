/*
 * input_parts: the inside of an input, for its two halves: input.c (elements, records, events) and
 * input_barrier.c (checkpoints). Everybody else includes input.h, which says all there is to say.
 */
#ifndef SC_EXCHANGE_INPUT_PARTS_H
#define SC_EXCHANGE_INPUT_PARTS_H

#include <stdatomic.h>

#include "input.h"
#include "valve.h"

typedef struct source {
  sc_channel_t *channel; /* borrowed */
  uint32_t port;         /* of the operator */
  bool rigid;            /* its edge cannot be captured */
  bool ended, closed;    /* END, CLOSE were taken */
  bool end_waits;        /* END was taken, but counts when a checkpoint has started ... */
  bool last_watermark_waits; /* ... as does a watermark that nothing can follow */
  sc_buffer_t *parked;   /* a half-read buffer that may not be read on just now, or NULL */
  sc_bytes_t rest;       /* what is unread in that */
} source_t;

struct sc_input {
  sc_valve_t *valve;       /* one input a channel */
  sc_aligner_t *aligner;   /* one channel a channel */
  sc_buffer_t *current;    /* the half-read buffer, or NULL */
  sc_bytes_t rest;         /* what is unread in it */
  sc_bytes_t ahead;        /* of that, what nobody has looked at yet (sc_input_ahead) */
  uint32_t first_ahead;    /* place of the first of the records between the two; bulks begin at
                            * multiples of SC_INPUT_BULK */
  uint32_t n_ahead;        /* how many they are */
  uint32_t current_source; /* whose it is */
  uint32_t turn;           /* the channel to look at first when the next element is taken */
  uint32_t n_ended;        /* channels that have ended */
  uint32_t n_closed;       /* channels that are closed */
  sc_replay_t *replay;     /* what was in flight at a restore, or NULL; borrowed */
  uint32_t replayed;       /* records of it */
  bool spare;              /* only rigid channels are read (sc_input_spare) */
  sc_barrier_t *known;     /* barriers of checkpoints that began here and have not started */
  uint32_t n_known, known_cap;
  atomic_uint_fast64_t taken; /* bytes, while one is pending or captured (sc_input_taken) */
  uint64_t taken_before;   /* the same when the one that began last did */
  sc_barrier_t first;      /* the one that began last */
  uint64_t last_id;        /* the checkpoint whose barrier came last, from where, and behind how
                            * many bytes */
  uint32_t last_source;
  uint64_t last_ahead;
  bool first_barrier;      /* and no event has said so yet */
  atomic_uint_fast64_t word; /* newest checkpoint that may overtake and is on its way here */
  uint64_t passed;         /* the newest that the task started or gave up by itself (sources) */
  atomic_bool urgent;      /* a barrier may stand at the head of a queue */
  atomic_bool *alarm;      /* raised with it, or NULL */
  sc_input_event_t *due;   /* events that are ready to be handed out, oldest first */
  uint32_t due_first;      /* of them, the next */
  uint32_t due_count;      /* end of them (0 when all were handed out) */
  uint32_t due_cap;        /* places allocated */
  uint32_t n;              /* channels */
  sc_record_t records_ahead[SC_INPUT_AHEAD]; /* a ring: what the look ahead has read */
  source_t sources[];
};

/* ---- input.c ---- */
sc_input_event_t *sc__input_add_event(sc_input_t *in, sc_input_kind_t kind);
/* What is allowed to be read may have changed: the current buffer is put aside, or not. */
void sc__input_review(sc_input_t *in);
/* Checkpoints may have started, or were given up: ends that waited for them count. */
void sc__input_end_late(sc_input_t *in);

/* ---- input_barrier.c ---- */
void sc__input_listen(sc_input_t *in);
void sc__input_barrier(sc_input_t *in, uint32_t source, const sc_element_t *e);
void sc__input_closed(sc_input_t *in, uint32_t source);
/* Take barriers that stand at the head of their queues, from whatever channel. */
void sc__input_take_heads(sc_input_t *in);

#endif
