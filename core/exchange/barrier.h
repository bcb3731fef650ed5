/*
 * barrier: when a task takes its snapshot. Pure: events in, actions out.
 *
 * Aligned exactly-once (reference 4.2-4.6): the channel that delivered its barrier is held back
 * until every open channel has; then the snapshot is taken and all are released. A newer barrier
 * during an older alignment aborts the older. A barrier that is not newer than the last finished or
 * aborted one is obsolete: it neither blocks nor triggers. A closed channel stands for all later
 * barriers. A mailed trigger (tasks without unfinished senders, sources) counts as the start of
 * that checkpoint without a channel.
 *
 *   WAITING --barrier or trigger n, some open channel without it--> ALIGNING n
 *   WAITING --barrier or trigger n, none missing--> (start n) WAITING
 *   ALIGNING n --barrier or close of the last missing--> (start n, release all) WAITING
 *   ALIGNING n --barrier or trigger m > n--> (abort n, release all) then as from WAITING
 *   ALIGNING n --abort or cancel n, m > n--> (abort, release all) WAITING
 *
 * The invariants that the code keeps:
 *   (B1) Ids only go up: `newest` is the highest that was seen in any way, and only it can be
 *        pending. What names a lower one, or the newest when it is not pending, is obsolete.
 *   (B2) While n is pending, `missing` is the number of open channels whose barrier of n has not
 *        come, and is not 0.
 *   (B3) A channel is held only while a checkpoint is pending whose barrier it delivered.
 *   (B4) Each checkpoint is started or reported as aborted at most once, never both. An abort of m
 *        while n < m is pending reports m; n ends silently, since it can no more be completed here.
 *
 * Later: unaligned and timeout join here as further states (DESIGN section 4).
 * Threads: the task's slot. Ownership: create/destroy. Failure: none; nonsense (a barrier on a
 * closed channel, a second barrier of one checkpoint, the id 0) is ignored.
 */
#ifndef SC_EXCHANGE_BARRIER_H
#define SC_EXCHANGE_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sc_aligner sc_aligner_t;

typedef struct sc_aligner_actions {
  uint64_t abort_id;      /* 0, or a checkpoint given up before anything else */
  uint64_t superseded_by; /* the newer checkpoint that caused it, 0 for an abort or cancel */
  bool release_all;       /* release every held channel (before `hold`); set only if one was held */
  bool hold;              /* hold back the channel of this event */
  uint64_t start_id;      /* 0, or take the snapshot of this checkpoint now (after release) */
} sc_aligner_actions_t;

sc_aligner_t *sc_aligner_create(uint32_t channels);
void sc_aligner_destroy(sc_aligner_t *a); /* NULL is fine */
sc_aligner_actions_t sc_aligner_barrier(sc_aligner_t *a, uint32_t channel, uint64_t id);
sc_aligner_actions_t sc_aligner_trigger(sc_aligner_t *a, uint64_t id);
sc_aligner_actions_t sc_aligner_close(sc_aligner_t *a, uint32_t channel);
/* An abort by mail (or, in the protocol tables, a cancellation barrier). abort_id tells whether it
 * was news: each checkpoint is reported as aborted at most once. */
sc_aligner_actions_t sc_aligner_abort(sc_aligner_t *a, uint64_t id);
bool sc_aligner_held(const sc_aligner_t *a, uint32_t channel);
uint64_t sc_aligner_pending(const sc_aligner_t *a);   /* checkpoint being aligned, or 0 */
uint32_t sc_aligner_missing(const sc_aligner_t *a);   /* channels still without its barrier */

#endif
