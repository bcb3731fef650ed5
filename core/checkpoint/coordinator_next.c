#include "coordinator_parts.h"

#include "../base/mem.h"
#include "../base/planted.h"

void sc__coordinator_reserve(sc_coordinator_t *c) {
  uint64_t up_to = sc_ids_ask(&c->ids);
  if (up_to)
    sc_outbox_add(&c->outbox, SC_ACT_RESERVE)->action.id = up_to;
}

static bool pending_for(const sc_coordinator_t *c, uint32_t task) {
  if (SC_PLANTED(FINISH_UNACKED))
    return false;
  for (const sc_pending_t *p = c->pending; p; p = p->next)
    if (p->attempt == c->attempt && sc_pending_waits_for(p, task))
      return true;
  return false;
}

/* With a stop to come a task does not leave whose state its checkpoint would lose. */
static bool held(const sc_coordinator_t *c, uint32_t task) {
  return (c->stop.state == SC_STOP_WANTED || c->stop.state == SC_STOP_UNDER_WAY) &&
         !c->roster.tasks[task].final;
}

static void answer_leavers(sc_coordinator_t *c) {
  for (uint32_t i = 0; i < c->roster.n_tasks; i++) {
    if (!c->roster.tasks[i].asked || pending_for(c, i) || held(c, i))
      continue;
    sc_roster_finish(&c->roster, i);
    sc_outbox_add(&c->outbox, SC_ACT_FINISHED)->action.task = i;
  }
}

static void write_next(sc_coordinator_t *c) {
  sc_pending_t *p = sc__coordinator_find_state(c, SC_PENDING_DECIDED);
  if (!p || sc__coordinator_find_state(c, SC_PENDING_WRITING))
    return;
  p->state = SC_PENDING_WRITING;
  sc_outgoing_t *out = sc__coordinator_act(c, SC_ACT_WRITE, p);
  out->action.snapshots = p->snapshots;
  out->action.n_tasks = p->n_tasks;
  out->action.final = sc_pending_is_final(p);
  out->action.stop = p->stop;
}

static bool forbidden(const sc_coordinator_t *c) {
  return c->config.all_or_none && c->roster.n_unended > 0 &&
         c->roster.n_unended < c->roster.n_tasks;
}

bool sc__coordinator_ready(const sc_coordinator_t *c) {
  return sc_roster_ready(&c->roster) && !forbidden(c);
}

/* A job that takes none at all ends without a final one, unless it is stopped; its tasks know
 * that, too. One that takes them on request has one: else the end would commit, without a
 * checkpoint, what comes again after the one that was asked for. */
bool sc_coordinator_ends_with_one(const sc_coordinator_config_t *config) {
  return config->interval_ms > 0 || config->final;
}

bool sc__coordinator_lacks_final(const sc_coordinator_t *c) {
  return c->running && (sc_coordinator_ends_with_one(&c->config) || sc__coordinator_draining(c)) &&
         sc_roster_wants_final(&c->roster) && sc_roster_ready(&c->roster);
}

static bool final_wanted(const sc_coordinator_t *c) {
  if (!sc__coordinator_lacks_final(c) || c->mono_ms < c->final_after_ms)
    return false;
  for (const sc_pending_t *p = c->pending; p; p = p->next)
    if (p->after_end && p->attempt == c->attempt)
      return false;
  return true;
}

/* A suspending one is aligned and waits for no other; a drain lets only the final one begin. */
static sc_start_t choose_stop(const sc_coordinator_t *c, const sc_schedule_load_t *load) {
  if (load->preparing)
    return SC_START_NOTHING;
  if (c->stop.state == SC_STOP_WANTED)
    return SC_START_STOP;
  bool final = sc__coordinator_draining(c) && load->final_wanted &&
               load->pending < c->schedule.max_concurrent;
  return final ? SC_START_FINAL : SC_START_NOTHING;
}

sc_start_t sc__coordinator_choose(sc_coordinator_t *c) {
  const sc_pending_t *preparing = sc__coordinator_find_state(c, SC_PENDING_PREPARING);
  sc_schedule_load_t load = {
      .deleting = c->deleting, .preparing = preparing != NULL, .final_wanted = final_wanted(c)};
  for (const sc_pending_t *p = c->pending; p; p = p->next)
    load.pending++;
  bool half = SC_PLANTED(DRAIN_HALF) && sc__coordinator_draining(c) && c->roster.n_unended > 0;
  if (c->stop.state != SC_STOP_NONE && !half)
    return choose_stop(c, &load);
  if (c->config.unaligned && load.pending)
    return SC_START_NOTHING;
  sc_start_t kind = sc_schedule_choose(&c->schedule, c->mono_ms, &load);
  if (kind != SC_START_PERIODIC || !sc__coordinator_lacks_final(c))
    return kind;
  /* Whatever begins now is the final one, and that keeps to its own pauses. */
  sc_schedule_take(&c->schedule, kind);
  return SC_START_NOTHING;
}

