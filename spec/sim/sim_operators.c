#include "sim_op.h"

#include <inttypes.h>
#include <stdlib.h>

#include "../../core/base/mem.h"

#define SIM_LOOKS 2000 /* most that a record may take; a look may be a fraction of a microsecond */

int sim_called(sim_op_t *o, const char *what, sc_error_t *err) {
  sim_shared_t *s = o->shared;
  s->calls++;
  for (uint32_t i = 0; i < s->plan->n_disturbances && !s->calm; i++) {
    sim_disturbance_t *d = &s->plan->disturbances[i];
    if (d->kind != SIM_RAISE || d->left_out || d->after || s->calls < d->at)
      continue;
    d->left_out = true;
    char *text = sc_format("%s fails in %s (call %" PRIu64 ")", sim_label(o), what, s->calls);
    s->tell(s->run, text);
    s->may_restart[o->node->region] = true;
    free(text);
    return sc_fail(err, SC_EUSER, "told to fail in %s", what);
  }
  return 0;
}

/* ---- emitting ---- */

void sim_enqueue(sim_op_t *o, const sim_record_t *r, uint16_t output) {
  o->queue = sc_realloc(o->queue, (o->n_queue + 1) * sizeof *o->queue);
  o->queue[o->n_queue++] = (emission_t){*r, output};
}

void sim_fill_item(sim_op_t *o, const emission_t *e, sc_item_t *out) {
  o->shared->emitted++;
  sc_buf_clear(&o->bytes);
  sim_record_pack(&e->record, &o->bytes);
  *out = (sc_item_t){.output = e->output,
                     .has_timestamp = true,
                     .timestamp = e->record.ts,
                     .bytes = sc_buf_bytes(&o->bytes)};
}

/* Half of the operators write to exchanges by themselves where nothing is chained. */
int sim_op_step(sc_operator_t *op, sc_item_t *out, sc_error_t *err) {
  sim_op_t *o = (sim_op_t *)op;
  while (o->next < o->n_queue) {
    const emission_t *e = &o->queue[o->next++];
    sim_fill_item(o, e, out);
    if (o->node->salt % 2 == 0 || sc_op_chained(op->context, e->output))
      return SC_EMIT;
    int rc = sc_op_write(op->context, out, err);
    if (rc < 0)
      return rc;
    if (rc > 0)
      return SC_BLOCKED;
  }
  o->next = o->n_queue = 0;
  return SC_DONE;
}

/* ---- what everyone looks at ---- */

/* Looks at the clock are what time passes by. */
static void take_time(sim_op_t *o) {
  sc_world_t *world = o->op.context->world;
  int64_t begin = o->node->slow_ns ? sc_world_mono_ns(world) : 0;
  for (int i = 0; i < SIM_LOOKS && o->node->slow_ns; i++)
    if (sc_world_mono_ns(world) - begin >= o->node->slow_ns)
      return;
}

void sim_look_at(sim_op_t *o, const sc_item_t *item, sim_record_t *r) {
  take_time(o);
  sim_record_unpack(item->bytes, r);
  r->ts = item->timestamp;
  if (!item->has_timestamp)
    sim_wrong(o->shared, "%s: a record lost its timestamp", sim_label(o));
  if (r->ts <= o->op.context->watermark && !o->shared->plan->idles && !o->shared->loose)
    sim_wrong(o->shared,
              "%s: record %" PRId64 "/%" PRId64 " of time %" PRId64
              " is late: the watermark is %" PRId64,
              sim_label(o), r->l, r->s, r->ts, o->op.context->watermark);
}

static int look_at_watermark(sim_op_t *o, int64_t watermark, sc_error_t *err) {
  if (o->watermark > watermark)
    sim_wrong(o->shared, "%s: the watermark goes back from %" PRId64 " to %" PRId64, sim_label(o),
              o->watermark, watermark);
  o->watermark = watermark;
  return sim_called(o, "on_watermark", err);
}

int sim_op_watermark(sc_operator_t *op, int64_t watermark, sc_error_t *err) {
  return look_at_watermark((sim_op_t *)op, watermark, err);
}

