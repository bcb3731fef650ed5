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

/* A region as others see it. */
typedef struct sc_shown_region {
  sc_attempt_t *attempt; /* for metrics, while it lives */
  const char *state;     /* static text */
  uint64_t number, restarts;
} sc_shown_region_t;

typedef struct sc_shown_metrics { uint32_t n; sc_buf_t maps; } sc_shown_metrics_t;

typedef struct sc_view {      /* what other threads see; under lock */
  pthread_mutex_t lock;
  int fd;                     /* eventfd: events wait */
  int news_fd;                /* eventfd: something is new for sc_job_wait_news */
  sc_job_state_t state;
  uint64_t attempt, restarts, last_checkpoint;
  sc_shown_region_t *regions; /* job->layout->n of them */
  char *error, *restored_path;
  int error_code;
  bool was_complete;
  bool stopped;
  sc_statistics_t *statistics;
  sc_shown_metrics_t *last_metrics; /* graph->n_tasks: of the attempts that ended last */
  sc_rows_t *rows, **rows_tail;
  sc_answer_t *answers;
  uint64_t next_ticket;
  sc_buf_t events;            /* msgpack maps */
  uint32_t n_events;
} sc_view_t;

typedef struct sc_file_work sc_file_work_t;

/* What attempts begin from: a snapshot, fitted to the graph. Reference counted, since the regions
 * of a job may have begun from different ones; the coordinator's thread counts. */
typedef struct sc_origin {
  uint32_t refs;
  sc_metadata_t *metadata;
  char *dir;                     /* folder of its files */
  bool owned;                    /* it is one of the job's own checkpoints */
  sc_restore_operator_t **plans; /* of each node, or NULL: a new operator; by sc__job_plan */
  uint32_t n_plans;
  sc_inflight_plan_t *inflight;  /* what is in flight in it, or NULL; by sc__job_plan */
  bool all_finished;             /* it is the last checkpoint of a finished run */
} sc_origin_t;

typedef enum {
  SC_REGION_STARTING,  /* not all its tasks are ready */
  SC_REGION_RUNNING,
  SC_REGION_ENDING,    /* its attempt is canceled, something of it still runs */
  SC_REGION_DOWN,      /* it failed and nothing of it runs; what comes now is not decided yet */
  SC_REGION_WAITING,   /* it begins again at restart_at_ms */
  SC_REGION_REOPENING, /* what it goes back to is looked at */
  SC_REGION_DONE       /* its tasks have finished, or the job ends; nothing of it runs */
} sc_region_state_t;

/* A part of the job that fails over alone (regions.h). */
typedef struct sc_region {
  sc_job_t *job;
  uint32_t index;          /* in job->layout */
  char *name;
  sc_region_state_t state;
  sc_attempt_t *attempt;   /* until RELEASED */
  uint64_t number;         /* of its attempt, or of the last one */
  sc_origin_t *origin;     /* what that began from, or NULL; a reference */
  uint32_t n_ready, n_finished; /* of its tasks */
  bool restarted;          /* since the coordinator ran last */
  sc_error_t failure;      /* what ended the attempt */
  uint64_t cause;          /* which failure that was; regions that share one fail once */
  bool granted;            /* another region of the same failure has got the restart already */
  bool hopeless;           /* no later attempt can do better */
  bool suspect;            /* restoring failed as if what it restored from was damaged */
  uint64_t restarts;
  int64_t failed_at_ms;    /* monotonic; 0: it has not failed since it ran */
  char *why;               /* the first line of that failure: both for the recovery's log line */
  int64_t restart_at_ms;   /* monotonic */
  int64_t interrupt_at_ms; /* monotonic: when to interrupt slots that do not end; 0: not now */
} sc_region_t;

struct sc_job {
  atomic_uint refs;
  sc_engine_t *engine;
  sc_world_t *world;
  sc_storage_t *storage;  /* the world's, for what lies in the job's folder */
  sc_graph_t *graph;
  sc_regions_t *layout;   /* NULL until sc__job_lay_out */
  bool *in_flight;        /* of edges, until then: sc__job_note_inflight; or NULL */
  char *id, *name;
  char *path;                 /* the job's folder, or NULL */
  sc_log_t *log;
  sc_job_options_t options;   /* strings in it are the job's own */
  sc_job_dir_t *dir;          /* or NULL */
  sc_view_t view;

  sc_job_state_t state;
  sc_coordinator_t *coordinator;
  sc_restart_t *restart;
  bool coordinating;          /* the coordinator runs: all regions do */
  bool coordinated;           /* it has been started: from then on it is suspended and resumed */
  sc_region_t *regions;       /* layout->n */
  uint64_t attempt_number;    /* the highest so far */
  uint64_t causes;            /* failures so far */
  bool *ended, *asked;        /* tasks that said so */
  bool *finished;             /* tasks that were told they may leave */
  sc_enumerator_t **enumerators; /* node: of a source, else NULL */

  sc_origin_t *origin;        /* what the next attempt begins from, or NULL; a reference */
  uint64_t restored_latest;   /* newest completed when `origin` was chosen */

