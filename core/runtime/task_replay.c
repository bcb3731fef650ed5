/*
 * task_replay: how a task reads again what was in flight at its restore (exchange/replay.h): the
 * pool reads ahead, one read at a time, and brings the blocks by mail. What is unread when a
 * checkpoint starts is kept again: where it lies if the job owns the snapshot that it was restored
 * from, else it has to be copied.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "../base/mem.h"
#include "../snapshot/inflight_file.h"
#include "attempt.h"

typedef struct read_work {
  sc_work_t work;
  sc_mail_t mail;
  sc_task_t *task;
  sc_replay_read_t read;
  sc_buf_t blocks;
  int rc;
  sc_error_t err;
} read_work_t;

static read_work_t *of_mail(sc_mail_t *mail) {
  return (read_work_t *)((char *)mail - offsetof(read_work_t, mail));
}

static void free_read(sc_mail_t *mail) {
  read_work_t *w = of_mail(mail);
  sc_buf_free(&w->blocks);
  sc_error_clear(&w->err);
  free(w);
}

static void has_read(sc_mail_t *mail, void *owner) {
  read_work_t *w = of_mail(mail);
  sc_task_t *t = w->task;
  if (w->rc < 0) {
    sc_error_set_operator(&w->err, t->chain.links[0].label);
    sc_task_fail(t, &w->err);
  } else if (t->replay) {
    sc_replay_feed(t->replay, &w->blocks);
    sc_task_replay_step(t);
  }
  free_read(mail);
}

static void run_read(sc_work_t *work) {
  read_work_t *w = (read_work_t *)work;
  sc_attempt_t *a = w->task->attempt;
  char *dir = sc_attempt_restored_dir(a, w->read.handle->directory);
  int64_t got = sc_inflight_read(a->config.storage, dir, w->read.handle, w->read.at,
                                 SC_REPLAY_READ, &w->blocks, &w->err);
  free(dir);
  w->rc = got < 0 ? (int)got : 0;
  sc_mailbox_post(&w->task->slot->mailbox, &w->mail);
  sc_attempt_unref(a);
}

void sc_task_replay_create(sc_task_t *t) {
  const sc_attempt_config_t *c = &t->attempt->config;
  const sc_graph_t *g = c->graph;
  for (uint32_t i = 0; c->inflight && i < g->n_edges; i++) {
    const sc_edge_t *e = &g->edges[i];
    uint32_t n = 0;
    if (e->to != t->plan->nodes[0] || e->chained)
      continue;
    const sc_virtual_channel_t *list = sc_inflight_plan_of(c->inflight, i, t->subtask, &n);
    if (n && !t->replay)
      t->replay = sc_replay_create();
    for (uint32_t k = 0; k < n; k++)
      sc_replay_add(t->replay, &list[k], i, e->port);
  }
  if (t->replay)
    sc_input_set_replay(t->input, t->replay);
}

void sc_task_replay_end(sc_task_t *t) {
  if (t->replay)
    sc_input_set_replay(t->input, NULL);
  sc_replay_destroy(t->replay);
  t->replay = NULL;
}

void sc_task_replay_step(sc_task_t *t) {
  sc_replay_read_t read;
  if (sc_replay_drained(t->replay)) {
    sc_task_replay_end(t);
  } else if (sc_replay_want(t->replay, &read)) {
    read_work_t *w = sc_calloc(1, sizeof *w);
    *w = (read_work_t){.work = {.run = run_read}, .mail = {.run = has_read, .drop = free_read},
                       .task = t, .read = read, .blocks = SC_BUF_INIT, .err = SC_ERROR_INIT};
    sc_attempt_ref(t->attempt);
    sc_world_submit(t->attempt->config.world, &w->work);
  }
}

uint32_t sc_task_replay_rest(const sc_task_t *t, sc_inflight_rest_t **out) {
  const sc_attempt_config_t *c = &t->attempt->config;
  char *own = sc_format("chk-%" PRIu64, c->restored_id);
  sc_handle_t *list;
  uint32_t n = sc_replay_rest(t->replay, t->subtask, own, &list);
  *out = n ? sc_calloc(n, sizeof **out) : NULL;
  for (uint32_t i = 0; i < n; i++) {
    const char *directory = list[i].directory;
    if (!c->owns_restored) /* its own folder may be called anything */
      (*out)[i].copy_from = sc_attempt_restored_dir(
          t->attempt, strcmp(directory, own) == 0 ? NULL : directory);
    (*out)[i].handle = list[i];
  }
  free(list);
  free(own);
  return n;
}
