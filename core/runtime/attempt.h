/*
 * attempt: one run of a region of a job's graph (regions.h): its slots, tasks and channels, from
 * deployment to the last reference. A failure ends the attempt; the next one is built anew from the
 * graph and a checkpoint, while the attempts of other regions run on. So that nothing of theirs can
 * be touched, each has threads and hosts (Lua states) of its own: as many as the job has slots, or
 * fewer where no operator of the region has so many subtasks. Tasks have their numbers of the whole
 * graph.
 *
 *   sc_attempt_create (coordinator) -> sc_attempt_deploy: a thread for each slot
 *     slot: host; when all have their thread: operators; pool: keyed state is read; slot: restore,
 *     open -> report READY, tasks run
 *   sc_attempt_cancel: every slot takes its tasks down in its next step -> report SLOT_GONE each
 *   last pool work done and all slots gone -> report RELEASED -> sc_attempt_destroy (coordinator)
 *
 * Tasks tell the coordinator by *reports*, which the job posts to itself as mail; the coordinator
 * tells tasks by mail to their slot (sc_attempt_tell_...).
 *
 * Threads: create, deploy, cancel, destroy, tell: the coordinator's. Fields of a slot and its tasks
 * belong to the slot's thread from deploy to SLOT_GONE. Pool works hold a reference.
 */
#ifndef SC_RUNTIME_ATTEMPT_H
#define SC_RUNTIME_ATTEMPT_H

#include "../base/mailbox.h"
#include "../exchange/input.h"
#include "chain.h"
#include "flow.h"
#include "host_watch.h"
#include "inflight_files.h"
#include "regions.h"

typedef struct sc_attempt sc_attempt_t;
typedef struct sc_slot sc_slot_t;
typedef struct sc_task sc_task_t;

/* How a slot gets its host (the binding's Lua state). create may be NULL: native operators only.
 * `watch->canceled` becomes true when the attempt is to end; sc_attempt_interrupt then makes the
 * thread look at it. */
typedef struct sc_host_ops {
  /* On the slot's thread. */
  int (*create)(void *arg, sc_host_watch_t *watch, void **host, sc_error_t *err);
  void (*destroy)(void *host);                            /* likewise */
  /* An event loop that the job's functions have in this host, on the slot's thread; all NULL: none.
   * has_loop: is there one by now? turn: run what is due in it, without waiting: 1 if anything
   * ran, 0 if not, negative with *err: fail a task of the slot. wait: until something is due in it,
   * until `fd` is readable, or for `timeout_ns` (negative: without end), whichever is first. */
  bool (*has_loop)(void *host);
  int (*turn)(void *host, sc_error_t *err);
  void (*wait)(void *host, int fd, int64_t timeout_ns);
  void *arg;
} sc_host_ops_t;

typedef enum {
  SC_REPORT_READY,          /* the task is restored and open */
  SC_REPORT_ACK,            /* id, snapshot */
  SC_REPORT_DECLINE,        /* id, error: the asynchronous part failed */
  SC_REPORT_FAILED,         /* error */
  SC_REPORT_ASK_SPLIT,      /* of its source; id 1: it has some, and they wait */
  SC_REPORT_SPLITS,         /* bytes: what list_splits found for node `task` */
  SC_REPORT_END_OF_DATA,
  SC_REPORT_FINISH,         /* the task asks to leave */
  SC_REPORT_ROWS,           /* uid, id, bytes: rows of a collect */
  SC_REPORT_SUPERSEDED,     /* id given up, other: the newer checkpoint whose barrier came first */
  SC_REPORT_SEEN,           /* bytes: the function and line that the task is in, with a zero; id:
                               bits of SC_SEEN_* (checkpoint/statistics.h) */
  SC_REPORT_SLOT_GONE,
  SC_REPORT_RELEASED        /* nothing of the attempt runs any more */
} sc_report_kind_t;

typedef struct sc_report {
  sc_mail_t mail;
  sc_report_kind_t kind;
  void *receiver;           /* for `post` */
  uint64_t attempt;
  uint32_t task;            /* a task's number; SPLITS: a node's */
  uint64_t id, other;
  sc_task_snapshot_t *snapshot;
  sc_error_t error;
  sc_buf_t bytes;
  const char *uid;          /* borrowed from the graph */
} sc_report_t;

