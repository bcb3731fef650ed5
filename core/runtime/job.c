#include "job.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../base/mem.h"
#include "job_parts.h"

/* ---- life of the struct ---- */

void sc_job_ref(sc_job_t *job) {
  atomic_fetch_add_explicit(&job->refs, 1, memory_order_relaxed); /* the caller holds one */
}

static void free_options(sc_job_options_t *o) {
  free((char *)o->dir);
  free((char *)o->from);
  free((char *)o->log_file);
  if (o->free_host_arg)
    o->free_host_arg(o->host.arg);
}

static void destroy_job(sc_job_t *job) {
  sc__job_drop_cuts(job);
  sc__job_drop_plans(job);
  for (uint32_t i = 0; job->enumerators && i < job->graph->n_nodes; i++)
    sc_enumerator_destroy(job->enumerators[i]);
  sc_coordinator_destroy(job->coordinator);
  sc_restart_destroy(job->restart);
  sc_metadata_destroy(job->restore);
  sc__view_fini(job);
  sc_job_dir_close(job->dir);
  sc_log_destroy(job->log);
  sc_graph_destroy(job->graph);
  free_options(&job->options);
  sc_error_clear(&job->failure);
  free(job->enumerators);
  free(job->restore_dir);
  free(job->ended);
  free(job->asked);
  free(job->finished);
  free(job->path);
  free(job->id);
  free(job->name);
  free(job);
}

void sc_job_unref(sc_job_t *job) {
  /* Acquire and release: the last one sees what all others wrote. */
  if (job && atomic_fetch_sub_explicit(&job->refs, 1, memory_order_acq_rel) == 1)
    destroy_job(job);
}

void sc__job_log(sc_job_t *job, sc_log_level_t level, uint64_t checkpoint, const char *task,
                 const char *format, ...) {
  va_list args;
  va_start(args, format);
  sc_error_t text = SC_ERROR_INIT;
  sc_vfail(&text, SC_EINTERNAL, format, args); /* only for its formatting */
  va_end(args);
  sc_log_where_t where = {
      .job = job->id, .attempt = job->attempt_number, .checkpoint = checkpoint, .task = task};
  sc_log_write(job->log, level, &where, "%s", text.message);
  sc_error_clear(&text);
}

/* ---- an attempt begins ---- */

static void post_report(void *arg, sc_report_t *r);

static int make_enumerators(sc_job_t *job, sc_error_t *err) {
  for (uint32_t i = 0; i < job->graph->n_nodes; i++) {
    const sc_node_t *n = &job->graph->nodes[i];
    sc_enumerator_destroy(job->enumerators[i]);
    job->enumerators[i] = NULL;
    if (!n->type->is_source)
      continue;
    job->enumerators[i] = sc_enumerator_create(n->parallelism);
    const sc_metadata_operator_t *old = job->restore ? sc_metadata_find(job->restore, n->uid)
                                                     : NULL;
    if (old && old->has_enumerator) {
      int rc = sc_enumerator_restore(job->enumerators[i], sc_buf_bytes(&old->enumerator), err);
      if (rc < 0)
        return rc;
    }
  }
  return 0;
}

static void fill_attempt_config(sc_job_t *job, sc_attempt_config_t *c) {
  const sc_job_options_t *o = &job->options;
  *c = (sc_attempt_config_t){.world = job->world,
                             .storage = job->storage,
                             .log = job->log,
                             .graph = job->graph,
                             .job_id = job->id,
                             .job_dir = job->path ? job->path : "",
                             .number = job->attempt_number,
                             .n_slots = o->n_slots,
                             .host = o->host,
                             .checkpointing = o->checkpoint.interval_ms > 0,
                             .all_finished = job->all_finished,
                             .synchronous = o->synchronous,
                             .at_least_once = o->at_least_once,
                             .segment_size = o->segment_size,
                             .exclusive_buffers = o->exclusive_buffers,
                             .floating_buffers = o->floating_buffers,
                             .overdraft_buffers = o->overdraft_buffers,
                             .subtasks_per_file = o->subtasks_per_file ? o->subtasks_per_file : 1,
                             .buffer_timeout_ms = o->buffer_timeout_ms,
                             .restore = job->plans,
                             .restored_id = job->restore ? job->restore->id : 0,
                             .restored_dir = job->restore_dir,
                             .post = post_report,
                             .post_arg = job};
}

