/*
 * coordinator: the life of every checkpoint of a job. Pure: events in, actions out; no clock, no
 * thread, no file, no state of users: it knows tasks by number and snapshots by handles.
 *
 * A checkpoint:
 *
 *   request or interval -> QUEUED -> PREPARING (id taken; the folder is made) -> PENDING (triggered)
 *      -> all tasks acknowledged -> WRITING (_metadata; decided: neither expires nor aborts)
 *      -> COMPLETED (tasks told; older pending ones aborted; oldest beyond `retain` deleted)
 *   any state before WRITING --decline, expiry, task failure, stop, a later one completed--> ABORTED
 *   WRITING --write failed--> ABORTED (EFINALIZE reason; never told complete)
 *
 * _metadata are written one at a time, in the order of ids (DESIGN section 6). Ids grow by one for
 * every attempt that passes planning, are taken from a reserved block (action RESERVE raises it by
 * 1,000 before it runs out; none is used before the reservation is durable), and are never used
 * twice.
 *
 * Rules are the reference's, sections 1-3; chosen otherwise here: aborted checkpoints' files are
 * deleted at once (all private in this release); tolerable failures are unlimited by default;
 * min_pause delays a periodic one and never a manual one; the first periodic trigger comes one
 * interval after the start (a short job gets a predictable first checkpoint instead of Flink's
 * random delay).
 *
 * Task life here:  RUNNING --end_of_data--> ENDED --finish_request--> (when no pending checkpoint
 * waits for it) FINISHED, answered by action FINISHED. When every task has ended, one checkpoint is
 * triggered at once (final). A finished task is not waited for; later checkpoints list the snapshot
 * of its final checkpoint.
 *
 * Threads: one (the coordinator's). Ownership: acknowledged snapshots become its; actions borrow
 * from it until the next call.
 */
#ifndef SC_CHECKPOINT_COORDINATOR_H
#define SC_CHECKPOINT_COORDINATOR_H

#include "../snapshot/handle.h"

typedef enum {
  SC_REASON_NONE,
  SC_REASON_EXPIRED,            /* counted as failures: the first five */
  SC_REASON_DECLINED,
  SC_REASON_ASYNC_FAILED,
  SC_REASON_IO,                 /* the folder could not be made, ids not reserved */
  SC_REASON_FINALIZE,           /* _metadata could not be written */
  SC_REASON_SUBSUMED,
  SC_REASON_TASK_FAILED,
  SC_REASON_TASK_CLOSING,
  SC_REASON_SUPERSEDED,         /* a task saw a newer barrier first */
  SC_REASON_NOT_RUNNING,        /* preflight: a task is not running */
  SC_REASON_TOO_MANY_REQUESTS,  /* preflight: the queue of 1,000 is full */
  SC_REASON_STOPPED             /* the job left RUNNING */
} sc_reason_t;
const char *sc_reason_text(sc_reason_t reason);

typedef struct sc_coordinator_config {
  int64_t interval_ms;          /* 0: only on request */
  int64_t timeout_ms;           /* 600,000 by default */
  int64_t min_pause_ms;
  uint32_t max_concurrent;      /* 1 by default */
  int64_t tolerable_failures;   /* < 0: unlimited (default) */
  uint32_t retain;              /* 1 by default */
} sc_coordinator_config_t;

/* What the coordinator must know of the running graph. Arrays are copied. */
typedef struct sc_topology {
  uint32_t n_tasks;
  const uint32_t *const *senders; /* senders[i]: tasks that feed task i */
  const uint32_t *n_senders;
} sc_topology_t;

