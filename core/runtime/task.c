/*
 * task: one subtask of a chain, cooperatively. (Its structure stands in attempt.h.)
 *
 *   LOADING --state read, operators open--> RUNNING --end of input--> ENDING (last watermark,
 *     finish)
 *     --all handed on--> ENDED (waits for its final checkpoint, queues empty, commits done)
 *     --asked and answered--> FINISHED;   any --error or cancel--> DOWN
 *
 * A task restored as finished goes from LOADING to ENDED: it opens (sinks commit what the
 * checkpoint promised), hands on the last watermark and END, and leaves.
 */
#include <stdlib.h>
#include <string.h>

#include "../base/mem.h"
#include "attempt.h"

#define TASK_BUDGET_NS 1000000   /* 1 ms a turn, looked at between records */
#define STRIDE_MAX 64            /* records between two looks at the clock */
#define STRIDE_NS 20000          /* what they may take together */
#define STEPS_AT_ONCE 256        /* of the chain, between two looks at the clock */
#define FOLD_ENTRIES 256         /* of a heap overlay, each turn */

static int64_t now_ns(const sc_task_t *t) { return sc_world_mono_ns(t->attempt->config.world); }
static int64_t now_ms(const sc_task_t *t) { return sc_world_now_ms(t->attempt->config.world); }

static void report(sc_task_t *t, sc_report_kind_t kind) {
  sc_report_post(t->attempt, sc_report_new(t->attempt, kind, t->index));
}

void sc_task_fail(sc_task_t *t, sc_error_t *err) {
  if (t->phase == SC_PHASE_DOWN)
    return;
  t->phase = SC_PHASE_DOWN;
  sc_report_t *r = sc_report_new(t->attempt, SC_REPORT_FAILED, t->index);
  sc_error_move(&r->error, err);
  sc_report_post(t->attempt, r);
}

/* ---- services for operators ---- */

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

/* ---- start ---- */

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

static void end_outputs(sc_task_t *t) {
  for (uint32_t i = 0; i < t->chain.n_outputs; i++)
    sc_output_end(t->chain.outputs[i]);
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
    end_outputs(t);
    t->final_complete = t->attempt->config.all_finished;
    t->phase = SC_PHASE_ENDED;
  } else {
    sc_chain_resume_watermarks(&t->chain);
  }
  t->wake_at_ms = 0;
  report(t, SC_REPORT_READY);
  if (t->restored_finished)
    report(t, SC_REPORT_END_OF_DATA);
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
static char *restored_dir_of(const sc_attempt_config_t *c, const char *directory) {
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
    char *dir = restored_dir_of(&a->config, s->keyed[i].directory);
    w->rc = t->keyed->ops->load(t->keyed, a->config.world->storage, dir, &s->keyed[i], &w->err);
    free(dir);
  }
  sc_mailbox_post(&t->slot->mailbox, &w->mail);
  sc_attempt_unref(a);
}

