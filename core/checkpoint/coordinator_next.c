#include "coordinator_parts.h"

#include "../base/mem.h"

void sc__coordinator_reserve(sc_coordinator_t *c) {
  uint64_t up_to = sc_ids_ask(&c->ids);
  if (up_to)
    sc_outbox_add(&c->outbox, SC_ACT_RESERVE)->action.id = up_to;
}

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
  sc_pending_t *p = sc__coordinator_find_state(c, SC_PENDING_DECIDED);
  if (!p || sc__coordinator_find_state(c, SC_PENDING_WRITING))
    return;
  p->state = SC_PENDING_WRITING;
  sc_outgoing_t *out = sc__coordinator_act(c, SC_ACT_WRITE, p);
  out->action.snapshots = p->snapshots;
  out->action.n_tasks = p->n_tasks;
  out->action.final = sc_pending_is_final(p);
}

/* May a checkpoint be taken of the tasks as they are now? */
bool sc__coordinator_ready(const sc_coordinator_t *c) {
  const sc_roster_t *r = &c->roster;
  bool some_ended = r->n_unended > 0 && r->n_unended < r->n_tasks;
  return sc_roster_ready(r) && !(c->config.all_or_none && some_ended);
}

/* A job without periodic checkpoints ends without a final one; its tasks know that, too. */
bool sc__coordinator_lacks_final(const sc_coordinator_t *c) {
  return c->running && c->config.interval_ms > 0 && sc_roster_wants_final(&c->roster) &&
         sc_roster_ready(&c->roster);
}

static bool final_wanted(const sc_coordinator_t *c) {
  if (!sc__coordinator_lacks_final(c) || c->mono_ms < c->final_after_ms)
    return false;
  for (const sc_pending_t *p = c->pending; p; p = p->next)
    if (p->after_end && p->attempt == c->attempt)
      return false;
  return true;
}

sc_start_t sc__coordinator_choose(sc_coordinator_t *c) {
  const sc_pending_t *preparing = sc__coordinator_find_state(c, SC_PENDING_PREPARING);
  sc_schedule_load_t load = {
      .deleting = c->deleting, .preparing = preparing != NULL, .final_wanted = final_wanted(c)};
  for (const sc_pending_t *p = c->pending; p; p = p->next)
    load.pending++;
  if (c->config.unaligned && load.pending)
    return SC_START_NOTHING;
  return sc_schedule_choose(&c->schedule, c->mono_ms, &load);
}

/* What was chosen cannot start. */
void sc__coordinator_refuse(sc_coordinator_t *c, sc_start_t kind, sc_reason_t reason) {
  const sc_failure_t why = {reason, SC_NOBODY, NULL};
  sc__coordinator_answer(c, sc_schedule_take(&c->schedule, kind), 0, &why);
  if (kind == SC_START_FINAL)
    sc__coordinator_delay_final(c);
  sc__coordinator_count(c, reason, 0);
}

/* 0 and 1 have a meaning of their own, and a world's clock may begin at 0. */
static int64_t overtake_at(const sc_coordinator_t *c) {
  if (!c->config.unaligned)
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

static void begin_checkpoint(sc_coordinator_t *c, sc_start_t kind, uint64_t id) {
  sc_pending_t *p = sc_pending_create(id, c->now_ms, sc__after(c->mono_ms, c->config.timeout_ms));
  p->attempt = c->attempt;
  p->overtake_at_ms = overtake_at(c);
  p->request = sc_schedule_take(&c->schedule, kind);
  p->after_end = c->roster.n_unended == 0;
  append(c, p);
  sc__coordinator_act(c, SC_ACT_PREPARE, p);
}

static void start_next(sc_coordinator_t *c) {
  c->recheck = c->starved = false;
  while (c->running) {
    sc_start_t kind = sc__coordinator_choose(c);
    if (kind == SC_START_NOTHING)
      return;
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
