/*
 * slot: the actor that runs an attempt's tasks of one thread, and the mail it gets.
 * (Its structure stands in attempt.h.)
 */
#include <stdlib.h>
#include <string.h>

#include "../base/mem.h"
#include "../checkpoint/statistics.h"
#include "attempt.h"

#define FAR_MS 60000 /* the wall clock may be set: a far deadline is looked at every minute */

/* ---- mail from the coordinator ---- */

typedef enum { TRIGGER, COMPLETE, ABORT, SPLIT, NO_MORE, FINISHED, DRAIN, LIST_SPLITS } tell_kind_t;

typedef struct tell {
  sc_mail_t mail;
  tell_kind_t kind;
  sc_task_t *task;
  uint64_t id;
  sc_barrier_t barrier; /* TRIGGER */
  sc_buf_t split;
  uint32_t node;
} tell_t;

static void drop_tell(sc_mail_t *mail) {
  sc_buf_free(&((tell_t *)mail)->split);
  free(mail);
}

static void give_split(sc_task_t *t, bool no_more, sc_bytes_t split) {
  sc_operator_t *op = t->chain.links[0].op;
  if (!op)
    return;
  t->asked_split = SC_ASKED_NOTHING;
  t->wake_at_ms = 0;
  if (no_more) {
    op->ops->no_more_splits(op);
    return;
  }
  sc_error_t err = SC_ERROR_INIT;
  if (op->ops->add_split(op, split, &err) < 0) {
    sc_error_set_operator(&err, t->chain.links[0].label);
    sc_task_fail(t, &err);
  }
  sc_error_clear(&err);
}

/* What stands behind a trigger is looked at only after that checkpoint's start (DESIGN, "Mail"): a
 * split, since the enumerator's part no longer holds it, and the next trigger, since a split before
 * it belongs to this reader's part. */
static bool must_wait(const sc_task_t *t) {
  return t->trigger.id || t->deferred; /* its turn has not come, or that of what came before */
}

static sc_deferred_t *defer(sc_task_t *t) {
  sc_deferred_t *d = sc_calloc(1, sizeof *d);
  *t->deferred_tail = d;
  t->deferred_tail = &d->next;
  return d;
}

static void drop_deferred(sc_task_t *t, sc_deferred_t **at) {
  sc_deferred_t *d = *at;
  *at = d->next;
  if (!*at)
    t->deferred_tail = at;
  sc_buf_free(&d->split);
  free(d);
}

static void split_arrived(sc_task_t *t, bool no_more, sc_buf_t *split) {
  if (!must_wait(t)) {
    give_split(t, no_more, sc_buf_bytes(split));
    return;
  }
  sc_deferred_t *d = defer(t);
  d->no_more = no_more;
  d->split = *split;
  *split = (sc_buf_t)SC_BUF_INIT;
}

static void trigger_arrived(sc_task_t *t, const sc_barrier_t *b) {
  atomic_store_explicit(&t->slot->alarm, true, memory_order_relaxed); /* its own thread */
  if (t->n_channels)
    sc_input_trigger(t->input, b);
  else if (!must_wait(t))
    t->trigger = *b;
  else
    defer(t)->trigger = *b;
}

static void give_deferred(sc_task_t *t) {
  while (t->deferred && t->trigger.id == 0) {
    sc_deferred_t *d = t->deferred;
    if (d->trigger.id)
      t->trigger = d->trigger;
    else
      give_split(t, d->no_more, sc_buf_bytes(&d->split));
    drop_deferred(t, &t->deferred);
  }
}

/* An aborted checkpoint holds back nothing more, whether its turn has come or not. */
static void forget_trigger(sc_task_t *t, uint64_t id) {
  for (sc_deferred_t **at = &t->deferred; *at; at = &(*at)->next)
    if ((*at)->trigger.id == id) {
      drop_deferred(t, at);
      break;
    }
  give_deferred(t);
}

