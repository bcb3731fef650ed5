#include "sim_taps.h"

#include <stdlib.h>

#include "../base/mem.h"

typedef struct tapped tapped_t;

/* The key that is current in a task whose head is keyed. */
typedef struct current_key {
  bool known;
  sc_buf_t bytes;
} current_key_t;

/* A node of a graph. Its type is a copy of the operator's own with other functions. */
struct tapped {
  tapped_t *next;
  sc_sim_taps_t *taps;
  sc_operator_type_t type;
  const sc_operator_type_t *own_type;
  void *own_data;
  uint32_t node;
  bool is_sink;
  current_key_t *keys; /* of each subtask; those of the chain's head, if that is keyed; or NULL */
};

/* One operator: its table of functions is a copy of its own with other functions; that of the
 * services that it asks likewise, if it is a source. */
typedef struct tap {
  sc_operator_ops_t ops; /* first: it is what the operator has */
  sc_op_services_t services;
  const sc_operator_ops_t *own;
  const sc_op_services_t *own_services;
  sc_operator_t *op;
  tapped_t *tapped;
} tap_t;

typedef struct keys {
  struct keys *next;
  uint32_t n;
  current_key_t list[];
} keys_t;

struct sc_sim_taps {
  const sc_sim_taps_ops_t *ops;
  void *arg;
  tapped_t *all;
  keys_t *keys;
  uint64_t calls, completed;
};

static tap_t *tap_of(const sc_operator_t *op) { return (tap_t *)op->ops; }

static current_key_t *key_of(const sc_operator_t *op) {
  const tapped_t *t = tap_of(op)->tapped;
  return t->keys ? &t->keys[op->context->subtask] : NULL;
}

/* A keyed operator begins something under its key, or under none. */
static void note_key(sc_operator_t *op, bool has_key) {
  current_key_t *key = key_of(op);
  if (!key || !op->context->keyed)
    return;
  key->known = has_key && op->context->has_key;
  sc_buf_clear(&key->bytes);
  if (key->known)
    sc_buf_put_bytes(&key->bytes, op->context->key);
}

static int count(sc_operator_t *op, sc_error_t *err) {
  const tapped_t *t = tap_of(op)->tapped;
  sc_sim_taps_t *taps = t->taps;
  return taps->ops->called(taps->arg, ++taps->calls, t->type.is_source, op->context->label, err);
}

/* ---- the functions that stand before an operator's own ---- */

static int give(sc_operator_t *op, const sc_item_t *item, sc_error_t *err) {
  const tapped_t *t = tap_of(op)->tapped;
  const current_key_t *key = key_of(op);
  sc_buf_t value = SC_BUF_INIT;
  int rc = 0;
  if (item->opaque_ops)
    rc = item->opaque_ops->encode(item->opaque, &value, err);
  else
    sc_buf_put_bytes(&value, item->bytes);
  if (rc >= 0) {
    sc_bytes_t bytes = key ? sc_buf_bytes(&key->bytes) : sc_bytes(NULL, 0);
    t->taps->ops->given(t->taps->arg, t->node, key && key->known ? &bytes : NULL,
                        sc_buf_bytes(&value));
  }
  sc_buf_free(&value);
  return rc;
}

static int begin(sc_operator_t *op, uint32_t port, const sc_item_t *item, sc_error_t *err) {
  const tap_t *tap = tap_of(op);
  note_key(op, true);
  int rc = count(op, err);
  if (rc >= 0 && tap->tapped->is_sink)
    rc = give(op, item, err);
  return rc < 0 ? rc : tap->own->begin(op, port, item, err);
}

static int begin_timer(sc_operator_t *op, const sc_timer_t *timer, sc_error_t *err) {
  note_key(op, true);
  int rc = count(op, err);
  return rc < 0 ? rc : tap_of(op)->own->begin_timer(op, timer, err);
}

static int begin_watermark(sc_operator_t *op, int64_t watermark, sc_error_t *err) {
  note_key(op, false);
  return tap_of(op)->own->begin_watermark(op, watermark, err);
}

static int begin_finish(sc_operator_t *op, sc_error_t *err) {
  note_key(op, false);
  return tap_of(op)->own->begin_finish(op, err);
}

static bool is_record(const sc_item_t *item) { return !item->is_watermark && !item->is_status; }

/* Counted when it emits: how often a source is asked in vain says nothing. */
static int poll(sc_operator_t *op, sc_item_t *out, sc_error_t *err) {
  sc_sim_taps_t *taps = tap_of(op)->tapped->taps;
  taps->ops->asked(taps->arg);
  int rc = tap_of(op)->own->poll(op, out, err);
  if (rc != SC_EMIT || !is_record(out))
    return rc;
  int counted = count(op, err);
  return counted < 0 ? counted : rc;
}

/* A source that writes to an exchange at once does not come by in poll. */
static int write_one(sc_op_context_t *c, const sc_item_t *item, sc_error_t *err) {
  tap_t *tap = (tap_t *)((char *)c->services - offsetof(tap_t, services));
  int rc = is_record(item) ? count(tap->op, err) : 0;
  return rc < 0 ? rc : tap->own_services->write(c, item, err);
}