void sc_task_start(sc_task_t *t) {
  sc_error_t err = SC_ERROR_INIT;
  t->restored_finished = t->attempt->chain_finished[t->plan - t->attempt->config.graph->chains];
  for (uint32_t i = 0; i < t->chain.n_links; i++)
    fill_context(t, i);
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

/* ---- running ---- */

static bool mid_record(const sc_task_t *t) {
  const sc_operator_t *op = t->chain.links[0].op;
  return op->ops->mid_record && op->ops->mid_record((sc_operator_t *)op);
}

static void begin_end(sc_task_t *t) {
  t->phase = SC_PHASE_ENDING;
  sc_chain_finish(&t->chain);
}

static void ended(sc_task_t *t) {
  end_outputs(t);
  t->phase = SC_PHASE_ENDED;
  report(t, SC_REPORT_END_OF_DATA);
}

static int take_record(sc_task_t *t, const sc_input_event_t *e) {
  const sc_record_t *r = &e->record;
  sc_item_t item = {.has_timestamp = (r->flags & SC_RECORD_HAS_TIMESTAMP) != 0,
                    .has_key = (r->flags & SC_RECORD_HAS_KEY) != 0,
                    .timestamp = r->timestamp,
                    .key_group = r->key_group,
                    .key = r->key,
                    .bytes = r->value};
  return sc_chain_record(&t->chain, e->port, &item, &t->error);
}

/* Most of what a record with state costs is waiting for memory: tell the window what comes next. */
static void expect_keys(sc_task_t *t) {
  uint16_t group;
  sc_bytes_t key;
  while (sc_input_ahead(t->input, &group, &key))
    t->keyed->ops->expect(t->keyed, group, key);
}

static void superseded(sc_task_t *t, const sc_input_event_t *e) {
  sc_report_t *r = sc_report_new(t->attempt, SC_REPORT_SUPERSEDED, t->index);
  r->id = e->aborted;
  r->other = e->superseded_by;
  sc_report_post(t->attempt, r);
  sc_task_aborted(t, e->aborted);
}

/* One event from the input: 1 if there was one, 0 if not. */
static int read_input(sc_task_t *t) {
  sc_input_event_t e;
  int rc = sc_input_next(t->input, &e, &t->error);
  if (rc < 0)
    return rc;
  if (e.first_barrier && !t->first_barrier_ns) {
    t->first_barrier_ns = now_ns(t);
    t->first_barrier_ms = now_ms(t);
  }
  switch (e.kind) {
    case SC_INPUT_NONE: return 0;
    case SC_INPUT_RECORD:
      if (t->keyed)
        expect_keys(t);
      rc = take_record(t, &e);
      return rc < 0 ? rc : 1;
    case SC_INPUT_WATERMARK: sc_chain_watermark(&t->chain, e.watermark); return 1;
    case SC_INPUT_STATUS: sc_chain_status(&t->chain, e.idle); return 1;
    case SC_INPUT_SNAPSHOT: sc_task_snapshot(t, &e.barrier, e.alignment_bytes); return 1;
    case SC_INPUT_ABORTED:
      if (e.superseded_by) /* else it came by mail: the coordinator knows, sc_task_aborted was */
        superseded(t, &e);
      return 1;
    case SC_INPUT_END:
      if (t->phase == SC_PHASE_RUNNING) /* one restored as finished has handed it on already */
        begin_end(t);
      return 1;
    case SC_INPUT_CLOSED: return 1;
  }
  return 0;
}

/* One poll of a source: 1 if something came of it. */
static int read_source(sc_task_t *t) {
  sc_link_t *head = &t->chain.links[0];
  if (t->wake_at_ms && t->wake_at_ms > now_ms(t) && !atomic_exchange(&t->poked, false))
    return 0;
  head->context.wake_at_ms = INT64_MAX;
  int rc = sc_chain_poll(&t->chain, &t->error);
  t->wake_at_ms = 0;
  if (rc == SC_IDLE)
    t->wake_at_ms = head->context.wake_at_ms;
  if (rc == SC_ENDED)
    begin_end(t);
  return rc < 0 ? rc : rc == SC_EMIT || rc == SC_DONE || rc == SC_ENDED;
}

static bool may_leave(sc_task_t *t) {
  if (t->asked_finish || t->works || t->waiting ||
      (t->attempt->config.checkpointing && !t->final_complete))
    return false;
  for (uint32_t i = 0; i < t->chain.n_outputs; i++)
    if (!sc_output_drained(t->chain.outputs[i]))
      return false;
  for (uint32_t i = 0; i < t->chain.n_links; i++) {
    sc_operator_t *op = t->chain.links[i].op;
    if (op->ops->busy && op->ops->busy(op))
      return false;
  }
  return true;
}

/* One thing: 1 something moved, 0 nothing to do now, negative on error. */
static int step_once(sc_task_t *t) {
  if (!sc_chain_idle(&t->chain)) {
    int rc = sc_chain_run(&t->chain, STEPS_AT_ONCE, &t->error);
    return rc < 0 ? rc : rc != SC_CHAIN_BLOCKED;
  }
  /* Before a snapshot: what its operators did at their end belongs to a task that has ended. */
  if (t->phase == SC_PHASE_ENDING) {
    ended(t);
    return 1;
  }
  if (t->trigger.id && !mid_record(t)) {
    sc_barrier_t b = t->trigger;
    t->trigger.id = 0;
    sc_task_snapshot(t, &b, 0);
    return 1;
  }
  if (t->look_at_timers) {
    t->look_at_timers = false;
    if (t->phase == SC_PHASE_RUNNING && t->timers)
      sc_chain_timers(&t->chain, now_ms(t));
    if (!sc_chain_idle(&t->chain))
      return 1;
  }
  if (!sc_chain_has_room(&t->chain) && t->phase == SC_PHASE_RUNNING)
    return 0;
  if (t->is_source)
    return t->phase == SC_PHASE_RUNNING ? read_source(t) : 0;
  return read_input(t);
}

static bool fold(sc_task_t *t) {
  if (!t->keyed)
    return false;
  bool more = t->keyed->ops->step(t->keyed, FOLD_ENTRIES);
  sc_task_submit_ready(t);
  return more;
}

/* Looks at the clock often enough for slow records and seldom enough for fast ones. */
static void adapt_stride(sc_task_t *t, int64_t elapsed_ns) {
  int64_t each = elapsed_ns / t->stride;
  int64_t stride = each > 0 ? STRIDE_NS / each : STRIDE_MAX;
  t->stride = (uint32_t)(stride < 1 ? 1 : stride > STRIDE_MAX ? STRIDE_MAX : stride);
}

bool sc_task_step(sc_task_t *t) {
  if (t->phase != SC_PHASE_RUNNING && t->phase != SC_PHASE_ENDING && t->phase != SC_PHASE_ENDED)
    return false;
  bool moved = fold(t);
  int64_t begin = now_ns(t), last = begin;
  uint32_t n = 0;
  t->chain.pushed = true; /* the slot may have flushed since the last turn */
  t->look_at_timers = true;
  for (;;) {
    int rc = step_once(t);
    if (rc < 0 && t->phase != SC_PHASE_DOWN)
      sc_task_fail(t, &t->error);
    if (rc <= 0 || t->phase == SC_PHASE_DOWN)
      break;
    moved = true;
    if (++n < t->stride)
      continue;
    n = 0;
    t->look_at_timers = true;
    int64_t now = now_ns(t);
    adapt_stride(t, now - last);
    last = now;
    if (now - begin > TASK_BUDGET_NS || sc_mailbox_any(&t->slot->mailbox))
      break;
  }
  if (t->phase == SC_PHASE_ENDED && may_leave(t)) {
    t->asked_finish = true;
    report(t, SC_REPORT_FINISH);
  }
  return moved;
}

bool sc_task_idle(sc_task_t *t) {
  if (t->phase != SC_PHASE_RUNNING || !sc_chain_idle(&t->chain) || mid_record(t))
    return false;
  int rc = sc_chain_begin_idle(&t->chain, &t->error);
  if (rc < 0)
    sc_task_fail(t, &t->error);
  return rc > 0;
}

int64_t sc_task_deadline_ms(sc_task_t *t) {
  /* Where it cannot go on before an exchange has room, that wakes it, not the clock. */
  if (t->phase != SC_PHASE_RUNNING || !sc_chain_idle(&t->chain) || !sc_chain_has_room(&t->chain))
    return INT64_MAX;
  int64_t timer = t->timers ? sc_chain_next_timer(&t->chain) : INT64_MAX;
  /* 0 means "poll at once": it does so in its next step, and sleeps here only when it could not. */
  int64_t poll = t->is_source && t->wake_at_ms > 0 ? t->wake_at_ms : INT64_MAX;
  return timer < poll ? timer : poll;
}
