/*
 * sim_draw: what a seed draws: the graph, the job's settings, and what goes wrong when. The parts
 * are drawn from streams of their own, so that a new one leaves the others as they were.
 *
 * Threads: one. Ownership: fills in a plan that is empty but for its seed.
 */
#ifndef SPEC_SIM_DRAW_H
#define SPEC_SIM_DRAW_H

#include "sim_plan.h"

void sim_draw(sim_plan_t *p);

#endif
