/*
 * task_snapshot: a task's part in a checkpoint.
 *
 * Synchronous part, on the slot, between two records: the barrier goes out on every output, every
 * operator adds its list state and pool work, the keyed window is frozen (a pointer swap).
 * Asynchronous part, in the pool: operators' work (sync a file), the keyed file, then the
 * acknowledgement straight to the coordinator; the slot is told afterwards, only to fold.
 * A keyed window may still be busy with an older snapshot: then the part waits in the task until
 * the window says it is ready.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../base/mem.h"
#include "../base/planted.h"
#include "attempt.h"

typedef struct snapshot_work {
  sc_work_t work;
  sc_mail_t mail;
  struct snapshot_work *next;   /* in task->waiting */
  sc_attempt_t *attempt;
  sc_task_t *task;
  uint64_t id;
  sc_task_snapshot_t *snapshot; /* goes with the acknowledgement */
  sc_snapshot_parts_t **parts;  /* one for each link */
  uint32_t n_parts;
  sc_keyed_snapshot_t *keyed;   /* or NULL */
  sc_keyed_t *window;
  char *dir;                    /* chk-N */
  int64_t created_ns;
} snapshot_work_t;

static void free_work(snapshot_work_t *w) {
  for (uint32_t i = 0; i < w->n_parts; i++)
    sc_parts_destroy(w->parts[i]);
  free(w->parts);
  sc_task_snapshot_destroy(w->snapshot);
  free(w->dir);
  free(w);
}

static snapshot_work_t *of_mail(sc_mail_t *mail) {
  return (snapshot_work_t *)((char *)mail - offsetof(snapshot_work_t, mail));
}

/* The slot has gone: nobody touches the window any more, so its snapshot may be ended from here. */
static void told_dropped(sc_mail_t *mail) {
  snapshot_work_t *w = of_mail(mail);
  if (w->keyed)
    w->window->ops->snapshot_done(w->window, w->keyed);
  free_work(w);
}

static void told(sc_mail_t *mail, void *owner) {
  snapshot_work_t *w = of_mail(mail);
  sc_task_t *t = w->task;
  t->works--;
  told_dropped(mail);
  sc_task_submit_ready(t);
}

/* File name of an operator's keyed state: its uid made safe, subtask and attempt. */
static char *keyed_file_name(const sc_task_t *t) {
  const char *uid = t->chain.links[0].node->uid;
  char *safe = sc_strdup(uid);
  for (char *p = safe; *p; p++)
    if (!isalnum((unsigned char)*p) && *p != '-' && *p != '_')
      *p = '_';
  if (strlen(safe) > 64)
    safe[64] = 0;
  /* The node's number keeps two uids apart that look alike once made safe. */
  char *name = sc_format("%s-n%u-%u-a%" PRIu64 ".keys", safe, t->plan->nodes[0], t->subtask,
                         t->attempt->config.number);
  free(safe);
  return name;
}

static int write_keyed(snapshot_work_t *w, sc_error_t *err) {
  if (!w->keyed)
    return 0;
  sc_handle_t *h = sc_operator_snapshot_add(&w->snapshot->operators[0], SC_HANDLE_KEYED);
  char *name = keyed_file_name(w->task);
  int rc = w->window->ops->snapshot_write(w->keyed, w->attempt->config.storage, w->dir, name,
                                          h, err);
  free(name);
  if (rc >= 0)
    w->snapshot->bytes += h->length;
  if (rc < 0 || h->length == 0) { /* nothing was written: no handle */
    sc_handle_fini(h);
    w->snapshot->operators[0].n_handles--;
  }
  return rc;
}

static int run_parts(snapshot_work_t *w, sc_error_t *err) {
  for (uint32_t i = 0; i < w->n_parts; i++) {
    int rc = sc_parts_run(w->parts[i], err);
    if (rc < 0) {
      sc_error_set_operator(err, w->task->chain.links[i].label);
      return rc;
    }
    sc_buf_t lists = SC_BUF_INIT;
    if (sc_parts_encode(w->parts[i], &lists)) {
      sc_handle_t *h = sc_operator_snapshot_add(&w->snapshot->operators[i], SC_HANDLE_LIST);
      w->snapshot->bytes += lists.len;
      h->inlined = lists;
    }
  }
  return 0;
}

static void run_work(sc_work_t *work) {
  snapshot_work_t *w = (snapshot_work_t *)work;
  sc_attempt_t *a = w->attempt;
  sc_report_t *r = sc_report_new(a, SC_REPORT_ACK, w->task->index);
  r->id = w->id;
  int rc = run_parts(w, &r->error);
  if (rc >= 0)
    rc = write_keyed(w, &r->error);
  w->snapshot->async_ns = sc_world_mono_ns(a->config.world) - w->created_ns;
  if (rc < 0 && !SC_PLANTED(LOST_PART))
    r->kind = SC_REPORT_DECLINE;
  r->snapshot = w->snapshot;
  w->snapshot = NULL;
  sc_report_post(a, r);
  sc_mailbox_post(&w->task->slot->mailbox, &w->mail);
  sc_attempt_unref(a);
}

static void submit(sc_task_t *t, snapshot_work_t *w) {
  t->works++;
  sc_attempt_ref(t->attempt);
  if (t->attempt->config.synchronous) /* here and now, before another record */
    w->work.run(&w->work);
  else
    sc_world_submit(t->attempt->config.world, &w->work);
}

