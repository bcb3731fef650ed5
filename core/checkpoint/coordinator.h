/*
 * coordinator: the life of every checkpoint of a job. Pure: events in, actions out; no clock, no
 * thread, no file, no state of users: it knows tasks by number and snapshots by handles.
 *
 * A checkpoint:
 *
 *   request or interval -> QUEUED -> PREPARING (id taken; the folder is made)
 *      -> PENDING (triggered)
 *      -> all tasks acknowledged -> WRITING (_metadata; decided: neither expires nor aborts)
 *      -> COMPLETED (tasks told; older pending ones aborted; oldest beyond `retain` deleted)
 *   before WRITING --decline, expiry, task failure, stop, a later one completed--> ABORTED
 *   (an expiry names a task that had not acknowledged)
 *   WRITING --write failed--> ABORTED (EFINALIZE reason; never told complete)
 *
 * _metadata are written one at a time, in the order of ids (DESIGN section 6). Where the last
 * acknowledgement of an older one comes while a newer one is already being written, the older one
 * waits for the outcome: it is subsumed if the newer one completes, and written if that fails. Ids
 * grow by one for every attempt that passes planning, are taken from a reserved block (action
 * RESERVE raises it by 1,000 before it runs out; none is used before the reservation is durable),
 * and are never used twice.
 *
 * Rules are the reference's, sections 1-3; chosen otherwise here: aborted checkpoints' files are
 * deleted at once (all private in this release); tolerable failures are unlimited by default;
 * min_pause (and failure_pause, after one whose failure counts) delays a periodic one and never a
 * manual one; the first periodic trigger comes one
 * interval after the start (a short job gets a predictable first checkpoint instead of Flink's
 * random delay); periodic ones that came due while none could start are not made up for.
 *
 * Task life here:  RUNNING --end_of_data--> ENDED --finish_request--> (when no pending checkpoint
 * waits for it) FINISHED, answered by action FINISHED. When every task has ended, one checkpoint is
 * triggered at once (final), and again if it fails, after a pause that doubles; one that expires is
 * given twice the time, since there is nothing else that the job could do. Not in a job without an
 * interval.
 * A finished task is not waited for; later checkpoints list the snapshot of its final checkpoint.
 * Where a task left without one (there was no final one) no further checkpoint can be taken:
 * SC_REASON_NOT_RUNNING.
 *
 * Overtaking: with `unaligned` a barrier may overtake data, at once or from aligned_timeout_ms
 * after the checkpoint's start. Such a checkpoint is begun only when no other is pending (DESIGN
 * section 4); an aligned one may follow any.
 *
 * A stop of the job (sc_coordinator_request_stop) comes before all other requests; while one is
 * under way nothing else begins. Those that are pending go on.
 *
 *   suspend  NONE --request--> WANTED --begun: an aligned checkpoint whose barriers tell tasks to
 *              stand still after their snapshot--> UNDER_WAY --completed--> DONE: all may leave
 *              UNDER_WAY --failed--> NONE: the job goes on
 *   drain    NONE --request--> WANTED --action DRAIN--> UNDER_WAY (every source ends its input; no
 *              checkpoint but the final one, so none is half drained) --final completed--> DONE
 *              any but DONE --the attempt ends--> NONE
 *
 * From WANTED on no task leaves whose state a checkpoint would lose. Where all tasks have ended by
 * themselves, a stop waits for the final checkpoint, or is answered with it.
 *
 * Rooms inside: reason, failures (how many in a row), schedule (what may start when), ids, roster
 * (tasks of the attempt), pending (one checkpoint), retained (completed ones), outbox (actions).
 *
 * Threads: one (the coordinator's). Ownership: acknowledged snapshots become its; actions borrow
 * from it until the next call, the snapshots of a WRITE until its sc_coordinator_written. File work
 * for one id is to be carried out in the order of its actions (an ABORT may follow a PREPARE that
 * is still under way). Failure: none; an event that fits nothing (an id long gone) is ignored.
 */
#ifndef SC_CHECKPOINT_COORDINATOR_H
#define SC_CHECKPOINT_COORDINATOR_H

#include "../snapshot/handle.h"
#include "reason.h"
#include "roster.h"

