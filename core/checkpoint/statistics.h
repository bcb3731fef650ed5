/*
 * statistics: what became of each checkpoint, kept for `job:checkpoints()` (SPEC G1) and the log.
 *
 * Counts (triggered, completed, failed, in progress, restored), the latest completed checkpoint and
 * savepoint, the latest failed, the latest restored, and a bounded history (10 newest by default)
 * with, for each task and each of its subtasks, what the acknowledgements said. A subtask that had
 * finished when a checkpoint was triggered counts as one that acknowledged at once, with nothing.
 * An acknowledgement that comes after a checkpoint failed is still noted in the history: it shows
 * who was slow.
 *
 *   sc_statistics_triggered -> in progress --completed--> completed --discarded--> (its files went)
 *                                          --failed-----> failed
 *   A failure without a trigger before it (it had no id, or no folder yet) only counts.
 *
 * Here a *task* is a chain of the graph, and a *subtask* what sc_task_snapshot_t calls a task: the
 * words that users know.
 *
 * Pure: times are arguments (wall clock, ms); where the clock went back, durations are 0.
 * Threads: one at a time, under the job's view lock; readers get a msgpack copy
 * (sc_statistics_encode). Ownership: create/destroy; copies what it is given. Failure: none; ids
 * and tasks that it does not know (a checkpoint that has left the history) only count.
 */
#ifndef SC_CHECKPOINT_STATISTICS_H
#define SC_CHECKPOINT_STATISTICS_H

#include "coordinator.h"
#include "explain.h"

typedef struct sc_statistics sc_statistics_t;

typedef struct sc_statistics_begin {
  uint64_t id;          /* never 0 */
  int64_t trigger_ms;
  bool manual;          /* begun by a request */
  bool savepoint;
  int64_t waited_ms;    /* before that, for another checkpoint to end */
  int64_t prepared_ms;  /* when its barriers were sent: its folder had been made */
  const bool *finished; /* for each subtask: it is not waited for; NULL: none */
} sc_statistics_begin_t;

/* history: checkpoints kept, at least 1. */
sc_statistics_t *sc_statistics_create(uint32_t history);
void sc_statistics_destroy(sc_statistics_t *s); /* NULL is fine */
/* The next task, with so many subtasks; their indexes follow those of the one before. All tasks
 * before the first event. */
void sc_statistics_add_task(sc_statistics_t *s, const char *name, uint32_t subtasks);
/* The task that was added last only receives: nothing comes behind it. */
void sc_statistics_task_is_sink(sc_statistics_t *s);
#define SC_EXPLAIN_AFTER_MS 1000
/* From when on a checkpoint is slow, and explained; SC_EXPLAIN_AFTER_MS at first. */
void sc_statistics_explain_after(sc_statistics_t *s, int64_t ms);
void sc_statistics_triggered(sc_statistics_t *s, const sc_statistics_begin_t *begin);
void sc_statistics_ack(sc_statistics_t *s, uint64_t id, int64_t now_ms,
                       const sc_task_snapshot_t *snap);
/* When the oldest that is in progress, of those in the history, was triggered; INT64_MAX: none. */
int64_t sc_statistics_oldest_trigger(const sc_statistics_t *s);
/* Add the subtasks that a checkpoint in progress waits for: one flag for each. */
void sc_statistics_waits(const sc_statistics_t *s, bool *waits);
/* How a subtask was seen: at the place a call of C had just come back; it was in the synchronous
 * part of its snapshot. Bits. */
enum { SC_SEEN_RETURNED = 1, SC_SEEN_IN_SNAPSHOT = 2 };
/* A subtask that is waited for was seen in a function (place), or in a call of C that does not come
 * back (NULL). */
void sc_statistics_seen(sc_statistics_t *s, uint32_t subtask, const char *place, uint32_t how);
void sc_statistics_completed(sc_statistics_t *s, uint64_t id, int64_t now_ms, const char *path);
void sc_statistics_failed(sc_statistics_t *s, uint64_t id, int64_t now_ms, const char *reason);
/* A completed one was deleted, since newer ones take its place. */
void sc_statistics_discarded(sc_statistics_t *s, uint64_t id);
void sc_statistics_restored(sc_statistics_t *s, uint64_t id, int64_t now_ms, const char *path);
/* One msgpack map:
 *
 *   counts   triggered in_progress completed failed restored
 *   latest   completed, savepoint, failed: as an entry of the history without tasks; restored: id
 *            restore_timestamp path. Each is absent until there is one.
 *   history  newest first, of each: id status ("in_progress" "completed" "failed") checkpoint_type
 *            ("checkpoint"; "unaligned_checkpoint" where a barrier of it overtook data;
 *            "savepoint") manual trigger_timestamp latest_ack_timestamp end_to_end_duration
 *            num_subtasks num_acknowledged_subtasks checkpointed_size state_size processed_data
 *            persisted_data tasks cause explanation critical_path (explain.h; names of subtasks),
 *            of a completed one completed_timestamp path discarded, of a failed one
 *            failure_timestamp reason
 *   of each task, in the graph's order: name status latest_ack_timestamp end_to_end_duration
 *            num_subtasks num_acknowledged_subtasks checkpointed_size state_size processed_data
 *            persisted_data subtasks
 *   of each subtask: index (from 0) acknowledged (did it), finished (it had, before), and if it
 *            acknowledged ack_timestamp end_to_end_duration checkpointed_size state_size
 *            processed_data persisted_data sync_duration async_duration alignment_duration
 *            start_delay unaligned_checkpoint
 *
 * checkpointed_size is what was written for this checkpoint, in-flight data included; state_size
 * all that the checkpoint refers to; processed_data what was read between the first barrier and the
 * snapshot; persisted_data the in-flight data that is kept. Durations are ms (floats), timestamps
 * ms since 1970, sizes bytes. What is not known (the path of one that failed, the duration of one
 * that nobody acknowledged yet) is absent. A task's status is "completed" when all its subtasks
 * have acknowledged, until then that of the checkpoint. */
void sc_statistics_encode(const sc_statistics_t *s, int64_t now_ms, sc_buf_t *out);
/* What took the time of one in the history, as far as it has come at now_ms; false where it is not
 * there. */
bool sc_statistics_explain(const sc_statistics_t *s, uint64_t id, int64_t now_ms,
                           sc_explanation_t *out);

#endif
