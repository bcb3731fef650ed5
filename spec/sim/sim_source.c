#include <inttypes.h>
#include <stdlib.h>

#include "../../core/base/mem.h"
#include "sim_op.h"

int sim_list_splits(void *data, sc_bytes_t options, uint32_t parallelism, void *host, sc_buf_t *out,
                    sc_error_t *err) {
  const sim_place_t *place = data;
  sc_pack_array(out, place->node->splits);
  for (uint32_t i = 0; i < place->node->splits; i++) {
    sc_pack_map(out, 1);
    sc_pack_cstr(out, "split");
    sc_pack_int(out, i);
  }
  return 0;
}

static void note_position(const sim_op_t *o, int64_t split, int64_t seq) {
  ptrdiff_t node = o->node - o->shared->plan->nodes;
  if (split >= 0 && split < SIM_SPLITS)
    o->shared->read[node][split] = (sim_position_t){o->op.context->attempt, (uint32_t)seq};
}

static void take_split(sim_op_t *o, int64_t split, int64_t seq) {
  for (uint32_t i = 0; i < o->n_splits; i++)
    if (o->splits[i].split == split)
      sim_wrong(o->shared, "%s: got split %" PRId64 " twice", sim_label(o), split);
  o->splits = sc_realloc(o->splits, (o->n_splits + 1) * sizeof *o->splits);
  o->splits[o->n_splits++] = (split_t){split, seq, false};
  note_position(o, split, seq);
}

static int add_split(sc_operator_t *op, sc_bytes_t split, sc_error_t *err) {
  take_split((sim_op_t *)op, sc_value_field_int(split, "split", -1), 0);
  return sim_called((sim_op_t *)op, "add_split", err);
}

static void no_more_splits(sc_operator_t *op) { ((sim_op_t *)op)->no_more = true; }

/* Nothing earlier will come from here. */
static int64_t low_watermark(const sim_op_t *o) {
  int64_t least = o->n_splits ? INT64_MAX : o->last_ts + 1;
  for (uint32_t i = 0; i < o->n_splits; i++) {
    int64_t ts = sim_timestamp(o->node, o->splits[i].split, o->splits[i].seq);
    least = ts < least ? ts : least;
  }
  return least - 1;
}

/* Emit a status unless it is what was said last. Alone: one of several readers that says so while a
 * split is in its mail lets the others' watermarks pass what it has still to read. */
static bool say(sim_op_t *o, bool idle, sc_item_t *out) {
  if (!o->shared->plan->idles || o->op.context->parallelism > 1 || (idle ? o->idle : o->active))
    return false;
  o->idle = idle;
  o->active = !idle;
  *out = (sc_item_t){.is_status = true, .idle = idle};
  return true;
}

static int wait_for_split(sim_op_t *o, sc_item_t *out) {
  sc_op_context_t *c = o->op.context;
  if (o->no_more) {
    sim_tally_source_ended(&o->shared->tally);
    return SC_ENDED;
  }
  if (say(o, true, out))
    return SC_EMIT;
  c->services->ask_split(c);
  c->wake_at_ms = INT64_MAX;
  return SC_IDLE;
}

static int emit_next(sim_op_t *o, uint32_t i, sc_item_t *out) {
  split_t *s = &o->splits[i];
  emission_t e = {.output = 0};
  sim_source_record(o->node, s->split, s->seq++, &e.record);
  note_position(o, s->split, s->seq);
  s->rested = false;
  o->last_ts = e.record.ts > o->last_ts ? e.record.ts : o->last_ts;
  o->watermark_due = sim_mix(e.record.l, e.record.s + 9) % 3 == 0;
  if (s->seq == o->node->records)
    o->splits[i] = o->splits[--o->n_splits];
  sim_fill_item(o, &e, out);
  return SC_EMIT;
}

static int poll_source(sc_operator_t *op, sc_item_t *out, sc_error_t *err) {
  sim_op_t *o = (sim_op_t *)op;
  int rc = sim_called(o, "poll", err);
  if (rc < 0)
    return rc;
  if (o->n_splits && say(o, false, out))
    return SC_EMIT;
  if (o->watermark_due) {
    o->watermark_due = false;
    *out = (sc_item_t){.is_watermark = true, .timestamp = low_watermark(o)};
    return SC_EMIT;
  }
  if (o->n_splits == 0)
    return wait_for_split(o, out);
  uint32_t i = (uint32_t)(sim_mix(o->last_ts, o->n_splits) % o->n_splits);
  split_t *s = &o->splits[i];
  int64_t lot = sim_mix(s->split + o->node->salt, s->seq);
  if (!s->rested && lot % 4 == 0 && o->node->pause_ms) {
    s->rested = true;
    op->context->wake_at_ms = sc_world_now_ms(op->context->world) + o->node->pause_ms;
    return SC_IDLE;
  }
  if (!s->rested && lot % 4 == 1) {
    s->rested = true;
    return SC_DONE;
  }
  return emit_next(o, i, out);
}

static int snapshot_source(sc_operator_t *op, uint64_t id, sc_snapshot_parts_t *parts,
                           sc_error_t *err) {
  sim_op_t *o = (sim_op_t *)op;
  sc_buf_t item = SC_BUF_INIT;
  for (uint32_t i = 0; i < o->n_splits; i++) {
    sc_buf_clear(&item);
    sc_pack_map(&item, 2);
    sc_pack_cstr(&item, "split");
    sc_pack_int(&item, o->splits[i].split);
    sc_pack_cstr(&item, "seq");
    sc_pack_int(&item, o->splits[i].seq);
    sc_parts_list(parts, "splits", SC_LIST_SPLIT, sc_buf_bytes(&item));
  }
  sc_buf_free(&item);
  return sim_called(o, "snapshot", err);
}

static int restore_source(sc_operator_t *op, sc_bytes_t lists, sc_error_t *err) {
  sc_bytes_t items = {0}, item;
  uint32_t n = 0;
  sc_lists_find(lists, "splits", &items, &n);
  sc_cursor_t c = sc_cursor(items);
  for (uint32_t i = 0; i < n; i++) {
    if (sc_cursor_value(&c, &item) <= 0)
      return sc_fail(err, SC_ECORRUPT, "the splits are damaged");
    take_split((sim_op_t *)op, sc_value_field_int(item, "split", -1),
               sc_value_field_int(item, "seq", -1));
  }
  return sim_called((sim_op_t *)op, "restore", err);
}

const sc_operator_ops_t sim_source_ops = {.open = sim_op_open,
                                          .poll = poll_source,
                                          .begin_watermark = sim_op_watermark,
                                          .step = sim_op_step,
                                          .add_split = add_split,
                                          .no_more_splits = no_more_splits,
                                          .snapshot = snapshot_source,
                                          .restore = restore_source,
                                          .complete = sim_op_complete,
                                          .destroy = sim_op_destroy};
