/*
 * job_parts: what the rooms of a job share (job.h says what a job is). Internal to them.
 *
 * Threads: fields belong to the coordinator's thread but those under `view`, which is locked by
 * sc__view_lock. File work runs in the pool one after another (sc__job_file_work), so that what
 * concerns one checkpoint happens in the order of the coordinator's actions.
 */
#ifndef SC_RUNTIME_JOB_PARTS_H
#define SC_RUNTIME_JOB_PARTS_H

#include "../checkpoint/statistics.h"
#include "../snapshot/job_dir.h"
#include "enumerator.h"
#include "job.h"

typedef struct sc_rows {      /* of one collect at one subtask, for one checkpoint */
  struct sc_rows *next;
  const char *uid;
  uint64_t id;
  bool visible;
  sc_buf_t bytes;             /* msgpack array */
} sc_rows_t;

typedef struct sc_answer {
  struct sc_answer *next;
  uint64_t ticket, request, id;
  bool done, waits;
  enum { SC_ASK_CHECKPOINT, SC_ASK_SUSPEND, SC_ASK_DRAIN } what;
  sc_error_t error;
} sc_answer_t;

typedef struct sc_view {      /* what other threads see; under lock */
  pthread_mutex_t lock;
  int fd;                     /* eventfd: events wait */
  int news_fd;                /* eventfd: something is new for sc_job_wait_news */
  sc_job_state_t state;
  uint64_t attempt, restarts, last_checkpoint;
  char *error, *restored_path;
  int error_code;
  bool was_complete;
  bool stopped;
  sc_statistics_t *statistics;
  sc_attempt_t *attempt_shown; /* for metrics, while it lives */
  sc_buf_t last_metrics;      /* of the last one that ended */
  sc_rows_t *rows, **rows_tail;
  sc_answer_t *answers;
  uint64_t next_ticket;
  sc_buf_t events;            /* msgpack maps */
  uint32_t n_events;
} sc_view_t;

typedef struct sc_file_work sc_file_work_t;

struct sc_job {
  atomic_uint refs;
  sc_engine_t *engine;
  sc_world_t *world;
  sc_storage_t *storage;  /* the world's, for what lies in the job's folder */
  sc_graph_t *graph;
  char *id, *name;
  char *path;                 /* the job's folder, or NULL */
  sc_log_t *log;
  sc_job_options_t options;   /* strings in it are the job's own */
  sc_job_dir_t *dir;          /* or NULL */
  sc_view_t view;

  sc_job_state_t state;
  sc_coordinator_t *coordinator;
  sc_restart_t *restart;
  bool coordinating;          /* between sc_coordinator_start and stop */
  sc_attempt_t *attempt;      /* until RELEASED */
  uint64_t attempt_number;
  uint32_t n_ready, n_finished;
  bool *ended, *asked;        /* tasks that said so before all were ready */
  bool *finished;             /* tasks that were told they may leave */
  sc_enumerator_t **enumerators; /* node: of a source, else NULL */

  sc_metadata_t *restore;     /* what the next attempt begins from, or NULL */
  char *restore_dir;          /* folder of its files */
  sc_restore_operator_t **plans; /* node */
  uint64_t restored_latest;   /* newest completed when `restore` was chosen */
  bool all_finished;          /* restore is the last checkpoint of a finished run */

  bool canceling;
  bool suspended;             /* the checkpoint that stops it is complete: it does not run again */
  bool keeps;                 /* a stop was answered with a checkpoint: that one stays */
  int64_t interrupt_at_ms;    /* monotonic: when to interrupt slots that do not end; 0: not now */
  sc_error_t failure;         /* what ended the attempt */
  int64_t restart_at_ms;      /* monotonic; 0: not waiting */
  int64_t failed_at_ms;       /* monotonic: for the recovery's log line */
  bool suspect;               /* restoring failed as if what it restored from was damaged */
  bool reopening;
  bool gone;
  int64_t last_good_ms;       /* monotonic: when the last checkpoint completed; 0 */

  struct sc_pending_cut { struct sc_pending_cut *next; uint64_t id; sc_buf_t *enumerators; } *cuts;
  sc_file_work_t *files, **files_tail; /* waiting; the first is running */
};

/* job_view.c */
void sc__view_init(sc_job_t *job);
void sc__view_fini(sc_job_t *job);
static inline void sc__view_lock(sc_job_t *job) { pthread_mutex_lock(&job->view.lock); }
static inline void sc__view_unlock(sc_job_t *job) { pthread_mutex_unlock(&job->view.lock); }
void sc__view_state(sc_job_t *job, sc_job_state_t state); /* sets job->state, too, and tells */
void sc__view_error(sc_job_t *job, const sc_error_t *err);
void sc__view_stopped(sc_job_t *job);
void sc__view_attempt(sc_job_t *job, sc_attempt_t *attempt);
void sc__view_rows(sc_job_t *job, sc_report_t *r);
void sc__view_checkpoint(sc_job_t *job, uint64_t id, bool complete, const char *text); /* event */
void sc__view_rewind(sc_job_t *job, uint64_t id); /* rows newer than what is gone back to */
/* True: it was asked to stop. */
bool sc__view_answer(sc_job_t *job, uint64_t request, uint64_t id, sc_error_t *err);
void sc__view_asked(sc_job_t *job, uint64_t ticket, uint64_t request);
void sc__view_ask_waiting(sc_job_t *job); /* the job runs: ask what was asked before it did */
void sc__view_refuse_waiting(sc_job_t *job, int64_t delay_ms); /* it restarts, but not yet */

/* job_open.c */
int sc__job_open(sc_job_t *job, sc_error_t *err);
/* Plans for the graph from job->restore (NULL: none): SC_ESTATE ... */
int sc__job_plan(sc_job_t *job, sc_error_t *err);
void sc__job_drop_plans(sc_job_t *job);
/* Before every attempt: operators look at what they find outside (sinks sweep what an attempt left
 * that is no part of `restore`). Blocks. */
int sc__job_prepare(sc_job_t *job, const sc_metadata_t *restore, sc_error_t *err);

/* job_back.c */
/* options.from -> job->restore, restore_dir; NULL where it begins anew. Blocks. */
int sc__job_choose(sc_job_t *job, sc_error_t *err);
void sc__job_reopen(sc_job_t *job); /* after a failure: what to go back to, and the next attempt */

/* job_actions.c */
void sc__job_actions(sc_job_t *job);   /* carry out what the coordinator wants now */
/* Run in the pool, after all earlier file work of this job; then `done` on the coordinator's
 * thread. Either may use arg; done frees it. */
void sc__job_file_work(sc_job_t *job, int (*run)(sc_job_t *job, void *arg, sc_error_t *err),
                       void (*done)(sc_job_t *job, void *arg, int rc, sc_error_t *err), void *arg);
void sc__job_drop_cuts(sc_job_t *job);

/* job.c */
void sc__job_begin_attempt(sc_job_t *job);
/* Nothing of the attempt runs, nothing decided is being written: what now? Without `again`, a
 * failure ends the job. */
void sc__job_decide(sc_job_t *job, bool again);
void sc__job_fail(sc_job_t *job, uint32_t task, sc_error_t *err); /* ends the attempt */
static inline int64_t sc__job_now(const sc_job_t *job) { return sc_world_now_ms(job->world); }
static inline int64_t sc__job_mono(const sc_job_t *job) {
  return sc_world_mono_ns(job->world) / 1000000;
}
void sc__job_log(sc_job_t *job, sc_log_level_t level, uint64_t checkpoint, const char *task,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