void sc__job_begin_attempt(sc_job_t *job) {
  sc_error_t err = SC_ERROR_INIT;
  job->n_ready = job->n_finished = 0;
  memset(job->ended, 0, job->graph->n_tasks * sizeof *job->ended);
  memset(job->asked, 0, job->graph->n_tasks * sizeof *job->asked);
  memset(job->finished, 0, job->graph->n_tasks * sizeof *job->finished);
  sc_error_clear(&job->failure);
  int rc = make_enumerators(job, &err);
  if (rc >= 0) {
    sc_attempt_config_t config;
    fill_attempt_config(job, &config);
    job->attempt = sc_attempt_create(&config);
    sc__view_attempt(job, job->attempt);
    sc__view_state(job, SC_JOB_STARTING);
    rc = sc_attempt_deploy(job->attempt, &err);
  }
  if (rc < 0)
    sc__job_fail(job, UINT32_MAX, &err);
  if (!job->attempt)
    sc__job_decide(job, true); /* otherwise its release does */
  for (uint32_t i = 0; rc >= 0 && i < job->graph->n_nodes; i++)
    if (job->enumerators[i] && sc_enumerator_finding(job->enumerators[i]))
      sc_attempt_list_splits(job->attempt, i);
  sc_error_clear(&err);
}

/* Every task is ready: checkpoints may begin. */
static void start_coordinating(sc_job_t *job) {
  const sc_graph_t *g = job->graph;
  uint32_t **senders = sc_calloc(g->n_tasks, sizeof *senders),
           *n = sc_calloc(g->n_tasks, sizeof *n);
  for (uint32_t i = 0; i < g->n_tasks; i++)
    n[i] = sc_graph_senders(g, i, &senders[i]);
  sc_topology_t topology = {
      .n_tasks = g->n_tasks, .senders = (const uint32_t *const *)senders, .n_senders = n};
  job->coordinating = true;
  sc_coordinator_start(job->coordinator, sc__job_now(job), sc__job_mono(job), &topology);
  for (uint32_t i = 0; i < g->n_tasks; i++) {
    if (job->ended[i])
      sc_coordinator_end_of_data(job->coordinator, sc__job_now(job), sc__job_mono(job), i);
    if (job->asked[i])
      sc_coordinator_finish_request(job->coordinator, sc__job_now(job), sc__job_mono(job), i);
    free(senders[i]);
  }
  free(senders);
  free(n);
}

static void all_ready(sc_job_t *job) {
  if (job->failed_at_ms) {
    sc__job_log(job, SC_LOG_WARN, job->restore ? job->restore->id : 0, NULL,
                "recovered in %" PRId64 " ms from %s", sc__job_mono(job) - job->failed_at_ms,
                job->restore ? job->restore_dir : "the beginning");
    job->failed_at_ms = 0;
  }
  sc_restart_running(job->restart, sc__job_mono(job));
  sc__view_state(job, SC_JOB_RUNNING);
  if (job->all_finished) /* nothing changes any more: no checkpoint can add to the last one */
    sc_coordinator_trim(job->coordinator);
  else
    start_coordinating(job);
  if (job->coordinating)
    sc__view_ask_waiting(job);
}

/* A task of a job that was complete before asks to leave: nothing can wait for it. */
static void leave_at_once(sc_job_t *job, uint32_t task) {
  job->finished[task] = true;
  job->n_finished++;
  sc_attempt_finished(job->attempt, task);
}

/* ---- an attempt ends ---- */

#define INTERRUPT_AFTER_MS 300 /* for functions that end by themselves, whatever they do */
#define INTERRUPT_AGAIN_MS 50

static void cancel_attempt(sc_job_t *job) {
  if (!job->attempt)
    return;
  sc_attempt_cancel(job->attempt);
  job->interrupt_at_ms = sc__job_mono(job) + INTERRUPT_AFTER_MS;
}

static int64_t interrupt_late_slots(sc_job_t *job, int64_t mono_ms) {
  if (!job->interrupt_at_ms || !job->attempt)
    return INT64_MAX;
  if (mono_ms >= job->interrupt_at_ms) {
    sc_attempt_interrupt(job->attempt);
    job->interrupt_at_ms = mono_ms + INTERRUPT_AGAIN_MS;
  }
  return job->interrupt_at_ms;
}

