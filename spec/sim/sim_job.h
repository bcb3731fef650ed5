/*
 * sim_job: a plan as a job: its graph of operators, and its options, as they are in one life.
 *
 * Threads: one. Ownership: a value; all is borrowed, and `places` outlives every process, since a
 * dead one's operators still point there.
 */
#ifndef SPEC_SIM_JOB_H
#define SPEC_SIM_JOB_H

#include "../../core/runtime/job.h"
#include "sim_operators.h"

typedef struct sim_job {
  const sim_plan_t *plan;
  sim_shared_t *shared;
  sim_place_t *places; /* SIM_NODES of them */
  uint32_t life;
} sim_job_t;

/* A refusal is told as what must not be. */
sc_graph_t *sim_job_graph(sim_job_t *j);
/* from: where it begins; borrowed, as all strings in the options. */
void sim_job_options(const sim_job_t *j, const char *from, sc_job_options_t *o);

#endif
