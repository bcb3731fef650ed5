/*
 * task: one subtask of a chain, cooperatively. (Its structure stands in attempt.h.)
 *
 *   LOADING --state read, operators open--> RUNNING --end of input--> ENDING (last watermark,
 *     finish)
 *     --all handed on--> ENDED (waits for its final checkpoint, queues empty, commits done)
 *     --asked and answered--> FINISHED;   any --error or cancel--> DOWN
 *
 * A task that has taken the snapshot with which its job is suspended stands still: it reads and
 * fires nothing until it hears that the checkpoint is complete (then it leaves, when its commits
 * are done) or aborted (then it goes on).
 *
 * A task restored as finished goes from LOADING to ENDED: it opens (sinks commit what the
 * checkpoint promised), hands on the last watermark and END, and leaves.
 */
#include <stdlib.h>
#include <string.h>

#include "../base/hash.h"
#include "../base/mem.h"
#include "../base/planted.h"
#include "attempt.h"

#define TASK_BUDGET_NS 1000000   /* 1 ms a turn, looked at between records */
#define STRIDE_MAX 16            /* records between two looks at the clock */
#define STRIDE_NS 5000           /* what they may take together */
#define STEPS_AT_ONCE 256        /* of the chain, between two looks at the clock */
#define FOLD_ENTRIES 1024        /* of a heap overlay, each turn: a busy one may write as many */
/* What one record may push beyond the room of its exchanges while a checkpoint that may overtake
 * waits for its end: it never waits for room then (DESIGN section 4), so that the checkpoint gets
 * there. A bound all the same: a function that emits without end shall not fill the memory. */
#define HASTY_OVERDRAFT 1024

static int64_t now_ns(const sc_task_t *t) { return sc_world_mono_ns(t->attempt->config.world); }
static int64_t now_ms(const sc_task_t *t) { return sc_world_now_ms(t->attempt->config.world); }

