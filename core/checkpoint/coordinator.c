#include "coordinator.h"

#include <stdlib.h>

#include "../base/mem.h"
#include "../base/planted.h"
#include "failures.h"
#include "ids.h"
#include "outbox.h"
#include "pending.h"
#include "retained.h"
#include "schedule.h"

#define REQUESTS_MAX 1000
#define NOBODY UINT32_MAX
#define FINAL_RETRY_MS 1000 /* at most, before a final checkpoint that failed is tried again */

struct sc_coordinator {
  sc_coordinator_config_t config;
  sc_schedule_t schedule;
  sc_failures_t failures;
  sc_ids_t ids;
  sc_roster_t roster;     /* of the attempt that runs, or ran last */
  sc_retained_t retained;
  sc_outbox_t outbox;
  sc_pending_t *pending;  /* by id, oldest first */
  bool running;           /* an attempt runs, the whole of it */
  bool alive;             /* some of its tasks do: they are told what completes */
  bool starved;           /* something could start but for a reserved id */
  bool recheck;           /* ids have come: the next tick is due at once */
  uint64_t attempt;       /* starts so far */
  uint64_t requests;      /* requests so far */
  uint32_t deleting;      /* DELETE actions without their sc_coordinator_deleted */
  int64_t now_ms, mono_ms;/* of the newest event */
  int64_t final_after_ms; /* monotonic; a final checkpoint that failed is not tried before */
};

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

static sc_pending_t *find(const sc_coordinator_t *c, uint64_t id) {
  for (sc_pending_t *p = c->pending; p; p = p->next)
    if (p->id == id)
      return p;
  return NULL;
}

/* Oldest in a state, or NULL. */
static sc_pending_t *find_state(const sc_coordinator_t *c, sc_pending_state_t state) {
  for (sc_pending_t *p = c->pending; p; p = p->next)
    if (p->state == state)
      return p;
  return NULL;
}

static void append(sc_coordinator_t *c, sc_pending_t *p) {
  sc_pending_t **at = &c->pending;
  while (*at)
    at = &(*at)->next;
  *at = p;
}

static void unlink_pending(sc_coordinator_t *c, sc_pending_t *p) {
  sc_pending_t **at = &c->pending;
  while (*at != p)
    at = &(*at)->next;
  *at = p->next;
}

static bool undecided(const sc_pending_t *p) {
  return p->state == SC_PENDING_PREPARING || p->state == SC_PENDING_PENDING;
}

/* ---- actions ---- */

static sc_outgoing_t *act(sc_coordinator_t *c, sc_action_kind_t kind, const sc_pending_t *p) {
  sc_outgoing_t *out = sc_outbox_add(&c->outbox, kind);
  out->action.id = p->id;
  out->action.timestamp_ms = p->timestamp_ms;
  out->action.request = p->request;
  return out;
}

/* How a checkpoint or a request failed. */
typedef struct failure {
  sc_reason_t reason;
  uint32_t task;    /* who caused it, or NOBODY */
  const char *text; /* what that task said, or NULL */
} failure_t;

