#include "statistics.h"

#include <stdlib.h>

#include "../base/mem.h"
#include "statistics_parts.h"

sc_statistics_t *sc_statistics_create(uint32_t history) {
  sc_statistics_t *s = sc_calloc(1, sizeof *s);
  s->history = history ? history : 1;
  s->explain_after_ms = SC_EXPLAIN_AFTER_MS;
  s->entries = sc_calloc(s->history, sizeof *s->entries);
  return s;
}

static void entry_fini(const sc_statistics_t *s, sc__entry_t *e) {
  for (uint32_t i = 0; e->subtasks && i < s->n_subtasks; i++)
    free(e->subtasks[i].place);
  free(e->path);
  free(e->reason);
  free(e->subtasks);
  *e = (sc__entry_t){0};
}

void sc_statistics_destroy(sc_statistics_t *s) {
  if (!s)
    return;
  for (uint32_t i = 0; i < s->history; i++)
    entry_fini(s, &s->entries[i]);
  entry_fini(s, &s->latest_completed);
  entry_fini(s, &s->latest_savepoint);
  entry_fini(s, &s->latest_failed);
  for (uint32_t i = 0; i < s->n_tasks; i++)
    free(s->tasks[i].name);
  free(s->tasks);
  free(s->open);
  free(s->entries);
  free(s->restored_path);
  free(s);
}

void sc_statistics_add_task(sc_statistics_t *s, const char *name, uint32_t subtasks) {
  sc_assert(s->triggered == 0);
  s->tasks = sc_realloc(s->tasks, (s->n_tasks + 1) * sizeof *s->tasks);
  s->tasks[s->n_tasks++] = (sc__task_name_t){sc_strdup(name), s->n_subtasks, subtasks, false};
  s->n_subtasks += subtasks;
}

void sc_statistics_task_is_sink(sc_statistics_t *s) {
  sc_assert(s->n_tasks > 0);
  s->tasks[s->n_tasks - 1].sink = true;
}

void sc_statistics_explain_after(sc_statistics_t *s, int64_t ms) {
  s->explain_after_ms = ms;
}

static sc__entry_t *find(const sc_statistics_t *s, uint64_t id) {
  for (uint32_t i = 0; i < s->count; i++)
    if (sc__statistics_nth(s, i)->id == id)
      return sc__statistics_nth(s, i);
  return NULL;
}

/* ---- which are in progress, also of those that have left the history ---- */

static void open_id(sc_statistics_t *s, uint64_t id) {
  if (s->n_open == s->open_cap) {
    s->open_cap = s->open_cap ? s->open_cap * 2 : 4;
    s->open = sc_realloc(s->open, s->open_cap * sizeof *s->open);
  }
  s->open[s->n_open++] = id;
}

static void close_id(sc_statistics_t *s, uint64_t id) {
  for (uint32_t i = 0; i < s->n_open; i++)
    if (s->open[i] == id) {
      s->open[i] = s->open[--s->n_open];
      return;
    }
}

/* ---- events ---- */

static void acknowledge(sc__entry_t *e, uint32_t subtask, const sc__subtask_entry_t *what) {
  sc__subtask_entry_t *t = &e->subtasks[subtask], before = *t;
  *t = *what;
  t->seen = before.seen;
  t->blocked = before.blocked;
  t->snapshots = before.snapshots;
  t->place = before.place;
  sc__sizes_add(&e->sizes, &what->sizes);
  e->unaligned |= what->unaligned;
  e->acknowledged++;
  if (what->ack_ms > e->latest_ack_ms)
    e->latest_ack_ms = what->ack_ms;
}

void sc_statistics_triggered(sc_statistics_t *s, const sc_statistics_begin_t *begin) {
  if (s->count == s->history) {
    entry_fini(s, sc__statistics_nth(s, 0));
    s->first = (s->first + 1) % s->history;
    s->count--;
  }
  sc__entry_t *e = sc__statistics_nth(s, s->count++);
  *e = (sc__entry_t){.id = begin->id,
                     .manual = begin->manual,
                     .savepoint = begin->savepoint,
                     .trigger_ms = begin->trigger_ms,
                     .waited_ms = begin->waited_ms,
                     .prepared_ms = begin->prepared_ms,
                     .latest_ack_ms = SC_UNKNOWN,
                     .end_ms = SC_UNKNOWN,
                     .subtasks = sc_calloc(s->n_subtasks, sizeof *e->subtasks)};
  for (uint32_t i = 0; i < s->n_subtasks; i++) {
    e->subtasks[i].ack_ms = SC_UNKNOWN;
    if (begin->finished && begin->finished[i])
      acknowledge(e, i, &(sc__subtask_entry_t){.ack_ms = begin->trigger_ms, .finished = true,
                                                .last_from = SC_EXPLAIN_NOBODY});
  }
  s->triggered++;
  open_id(s, begin->id);
}