static void completed(sc_task_t *t, uint64_t id) {
  if (t->first_ended_snapshot && id >= t->first_ended_snapshot)
    t->final_complete = true;
  if (t->stopped_at && id >= t->stopped_at)
    t->suspended = true;
  for (uint32_t i = t->chain.n_links; i > 0; i--) {
    sc_operator_t *op = t->chain.links[i - 1].op;
    sc_error_t err = SC_ERROR_INIT;
    if (op && op->ops->complete && op->ops->complete(op, id, &err) < 0) {
      sc_error_set_operator(&err, t->chain.links[i - 1].label);
      sc_task_fail(t, &err);
    }
    sc_error_clear(&err);
  }
}

static void leave(sc_task_t *t) {
  sc_task_drop_open(t);
  sc_task_leave_files(t);
  sc_input_receiver_gone(t->input);
  for (uint32_t i = 0; i < t->chain.n_outputs; i++)
    sc_output_close(t->chain.outputs[i]);
  t->phase = SC_PHASE_FINISHED;
}

static void list_splits(sc_slot_t *s, uint32_t node) {
  const sc_node_t *n = &s->attempt->config.graph->nodes[node];
  sc_report_t *r = sc_report_new(s->attempt, SC_REPORT_SPLITS, node);
  atomic_store(&s->running, n->name);
  int rc = n->type->list_splits(n->data, sc_buf_bytes(&n->options), n->parallelism, s->host,
                                &r->bytes, &r->error);
  if (rc < 0) {
    r->kind = SC_REPORT_FAILED;
    r->task = UINT32_MAX;
    sc_error_set_operator(&r->error, n->name);
  }
  atomic_store(&s->running, NULL);
  sc_report_post(s->attempt, r);
}

static void run_tell(sc_mail_t *mail, void *owner) {
  tell_t *m = (tell_t *)mail;
  sc_task_t *t = m->task;
  bool alive = t && (t->phase == SC_PHASE_RUNNING || t->phase == SC_PHASE_ENDING ||
                     t->phase == SC_PHASE_ENDED);
  switch (m->kind) {
    case LIST_SPLITS:
      list_splits(owner, m->node);
      break;
    case TRIGGER:
      if (alive)
        trigger_arrived(t, &m->barrier);
      break;
    case COMPLETE:
      if (alive)
        completed(t, m->id);
      break;
    case ABORT:
      if (alive)
        sc_task_aborted(t, m->id);
      forget_trigger(t, m->id);
      break;
    case SPLIT:
    case NO_MORE:
      split_arrived(t, m->kind == NO_MORE, &m->split);
      break;
    case FINISHED:
      if (alive)
        leave(t);
      break;
    case DRAIN:
      t->draining = true;
      break;
  }
  drop_tell(mail);
}

static void tell(sc_attempt_t *a, const tell_t *what) {
  tell_t *m = sc_malloc(sizeof *m);
  *m = *what;
  m->mail = (sc_mail_t){.run = run_tell, .drop = drop_tell};
  sc_slot_t *slot = what->task ? what->task->slot : &a->slots[0];
  sc_mailbox_post(&slot->mailbox, &m->mail);
}

void sc_attempt_trigger(sc_attempt_t *a, uint32_t task, const sc_barrier_t *b) {
  if (b->overtake_at_ms)
    sc_input_word(a->tasks[task].input, b->id);
  tell(a, &(tell_t){.kind = TRIGGER, .task = &a->tasks[task], .barrier = *b});
}

void sc_attempt_complete(sc_attempt_t *a, uint32_t task, uint64_t id) {
  tell(a, &(tell_t){.kind = COMPLETE, .task = &a->tasks[task], .id = id});
}

void sc_attempt_abort(sc_attempt_t *a, uint32_t task, uint64_t id) {
  tell(a, &(tell_t){.kind = ABORT, .task = &a->tasks[task], .id = id});
}

