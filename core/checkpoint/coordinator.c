#include "coordinator_parts.h"

#include <stdlib.h>

#include "../base/mem.h"
#include "../base/planted.h"

#define REQUESTS_MAX 1000

sc_coordinator_t *sc_coordinator_create(const sc_coordinator_config_t *config) {
  sc_coordinator_t *c = sc_calloc(1, sizeof *c);
  c->config = *config;
  sc_schedule_init(&c->schedule, config->interval_ms, config->min_pause_ms,
                   config->max_concurrent, REQUESTS_MAX);
  sc_failures_init(&c->failures, config->tolerable_failures);
  sc_roster_init(&c->roster);
  sc_retained_init(&c->retained, config->retain);
  sc_outbox_init(&c->outbox);
  c->mono_ms = INT64_MIN;
  return c;
}

void sc_coordinator_destroy(sc_coordinator_t *c) {
  if (!c)
    return;
  while (c->pending) {
    sc_pending_t *p = c->pending;
    c->pending = p->next;
    sc_pending_destroy(p);
  }
  sc_outbox_fini(&c->outbox);
  sc_retained_fini(&c->retained);
  sc_roster_fini(&c->roster);
  sc_failures_fini(&c->failures);
  sc_schedule_fini(&c->schedule);
  free(c);
}

bool sc_coordinator_action(sc_coordinator_t *c, sc_action_t *out) {
  return sc_outbox_take(&c->outbox, out);
}

/* ---- the list of pending checkpoints ---- */

sc_pending_t *sc__coordinator_find(const sc_coordinator_t *c, uint64_t id) {
  for (sc_pending_t *p = c->pending; p; p = p->next)
    if (p->id == id)
      return p;
  return NULL;
}

sc_pending_t *sc__coordinator_find_state(const sc_coordinator_t *c, sc_pending_state_t state) {
  for (sc_pending_t *p = c->pending; p; p = p->next)
    if (p->state == state)
      return p;
  return NULL;
}

/* ---- actions ---- */

sc_outgoing_t *sc__coordinator_act(sc_coordinator_t *c, sc_action_kind_t kind,
                                   const sc_pending_t *p) {
  sc_outgoing_t *out = sc_outbox_add(&c->outbox, kind);
  out->action.id = p->id;
  out->action.timestamp_ms = p->timestamp_ms;
  out->action.waited_ms = p->waited_ms;
  out->action.request = p->request;
  return out;
}

void sc__coordinator_answer(sc_coordinator_t *c, uint64_t request, uint64_t id,
                            const sc_failure_t *why) {
  if (!request)
    return;
  sc_outgoing_t *out = sc_outbox_add(&c->outbox, SC_ACT_ANSWER);
  out->action.request = request;
  out->action.id = id;
  if (why) {
    out->action.reason = why->reason;
    out->action.task = why->task;
    out->text = sc_strdup(why->text);
  }
}

void sc__coordinator_count(sc_coordinator_t *c, sc_reason_t reason, uint64_t id) {
  if (sc_failures_counts(reason))
    sc_schedule_failed(&c->schedule, c->mono_ms, c->config.failure_pause_ms);
  if (!sc_failures_add(&c->failures, reason, id))
    return;
  sc_outgoing_t *out = sc_outbox_add(&c->outbox, SC_ACT_FAIL_JOB);
  out->action.id = id;
  out->action.reason = reason;
}

static void discard(sc_coordinator_t *c, uint64_t id, sc_task_snapshot_t *snap) {
  sc_outgoing_t *out = sc_outbox_add(&c->outbox, SC_ACT_DISCARD);
  out->action.id = id;
  out->discard = snap;
}

static bool undecided(const sc_pending_t *p) {
  return p->state == SC_PENDING_PREPARING || p->state == SC_PENDING_PENDING;
}

/* ---- time ---- */

