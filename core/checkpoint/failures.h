/*
 * failures: how many checkpoints in a row have failed, and whether that is too many.
 *
 * Counted are expiry, declines, failed asynchronous parts, input/output, and _metadata that could
 * not be written; what a restart, a newer checkpoint, or an ending task brings about is not. Each
 * id counts once; ids at or below the last success do not count; a success with a larger id starts
 * anew. Beyond `tolerable` the job has to fail, and counting starts anew, so that one attempt is
 * failed once.
 *
 * Threads: one (the coordinator's). Ownership: init/fini, embedded.
 */
#ifndef SC_CHECKPOINT_FAILURES_H
#define SC_CHECKPOINT_FAILURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reason.h"

typedef struct sc_failures {
  int64_t tolerable;      /* < 0: unlimited */
  uint64_t count;         /* consecutive failures */
  uint64_t in_row;        /* the same for the log: also those that were too many, until the next */
  uint64_t last_success;  /* newest completed id; 0 if none */
  uint64_t *ids;          /* ids counted since the last success; not kept where unlimited */
  size_t n_ids, cap_ids;  /* used and allocated entries of ids */
} sc_failures_t;

void sc_failures_init(sc_failures_t *f, int64_t tolerable);
void sc_failures_fini(sc_failures_t *f);

bool sc_failures_counts(sc_reason_t reason);
/* Checkpoint `id` failed (0: it had no id yet, which always counts). True: the job has to fail. */
bool sc_failures_add(sc_failures_t *f, sc_reason_t reason, uint64_t id);
void sc_failures_success(sc_failures_t *f, uint64_t id);

#endif
