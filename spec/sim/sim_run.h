/*
 * sim_run: one seed from beginning to end: lives of a simulated process one after another, each
 * ended by a crash, a cancellation, a failure of the job or its end, until the job is complete;
 * then a last one in which nothing goes wrong, and the look at what is there.
 *
 * Threads: one; leaks what crashed processes had allocated, so each run belongs into a process of
 * its own. Equal plans give equal runs, byte by byte of the story.
 */
#ifndef SPEC_SIM_RUN_H
#define SPEC_SIM_RUN_H

#include "sim_tally.h"

typedef struct sim_totals {
  uint64_t lives, turns, ops, calls, checkpoints;
  uint32_t happened[SIM_TALLY_KINDS];
} sim_totals_t;

/* 0, or 1 and what was wrong at the end of `story`. `totals` may be NULL. */
int sim_run(const sim_plan_t *plan, sc_buf_t *story, sim_totals_t *totals);

#endif