/* Whose fault it is that it has not completed, as far as that can be told. */
static void expire_one(sc_coordinator_t *c, sc_pending_t *p) {
  uint32_t task = sc_pending_first_missing(p), n = p->n_tasks - p->n_missing;
  char *text = task == SC_NOBODY ? sc_strdup("its folder was still being made")
                                 : sc_format("it had not acknowledged (%u of %u tasks had)", n,
                                             p->n_tasks);
  sc__coordinator_abort(c, p, &(sc_failure_t){SC_REASON_EXPIRED, task, text});
  free(text);
}

static void expire(sc_coordinator_t *c) {
  for (sc_pending_t *p = c->pending, *next; p; p = next) {
    next = p->next;
    if (undecided(p) && c->mono_ms >= p->expires_ms)
      expire_one(c, p);
  }
}

/* Every event with a time begins with enter and ends with advance. */
static void enter(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms) {
  sc_outbox_release(&c->outbox);
  c->now_ms = now_ms;
  if (mono_ms > c->mono_ms)
    c->mono_ms = mono_ms;
  sc_schedule_tick(&c->schedule, c->mono_ms);
  expire(c);
}

/* ---- events ---- */

void sc_coordinator_begin_ids(sc_coordinator_t *c, uint64_t highest) {
  sc_ids_begin(&c->ids, highest);
}

void sc_coordinator_reserved(sc_coordinator_t *c, uint64_t up_to, bool ok) {
  sc_outbox_release(&c->outbox);
  sc_ids_reserved(&c->ids, up_to, ok);
  if (!c->running || !c->starved)
    return;
  sc_start_t kind = ok ? SC_START_NOTHING : sc__coordinator_choose(c);
  if (kind != SC_START_NOTHING)
    sc__coordinator_refuse(c, kind, SC_REASON_IO);
  c->recheck = true;
}

void sc_coordinator_add_completed(sc_coordinator_t *c, uint64_t id) {
  sc_retained_add(&c->retained, id);
  sc_ids_begin(&c->ids, id);
}

static void run(sc_coordinator_t *c) {
  c->queued_since_ms = INT64_MIN;
  c->running = c->alive = true;
  c->final_after_ms = INT64_MIN;
  c->final_pause_ms = 0;
  c->forbidden_told = false;
  c->final_timeout_ms = c->config.timeout_ms;
  if (c->stop.request) /* its answer waited for one that is still being written */
    sc__coordinator_answer(c, c->stop.request, c->final_id, NULL);
  c->final_id = 0;
  c->stop = (sc_stop_t){0};
  sc_schedule_start(&c->schedule, c->mono_ms);
  if (c->config.interval_ms > 0)
    sc__coordinator_reserve(c);
}

void sc_coordinator_start(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms,
                          const sc_topology_t *t) {
  sc_assert(!c->running);
  enter(c, now_ms, mono_ms);
  c->attempt++;
  sc_roster_reset(&c->roster, t);
  run(c);
}

void sc_coordinator_restored_finished(sc_coordinator_t *c, uint32_t task,
                                      sc_task_snapshot_t *final) {
  sc_outbox_release(&c->outbox);
  sc_roster_end(&c->roster, task);
  sc_roster_keep_final(&c->roster, task, final);
}

void sc_coordinator_suspend(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms,
                            sc_reason_t reason, uint32_t task) {
  const sc_failure_t why = {reason, task, NULL};
  sc_schedule_stop(&c->schedule);
  c->running = c->starved = c->recheck = false;
  for (sc_pending_t *p = c->pending, *next; p; p = next) {
    next = p->next;
    if (undecided(p))
      sc__coordinator_abort(c, p, &why);
  }
  if (c->stop.state != SC_STOP_DONE) /* else it waits at most for one that is being written */
    sc__coordinator_stop_failed(c, &why);
  while (sc_schedule_waiting(&c->schedule))
    sc__coordinator_answer(c, sc_schedule_take(&c->schedule, SC_START_MANUAL), 0,
                           &why);
  for (uint32_t i = 0; i < c->roster.n_tasks; i++)
    c->roster.tasks[i].asked = false;
  enter(c, now_ms, mono_ms);
}

