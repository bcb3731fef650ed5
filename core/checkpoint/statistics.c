#include "statistics.h"

#include <stdlib.h>

#include "../base/mem.h"
#include "../data/value.h"

#define UNKNOWN INT64_MIN /* a time that has not come */

typedef struct task_entry {
  int64_t ack_ms;        /* when its acknowledgement came, or UNKNOWN */
  uint64_t state_size;   /* bytes written */
  uint64_t processed;    /* bytes processed during alignment */
  uint64_t persisted;    /* bytes of in-flight data kept */
  bool unaligned;
  int64_t sync_ns, async_ns, alignment_ns, start_delay_ns; /* as it measured them */
} task_entry_t;

typedef enum { IN_PROGRESS, COMPLETED, FAILED } status_t;

typedef struct entry {
  uint64_t id;            /* 0: none */
  status_t status;        /* what became of it */
  bool manual;            /* begun by a request */
  int64_t trigger_ms;     /* when it was triggered */
  int64_t latest_ack_ms;  /* newest acknowledgement, or UNKNOWN */
  int64_t end_ms;         /* when it completed or failed, or UNKNOWN */
  uint64_t state_size;    /* sums over its tasks */
  uint64_t processed;
  uint64_t persisted;
  bool unaligned;         /* in one of them, at least */
  uint32_t acknowledged;  /* tasks that did */
  char *path;             /* of a completed one */
  char *reason;           /* of a failed one */
  task_entry_t *tasks;    /* n_tasks; NULL in the copies kept as latest */
} entry_t;

struct sc_statistics {
  uint32_t n_tasks;
  char **names;              /* n_tasks; NULL where not given */
  uint32_t history;          /* entries kept */
  entry_t *entries;          /* ring of `history` */
  uint32_t first, count;     /* of the ring: oldest, and how many */
  uint64_t triggered, completed, failed, restored; /* counts */
  entry_t latest_completed;  /* id 0 if none */
  entry_t latest_failed;     /* id 0 if none */
  uint64_t restored_id;      /* of the latest restore */
  int64_t restored_ms;       /* when */
  char *restored_path;       /* from where, or NULL */
};

sc_statistics_t *sc_statistics_create(uint32_t history, uint32_t n_tasks) {
  sc_statistics_t *s = sc_calloc(1, sizeof *s);
  s->n_tasks = n_tasks;
  s->names = sc_calloc(n_tasks, sizeof *s->names);
  s->history = history ? history : 1;
  s->entries = sc_calloc(s->history, sizeof *s->entries);
  return s;
}

static void entry_fini(entry_t *e) {
  free(e->path);
  free(e->reason);
  free(e->tasks);
  *e = (entry_t){0};
}

void sc_statistics_destroy(sc_statistics_t *s) {
  if (!s)
    return;
  for (uint32_t i = 0; i < s->history; i++)
    entry_fini(&s->entries[i]);
  entry_fini(&s->latest_completed);
  entry_fini(&s->latest_failed);
  for (uint32_t i = 0; i < s->n_tasks; i++)
    free(s->names[i]);
  free(s->names);
  free(s->entries);
  free(s->restored_path);
  free(s);
}

void sc_statistics_task_name(sc_statistics_t *s, uint32_t task, const char *name) {
  if (task >= s->n_tasks)
    return;
  free(s->names[task]);
  s->names[task] = sc_strdup(name);
}

/* The i-th of the history, oldest first. */
static entry_t *nth(const sc_statistics_t *s, uint32_t i) {
  return &s->entries[(s->first + i) % s->history];
}

static entry_t *find(const sc_statistics_t *s, uint64_t id) {
  for (uint32_t i = 0; i < s->count; i++)
    if (nth(s, i)->id == id)
      return nth(s, i);
  return NULL;
}

