/*
 * cut: what one task's part in one checkpoint still waits for at its channels, and the in-flight
 * data that was found there (DESIGN section 4, "The life of a barrier").
 *
 * A task's start opens captures in its input channels, and queues barriers in its output channels
 * that may yet be moved to the head. Each of them is one *hold*; whoever ends it (the sender that
 * puts a barrier at the head, the receiver that takes one, either's timer) releases it, with the
 * part that was kept. The starting task has a hold of its own, so that nothing is complete before
 * its synchronous part is.
 *
 *   OPEN --last hold released--> COMPLETE (`done` is called, once, on the thread that released)
 *   OPEN --sc_cut_drop--> DROPPED (parts are given back, those that still come, too)
 *
 * Threads: any. `done` is called under no lock of the exchange. Ownership: reference counted; each
 * hold is a reference, too. Parts belong to the cut until sc_cut_take. Failure: none.
 */
#ifndef SC_EXCHANGE_CUT_H
#define SC_EXCHANGE_CUT_H

#include "inflight.h"

typedef struct sc_cut sc_cut_t;

/* The caller gets a reference and a hold (which is another one). */
sc_cut_t *sc_cut_create(uint64_t checkpoint, void (*done)(void *arg), void *arg);
uint64_t sc_cut_checkpoint(const sc_cut_t *cut);
void sc_cut_unref(sc_cut_t *cut); /* NULL is fine */
/* One more thing to wait for. Only by who has a hold already, or under a lock that keeps one. */
void sc_cut_hold(sc_cut_t *cut);
/* Takes what the part holds, and leaves it empty. */
void sc_cut_add(sc_cut_t *cut, sc_inflight_part_t *part);
void sc_cut_release(sc_cut_t *cut); /* one thing less; may call done */
/* Give it up: true if `done` was not called and will not be. */
bool sc_cut_drop(sc_cut_t *cut);
/* A barrier of it has overtaken something, or has gone to the head of a queue at least. */
void sc_cut_note_overtaking(sc_cut_t *cut);
bool sc_cut_overtook(const sc_cut_t *cut);
uint32_t sc_cut_holds(sc_cut_t *cut); /* how many are left; for specs and messages */
/* The channel whose capture ended last; false: there was none. Before what was kept is taken. */
bool sc_cut_last_capture(sc_cut_t *cut, uint32_t *edge, uint32_t *sender);
/* After done: all that was kept, in no order. */
void sc_cut_take(sc_cut_t *cut, sc_inflight_t *out);

#endif