void sc_attempt_split(sc_attempt_t *a, uint32_t task, const sc_bytes_t *split) {
  tell_t m = {.kind = split ? SPLIT : NO_MORE, .task = &a->tasks[task]};
  if (split)
    sc_buf_put_bytes(&m.split, *split);
  tell(a, &m);
}

void sc_attempt_finished(sc_attempt_t *a, uint32_t task) {
  tell(a, &(tell_t){.kind = FINISHED, .task = &a->tasks[task]});
}

void sc_attempt_drain(sc_attempt_t *a, uint32_t task) {
  atomic_store(&a->drained, true); /* before the mail, which every end of input follows */
  tell(a, &(tell_t){.kind = DRAIN, .task = &a->tasks[task]});
}

typedef struct list_work { sc_work_t work; sc_attempt_t *attempt; uint32_t node; } list_work_t;

static void run_list(sc_work_t *work) {
  list_work_t *w = (list_work_t *)work;
  sc_slot_t nowhere = {.attempt = w->attempt};
  list_splits(&nowhere, w->node);
  sc_attempt_unref(w->attempt);
  free(w);
}

void sc_attempt_list_splits(sc_attempt_t *a, uint32_t node) {
  if (!a->config.graph->nodes[node].type->in_pool) {
    tell(a, &(tell_t){.kind = LIST_SPLITS, .node = node});
    return;
  }
  list_work_t *w = sc_calloc(1, sizeof *w);
  *w = (list_work_t){.work = {.run = run_list}, .attempt = a, .node = node};
  sc_attempt_ref(a);
  sc_world_submit(a->config.world, &w->work);
}

/* ---- the actor ---- */

const sc_task_t *sc__slot_runs(const sc_slot_t *s, const char *running) {
  for (uint32_t i = 0; running && i < s->n_tasks; i++)
    if (s->tasks[i]->name == running || s->tasks[i]->chain.links[0].node->name == running)
      return s->tasks[i];
  return NULL;
}

/* The host was looked at while it ran a task. */
void sc__slot_seen(void *slot, const char *place, bool returned) {
  sc_slot_t *s = slot;
  const sc_task_t *t = sc__slot_runs(s, atomic_load(&s->running));
  if (!t)
    return;
  sc_report_t *r = sc_report_new(s->attempt, SC_REPORT_SEEN, t->index);
  r->id = (returned ? SC_SEEN_RETURNED : 0) | (t->in_snapshot ? SC_SEEN_IN_SNAPSHOT : 0);
  sc_buf_put(&r->bytes, place, strlen(place) + 1);
  sc_report_post(s->attempt, r);
}

static void slot_start(void *arg) {
  sc_slot_t *s = arg;
  const sc_host_ops_t *host = &s->attempt->config.host;
  sc_error_t err = SC_ERROR_INIT;
  if (host->create && host->create(host->arg, &s->watch, &s->host, &err) < 0) {
    sc_report_t *r = sc_report_new(s->attempt, SC_REPORT_FAILED,
                                   s->n_tasks ? s->tasks[0]->index : UINT32_MAX);
    sc_error_move(&r->error, &err);
    sc_report_post(s->attempt, r);
    s->host_failed = true;
  }
}

static void start_tasks(sc_slot_t *s) {
  s->started = true;
  for (uint32_t i = 0; i < s->n_tasks; i++) {
    atomic_store(&s->running, s->tasks[i]->name);
    sc_task_start(s->tasks[i]);
  }
  atomic_store(&s->running, NULL);
}

static void take_down(sc_slot_t *s) {
  for (uint32_t i = 0; i < s->n_tasks; i++) {
    atomic_store(&s->running, s->tasks[i]->name);
    sc_task_down(s->tasks[i]);
  }
  if (s->host && s->attempt->config.host.destroy)
    s->attempt->config.host.destroy(s->host);
  s->host = NULL;
  sc_mailbox_close(&s->mailbox); /* last: what is dropped from here on finds no operator in use */
  atomic_store(&s->down, true);
  sc_report_post(s->attempt, sc_report_new(s->attempt, SC_REPORT_SLOT_GONE, s->index));
  sc_attempt_unref(s->attempt);
}

