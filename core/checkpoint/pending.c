#include "pending.h"

#include <stdlib.h>

#include "../base/mem.h"

sc_pending_t *sc_pending_create(uint64_t id, int64_t timestamp_ms, int64_t expires_ms) {
  sc_pending_t *p = sc_calloc(1, sizeof *p);
  p->id = id;
  p->timestamp_ms = timestamp_ms;
  p->expires_ms = expires_ms;
  return p;
}

void sc_pending_destroy(sc_pending_t *p) {
  if (!p)
    return;
  for (uint32_t i = 0; i < p->n_tasks; i++)
    sc_task_snapshot_destroy(p->snapshots[i]);
  free(p->snapshots);
  free(p->waits);
  free(p->left);
  free(p);
}

void sc_pending_plan(sc_pending_t *p, const sc_roster_t *roster) {
  sc_assert(p->state == SC_PENDING_PREPARING && sc_roster_ready(roster));
  p->state = SC_PENDING_PENDING;
  p->n_tasks = roster->n_tasks;
  p->n_missing = roster->n_unfinished;
  p->waits = sc_calloc(p->n_tasks, sizeof *p->waits);
  p->left = sc_calloc(p->n_tasks, sizeof *p->left);
  p->snapshots = sc_calloc(p->n_tasks, sizeof *p->snapshots);
  for (uint32_t i = 0; i < p->n_tasks; i++) {
    p->left[i] = roster->tasks[i].life == SC_TASK_FINISHED;
    p->waits[i] = !p->left[i];
    if (p->left[i])
      p->snapshots[i] = sc_task_snapshot_copy(roster->tasks[i].final);
  }
}

bool sc_pending_waits_for(const sc_pending_t *p, uint32_t task) {
  return task < p->n_tasks && p->waits[task];
}

uint32_t sc_pending_first_missing(const sc_pending_t *p) {
  for (uint32_t i = 0; i < p->n_tasks; i++)
    if (p->waits[i])
      return i;
  return UINT32_MAX;
}

sc_ack_t sc_pending_ack(sc_pending_t *p, sc_task_snapshot_t *snap) {
  uint32_t task = snap->task;
  if (task >= p->n_tasks || p->left[task])
    return SC_ACK_UNKNOWN;
  if (!p->waits[task])
    return SC_ACK_DUPLICATE;
  p->waits[task] = false;
  p->snapshots[task] = snap;
  if (--p->n_missing)
    return SC_ACK_STORED;
  p->state = SC_PENDING_DECIDED;
  return SC_ACK_LAST;
}

static uint32_t n_ended(const sc_pending_t *p) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->n_tasks; i++)
    n += p->snapshots[i]->end != SC_TASK_RUNNING;
  return n;
}

bool sc_pending_is_final(const sc_pending_t *p) {
  return n_ended(p) == p->n_tasks;
}

bool sc_pending_is_mixed(const sc_pending_t *p) {
  uint32_t n = n_ended(p);
  return n > 0 && n < p->n_tasks;
}