static void stop_coordinating(sc_job_t *job, sc_reason_t reason, uint32_t task) {
  if (job->coordinating)
    sc_coordinator_stop(job->coordinator, sc__job_now(job), sc__job_mono(job), reason, task);
  job->coordinating = false;
}

void sc__job_fail(sc_job_t *job, uint32_t task, sc_error_t *err) {
  if (job->failure.code || job->canceling || sc_job_state_ended(job->state))
    return; /* the first one is the cause */
  sc_error_move(&job->failure, err);
  sc__view_error(job, &job->failure);
  job->failed_at_ms = sc__job_mono(job);
  /* Before all were ready it was restoring: what it restored from may be what is wrong. */
  job->suspect = job->restore && job->state == SC_JOB_STARTING &&
                 (job->failure.code == SC_ECORRUPT || job->failure.code == SC_ENOTFOUND);
  stop_coordinating(job, SC_REASON_TASK_FAILED, task);
  cancel_attempt(job);
}

/* Who failed, for the head of a log line; NULL where the text names it anyway. */
static const char *failed_operator(const sc_job_t *job, const char *text) {
  const char *name = job->failure.operator_name;
  return name && !strstr(text, name) ? name : NULL;
}

/* ---- the job ends ---- */

/* All of them, as many as can be; the first failure is told. */
static int run_drop_all(sc_job_t *job, void *arg, sc_error_t *err) {
  sc_job_scan_t *scan;
  int rc = sc_job_scan(job->storage, job->path, SC_LOOK_METADATA, &scan, err);
  if (rc < 0)
    return rc;
  for (uint32_t i = 0; i < scan->n; i++) {
    int one = sc_job_dir_delete(job->dir, scan->list[i].id, rc < 0 ? NULL : err);
    rc = rc < 0 ? rc : one;
  }
  sc_job_scan_destroy(scan);
  return rc;
}

static void done_drop_all(sc_job_t *job, void *arg, int rc, sc_error_t *err) {
  if (rc < 0)
    sc__job_log(job, SC_LOG_WARN, 0, NULL, "its checkpoints could not all be deleted: %s",
                err->message);
}

/* Where the options keep nothing after such an end (reference 3.2). */
static bool drops_checkpoints(const sc_job_t *job, sc_job_state_t end) {
  sc_externalized_t keep = job->options.externalized;
  return job->dir && !job->keeps && (keep == SC_EXTERNALIZED_NONE ||
                      (keep == SC_EXTERNALIZED_DELETE_ON_CANCELLATION && end == SC_JOB_CANCELED));
}

static void log_end_by_failure(sc_job_t *job) {
  uint64_t last = sc_coordinator_latest(job->coordinator);
  char *text = sc_error_format(&job->failure);
  char *dir = last && job->dir ? sc_job_dir_checkpoint(job->dir, last) : NULL;
  sc__job_log(job, SC_LOG_ERROR, 0, failed_operator(job, text), "failed: %s", text);
  if (drops_checkpoints(job, SC_JOB_FAILED))
    sc__job_log(job, SC_LOG_ERROR, 0, NULL,
                "its checkpoints are deleted, as checkpoint.externalized asks for");
  else if (dir)
    sc__job_log(job, SC_LOG_ERROR, 0, NULL,
                "last checkpoint: %s; continue with env:execute { from = \"latest\" }", dir);
  else if (job->restore)
    sc__job_log(job, SC_LOG_ERROR, 0, NULL,
                "no checkpoint had completed since it began from %s; continue with "
                "env:execute { from = \"%s\" }",
                job->restore_dir, job->restore_dir);
  else
    sc__job_log(job, SC_LOG_ERROR, 0, NULL,
                "no checkpoint had completed: start it again from the beginning");
  free(dir);
  free(text);
}

static void end_job(sc_job_t *job, sc_job_state_t state) {
  if (state == SC_JOB_FAILED)
    log_end_by_failure(job);
  else
    sc__job_log(job, SC_LOG_INFO, 0, NULL, "%s",
                job->suspended ? "stopped; it goes on with env:execute { from = \"latest\" }"
                               : sc_job_state_name(state));
  if (job->suspended && state == SC_JOB_FINISHED)
    sc__view_stopped(job);
  job->state = state;
  if (drops_checkpoints(job, state))
    sc__job_file_work(job, run_drop_all, done_drop_all, NULL);
  job->gone = true; /* once the file work is done, see sc__job_gone */
}

