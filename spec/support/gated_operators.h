/*
 * gated_operators: a source that a spec lets go on bit by bit, and a keyed count. For specs of
 * whole jobs.
 *
 * The source has `splits` splits; split s emits the values {k = v mod 7, n = v} for v = s,
 * s + splits, s + 2 splits ... while fewer than `allowed` of it are out. The count emits {k, n}, n
 * being the how manieth of its key this is, so that in an output that is exact once each n of a
 * key is there once.
 *
 * A gate may also press: every value then takes the count a while, so that the buffers in front of
 * it fill; and plug a reader: the next poll of that subtask waits until it is unplugged, and its
 * slot with it, so that no barrier passes there; and stall: readers' snapshots wait until it does
 * not.
 *
 * Threads: any for the gate's functions. Ownership: create/destroy; the gate outlives the jobs.
 */
#ifndef SC_SPEC_GATED_OPERATORS_H
#define SC_SPEC_GATED_OPERATORS_H

#include "../../core/runtime/operator.h"

#define GATE_KEYS 7

typedef struct gate gate_t;
gate_t *gate_create(uint32_t splits);
void gate_destroy(gate_t *g);
void gate_allow(gate_t *g, int64_t allowed); /* in all, of each split */
void gate_finish(gate_t *g);                 /* what is allowed now is all there is */
void gate_fail(gate_t *g);                   /* one reader fails once */
void gate_press(gate_t *g, bool yes);
void gate_plug(gate_t *g, int64_t subtask);  /* -1: none */
bool gate_plugged(gate_t *g);                /* the reader waits there */
void gate_stall(gate_t *g, bool yes);
bool gate_stalled(gate_t *g);                /* a reader's snapshot waits */

extern const sc_operator_type_t gate_source_type; /* data: the gate */
extern const sc_operator_type_t tally_type;       /* data: the gate that presses it, or NULL */
extern const sc_operator_type_t farewell_type; /* hands on, and emits "bye" at its end */

#endif
