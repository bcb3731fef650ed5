/*
 * sim_from: where a life of the job is told to begin, and whether it may: from the newest
 * checkpoint, looked for or named; from an older one; or anew.
 *
 * Threads: one. Ownership: a value, whose path is freed by sim_from_fini. The storage is seen from
 * outside.
 */
#ifndef SPEC_SIM_FROM_H
#define SPEC_SIM_FROM_H

#include "../../core/snapshot/storage.h"
#include "sim_plan.h"

typedef struct sim_from {
  char *text;  /* the option, or NULL */
  uint64_t id; /* OLDER: which */
  bool older;  /* it is not the newest */
  bool behind; /* and sinks may have committed more, as the options say */
} sim_from_t;

void sim_from_choose(sim_from_t *f, const sim_plan_t *p, uint32_t life, bool calm,
                     sc_storage_t *storage);
void sim_from_fini(sim_from_t *f);

#endif