int sim_op_complete(sc_operator_t *op, uint64_t id, sc_error_t *err) {
  sim_op_t *o = (sim_op_t *)op;
  if (id <= o->told)
    sim_wrong(o->shared, "%s: told that checkpoint %" PRIu64 " completed after %" PRIu64,
              sim_label(o), id, o->told);
  o->told = id;
  o->shared->completed(o->shared->run, id);
  return sim_called(o, "complete", err);
}

int sim_op_open(sc_operator_t *op, sc_error_t *err) {
  sim_op_t *o = (sim_op_t *)op;
  o->watermark = op->context->watermark;
  return sim_called(o, "open", err);
}

int sim_op_snapshot(sc_operator_t *op, uint64_t id, sc_snapshot_parts_t *parts, sc_error_t *err) {
  return sim_called((sim_op_t *)op, "snapshot", err);
}

void sim_op_destroy(sc_operator_t *op) {
  sim_op_t *o = (sim_op_t *)op;
  free(o->queue);
  free(o->splits);
  free(o->held);
  sc_buf_free(&o->bytes);
  free(o);
}

/* ---- map and share ---- */

static int begin_map(sc_operator_t *op, uint32_t port, const sc_item_t *item, sc_error_t *err) {
  sim_op_t *o = (sim_op_t *)op;
  sim_record_t in, out[2];
  sim_look_at(o, item, &in);
  uint32_t n = sim_map_record(o->node, &in, out);
  for (uint32_t i = 0; i < n; i++)
    sim_enqueue(o, &out[i], 0);
  return sim_called(o, "on_element", err);
}

static int begin_share(sc_operator_t *op, uint32_t port, const sc_item_t *item, sc_error_t *err) {
  sim_op_t *o = (sim_op_t *)op;
  sim_record_t in;
  sim_look_at(o, item, &in);
  sim_record_t out = sim_pass_record(o->node, &in);
  if (sim_mix(in.l, in.s) % op->context->parallelism == op->context->subtask)
    sim_enqueue(o, &out, 0);
  return sim_called(o, "on_element", err);
}

/* ---- buffer ---- */

static void let_out(sim_op_t *o, int64_t upto) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < o->n_held; i++) {
    if (o->held[i].ts <= upto)
      sim_enqueue(o, &o->held[i], 0);
    else
      o->held[kept++] = o->held[i];
  }
  o->n_held = kept;
}

static void hold(sim_op_t *o, const sim_record_t *r) {
  o->held = sc_realloc(o->held, (o->n_held + 1) * sizeof *o->held);
  o->held[o->n_held++] = *r;
}

static int begin_buffer(sc_operator_t *op, uint32_t port, const sc_item_t *item, sc_error_t *err) {
  sim_op_t *o = (sim_op_t *)op;
  sim_record_t in;
  sim_look_at(o, item, &in);
  sim_record_t out = sim_pass_record(o->node, &in);
  hold(o, &out);
  if (o->n_held >= o->node->hold)
    let_out(o, INT64_MAX);
  return sim_called(o, "on_element", err);
}

static int buffer_watermark(sc_operator_t *op, int64_t watermark, sc_error_t *err) {
  let_out((sim_op_t *)op, watermark);
  return look_at_watermark((sim_op_t *)op, watermark, err);
}

static int snapshot_buffer(sc_operator_t *op, uint64_t id, sc_snapshot_parts_t *parts,
                           sc_error_t *err) {
  sim_op_t *o = (sim_op_t *)op;
  sc_buf_t item = SC_BUF_INIT;
  for (uint32_t i = 0; i < o->n_held; i++) {
    sc_buf_clear(&item);
    sc_pack_array(&item, 2);
    sc_pack_int(&item, o->held[i].ts);
    sim_record_pack(&o->held[i], &item);
    sc_parts_list(parts, "held", SC_LIST_SPLIT, sc_buf_bytes(&item));
  }
  sc_buf_free(&item);
  return sim_called(o, "snapshot", err);
}