/* What comes from the script or what it was given, and would come again. */
static bool is_mistake(int code) {
  return code == SC_EUSER || code == SC_EKEY || code == SC_EVALUE || code == SC_EINVAL ||
         code == SC_EUNSUPPORTED || code == SC_ELIMIT || code == SC_ENOTFOUND;
}

/* A mistake before the first completed checkpoint ends the job: a typo must not loop. Nor must
 * what no attempt can get over: the checkpoint and what lies outside of it no longer fit. */
static bool may_restart(sc_job_t *job, int64_t *delay_ms) {
  if (job->failure.code == SC_ESTATE || job->suspended)
    return false;
  if (is_mistake(job->failure.code) && sc_coordinator_latest(job->coordinator) == 0 &&
      !job->restore)
    return false;
  double uniform = (double)(sc_world_random(job->world) >> 11) * 0x1p-53;
  sc_restart_decision_t d = sc_restart_failed(job->restart, sc__job_mono(job), uniform);
  *delay_ms = d.delay_ms;
  return d.restart;
}

void sc__job_decide(sc_job_t *job, bool again) {
  int64_t delay = 0;
  if (job->canceling) {
    end_job(job, SC_JOB_CANCELED);
  } else if (!job->failure.code) {
    end_job(job, SC_JOB_FINISHED);
  } else if (again && job->suspect) { /* no strategy helps against damage: look for it at once */
    sc__view_state(job, SC_JOB_RESTARTING);
    sc__job_reopen(job);
  } else if (again && may_restart(job, &delay)) {
    char *text = sc_error_format(&job->failure);
    sc__job_log(job, SC_LOG_WARN, 0, failed_operator(job, text),
                "failed, restarts in %" PRId64 " ms: %s", delay, text);
    free(text);
    job->restart_at_ms = sc__job_mono(job) + delay;
    sc__view_state(job, SC_JOB_RESTARTING);
    if (delay > 0)
      sc__view_refuse_waiting(job, delay);
  } else {
    end_job(job, SC_JOB_FAILED);
  }
}

/* ---- reports ---- */

static void deal_splits(sc_job_t *job, uint32_t node) {
  sc_assignment_t a;
  uint32_t first = job->graph->chains[job->graph->nodes[node].chain].first_task;
  while (sc_enumerator_next(job->enumerators[node], &a) > 0)
    sc_attempt_split(job->attempt, first + a.reader, a.no_more ? NULL : &a.split);
}

static void splits_found(sc_job_t *job, sc_report_t *r) {
  if (sc_enumerator_found(job->enumerators[r->task], sc_buf_bytes(&r->bytes), &r->error) < 0) {
    sc_error_set_operator(&r->error, job->graph->nodes[r->task].name);
    sc__job_fail(job, UINT32_MAX, &r->error);
    return;
  }
  deal_splits(job, r->task);
}

static void ask_split(sc_job_t *job, uint32_t task, bool more) {
  uint32_t subtask;
  uint32_t node = sc_graph_task(job->graph, task, &subtask)->nodes[0];
  sc_enumerator_ask(job->enumerators[node], subtask, more);
  deal_splits(job, node);
}

static void acknowledged(sc_job_t *job, sc_report_t *r) {
  sc__view_lock(job);
  sc_statistics_ack(job->view.statistics, r->id, sc__job_now(job), r->snapshot);
  sc__view_unlock(job);
  sc_coordinator_ack(job->coordinator, sc__job_now(job), sc__job_mono(job), r->id, r->snapshot);
  r->snapshot = NULL;
}

static void declined(sc_job_t *job, sc_report_t *r) {
  char *text = sc_error_format(&r->error);
  sc_coordinator_decline(job->coordinator, sc__job_now(job), sc__job_mono(job), r->id, r->task,
                         SC_REASON_ASYNC_FAILED, text);
  free(text);
}

static void released(sc_job_t *job) {
  sc__view_attempt(job, NULL);
  sc_attempt_destroy(job->attempt);
  job->attempt = NULL;
  job->interrupt_at_ms = 0;
  if (!sc_coordinator_writing(job->coordinator))
    sc__job_decide(job, true); /* else sc__job_step does, when it has been written */
}

