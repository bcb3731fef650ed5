/* statistics_explain: what an entry of the statistics gives explain.h to go by. */
#include <stdlib.h>

#include "../base/error.h"
#include "../base/mem.h"
#include "statistics_parts.h"

#define NS_PER_MS 1000000

static const sc__task_name_t *task_of(const sc_statistics_t *s, uint32_t subtask) {
  const sc__task_name_t *t = s->tasks;
  while (subtask >= t->first + t->n)
    t++;
  return t;
}

char *sc__statistics_subtask_name(const sc_statistics_t *s, uint32_t subtask) {
  const sc__task_name_t *t = task_of(s, subtask);
  return sc_format("%s %u/%u", t->name, subtask - t->first + 1, t->n);
}

static int64_t since(int64_t from_ms, int64_t to_ms) {
  return to_ms > from_ms ? (to_ms - from_ms) * NS_PER_MS : 0;
}

static sc_explain_subtask_t subtask_of(const sc_statistics_t *s, const sc__entry_t *e, uint32_t i) {
  const sc__subtask_entry_t *t = &e->subtasks[i];
  const sc__task_name_t *task = task_of(s, i);
  bool acknowledged = t->ack_ms != SC_UNKNOWN;
  return (sc_explain_subtask_t){.name = sc__statistics_subtask_name(s, i),
                                .task = (uint32_t)(task - s->tasks),
                                .sink = task->sink,
                                .acknowledged = acknowledged,
                                .ack_ns = acknowledged ? since(e->trigger_ms, t->ack_ms) : 0,
                                .start_delay_ns = t->start_delay_ns,
                                .alignment_ns = t->alignment_ns,
                                .sync_ns = t->sync_ns,
                                .async_ns = t->async_ns,
                                .held_ns = t->held_ns,
                                .pool_ns = t->pool_ns,
                                .storage_ns = t->storage_ns,
                                .written = t->sizes.checkpointed,
                                .persisted = t->sizes.persisted,
                                .last_from = acknowledged ? t->last_from : SC_EXPLAIN_NOBODY,
                                .queued = t->queued,
                                .received = t->received,
                                .place = t->place,
                                .seen = t->seen,
                                .blocked = t->blocked,
                                .snapshots = t->snapshots};
}

void sc__statistics_explain(const sc_statistics_t *s, const sc__entry_t *e, int64_t now_ms,
                            sc_explanation_t *out) {
  static const sc_explain_end_t ends[] = {SC_EXPLAIN_IN_PROGRESS, SC_EXPLAIN_COMPLETED,
                                          SC_EXPLAIN_FAILED};
  int64_t end_ms = e->end_ms != SC_UNKNOWN ? e->end_ms : now_ms;
  sc_explain_subtask_t *subtasks = sc_calloc(s->n_subtasks, sizeof *subtasks);
  for (uint32_t i = 0; i < s->n_subtasks; i++)
    subtasks[i] = subtask_of(s, e, i);
  bool completed = e->status == SC__COMPLETED && e->latest_ack_ms != SC_UNKNOWN;
  sc_explain_input_t in = {.id = e->id,
                           .end = ends[e->status],
                           .slow_ns = s->explain_after_ms * NS_PER_MS,
                           .took_ns = since(e->trigger_ms, end_ms),
                           .waited_ns = e->waited_ms * NS_PER_MS,
                           .prepare_ns = since(e->trigger_ms, e->prepared_ms),
                           .finish_ns = completed ? since(e->latest_ack_ms, e->end_ms) : 0,
                           .subtasks = subtasks,
                           .n = s->n_subtasks};
  sc_explain(&in, out);
  for (uint32_t i = 0; i < s->n_subtasks; i++)
    free((char *)subtasks[i].name);
  free(subtasks);
}
