/*
 * sim_from: where a life of the job is told to begin: from the newest checkpoint, looked for or
 * named; from an older one; anew; or, as another job, from one of the first job's.
 *
 * Threads: one. Ownership: a value, whose path is freed by sim_from_fini. The storage is seen from
 * outside.
 */
#ifndef SPEC_SIM_FROM_H
#define SPEC_SIM_FROM_H

#include "../../core/snapshot/storage.h"
#include "sim_operators.h"

typedef struct sim_from {
  char *text;  /* the option, or NULL */
  uint64_t id; /* of the one that is named, or 0 */
  bool older;  /* it is not the newest */
  bool behind; /* and sinks may have committed more, as the options say */
  bool other;  /* it is another job's */
} sim_from_t;

/* Where f->other is set, and shared->moved_from is not, the job moves with this start. */
void sim_from_choose(sim_from_t *f, const sim_shared_t *shared, sc_storage_t *storage);
void sim_from_fini(sim_from_t *f);

#endif
