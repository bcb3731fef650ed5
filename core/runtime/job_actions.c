/*
 * job_actions: carries out what the checkpoint coordinator decides: mail to tasks, file work in the
 * pool (one after another, so that what concerns one checkpoint keeps its order), lines in the log.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../base/mem.h"
#include "../base/planted.h"
#include "../checkpoint/failures.h"
#include "job_parts.h"

/* ---- file work ---- */

struct sc_file_work {
  sc_work_t work;
  sc_mail_t mail;
  sc_file_work_t *next;
  sc_job_t *job;
  int (*run)(sc_job_t *job, void *arg, sc_error_t *err);
  void (*done)(sc_job_t *job, void *arg, int rc, sc_error_t *err);
  void *arg;
  int rc;
  sc_error_t err;
};

static void file_run(sc_work_t *work) {
  sc_file_work_t *w = (sc_file_work_t *)work;
  w->rc = w->run(w->job, w->arg, &w->err);
  sc_engine_post(w->job->engine, &w->mail);
}

static void file_done(sc_mail_t *mail, void *owner) {
  sc_file_work_t *w = (sc_file_work_t *)((char *)mail - offsetof(sc_file_work_t, mail));
  sc_job_t *job = w->job;
  job->files = w->next;
  if (!job->files)
    job->files_tail = &job->files;
  else
    sc_world_submit(job->world, &job->files->work);
  w->done(job, w->arg, w->rc, &w->err);
  sc_error_clear(&w->err);
  free(w);
  sc__job_actions(job);
}

/* Only at the very end, when the engine is taken down with the work unfinished. */
static void file_dropped(sc_mail_t *mail) {
  sc_file_work_t *w = (sc_file_work_t *)((char *)mail - offsetof(sc_file_work_t, mail));
  sc_error_clear(&w->err);
  free(w);
}

void sc__job_file_work(sc_job_t *job, int (*run)(sc_job_t *, void *, sc_error_t *),
                       void (*done)(sc_job_t *, void *, int, sc_error_t *), void *arg) {
  sc_file_work_t *w = sc_calloc(1, sizeof *w);
  *w = (sc_file_work_t){.work = {.run = file_run}, .mail = {.run = file_done, .drop = file_dropped},
                        .job = job, .run = run, .done = done, .arg = arg, .err = SC_ERROR_INIT};
  *job->files_tail = w;
  job->files_tail = &w->next;
  if (job->files == w)
    sc_world_submit(job->world, &w->work);
}

typedef struct id_arg { uint64_t id; int64_t began_ns; } id_arg_t;

static id_arg_t *new_id(sc_job_t *job, uint64_t id) {
  id_arg_t *a = sc_malloc(sizeof *a);
  *a = (id_arg_t){id, sc_world_mono_ns(job->world)};
  return a;
}

static int run_reserve(sc_job_t *job, void *arg, sc_error_t *err) {
  return sc_job_dir_reserve(job->dir, ((id_arg_t *)arg)->id, err);
}

static void done_reserve(sc_job_t *job, void *arg, int rc, sc_error_t *err) {
  if (rc < 0)
    sc__job_log(job, SC_LOG_WARN, 0, NULL, "cannot reserve checkpoint ids: %s", err->message);
  sc_coordinator_reserved(job->coordinator, ((id_arg_t *)arg)->id, rc >= 0);
  free(arg);
}

static int run_prepare(sc_job_t *job, void *arg, sc_error_t *err) {
  return sc_job_dir_prepare(job->dir, ((id_arg_t *)arg)->id, err);
}

static void done_prepare(sc_job_t *job, void *arg, int rc, sc_error_t *err) {
  uint64_t id = ((id_arg_t *)arg)->id;
  if (rc < 0)
    sc__job_log(job, SC_LOG_WARN, id, NULL, "cannot make the checkpoint's folder: %s",
                err->message);
  sc_coordinator_prepared(job->coordinator, sc__job_now(job), sc__job_mono(job), id, rc >= 0);
  free(arg);
}

static int run_delete(sc_job_t *job, void *arg, sc_error_t *err) {
  return sc_job_dir_delete(job->dir, ((id_arg_t *)arg)->id, err);
}

static void warn_delete(sc_job_t *job, uint64_t id, int rc, const sc_error_t *err) {
  if (rc < 0)
    sc__job_log(job, SC_LOG_WARN, id, NULL, "its files could not all be deleted: %s", err->message);
}