typedef struct sc_coordinator_config {
  int64_t interval_ms;          /* 0: only on request */
  bool final;                   /* one when the input ends, too, where there is no interval */
  int64_t timeout_ms;           /* 600,000 by default */
  int64_t min_pause_ms;         /* from a completion to a periodic start */
  int64_t failure_pause_ms;     /* from a failure that counts to a periodic start */
  uint32_t max_concurrent;      /* 1 by default */
  int64_t tolerable_failures;   /* < 0: unlimited (default) */
  uint32_t retain;              /* 1 by default */
  bool unaligned;               /* barriers may overtake data; max_concurrent is 1 then */
  int64_t aligned_timeout_ms;   /* unaligned: from this long after the start; 0: at once */
  bool all_or_none;             /* none is taken while only some tasks have ended: then only the
                                   final one is (the reference's checkpoints-after-tasks-finish off,
                                   but for the rows that it loses there) */
} sc_coordinator_config_t;

typedef enum {
  SC_ACT_RESERVE,   /* make ids up to `id` durable, then sc_coordinator_reserved */
  SC_ACT_PREPARE,   /* make the folder of checkpoint id, then sc_coordinator_prepared */
  SC_ACT_TRIGGER,   /* send (id, timestamp_ms, overtake_at_ms) to `tasks` and take the
                       enumerators' state */
  SC_ACT_WRITE,     /* write _metadata of id from `snapshots` (n_tasks of them, finished ones
                       included, in task order), then sc_coordinator_written */
  SC_ACT_COMPLETE,  /* tell every running task that id is complete */
  SC_ACT_ABORT,     /* tell every running task that id was aborted; delete its files */
  SC_ACT_DELETE,    /* delete completed checkpoint id: _metadata first, then its files */
  SC_ACT_DISCARD,   /* delete the files of `snapshots[0]`, which came too late, for checkpoint id,
                       and its folder if that is empty then */
  SC_ACT_FINISHED,  /* tell `task` that it may leave */
  SC_ACT_ANSWER,    /* request `request` ended: completed as id, or reason */
  SC_ACT_FAIL_JOB,  /* tolerable failures exceeded */
  SC_ACT_REFUSED,   /* a checkpoint failed before it had an id, in a way that counts; or none is
                       taken for now, since only some tasks have ended (told once in an attempt) */
  SC_ACT_DRAIN      /* tell every source task to end its input now, for `request` */
} sc_action_kind_t;

typedef struct sc_action {
  sc_action_kind_t kind;    /* which; says what of the rest is set */
  uint64_t id;              /* the checkpoint; 0 in an ANSWER, FAIL_JOB or REFUSED before it had an
                               id */
  int64_t timestamp_ms;     /* wall clock when the checkpoint was begun */
  int64_t waited_ms;        /* TRIGGER: before that, for another checkpoint to end */
  int64_t overtake_at_ms;   /* TRIGGER: as in sc_barrier_t: 0 never, 1 at once, else monotonic ms */
  sc_reason_t reason;       /* ABORT, ANSWER, FAIL_JOB, REFUSED; NONE where it completed */
  uint32_t task;            /* culprit of an ABORT or ANSWER (UINT32_MAX: none), or of FINISHED */
  const char *text;         /* what the task said, or NULL */
  const uint32_t *tasks;    /* TRIGGER */
  uint32_t n_tasks;         /* TRIGGER: of tasks; WRITE: of snapshots */
  sc_task_snapshot_t *const *snapshots; /* WRITE, DISCARD: borrowed */
  bool final;               /* WRITE, COMPLETE: every task had ended, the job is complete with it;
                               ABORT: it would have been the final one */
  bool stop;                /* TRIGGER, WRITE, COMPLETE: the job is suspended with it */
  int64_t retry_ms;         /* ABORT of a final one: it is tried again after so long */
  int64_t timeout_ms;       /* ABORT of a final one: the time that the next is given */
  uint64_t request;         /* ANSWER; elsewhere the request behind the checkpoint, or 0 */
} sc_action_t;

typedef struct sc_coordinator sc_coordinator_t;

