#include "sim_tally.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../core/checkpoint/reason.h"

const char *sim_tally_text(sim_tally_kind_t kind) {
#define TEXT(name, text) text,
  static const char *const texts[] = {SIM_TALLY_MAP(TEXT)};
  return texts[kind];
}

void sim_tally_add(sim_tally_t *t, sim_tally_kind_t kind) { t->n[kind]++; }

void sim_tally_life(sim_tally_t *t, uint32_t life) {
  sim_settings_t s;
  sim_plan_settings(t->plan, life, &s);
  t->life = life;
  t->pending = 0;
  if (s.mode == SIM_AT_LEAST_ONCE && !t->plan->no_checkpoints)
    sim_tally_add(t, SIM_TALLY_AT_LEAST_ONCE);
}

void sim_tally_source_ended(sim_tally_t *t) {
  if (t->pending)
    sim_tally_add(t, SIM_TALLY_ENDED_WITHIN);
}

/* ---- restores ---- */

static bool may_overtake(sim_mode_t mode) { return mode == SIM_OVERTAKING || mode == SIM_TIMED; }

static bool other_parallelism(const sim_tally_t *t, uint32_t life) {
  for (uint32_t c = 0; c < SIM_CLASSES; c++)
    if (sim_plan_parallelism(t->plan, c, life) != sim_plan_parallelism(t->plan, c, t->life))
      return true;
  return false;
}

static void note_modes(sim_tally_t *t, const sim_settings_t *old, const sim_settings_t *now,
                       bool in_flight) {
  if (old->mode == SIM_ALIGNED && may_overtake(now->mode))
    sim_tally_add(t, SIM_TALLY_TO_OVERTAKING);
  if (in_flight && now->mode == SIM_ALIGNED)
    sim_tally_add(t, SIM_TALLY_TO_ALIGNED);
  if (in_flight && now->mode == SIM_AT_LEAST_ONCE)
    sim_tally_add(t, SIM_TALLY_IN_FLIGHT_AT_LEAST_ONCE);
  if (old->mode == now->mode)
    return;
  if (now->mode == SIM_AT_LEAST_ONCE)
    sim_tally_add(t, SIM_TALLY_TO_AT_LEAST_ONCE);
  if (old->mode == SIM_AT_LEAST_ONCE)
    sim_tally_add(t, SIM_TALLY_FROM_AT_LEAST_ONCE);
}

void sim_tally_restored(sim_tally_t *t, uint64_t id) {
  const struct sim_tally_taken *from = NULL;
  sim_settings_t old, now;
  for (uint32_t i = 0; i < t->n_taken && i < SIM_TALLY_TAKEN; i++)
    if (t->taken[i].id == id)
      from = &t->taken[i];
  if (!id)
    return;
  sim_tally_add(t, from && from->finished ? SIM_TALLY_COMPLETE : SIM_TALLY_RESTORED);
  if (!from || from->finished)
    return;
  sim_plan_settings(t->plan, from->life, &old);
  sim_plan_settings(t->plan, t->life, &now);
  bool rescaled = other_parallelism(t, from->life);
  if (rescaled)
    sim_tally_add(t, SIM_TALLY_RESCALED);
  if (from->in_flight)
    sim_tally_add(t, SIM_TALLY_IN_FLIGHT);
  if (rescaled && from->in_flight)
    sim_tally_add(t, SIM_TALLY_RESCALED_IN_FLIGHT);
  if (from->in_flight && t->plan->networks && from->life != t->life)
    sim_tally_add(t, SIM_TALLY_NETWORK_IN_FLIGHT);
  note_modes(t, &old, &now, from->in_flight);
}

/* ---- the log ---- */

