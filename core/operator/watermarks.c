#include "watermarks.h"

#include "../base/mem.h"
#include "options.h"

#define RECORD_SHOWN 200 /* bytes of a record in a message */

typedef struct watermarks {
  sc_operator_t op;
  char *field;              /* NULL: the record's own timestamp */
  int64_t out_of_orderness; /* ms */
  int64_t max;              /* greatest timestamp; SC_WATERMARK_MIN before the first record */
  int64_t emitted;          /* last watermark */
  uint32_t since;           /* records since then, up to SC_WATERMARK_EVERY */
  bool has_item;            /* `item` is to be passed on */
  bool due;                 /* a watermark is to be emitted */
  sc_item_t item;           /* borrowed from its emitter, who is not stepped before we are done */
  sc_buf_t scratch;         /* a field's bytes */
} watermarks_t;

/* max - out_of_orderness - 1, held at the least watermark instead of wrapping around. */
static int64_t watermark_of(const watermarks_t *w) {
  int64_t watermark;
  if (__builtin_sub_overflow(w->max, w->out_of_orderness, &watermark) ||
      watermark == SC_WATERMARK_MIN)
    return SC_WATERMARK_MIN;
  return watermark - 1;
}

static int refuse(watermarks_t *w, const sc_item_t *item, const char *what, sc_error_t *err) {
  sc_buf_t value = SC_BUF_INIT, text = SC_BUF_INIT;
  int rc = 0;
  if (item->opaque_ops)
    rc = item->opaque_ops->encode(item->opaque, &value, NULL);
  else
    sc_buf_put_bytes(&value, item->bytes);
  if (rc == 0)
    sc_value_print(sc_buf_bytes(&value), RECORD_SHOWN, &text);
  else
    sc_buf_puts(&text, "(a record that cannot be shown)");
  sc_fail(err, SC_EVALUE, "%s: %s%s%s: %.*s", w->op.context->label, what, w->field ? " " : "",
          w->field ? w->field : "", (int)text.len, (const char *)text.data);
  sc_buf_free(&value);
  sc_buf_free(&text);
  return SC_EVALUE;
}

/* Round down. False for NaN and what int64 cannot hold. */
static bool floor_ms(double v, int64_t *out) {
  if (!(v >= -0x1p63 && v < 0x1p63))
    return false;
  *out = (int64_t)v;
  if ((double)*out > v)
    --*out;
  return true;
}

static int timestamp_of(watermarks_t *w, const sc_item_t *item, int64_t *out, sc_error_t *err) {
  if (!w->field) {
    if (!item->has_timestamp)
      return refuse(w, item, "a record has no timestamp, and no field to take it from is given",
                    err);
    *out = item->timestamp;
    return 0;
  }
  sc_bytes_t value, name = sc_bytes_str(w->field);
  int found;
  if (item->opaque_ops) {
    sc_buf_clear(&w->scratch);
    found = item->opaque_ops->field(item->opaque, name, &w->scratch, err);
    value = sc_buf_bytes(&w->scratch);
  } else {
    found = sc_value_field(item->bytes, name, &value);
  }
  if (found < 0)
    return found;
  if (found == 0)
    return refuse(w, item, "a record has no field", err);
  sc_token_t t;
  sc_cursor_t c = sc_cursor(value);
  if (sc_cursor_next(&c, &t) > 0) {
    if (t.type == SC_INT) {
      *out = t.i;
      return 0;
    }
    if (t.type == SC_FLOAT && floor_ms(t.f, out))
      return 0;
  }
  return refuse(w, item, "a record has no number of milliseconds in field", err);
}

