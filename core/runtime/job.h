/*
 * job: one job from start to end: opens its folder, chooses what to restore, runs the attempts of
 * its regions, each one after another, carries out what the checkpoint coordinator decides, and
 * shows it all to the user.
 *
 *   OPENING (sc_job_start, the caller's thread: lock, scan, choose, prepare sinks)
 *     -> STARTING --every task ready--> RUNNING --every task finished--> FINISHED
 *   STARTING, RUNNING --a task fails--> RESTARTING --delay--> STARTING | FAILED
 *   any --sc_job_cancel--> CANCELING -> CANCELED
 *   Where the graph has several regions (regions.h), only that of the task restarts; the others run
 *   on. The job is RUNNING when all its regions are, and RESTARTING while one is to begin again.
 *   RESTARTING begins only when nothing of the old attempt runs any more and a decided checkpoint
 *   has been written (DESIGN section 6, "What is complete").
 *
 * Rooms: job_open (what sc_job_start does), job_back (what to go back to), job_fit (how that fits
 * the graph), job_regions (attempts of the regions, and what follows when one fails), job_reports
 * (what tasks tell), job_actions (the coordinator's actions and file work, in order, in the pool),
 * job_ask (what users ask for), job_view (what other threads see: one lock, an eventfd), job (the
 * rest).
 *
 * Threads: functions below that say "any" may be called by any thread; the others belong to the
 * coordinator's. Ownership: reference counted; the engine holds one until the job has ended, each
 * handle one. Failure: sc_job_start fails with one whole sentence and leaves nothing behind.
 */
#ifndef SC_RUNTIME_JOB_H
#define SC_RUNTIME_JOB_H

#include <signal.h>

#include "../checkpoint/coordinator.h"
#include "attempt.h"
#include "engine.h"
#include "restart.h"

typedef enum {
  SC_JOB_STARTING,
  SC_JOB_RUNNING,
  SC_JOB_RESTARTING,
  SC_JOB_CANCELING,
  SC_JOB_FINISHED,
  SC_JOB_FAILED,
  SC_JOB_CANCELED
} sc_job_state_t;
const char *sc_job_state_name(sc_job_state_t s); /* "starting" "running" ... */
static inline bool sc_job_state_ended(sc_job_state_t s) { return s >= SC_JOB_FINISHED; }

typedef enum {
  SC_EXTERNALIZED_RETAIN,
  SC_EXTERNALIZED_DELETE_ON_CANCELLATION,
  SC_EXTERNALIZED_NONE
} sc_externalized_t;

typedef struct sc_job_options {
  const char *id, *name;          /* id names the folder */
  const char *dir;                /* checkpoint directory, or NULL: no checkpoints */
  bool unsynced;                  /* nothing in dir is synced: it outlives the process, but perhaps
                                     not a loss of power. Sinks sync what they write anyway */
  sc_coordinator_config_t checkpoint;
  int64_t explain_after_ms; /* a checkpoint that takes longer is slow, and is explained; 0:
                               SC_EXPLAIN_AFTER_MS (checkpoint/statistics.h) */
  sc_externalized_t externalized;
  bool synchronous; /* snapshots are written while the task waits (SPEC D2's switch) */
  bool at_least_once; /* SPEC A3; never together with checkpoint.unaligned */
  sc_restart_config_t restart;
  uint32_t n_slots;
  uint32_t segment_size, exclusive_buffers, floating_buffers, overdraft_buffers;
  sc_debloat_t debloat;       /* network.debloat */
  uint32_t subtasks_per_file; /* max_subtasks_per_channel_state_file */
  int64_t buffer_timeout_ms;
  const char *from;               /* NULL: fresh; "latest"; or a path */
  bool allow_non_restored_state;
  bool fallback_older;
  sc_log_level_t log_level;       /* to stderr */
  const char *log_file;           /* NULL: <dir>/<id>/log where there is a dir */
  const char *const *warnings;    /* lines for the log at start; borrowed for the call */
  uint32_t n_warnings;
  sc_host_ops_t host;
  void (*free_host_arg)(void *arg); /* host.arg, when the job is gone */
} sc_job_options_t;

/* Any thread but the coordinator's. Takes over the graph (finished) whatever happens. Everything
 * that can be known at once is checked here: SC_ELOCKED, SC_ECORRUPT, SC_EEXIST (a sink's folder
 * in use), SC_ESTATE (state that no operator takes) ... The result holds a reference. */