void sc_coordinator_resume(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms,
                           const bool *restarted) {
  sc_assert(c->alive && !c->running && !sc_coordinator_writing(c));
  enter(c, now_ms, mono_ms);
  for (uint32_t i = 0; i < c->roster.n_tasks; i++)
    if (restarted[i])
      sc_roster_restart(&c->roster, i);
    else if (SC_PLANTED(REGION_FINALS) && c->roster.tasks[i].final)
      c->roster.tasks[i].final->operators[0].n_handles = 0;
  run(c);
}

void sc_coordinator_stop(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, sc_reason_t reason,
                         uint32_t task) {
  sc_coordinator_suspend(c, now_ms, mono_ms, reason, task);
  c->alive = false;
}

bool sc_coordinator_writing(const sc_coordinator_t *c) {
  return sc__coordinator_find_state(c, SC_PENDING_WRITING) ||
         sc__coordinator_find_state(c, SC_PENDING_DECIDED);
}

void sc_coordinator_tick(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms) {
  enter(c, now_ms, mono_ms);
  sc__coordinator_advance(c);
}

int64_t sc_coordinator_deadline(const sc_coordinator_t *c) {
  if (c->recheck)
    return c->mono_ms;
  int64_t deadline = sc_schedule_deadline(&c->schedule);
  for (const sc_pending_t *p = c->pending; p; p = p->next)
    if (undecided(p) && p->expires_ms < deadline)
      deadline = p->expires_ms;
  /* A delay that has passed needs no tick: what still holds the final one back is an event. */
  if (sc__coordinator_lacks_final(c) && c->final_after_ms > c->mono_ms &&
      c->final_after_ms < deadline)
    deadline = c->final_after_ms;
  return deadline;
}

uint64_t sc_coordinator_request(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms) {
  enter(c, now_ms, mono_ms);
  uint64_t request = ++c->requests;
  sc_failure_t why = {SC_REASON_NOT_RUNNING, SC_NOBODY, NULL};
  if (c->running && sc_schedule_request(&c->schedule, request)) {
    sc__coordinator_advance(c);
    return request;
  }
  if (c->running)
    why.reason = SC_REASON_TOO_MANY_REQUESTS;
  sc__coordinator_answer(c, request, 0, &why);
  return request;
}

uint64_t sc_coordinator_request_stop(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms,
                                     bool drain) {
  enter(c, now_ms, mono_ms);
  uint64_t request = ++c->requests;
  if (!c->running || c->stop.state != SC_STOP_NONE) {
    sc_reason_t reason = c->running ? SC_REASON_STOPPING : SC_REASON_NOT_RUNNING;
    sc__coordinator_answer(c, request, 0, &(sc_failure_t){reason, SC_NOBODY, NULL});
    return request;
  }
  c->stop = (sc_stop_t){SC_STOP_WANTED, drain, request};
  sc__coordinator_advance(c);
  return request;
}

static void trigger(sc_coordinator_t *c, sc_pending_t *p) {
  sc_pending_plan(p, &c->roster);
  sc_outgoing_t *out = sc__coordinator_act(c, SC_ACT_TRIGGER, p);
  out->action.overtake_at_ms = p->overtake_at_ms;
  out->action.stop = p->stop;
  out->tasks = sc_malloc(c->roster.n_tasks * sizeof *out->tasks);
  out->action.n_tasks = sc_roster_to_trigger(&c->roster, out->tasks);
}