static int restore_buffer(sc_operator_t *op, sc_bytes_t lists, sc_error_t *err) {
  sim_op_t *o = (sim_op_t *)op;
  sc_bytes_t items = {0}, item;
  uint32_t n = 0;
  sc_lists_find(lists, "held", &items, &n);
  sc_cursor_t c = sc_cursor(items);
  for (uint32_t i = 0; i < n; i++) {
    sim_record_t r;
    sc_token_t t;
    sc_cursor_next(&c, &t); /* the array */
    sc_cursor_next(&c, &t);
    if (sc_cursor_value(&c, &item) <= 0)
      return sc_fail(err, SC_ECORRUPT, "the held records are damaged");
    sim_record_unpack(item, &r);
    r.ts = t.i;
    hold(o, &r);
  }
  return sim_called(o, "restore", err);
}

/* ---- types ---- */

static const sc_operator_ops_t map_ops = {.open = sim_op_open,
                                          .begin = begin_map,
                                          .begin_watermark = sim_op_watermark,
                                          .step = sim_op_step,
                                          .snapshot = sim_op_snapshot,
                                          .complete = sim_op_complete,
                                          .destroy = sim_op_destroy};
static const sc_operator_ops_t share_ops = {.open = sim_op_open,
                                            .begin = begin_share,
                                            .begin_watermark = sim_op_watermark,
                                            .step = sim_op_step,
                                            .snapshot = sim_op_snapshot,
                                            .complete = sim_op_complete,
                                            .destroy = sim_op_destroy};
static const sc_operator_ops_t buffer_ops = {.open = sim_op_open,
                                             .begin = begin_buffer,
                                             .begin_watermark = buffer_watermark,
                                             .step = sim_op_step,
                                             .snapshot = snapshot_buffer,
                                             .restore = restore_buffer,
                                             .complete = sim_op_complete,
                                             .destroy = sim_op_destroy};

/* Attempts are numbered across regions: a later one than the life's first is a restart. */
static void look_at_attempt(sim_op_t *o) {
  sim_shared_t *s = o->shared;
  uint64_t attempt = o->op.context->attempt;
  if (!s->first_attempt)
    s->first_attempt = attempt;
  /* While a job is drained, all of it goes back where a part fails. */
  bool all = s->all_may_restart || (s->drained >> s->life & 1);
  if (attempt != s->first_attempt && !all && !s->may_restart[o->node->region])
    sim_wrong(s, "%s begins anew in attempt %" PRIu64 ", but nothing of its region has failed",
              sim_label(o), attempt);
  s->loose |= attempt != s->first_attempt && s->at_least_once;
  s->attempts[o->node - s->plan->nodes] = attempt;
}

static int create(void *data, sc_bytes_t options, sc_op_context_t *context, sc_operator_t **out,
                  sc_error_t *err) {
  static const sc_operator_ops_t *const all[] = {&sim_source_ops, &map_ops, &buffer_ops, &share_ops,
                                                 &sim_keyed_ops};
  const sim_place_t *place = data;
  sim_op_t *o = sc_calloc(1, sizeof *o);
  o->op = (sc_operator_t){all[place->node->kind], context};
  o->node = place->node;
  o->shared = place->shared;
  o->watermark = SC_WATERMARK_MIN;
  o->last_ts = -1;
  look_at_attempt(o);
  int rc = sim_called(o, "create", err);
  if (rc < 0) {
    sim_op_destroy(&o->op);
    return rc;
  }
  *out = &o->op;
  return 0;
}

const sc_operator_type_t *sim_operator_type(const sim_node_t *n) {
  static const sc_operator_type_t operator_type = {
      .kind = "sim", .replayable = true, .exactly_once = true, .create = create};
  static const sc_operator_type_t source_types[] = {{.kind = "sim_source",
                                                     .is_source = true,
                                                     .replayable = true,
                                                     .exactly_once = true,
                                                     .create = create,
                                                     .list_splits = sim_list_splits,
                                                     .in_pool = false},
                                                    {.kind = "sim_source",
                                                     .is_source = true,
                                                     .replayable = true,
                                                     .exactly_once = true,
                                                     .create = create,
                                                     .list_splits = sim_list_splits,
                                                     .in_pool = true}};
  return n->kind == SIM_SOURCE ? &source_types[n->salt % 2] : &operator_type;
}
