/* statistics_encode: the statistics as msgpack (statistics.h says what is in it). A map is written
 * before its size is known, so its pairs are counted aside. */
#include <stdlib.h>

#include "../data/value.h"
#include "statistics_parts.h"

typedef struct map {
  sc_buf_t pairs; /* encoded keys and values */
  uint32_t n;     /* how many pairs */
} map_t;

static sc_buf_t *key(map_t *m, const char *name) {
  sc_pack_cstr(&m->pairs, name);
  m->n++;
  return &m->pairs;
}

static void put_int(map_t *m, const char *name, int64_t v) { sc_pack_int(key(m, name), v); }

static void put_size(map_t *m, const char *name, uint64_t v) {
  put_int(m, name, v > INT64_MAX ? INT64_MAX : (int64_t)v);
}

static void put_bool(map_t *m, const char *name, bool v) { sc_pack_bool(key(m, name), v); }

static void put_time(map_t *m, const char *name, int64_t ms) {
  if (ms != SC_UNKNOWN)
    put_int(m, name, ms);
}

static void put_text(map_t *m, const char *name, const char *text) {
  if (text)
    sc_pack_cstr(key(m, name), text);
}

static void put_ns(map_t *m, const char *name, int64_t ns) {
  sc_pack_float(key(m, name), (double)ns / 1e6);
}

static void put_span(map_t *m, const char *name, int64_t from_ms, int64_t to_ms) {
  if (from_ms != SC_UNKNOWN && to_ms != SC_UNKNOWN)
    sc_pack_float(key(m, name), to_ms > from_ms ? (double)(to_ms - from_ms) : 0.0);
}

static void put_sizes(map_t *m, const sc__sizes_t *sizes) {
  put_size(m, "checkpointed_size", sizes->checkpointed);
  put_size(m, "state_size", sizes->state);
  put_size(m, "processed_data", sizes->processed);
  put_size(m, "persisted_data", sizes->persisted);
}

static void end_map(map_t *m, sc_buf_t *out) {
  sc_pack_map(out, m->n);
  sc_buf_put_bytes(out, sc_buf_bytes(&m->pairs));
  sc_buf_free(&m->pairs);
}

static void encode_subtask(const sc__entry_t *e, const sc__subtask_entry_t *t, uint32_t index,
                           sc_buf_t *out) {
  map_t m = {SC_BUF_INIT, 0};
  put_int(&m, "index", index);
  put_bool(&m, "acknowledged", t->ack_ms != SC_UNKNOWN);
  put_bool(&m, "finished", t->finished);
  if (t->ack_ms != SC_UNKNOWN) {
    put_time(&m, "ack_timestamp", t->ack_ms);
    put_span(&m, "end_to_end_duration", e->trigger_ms, t->ack_ms);
    put_sizes(&m, &t->sizes);
    put_ns(&m, "sync_duration", t->sync_ns);
    put_ns(&m, "async_duration", t->async_ns);
    put_ns(&m, "alignment_duration", t->alignment_ns);
    put_ns(&m, "start_delay", t->start_delay_ns);
    put_bool(&m, "unaligned_checkpoint", t->unaligned);
  }
  end_map(&m, out);
}

static const char *status_name(sc__status_t status) {
  static const char *const names[] = {"in_progress", "completed", "failed"};
  return names[status];
}

static void encode_task(const sc__entry_t *e, const sc__task_name_t *task, sc_buf_t *out) {
  sc__sizes_t sizes = {0};
  int64_t latest_ms = SC_UNKNOWN;
  uint32_t acknowledged = 0;
  map_t m = {SC_BUF_INIT, 0};
  for (uint32_t i = 0; i < task->n; i++) {
    const sc__subtask_entry_t *t = &e->subtasks[task->first + i];
    sc__sizes_add(&sizes, &t->sizes);
    acknowledged += t->ack_ms != SC_UNKNOWN;
    latest_ms = t->ack_ms > latest_ms ? t->ack_ms : latest_ms;
  }
  put_text(&m, "name", task->name);
  put_text(&m, "status", status_name(acknowledged == task->n ? SC__COMPLETED : e->status));
  put_time(&m, "latest_ack_timestamp", latest_ms);
  put_span(&m, "end_to_end_duration", e->trigger_ms, latest_ms);
  put_int(&m, "num_subtasks", task->n);
  put_int(&m, "num_acknowledged_subtasks", acknowledged);
  put_sizes(&m, &sizes);
  sc_pack_array(key(&m, "subtasks"), task->n);
  for (uint32_t i = 0; i < task->n; i++)
    encode_subtask(e, &e->subtasks[task->first + i], i, &m.pairs);
  end_map(&m, out);
}

