/*
 * task_start: from a task that is wired to one that runs, and its end.
 *
 * On the slot: contexts, window, operators are made; in the pool: keyed state is read; on the slot
 * again: operators are restored and opened, tail to head, what the snapshot left half handed on
 * goes on, and what was in flight begins to be read.
 */
#include <stdlib.h>
#include <string.h>

#include "../base/mem.h"
#include "attempt.h"

static const sc_restore_operator_t *plan_of(const sc_task_t *t, uint32_t link) {
  return t->attempt->config.restore ? t->attempt->config.restore[t->plan->nodes[link]] : NULL;
}

static void fill_context(sc_task_t *t, uint32_t i) {
  const sc_attempt_config_t *config = &t->attempt->config;
  sc_link_t *link = &t->chain.links[i];
  const sc_node_t *node = link->node;
  link->label = sc_format("%s (%s) %u/%u", node->name, node->uid, t->subtask + 1,
                          node->parallelism);
  sc_op_context_t *c = &link->context;
  c->job_id = config->job_id;
  c->uid = node->uid;
  c->name = node->name;
  c->label = link->label;
  c->subtask = t->subtask;
  c->parallelism = node->parallelism;
  c->max_parallelism = node->max_parallelism;
  c->attempt = config->number;
  c->restored = config->restored_id != 0;
  c->restored_id = config->restored_id;
  c->checkpointing = config->checkpointing;
  c->ended = t->restored_finished;
  c->host = t->slot->host;
  c->world = config->world;
  c->log = config->log;
  c->wake_at_ms = INT64_MAX;
  c->n_outputs = (uint16_t)node->n_outputs;
  c->services = &sc_task_services;
  c->runtime = link;
}

static int create_state(sc_task_t *t, sc_error_t *err) {
  sc_link_t *head = &t->chain.links[0];
  if (!head->node->keyed)
    return 0;
  sc_key_range_t range = sc_key_range(head->node->max_parallelism, head->node->parallelism,
                                      t->subtask);
  t->keyed = sc_heap_create(head->node->uid, range);
  head->context.keyed = t->keyed;
  return 0;
}

static int create_operators(sc_task_t *t, sc_error_t *err) {
  for (uint32_t i = 0; i < t->chain.n_links; i++) {
    sc_link_t *link = &t->chain.links[i];
    int rc = link->node->type->create(link->node->data, sc_buf_bytes(&link->node->options),
                                      &link->context, &link->op, err);
    if (rc < 0) {
      sc_error_set_operator(err, link->label);
      return rc;
    }
    link->op->context = &link->context;
  }
  return 0;
}

static int restore_link(sc_task_t *t, uint32_t i, sc_error_t *err) {
  sc_link_t *link = &t->chain.links[i];
  const sc_restore_operator_t *plan = plan_of(t, i);
  if (!plan)
    return 0;
  const sc_restore_subtask_t *s = &plan->subtasks[t->subtask];
  link->context.watermark = s->watermark;
  link->forwarded = s->forwarded;
  link->idle = s->idle;
  atomic_store_explicit(&link->watermark_shown, s->watermark,
                        memory_order_relaxed); /* shown only */
  if (s->lists.len && link->op->ops->restore)
    return link->op->ops->restore(link->op, sc_buf_bytes(&s->lists), err);
  return 0;
}

/* A restored sender's first element is the watermark it last forwarded, and its status. */
static void resend_watermarks(sc_task_t *t) {
  for (uint32_t i = 0; i < t->chain.n_links; i++) {
    sc_link_t *link = &t->chain.links[i];
    for (uint32_t o = 0; o < link->node->n_outputs; o++)
      for (uint32_t x = 0; x < link->routes[o].n_exits; x++) {
        sc_output_t *out = link->routes[o].exits[x].output;
        if (link->forwarded != SC_WATERMARK_MIN)
          sc_output_watermark(out, link->forwarded);
        if (link->idle)
          sc_output_status(out, true);
      }
  }
}

static int open_operators(sc_task_t *t, sc_error_t *err) {
  for (uint32_t i = t->chain.n_links; i > 0; i--) {
    sc_link_t *link = &t->chain.links[i - 1];
    int rc = restore_link(t, i - 1, err);
    if (rc >= 0 && link->op->ops->open)
      rc = link->op->ops->open(link->op, err);
    if (rc < 0) {
      sc_error_set_operator(err, link->label);
      return rc;
    }
  }
  return 0;
}

