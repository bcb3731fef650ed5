/*
 * flow: where the time of one task goes, and at what rate its counters grow (SPEC B12).
 *
 * A task runs in *turns*, between which it waits for something. Its time falls into three shares
 * that add up to the whole:
 *
 *   busy             in its turns, and READY: it could go on, but another task of its slot has the
 *                    thread (shown by itself, too: slot wait)
 *   back-pressured   it waits for room in an exchange, whether there is something to read or not
 *   idle             it waits for something to read, or for a time to come
 *
 *   WAITING (idle, back-pressured, ready) --sc_flow_begin--> IN A TURN --sc_flow_end--> WAITING
 *
 * A turn in which nothing moved is no work: it counts as the waiting around it. The time of a turn
 * that still lasts (a slow user function) is busy for whoever looks.
 *
 * Two forms: *exact*, added up since the first turn; and *sampled*, over the last window: at least
 * WINDOW and at most twice that where the task takes turns, all of it in one state where that has
 * lasted for a window. For that the writer marks the totals once a window (sc_flow_mark), with
 * whatever counters the owner wants rates of.
 *
 * Pure: the time is an argument, monotonic ns. It costs no look at a clock beyond those that the
 * caller takes anyway.
 * Threads: begin, end and mark by one (the task's slot); read by any, without a lock: a sequence
 * number tells the reader to look again. Ownership: create/destroy. Failure: none; where times go
 * back, nothing has passed.
 */
#ifndef SC_RUNTIME_FLOW_H
#define SC_RUNTIME_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#define SC_FLOW_WINDOW_NS INT64_C(1000000000)

typedef enum {
  SC_FLOW_IDLE,
  SC_FLOW_BACK_PRESSURED,
  SC_FLOW_READY,
  SC_FLOW_BUSY, /* in a turn */
  SC_FLOW_STATES
} sc_flow_state_t;

typedef struct sc_flow sc_flow_t;

/* What a reader sees. Before the first turn all is 0. */
typedef struct sc_flow_shown {
  sc_flow_state_t state;
  int64_t total_ns[SC_FLOW_STATES];  /* exact, since the first turn */
  int64_t window_ns;                 /* sampled: how long the window is, and what of it ... */
  int64_t sampled_ns[SC_FLOW_STATES]; /* ... was what */
  int64_t rate_ns;                   /* in what time the counters grew */
} sc_flow_shown_t;

/* counters: how many of them are marked for rates. */
sc_flow_t *sc_flow_create(uint32_t counters);
void sc_flow_destroy(sc_flow_t *f); /* NULL is fine */
void sc_flow_begin(sc_flow_t *f, int64_t now_ns);
/* A turn is over; `waits` is not BUSY. True where a window is, too: sc_flow_mark is due. */
bool sc_flow_end(sc_flow_t *f, int64_t now_ns, bool moved, sc_flow_state_t waits);
/* Right after an end: the counters as they are now. */
void sc_flow_mark(sc_flow_t *f, const uint64_t *counters);
/* counters: as they are now, NULL for none; they become their growth in the window. */
void sc_flow_read(const sc_flow_t *f, int64_t now_ns, uint64_t *counters, sc_flow_shown_t *out);

#endif