static void put_explanation(const sc_statistics_t *s, const sc__entry_t *e, int64_t now_ms,
                            map_t *m) {
  sc_explanation_t x;
  sc__statistics_explain(s, e, now_ms, &x);
  put_text(m, "cause", sc_cause_name(x.cause));
  put_text(m, "explanation", x.text);
  sc_pack_array(key(m, "critical_path"), x.n_path);
  for (uint32_t i = 0; i < x.n_path; i++) {
    char *name = sc__statistics_subtask_name(s, x.path[i]);
    sc_pack_cstr(&m->pairs, name);
    free(name);
  }
  sc_explanation_fini(&x);
}

static void encode_entry(const sc_statistics_t *s, const sc__entry_t *e, int64_t now_ms,
                         sc_buf_t *out) {
  map_t m = {SC_BUF_INIT, 0};
  put_size(&m, "id", e->id);
  put_text(&m, "status", status_name(e->status));
  put_text(&m, "checkpoint_type",
           e->savepoint ? "savepoint" : e->unaligned ? "unaligned_checkpoint" : "checkpoint");
  put_bool(&m, "manual", e->manual);
  put_time(&m, "trigger_timestamp", e->trigger_ms);
  put_time(&m, "latest_ack_timestamp", e->latest_ack_ms);
  put_span(&m, "end_to_end_duration", e->trigger_ms,
           e->end_ms != SC_UNKNOWN ? e->end_ms : e->latest_ack_ms);
  put_int(&m, "num_subtasks", s->n_subtasks);
  put_int(&m, "num_acknowledged_subtasks", e->acknowledged);
  put_sizes(&m, &e->sizes);
  if (e->status == SC__COMPLETED) {
    put_time(&m, "completed_timestamp", e->end_ms);
    put_bool(&m, "discarded", e->discarded);
  } else if (e->status == SC__FAILED) {
    put_time(&m, "failure_timestamp", e->end_ms);
  }
  put_text(&m, "path", e->path);
  put_text(&m, "reason", e->reason);
  if (e->subtasks) {
    put_explanation(s, e, now_ms, &m);
    sc_pack_array(key(&m, "tasks"), s->n_tasks);
    for (uint32_t i = 0; i < s->n_tasks; i++)
      encode_task(e, &s->tasks[i], &m.pairs);
  }
  end_map(&m, out);
}

static void encode_counts(const sc_statistics_t *s, sc_buf_t *out) {
  map_t m = {SC_BUF_INIT, 0};
  put_size(&m, "triggered", s->triggered);
  put_int(&m, "in_progress", s->n_open);
  put_size(&m, "completed", s->completed);
  put_size(&m, "failed", s->failed);
  put_size(&m, "restored", s->restored);
  end_map(&m, out);
}

static void encode_latest(const sc_statistics_t *s, sc_buf_t *out) {
  map_t m = {SC_BUF_INIT, 0};
  if (s->latest_completed.id)
    encode_entry(s, &s->latest_completed, 0, key(&m, "completed"));
  if (s->latest_savepoint.id)
    encode_entry(s, &s->latest_savepoint, 0, key(&m, "savepoint"));
  if (s->latest_failed.id)
    encode_entry(s, &s->latest_failed, 0, key(&m, "failed"));
  if (s->restored) {
    map_t r = {SC_BUF_INIT, 0};
    put_size(&r, "id", s->restored_id);
    put_time(&r, "restore_timestamp", s->restored_ms);
    put_text(&r, "path", s->restored_path);
    end_map(&r, key(&m, "restored"));
  }
  end_map(&m, out);
}

void sc_statistics_encode(const sc_statistics_t *s, int64_t now_ms, sc_buf_t *out) {
  map_t m = {SC_BUF_INIT, 0};
  encode_counts(s, key(&m, "counts"));
  encode_latest(s, key(&m, "latest"));
  sc_pack_array(key(&m, "history"), s->count);
  for (uint32_t i = s->count; i-- > 0;)
    encode_entry(s, sc__statistics_nth(s, i), now_ms, &m.pairs);
  end_map(&m, out);
}