/* State is read: restore and open the operators; from here on the task runs. */
static void open_task(sc_task_t *t) {
  sc_error_t err = SC_ERROR_INIT;
  int rc = 0;
  if (t->keyed) {
    rc = sc_timers_create(t->keyed, &t->timers, &err);
    t->chain.links[0].context.timers = t->timers;
    if (rc >= 0)
      rc = sc_timers_rebuild(t->timers, &err);
  }
  if (rc >= 0)
    rc = open_operators(t, &err);
  if (rc < 0) {
    sc_task_fail(t, &err);
    return;
  }
  t->phase = SC_PHASE_RUNNING;
  resend_watermarks(t);
  if (t->restored_finished) {
    sc_task_end_outputs(t);
    t->final_complete = t->attempt->config.all_finished;
    t->phase = SC_PHASE_ENDED;
  } else {
    sc_chain_resume_watermarks(&t->chain);
  }
  if (t->replay)
    sc_task_replay_step(t);
  t->wake_at_ms = 0;
  sc_task_report(t, SC_REPORT_READY);
  if (t->restored_finished)
    sc_task_report(t, SC_REPORT_END_OF_DATA);
}

typedef struct load_work {
  sc_work_t work;
  sc_mail_t mail;
  sc_task_t *task;
  int rc;
  sc_error_t err;
} load_work_t;

static load_work_t *load_of_mail(sc_mail_t *mail) {
  return (load_work_t *)((char *)mail - offsetof(load_work_t, mail));
}

static void load_dropped(sc_mail_t *mail) {
  load_work_t *w = load_of_mail(mail);
  sc_error_clear(&w->err);
  free(w);
}

static void load_read(sc_mail_t *mail, void *owner) {
  load_work_t *w = load_of_mail(mail);
  if (w->rc < 0) {
    sc_error_set_operator(&w->err, w->task->chain.links[0].label);
    sc_task_fail(w->task, &w->err);
  } else {
    open_task(w->task);
  }
  load_dropped(mail);
}

/* Folder of a handle's files: the snapshot's own, or one beside it. malloc'ed. */
char *sc_attempt_restored_dir(const sc_attempt_t *a, const char *directory) {
  const sc_attempt_config_t *c = &a->config;
  if (!directory)
    return sc_strdup(c->restored_dir);
  const char *slash = strrchr(c->restored_dir, '/');
  char *parent = slash ? sc_strndup(c->restored_dir, (size_t)(slash - c->restored_dir))
                       : sc_strdup(".");
  char *dir = sc_path_join(parent, directory);
  free(parent);
  return dir;
}

static void load_run(sc_work_t *work) {
  load_work_t *w = (load_work_t *)work;
  sc_task_t *t = w->task;
  sc_attempt_t *a = t->attempt;
  const sc_restore_subtask_t *s = &plan_of(t, 0)->subtasks[t->subtask];
  for (uint32_t i = 0; i < s->n_keyed && w->rc >= 0; i++) {
    char *dir = sc_attempt_restored_dir(a, s->keyed[i].directory);
    w->rc = t->keyed->ops->load(t->keyed, a->config.storage, dir, &s->keyed[i], &w->err);
    free(dir);
  }
  sc_mailbox_post(&t->slot->mailbox, &w->mail);
  sc_attempt_unref(a);
}

void sc_task_start(sc_task_t *t) {
  sc_error_t err = SC_ERROR_INIT;
  t->awaits_final = t->attempt->config.checkpointing;
  t->restored_finished = t->attempt->chain_finished[t->plan - t->attempt->config.graph->chains];
  for (uint32_t i = 0; i < t->chain.n_links; i++)
    fill_context(t, i);
  sc_task_replay_create(t);
  int rc = create_state(t, &err);
  if (rc >= 0)
    rc = create_operators(t, &err);
  if (rc < 0) {
    sc_task_fail(t, &err);
    return;
  }
  const sc_restore_operator_t *plan = plan_of(t, 0);
  if (!t->keyed || !plan || plan->subtasks[t->subtask].n_keyed == 0) {
    open_task(t);
    return;
  }
  load_work_t *w = sc_calloc(1, sizeof *w);
  *w = (load_work_t){.work = {.run = load_run}, .mail = {.run = load_read, .drop = load_dropped},
                     .task = t, .err = SC_ERROR_INIT};
  sc_attempt_ref(t->attempt);
  sc_world_submit(t->attempt->config.world, &w->work);
}

void sc_task_down(sc_task_t *t) {
  t->phase = SC_PHASE_DOWN;
  sc_task_replay_end(t);
  sc_task_leave_files(t);
  for (uint32_t i = 0; i < t->chain.n_links; i++) {
    sc_operator_t *op = t->chain.links[i].op;
    if (op)
      op->ops->destroy(op);
    t->chain.links[i].op = NULL;
  }
  while (t->deferred) {
    sc_deferred_t *d = t->deferred;
    t->deferred = d->next;
    sc_buf_free(&d->split);
    free(d);
  }
}