/* Between two turns, as the task's other periodic work. */
static void debloat(sc_task_t *t, int64_t now_ns) {
  sc_flow_shown_t f;
  if (!sc_debloater_due(t->debloater, now_ns))
    return;
  sc_flow_read(t->flow, now_ns, NULL, &f);
  int64_t active_ns = f.total_ns[SC_FLOW_BUSY] + f.total_ns[SC_FLOW_READY] +
                      f.total_ns[SC_FLOW_BACK_PRESSURED];
  sc_input_debloat(t->input, t->debloater, now_ns, active_ns);
}

/* What a task's turn was, for its metrics. No clock is looked at for that: a turn ends where the
 * next one begins, or where the slot looks. */
static void end_turn(sc_slot_t *s, int64_t now_ns) {
  sc_task_t *t = s->turn;
  s->turn = NULL;
  if (!t)
    return;
  if (t->is_source && s->turn_moved)
    sc_task_show_pending(t);
  bool mark = sc_flow_end(t->flow, now_ns, s->turn_moved, t->waits);
  if (t->debloater)
    debloat(t, now_ns);
  if (!mark)
    return;
  uint64_t *counters = sc_calloc(sc_task_n_counters(t), sizeof *counters);
  sc_task_counters(t, counters);
  sc_flow_mark(t->flow, counters);
  free(counters);
}

void sc_slot_turn(sc_slot_t *s, sc_task_t *t, int64_t now_ns) {
  if (s->turn == t)
    return;
  end_turn(s, now_ns);
  s->turn = t;
  s->turn_moved = false;
  if (t)
    sc_flow_begin(t->flow, now_ns);
}

/* Mail, and barriers that stand at the head of a queue, before any record: in the order of the
 * graph, so that a barrier passes all tasks of the slot in one round. */
static bool serve_tasks(sc_slot_t *s) {
  bool moved = false;
  sc_mailbox_run(&s->mailbox, s);
  if (!atomic_load_explicit(&s->alarm, memory_order_relaxed))
    return false;
  /* Lowered before the look: what comes meanwhile raises it again. */
  for (uint32_t round = 0; round <= s->n_tasks && atomic_exchange(&s->alarm, false); round++)
    for (uint32_t i = 0; i < s->n_tasks; i++) {
      atomic_store_explicit(&s->running, s->tasks[i]->name, memory_order_relaxed);
      moved |= sc_task_serve(s->tasks[i]);
    }
  return moved;
}

static bool step_tasks(sc_slot_t *s) {
  bool moved = false;
  s->timed = false;
  for (uint32_t i = 0; i < s->n_tasks && !s->timed; i++)
    s->timed = sc_task_overtake_at_ms(s->tasks[i]) != INT64_MAX;
  for (uint32_t i = 0; i < s->n_tasks; i++) {
    moved |= serve_tasks(s);
    sc_task_t *t = s->tasks[i];
    if (t->phase != SC_PHASE_LOADING)
      give_deferred(t);
    /* Relaxed: looked at only when nothing has moved for two seconds. */
    atomic_store_explicit(&s->running, t->name, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->turns, 1, memory_order_relaxed);
    moved |= sc_task_step(t);
  }
  atomic_store_explicit(&s->running, NULL, memory_order_relaxed);
  return moved;
}

/* ---- the event loop of the job's functions ---- */

static bool has_loop(sc_slot_t *s) {
  const sc_host_ops_t *host = &s->attempt->config.host;
  return s->host && s->started && host->has_loop && host->has_loop(s->host);
}

/* What is due in it runs between two rounds of the tasks. An error that belongs to none of them (a
 * module's callback raised it) is the first one's: something must fail. */
static bool turn_loop(sc_slot_t *s) {
  if (!has_loop(s))
    return false;
  sc_error_t err = SC_ERROR_INIT;
  int rc = s->attempt->config.host.turn(s->host, &err);
  if (rc < 0 && s->n_tasks)
    sc_task_fail(s->tasks[0], &err);
  sc_error_clear(&err);
  return rc != 0;
}