void sc_task_report(sc_task_t *t, sc_report_kind_t kind) {
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

void sc_task_end_outputs(sc_task_t *t) {
  for (uint32_t i = 0; i < t->chain.n_outputs; i++)
    sc_output_end(t->chain.outputs[i]);
}

/* ---- running ---- */

static bool mid_record(const sc_task_t *t) {
  const sc_operator_t *op = t->chain.links[0].op;
  return op->ops->mid_record && op->ops->mid_record((sc_operator_t *)op);
}

/* In a job without checkpoints the end of the input is what commits, and nobody waits; but
 * where the user has ended it, the final checkpoint is. */
static void begin_end(sc_task_t *t) {
  t->awaits_final = t->attempt->config.checkpointing || atomic_load(&t->attempt->drained);
  for (uint32_t i = 0; i < t->chain.n_links; i++)
    t->chain.links[i].context.checkpointing = t->awaits_final;
  t->phase = SC_PHASE_ENDING;
  sc_chain_finish(&t->chain);
}

static void ended(sc_task_t *t) {
  sc_task_end_outputs(t);
  t->phase = SC_PHASE_ENDED;
  sc_task_report(t, SC_REPORT_END_OF_DATA);
}

/* The chain begins the record and, unless an exchange is full, is done with it. */
static inline int take_record(sc_task_t *t, uint32_t port, const sc_record_t *r) {
  sc_item_t item = {.has_timestamp = (r->flags & SC_RECORD_HAS_TIMESTAMP) != 0,
                    .has_key = (r->flags & SC_RECORD_HAS_KEY) != 0,
                    .timestamp = r->timestamp,
                    .key_group = r->key_group,
                    .key_hash = r->key_hash,
                    .key = r->key,
                    .bytes = r->value};
  int rc = sc_chain_record(&t->chain, port, &item, &t->error);
  if (rc >= 0 && !sc_chain_idle(&t->chain))
    rc = sc_chain_run(&t->chain, STEPS_AT_ONCE, &t->error);
  return rc;
}

/* Most of what a record with state costs is waiting for memory: tell the window what comes next. */
static void look_ahead(sc_task_t *t) {
  sc_record_t *r;
  for (uint32_t n; (n = sc_input_ahead(t->input, &r)) > 0;) {
    if (!t->keyed)
      continue;
    for (uint32_t i = 0; i < n; i++)
      if (r[i].flags & SC_RECORD_HAS_KEY)
        r[i].key_hash = sc_hash(r[i].key);
    t->keyed->ops->expect(t->keyed, r, n);
  }
}

static void superseded(sc_task_t *t, const sc_input_event_t *e) {
  sc_report_t *r = sc_report_new(t->attempt, SC_REPORT_SUPERSEDED, t->index);
  r->id = e->aborted;
  r->other = e->superseded_by;
  sc_report_post(t->attempt, r);
  sc_task_aborted(t, e->aborted);
}

/* What is not a record: 1 if it was anything, or made room for others of this slot. */
static int take_event(sc_task_t *t, const sc_input_event_t *e) {
  switch (e->kind) {
    case SC_INPUT_NONE: return e->took;
    case SC_INPUT_RECORD: return 1; /* read_input took it */
    case SC_INPUT_WATERMARK: sc_chain_watermark(&t->chain, e->watermark); return 1;
    case SC_INPUT_STATUS: sc_chain_status(&t->chain, e->idle); return 1;
    case SC_INPUT_SNAPSHOT:
      sc_task_snapshot(t, e);
      return 1;
    case SC_INPUT_ABORTED:
      if (e->superseded_by) /* else it came by mail: the coordinator knows, sc_task_aborted was */
        superseded(t, e);
      return 1;
    case SC_INPUT_END:
      if (t->phase == SC_PHASE_RUNNING) /* one restored as finished has handed it on already */
        begin_end(t);
      return 1;
    case SC_INPUT_CLOSED: return 1;
  }
  return 0;
}

/* Mail for the slot, a barrier that overtook and waits at a task of it, or a trigger: those go
 * before the next record, which may be one of a stride that takes much longer than the last. */
static inline bool is_called(sc_task_t *t) {
  return sc_mailbox_any(&t->slot->mailbox) ||
         atomic_load_explicit(&t->slot->alarm, memory_order_relaxed);
}

/* May the next record follow the last one, without a look at anything else? */
static inline bool may_go_on(sc_task_t *t) {
  return sc_chain_idle(&t->chain) && sc_chain_has_room(&t->chain) && !is_called(t);
}

/* Word of a checkpoint that may overtake has reached the task, and it has not started it: from the
 * barrier's way into an input queue, or the trigger's into the mail, on. */
static bool in_haste(sc_task_t *t) {
  bool yes = sc_input_has_word(t->input);
  t->chain.overdraft = yes ? HASTY_OVERDRAFT : t->attempt->config.overdraft_buffers;
  return yes;
}

static void note_first_barrier(sc_task_t *t, const sc_input_event_t *e) {
  if (!e->first_barrier || t->first_barrier_ns)
    return;
  t->first_barrier_ns = now_ns(t);
  t->first_barrier_ms = now_ms(t);
}

/* Up to `most` records that were read ahead: how many it was. */
static int read_ahead(sc_task_t *t, uint32_t most) {
  const sc_record_t *r;
  uint32_t port, n = 0, ready = sc_input_records(t->input, &r, &port);
  int rc = 0;
  most = most < ready ? most : ready;
  while (n < most && rc >= 0 && (n == 0 || may_go_on(t)))
    rc = take_record(t, port, &r[n++]);
  sc_input_took(t->input, n);
  return rc < 0 ? rc : (int)n;
}

/* Up to `most` records from the input, or up to something else that comes: how much it was. */
static int read_input(sc_task_t *t, int most) {
  int n = 0;
  do {
    look_ahead(t);
    int rc = read_ahead(t, (uint32_t)(most - n));
    if (rc < 0)
      return rc;
    n += rc;
    if (rc > 0)
      continue;
    sc_input_event_t e;
    rc = sc_input_next(t->input, &e, &t->error);
    if (rc < 0)
      return rc;
    note_first_barrier(t, &e);
    if (e.kind != SC_INPUT_RECORD)
      return n + take_event(t, &e);
    rc = take_record(t, e.port, &e.record);
    if (rc < 0)
      return rc;
    n++;
  } while (n < most && may_go_on(t));
  return n;
}

/* Up to `most` polls of a source: how many something came of. */
static int read_source(sc_task_t *t, int most) {
  sc_link_t *head = &t->chain.links[0];
  if (t->draining && head->op->ops->drain) {
    head->op->ops->drain(head->op);
    t->wake_at_ms = 0;
  } else if (t->draining && !mid_record(t)) {
    begin_end(t);
    return 1;
  }
  if (t->wake_at_ms && t->wake_at_ms > now_ms(t) && !atomic_exchange(&t->poked, false))
    return 0;
  t->wake_at_ms = 0;
  if (t->trigger.id)
    most = 1; /* its turn comes as soon as no record is half read */
  int n = 0, rc;
  do {
    head->context.wake_at_ms = INT64_MAX;
    rc = sc_chain_poll(&t->chain, &t->error);
    if (rc == SC_EMIT && !sc_chain_idle(&t->chain)) {
      int run = sc_chain_run(&t->chain, STEPS_AT_ONCE, &t->error);
      rc = run < 0 ? run : rc;
    }
    if (rc < 0)
      return rc;
    n += rc == SC_EMIT || rc == SC_DONE || rc == SC_ENDED;
  } while (rc == SC_EMIT && n < most && may_go_on(t));
  if (rc == SC_IDLE)
    t->wake_at_ms = head->context.wake_at_ms;
  if (rc == SC_ENDED)
    begin_end(t);
  return n;
}

static bool may_leave(sc_task_t *t) {
  bool last_held = t->suspended || t->final_complete || !t->awaits_final;
  if (t->asked_finish || t->works || !last_held)
    return false;
  for (uint32_t i = 0; i < t->chain.n_outputs; i++)
    if (!sc_output_drained(t->chain.outputs[i]))
      return false;
  for (uint32_t i = 0; i < t->chain.n_links; i++) {
    sc_operator_t *op = t->chain.links[i].op;
    bool ignored = SC_PLANTED(LEFT_UNCOMMITTED) && t->suspended;
    if (op->ops->busy && op->ops->busy(op) && !ignored)
      return false;
  }
  return true;
}

static int serve_barriers(sc_task_t *t) {
  sc_input_event_t e;
  if (!sc_input_urgent(t->input) || !sc_input_next_urgent(t->input, &e))
    return 0;
  note_first_barrier(t, &e);
  return take_event(t, &e);
}

/* What goes before the next record: 1 something moved; 0 nothing (the chain is at rest, or waits
 * for room); negative on error. */
static int before_records(sc_task_t *t) {
  if (!sc_chain_idle(&t->chain)) {
    if (sc_chain_divisible(&t->chain) && serve_barriers(t))
      return 1;
    int rc = sc_chain_run(&t->chain, STEPS_AT_ONCE, &t->error);
    return rc < 0 ? rc : rc != SC_CHAIN_BLOCKED;
  }
  /* Before a snapshot: what its operators did at their end belongs to a task that has ended. */
  if (t->phase == SC_PHASE_ENDING) {
    ended(t);
    return 1;
  }
  if (t->trigger.id && !mid_record(t)) {
    const sc_input_event_t e = {.kind = SC_INPUT_SNAPSHOT, .barrier = t->trigger};
    t->trigger.id = 0;
    sc_task_snapshot(t, &e);
    return 1;
  }
  return serve_barriers(t);
}

/* One thing, or up to `most` records in a row: how many things, 0 where there is nothing to do now,
 * negative on error. */
static int step_some(sc_task_t *t, int most) {
  t->waits = SC_FLOW_IDLE;
  if (t->stopped_at)
    return 0;
  bool hasty = in_haste(t);
  int rc = before_records(t);
  if (rc || !sc_chain_idle(&t->chain)) {
    t->waits = SC_FLOW_BACK_PRESSURED; /* where it is nothing, an exchange is full */
    return rc;
  }
  if (t->look_at_timers) {
    t->look_at_timers = false;
    if (t->phase == SC_PHASE_RUNNING && t->timers)
      sc_chain_timers(&t->chain, now_ms(t));
    if (!sc_chain_idle(&t->chain))
      return 1;
  }
  bool room = t->phase != SC_PHASE_RUNNING || sc_chain_has_room(&t->chain);
  t->waits = room ? SC_FLOW_IDLE : SC_FLOW_BACK_PRESSURED; /* also where there is nothing to read */
  if (t->is_source) {
    bool goes_on = room || (mid_record(t) && sc_chain_goes_on(&t->chain));
    return t->phase == SC_PHASE_RUNNING && goes_on ? read_source(t, most) : 0;
  }
  if (t->replay)
    sc_task_replay_step(t);
  sc_input_spare(t->input, !room);
  if (!room && !hasty)
    return 0;
  if (!room)
    t->chain.overdrawn = 0; /* each record of an input that cannot be captured has its own */
  rc = read_input(t, most);
  if (rc >= 0 && t->replay && sc_chain_idle(&t->chain))
    sc_task_replay_step(t); /* its bytes are not borrowed any more */
  return rc;
}

static bool fold(sc_task_t *t) {
  if (!t->keyed)
    return false;
  bool more = t->keyed->ops->step(t->keyed, FOLD_ENTRIES);
  sc_task_submit_ready(t);
  return more;
}

/* Looks at the clock often enough for slow records and seldom enough for fast ones. */
static uint32_t adapt_stride(sc_task_t *t, int64_t elapsed_ns) {
  int64_t each = elapsed_ns / t->stride;
  int64_t stride = each > 0 ? STRIDE_NS / each : STRIDE_MAX;
  t->stride = (uint32_t)(stride < 1 ? 1 : stride > STRIDE_MAX ? STRIDE_MAX : stride);
  return t->stride;
}

static bool is_alive(const sc_task_t *t) {
  return t->phase == SC_PHASE_RUNNING || t->phase == SC_PHASE_ENDING || t->phase == SC_PHASE_ENDED;
}

bool sc_task_serve(sc_task_t *t) {
  if (!is_alive(t) || t->stopped_at || !(t->trigger.id || sc_input_urgent(t->input)))
    return false;
  int64_t begin = now_ns(t);
  bool moved = false;
  sc_slot_turn(t->slot, t, begin);
  t->chain.pushed = true;
  in_haste(t);
  for (int rc; (rc = before_records(t)) != 0; moved = true) {
    if (rc < 0 && t->phase != SC_PHASE_DOWN)
      sc_task_fail(t, &t->error);
    if (!is_alive(t) || now_ns(t) - begin > TASK_BUDGET_NS ||
        !(t->trigger.id || sc_input_urgent(t->input))) {
      moved = true;
      break;
    }
  }
  t->slot->turn_moved |= moved;
  return moved;
}

bool sc_task_step(sc_task_t *t) {
  if (!is_alive(t))
    return false;
  int64_t begin = now_ns(t), last = begin;
  sc_slot_turn(t->slot, t, begin);
  bool moved = fold(t);
  if (moved)
    last = now_ns(t); /* records are not what took that long */
  sc_task_look_at_clock(t, begin / 1000000);
  uint32_t n = 0, stride = t->slot->timed ? 1 : t->stride;
  int rc;
  t->chain.pushed = true; /* the slot may have flushed since the last turn */
  t->look_at_timers = true;
  for (;;) {
    rc = step_some(t, (int)(stride - n));
    if (rc < 0 && t->phase != SC_PHASE_DOWN)
      sc_task_fail(t, &t->error);
    if (rc <= 0 || t->phase == SC_PHASE_DOWN)
      break;
    moved = true;
    if (is_called(t))
      break;
    n += (uint32_t)rc;
    if (n < stride)
      continue;
    n = 0;
    t->look_at_timers = true;
    int64_t now = now_ns(t);
    if (!t->slot->timed)
      stride = adapt_stride(t, now - last);
    last = now;
    if (now - begin > TASK_BUDGET_NS)
      break;
  }
  if (rc > 0)
    t->waits = SC_FLOW_READY;
  t->slot->turn_moved |= moved;
  if ((t->phase == SC_PHASE_ENDED || t->suspended) && may_leave(t)) {
    t->asked_finish = true;
    sc_task_report(t, SC_REPORT_FINISH);
  }
  return moved;
}

bool sc_task_idle(sc_task_t *t) {
  if (t->phase != SC_PHASE_RUNNING || !sc_chain_idle(&t->chain) || mid_record(t) || t->stopped_at)
    return false;
  int rc = sc_chain_begin_idle(&t->chain, &t->error);
  if (rc < 0)
    sc_task_fail(t, &t->error);
  return rc > 0;
}

int64_t sc_task_deadline_ms(sc_task_t *t) {
  if (t->stopped_at)
    return INT64_MAX;
  /* Where it cannot go on before an exchange has room, that wakes it, not the clock. */
  if (t->phase != SC_PHASE_RUNNING || !sc_chain_idle(&t->chain) || !sc_chain_has_room(&t->chain))
    return INT64_MAX;
  int64_t timer = t->timers ? sc_chain_next_timer(&t->chain) : INT64_MAX;
  /* 0 means "poll at once": it does so in its next step, and sleeps here only when it could not. */
  int64_t poll = t->is_source && t->wake_at_ms > 0 ? t->wake_at_ms : INT64_MAX;
  return timer < poll ? timer : poll;
}