typedef enum {
  SC_ACT_RESERVE,   /* make ids up to `id` durable, then sc_coordinator_reserved */
  SC_ACT_PREPARE,   /* make the folder of checkpoint id, then sc_coordinator_prepared */
  SC_ACT_TRIGGER,   /* send (id, timestamp_ms) to `tasks` and take the enumerators' state */
  SC_ACT_WRITE,     /* write _metadata of id from `snapshots` (n_tasks of them, finished ones
                       included, in task order), then sc_coordinator_written */
  SC_ACT_COMPLETE,  /* tell every running task that id is complete */
  SC_ACT_ABORT,     /* tell every running task that id was aborted; delete its files */
  SC_ACT_DELETE,    /* delete completed checkpoint id: _metadata first, then its files */
  SC_ACT_DISCARD,   /* delete the files of `snapshots[0]`, which came too late, for checkpoint id */
  SC_ACT_FINISHED,  /* tell `task` that it may leave */
  SC_ACT_ANSWER,    /* request `request` ended: completed as id, or reason */
  SC_ACT_FAIL_JOB   /* tolerable failures exceeded */
} sc_action_kind_t;

typedef struct sc_action {
  sc_action_kind_t kind;
  uint64_t id;
  int64_t timestamp_ms;
  sc_reason_t reason;
  uint32_t task;            /* culprit of an ABORT (UINT32_MAX: none), or of FINISHED */
  const char *text;         /* what the task said, or NULL */
  const uint32_t *tasks;    /* TRIGGER */
  uint32_t n_tasks;
  sc_task_snapshot_t *const *snapshots; /* WRITE, DISCARD: borrowed */
  bool final;               /* WRITE: every task had ended, the job is complete with it */
  uint64_t request;
} sc_action_t;

typedef struct sc_coordinator sc_coordinator_t;

sc_coordinator_t *sc_coordinator_create(const sc_coordinator_config_t *config);
void sc_coordinator_destroy(sc_coordinator_t *c);

/* Next action to carry out, oldest first; false when there is none. Call after every event. */
bool sc_coordinator_action(sc_coordinator_t *c, sc_action_t *out);

/* Ids begin above `highest` (reserved or found); nothing is reserved yet. Before start. */
void sc_coordinator_begin_ids(sc_coordinator_t *c, uint64_t highest);
void sc_coordinator_reserved(sc_coordinator_t *c, uint64_t up_to, bool ok);
/* Completed checkpoints found at start, or restored from: they count for `retain`. Oldest first. */
void sc_coordinator_add_completed(sc_coordinator_t *c, uint64_t id);

/* An attempt runs: all tasks are RUNNING unless told (restored as finished: sc_coordinator_restored
 * right after). Times: `now` wall clock ms of the world, `mono_ms` monotonic ms; intervals, pauses
 * and timeouts go by mono_ms only (a clock that jumps changes nothing, B-102). */
void sc_coordinator_start(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, const sc_topology_t *t);
/* Task was restored as finished, with what its final checkpoint listed (takes ownership). It still
 * takes part until it asks to leave, but counts as ENDED with its final checkpoint complete. */
void sc_coordinator_restored_finished(sc_coordinator_t *c, uint32_t task);
/* The job left RUNNING (failure, cancel, end): queue and all pending are aborted with `reason`,
 * except one in WRITING, which is let to its end (see sc_coordinator_writing). */
void sc_coordinator_stop(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, sc_reason_t reason, uint32_t task);
bool sc_coordinator_writing(const sc_coordinator_t *c); /* a decided checkpoint is being written */

void sc_coordinator_tick(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms);
int64_t sc_coordinator_deadline(const sc_coordinator_t *c); /* mono_ms of the next tick; INT64_MAX */
/* A manual checkpoint; returns the request's number, answered by SC_ACT_ANSWER. */
uint64_t sc_coordinator_request(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms);
void sc_coordinator_prepared(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, uint64_t id, bool ok);
void sc_coordinator_ack(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, uint64_t id,
                        sc_task_snapshot_t *snap);  /* takes ownership; snap->task says who */
void sc_coordinator_decline(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, uint64_t id,
                            uint32_t task, sc_reason_t reason, const char *text);
void sc_coordinator_written(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, uint64_t id, bool ok);
void sc_coordinator_deleted(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, uint64_t id);
void sc_coordinator_end_of_data(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, uint32_t task);
void sc_coordinator_finish_request(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, uint32_t task);

uint64_t sc_coordinator_latest(const sc_coordinator_t *c); /* newest completed id, 0 if none */

#endif