static void done_delete(sc_job_t *job, void *arg, int rc, sc_error_t *err) {
  uint64_t id = ((id_arg_t *)arg)->id;
  warn_delete(job, id, rc, err);
  sc_coordinator_deleted(job->coordinator, sc__job_now(job), sc__job_mono(job), id);
  free(arg);
}

static void done_abort_delete(sc_job_t *job, void *arg, int rc, sc_error_t *err) {
  warn_delete(job, ((id_arg_t *)arg)->id, rc, err);
  free(arg);
}

typedef struct discard_arg { uint64_t id; sc_task_snapshot_t *snap; } discard_arg_t;

static int run_discard(sc_job_t *job, void *arg, sc_error_t *err) {
  discard_arg_t *d = arg;
  return sc_job_dir_discard(job->dir, d->id, d->snap, err);
}

static void done_discard(sc_job_t *job, void *arg, int rc, sc_error_t *err) {
  discard_arg_t *d = arg;
  warn_delete(job, d->id, rc, err);
  sc_task_snapshot_destroy(d->snap);
  free(d);
}

/* ---- the metadata of a checkpoint ---- */

static struct sc_pending_cut *take_cut(sc_job_t *job, uint64_t id) {
  struct sc_pending_cut **at = &job->cuts;
  while (*at && (*at)->id != id)
    at = &(*at)->next;
  struct sc_pending_cut *cut = *at;
  if (cut)
    *at = cut->next;
  return cut;
}

static void free_cut(sc_job_t *job, struct sc_pending_cut *cut) {
  if (!cut)
    return;
  for (uint32_t i = 0; i < job->graph->n_nodes; i++)
    sc_buf_free(&cut->enumerators[i]);
  free(cut->enumerators);
  free(cut);
}

void sc__job_drop_cuts(sc_job_t *job) {
  while (job->cuts)
    free_cut(job, take_cut(job, job->cuts->id));
}

/* What a graph's edge is among those that the metadata lists: exchanges, in their order. */
static uint32_t exchange_number(const sc_graph_t *g, uint32_t edge) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < edge; i++)
    n += !g->edges[i].chained;
  return n;
}

static void add_edges(const sc_graph_t *g, sc_metadata_t *m) {
  for (uint32_t i = 0; i < g->n_edges; i++) {
    const sc_edge_t *e = &g->edges[i];
    if (e->chained)
      continue;
    const sc_node_t *from = &g->nodes[e->from], *to = &g->nodes[e->to];
    sc_metadata_edge_t *out = sc_metadata_add_edge(m);
    out->from_uid = sc_strdup(from->uid);
    out->output = sc_strdup(from->outputs[e->output]);
    out->to_uid = sc_strdup(to->uid);
    out->partitioner = sc_strdup(sc_partitioner_name(e->known_as));
    out->port = e->port;
    out->ordinal = e->ordinal;
    out->from_parallelism = from->parallelism;
    out->to_parallelism = to->parallelism;
  }
}

static void fill_subtask(const sc_graph_t *g, uint64_t id, sc_metadata_subtask_t *out,
                         const sc_task_snapshot_t *snap, uint32_t position) {
  const sc_operator_snapshot_t *s = &snap->operators[position];
  out->end = snap->end;
  out->state.watermark = s->watermark;
  out->state.forwarded = s->forwarded;
  out->state.idle = s->idle;
  bool dropped = SC_PLANTED(FINISHED_DROPPED) && snap->checkpoint != id;
  for (uint32_t i = 0; i < s->n_handles && !dropped; i++) {
    bool inflight = s->handles[i].kind == SC_HANDLE_INFLIGHT;
    if (inflight && snap->checkpoint != id)
      continue; /* what was in flight at a finished task's last checkpoint has arrived since */
    sc_handle_t *h = sc_operator_snapshot_add(&out->state, s->handles[i].kind);
    sc_handle_fini(h);
    sc_handle_copy(h, &s->handles[i]);
    if (inflight)
      h->inflight.edge = exchange_number(g, h->inflight.edge);
  }
  /* A finished task's files stay where its final checkpoint wrote them. */
  if (snap->checkpoint != id)
    out->directory = sc_format("chk-%" PRIu64, snap->checkpoint);
}