static void aborted(sim_tally_t *t, const char *line) {
  static const struct {
    sc_reason_t reason;
    sim_tally_kind_t kind;
  } all[] = {{SC_REASON_EXPIRED, SIM_TALLY_EXPIRED},
             {SC_REASON_DECLINED, SIM_TALLY_DECLINED},
             {SC_REASON_ASYNC_FAILED, SIM_TALLY_DECLINED},
             {SC_REASON_IO, SIM_TALLY_FOLDER},
             {SC_REASON_FINALIZE, SIM_TALLY_METADATA},
             {SC_REASON_SUBSUMED, SIM_TALLY_SUBSUMED},
             {SC_REASON_TASK_FAILED, SIM_TALLY_TASK_FAILED},
             {SC_REASON_STOPPED, SIM_TALLY_STOPPED}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (strstr(line, sc_reason_text(all[i].reason)))
      sim_tally_add(t, all[i].kind);
  t->pending -= t->pending > 0;
}

static void triggered(sim_tally_t *t) {
  if (++t->pending == 2)
    sim_tally_add(t, SIM_TALLY_TOGETHER);
}

void sim_tally_log(sim_tally_t *t, const char *line) {
  uint64_t id;
  const char *from;
  if (strstr(line, ": triggered ("))
    triggered(t);
  else if (strstr(line, ": completed in "))
    t->pending -= t->pending > 0;
  else if (strstr(line, ": aborted: "))
    aborted(t, line);
  else if (strstr(line, "came too late"))
    sim_tally_add(t, SIM_TALLY_LATE);
  else if (strstr(line, "its final checkpoint, which is tried again"))
    sim_tally_add(t, SIM_TALLY_FINAL_AGAIN);
  else if (strstr(line, "no checkpoint is taken for now"))
    sim_tally_add(t, SIM_TALLY_REFUSED);
  else if (strstr(line, "failed, restarts in"))
    sim_tally_add(t, SIM_TALLY_RESTARTED);
  else if ((from = strstr(line, "recovered in ")) != NULL &&
           (from = strstr(from, "chk-")) != NULL && sscanf(from, "chk-%" SCNu64, &id) == 1)
    sim_tally_restored(t, id);
  if (strstr(line, "given up: the barrier of checkpoint"))
    sim_tally_add(t, SIM_TALLY_SUPERSEDED);
  if (strstr(line, "the rest runs on"))
    sim_tally_add(t, SIM_TALLY_ALONE);
  if (strstr(line, "are not chained in this run"))
    sim_tally_add(t, SIM_TALLY_UNCHAINED);
  if (strstr(line, "in a row than tolerable_failures"))
    sim_tally_add(t, SIM_TALLY_INTOLERABLE);
}

/* ---- checkpoints ---- */

typedef struct kept {
  bool sender, receiver, source, again;
} kept_t;

static bool is_source(const sim_tally_t *t, const char *uid) {
  for (uint32_t i = 0; i < t->plan->n_nodes; i++)
    if (strcmp(t->plan->nodes[i].uid, uid) == 0)
      return t->plan->nodes[i].kind == SIM_SOURCE;
  return false;
}

static void look_at_handle(const sim_tally_t *t, const sc_metadata_t *m, const sc_handle_t *h,
                           kept_t *kept) {
  const sc_handle_inflight_t *f = &h->inflight;
  if (h->kind != SC_HANDLE_INFLIGHT || f->bytes == 0)
    return;
  if (h->directory)
    kept->again = true;
  else if (f->side == 0)
    kept->receiver = true;
  else if (f->edge < m->n_edges && is_source(t, m->edges[f->edge].from_uid))
    kept->source = true;
  else
    kept->sender = true;
}

static void note_kept(sim_tally_t *t, const kept_t *kept) {
  sim_settings_t s;
  sim_plan_settings(t->plan, t->life, &s);
  bool timed = s.mode == SIM_TIMED;
  if (kept->sender || kept->source)
    sim_tally_add(t, SIM_TALLY_KEPT_SENDER);
  if (kept->receiver)
    sim_tally_add(t, SIM_TALLY_KEPT_RECEIVER);
  if (kept->again)
    sim_tally_add(t, SIM_TALLY_KEPT_AGAIN);
  if (kept->source && timed)
    sim_tally_add(t, SIM_TALLY_TIMED_SOURCE);
  if (kept->sender && timed)
    sim_tally_add(t, SIM_TALLY_TIMED_SENDER);
  if (kept->receiver && timed)
    sim_tally_add(t, SIM_TALLY_TIMED_RECEIVER);
}

void sim_tally_checkpoint(sim_tally_t *t, const sc_metadata_t *m) {
  kept_t kept = {0};
  bool running = false, ended = false;
  for (uint32_t i = 0; i < m->n_operators; i++)
    for (uint32_t s = 0; s < m->operators[i].parallelism; s++) {
      const sc_metadata_subtask_t *sub = &m->operators[i].subtasks[s];
      running |= sub->end == SC_TASK_RUNNING;
      ended |= sub->end != SC_TASK_RUNNING;
      for (uint32_t h = 0; h < sub->state.n_handles; h++)
        look_at_handle(t, m, &sub->state.handles[h], &kept);
    }
  bool in_flight = kept.sender || kept.receiver || kept.source || kept.again;
  sim_tally_add(t, SIM_TALLY_COMPLETED);
  if (!m->finished)
    sim_tally_add(t, SIM_TALLY_MIDDLE);
  if (running && ended)
    sim_tally_add(t, SIM_TALLY_SOME_ENDED);
  note_kept(t, &kept);
  t->taken[t->n_taken++ % SIM_TALLY_TAKEN] =
      (struct sim_tally_taken){m->id, t->life, in_flight, m->finished};
}
