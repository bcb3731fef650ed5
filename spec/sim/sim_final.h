/*
 * sim_final: what the last checkpoint of a job says, against the model: the state of its keyed
 * operators, and how far its sources had read where it was drained.
 *
 * Threads: one. Ownership: borrows all; the storage is seen from outside.
 */
#ifndef SPEC_SIM_FINAL_H
#define SPEC_SIM_FINAL_H

#include "../../core/snapshot/metadata.h"
#include "sim_model.h"

typedef struct sim_final {
  sim_shared_t *shared;
  sc_storage_t *storage;
  const sim_model_t *model; /* of what was read */
  const sim_model_t *full;  /* of all; where records may come again, some of these have come, too */
  const sc_metadata_t *metadata;
} sim_final_t;

/* Look at a keyed operator; how many of its processing-time timers fired. */
uint32_t sim_final_state(const sim_final_t *f, uint32_t node);
void sim_final_ends(const sim_plan_t *p, const sc_metadata_t *m, sim_ends_t *out);

#endif
