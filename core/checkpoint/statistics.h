/*
 * statistics: what became of each checkpoint, kept for `job:checkpoints()` (SPEC G1) and the log.
 *
 * Counts (triggered, completed, failed, in progress, restored), the latest completed, failed, and
 * restored, and a bounded history (10 newest by default) with, for each task, what its
 * acknowledgement said. An acknowledgement that comes after a checkpoint failed is still noted in
 * the history: it shows who was slow.
 *
 * Pure: times are arguments (wall clock, ms); where the clock went back, durations are 0.
 * Threads: one (the coordinator's); readers get a msgpack copy (sc_statistics_encode).
 * Ownership: create/destroy; copies what it is given. Failure: none; ids and tasks that it does not
 * know (a checkpoint that has left the history) only count.
 */
#ifndef SC_CHECKPOINT_STATISTICS_H
#define SC_CHECKPOINT_STATISTICS_H

#include "coordinator.h"

typedef struct sc_statistics sc_statistics_t;

/* history: checkpoints kept, at least 1. n_tasks: of the attempt. */
sc_statistics_t *sc_statistics_create(uint32_t history, uint32_t n_tasks);
void sc_statistics_destroy(sc_statistics_t *s); /* NULL is fine */
void sc_statistics_task_name(sc_statistics_t *s, uint32_t task, const char *name);
void sc_statistics_triggered(sc_statistics_t *s, uint64_t id, int64_t now_ms, bool manual);
void sc_statistics_ack(sc_statistics_t *s, uint64_t id, int64_t now_ms,
                       const sc_task_snapshot_t *snap);
void sc_statistics_completed(sc_statistics_t *s, uint64_t id, int64_t now_ms, const char *path);
void sc_statistics_failed(sc_statistics_t *s, uint64_t id, int64_t now_ms, const char *reason);
void sc_statistics_restored(sc_statistics_t *s, uint64_t id, int64_t now_ms, const char *path);
/* One msgpack map:
 *
 *   counts   triggered in_progress completed failed restored
 *   latest   completed, failed: as an entry of the history without tasks; restored: id
 *            restore_timestamp path. Each is absent until there is one.
 *   history  newest first, of each: id status ("in_progress" "completed" "failed") manual
 *            trigger_timestamp latest_ack_timestamp end_to_end_duration state_size processed_data
 *            persisted_data (in flight; state_size has what was written of it) unaligned (a
 *            barrier of it overtook) acknowledged (how many tasks) path reason tasks; of each
 *            task, in task order: name acknowledged (did it), and if so ack_timestamp
 *            end_to_end_duration state_size processed_data persisted_data unaligned
 *            sync_duration async_duration alignment_duration start_delay
 *
 * Durations are ms (floats), timestamps ms since 1970, sizes bytes. What is not known (the path of
 * one that failed, the duration of one that nobody acknowledged yet) is absent. */
void sc_statistics_encode(const sc_statistics_t *s, sc_buf_t *out);

#endif