static sc_metadata_t *build_metadata(sc_job_t *job, const sc_action_t *act) {
  const sc_graph_t *g = job->graph;
  sc_metadata_t *m = sc_metadata_create();
  struct sc_pending_cut *cut = take_cut(job, act->id);
  m->id = act->id;
  m->timestamp_ms = act->timestamp_ms;
  m->job_id = sc_strdup(job->id);
  m->job_name = sc_strdup(job->name);
  m->finished = act->final;
  m->attempt = job->attempt_number;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const sc_node_t *n = &g->nodes[i];
    sc_metadata_operator_t *op = sc_metadata_add_operator(m, n->uid, n->name, n->parallelism,
                                                          n->max_parallelism);
    if (cut && cut->enumerators[i].len) {
      op->has_enumerator = true;
      op->enumerator = cut->enumerators[i];
      cut->enumerators[i] = (sc_buf_t)SC_BUF_INIT;
    }
    for (uint32_t s = 0; s < n->parallelism; s++)
      fill_subtask(g, act->id, &op->subtasks[s],
                   act->snapshots[g->chains[n->chain].first_task + s],
                   n->position);
  }
  add_edges(g, m);
  free_cut(job, cut);
  return m;
}

typedef struct write_arg {
  uint64_t id;
  int64_t timestamp_ms;
  sc_metadata_t *metadata;
  char *dir;
  bool stop;
} write_arg_t;

static int run_write(sc_job_t *job, void *arg, sc_error_t *err) {
  write_arg_t *w = arg;
  return sc_metadata_write(job->storage, w->dir, w->metadata, err);
}

/* It is there, and users see it. */
static void show_complete(sc_job_t *job, uint64_t id, int64_t timestamp_ms) {
  char *dir = sc_job_dir_checkpoint(job->dir, id);
  int64_t now = sc__job_now(job);
  job->last_good_ms = sc__job_mono(job);
  sc__view_lock(job);
  sc_statistics_completed(job->view.statistics, id, now, dir);
  sc__view_unlock(job);
  sc__view_checkpoint(job, id, true, dir);
  sc__job_log(job, SC_LOG_INFO, id, NULL, "completed in %" PRId64 " ms",
              now > timestamp_ms ? now - timestamp_ms : 0); /* as the statistics have it */
  sc__job_explain(job, id);
  free(dir);
}

static void done_write(sc_job_t *job, void *arg, int rc, sc_error_t *err) {
  write_arg_t *w = arg;
  if (rc < 0)
    sc__job_log(job, SC_LOG_WARN, w->id, NULL, "its _metadata could not be written: %s",
                err->message);
  else
    show_complete(job, w->id, w->timestamp_ms);
  job->suspended |= w->stop && rc >= 0;
  sc_coordinator_written(job->coordinator, sc__job_now(job), sc__job_mono(job), w->id, rc >= 0);
  sc_metadata_destroy(w->metadata);
  free(w->dir);
  free(w);
}

static void write_metadata(sc_job_t *job, const sc_action_t *act) {
  write_arg_t *w = sc_calloc(1, sizeof *w);
  w->id = act->id;
  w->timestamp_ms = act->timestamp_ms;
  w->stop = act->stop;
  w->metadata = build_metadata(job, act);
  w->dir = sc_job_dir_checkpoint(job->dir, act->id);
  sc__job_file_work(job, run_write, done_write, w);
}

/* ---- the other actions ---- */

static const char *task_name(sc_job_t *job, uint32_t task) {
  const sc_attempt_t *a =
      task < job->graph->n_tasks ? sc__job_region_of(job, task)->attempt : NULL;
  return a ? a->tasks[task].name : NULL;
}

static void trigger(sc_job_t *job, const sc_action_t *act) {
  struct sc_pending_cut *cut = sc_calloc(1, sizeof *cut);
  cut->id = act->id;
  cut->enumerators = sc_calloc(job->graph->n_nodes, sizeof *cut->enumerators);
  for (uint32_t i = 0; i < job->graph->n_nodes; i++)
    if (job->enumerators[i])
      sc_enumerator_snapshot(job->enumerators[i], &cut->enumerators[i]);
  cut->next = job->cuts;
  job->cuts = cut;
  sc__view_lock(job);
  /* Who leaves from now on was told so after this trigger, and is waited for. */
  sc_statistics_triggered(job->view.statistics,
                          &(sc_statistics_begin_t){.id = act->id,
                                                   .trigger_ms = act->timestamp_ms,
                                                   .waited_ms = act->waited_ms,
                                                   .prepared_ms = sc__job_now(job),
                                                   .manual = act->request != 0,
                                                   .finished = job->finished});
  sc__view_unlock(job);
  sc__job_log(job, SC_LOG_INFO, act->id, NULL, "triggered (%u task%s of sources)%s", act->n_tasks,
              act->n_tasks == 1 ? "" : "s", act->stop ? ": the job stops with it" : "");
  const sc_barrier_t barrier = {act->id, act->timestamp_ms, act->overtake_at_ms, act->stop};
  for (uint32_t i = 0; i < act->n_tasks; i++) {
    sc_attempt_t *a = sc__job_told(job, act->tasks[i]);
    if (a)
      sc_attempt_trigger(a, act->tasks[i], &barrier);
  }
}