void sc_coordinator_prepared(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, uint64_t id,
                             bool ok) {
  enter(c, now_ms, mono_ms);
  sc_pending_t *p = sc__coordinator_find(c, id);
  if (p && p->state == SC_PENDING_PREPARING) {
    if (ok && sc__coordinator_ready(c))
      trigger(c, p);
    else
      sc__coordinator_abort(
          c, p, &(sc_failure_t){ok ? SC_REASON_NOT_RUNNING : SC_REASON_IO, SC_NOBODY, NULL});
  }
  sc__coordinator_advance(c);
}

void sc_coordinator_ack(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, uint64_t id,
                        sc_task_snapshot_t *snap) {
  enter(c, now_ms, mono_ms);
  sc_pending_t *p = sc__coordinator_find(c, id);
  if (SC_PLANTED(OLD_ACK) && !p)
    p = sc__coordinator_find_state(c, SC_PENDING_PENDING);
  sc_ack_t got = p ? sc_pending_ack(p, snap) : SC_ACK_UNKNOWN;
  if (got == SC_ACK_LAST && c->config.all_or_none && sc_pending_is_mixed(p))
    sc__coordinator_abort(c, p, &(sc_failure_t){SC_REASON_TASK_CLOSING, SC_NOBODY, NULL});
  /* What a task acknowledges twice, or to a checkpoint that is complete, may be the very files
   * that the checkpoint lists: they go with it. */
  if (got == SC_ACK_DUPLICATE || (!p && sc_retained_has(&c->retained, id)))
    sc_task_snapshot_destroy(snap);
  else if (got == SC_ACK_UNKNOWN) {
    if (p) /* from a task that it lists as finished: the others' data lies in the same file */
      sc_task_snapshot_drop_inflight(snap);
    discard(c, id, snap);
  }
  sc__coordinator_advance(c);
}

void sc_coordinator_decline(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, uint64_t id,
                            uint32_t task, sc_reason_t reason, const char *text) {
  enter(c, now_ms, mono_ms);
  sc_pending_t *p = sc__coordinator_find(c, id);
  /* As an acknowledgement, a decline of a task that had left when it was triggered says nothing. */
  if (p && p->state == SC_PENDING_PENDING && task < p->n_tasks && !p->left[task])
    sc__coordinator_abort(c, p, &(sc_failure_t){reason, task, text});
  /* What the task had begun to write kept the folder from going with the aborted checkpoint. */
  if (!p && reason == SC_REASON_ASYNC_FAILED && !sc_retained_has(&c->retained, id))
    discard(c, id, sc_task_snapshot_create(task, 0, 0));
  sc__coordinator_advance(c);
}

void sc_coordinator_written(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, uint64_t id,
                            bool ok) {
  enter(c, now_ms, mono_ms);
  sc_pending_t *p = sc__coordinator_find(c, id);
  if (p && p->state == SC_PENDING_WRITING) {
    if (ok)
      sc__coordinator_complete(c, p);
    else
      sc__coordinator_abort(c, p, &(sc_failure_t){SC_REASON_FINALIZE, SC_NOBODY, NULL});
  }
  sc__coordinator_advance(c);
}

void sc_coordinator_deleted(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, uint64_t id) {
  enter(c, now_ms, mono_ms);
  if (c->deleting)
    c->deleting--;
  sc__coordinator_advance(c);
}

void sc_coordinator_end_of_data(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms,
                                uint32_t task) {
  enter(c, now_ms, mono_ms);
  if (c->running && task < c->roster.n_tasks)
    sc_roster_end(&c->roster, task);
  sc__coordinator_advance(c);
}

void sc_coordinator_finish_request(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms,
                                   uint32_t task) {
  enter(c, now_ms, mono_ms);
  if (c->running && task < c->roster.n_tasks && c->roster.tasks[task].life != SC_TASK_FINISHED)
    c->roster.tasks[task].asked = true;
  sc__coordinator_advance(c);
}

uint64_t sc_coordinator_latest(const sc_coordinator_t *c) {
  return sc_retained_latest(&c->retained);
}

uint64_t sc_coordinator_failures(const sc_coordinator_t *c) {
  return c->failures.in_row;
}