  bool canceling;             /* the user's wish: everything is taken down */
  uint64_t draining;          /* the stop for which its sources end their input, and which has no
                                 answer yet; or 0 */
  bool suspended;             /* the checkpoint that stops it is complete: it does not run again */
  bool keeps;                 /* a stop was answered with a checkpoint: that one stays */
  bool failing;               /* `failure` ends the job: likewise */
  sc_error_t failure;
  bool reopening;             /* file work for regions that are REOPENING */
  bool gone;
  int64_t look_at_ms;         /* monotonic: when to look where tasks are */
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
void sc__view_region(sc_region_t *r); /* its state, attempt, restarts, as they are now */
void sc__view_attempt(sc_region_t *r, sc_attempt_t *attempt); /* NULL: it is about to go */
void sc__view_rows(sc_job_t *job, sc_report_t *r);
void sc__view_checkpoint(sc_job_t *job, uint64_t id, bool complete, const char *text); /* event */
/* The region goes back to checkpoint id: its rows that are newer go. */
void sc__view_rewind(sc_region_t *r, uint64_t id);
void sc__view_tell(sc_view_t *v); /* with the lock held: something is new */

/* job_explain.c */
/* Where tasks are that a checkpoint has waited for too long; monotonic ms of the next look. */
int64_t sc__job_look(sc_job_t *job, int64_t mono_ms);
void sc__job_seen(sc_job_t *job, const sc_report_t *r);
void sc__job_explain(sc_job_t *job, uint64_t id); /* one that was slow, in the log */

/* job_ask.c */
/* A request of the coordinator has its answer. True: it was one to stop. */
bool sc__ask_answer(sc_job_t *job, uint64_t request, uint64_t id, sc_error_t *err);
void sc__ask_waiting(sc_job_t *job); /* the job runs: ask what was asked before it did */
void sc__ask_refuse_waiting(sc_job_t *job, int64_t delay_ms); /* it restarts, but not yet */

/* job_open.c */
int sc__job_open(sc_job_t *job, sc_error_t *err);
/* Before every attempt: operators look at what they find outside (sinks sweep what an attempt left
 * that neither `restore` nor another checkpoint of the job's folder names). Those of the regions
 * that `regions` flags; NULL: all. Blocks. */
int sc__job_prepare(sc_job_t *job, const bool *regions, const sc_metadata_t *restore,
                    sc_error_t *err);

/* job_fit.c */
/* The job may go back to this checkpoint: where something is in flight in it the graph needs an
 * exchange. Until the graph is laid out. */
void sc__job_note_inflight(sc_job_t *job, const sc_metadata_t *m);
/* Cuts the chains inside which it does (graph.h): once, before the graph is laid out. */
void sc__job_unchain(sc_job_t *job);
/* Plans for the graph from job->origin (NULL: none): SC_ESTATE ... */
int sc__job_plan(sc_job_t *job, sc_error_t *err);

/* job_back.c */
/* options.from -> job->origin; NULL where it begins anew. Blocks. */
int sc__job_choose(sc_job_t *job, sc_error_t *err);
/* The regions that are REOPENING: what to go back to, and their next attempts. */
void sc__job_reopen(sc_job_t *job);
sc_origin_t *sc__origin_ref(sc_origin_t *o); /* NULL is fine */
void sc__origin_unref(sc_origin_t *o);       /* likewise */

/* job_actions.c */
void sc__job_actions(sc_job_t *job);   /* carry out what the coordinator wants now */
/* Run in the pool, after all earlier file work of this job; then `done` on the coordinator's
 * thread. Either may use arg; done frees it. */
void sc__job_file_work(sc_job_t *job, int (*run)(sc_job_t *job, void *arg, sc_error_t *err),
                       void (*done)(sc_job_t *job, void *arg, int rc, sc_error_t *err), void *arg);
void sc__job_drop_cuts(sc_job_t *job);

/* job_regions.c. `which` flags regions; NULL: all. */
void sc__regions_init(sc_job_t *job);
void sc__regions_fini(sc_job_t *job);
void sc__regions_begin(sc_job_t *job, const bool *which); /* the next attempt, from job->origin */
/* Ends the attempt; sc__regions_step decides what then. Regions that do not run, or are not about
 * to, fail no more: the first failure is the cause. `task` UINT32_MAX: none. */
void sc__region_fail(sc_region_t *r, uint32_t task, sc_error_t *err);
/* One failure of several. hopeless: no later attempt can do better. */
void sc__regions_fail(sc_job_t *job, const bool *which, bool hopeless, const sc_error_t *err);
void sc__region_task_ready(sc_region_t *r);
void sc__region_released(sc_region_t *r);          /* nothing of its attempt runs any more */
void sc__job_task_finished(sc_job_t *job, uint32_t task); /* and may leave */
void sc__regions_cancel(sc_job_t *job, sc_reason_t reason); /* the job ends: take all down */
/* What is due; the next deadline, monotonic ms. *over: nothing runs, and nothing will. */
int64_t sc__regions_step(sc_job_t *job, int64_t mono_ms, bool *over);
static inline sc_region_t *sc__job_region_of(sc_job_t *job, uint32_t task) {
  return &job->regions[job->layout->of_task[task]];
}
/* The task's attempt if it can be told something; NULL where it is about to end, or has. */
sc_attempt_t *sc__job_told(sc_job_t *job, uint32_t task);

/* job_reports.c */
void sc__region_post_report(void *arg, sc_report_t *r); /* arg: the region */

/* job.c */
/* Makes room for what is known of each task, and the regions: the graph changes no more. */
void sc__job_lay_out(sc_job_t *job);
/* Who failed, for the head of a log line; NULL where the text names it anyway. */
const char *sc__job_failed_operator(const sc_error_t *err, const char *text);
static inline int64_t sc__job_now(const sc_job_t *job) { return sc_world_now_ms(job->world); }
static inline int64_t sc__job_mono(const sc_job_t *job) {
  return sc_world_mono_ns(job->world) / 1000000;
}
void sc__job_log(sc_job_t *job, sc_log_level_t level, uint64_t checkpoint, const char *task,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
