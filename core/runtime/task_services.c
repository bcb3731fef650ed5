/* task_services: what the runtime gives its operators (sc_op_services_t in operator.h). */
#include <stdlib.h>
#include <string.h>

#include "../base/mem.h"
#include "attempt.h"

static bool service_chained(const sc_op_context_t *c, uint16_t output) {
  return sc_chain_chained(c->runtime, output);
}

static int service_write(sc_op_context_t *c, const sc_item_t *item, sc_error_t *err) {
  return sc_chain_write(c->runtime, item, err);
}

static sc_task_t *task_of(const sc_op_context_t *c) {
  return ((const sc_link_t *)c->runtime)->chain->task;
}

static void service_ask_split(sc_op_context_t *c) {
  sc_task_t *t = task_of(c);
  sc_operator_t *op = t->chain.links[0].op;
  bool more = op->ops->holds_splits && op->ops->holds_splits(op);
  int ask = more ? SC_ASKED_MORE : SC_ASKED_SPLIT;
  if ((int)t->asked_split >= ask) /* what it asked for before covers it */
    return;
  t->asked_split = ask;
  sc_report_t *r = sc_report_new(t->attempt, SC_REPORT_ASK_SPLIT, t->index);
  r->id = more;
  sc_report_post(t->attempt, r);
}

typedef struct op_work {
  sc_work_t work;
  sc_mail_t mail;
  sc_attempt_t *attempt;
  sc_task_t *task;
  int (*run)(void *arg, sc_error_t *err);
  void (*done)(void *arg, int rc, sc_error_t *err);
  void (*dropped)(void *arg);
  void *arg;
  int rc;
  sc_error_t err;
} op_work_t;

static op_work_t *of_mail(sc_mail_t *mail) {
  return (op_work_t *)((char *)mail - offsetof(op_work_t, mail));
}

static void op_work_read(sc_mail_t *mail, void *owner) {
  op_work_t *w = of_mail(mail);
  w->done(w->arg, w->rc, &w->err);
  sc_error_clear(&w->err);
  free(w);
}

static void op_work_dropped(sc_mail_t *mail) {
  op_work_t *w = of_mail(mail);
  if (w->dropped)
    w->dropped(w->arg);
  sc_error_clear(&w->err);
  free(w);
}

static void op_work_run(sc_work_t *work) {
  op_work_t *w = (op_work_t *)work;
  sc_attempt_t *a = w->attempt;
  w->rc = w->run(w->arg, &w->err);
  sc_mailbox_post(&w->task->slot->mailbox, &w->mail);
  sc_attempt_unref(a);
}

static void service_submit(sc_op_context_t *c, int (*run)(void *, sc_error_t *),
                           void (*done)(void *, int, sc_error_t *), void (*dropped)(void *),
                           void *arg) {
  sc_task_t *t = task_of(c);
  op_work_t *w = sc_calloc(1, sizeof *w);
  *w = (op_work_t){.work = {.run = op_work_run},
                   .mail = {.run = op_work_read, .drop = op_work_dropped},
                   .attempt = t->attempt,
                   .task = t,
                   .run = run,
                   .done = done,
                   .dropped = dropped,
                   .arg = arg,
                   .err = SC_ERROR_INIT};
  sc_attempt_ref(t->attempt);
  sc_world_submit(t->attempt->config.world, &w->work);
}

static void service_fail(sc_op_context_t *c, sc_error_t *err) {
  sc_error_set_operator(err, c->label);
  sc_task_fail(task_of(c), err);
}

static void service_wake(sc_op_context_t *c) {
  sc_task_t *t = task_of(c);
  atomic_store(&t->poked, true); /* before the wake, so that the step it brings finds it */
  sc_world_wake(c->world, &t->slot->actor);
}

static void service_deliver(sc_op_context_t *c, uint64_t id, sc_bytes_t rows) {
  sc_task_t *t = task_of(c);
  sc_report_t *r = sc_report_new(t->attempt, SC_REPORT_ROWS, t->index);
  r->id = id;
  r->uid = ((const sc_link_t *)c->runtime)->node->uid;
  sc_buf_put_bytes(&r->bytes, rows);
  sc_report_post(t->attempt, r);
}

static void service_count(sc_op_context_t *c, const char *metric, int64_t by) {
  sc_attempt_t *a = task_of(c)->attempt;
  pthread_mutex_lock(&a->counters_lock);
  sc_named_counter_t *n = a->counters;
  while (n && (n->link != c->runtime || strcmp(n->name, metric) != 0))
    n = n->next;
  if (!n) {
    n = sc_calloc(1, sizeof *n);
    *n = (sc_named_counter_t){.link = c->runtime, .name = sc_strdup(metric), .next = a->counters};
    a->counters = n;
  }
  n->value += by;
  pthread_mutex_unlock(&a->counters_lock);
}

const sc_op_services_t sc_task_services = {
    .chained = service_chained, .write = service_write, .ask_split = service_ask_split,
    .submit = service_submit, .fail = service_fail, .wake = service_wake,
    .deliver = service_deliver, .count = service_count,
};
