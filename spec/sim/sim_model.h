/*
 * sim_model: what a plan's job must have done in the end, computed one record after another without
 * an engine: no tasks, channels, barriers, watermarks or files, only lists.
 *
 * Threads: one. Ownership: create/destroy.
 */
#ifndef SPEC_SIM_MODEL_H
#define SPEC_SIM_MODEL_H

#include "sim_operators.h"

typedef struct sim_list {
  sim_record_t *list;
  uint32_t n;
} sim_list_t;

typedef struct sim_model {
  sim_list_t in[SIM_NODES];  /* what each node gets, sorted by (l, s); without timers that fired */
  sim_list_t out[SIM_NODES]; /* what its main output gives */
  sim_list_t pt[SIM_NODES];  /* what its processing-time timers may give, each once */
} sim_model_t;

/* How far each split of each source was read before the job was drained. */
typedef struct sim_ends {
  uint32_t read[SIM_NODES][SIM_SPLITS];
} sim_ends_t;

/* ends: NULL where all is read. */
sim_model_t *sim_model_create(const sim_plan_t *p, const sim_ends_t *ends);
void sim_model_destroy(sim_model_t *m);
/* The record with this one's lane, number and key, or NULL. */
const sim_record_t *sim_list_find(const sim_list_t *list, const sim_record_t *r);
void sim_list_add(sim_list_t *list, const sim_record_t *r);
void sim_list_sort(sim_list_t *list);

#endif
