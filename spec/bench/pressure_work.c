#include "pressure_work.h"

#include <stdlib.h>
#include <time.h>

#include "../../core/base/mem.h"
#include "../../core/data/value.h"

_Atomic uint64_t sc_pressure_records;

/* ---- stage ---- */

typedef struct stage {
  sc_operator_t op;
  bool has_item;
  sc_item_t item;        /* being handed on: points into the two below */
  sc_buf_t key, value;
} stage_t;

static int stage_begin(sc_operator_t *op, uint32_t port, const sc_item_t *item, sc_error_t *err) {
  stage_t *s = (stage_t *)op;
  sc_buf_clear(&s->key);
  sc_buf_put_bytes(&s->key, item->key);
  sc_buf_clear(&s->value);
  sc_buf_put_bytes(&s->value, item->bytes);
  s->item = (sc_item_t){.has_timestamp = item->has_timestamp, .timestamp = item->timestamp,
                        .has_key = item->has_key, .key = sc_buf_bytes(&s->key),
                        .bytes = sc_buf_bytes(&s->value)};
  s->has_item = true;
  return 0;
}

static int stage_step(sc_operator_t *op, sc_item_t *out, sc_error_t *err) {
  stage_t *s = (stage_t *)op;
  if (!s->has_item)
    return SC_DONE;
  s->has_item = false;
  *out = s->item;
  return SC_EMIT;
}

static void stage_destroy(sc_operator_t *op) {
  stage_t *s = (stage_t *)op;
  sc_buf_free(&s->key);
  sc_buf_free(&s->value);
  free(s);
}

static const sc_operator_ops_t stage_ops = {
    .begin = stage_begin, .step = stage_step, .destroy = stage_destroy};

static int stage_create(void *data, sc_bytes_t options, sc_op_context_t *context,
                        sc_operator_t **out, sc_error_t *err) {
  stage_t *s = sc_calloc(1, sizeof *s);
  s->op = (sc_operator_t){&stage_ops, context};
  *out = &s->op;
  return 0;
}

const sc_operator_type_t sc_pressure_stage_type = {
    .kind = "pressure_stage", .replayable = true, .exactly_once = true, .create = stage_create};

/* ---- sink ---- */

typedef struct sink {
  sc_operator_t op;
  int64_t period_ns;  /* of a record */
  int64_t due_ns;     /* when the next may be taken */
} sink_t;

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int sink_begin(sc_operator_t *op, uint32_t port, const sc_item_t *item, sc_error_t *err) {
  sink_t *s = (sink_t *)op;
  atomic_fetch_add(&sc_pressure_records, 1);
  int64_t now = now_ns(), earliest = now - 10 * 1000000;
  s->due_ns = (s->due_ns > earliest ? s->due_ns : earliest) + s->period_ns;
  while (s->due_ns - now > 50000) { /* less is not worth a sleep */
    int64_t rest = s->due_ns - now;
    nanosleep(&(struct timespec){rest / 1000000000, rest % 1000000000}, NULL);
    now = now_ns();
  }
  return 0;
}

static int sink_step(sc_operator_t *op, sc_item_t *out, sc_error_t *err) { return SC_DONE; }

static void sink_destroy(sc_operator_t *op) { free(op); }

static const sc_operator_ops_t sink_ops = {
    .begin = sink_begin, .step = sink_step, .destroy = sink_destroy};

static int sink_create(void *data, sc_bytes_t options, sc_op_context_t *context,
                       sc_operator_t **out, sc_error_t *err) {
  sink_t *s = sc_calloc(1, sizeof *s);
  s->op = (sc_operator_t){&sink_ops, context};
  s->period_ns = (int64_t)(1e9 / sc_value_field_float(options, "rate", 1000));
  *out = &s->op;
  return 0;
}

const sc_operator_type_t sc_pressure_sink_type = {
    .kind = "pressure_sink", .replayable = true, .exactly_once = true, .create = sink_create};