int sc_job_start(sc_engine_t *e, sc_graph_t *graph, const sc_job_options_t *options, sc_job_t **out,
                 sc_error_t *err);
void sc_job_ref(sc_job_t *job);     /* any */
void sc_job_unref(sc_job_t *job);   /* any */

/* ---- any thread ---- */
/* A part of the graph that fails over alone (regions.h). */
typedef struct sc_region_status {
  const char *state;                /* "starting" "running" "restarting" "ending" "ended" */
  uint64_t attempt;                 /* of the region */
  uint64_t restarts;
  const char **uids;                /* its operators, in the graph's order; the graph's texts */
  uint32_t n_uids;
} sc_region_status_t;

typedef struct sc_job_status {
  sc_job_state_t state;
  uint64_t attempt;                 /* the highest of a region */
  uint64_t restarts;                /* that the strategy has granted */
  uint64_t last_checkpoint;         /* newest completed, 0 if none */
  char *last_checkpoint_path;       /* malloc'ed, or NULL */
  char *error; /* whole text of what ended (or last failed) it, malloc'ed, or NULL */
  int error_code;
  char *restored_path;              /* what it began from, malloc'ed, or NULL */
  bool was_complete;                /* "latest" was the last checkpoint of a finished run */
  bool stopped;                     /* FINISHED by sc_job_stop without drain: a start goes on */
  sc_region_status_t *regions;
  uint32_t n_regions;
} sc_job_status_t;
void sc_job_status(sc_job_t *job, sc_job_status_t *out);
void sc_job_status_fini(sc_job_status_t *s);
const char *sc_job_id(const sc_job_t *job);
void sc_job_cancel(sc_job_t *job);  /* idempotent */
/* Ask for a checkpoint, which is taken when the job runs: a ticket for sc_job_ticket. */
uint64_t sc_job_checkpoint(sc_job_t *job);
/* Stop the job with a checkpoint, which is kept whatever the options say: a ticket, answered when
 * that is complete; the job ends when its sinks have committed. Without `drain` its input stops
 * where it is, and a start from the checkpoint goes on there. With it the input ends here: the last
 * watermark is handed on, and the job is complete. Where it fails the job goes on. */
uint64_t sc_job_stop(sc_job_t *job, bool drain);
/* 0: not answered yet; 1: completed, *id; negative: failed, err says why. An answer is given
 * once. */
int sc_job_ticket(sc_job_t *job, uint64_t ticket, uint64_t *id, sc_error_t *err);
void sc_job_statistics(sc_job_t *job, sc_buf_t *out);   /* statistics.h */
void sc_job_metrics(sc_job_t *job, sc_buf_t *out); /* sc_attempt_metrics; of the last attempt */
/* msgpack array of a collect's rows; SC_ENOTFOUND where no collect has the uid. */
int sc_job_rows(sc_job_t *job, const char *uid, sc_buf_t *out, sc_error_t *err);
/* The same as if checkpoint `id` and all before it had completed: for whoever looks at a job that
 * died together with its process, and knows that they had. */
int sc_job_rows_until(sc_job_t *job, const char *uid, uint64_t id, sc_buf_t *out, sc_error_t *err);
/* Events since the last call: a msgpack array of maps {type, ...}. */
void sc_job_events(sc_job_t *job, sc_buf_t *out);
/* An eventfd that is readable while events wait for sc_job_events. The job's. */
int sc_job_fd(sc_job_t *job);
/* Block until something is new (state, answer, event) or timeout_ms has passed (< 0: for ever).
 * 1 something is new, 0 time is over, SC_ECANCELED: a signal came. `signals` (NULL: as they are)
 * are blocked while it waits, and only then: who blocks all before it looks whether one has come
 * misses none. One waiter at a time. */
int sc_job_wait_news(sc_job_t *job, int64_t timeout_ms, const sigset_t *signals);

/* ---- coordinator's thread (engine.c) ---- */
int64_t sc__job_step(sc_job_t *job);   /* due things; returns the next deadline, monotonic ns */
bool sc__job_canceling(const sc_job_t *job);
bool sc__job_gone(const sc_job_t *job);/* ended, and nothing of it runs */
const char *sc__job_what_runs(sc_job_t *job); /* for a shutdown that hangs */

#endif
