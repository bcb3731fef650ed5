#include "collect_sink.h"

#include "../base/mem.h"

typedef struct collect_sink {
  sc_operator_t op;
  sc_buf_t rows;  /* msgpack values, one after another */
  uint32_t count; /* of them */
} collect_sink_t;

static void deliver(collect_sink_t *sink, uint64_t id) {
  sc_op_context_t *context = sink->op.context;
  if (sink->count == 0)
    return;
  sc_buf_t array = SC_BUF_INIT;
  sc_pack_array(&array, sink->count);
  sc_buf_put_bytes(&array, sc_buf_bytes(&sink->rows));
  context->services->deliver(context, id, sc_buf_bytes(&array));
  sc_buf_free(&array);
  sc_buf_clear(&sink->rows);
  sink->count = 0;
}

static int begin(sc_operator_t *op, uint32_t port, const sc_item_t *item, sc_error_t *err) {
  collect_sink_t *sink = (collect_sink_t *)op;
  if (item->opaque_ops) {
    size_t before = sink->rows.len;
    int rc = item->opaque_ops->encode(item->opaque, &sink->rows, err);
    if (rc < 0) {
      sink->rows.len = before;
      return rc;
    }
  } else {
    sc_buf_put_bytes(&sink->rows, item->bytes);
  }
  sink->count++;
  if (!op->context->checkpointing && sink->count >= SC_COLLECT_BATCH)
    deliver(sink, 0);
  return SC_TAKEN;
}

static int step(sc_operator_t *op, sc_item_t *out, sc_error_t *err) {
  return SC_DONE;
}

/* Begins nothing: without checkpoints, what is there may be seen. */
static int deliver_now(sc_operator_t *op, sc_error_t *err) {
  if (!op->context->checkpointing)
    deliver((collect_sink_t *)op, 0);
  return 0;
}

static int snapshot(sc_operator_t *op, uint64_t id, sc_snapshot_parts_t *parts, sc_error_t *err) {
  deliver((collect_sink_t *)op, op->context->checkpointing ? id : 0);
  return 0;
}

static void destroy(sc_operator_t *op) {
  sc_buf_free(&((collect_sink_t *)op)->rows);
  free(op);
}

static const sc_operator_ops_t ops = {
    .begin = begin,
    .begin_finish = deliver_now,
    .begin_idle = deliver_now,
    .step = step,
    .snapshot = snapshot,
    .destroy = destroy,
};

static int create(void *data, sc_bytes_t options, sc_op_context_t *context, sc_operator_t **out,
                  sc_error_t *err) {
  collect_sink_t *sink = sc_calloc(1, sizeof *sink);
  sink->op = (sc_operator_t){&ops, context};
  *out = &sink->op;
  return 0;
}

const sc_operator_type_t sc_collect_sink_type = {
    .kind = "collect_sink",
    .replayable = true,
    .exactly_once = true,
    .delivers = true,
    .create = create,
};
