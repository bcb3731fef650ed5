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
  for (uint32_t i = 0; job->enumerators && i < job->graph->n_nodes; i++)
    sc_enumerator_destroy(job->enumerators[i]);
  sc_coordinator_destroy(job->coordinator);
  sc_restart_destroy(job->restart);
  sc__origin_unref(job->origin);
  if (job->layout) {
    sc__view_fini(job);
    sc__regions_fini(job);
  }
  sc_job_dir_close(job->dir);
  sc_log_destroy(job->log);
  sc_graph_destroy(job->graph);
  free_options(&job->options);
  sc_error_clear(&job->failure);
  free(job->enumerators);
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

const char *sc__job_failed_operator(const sc_error_t *err, const char *text) {
  const char *name = err->operator_name;
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
  sc__job_log(job, SC_LOG_ERROR, 0, sc__job_failed_operator(&job->failure, text), "failed: %s",
              text);
  if (drops_checkpoints(job, SC_JOB_FAILED))
    sc__job_log(job, SC_LOG_ERROR, 0, NULL,
                "its checkpoints are deleted, as checkpoint.externalized asks for");
  else if (dir)
    sc__job_log(job, SC_LOG_ERROR, 0, NULL,
                "last checkpoint: %s; continue with env:execute { from = \"latest\" }", dir);
  else if (job->origin)
    sc__job_log(job, SC_LOG_ERROR, 0, NULL,
                "no checkpoint had completed since it began from %s; continue with "
                "env:execute { from = \"%s\" }",
                job->origin->dir, job->origin->dir);
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

/* ---- steps and mail ---- */

int64_t sc__job_step(sc_job_t *job) {
  if (job->gone || !job->coordinator)
    return SC_STEP_ON_WAKE;
  int64_t mono = sc__job_mono(job);
  bool over;
  sc_coordinator_tick(job->coordinator, sc__job_now(job), mono);
  sc__job_actions(job);
  int64_t deadline = sc__regions_step(job, mono, &over);
  sc__job_actions(job);
  if (over) {
    end_job(job, job->canceling ? SC_JOB_CANCELED
                 : job->failing ? SC_JOB_FAILED
                                : SC_JOB_FINISHED);
    return SC_STEP_ON_WAKE;
  }
  int64_t tick = sc_coordinator_deadline(job->coordinator);
  deadline = tick < deadline ? tick : deadline;
  int64_t next_look = sc__job_look(job, mono);
  deadline = next_look < deadline ? next_look : deadline;
  return deadline > INT64_MAX / 1000000 ? SC_STEP_ON_WAKE : deadline * 1000000;
}

bool sc__job_canceling(const sc_job_t *job) {
  return job->canceling || job->failing || job->gone;
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

static const char *what_runs(const sc_attempt_t *a) {
  for (uint32_t i = 0; a && i < a->config.n_slots; i++) {
    sc_slot_t *s = &a->slots[i];
    const char *running = atomic_load(&s->running);
    if (!atomic_load(&s->down) && (running || s->n_tasks))
      return running ? running : s->tasks[0]->name;
  }
  return NULL;
}

const char *sc__job_what_runs(sc_job_t *job) {
  const char *what = NULL;
  for (uint32_t i = 0; !what && i < job->layout->n; i++)
    what = what_runs(job->regions[i].attempt);
  return what ? what : "file work";
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
  if (!sc__job_canceling(job) && !sc_job_state_ended(job->state)) {
    job->canceling = true;
    sc__regions_cancel(job, SC_REASON_STOPPED);
    sc__view_state(job, SC_JOB_CANCELING);
    sc__job_actions(job);
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
  sc__regions_begin(job, NULL);
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
  if (o->explain_after_ms <= 0)
    job->options.explain_after_ms = SC_EXPLAIN_AFTER_MS;
  job->options.id = job->id;
  job->options.name = job->name;
  job->options.dir = sc_strdup(o->dir);
  job->options.from = sc_strdup(o->from);
  job->options.log_file = sc_strdup(o->log_file);
  job->files_tail = &job->files;
  job->enumerators = sc_calloc(graph->n_nodes, sizeof *job->enumerators);
  return job;
}

void sc__job_lay_out(sc_job_t *job) {
  uint32_t n = job->graph->n_tasks;
  job->ended = sc_calloc(n, sizeof *job->ended);
  job->asked = sc_calloc(n, sizeof *job->asked);
  job->finished = sc_calloc(n, sizeof *job->finished);
  sc__regions_init(job);
  sc__view_init(job);
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