typedef struct sc_attempt_config {
  sc_world_t *world;
  sc_storage_t *storage;            /* for what lies in job_dir; operators use the world's */
  sc_log_t *log;
  const sc_graph_t *graph;
  const sc_regions_t *regions;      /* of the graph */
  uint32_t region;                  /* which of them */
  const char *job_id;
  const char *job_dir;              /* "" without checkpoints */
  uint64_t number;
  uint32_t n_slots;                 /* at most */
  sc_host_ops_t host;
  bool checkpointing;               /* tasks wait for a final checkpoint */
  bool synchronous;                 /* snapshots are written whole before the task goes on */
  bool at_least_once;               /* barriers are counted, and hold no channel back */
  bool all_finished;                /* restored from the last checkpoint of a finished run: nobody
                                       waits for another */
  uint32_t segment_size, exclusive_buffers, floating_buffers, overdraft_buffers;
  sc_debloat_t debloat;             /* of the buffers between tasks */
  uint32_t subtasks_per_file;       /* that share a file of in-flight data; at least 1 */
  int64_t buffer_timeout_ms;
  /* What to restore, by node; NULL: a fresh start. Each may be NULL (new operator). Owned by the
   * caller until destroy. */
  sc_restore_operator_t *const *restore;
  uint64_t restored_id;
  const char *restored_dir;         /* folder of the snapshot's files; finished tasks' may lie in
                                       others beside it */
  const sc_inflight_plan_t *inflight; /* what was in flight there, or NULL; the caller's */
  bool owns_restored;               /* the snapshot lies in the job's own folder: what is unread of
                                       it is kept again where it lies */
  void (*post)(void *arg, sc_report_t *report); /* any thread; takes the report */
  void *post_arg;
} sc_attempt_config_t;

typedef enum {
  SC_PHASE_LOADING,
  SC_PHASE_RUNNING,
  SC_PHASE_ENDING,
  SC_PHASE_ENDED,
  SC_PHASE_FINISHED,
  SC_PHASE_DOWN
} sc_phase_t;

/* Mail that waits behind a source's trigger: another trigger, a split, or "no more". */
typedef struct sc_deferred {
  struct sc_deferred *next;
  sc_barrier_t trigger;             /* id 0: none, it is a split */
  bool no_more;
  sc_buf_t split;
} sc_deferred_t;
struct snapshot_work;

struct sc_task {
  sc_attempt_t *attempt;
  sc_slot_t *slot;
  const sc_chain_plan_t *plan;
  uint32_t index, subtask;
  char *name;                       /* "chain 2/4" */
  char *chain_name;                 /* "chain" */
  sc_flow_t *flow;                  /* where its time goes */
  sc_flow_state_t waits;            /* as what it waits after its turn */
  bool in_snapshot;                 /* its operators take theirs now */
  sc_debloater_t *debloater;        /* of its input; NULL: it has none, or that is off */
  sc_chain_t chain;
  bool is_source;
  sc_input_t *input;                /* no channels for a source */
  sc_replay_t *replay;              /* what was in flight for it at the restore, until it is read */
  uint32_t member;                  /* of attempt->files; UINT32_MAX: nothing of it is captured */
  uint32_t n_channels;
  sc_keyed_t *keyed;                /* the head's window, or NULL */
  sc_timers_t *timers;
  sc_phase_t phase;
  bool restored_finished;           /* all its operators were finished in the checkpoint */
  sc_barrier_t trigger;             /* sources: a snapshot to take; id 0: none */
  sc_deferred_t *deferred, **deferred_tail; /* mail behind that trigger, in order */
  enum { SC_ASKED_NOTHING, SC_ASKED_MORE, SC_ASKED_SPLIT } asked_split; /* and has no answer yet */
  bool draining;                    /* sources: the input ends before the next read */
  bool awaits_final;                /* after its end it stays, and commits, for a checkpoint */
  uint64_t stopped_at;              /* stands still since its snapshot of this checkpoint; or 0 */
  bool suspended;                   /* that is complete: it may leave */
  bool asked_finish;
  uint64_t received_before;         /* bytes that were sent to it before its last snapshot */
  uint64_t first_ended_snapshot;    /* first checkpoint taken after end of input */
  bool final_complete;
  int64_t wake_at_ms;               /* sources: wall clock of the next poll; 0: at once */
  atomic_bool poked; /* an operator's `wake`: poll whatever wake_at_ms says. Any thread */
  struct snapshot_work *works;      /* snapshots that are not through; oldest first */
  int64_t first_barrier_ns, first_barrier_ms; /* of the pending checkpoint */
  uint32_t stride;                  /* records between two looks at the clock */
  atomic_int_fast64_t pending_records, pending_bytes; /* a source's, as shown; -1: not known */
  bool look_at_timers;              /* the clock has gone on: processing-time timers may be due */
  sc_error_t error;                 /* scratch */
};

