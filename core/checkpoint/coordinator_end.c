#include "coordinator_parts.h"

#include "../base/mem.h"
#include "../base/planted.h"

#define FINAL_PAUSE_MS 1000      /* at most, before a final checkpoint is tried a second time */
#define FINAL_PAUSE_MAX_MS 10000 /* and before any other time */
#define FINAL_TIMEOUT_MAX_MS (INT64_C(24) * 3600 * 1000)

static void unlink_pending(sc_coordinator_t *c, sc_pending_t *p) {
  sc_pending_t **at = &c->pending;
  while (*at != p)
    at = &(*at)->next;
  *at = p->next;
}

static int64_t doubled(int64_t value, int64_t most) {
  return value >= most ? value : value > most / 2 ? most : 2 * value;
}

static int64_t first_pause(const sc_coordinator_t *c) {
  int64_t interval = c->config.interval_ms;
  return interval > 0 && interval < FINAL_PAUSE_MS ? interval : FINAL_PAUSE_MS;
}

/* Whatever failed may need time to be mended, and a time that was too short stays too short:
 * nothing but this checkpoint is left to do. */
void sc__coordinator_delay_final(sc_coordinator_t *c, sc_reason_t reason) {
  int64_t pause = c->final_pause_ms ? c->final_pause_ms : first_pause(c);
  c->final_after_ms = sc__after(c->mono_ms, pause);
  c->final_pause_ms = doubled(pause, FINAL_PAUSE_MAX_MS);
  if (reason == SC_REASON_EXPIRED)
    c->final_timeout_ms = doubled(c->final_timeout_ms, FINAL_TIMEOUT_MAX_MS);
}

/* A drain is answered with whichever checkpoint turned out to be the final one: the last of them,
 * where another was pending when that completed, since the older one's files go then. */
void sc__coordinator_answer_stop(sc_coordinator_t *c) {
  if (c->stop.state != SC_STOP_DONE || !c->stop.request || (c->pending && !SC_PLANTED(STOP_ANSWER)))
    return;
  sc__coordinator_answer(c, c->stop.request, c->final_id, NULL);
  c->stop.request = 0;
}

void sc__coordinator_stop_failed(sc_coordinator_t *c, const sc_failure_t *why) {
  sc__coordinator_answer(c, c->stop.request, 0, why);
  c->stop = (sc_stop_t){0};
}

void sc__coordinator_abort(sc_coordinator_t *c, sc_pending_t *p, const sc_failure_t *why) {
  unlink_pending(c, p);
  sc_outgoing_t *out = sc__coordinator_act(c, SC_ACT_ABORT, p);
  out->action.reason = why->reason;
  out->action.task = why->task;
  out->text = sc_strdup(why->text);
  sc__coordinator_answer(c, p->request, p->id, why);
  if (p->after_end && p->attempt == c->attempt && c->running) {
    sc__coordinator_delay_final(c, why->reason);
    out->action.final = true;
    out->action.retry_ms = c->final_after_ms - c->mono_ms;
    out->action.timeout_ms = c->final_timeout_ms;
  }
  if (p->stop && p->attempt == c->attempt)
    sc__coordinator_stop_failed(c, why);
  sc__coordinator_count(c, why->reason, p->id);
  sc__coordinator_answer_stop(c);
  sc_pending_destroy(p);
}

/* The attempt that took the checkpoint still runs: it learns of it, and what tasks acknowledged
 * after their end is now their final snapshot. (What it lists of tasks that had left is a copy.) */
static void publish(sc_coordinator_t *c, sc_pending_t *p) {
  sc_outgoing_t *out = sc__coordinator_act(c, SC_ACT_COMPLETE, p);
  out->action.final = sc_pending_is_final(p);
  out->action.stop = p->stop;
  for (uint32_t i = 0; i < p->n_tasks; i++) {
    if (p->left[i] || p->snapshots[i]->end == SC_TASK_RUNNING)
      continue;
    sc_roster_keep_final(&c->roster, i, p->snapshots[i]);
    p->snapshots[i] = NULL;
  }
  if (p->stop || (c->final_id == p->id && sc__coordinator_draining(c)))
    c->stop.state = SC_STOP_DONE;
  /* All is held: a periodic one that begins while the tasks leave could only be aborted. */
  bool all_held = c->roster.n_unended == 0 && !sc_roster_wants_final(&c->roster);
  if (all_held || c->stop.state == SC_STOP_DONE)
    sc_schedule_stop(&c->schedule);
}

/* A younger checkpoint that was planned while p was pending lists, of a task that had left, what
 * was its final snapshot then. p's is newer, and the older one's files go when p makes an older
 * checkpoint superfluous: so the younger one lists p's, too. (p is the one that was written: none
 * of the others is, so nobody borrows their snapshots.) */
static void hand_on_finals(sc_coordinator_t *c, const sc_pending_t *p) {
  for (sc_pending_t *q = c->pending; q; q = q->next) {
    if (q->attempt != p->attempt || q->id < p->id)
      continue;
    for (uint32_t i = 0; i < q->n_tasks; i++) {
      if (!q->left[i] || p->snapshots[i]->end == SC_TASK_RUNNING)
        continue;
      sc_task_snapshot_destroy(q->snapshots[i]);
      q->snapshots[i] = sc_task_snapshot_copy(p->snapshots[i]);
      q->snapshots[i]->end = SC_TASK_FINISHED;
    }
  }
}

void sc__coordinator_complete(sc_coordinator_t *c, sc_pending_t *p) {
  const sc_failure_t subsumed = {SC_REASON_SUBSUMED, SC_NOBODY, NULL};
  unlink_pending(c, p);
  hand_on_finals(c, p);
  sc_retained_add(&c->retained, p->id);
  sc_failures_success(&c->failures, p->id);
  sc_schedule_completed(&c->schedule, c->mono_ms);
  if (sc_pending_is_final(p) && p->attempt == c->attempt)
    c->final_id = p->id; /* also where all have left meanwhile */
  if (c->alive && p->attempt == c->attempt)
    publish(c, p);
  sc__coordinator_answer(c, p->request, p->id, NULL);
  while (c->pending && c->pending->id < p->id)
    sc__coordinator_abort(c, c->pending, &subsumed);
  sc__coordinator_answer_stop(c);
  sc_coordinator_trim(c);
  sc_pending_destroy(p);
}

void sc_coordinator_trim(sc_coordinator_t *c) {
  for (uint64_t old; (old = sc_retained_evict(&c->retained)) != 0; c->deleting++)
    sc_outbox_add(&c->outbox, SC_ACT_DELETE)->action.id = old;
}
