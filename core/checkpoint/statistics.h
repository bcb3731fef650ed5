/*
 * statistics: what became of each checkpoint, kept for `job:checkpoints()` (SPEC G1) and the log.
 *
 * Counts (triggered, completed, failed, in progress, restored), the latest completed and failed, and
 * a bounded history (10 newest by default) with, for each task, what its acknowledgement said.
 * Pure: times are arguments.
 * Threads: one (the coordinator's); readers get a msgpack copy (sc_statistics_encode).
 */
#ifndef SC_CHECKPOINT_STATISTICS_H
#define SC_CHECKPOINT_STATISTICS_H

#include "coordinator.h"

typedef struct sc_statistics sc_statistics_t;

sc_statistics_t *sc_statistics_create(uint32_t history, uint32_t n_tasks);
void sc_statistics_destroy(sc_statistics_t *s);
void sc_statistics_task_name(sc_statistics_t *s, uint32_t task, const char *name);
void sc_statistics_triggered(sc_statistics_t *s, uint64_t id, int64_t now_ms, bool manual);
void sc_statistics_ack(sc_statistics_t *s, uint64_t id, int64_t now_ms, const sc_task_snapshot_t *snap);
void sc_statistics_completed(sc_statistics_t *s, uint64_t id, int64_t now_ms, const char *path);
void sc_statistics_failed(sc_statistics_t *s, uint64_t id, int64_t now_ms, const char *reason);
void sc_statistics_restored(sc_statistics_t *s, uint64_t id, int64_t now_ms, const char *path);
/* One msgpack map: {counts = {...}, latest = {...}, history = [{id, status, trigger_timestamp,
 * end_to_end_duration, state_size, processed_data, path, reason, tasks = [{name, acknowledged,
 * ack_timestamp, end_to_end_duration, state_size, sync_duration, async_duration, alignment_duration,
 * start_delay}, ...]}, ...] newest first}. Durations in ms (floats), sizes in bytes. */
void sc_statistics_encode(const sc_statistics_t *s, sc_buf_t *out);

#endif