void sc_statistics_triggered(sc_statistics_t *s, uint64_t id, int64_t now_ms, bool manual) {
  if (s->count == s->history) {
    entry_fini(nth(s, 0));
    s->first = (s->first + 1) % s->history;
    s->count--;
  }
  entry_t *e = nth(s, s->count++);
  *e = (entry_t){.id = id,
                 .manual = manual,
                 .trigger_ms = now_ms,
                 .latest_ack_ms = UNKNOWN,
                 .end_ms = UNKNOWN,
                 .tasks = sc_calloc(s->n_tasks, sizeof *e->tasks)};
  for (uint32_t i = 0; i < s->n_tasks; i++)
    e->tasks[i].ack_ms = UNKNOWN;
  s->triggered++;
}

void sc_statistics_ack(sc_statistics_t *s, uint64_t id, int64_t now_ms,
                       const sc_task_snapshot_t *snap) {
  entry_t *e = find(s, id);
  if (!e || snap->task >= s->n_tasks || e->tasks[snap->task].ack_ms != UNKNOWN)
    return;
  e->tasks[snap->task] = (task_entry_t){.ack_ms = now_ms,
                                        .state_size = snap->bytes,
                                        .processed = snap->alignment_bytes,
                                        .persisted = snap->persisted_bytes,
                                        .unaligned = snap->unaligned,
                                        .sync_ns = snap->sync_ns,
                                        .async_ns = snap->async_ns,
                                        .alignment_ns = snap->alignment_ns,
                                        .start_delay_ns = snap->start_delay_ns};
  e->state_size += snap->bytes;
  e->processed += snap->alignment_bytes;
  e->persisted += snap->persisted_bytes;
  e->unaligned |= snap->unaligned;
  e->acknowledged++;
  if (now_ms > e->latest_ack_ms)
    e->latest_ack_ms = now_ms;
}

/* Keep an entry as the latest of its kind; it may leave the history before the next one comes. */
static void keep_latest(entry_t *latest, const entry_t *e) {
  entry_fini(latest);
  *latest = *e;
  latest->path = sc_strdup(e->path);
  latest->reason = sc_strdup(e->reason);
  latest->tasks = NULL;
}

/* An end, of one in the history or of one that has left it, of which only that much is known. */
static void finish(sc_statistics_t *s, uint64_t id, const entry_t *end, entry_t *latest) {
  entry_t *e = find(s, id);
  if (!e) {
    keep_latest(latest, end);
    return;
  }
  e->status = end->status;
  e->end_ms = end->end_ms;
  free(e->path);
  free(e->reason);
  e->path = sc_strdup(end->path);
  e->reason = sc_strdup(end->reason);
  keep_latest(latest, e);
}

void sc_statistics_completed(sc_statistics_t *s, uint64_t id, int64_t now_ms, const char *path) {
  char *copy = sc_strdup(path);
  finish(s, id,
         &(entry_t){.id = id, .status = COMPLETED, .trigger_ms = UNKNOWN, .latest_ack_ms = UNKNOWN,
                    .end_ms = now_ms, .path = copy},
         &s->latest_completed);
  free(copy);
  s->completed++;
}

void sc_statistics_failed(sc_statistics_t *s, uint64_t id, int64_t now_ms, const char *reason) {
  char *copy = sc_strdup(reason);
  finish(s, id,
         &(entry_t){.id = id, .status = FAILED, .trigger_ms = UNKNOWN, .latest_ack_ms = UNKNOWN,
                    .end_ms = now_ms, .reason = copy},
         &s->latest_failed);
  free(copy);
  s->failed++;
}

void sc_statistics_restored(sc_statistics_t *s, uint64_t id, int64_t now_ms, const char *path) {
  free(s->restored_path);
  s->restored_path = sc_strdup(path);
  s->restored_id = id;
  s->restored_ms = now_ms;
  s->restored++;
}

/* ---- encoding: a map is written before its size is known, so its pairs are counted aside ---- */

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
  if (ms != UNKNOWN)
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
  if (from_ms != UNKNOWN && to_ms != UNKNOWN)
    sc_pack_float(key(m, name), to_ms > from_ms ? (double)(to_ms - from_ms) : 0.0);
}

static void end_map(map_t *m, sc_buf_t *out) {
  sc_pack_map(out, m->n);
  sc_buf_put_bytes(out, sc_buf_bytes(&m->pairs));
  sc_buf_free(&m->pairs);
}