static void complete(sc_job_t *job, const sc_action_t *act) {
  for (uint32_t i = 0; i < job->graph->n_tasks; i++) {
    sc_attempt_t *a = sc__job_told(job, i);
    if (a && !job->finished[i])
      sc_attempt_complete(a, i, act->id);
  }
}

/* The job cannot end without its final checkpoint: what will be tried, and what helps. */
static void log_again(sc_job_t *job, const sc_action_t *act) {
  int64_t timeout = job->options.checkpoint.timeout_ms;
  if (act->reason == SC_REASON_EXPIRED)
    sc__job_log(job, SC_LOG_WARN, act->id, NULL,
                "the job ends with its final checkpoint, which is tried again in %" PRId64
                " ms and given %" PRId64 " ms: checkpoint.timeout = %" PRId64 " ms is too short",
                act->retry_ms, act->timeout_ms, timeout);
  else
    sc__job_log(job, SC_LOG_WARN, act->id, NULL,
                "the job ends with its final checkpoint, which is tried again in %" PRId64 " ms",
                act->retry_ms);
}

static void refused(sc_job_t *job, const sc_action_t *act) {
  const char *reason = sc_reason_text(act->reason);
  if (!sc_failures_counts(act->reason)) {
    sc__job_log(job, SC_LOG_WARN, 0, NULL, "no checkpoint is taken for now: %s",
                act->text ? act->text : reason);
    return;
  }
  sc__view_lock(job);
  sc_statistics_failed(job->view.statistics, 0, sc__job_now(job), reason);
  sc__view_unlock(job);
  sc__view_checkpoint(job, 0, false, reason);
  sc__job_log(job, SC_LOG_WARN, 0, NULL, "a checkpoint could not begin: %s (%" PRIu64
              " failed in a row)", reason, sc_coordinator_failures(job->coordinator));
}

/* Every source ends its input; one that has ended takes no notice. */
static void drain(sc_job_t *job, uint64_t request) {
  const sc_graph_t *g = job->graph;
  job->draining = request;
  sc__job_log(job, SC_LOG_INFO, 0, NULL, "the job is drained: every source ends its input");
  for (uint32_t i = 0; i < g->n_tasks; i++) {
    uint32_t subtask;
    const sc_chain_plan_t *chain = sc_graph_task(g, i, &subtask);
    sc_attempt_t *a = sc__job_told(job, i);
    if (a && g->nodes[chain->nodes[0]].type->is_source)
      sc_attempt_drain(a, i);
  }
}

/* A task that did not acknowledge in time may only share its slot with the one that is stuck: what
 * that slot runs at this moment, or NULL where it is the task itself, or nothing. */
static const char *busy_with(sc_job_t *job, const sc_action_t *act) {
  if (act->reason != SC_REASON_EXPIRED || act->task >= job->graph->n_tasks)
    return NULL;
  sc_attempt_t *a = sc__job_told(job, act->task);
  const sc_task_t *t = a ? &a->tasks[act->task] : NULL;
  const char *running = t ? atomic_load(&t->slot->running) : NULL;
  return running != (t ? t->name : NULL) ? running : NULL;
}

/* Why, and whose fault it was. malloc'ed. */
static char *reason_of(sc_job_t *job, const sc_action_t *act) {
  const char *who = task_name(job, act->task), *text = act->text ? act->text : "";
  const char *busy = busy_with(job, act);
  return sc_format("%s%s%s%s%s%s%s", sc_reason_text(act->reason), who ? ", task " : "",
                   who ? who : "", *text ? ": " : "", text, busy ? "; its slot is busy with " : "",
                   busy ? busy : "");
}

static void aborted(sc_job_t *job, const sc_action_t *act) {
  free_cut(job, take_cut(job, act->id));
  char *reason = reason_of(job, act);
  sc__view_lock(job);
  sc_statistics_failed(job->view.statistics, act->id, sc__job_now(job), reason);
  sc__view_unlock(job);
  sc__view_checkpoint(job, act->id, false, reason);
  bool ours = act->reason == SC_REASON_STOPPED || act->reason == SC_REASON_SUBSUMED;
  char *age = job->last_good_ms
                  ? sc_format("%.1f s ago", (double)(sc__job_mono(job) - job->last_good_ms) / 1000)
                  : sc_strdup("none yet");
  sc__job_log(job, ours ? SC_LOG_INFO : SC_LOG_WARN, act->id, NULL,
              "aborted: %s (%" PRIu64 " failed in a row; last good checkpoint: %s)", reason,
              sc_coordinator_failures(job->coordinator), age);
  if (act->reason == SC_REASON_EXPIRED)
    sc__job_explain(job, act->id);
  if (act->final)
    log_again(job, act);
  free(age);
  free(reason);
  for (uint32_t i = 0; i < job->graph->n_tasks; i++) {
    sc_attempt_t *a = sc__job_told(job, i);
    if (a && !job->finished[i])
      sc_attempt_abort(a, i, act->id);
  }
  sc__job_file_work(job, run_delete, done_abort_delete, new_id(job, act->id));
}

