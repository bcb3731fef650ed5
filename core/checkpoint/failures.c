#include "failures.h"

#include <stdlib.h>

#include "../base/mem.h"

void sc_failures_init(sc_failures_t *f, int64_t tolerable) {
  *f = (sc_failures_t){.tolerable = tolerable};
}

void sc_failures_fini(sc_failures_t *f) {
  free(f->ids);
  *f = (sc_failures_t){.tolerable = f->tolerable};
}

static void start_anew(sc_failures_t *f) {
  f->count = 0;
  f->n_ids = 0;
}

bool sc_failures_counts(sc_reason_t reason) {
  return reason >= SC_REASON_EXPIRED && reason <= SC_REASON_FINALIZE;
}

/* Note the id; false if it was noted before. At most tolerable + 1 ids are ever kept. */
static bool note(sc_failures_t *f, uint64_t id) {
  for (size_t i = 0; i < f->n_ids; i++)
    if (f->ids[i] == id)
      return false;
  if (f->n_ids == f->cap_ids) {
    f->cap_ids = f->cap_ids ? 2 * f->cap_ids : 8;
    f->ids = sc_realloc(f->ids, f->cap_ids * sizeof *f->ids);
  }
  f->ids[f->n_ids++] = id;
  return true;
}

bool sc_failures_add(sc_failures_t *f, sc_reason_t reason, uint64_t id) {
  if (!sc_failures_counts(reason))
    return false;
  if (id && id <= f->last_success)
    return false;
  /* Where nothing is ever too much, the count is for the log only, and a job that fails its
   * checkpoints for a year must not collect their ids. */
  if (id && f->tolerable >= 0 && !note(f, id))
    return false;
  f->in_row = ++f->count;
  if (f->tolerable < 0 || f->count <= (uint64_t)f->tolerable)
    return false;
  start_anew(f);
  return true;
}

void sc_failures_success(sc_failures_t *f, uint64_t id) {
  if (id <= f->last_success)
    return;
  f->last_success = id;
  f->in_row = 0;
  start_anew(f);
}
