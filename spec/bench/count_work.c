#include "count_work.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "../../core/base/mem.h"

double sc_count_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double sc_count_cpu(void) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
         (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-6;
}

/* Text of a file of this thread; "" where it cannot be read: the thread may have ended. */
static void read_text(const char *thread, const char *name, char *text, int size) {
  char path[320];
  snprintf(path, sizeof path, "/proc/self/task/%s/%s", thread, name);
  text[0] = 0;
  FILE *f = fopen(path, "r");
  if (f && !fgets(text, size, f))
    text[0] = 0;
  if (f)
    fclose(f);
}

double sc_count_slots_cpu(void) {
  double ns = 0;
  DIR *dir = opendir("/proc/self/task");
  for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
    char name[64], times[128];
    read_text(e->d_name, "comm", name, sizeof name);
    if (strncmp(name, "sc-slot", 7) != 0)
      continue;
    read_text(e->d_name, "schedstat", times, sizeof times); /* ns on a processor, and more */
    ns += strtod(times, NULL);
  }
  if (dir)
    closedir(dir);
  return ns * 1e-9;
}

static inline uint64_t mix(uint64_t x) {
  uint64_t z = x + 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

typedef struct event { uint64_t key, amount; int64_t timestamp; } event_t;

static inline event_t make_event(uint64_t i, const sc_count_work_t *w, double log_keys) {
  uint64_t index;
  if (w->zipf) {
    double u = (double)(mix(i) >> 11) * 0x1p-53;
    index = (uint64_t)exp(u * log_keys) - 1;
    if (index > w->keys - 1)
      index = w->keys - 1;
  } else {
    index = mix(i) % w->keys;
  }
  return (event_t){mix(index + 1), mix(i ^ 0xABCDEF) & 0xFFFF, (int64_t)(i / 1000)};
}

static inline void add(sc_count_sums_t *s, uint64_t key, uint64_t count, uint64_t amount) {
  s->n++;
  s->total += amount;
  s->check += mix(key + count);
}

/* ---- without an engine ---- */

sc_count_sums_t sc_count_plain(const sc_count_work_t *w) {
  typedef struct cell { uint64_t key, count, sum; } cell_t;
  uint64_t size = 2;
  while (size < 2 * w->keys)
    size *= 2;
  cell_t *cells = sc_calloc(size, sizeof *cells);
  double log_keys = log((double)w->keys + 1);
  sc_count_sums_t sums = {0};
  for (uint64_t i = 0; i < w->events; i++) {
    event_t e = make_event(i, w, log_keys);
    uint64_t at = e.key & (size - 1);
    while (cells[at].count && cells[at].key != e.key)
      at = (at + 1) & (size - 1);
    cells[at].key = e.key;
    cells[at].sum += e.amount;
    add(&sums, e.key, ++cells[at].count, e.amount);
  }
  free(cells);
  return sums;
}

/* ---- source: a split is [from, to) ---- */

#define PAD_MAX 256

typedef struct source {
  sc_operator_t op;
  sc_count_work_t *work;
  uint64_t at, end;     /* next event, and behind the last */
  double log_keys;
  bool no_more;
  uint8_t key[SC_INT_BYTES_MAX];                       /* of the event that is out */
  uint8_t value[1 + SC_INT_BYTES_MAX + 3 + PAD_MAX];   /* likewise: [amount, pad] */
} source_t;

static int source_list_splits(void *data, sc_bytes_t options, uint32_t parallelism, void *host,
                              sc_buf_t *out, sc_error_t *err) {
  const sc_count_work_t *w = data;
  sc_pack_array(out, parallelism);
  for (uint64_t k = 0; k < parallelism; k++) {
    sc_pack_map(out, 2);
    sc_pack_cstr(out, "at");
    sc_pack_int(out, (int64_t)(w->events * k / parallelism));
    sc_pack_cstr(out, "end");
    sc_pack_int(out, (int64_t)(w->events * (k + 1) / parallelism));
  }
  return 0;
}

static int source_add_split(sc_operator_t *op, sc_bytes_t split, sc_error_t *err) {
  source_t *s = (source_t *)op;
  s->at = (uint64_t)sc_value_field_int(split, "at", 0);
  s->end = (uint64_t)sc_value_field_int(split, "end", 0);
  return 0;
}

static void source_no_more(sc_operator_t *op) { ((source_t *)op)->no_more = true; }

static void note_begin(sc_count_work_t *w) {
  pthread_mutex_lock(&w->lock);
  if (!w->begun) {
    w->begun = true;
    w->begin_s = sc_count_now();
    w->cpu_s = sc_count_cpu();
    w->slots_s = sc_count_slots_cpu();
  }
  pthread_mutex_unlock(&w->lock);
}

static void note_end(sc_count_work_t *w) {
  pthread_mutex_lock(&w->lock);
  w->made_s = sc_count_now();
  w->made_cpu_s = sc_count_cpu();
  w->made_slots_s = sc_count_slots_cpu();
  pthread_mutex_unlock(&w->lock);
}

/* A string of that many zeros. */
static inline uint8_t *put_pad(uint8_t *at, size_t pad) {
  static const uint8_t zeros[PAD_MAX];
  if (pad < 32) {
    *at++ = (uint8_t)(0xa0 + pad);
  } else if (pad < 256) {
    *at++ = 0xd9;
    *at++ = (uint8_t)pad;
  } else {
    *at++ = 0xda;
    *at++ = (uint8_t)(pad >> 8);
    *at++ = (uint8_t)pad;
  }
  sc_bytes_move(at, sc_bytes(zeros, pad));
  return at + pad;
}

static int source_poll(sc_operator_t *op, sc_item_t *out, sc_error_t *err) {
  source_t *s = (source_t *)op;
  if (s->at == s->end) {
    if (s->no_more)
      return SC_ENDED;
    op->context->services->ask_split(op->context);
    op->context->wake_at_ms = INT64_MAX;
    return SC_IDLE;
  }
  if (s->log_keys == 0) {
    s->log_keys = log((double)s->work->keys + 1);
    note_begin(s->work);
  }
  event_t e = make_event(s->at++, s->work, s->log_keys);
  if (s->at == s->end)
    note_end(s->work);
  const uint8_t *key_end = sc_put_int(s->key, (int64_t)e.key);
  const uint8_t *end = put_pad(sc_put_int(s->value + 1, (int64_t)e.amount), s->work->pad);
  *out = (sc_item_t){.has_timestamp = true, .timestamp = e.timestamp, .has_key = true,
                     .key = sc_bytes(s->key, (size_t)(key_end - s->key)),
                     .bytes = sc_bytes(s->value, (size_t)(end - s->value))};
  return SC_EMIT;
}

static int source_snapshot(sc_operator_t *op, uint64_t id, sc_snapshot_parts_t *parts,
                           sc_error_t *err) {
  source_t *s = (source_t *)op;
  sc_buf_t item = SC_BUF_INIT;
  sc_pack_map(&item, 2);
  sc_pack_cstr(&item, "at");
  sc_pack_int(&item, (int64_t)s->at);
  sc_pack_cstr(&item, "end");
  sc_pack_int(&item, (int64_t)s->end);
  sc_parts_list(parts, "splits", SC_LIST_SPLIT, sc_buf_bytes(&item));
  sc_buf_free(&item);
  return 0;
}

static void source_destroy(sc_operator_t *op) { free(op); }

static const sc_operator_ops_t source_ops = {
    .poll = source_poll, .add_split = source_add_split, .no_more_splits = source_no_more,
    .snapshot = source_snapshot, .destroy = source_destroy};

static int source_create(void *data, sc_bytes_t options, sc_op_context_t *context,
                         sc_operator_t **out, sc_error_t *err) {
  source_t *s = sc_calloc(1, sizeof *s);
  s->op = (sc_operator_t){&source_ops, context};
  s->work = data;
  s->value[0] = 0x92; /* an array of two */
  *out = &s->op;
  return 0;
}

const sc_operator_type_t sc_count_source_type = {
    .kind = "count_source", .is_source = true, .replayable = true, .exactly_once = true,
    .create = source_create, .list_splits = source_list_splits, .in_pool = true};

/* ---- counter: emits [key, count, amount] ---- */

/* What a counter emits: as it is to a sink in the same chain, encoded where it leaves that. */
typedef struct change { int64_t key, count, amount; } change_t;

static int change_encode(void *opaque, sc_buf_t *out, sc_error_t *err) {
  const change_t *c = opaque;
  sc_pack_array(out, 3);
  sc_pack_int(out, c->key);
  sc_pack_int(out, c->count);
  sc_pack_int(out, c->amount);
  return 0;
}

static int change_field(void *opaque, sc_bytes_t name, sc_buf_t *out, sc_error_t *err) {
  return 0; /* an array has none */
}

static const sc_opaque_ops_t change_ops = {.encode = change_encode, .field = change_field};

typedef struct counter {
  sc_operator_t op;
  sc_count_work_t *work;
  int state;
  change_t out;
} counter_t;

static int counter_open(sc_operator_t *op, sc_error_t *err) {
  counter_t *k = (counter_t *)op;
  k->state = sc_keyed_declare(op->context->keyed,
                              &(sc_state_descriptor_t){"counter", SC_STATE_VALUE}, err);
  return k->state < 0 ? k->state : 0;
}

static int counter_begin(sc_operator_t *op, uint32_t port, const sc_item_t *item, sc_error_t *err) {
  counter_t *k = (counter_t *)op;
  const sc_op_context_t *context = op->context;
  int64_t held[2] = {0, 0};
  sc_cursor_t c = sc_cursor(item->bytes), key = sc_cursor(context->key);
  if (sc_cursor_array(&c) != 2 || !sc_cursor_int(&c, &k->out.amount) ||
      !sc_cursor_int(&key, &k->out.key))
    return sc_fail(err, SC_ECORRUPT, "an event is damaged");
  sc_address_t at = sc_op_address(context, k->state);
  sc_place_t place;
  int rc = sc_keyed_find(context->keyed, &at, &place, err);
  if (rc > 0 && !sc_value_ints(place.value, held, 2))
    return sc_fail(err, SC_ECORRUPT, "a counter is damaged");
  k->out.count = held[0] + 1;
  uint8_t value[1 + 2 * SC_INT_BYTES_MAX] = {0x92}; /* an array of two */
  uint8_t *end = sc_put_int(sc_put_int(value + 1, k->out.count), held[1] + k->out.amount);
  if (rc >= 0)
    rc = sc_keyed_replace(context->keyed, &place, sc_bytes(value, (size_t)(end - value)), err);
  return rc < 0 ? rc : 0;
}

static int counter_step(sc_operator_t *op, sc_item_t *out, sc_error_t *err) {
  counter_t *k = (counter_t *)op;
  *out = (sc_item_t){.opaque = &k->out, .opaque_ops = &change_ops};
  return SC_LAST;
}

static void counter_destroy(sc_operator_t *op) {
  counter_t *k = (counter_t *)op;
  uint64_t entries = 0, bytes = 0;
  op->context->keyed->ops->usage(op->context->keyed, &entries, &bytes);
  pthread_mutex_lock(&k->work->lock);
  k->work->usage_entries += entries;
  k->work->usage_bytes += bytes;
  pthread_mutex_unlock(&k->work->lock);
  free(k);
}

static const sc_operator_ops_t counter_ops = {
    .open = counter_open, .begin = counter_begin, .step = counter_step, .destroy = counter_destroy};

static int counter_create(void *data, sc_bytes_t options, sc_op_context_t *context,
                          sc_operator_t **out, sc_error_t *err) {
  counter_t *k = sc_calloc(1, sizeof *k);
  k->op = (sc_operator_t){&counter_ops, context};
  k->work = data;
  *out = &k->op;
  return 0;
}

const sc_operator_type_t sc_count_type = {
    .kind = "count", .replayable = true, .exactly_once = true, .create = counter_create};

/* ---- sink ---- */

typedef struct sink {
  sc_operator_t op;
  sc_count_work_t *work;
  sc_count_sums_t sums;
  sc_buf_t encoded;     /* of a value that came as a Lua table */
} sink_t;

/* From a counter in Lua, or behind an exchange. */
static int decode_change(sink_t *s, const sc_item_t *item, change_t *out, sc_error_t *err) {
  int64_t ints[3];
  sc_bytes_t bytes = item->bytes;
  if (item->opaque_ops) {
    sc_buf_clear(&s->encoded);
    int rc = item->opaque_ops->encode(item->opaque, &s->encoded, err);
    if (rc < 0)
      return rc;
    bytes = sc_buf_bytes(&s->encoded);
  }
  if (!sc_value_ints(bytes, ints, 3))
    return sc_fail(err, SC_ECORRUPT, "a count is damaged");
  *out = (change_t){ints[0], ints[1], ints[2]};
  return 0;
}

static int sink_begin(sc_operator_t *op, uint32_t port, const sc_item_t *item, sc_error_t *err) {
  sink_t *s = (sink_t *)op;
  change_t decoded = {0};
  const change_t *c = item->opaque_ops == &change_ops ? item->opaque : &decoded;
  int rc = c == &decoded ? decode_change(s, item, &decoded, err) : 0;
  if (rc < 0)
    return rc;
  add(&s->sums, (uint64_t)c->key, (uint64_t)c->count, (uint64_t)c->amount);
  return SC_TAKEN;
}

static int sink_step(sc_operator_t *op, sc_item_t *out, sc_error_t *err) { return SC_DONE; }

static void sink_destroy(sc_operator_t *op) {
  sink_t *s = (sink_t *)op;
  pthread_mutex_lock(&s->work->lock);
  s->work->sums.n += s->sums.n;
  s->work->sums.total += s->sums.total;
  s->work->sums.check += s->sums.check;
  pthread_mutex_unlock(&s->work->lock);
  sc_buf_free(&s->encoded);
  free(s);
}

static const sc_operator_ops_t sink_ops = {
    .begin = sink_begin, .step = sink_step, .destroy = sink_destroy};

static int sink_create(void *data, sc_bytes_t options, sc_op_context_t *context,
                       sc_operator_t **out, sc_error_t *err) {
  sink_t *s = sc_calloc(1, sizeof *s);
  s->op = (sc_operator_t){&sink_ops, context};
  s->work = data;
  *out = &s->op;
  return 0;
}

const sc_operator_type_t sc_count_sink_type = {
    .kind = "count_sink", .replayable = true, .exactly_once = true, .create = sink_create};