void sc_task_submit_ready(sc_task_t *t) {
  if (!t->waiting)
    return;
  sc_keyed_snapshot_t *ready;
  while ((ready = t->keyed->ops->ready(t->keyed)) != NULL) {
    uint64_t id = t->keyed->ops->snapshot_id(ready);
    snapshot_work_t **at = &t->waiting;
    while (*at && (*at)->id != id)
      at = &(*at)->next;
    sc_assert(*at); /* freeze and waiting go together */
    snapshot_work_t *w = *at;
    *at = w->next;
    w->keyed = ready;
    submit(t, w);
  }
}

/* An abort of a newer checkpoint ends an older alignment, too: the coordinator hears of that. */
static void abort_input(sc_task_t *t, uint64_t id) {
  if (t->n_channels == 0)
    return; /* a source: nobody would read what the input has to say of it */
  uint64_t aligning = sc_input_pending(t->input);
  sc_input_abort(t->input, id);
  if (!aligning || aligning >= id || sc_input_pending(t->input) == aligning)
    return;
  sc_report_t *r = sc_report_new(t->attempt, SC_REPORT_SUPERSEDED, t->index);
  r->id = aligning;
  r->other = id;
  sc_report_post(t->attempt, r);
}

void sc_task_aborted(sc_task_t *t, uint64_t id) {
  abort_input(t, id);
  if (t->stopped_at == id)
    t->stopped_at = 0;
  if (t->trigger.id == id)
    t->trigger.id = 0;
  for (uint32_t i = 0; i < t->chain.n_links; i++) {
    sc_operator_t *op = t->chain.links[i].op;
    if (op->ops->aborted)
      op->ops->aborted(op, id);
  }
  if (t->keyed)
    t->keyed->ops->abort(t->keyed, id);
  for (snapshot_work_t **at = &t->waiting; *at; at = &(*at)->next)
    if ((*at)->id == id) {
      snapshot_work_t *w = *at;
      *at = w->next;
      free_work(w);
      break;
    }
  if (sc_input_pending(t->input) == 0)
    t->first_barrier_ns = 0;
}

void sc_task_drop_waiting(sc_task_t *t) {
  while (t->waiting) {
    snapshot_work_t *w = t->waiting;
    t->waiting = w->next;
    free_work(w);
  }
}

/* Every operator's synchronous part, tail to head as the reference does. */
static int snapshot_operators(sc_task_t *t, snapshot_work_t *w) {
  for (uint32_t i = t->chain.n_links; i > 0; i--) {
    sc_link_t *link = &t->chain.links[i - 1];
    sc_operator_snapshot_t *s = &w->snapshot->operators[i - 1];
    s->uid = sc_strdup(link->node->uid);
    s->watermark = link->context.watermark;
    s->forwarded = link->forwarded;
    s->idle = link->idle;
    w->parts[i - 1] = sc_parts_create();
    sc_operator_t *op = link->op;
    if (!op->ops->snapshot)
      continue;
    int rc = op->ops->snapshot(op, w->id, w->parts[i - 1], &t->error);
    if (rc < 0) {
      sc_error_set_operator(&t->error, link->label);
      return rc;
    }
  }
  return 0;
}

static snapshot_work_t *new_work(sc_task_t *t, uint64_t id) {
  snapshot_work_t *w = sc_calloc(1, sizeof *w);
  w->work.run = run_work;
  w->mail = (sc_mail_t){.run = told, .drop = told_dropped};
  w->attempt = t->attempt;
  w->task = t;
  w->id = id;
  w->n_parts = t->chain.n_links;
  w->parts = sc_calloc(w->n_parts, sizeof *w->parts);
  w->window = t->keyed;
  w->snapshot = sc_task_snapshot_create(t->index, t->subtask, t->chain.n_links);
  w->snapshot->checkpoint = id;
  char *name = sc_format("chk-%" PRIu64, id);
  w->dir = sc_path_join(t->attempt->config.job_dir, name);
  free(name);
  return w;
}

void sc_task_snapshot(sc_task_t *t, const sc_barrier_t *b, uint64_t alignment_bytes) {
  sc_world_t *world = t->attempt->config.world;
  int64_t begin = sc_world_mono_ns(world);
  if (b->stop)
    t->stopped_at = b->id;
  for (uint32_t i = 0; i < t->chain.n_outputs; i++)
    sc_output_barrier(t->chain.outputs[i], b);
  snapshot_work_t *w = new_work(t, b->id);
  if (snapshot_operators(t, w) < 0) {
    free_work(w);
    sc_task_fail(t, &t->error);
    return;
  }
  if (t->phase == SC_PHASE_ENDED) {
    w->snapshot->end = SC_TASK_ENDED;
    if (!t->first_ended_snapshot)
      t->first_ended_snapshot = b->id;
  }
  int64_t first_ms = t->first_barrier_ns ? t->first_barrier_ms : sc_world_now_ms(world);
  w->snapshot->start_delay_ns = first_ms > b->timestamp_ms ? (first_ms - b->timestamp_ms) * 1000000
                                                           : 0;
  w->snapshot->alignment_ns = t->first_barrier_ns ? begin - t->first_barrier_ns : 0;
  w->snapshot->alignment_bytes = alignment_bytes;
  t->first_barrier_ns = 0;
  w->created_ns = sc_world_mono_ns(world);
  if (!t->keyed) {
    w->snapshot->sync_ns = w->created_ns - begin;
    submit(t, w);
    return;
  }
  t->keyed->ops->freeze(t->keyed, b->id);
  w->created_ns = sc_world_mono_ns(world);
  w->snapshot->sync_ns = w->created_ns - begin;
  snapshot_work_t **tail = &t->waiting;
  while (*tail)
    tail = &(*tail)->next;
  *tail = w;
  sc_task_submit_ready(t);
}