void sc__coordinator_refuse(sc_coordinator_t *c, sc_start_t kind, sc_reason_t reason) {
  bool forbids = reason == SC_REASON_NOT_RUNNING && forbidden(c);
  const char *text = forbids
                         ? "only some tasks have ended, and with checkpoint.after_tasks_finish = "
                           "false none is taken before all have"
                         : NULL;
  const sc_failure_t why = {reason, SC_NOBODY, text};
  /* Before the answer: whoever has that finds the failure counted. */
  if (sc_failures_counts(reason) || (forbids && !c->forbidden_told)) {
    sc_outgoing_t *out = sc_outbox_add(&c->outbox, SC_ACT_REFUSED);
    out->action.reason = reason;
    out->text = sc_strdup(text);
  }
  if (kind == SC_START_STOP)
    sc__coordinator_stop_failed(c, &why);
  else
    sc__coordinator_answer(c, sc_schedule_take(&c->schedule, kind), 0, &why);
  if (kind == SC_START_FINAL)
    sc__coordinator_delay_final(c, reason);
  c->forbidden_told |= forbids;
  sc__coordinator_count(c, reason, 0);
}

/* 0 and 1 have a meaning of their own, and a world's clock may begin at 0. The last one of a job is
 * aligned: nothing of it lies between tasks. */
static int64_t overtake_at(const sc_coordinator_t *c, const sc_pending_t *p) {
  if (!c->config.unaligned || p->stop || p->after_end)
    return 0;
  if (c->config.aligned_timeout_ms <= 0)
    return 1;
  int64_t at = sc__after(c->mono_ms, c->config.aligned_timeout_ms);
  return at > 1 ? at : 2;
}

static void append(sc_coordinator_t *c, sc_pending_t *p) {
  sc_pending_t **at = &c->pending;
  while (*at)
    at = &(*at)->next;
  *at = p;
}

/* Nothing may start now: since when only because another has not ended? */
static void note_queued(sc_coordinator_t *c) {
  if (!c->pending || !sc_schedule_wants(&c->schedule, c->mono_ms))
    c->queued_since_ms = INT64_MIN;
  else if (c->queued_since_ms == INT64_MIN)
    c->queued_since_ms = c->mono_ms;
}

static int64_t queued_for(sc_coordinator_t *c) {
  int64_t since_ms = c->queued_since_ms;
  c->queued_since_ms = INT64_MIN; /* the next one waits for this one, from now on */
  return since_ms == INT64_MIN ? 0 : c->mono_ms - since_ms;
}

static void begin_checkpoint(sc_coordinator_t *c, sc_start_t kind, uint64_t id) {
  bool after_end = c->roster.n_unended == 0;
  int64_t timeout_ms = after_end ? c->final_timeout_ms : c->config.timeout_ms;
  sc_pending_t *p = sc_pending_create(id, c->now_ms, sc__after(c->mono_ms, timeout_ms));
  p->attempt = c->attempt;
  p->waited_ms = queued_for(c);
  p->after_end = after_end;
  p->stop = kind == SC_START_STOP;
  p->overtake_at_ms = overtake_at(c, p);
  p->request = p->stop ? c->stop.request : sc_schedule_take(&c->schedule, kind);
  if (p->stop)
    c->stop = (sc_stop_t){.state = SC_STOP_UNDER_WAY};
  append(c, p);
  sc__coordinator_act(c, SC_ACT_PREPARE, p);
}

/* Every task has ended, or is about to: the final checkpoint is the one to stop with. True where
 * that is how the stop goes on, and no checkpoint is to begin for it. */
static bool stop_by_end(sc_coordinator_t *c) {
  if (!c->stop.drain && c->roster.n_unended > 0)
    return false;
  if (c->final_id) {
    c->stop.state = SC_STOP_DONE;
    sc__coordinator_answer_stop(c);
    return true;
  }
  c->stop.drain = true;
  c->stop.state = SC_STOP_UNDER_WAY;
  if (c->roster.n_unended > 0)
    sc_outbox_add(&c->outbox, SC_ACT_DRAIN)->action.request = c->stop.request;
  return true;
}

static void start_next(sc_coordinator_t *c) {
  c->recheck = c->starved = false;
  while (c->running) {
    sc_start_t kind = sc__coordinator_choose(c);
    if (kind == SC_START_NOTHING) {
      note_queued(c);
      return;
    }
    if (kind == SC_START_STOP && (c->final_id || sc_roster_ready(&c->roster)) && stop_by_end(c))
      continue;
    if (!sc__coordinator_ready(c)) {
      sc__coordinator_refuse(c, kind, SC_REASON_NOT_RUNNING);
      continue;
    }
    uint64_t id = sc_ids_take(&c->ids);
    if (id)
      begin_checkpoint(c, kind, id);
    else
      c->starved = true;
    sc__coordinator_reserve(c);
    return; /* one at a time: the next when this one is prepared */
  }
}

void sc__coordinator_advance(sc_coordinator_t *c) {
  answer_leavers(c);
  write_next(c);
  start_next(c);
}