static void of_this_attempt(sc_job_t *job, sc_report_t *r) {
  int64_t now = sc__job_now(job), mono = sc__job_mono(job);
  switch (r->kind) {
    case SC_REPORT_READY:
      if (++job->n_ready == job->graph->n_tasks && !job->failure.code && !job->canceling)
        all_ready(job);
      break;
    case SC_REPORT_ACK: acknowledged(job, r); break;
    case SC_REPORT_DECLINE: declined(job, r); break;
    case SC_REPORT_FAILED: sc__job_fail(job, r->task, &r->error); break;
    case SC_REPORT_ASK_SPLIT: ask_split(job, r->task, r->id != 0); break;
    case SC_REPORT_SPLITS: splits_found(job, r); break;
    case SC_REPORT_END_OF_DATA:
      job->ended[r->task] = true;
      if (job->coordinating)
        sc_coordinator_end_of_data(job->coordinator, now, mono, r->task);
      break;
    case SC_REPORT_FINISH:
      job->asked[r->task] = true;
      if (job->all_finished)
        leave_at_once(job, r->task);
      else if (job->coordinating)
        sc_coordinator_finish_request(job->coordinator, now, mono, r->task);
      break;
    case SC_REPORT_ROWS: sc__view_rows(job, r); break;
    case SC_REPORT_SUPERSEDED:
      sc__job_log(job, SC_LOG_WARN, r->id, job->attempt->tasks[r->task].name,
                  "given up: the barrier of checkpoint %" PRIu64 " came first", r->other);
      sc_coordinator_decline(job->coordinator, now, mono, r->id, r->task, SC_REASON_SUPERSEDED,
                             NULL);
      break;
    case SC_REPORT_SLOT_GONE: break;
    case SC_REPORT_RELEASED: released(job); break;
  }
}

static void run_report(sc_mail_t *mail, void *owner) {
  sc_report_t *r = (sc_report_t *)mail;
  sc_job_t *job = r->job;
  if (job->attempt && job->attempt_number == r->attempt) {
    of_this_attempt(job, r);
    sc__job_actions(job);
  }
  sc_report_free(r);
  sc_job_unref(job);
}

static void drop_report(sc_mail_t *mail) {
  sc_job_t *job = ((sc_report_t *)mail)->job;
  sc_report_free((sc_report_t *)mail);
  sc_job_unref(job);
}

static void post_report(void *arg, sc_report_t *r) {
  sc_job_t *job = arg;
  sc_job_ref(job);
  r->job = job;
  r->mail.run = run_report;
  r->mail.drop = drop_report;
  sc_engine_post(job->engine, &r->mail);
}

/* ---- steps and mail ---- */

/* Every task has left: the attempt is over. Looked at in each step, since the last task may be let
 * go by whatever moves the coordinator: a report, file work that is done, a tick. */
static void end_attempt_if_empty(sc_job_t *job) {
  if (!job->attempt || job->n_finished < job->graph->n_tasks ||
      atomic_load(&job->attempt->canceled))
    return;
  stop_coordinating(job, SC_REASON_STOPPED, UINT32_MAX);
  sc__job_actions(job);
  cancel_attempt(job);
}

int64_t sc__job_step(sc_job_t *job) {
  if (job->gone || !job->coordinator)
    return SC_STEP_ON_WAKE;
  int64_t mono = sc__job_mono(job), deadline = INT64_MAX;
  sc_coordinator_tick(job->coordinator, sc__job_now(job), mono);
  sc__job_actions(job);
  end_attempt_if_empty(job);
  bool ending = job->failure.code || job->canceling || !job->coordinating;
  if (!job->attempt && !job->reopening && !job->restart_at_ms && ending &&
      job->state != SC_JOB_STARTING && !sc_coordinator_writing(job->coordinator))
    sc__job_decide(job, true);
  if (job->gone)
    return SC_STEP_ON_WAKE;
  if (job->restart_at_ms) {
    if (mono >= job->restart_at_ms)
      sc__job_reopen(job);
    else
      deadline = job->restart_at_ms;
  }
  int64_t tick = sc_coordinator_deadline(job->coordinator), late = interrupt_late_slots(job, mono);
  deadline = tick < deadline ? tick : deadline;
  deadline = late < deadline ? late : deadline;
  return deadline > INT64_MAX / 1000000 ? SC_STEP_ON_WAKE : deadline * 1000000;
}