static int complete(sc_operator_t *op, uint64_t id, sc_error_t *err) {
  const tap_t *tap = tap_of(op);
  sc_sim_taps_t *taps = tap->tapped->taps;
  if (id > taps->completed) {
    taps->completed = id;
    taps->ops->completed(taps->arg, id);
  }
  return tap->own->complete ? tap->own->complete(op, id, err) : 0;
}

static void destroy(sc_operator_t *op) {
  tap_t *tap = tap_of(op);
  op->context->services = tap->own_services;
  op->ops = tap->own;
  tap->own->destroy(op);
  free(tap);
}

/* ---- the functions of a type ---- */

static int create(void *data, sc_bytes_t options, sc_op_context_t *context, sc_operator_t **out,
                  sc_error_t *err) {
  tapped_t *t = data;
  int rc = t->own_type->create(t->own_data, options, context, out, err);
  if (rc < 0)
    return rc;
  tap_t *tap = sc_malloc(sizeof *tap);
  *tap = (tap_t){.ops = *(*out)->ops,
                 .services = *context->services,
                 .own = (*out)->ops,
                 .own_services = context->services,
                 .op = *out,
                 .tapped = t};
  tap->ops.begin = tap->own->begin ? begin : NULL;
  tap->ops.begin_timer = tap->own->begin_timer ? begin_timer : NULL;
  tap->ops.begin_watermark = tap->own->begin_watermark ? begin_watermark : NULL;
  tap->ops.begin_finish = tap->own->begin_finish ? begin_finish : NULL;
  tap->ops.poll = tap->own->poll ? poll : NULL;
  tap->ops.complete = complete;
  tap->ops.destroy = destroy;
  (*out)->ops = &tap->ops;
  if (t->type.is_source) {
    tap->services.write = write_one;
    context->services = &tap->services;
  }
  return rc;
}

static int list_splits(void *data, sc_bytes_t options, uint32_t parallelism, void *host,
                       sc_buf_t *out, sc_error_t *err) {
  tapped_t *t = data;
  return t->own_type->list_splits(t->own_data, options, parallelism, host, out, err);
}

static int prepare(void *data, sc_bytes_t options, const char *job_id, const char *uid,
                   const sc_past_t *past, sc_storage_t *storage, sc_error_t *err) {
  tapped_t *t = data;
  return t->own_type->prepare(t->own_data, options, job_id, uid, past, storage, err);
}

static int64_t highest_committed(void *data, sc_bytes_t options, const char *job_id,
                                 const char *uid, sc_storage_t *storage, sc_error_t *err) {
  tapped_t *t = data;
  return t->own_type->highest_committed(t->own_data, options, job_id, uid, storage, err);
}

/* ---- life ---- */

sc_sim_taps_t *sc_sim_taps_create(const sc_sim_taps_ops_t *ops, void *arg) {
  sc_sim_taps_t *t = sc_calloc(1, sizeof *t);
  t->ops = ops;
  t->arg = arg;
  return t;
}

void sc_sim_taps_destroy(sc_sim_taps_t *taps) {
  while (taps->all) {
    tapped_t *t = taps->all;
    taps->all = t->next;
    free(t);
  }
  while (taps->keys) {
    keys_t *k = taps->keys;
    taps->keys = k->next;
    for (uint32_t i = 0; i < k->n; i++)
      sc_buf_free(&k->list[i].bytes);
    free(k);
  }
  free(taps);
}

static current_key_t *add_keys(sc_sim_taps_t *taps, uint32_t n) {
  keys_t *k = sc_calloc(1, sizeof *k + n * sizeof *k->list);
  k->n = n;
  k->next = taps->keys;
  taps->keys = k;
  return k->list;
}

static bool has_readers(const sc_graph_t *g, uint32_t node) {
  for (uint32_t i = 0; i < g->n_edges; i++)
    if (g->edges[i].from == node)
      return true;
  return false;
}

static void tap_node(sc_sim_taps_t *taps, sc_graph_t *g, uint32_t node, current_key_t *keys) {
  sc_node_t *n = &g->nodes[node];
  tapped_t *t = sc_malloc(sizeof *t);
  *t = (tapped_t){.next = taps->all,
                  .taps = taps,
                  .type = *n->type,
                  .own_type = n->type,
                  .own_data = n->data,
                  .node = node,
                  .is_sink = !n->type->is_source && !has_readers(g, node),
                  .keys = keys};
  t->type.create = create;
  t->type.list_splits = n->type->list_splits ? list_splits : NULL;
  t->type.prepare = n->type->prepare ? prepare : NULL;
  t->type.highest_committed = n->type->highest_committed ? highest_committed : NULL;
  taps->all = t;
  n->type = &t->type;
  n->data = t;
}

void sc_sim_taps_put(sc_sim_taps_t *taps, sc_graph_t *g) {
  for (uint32_t c = 0; c < g->n_chains; c++) {
    const sc_chain_plan_t *chain = &g->chains[c];
    bool keyed = g->nodes[chain->nodes[0]].keyed;
    current_key_t *keys = keyed ? add_keys(taps, chain->parallelism) : NULL;
    for (uint32_t i = 0; i < chain->n_nodes; i++)
      tap_node(taps, g, chain->nodes[i], keys);
  }
}

uint64_t sc_sim_taps_calls(const sc_sim_taps_t *t) { return t->calls; }