struct sc_slot {
  sc_attempt_t *attempt;
  uint32_t index;
  sc_actor_t actor;
  char name[16];
  sc_mailbox_t mailbox;
  void *host;
  bool started;                     /* its tasks are: not before every slot has its thread */
  bool host_failed, flushed;
  atomic_bool alarm;                /* a task of it may have a barrier at the head, or a trigger */
  bool timed;                       /* a barrier at one of its tasks overtakes at some time: nobody
                                       is far from the clock until then */
  atomic_bool down;                 /* its tasks are destroyed */
  sc_host_watch_t watch;            /* the host's */
  atomic_uint_fast64_t turns;       /* of its tasks so far: one that stands is in some call */
  struct {
    const char *running;            /* what ran then, and in which turn; NULL: nobody has asked */
    uint64_t turn;
  } sampled;                        /* the coordinator's: when it asked last */
  _Atomic(const char *) running;    /* whose code runs now, for a shutdown that hangs; or NULL */
  int64_t last_flush_ns;
  sc_task_t *turn;                  /* whose turn it is, or NULL */
  bool turn_moved;                  /* something did in it */
  sc_task_t **tasks;                /* in the order of the graph */
  uint32_t n_tasks;
};

struct sc_attempt {
  sc_attempt_config_t config;
  sc_pool_t *pool;
  sc_slot_t *slots;
  sc_task_t *tasks;                 /* graph->n_tasks; those of other regions are empty */
  sc_channel_t **channels;
  uint32_t n_channels;
  uint32_t n_outputs;
  sc_output_t **outputs;
  sc_inflight_files_t *files;       /* of in-flight data */
  bool *chain_finished;             /* for each chain: restored as finished */
  atomic_bool deployed;             /* every slot has its thread: tasks may wake each other */
  atomic_bool drained;              /* its sources were told to end their input */
  atomic_bool canceled;
  atomic_uint refs;                 /* slots that are not gone, and pool works */
  pthread_mutex_t counters_lock;
  struct sc_named_counter *counters;
};

typedef struct sc_named_counter {
  const sc_link_t *link;
  char *name;
  int64_t value;
  struct sc_named_counter *next;
} sc_named_counter_t;

/* ---- coordinator's face ---- */
sc_attempt_t *sc_attempt_create(const sc_attempt_config_t *config);
int sc_attempt_deploy(sc_attempt_t *a, sc_error_t *err);
void sc_attempt_cancel(sc_attempt_t *a);
/* Interrupt the slots that are not down yet: some user function does not come to its end. */
void sc_attempt_interrupt(sc_attempt_t *a);
void sc_attempt_destroy(sc_attempt_t *a);
/* See what keeps the tasks of `waits` (each by number) busy: a task whose user code can be looked
 * at answers with SEEN; blocked(arg, task) is called for one that was in the same turn when it was
 * asked for the last time, has had a processor since then, and has not answered. Does nothing where
 * slots have no hosts. */
void sc_attempt_sample(sc_attempt_t *a, const bool *waits,
                       void (*blocked)(void *arg, uint32_t task), void *arg);