static int code_of(sc_reason_t reason) {
  switch (reason) {
    case SC_REASON_EXPIRED: return SC_ETIMEOUT;
    case SC_REASON_DECLINED:
    case SC_REASON_ASYNC_FAILED:
    case SC_REASON_TASK_CLOSING:
    case SC_REASON_STOPPING:
    case SC_REASON_NOT_RUNNING: return SC_EDECLINED;
    case SC_REASON_IO:
    case SC_REASON_FINALIZE: return SC_EIO;
    case SC_REASON_TOO_MANY_REQUESTS: return SC_ELIMIT;
    default: return SC_ESTALE;
  }
}

static void answer(sc_job_t *job, const sc_action_t *act) {
  sc_error_t err = SC_ERROR_INIT;
  if (act->reason != SC_REASON_NONE) {
    char *reason = reason_of(job, act);
    if (act->id)
      sc_fail(&err, code_of(act->reason), "checkpoint %" PRIu64 " was not taken: %s", act->id,
              reason);
    else
      sc_fail(&err, code_of(act->reason), "no checkpoint was taken: %s", reason);
    free(reason);
  }
  bool stop = sc__ask_answer(job, act->request, act->id, err.code ? &err : NULL);
  job->keeps |= stop && act->reason == SC_REASON_NONE;
  if (job->draining == act->request) /* another's may have been refused because of this one */
    job->draining = 0;
  sc_error_clear(&err);
}

static void discard(sc_job_t *job, const sc_action_t *act) {
  sc__job_log(job, SC_LOG_INFO, act->id, task_name(job, act->snapshots[0]->task),
              "came too late: its state is deleted");
  discard_arg_t *d = sc_calloc(1, sizeof *d);
  *d = (discard_arg_t){act->id, sc_task_snapshot_copy(act->snapshots[0])};
  sc__job_file_work(job, run_discard, done_discard, d);
}

static void act_on(sc_job_t *job, const sc_action_t *act) {
  switch (act->kind) {
    case SC_ACT_RESERVE:
      if (job->dir)
        sc__job_file_work(job, run_reserve, done_reserve, new_id(job, act->id));
      else
        sc_coordinator_reserved(job->coordinator, act->id, true); /* nothing is ever written */
      break;
    case SC_ACT_PREPARE:
      sc__job_file_work(job, run_prepare, done_prepare, new_id(job, act->id));
      break;
    case SC_ACT_TRIGGER: trigger(job, act); break;
    case SC_ACT_WRITE: write_metadata(job, act); break;
    case SC_ACT_COMPLETE: complete(job, act); break;
    case SC_ACT_ABORT: aborted(job, act); break;
    case SC_ACT_DELETE:
      sc__view_lock(job);
      sc_statistics_discarded(job->view.statistics, act->id);
      sc__view_unlock(job);
      sc__job_file_work(job, run_delete, done_delete, new_id(job, act->id));
      break;
    case SC_ACT_DISCARD: discard(job, act); break;
    case SC_ACT_FINISHED: sc__job_task_finished(job, act->task); break;
    case SC_ACT_ANSWER: answer(job, act); break;
    case SC_ACT_FAIL_JOB: {
      sc_error_t err = SC_ERROR_INIT;
      sc_fail(&err, SC_EFAILED,
              "more checkpoints failed in a row than tolerable_failures (%" PRId64
              ") allows; the last one: %s",
              job->options.checkpoint.tolerable_failures, sc_reason_text(act->reason));
      sc__regions_fail(job, NULL, false, &err);
      sc_error_clear(&err);
      break;
    }
    case SC_ACT_REFUSED: refused(job, act); break;
    case SC_ACT_DRAIN: drain(job, act->request); break;
  }
}

void sc__job_actions(sc_job_t *job) {
  sc_action_t act;
  while (job->coordinator && sc_coordinator_action(job->coordinator, &act))
    act_on(job, &act);
}