/* Whether a job ends with a final checkpoint, without which nothing that its sinks give counts. */
bool sc_coordinator_ends_with_one(const sc_coordinator_config_t *config);
sc_coordinator_t *sc_coordinator_create(const sc_coordinator_config_t *config);
void sc_coordinator_destroy(sc_coordinator_t *c);

/* Next action to carry out, oldest first; false when there is none. Call after every event. */
bool sc_coordinator_action(sc_coordinator_t *c, sc_action_t *out);

/* Ids begin above `highest` (reserved or found); nothing is reserved yet. Before start. */
void sc_coordinator_begin_ids(sc_coordinator_t *c, uint64_t highest);
/* Answer to RESERVE. What waited for it starts at the next tick, which is due at once. */
void sc_coordinator_reserved(sc_coordinator_t *c, uint64_t up_to, bool ok);
/* Completed checkpoints found at start, or restored from: they count for `retain`. Oldest first. */
void sc_coordinator_add_completed(sc_coordinator_t *c, uint64_t id);
/* Delete what is beyond `retain` now. For a job that was found complete: no checkpoint will come
 * that pushes out what a kill left behind its last one. */
void sc_coordinator_trim(sc_coordinator_t *c);

/* An attempt runs: all tasks are RUNNING unless told (restored as finished: sc_coordinator_restored
 * right after). Times: `now` wall clock ms of the world, `mono_ms` monotonic ms; intervals, pauses
 * and timeouts go by mono_ms only (a clock that jumps changes nothing, B-102). */
void sc_coordinator_start(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms,
                          const sc_topology_t *t);
/* Task was restored as finished, with what its final checkpoint listed (takes ownership of `final`,
 * not NULL). It still takes part until it asks to leave, but counts as ENDED with its final
 * checkpoint complete. */
void sc_coordinator_restored_finished(sc_coordinator_t *c, uint32_t task,
                                      sc_task_snapshot_t *final);
/* The job left RUNNING (failure, cancel, end): queue and all pending are aborted with `reason`,
 * except what is decided, which is let to its end (see sc_coordinator_writing). */
void sc_coordinator_stop(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, sc_reason_t reason,
                         uint32_t task);
/* A part of the job alone has failed (runtime/regions.h): as stop, but the tasks of the other parts
 * run on, so a decided checkpoint is told to them as complete. Their end of data, and their wish to
 * leave, are to be told again after resume. */
void sc_coordinator_suspend(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms,
                            sc_reason_t reason, uint32_t task);
/* All tasks run again: those that `restarted` names (one flag each) from a checkpoint, as RUNNING
 * ones; all others go on as they were, with their final snapshots. After suspend, and not while
 * sc_coordinator_writing. */
void sc_coordinator_resume(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms,
                           const bool *restarted);
/* A decided checkpoint is being written, or waits to be. Not before it is false is it known what to
 * go back to. */
bool sc_coordinator_writing(const sc_coordinator_t *c);

void sc_coordinator_tick(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms);
/* Monotonic ms of the next tick; INT64_MAX if none. */
int64_t sc_coordinator_deadline(const sc_coordinator_t *c);
/* A manual checkpoint; returns the request's number, answered by SC_ACT_ANSWER. */
uint64_t sc_coordinator_request(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms);
/* Stop the job with a checkpoint; a request like the others. Its ANSWER comes with the checkpoint's
 * completion; that all tasks leave is still to come. */
uint64_t sc_coordinator_request_stop(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms,
                                     bool drain);
void sc_coordinator_prepared(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, uint64_t id,
                             bool ok);
void sc_coordinator_ack(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, uint64_t id,
                        sc_task_snapshot_t *snap);  /* takes ownership; snap->task says who */
void sc_coordinator_decline(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, uint64_t id,
                            uint32_t task, sc_reason_t reason, const char *text);
void sc_coordinator_written(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, uint64_t id,
                            bool ok);
void sc_coordinator_deleted(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, uint64_t id);
void sc_coordinator_end_of_data(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms,
                                uint32_t task);
void sc_coordinator_finish_request(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms,
                                   uint32_t task);

uint64_t sc_coordinator_latest(const sc_coordinator_t *c); /* newest completed id, 0 if none */
uint64_t sc_coordinator_failures(const sc_coordinator_t *c); /* failed in a row, for the log */

#endif
