#include "values_source.h"

#include <inttypes.h>

#include "../base/mem.h"
#include "options.h"

typedef struct values_source {
  sc_operator_t op;
  uint32_t count;     /* values in all */
  sc_bytes_t body;    /* their msgpack, one after another; the options' */
  bool has_split;     /* this reader has the only split */
  bool no_more;       /* the enumerator said that there is no other */
  int64_t at;         /* values emitted */
  sc_cursor_t cursor; /* before value `at` */
} values_source_t;

static int read_options(sc_bytes_t options, sc_bytes_t *body, uint32_t *n, sc_error_t *err) {
  sc_options_t o = {"values_source", options};
  int rc = sc_options_array(&o, "values", body, n, err);
  if (rc == 0)
    return sc_options_missing(&o, "values", err);
  return rc < 0 ? rc : 0;
}

static int list_splits(void *data, sc_bytes_t options, uint32_t parallelism, void *host,
                       sc_buf_t *out, sc_error_t *err) {
  sc_bytes_t body;
  uint32_t n;
  int rc = read_options(options, &body, &n, err);
  if (rc < 0)
    return rc;
  sc_pack_array(out, 1);
  sc_pack_map(out, 1);
  sc_pack_cstr(out, "from");
  sc_pack_int(out, 0);
  return 0;
}

/* Take the split at position `at`. */
static int start_at(values_source_t *s, int64_t at, sc_error_t *err) {
  if (s->has_split)
    return sc_fail(err, SC_ESTATE, "%s: there is one split of the values, but a second one came",
                   s->op.context->label);
  if (at < 0 || at > s->count)
    return sc_fail(err, SC_ESTATE,
                   "%s: the snapshot stands at value %" PRId64 ", but the script gives %" PRIu32
                   " values now",
                   s->op.context->label, at, s->count);
  s->cursor = sc_cursor(s->body);
  for (int64_t i = 0; i < at; i++)
    if (sc_cursor_skip(&s->cursor) <= 0)
      return sc_fail(err, SC_ECORRUPT, "%s: the values are damaged", s->op.context->label);
  s->has_split = true;
  s->at = at;
  return 0;
}

static int add_split(sc_operator_t *op, sc_bytes_t split, sc_error_t *err) {
  return start_at((values_source_t *)op, sc_value_field_int(split, "from", 0), err);
}

static void no_more_splits(sc_operator_t *op) {
  ((values_source_t *)op)->no_more = true;
}

static int poll_value(sc_operator_t *op, sc_item_t *out, sc_error_t *err) {
  values_source_t *s = (values_source_t *)op;
  if (s->has_split && s->at == s->count)
    s->has_split = false;
  if (!s->has_split) {
    if (s->no_more)
      return SC_ENDED;
    op->context->services->ask_split(op->context);
    op->context->wake_at_ms = INT64_MAX;
    return SC_IDLE;
  }
  *out = (sc_item_t){0};
  if (sc_cursor_value(&s->cursor, &out->bytes) <= 0)
    return sc_fail(err, SC_ECORRUPT, "%s: the values are damaged", op->context->label);
  s->at++;
  return SC_EMIT;
}

static int snapshot(sc_operator_t *op, uint64_t id, sc_snapshot_parts_t *parts, sc_error_t *err) {
  values_source_t *s = (values_source_t *)op;
  if (s->has_split) {
    sc_buf_t item = SC_BUF_INIT;
    sc_pack_map(&item, 1);
    sc_pack_cstr(&item, "at");
    sc_pack_int(&item, s->at);
    sc_parts_list(parts, "splits", SC_LIST_SPLIT, sc_buf_bytes(&item));
    sc_buf_free(&item);
  }
  return 0;
}

static int restore_split(void *op, sc_bytes_t item, sc_error_t *err) {
  return start_at(op, sc_value_field_int(item, "at", -1), err);
}

static int restore(sc_operator_t *op, sc_bytes_t lists, sc_error_t *err) {
  return sc_lists_each(lists, "splits", restore_split, op, op->context->label, err);
}

static void destroy(sc_operator_t *op) {
  free(op);
}

static void pending(sc_operator_t *op, sc_pending_input_t *out) {
  const values_source_t *s = (const values_source_t *)op;
  out->records = s->has_split ? s->count - s->at : 0;
}

static const sc_operator_ops_t ops = {
    .poll = poll_value,
    .add_split = add_split,
    .no_more_splits = no_more_splits,
    .pending = pending,
    .restore = restore,
    .snapshot = snapshot,
    .destroy = destroy,
};

static int create(void *data, sc_bytes_t options, sc_op_context_t *context, sc_operator_t **out,
                  sc_error_t *err) {
  values_source_t *s = sc_calloc(1, sizeof *s);
  int rc = read_options(options, &s->body, &s->count, err);
  if (rc < 0) {
    free(s);
    return rc;
  }
  s->op = (sc_operator_t){&ops, context};
  *out = &s->op;
  return 0;
}

const sc_operator_type_t sc_values_source_type = {
    .kind = "values_source",
    .is_source = true,
    .replayable = true,
    .exactly_once = true,
    .create = create,
    .list_splits = list_splits,
    .in_pool = true,
};