static void answer(sc_coordinator_t *c, uint64_t request, uint64_t id, const failure_t *why) {
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

static void count_failure(sc_coordinator_t *c, sc_reason_t reason, uint64_t id) {
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

static void reserve_ids(sc_coordinator_t *c) {
  uint64_t up_to = sc_ids_ask(&c->ids);
  if (up_to)
    sc_outbox_add(&c->outbox, SC_ACT_RESERVE)->action.id = up_to;
}

/* ---- ends of a checkpoint ---- */

static int64_t after(int64_t at, int64_t by) {
  return at > INT64_MAX - by ? INT64_MAX : at + by;
}

static void delay_final(sc_coordinator_t *c) {
  int64_t pause = c->config.interval_ms < FINAL_RETRY_MS ? c->config.interval_ms : FINAL_RETRY_MS;
  c->final_after_ms = after(c->mono_ms, pause);
}

static void abort_pending(sc_coordinator_t *c, sc_pending_t *p, const failure_t *why) {
  unlink_pending(c, p);
  sc_outgoing_t *out = act(c, SC_ACT_ABORT, p);
  out->action.reason = why->reason;
  out->action.task = why->task;
  out->text = sc_strdup(why->text);
  answer(c, p->request, p->id, why);
  if (p->after_end && p->attempt == c->attempt)
    delay_final(c);
  count_failure(c, why->reason, p->id);
  sc_pending_destroy(p);
}

/* The attempt that took the checkpoint still runs: it learns of it, and what tasks acknowledged
 * after their end is now their final snapshot. (What it lists of tasks that had left is a copy.) */
static void publish(sc_coordinator_t *c, sc_pending_t *p) {
  act(c, SC_ACT_COMPLETE, p)->action.final = sc_pending_is_final(p);
  for (uint32_t i = 0; i < p->n_tasks; i++) {
    if (p->left[i] || p->snapshots[i]->end == SC_TASK_RUNNING)
      continue;
    sc_roster_keep_final(&c->roster, i, p->snapshots[i]);
    p->snapshots[i] = NULL;
  }
  /* All is held: a periodic one that begins while the tasks leave could only be aborted. */
  if (c->roster.n_unended == 0 && !sc_roster_wants_final(&c->roster))
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

static void complete(sc_coordinator_t *c, sc_pending_t *p) {
  const failure_t subsumed = {SC_REASON_SUBSUMED, NOBODY, NULL};
  unlink_pending(c, p);
  hand_on_finals(c, p);
  sc_retained_add(&c->retained, p->id);
  sc_failures_success(&c->failures, p->id);
  sc_schedule_completed(&c->schedule, c->mono_ms);
  if (c->alive && p->attempt == c->attempt)
    publish(c, p);
  answer(c, p->request, p->id, NULL);
  while (c->pending && c->pending->id < p->id)
    abort_pending(c, c->pending, &subsumed);
  sc_coordinator_trim(c);
  sc_pending_destroy(p);
}

void sc_coordinator_trim(sc_coordinator_t *c) {
  for (uint64_t old; (old = sc_retained_evict(&c->retained)) != 0; c->deleting++)
    sc_outbox_add(&c->outbox, SC_ACT_DELETE)->action.id = old;
}

/* ---- what every event may set going ---- */

static bool pending_for(const sc_coordinator_t *c, uint32_t task) {
  for (const sc_pending_t *p = c->pending; p; p = p->next)
    if (p->attempt == c->attempt && sc_pending_waits_for(p, task))
      return true;
  return false;
}

static void answer_leavers(sc_coordinator_t *c) {
  for (uint32_t i = 0; i < c->roster.n_tasks; i++) {
    if (!c->roster.tasks[i].asked || pending_for(c, i))
      continue;
    sc_roster_finish(&c->roster, i);
    sc_outbox_add(&c->outbox, SC_ACT_FINISHED)->action.task = i;
  }
}

static void write_next(sc_coordinator_t *c) {
  sc_pending_t *p = find_state(c, SC_PENDING_DECIDED);
  if (!p || find_state(c, SC_PENDING_WRITING))
    return;
  p->state = SC_PENDING_WRITING;
  sc_outgoing_t *out = act(c, SC_ACT_WRITE, p);
  out->action.snapshots = p->snapshots;
  out->action.n_tasks = p->n_tasks;
  out->action.final = sc_pending_is_final(p);
}

/* A job without periodic checkpoints ends without a final one; its tasks know that, too. */
static bool lacks_final(const sc_coordinator_t *c) {
  return c->running && c->config.interval_ms > 0 && sc_roster_wants_final(&c->roster) &&
         sc_roster_ready(&c->roster);
}

static bool final_wanted(const sc_coordinator_t *c) {
  if (!lacks_final(c) || c->mono_ms < c->final_after_ms)
    return false;
  for (const sc_pending_t *p = c->pending; p; p = p->next)
    if (p->after_end && p->attempt == c->attempt)
      return false;
  return true;
}

static sc_start_t choose(sc_coordinator_t *c) {
  sc_schedule_load_t load = {.deleting = c->deleting,
                             .preparing = find_state(c, SC_PENDING_PREPARING) != NULL,
                             .final_wanted = final_wanted(c)};
  for (const sc_pending_t *p = c->pending; p; p = p->next)
    load.pending++;
  return sc_schedule_choose(&c->schedule, c->mono_ms, &load);
}

/* What was chosen cannot start. */
static void refuse(sc_coordinator_t *c, sc_start_t kind, sc_reason_t reason) {
  const failure_t why = {reason, NOBODY, NULL};
  answer(c, sc_schedule_take(&c->schedule, kind), 0, &why);
  if (kind == SC_START_FINAL)
    delay_final(c);
  count_failure(c, reason, 0);
}

static void begin_checkpoint(sc_coordinator_t *c, sc_start_t kind, uint64_t id) {
  sc_pending_t *p = sc_pending_create(id, c->now_ms, after(c->mono_ms, c->config.timeout_ms));
  p->attempt = c->attempt;
  p->request = sc_schedule_take(&c->schedule, kind);
  p->after_end = c->roster.n_unended == 0;
  append(c, p);
  act(c, SC_ACT_PREPARE, p);
}

static void start_next(sc_coordinator_t *c) {
  c->recheck = c->starved = false;
  while (c->running) {
    sc_start_t kind = choose(c);
    if (kind == SC_START_NOTHING)
      return;
    if (!sc_roster_ready(&c->roster)) {
      refuse(c, kind, SC_REASON_NOT_RUNNING);
      continue;
    }
    uint64_t id = sc_ids_take(&c->ids);
    if (id)
      begin_checkpoint(c, kind, id);
    else
      c->starved = true;
    reserve_ids(c);
    return; /* one at a time: the next when this one is prepared */
  }
}

static void expire(sc_coordinator_t *c) {
  const failure_t why = {SC_REASON_EXPIRED, NOBODY, NULL};
  for (sc_pending_t *p = c->pending, *next; p; p = next) {
    next = p->next;
    if (undecided(p) && c->mono_ms >= p->expires_ms)
      abort_pending(c, p, &why);
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

static void advance(sc_coordinator_t *c) {
  answer_leavers(c);
  write_next(c);
  start_next(c);
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
  sc_start_t kind = ok ? SC_START_NOTHING : choose(c);
  if (kind != SC_START_NOTHING)
    refuse(c, kind, SC_REASON_IO);
  c->recheck = true;
}

void sc_coordinator_add_completed(sc_coordinator_t *c, uint64_t id) {
  sc_retained_add(&c->retained, id);
  sc_ids_begin(&c->ids, id);
}

static void run(sc_coordinator_t *c) {
  c->running = c->alive = true;
  c->final_after_ms = INT64_MIN;
  sc_schedule_start(&c->schedule, c->mono_ms);
  if (c->config.interval_ms > 0)
    reserve_ids(c);
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
  const failure_t why = {reason, task, NULL};
  sc_schedule_stop(&c->schedule);
  c->running = c->starved = c->recheck = false;
  for (sc_pending_t *p = c->pending, *next; p; p = next) {
    next = p->next;
    if (undecided(p))
      abort_pending(c, p, &why);
  }
  while (sc_schedule_waiting(&c->schedule))
    answer(c, sc_schedule_take(&c->schedule, SC_START_MANUAL), 0, &why);
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
  run(c);
}

void sc_coordinator_stop(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, sc_reason_t reason,
                         uint32_t task) {
  sc_coordinator_suspend(c, now_ms, mono_ms, reason, task);
  c->alive = false;
}

bool sc_coordinator_writing(const sc_coordinator_t *c) {
  return find_state(c, SC_PENDING_WRITING) || find_state(c, SC_PENDING_DECIDED);
}

void sc_coordinator_tick(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms) {
  enter(c, now_ms, mono_ms);
  advance(c);
}

int64_t sc_coordinator_deadline(const sc_coordinator_t *c) {
  if (c->recheck)
    return c->mono_ms;
  int64_t deadline = sc_schedule_deadline(&c->schedule);
  for (const sc_pending_t *p = c->pending; p; p = p->next)
    if (undecided(p) && p->expires_ms < deadline)
      deadline = p->expires_ms;
  /* A delay that has passed needs no tick: what still holds the final one back is an event. */
  if (lacks_final(c) && c->final_after_ms > c->mono_ms && c->final_after_ms < deadline)
    deadline = c->final_after_ms;
  return deadline;
}

uint64_t sc_coordinator_request(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms) {
  enter(c, now_ms, mono_ms);
  uint64_t request = ++c->requests;
  failure_t why = {SC_REASON_NOT_RUNNING, NOBODY, NULL};
  if (c->running && sc_schedule_request(&c->schedule, request)) {
    advance(c);
    return request;
  }
  if (c->running)
    why.reason = SC_REASON_TOO_MANY_REQUESTS;
  answer(c, request, 0, &why);
  return request;
}

static void trigger(sc_coordinator_t *c, sc_pending_t *p) {
  sc_pending_plan(p, &c->roster);
  sc_outgoing_t *out = act(c, SC_ACT_TRIGGER, p);
  out->tasks = sc_malloc(c->roster.n_tasks * sizeof *out->tasks);
  out->action.n_tasks = sc_roster_to_trigger(&c->roster, out->tasks);
}

void sc_coordinator_prepared(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, uint64_t id,
                             bool ok) {
  enter(c, now_ms, mono_ms);
  sc_pending_t *p = find(c, id);
  if (p && p->state == SC_PENDING_PREPARING) {
    if (ok && sc_roster_ready(&c->roster))
      trigger(c, p);
    else
      abort_pending(c, p, &(failure_t){ok ? SC_REASON_NOT_RUNNING : SC_REASON_IO, NOBODY, NULL});
  }
  advance(c);
}

void sc_coordinator_ack(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, uint64_t id,
                        sc_task_snapshot_t *snap) {
  enter(c, now_ms, mono_ms);
  sc_pending_t *p = find(c, id);
  if (SC_PLANTED(OLD_ACK) && !p)
    p = find_state(c, SC_PENDING_PENDING);
  sc_ack_t got = p ? sc_pending_ack(p, snap) : SC_ACK_UNKNOWN;
  /* What a task acknowledges twice, or to a checkpoint that is complete, may be the very files
   * that the checkpoint lists: they go with it. */
  if (got == SC_ACK_DUPLICATE || (!p && sc_retained_has(&c->retained, id)))
    sc_task_snapshot_destroy(snap);
  else if (got == SC_ACK_UNKNOWN)
    discard(c, id, snap);
  advance(c);
}

void sc_coordinator_decline(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, uint64_t id,
                            uint32_t task, sc_reason_t reason, const char *text) {
  enter(c, now_ms, mono_ms);
  sc_pending_t *p = find(c, id);
  /* As an acknowledgement, a decline of a task that had left when it was triggered says nothing. */
  if (p && p->state == SC_PENDING_PENDING && task < p->n_tasks && !p->left[task])
    abort_pending(c, p, &(failure_t){reason, task, text});
  /* What the task had begun to write kept the folder from going with the aborted checkpoint. */
  if (!p && reason == SC_REASON_ASYNC_FAILED && !sc_retained_has(&c->retained, id))
    discard(c, id, sc_task_snapshot_create(task, 0, 0));
  advance(c);
}

void sc_coordinator_written(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, uint64_t id,
                            bool ok) {
  enter(c, now_ms, mono_ms);
  sc_pending_t *p = find(c, id);
  if (p && p->state == SC_PENDING_WRITING) {
    if (ok)
      complete(c, p);
    else
      abort_pending(c, p, &(failure_t){SC_REASON_FINALIZE, NOBODY, NULL});
  }
  advance(c);
}

void sc_coordinator_deleted(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms, uint64_t id) {
  enter(c, now_ms, mono_ms);
  if (c->deleting)
    c->deleting--;
  advance(c);
}

void sc_coordinator_end_of_data(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms,
                                uint32_t task) {
  enter(c, now_ms, mono_ms);
  if (c->running && task < c->roster.n_tasks)
    sc_roster_end(&c->roster, task);
  advance(c);
}

void sc_coordinator_finish_request(sc_coordinator_t *c, int64_t now_ms, int64_t mono_ms,
                                   uint32_t task) {
  enter(c, now_ms, mono_ms);
  if (c->running && task < c->roster.n_tasks && c->roster.tasks[task].life != SC_TASK_FINISHED)
    c->roster.tasks[task].asked = true;
  advance(c);
}

uint64_t sc_coordinator_latest(const sc_coordinator_t *c) {
  return sc_retained_latest(&c->retained);
}

uint64_t sc_coordinator_failures(const sc_coordinator_t *c) {
  return c->failures.count;
}