void sc_statistics_ack(sc_statistics_t *s, uint64_t id, int64_t now_ms,
                       const sc_task_snapshot_t *snap) {
  sc__entry_t *e = find(s, id);
  if (!e || snap->task >= s->n_subtasks || e->subtasks[snap->task].ack_ms != SC_UNKNOWN)
    return;
  acknowledge(e, snap->task,
              &(sc__subtask_entry_t){.ack_ms = now_ms,
                                     .unaligned = snap->unaligned,
                                     .sizes = {.checkpointed = snap->bytes,
                                               .state = sc_task_snapshot_size(snap),
                                               .processed = snap->alignment_bytes,
                                               .persisted = snap->persisted_bytes},
                                     .sync_ns = snap->sync_ns,
                                     .async_ns = snap->async_ns,
                                     .held_ns = snap->held_ns,
                                     .pool_ns = snap->pool_ns,
                                     .storage_ns = snap->storage_ns,
                                     .last_from = snap->last_from,
                                     .queued = snap->queued_bytes,
                                     .received = snap->received_bytes,
                                     .alignment_ns = snap->alignment_ns,
                                     .start_delay_ns = snap->start_delay_ns});
}

static bool waits_for(const sc__entry_t *e, uint32_t subtask) {
  return e->status == SC__IN_PROGRESS && e->subtasks[subtask].ack_ms == SC_UNKNOWN;
}

int64_t sc_statistics_oldest_trigger(const sc_statistics_t *s) {
  for (uint32_t i = 0; i < s->count; i++)
    if (sc__statistics_nth(s, i)->status == SC__IN_PROGRESS)
      return sc__statistics_nth(s, i)->trigger_ms;
  return INT64_MAX;
}

void sc_statistics_waits(const sc_statistics_t *s, bool *waits) {
  for (uint32_t i = 0; i < s->count; i++)
    for (uint32_t k = 0; k < s->n_subtasks; k++)
      waits[k] |= waits_for(sc__statistics_nth(s, i), k);
}

void sc_statistics_seen(sc_statistics_t *s, uint32_t subtask, const char *place, uint32_t how) {
  bool returned = how & SC_SEEN_RETURNED;
  for (uint32_t i = 0; i < s->count && subtask < s->n_subtasks; i++) {
    sc__entry_t *e = sc__statistics_nth(s, i);
    sc__subtask_entry_t *t = &e->subtasks[subtask];
    if (!waits_for(e, subtask))
      continue;
    t->blocked = !place || (t->blocked && returned); /* else it was only slow to answer */
    t->seen++;
    t->snapshots = how & SC_SEEN_IN_SNAPSHOT;
    if (place) {
      free(t->place);
      t->place = sc_strdup(place);
    }
  }
}

/* Keep an entry as the latest of its kind; it may leave the history before the next one comes. */
static void keep_latest(const sc_statistics_t *s, sc__entry_t *latest, const sc__entry_t *e) {
  entry_fini(s, latest);
  *latest = *e;
  latest->path = sc_strdup(e->path);
  latest->reason = sc_strdup(e->reason);
  latest->subtasks = NULL;
}

/* An end, of one in the history or of one that has left it, of which only that much is known. */
static const sc__entry_t *finish(sc_statistics_t *s, const sc__entry_t *end) {
  sc__entry_t *e = find(s, end->id);
  close_id(s, end->id);
  if (!e)
    return end;
  e->status = end->status;
  e->end_ms = end->end_ms;
  free(e->path);
  free(e->reason);
  e->path = sc_strdup(end->path);
  e->reason = sc_strdup(end->reason);
  return e;
}

void sc_statistics_completed(sc_statistics_t *s, uint64_t id, int64_t now_ms, const char *path) {
  sc__entry_t end = {.id = id, .status = SC__COMPLETED, .trigger_ms = SC_UNKNOWN,
                     .latest_ack_ms = SC_UNKNOWN, .end_ms = now_ms, .path = sc_strdup(path)};
  const sc__entry_t *e = finish(s, &end);
  keep_latest(s, e->savepoint ? &s->latest_savepoint : &s->latest_completed, e);
  entry_fini(s, &end);
  s->completed++;
}

void sc_statistics_failed(sc_statistics_t *s, uint64_t id, int64_t now_ms, const char *reason) {
  s->failed++;
  if (!id) /* it never had one, and is not to hide a failure that has more to tell */
    return;
  sc__entry_t end = {.id = id, .status = SC__FAILED, .trigger_ms = SC_UNKNOWN,
                     .latest_ack_ms = SC_UNKNOWN, .end_ms = now_ms, .reason = sc_strdup(reason)};
  keep_latest(s, &s->latest_failed, finish(s, &end));
  entry_fini(s, &end);
}

void sc_statistics_discarded(sc_statistics_t *s, uint64_t id) {
  sc__entry_t *e = find(s, id);
  if (e)
    e->discarded = true;
  if (s->latest_completed.id == id)
    s->latest_completed.discarded = true;
}

bool sc_statistics_explain(const sc_statistics_t *s, uint64_t id, int64_t now_ms,
                           sc_explanation_t *out) {
  const sc__entry_t *e = find(s, id);
  if (e)
    sc__statistics_explain(s, e, now_ms, out);
  return e != NULL;
}

void sc_statistics_restored(sc_statistics_t *s, uint64_t id, int64_t now_ms, const char *path) {
  free(s->restored_path);
  s->restored_path = sc_strdup(path);
  s->restored_id = id;
  s->restored_ms = now_ms;
  s->restored++;
}