static void encode_task(const sc_statistics_t *s, const entry_t *e, uint32_t i, sc_buf_t *out) {
  const task_entry_t *t = &e->tasks[i];
  map_t m = {SC_BUF_INIT, 0};
  put_text(&m, "name", s->names[i]);
  put_bool(&m, "acknowledged", t->ack_ms != UNKNOWN);
  if (t->ack_ms != UNKNOWN) {
    put_time(&m, "ack_timestamp", t->ack_ms);
    put_span(&m, "end_to_end_duration", e->trigger_ms, t->ack_ms);
    put_size(&m, "state_size", t->state_size);
    put_size(&m, "processed_data", t->processed);
    put_size(&m, "persisted_data", t->persisted);
    put_bool(&m, "unaligned", t->unaligned);
    put_ns(&m, "sync_duration", t->sync_ns);
    put_ns(&m, "async_duration", t->async_ns);
    put_ns(&m, "alignment_duration", t->alignment_ns);
    put_ns(&m, "start_delay", t->start_delay_ns);
  }
  end_map(&m, out);
}

static void encode_entry(const sc_statistics_t *s, const entry_t *e, sc_buf_t *out) {
  static const char *const status[] = {"in_progress", "completed", "failed"};
  map_t m = {SC_BUF_INIT, 0};
  put_size(&m, "id", e->id);
  put_text(&m, "status", status[e->status]);
  put_bool(&m, "manual", e->manual);
  put_time(&m, "trigger_timestamp", e->trigger_ms);
  put_time(&m, "latest_ack_timestamp", e->latest_ack_ms);
  put_span(&m, "end_to_end_duration", e->trigger_ms,
           e->end_ms != UNKNOWN ? e->end_ms : e->latest_ack_ms);
  put_size(&m, "state_size", e->state_size);
  put_size(&m, "processed_data", e->processed);
  put_size(&m, "persisted_data", e->persisted);
  put_bool(&m, "unaligned", e->unaligned);
  put_int(&m, "acknowledged", e->acknowledged);
  put_text(&m, "path", e->path);
  put_text(&m, "reason", e->reason);
  if (e->tasks) {
    sc_pack_array(key(&m, "tasks"), s->n_tasks);
    for (uint32_t i = 0; i < s->n_tasks; i++)
      encode_task(s, e, i, &m.pairs);
  }
  end_map(&m, out);
}

static void encode_counts(const sc_statistics_t *s, sc_buf_t *out) {
  map_t m = {SC_BUF_INIT, 0};
  uint64_t ended = s->completed + s->failed;
  put_size(&m, "triggered", s->triggered);
  put_size(&m, "in_progress", s->triggered > ended ? s->triggered - ended : 0);
  put_size(&m, "completed", s->completed);
  put_size(&m, "failed", s->failed);
  put_size(&m, "restored", s->restored);
  end_map(&m, out);
}

static void encode_latest(const sc_statistics_t *s, sc_buf_t *out) {
  map_t m = {SC_BUF_INIT, 0};
  if (s->latest_completed.id)
    encode_entry(s, &s->latest_completed, key(&m, "completed"));
  if (s->latest_failed.id)
    encode_entry(s, &s->latest_failed, key(&m, "failed"));
  if (s->restored) {
    map_t r = {SC_BUF_INIT, 0};
    put_size(&r, "id", s->restored_id);
    put_time(&r, "restore_timestamp", s->restored_ms);
    put_text(&r, "path", s->restored_path);
    end_map(&r, key(&m, "restored"));
  }
  end_map(&m, out);
}

void sc_statistics_encode(const sc_statistics_t *s, sc_buf_t *out) {
  map_t m = {SC_BUF_INIT, 0};
  encode_counts(s, key(&m, "counts"));
  encode_latest(s, key(&m, "latest"));
  sc_pack_array(key(&m, "history"), s->count);
  for (uint32_t i = s->count; i-- > 0;)
    encode_entry(s, nth(s, i), &m.pairs);
  end_map(&m, out);
}