static bool slot_waits(void *arg) {
  return has_loop(arg);
}

/* Once more before it sleeps: the round of the tasks may have begun something in the loop, and only
 * a turn makes that known to the system. */
static void slot_wait(void *arg, int fd, int64_t deadline_ns) {
  sc_slot_t *s = arg;
  if (turn_loop(s))
    return;
  int64_t left_ns = -1;
  if (deadline_ns != SC_STEP_ON_WAKE) {
    left_ns = deadline_ns - sc_world_mono_ns(s->attempt->config.world);
    if (left_ns <= 0)
      return;
  }
  s->attempt->config.host.wait(s->host, fd, left_ns);
}

static bool idle_tasks(sc_slot_t *s) {
  bool began = false;
  for (uint32_t i = 0; i < s->n_tasks; i++)
    began |= sc_task_idle(s->tasks[i]);
  return began;
}

static void flush(sc_slot_t *s) {
  for (uint32_t i = 0; i < s->n_tasks; i++)
    for (uint32_t o = 0; o < s->tasks[i]->chain.n_outputs; o++)
      sc_output_flush(s->tasks[i]->chain.outputs[o]);
}

/* When to look again though nobody wakes us, as a monotonic time. */
static int64_t next_deadline(sc_slot_t *s, int64_t now_ns) {
  int64_t at_ms = INT64_MAX, overtake_ms = INT64_MAX;
  for (uint32_t i = 0; i < s->n_tasks; i++) {
    int64_t d = sc_task_deadline_ms(s->tasks[i]), o = sc_task_overtake_at_ms(s->tasks[i]);
    at_ms = d < at_ms ? d : at_ms;
    overtake_ms = o < overtake_ms ? o : overtake_ms;
  }
  int64_t mono_ns = overtake_ms == INT64_MAX ? SC_STEP_ON_WAKE : overtake_ms * 1000000;
  if (at_ms == INT64_MAX)
    return mono_ns;
  int64_t wall_ms = sc_world_now_ms(s->attempt->config.world);
  if (at_ms <= wall_ms)
    return SC_STEP_AGAIN;
  int64_t in_ms = at_ms - wall_ms;
  int64_t deadline_ns = now_ns + (in_ms > FAR_MS ? FAR_MS : in_ms) * 1000000;
  return deadline_ns < mono_ns ? deadline_ns : mono_ns;
}

static int64_t slot_step(void *arg) {
  sc_slot_t *s = arg;
  if (atomic_load(&s->down))
    return SC_STEP_ON_WAKE;
  if (atomic_load(&s->attempt->canceled)) {
    take_down(s);
    return SC_STEP_ON_WAKE;
  }
  if (s->host_failed || !atomic_load(&s->attempt->deployed))
    return SC_STEP_ON_WAKE;
  if (!s->started)
    start_tasks(s);
  sc_mailbox_run(&s->mailbox, s);
  bool moved = turn_loop(s);
  moved |= step_tasks(s);
  int64_t now_ns = sc_world_mono_ns(s->attempt->config.world);
  sc_slot_turn(s, NULL, now_ns);
  if (moved) {
    s->flushed = false;
    if (now_ns - s->last_flush_ns > s->attempt->config.buffer_timeout_ms * 1000000) {
      flush(s);
      s->last_flush_ns = now_ns;
    }
    return SC_STEP_AGAIN;
  }
  if (!s->flushed) { /* before it sleeps it hands on what is half filled, and looks once more */
    s->flushed = !idle_tasks(s);
    flush(s);
    s->last_flush_ns = now_ns;
    return SC_STEP_AGAIN;
  }
  s->flushed = false;
  return next_deadline(s, now_ns);
}

const sc_actor_ops_t sc_slot_actor_ops = {
    .start = slot_start, .step = slot_step, .waits = slot_waits, .wait = slot_wait};
