#include "print_sink.h"

#include <errno.h>
#include <stdio.h>

#include "../base/mem.h"
#include "json.h"
#include "options.h"

typedef struct print_sink {
  sc_operator_t op;
  char *prefix;     /* or NULL */
  sc_buf_t line;    /* built before it is written */
  sc_buf_t scratch; /* an encoded value */
} print_sink_t;

static int failed(print_sink_t *sink, sc_error_t *err) {
  return sc_fail(err, sc_error_from_errno(errno), "%s: standard output cannot be written: %s",
                 sink->op.context->label, strerror(errno));
}

static int begin(sc_operator_t *op, uint32_t port, const sc_item_t *item, sc_error_t *err) {
  print_sink_t *sink = (print_sink_t *)op;
  sc_bytes_t value = item->bytes;
  int rc = 0;
  if (item->opaque_ops) {
    sc_buf_clear(&sink->scratch);
    rc = item->opaque_ops->encode(item->opaque, &sink->scratch, err);
    value = sc_buf_bytes(&sink->scratch);
  }
  sc_buf_clear(&sink->line);
  if (sink->prefix)
    sc_buf_puts(&sink->line, sink->prefix);
  if (rc == 0)
    rc = sc_json_append(&sink->line, value, err);
  if (rc < 0)
    return rc;
  sc_buf_put_u8(&sink->line, '\n');
  if (fwrite(sink->line.data, 1, sink->line.len, stdout) != sink->line.len)
    return failed(sink, err);
  return SC_TAKEN;
}

static int step(sc_operator_t *op, sc_item_t *out, sc_error_t *err) {
  return SC_DONE;
}

static int flush(sc_operator_t *op, sc_error_t *err) {
  return fflush(stdout) == 0 ? 0 : failed((print_sink_t *)op, err);
}

static int snapshot(sc_operator_t *op, uint64_t id, sc_snapshot_parts_t *parts, sc_error_t *err) {
  return flush(op, err);
}

static void destroy(sc_operator_t *op) {
  print_sink_t *sink = (print_sink_t *)op;
  fflush(stdout);
  free(sink->prefix);
  sc_buf_free(&sink->line);
  sc_buf_free(&sink->scratch);
  free(sink);
}

static const sc_operator_ops_t ops = {
    .begin = begin,
    .begin_finish = flush,
    .begin_idle = flush,
    .step = step,
    .snapshot = snapshot,
    .destroy = destroy,
};

static int create(void *data, sc_bytes_t options, sc_op_context_t *context, sc_operator_t **out,
                  sc_error_t *err) {
  sc_options_t o = {"print_sink", options};
  char *prefix = NULL;
  int rc = sc_options_str(&o, "prefix", &prefix, err);
  if (rc < 0)
    return rc;
  print_sink_t *sink = sc_calloc(1, sizeof *sink);
  sink->op = (sc_operator_t){&ops, context};
  sink->prefix = prefix;
  *out = &sink->op;
  return 0;
}

const sc_operator_type_t sc_print_sink_type = {
    .kind = "print_sink",
    .replayable = true,
    .exactly_once = false,
    .create = create,
};