static int begin(sc_operator_t *op, uint32_t port, const sc_item_t *item, sc_error_t *err) {
  watermarks_t *w = (watermarks_t *)op;
  int64_t timestamp = 0;
  int rc = timestamp_of(w, item, &timestamp, err);
  if (rc < 0)
    return rc;
  w->item = *item;
  w->item.output = 0;
  w->item.has_timestamp = true;
  w->item.timestamp = timestamp;
  w->has_item = true;
  if (timestamp > w->max)
    w->max = timestamp;
  if (w->since < SC_WATERMARK_EVERY)
    w->since++;
  w->due = w->since == SC_WATERMARK_EVERY && watermark_of(w) > w->emitted;
  return 0;
}

static int begin_idle(sc_operator_t *op, sc_error_t *err) {
  watermarks_t *w = (watermarks_t *)op;
  w->due = watermark_of(w) > w->emitted;
  return w->due ? 1 : 0;
}

static int step(sc_operator_t *op, sc_item_t *out, sc_error_t *err) {
  watermarks_t *w = (watermarks_t *)op;
  if (w->has_item) {
    *out = w->item;
    w->has_item = false;
    return w->due ? SC_EMIT : SC_LAST;
  }
  if (w->due) {
    w->due = false;
    w->since = 0;
    w->emitted = watermark_of(w);
    *out = (sc_item_t){.is_watermark = true, .timestamp = w->emitted};
    return SC_LAST;
  }
  return SC_DONE;
}

static int snapshot(sc_operator_t *op, uint64_t id, sc_snapshot_parts_t *parts, sc_error_t *err) {
  watermarks_t *w = (watermarks_t *)op;
  if (w->max == SC_WATERMARK_MIN)
    return 0;
  sc_buf_t item = SC_BUF_INIT;
  sc_pack_int(&item, w->max);
  sc_parts_list(parts, "max", SC_LIST_SPLIT, sc_buf_bytes(&item));
  sc_buf_free(&item);
  return 0;
}

/* The least of several subtasks' counts: no one's records are late because of another's. */
static int restore_max(void *op, sc_bytes_t item, sc_error_t *err) {
  watermarks_t *w = op;
  sc_cursor_t c = sc_cursor(item);
  sc_token_t t;
  if (sc_cursor_next(&c, &t) <= 0 || t.type != SC_INT)
    return sc_fail(err, SC_ECORRUPT, "%s: the greatest timestamp in the state is damaged",
                   w->op.context->label);
  if (w->max == SC_WATERMARK_MIN || t.i < w->max)
    w->max = t.i;
  return 0;
}

static int restore(sc_operator_t *op, sc_bytes_t lists, sc_error_t *err) {
  return sc_lists_each(lists, "max", restore_max, op, op->context->label, err);
}

static void destroy(sc_operator_t *op) {
  watermarks_t *w = (watermarks_t *)op;
  free(w->field);
  sc_buf_free(&w->scratch);
  free(w);
}

static const sc_operator_ops_t ops = {
    .begin = begin,
    .step = step,
    .begin_idle = begin_idle,
    .swallows_watermarks = true,
    .restore = restore,
    .snapshot = snapshot,
    .destroy = destroy,
};

static int create(void *data, sc_bytes_t options, sc_op_context_t *context, sc_operator_t **out,
                  sc_error_t *err) {
  sc_options_t o = {"watermarks", options};
  watermarks_t *w = sc_calloc(1, sizeof *w);
  w->op = (sc_operator_t){&ops, context};
  w->max = w->emitted = SC_WATERMARK_MIN;
  int rc = sc_options_str(&o, "field", &w->field, err);
  if (rc >= 0)
    rc = sc_options_int(&o, "out_of_orderness", &w->out_of_orderness, err);
  if (rc >= 0 && w->out_of_orderness < 0)
    rc = sc_fail(err, SC_EINVAL, "watermarks: option out_of_orderness must not be negative");
  if (rc < 0) {
    destroy(&w->op);
    return rc;
  }
  *out = &w->op;
  return 0;
}

const sc_operator_type_t sc_watermarks_type = {
    .kind = "watermarks",
    .replayable = true,
    .exactly_once = true,
    .create = create,
};