bool sc__job_canceling(const sc_job_t *job) {
  return job->canceling || job->gone;
}

bool sc__job_gone(const sc_job_t *job) {
  if (!job->gone || job->files)
    return false;
  sc_job_t *shown = (sc_job_t *)job;
  sc_job_dir_close(shown->dir); /* before anyone is told: the next start may lock it */
  shown->dir = NULL;
  sc__view_state(shown, job->state);
  return true;
}

const char *sc__job_what_runs(sc_job_t *job) {
  for (uint32_t i = 0; job->attempt && i < job->attempt->config.n_slots; i++) {
    sc_slot_t *s = &job->attempt->slots[i];
    const char *running = atomic_load(&s->running);
    if (!atomic_load(&s->down) && (running || s->n_tasks))
      return running ? running : s->tasks[0]->name;
  }
  return "file work";
}

typedef struct job_mail { sc_mail_t mail; sc_job_t *job; } job_mail_t;

static void drop_job_mail(sc_mail_t *mail) {
  sc_job_unref(((job_mail_t *)mail)->job);
  free(mail);
}

static void post_job_mail(sc_job_t *job, void (*run)(sc_mail_t *, void *)) {
  job_mail_t *m = sc_calloc(1, sizeof *m);
  *m = (job_mail_t){.mail = {.run = run, .drop = drop_job_mail}, .job = job};
  sc_job_ref(job);
  sc_engine_post(job->engine, &m->mail);
}

static void run_cancel(sc_mail_t *mail, void *owner) {
  sc_job_t *job = ((job_mail_t *)mail)->job;
  if (!job->canceling && !job->gone && !sc_job_state_ended(job->state)) {
    job->canceling = true;
    job->restart_at_ms = 0;
    stop_coordinating(job, SC_REASON_STOPPED, UINT32_MAX);
    sc__view_state(job, SC_JOB_CANCELING);
    sc__job_actions(job);
    cancel_attempt(job);
  }
  drop_job_mail(mail);
}

void sc_job_cancel(sc_job_t *job) {
  post_job_mail(job, run_cancel);
}

static void run_start(sc_mail_t *mail, void *owner) {
  sc_job_t *job = ((job_mail_t *)mail)->job;
  sc_job_ref(job); /* the engine's */
  sc__engine_add(owner, job);
  sc__job_begin_attempt(job);
  sc__job_actions(job);
  drop_job_mail(mail);
}

static sc_job_t *new_job(sc_engine_t *e, sc_graph_t *graph, const sc_job_options_t *o) {
  sc_job_t *job = sc_calloc(1, sizeof *job);
  atomic_init(&job->refs, 1);
  job->engine = e;
  job->world = sc_engine_world(e);
  job->storage = o->unsynced ? job->world->unsynced : job->world->storage;
  job->graph = graph;
  job->id = sc_strdup(o->id);
  job->name = sc_strdup(o->name);
  job->options = *o;
  job->options.id = job->id;
  job->options.name = job->name;
  job->options.dir = sc_strdup(o->dir);
  job->options.from = sc_strdup(o->from);
  job->options.log_file = sc_strdup(o->log_file);
  job->files_tail = &job->files;
  job->enumerators = sc_calloc(graph->n_nodes, sizeof *job->enumerators);
  job->ended = sc_calloc(graph->n_tasks, sizeof *job->ended);
  job->asked = sc_calloc(graph->n_tasks, sizeof *job->asked);
  job->finished = sc_calloc(graph->n_tasks, sizeof *job->finished);
  sc__view_init(job);
  return job;
}

int sc_job_start(sc_engine_t *e, sc_graph_t *graph, const sc_job_options_t *options, sc_job_t **out,
                 sc_error_t *err) {
  sc_job_t *job = new_job(e, graph, options);
  *out = NULL;
  int rc = sc_restart_create(&options->restart, &job->restart, err);
  if (rc >= 0)
    rc = sc__job_open(job, err);
  if (rc < 0) {
    sc_job_unref(job);
    return rc;
  }
  *out = job;
  post_job_mail(job, run_start);
  return 0;
}
