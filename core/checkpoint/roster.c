#include "roster.h"

#include <stdlib.h>

#include "../base/mem.h"

void sc_roster_init(sc_roster_t *r) {
  *r = (sc_roster_t){0};
}

void sc_roster_fini(sc_roster_t *r) {
  for (uint32_t i = 0; i < r->n_tasks; i++) {
    free(r->tasks[i].senders);
    sc_task_snapshot_destroy(r->tasks[i].final);
  }
  free(r->tasks);
  sc_roster_init(r);
}

void sc_roster_reset(sc_roster_t *r, const sc_topology_t *t) {
  sc_roster_fini(r);
  r->n_tasks = r->n_unended = r->n_unfinished = t->n_tasks;
  r->tasks = sc_calloc(t->n_tasks, sizeof *r->tasks);
  for (uint32_t i = 0; i < t->n_tasks; i++) {
    sc_roster_task_t *task = &r->tasks[i];
    task->n_senders = t->n_senders[i];
    task->senders = sc_malloc(task->n_senders * sizeof *task->senders);
    for (uint32_t k = 0; k < task->n_senders; k++) {
      sc_assert(t->senders[i][k] < t->n_tasks);
      task->senders[k] = t->senders[i][k];
    }
  }
}

void sc_roster_restart(sc_roster_t *r, uint32_t task) {
  sc_assert(task < r->n_tasks);
  sc_roster_task_t *t = &r->tasks[task];
  r->n_unended += t->life != SC_TASK_RUNNING;
  r->n_unfinished += t->life == SC_TASK_FINISHED;
  t->life = SC_TASK_RUNNING;
  t->asked = false;
  sc_task_snapshot_destroy(t->final);
  t->final = NULL;
}

void sc_roster_end(sc_roster_t *r, uint32_t task) {
  sc_assert(task < r->n_tasks);
  if (r->tasks[task].life != SC_TASK_RUNNING)
    return;
  r->tasks[task].life = SC_TASK_ENDED;
  r->n_unended--;
}

void sc_roster_finish(sc_roster_t *r, uint32_t task) {
  sc_roster_end(r, task);
  sc_roster_task_t *t = &r->tasks[task];
  t->asked = false;
  if (t->life == SC_TASK_FINISHED)
    return;
  t->life = SC_TASK_FINISHED;
  r->n_unfinished--;
}

void sc_roster_keep_final(sc_roster_t *r, uint32_t task, sc_task_snapshot_t *snap) {
  sc_assert(task < r->n_tasks && snap);
  sc_task_snapshot_destroy(r->tasks[task].final);
  snap->end = SC_TASK_FINISHED;
  snap->task = task;
  r->tasks[task].final = snap;
}

bool sc_roster_ready(const sc_roster_t *r) {
  for (uint32_t i = 0; i < r->n_tasks; i++)
    if (r->tasks[i].life == SC_TASK_FINISHED && !r->tasks[i].final)
      return false;
  return r->n_unfinished > 0;
}

bool sc_roster_wants_final(const sc_roster_t *r) {
  if (r->n_unended)
    return false;
  for (uint32_t i = 0; i < r->n_tasks; i++)
    if (r->tasks[i].life != SC_TASK_FINISHED && !r->tasks[i].final)
      return true;
  return false;
}

static bool fed(const sc_roster_t *r, const sc_roster_task_t *task) {
  for (uint32_t k = 0; k < task->n_senders; k++)
    if (r->tasks[task->senders[k]].life != SC_TASK_FINISHED)
      return true;
  return false;
}

uint32_t sc_roster_to_trigger(const sc_roster_t *r, uint32_t *tasks) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < r->n_tasks; i++)
    if (r->tasks[i].life != SC_TASK_FINISHED && !fed(r, &r->tasks[i]))
      tasks[n++] = i;
  return n;
}