void sc_attempt_trigger(sc_attempt_t *a, uint32_t task, const sc_barrier_t *b);
void sc_attempt_complete(sc_attempt_t *a, uint32_t task, uint64_t id);
void sc_attempt_abort(sc_attempt_t *a, uint32_t task, uint64_t id);
void sc_attempt_split(sc_attempt_t *a, uint32_t task, const sc_bytes_t *split); /* NULL: no more */
void sc_attempt_finished(sc_attempt_t *a, uint32_t task);
void sc_attempt_drain(sc_attempt_t *a, uint32_t task); /* a source: its input ends now */
/* Run list_splits of a source node (in the pool, or in slot 0): answered by SPLITS or FAILED. */
void sc_attempt_list_splits(sc_attempt_t *a, uint32_t node);
/* A task's metrics: appends a msgpack map for each of its operators; how many. Any thread while the
 * attempt lives. metrics.c. */
uint32_t sc_attempt_metrics(sc_attempt_t *a, uint32_t task, sc_buf_t *out);

/* ---- slots' and tasks' own ---- */
extern const sc_actor_ops_t sc_slot_actor_ops;
/* Whose code runs there, by the very text of `running`: a task, or an operator whose splits are
 * being listed; NULL: nobody's. */
const sc_task_t *sc__slot_runs(const sc_slot_t *s, const char *running);
void sc__slot_seen(void *slot, const char *place, bool returned); /* for its watch */
extern const sc_op_services_t sc_task_services;
void sc_attempt_ref(sc_attempt_t *a);
void sc_attempt_unref(sc_attempt_t *a);
sc_report_t *sc_report_new(sc_attempt_t *a, sc_report_kind_t kind, uint32_t task);
void sc_report_post(sc_attempt_t *a, sc_report_t *r);
void sc_report_free(sc_report_t *r);

/* From now on the slot's time is t's (NULL: no task's). */
void sc_slot_turn(sc_slot_t *s, sc_task_t *t, int64_t now_ns);
/* The counters of which its flow shows rates; metrics.c. */
uint32_t sc_task_n_counters(const sc_task_t *t);
void sc_task_counters(const sc_task_t *t, uint64_t *counters);
void sc_task_show_pending(sc_task_t *t); /* slot: after a turn; metrics.c */
/* One bounded step; true if something moved. */
bool sc_task_step(sc_task_t *t);
/* Likewise, but only what a barrier or a trigger that has come waits for, and its snapshot. */
bool sc_task_serve(sc_task_t *t);
/* The slot has nothing to do: let out what is held back, flush. True if something began. */
bool sc_task_idle(sc_task_t *t);
int64_t sc_task_deadline_ms(sc_task_t *t); /* wall clock; INT64_MAX */
void sc_task_start(sc_task_t *t);   /* slot: create the operators, read state */
void sc_task_fail(sc_task_t *t, sc_error_t *err);
void sc_task_report(sc_task_t *t, sc_report_kind_t kind); /* one that says no more */
void sc_task_end_outputs(sc_task_t *t); /* END on every output */
void sc_task_down(sc_task_t *t);    /* slot: destroy the operators */
char *sc_attempt_restored_dir(const sc_attempt_t *a, const char *directory); /* task_start.c */
/* task_replay.c: what was in flight at the restore. */
void sc_task_replay_create(sc_task_t *t);
/* Read ahead where something is wanted; let go of it all at its end. Between two records. */
void sc_task_replay_step(sc_task_t *t);
void sc_task_replay_end(sc_task_t *t); /* give up what is unread */
/* What is unread, for a checkpoint: malloc'ed, the count is returned. */
uint32_t sc_task_replay_rest(const sc_task_t *t, sc_inflight_rest_t **out);
/* task_snapshot.c */
/* `overtakes`: inputs are captured. */
/* `e` is the SNAPSHOT event; of a source's trigger only its barrier is set. */
void sc_task_snapshot(sc_task_t *t, const sc_input_event_t *e);
void sc_task_submit_ready(sc_task_t *t);
void sc_task_aborted(sc_task_t *t, uint64_t id);
void sc_task_leave_files(sc_task_t *t); /* of in-flight data: nobody waits for its share there */
void sc_task_drop_open(sc_task_t *t);  /* on leaving: snapshots that nobody waits for */
void sc_task_drop_works(sc_task_t *t); /* all of them; nothing runs any more */
int64_t sc_task_overtake_at_ms(const sc_task_t *t);
void sc_task_look_at_clock(sc_task_t *t, int64_t mono_ms);

#endif
