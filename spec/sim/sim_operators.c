#include "sim_operators.h"

#include <inttypes.h>
#include <stdlib.h>

#include "../../core/base/mem.h"

typedef struct split { int64_t split, seq; bool rested; } split_t;
typedef struct emission { sim_record_t record; uint16_t output; } emission_t;

typedef struct sim_op {
  sc_operator_t op;
  const sim_node_t *node;
  sim_shared_t *shared;
  emission_t *queue;        /* to emit */
  uint32_t n_queue, next;
  sc_buf_t bytes;           /* of the one being emitted */
  int64_t watermark;        /* last one told */
  uint64_t told;            /* highest checkpoint that was told complete */
  split_t *splits;          /* source */
  uint32_t n_splits;
  bool no_more, watermark_due;
  int64_t last_ts;
  sim_record_t *held;       /* buffer */
  uint32_t n_held;
  int acc, seen, windows, pt, fired, lanes; /* keyed: states */
} sim_op_t;

static const char *label(const sim_op_t *o) { return o->op.context->label; }

/* Every call goes through here: it may be the one that is told to fail. */
static int called(sim_op_t *o, const char *what, sc_error_t *err) {
  sim_shared_t *s = o->shared;
  s->calls++;
  for (uint32_t i = 0; i < s->plan->n_disturbances && !s->calm; i++) {
    sim_disturbance_t *d = &s->plan->disturbances[i];
    if (d->kind != SIM_RAISE || d->left_out || s->calls < d->at)
      continue;
    d->left_out = true;
    char *text = sc_format("%s fails in %s (call %" PRIu64 ")", label(o), what, s->calls);
    s->tell(s->run, text);
    free(text);
    return sc_fail(err, SC_EUSER, "told to fail in %s", what);
  }
  return 0;
}

/* ---- emitting ---- */

static void enqueue(sim_op_t *o, const sim_record_t *r, uint16_t output) {
  o->queue = sc_realloc(o->queue, (o->n_queue + 1) * sizeof *o->queue);
  o->queue[o->n_queue++] = (emission_t){*r, output};
}

static void fill_item(sim_op_t *o, const emission_t *e, sc_item_t *out) {
  sc_buf_clear(&o->bytes);
  sim_record_pack(&e->record, &o->bytes);
  *out = (sc_item_t){.output = e->output, .has_timestamp = true, .timestamp = e->record.ts,
                     .bytes = sc_buf_bytes(&o->bytes)};
}

/* Half of the operators write to exchanges by themselves where nothing is chained. */
static int step(sc_operator_t *op, sc_item_t *out, sc_error_t *err) {
  sim_op_t *o = (sim_op_t *)op;
  while (o->next < o->n_queue) {
    const emission_t *e = &o->queue[o->next++];
    fill_item(o, e, out);
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

static void look_at(sim_op_t *o, const sc_item_t *item, sim_record_t *r) {
  sim_record_unpack(item->bytes, r);
  r->ts = item->timestamp;
  if (!item->has_timestamp)
    sim_wrong(o->shared, "%s: a record lost its timestamp", label(o));
  if (r->ts <= o->op.context->watermark)
    sim_wrong(o->shared, "%s: record %" PRId64 "/%" PRId64 " of time %" PRId64
              " is late: the watermark is %" PRId64, label(o), r->l, r->s, r->ts,
              o->op.context->watermark);
}

static int look_at_watermark(sim_op_t *o, int64_t watermark, sc_error_t *err) {
  if (o->watermark > watermark)
    sim_wrong(o->shared, "%s: the watermark goes back from %" PRId64 " to %" PRId64, label(o),
              o->watermark, watermark);
  o->watermark = watermark;
  return called(o, "on_watermark", err);
}

static int begin_watermark(sc_operator_t *op, int64_t watermark, sc_error_t *err) {
  return look_at_watermark((sim_op_t *)op, watermark, err);
}

static int complete(sc_operator_t *op, uint64_t id, sc_error_t *err) {
  sim_op_t *o = (sim_op_t *)op;
  if (id <= o->told)
    sim_wrong(o->shared, "%s: told that checkpoint %" PRIu64 " completed after %" PRIu64, label(o),
              id, o->told);
  o->told = id;
  o->shared->completed(o->shared->run, id);
  return called(o, "complete", err);
}

static int open_op(sc_operator_t *op, sc_error_t *err) {
  sim_op_t *o = (sim_op_t *)op;
  o->watermark = op->context->watermark;
  return called(o, "open", err);
}

static int snapshot_nothing(sc_operator_t *op, uint64_t id, sc_snapshot_parts_t *parts,
                            sc_error_t *err) {
  return called((sim_op_t *)op, "snapshot", err);
}

static void destroy(sc_operator_t *op) {
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
  look_at(o, item, &in);
  uint32_t n = sim_map_record(o->node, &in, out);
  for (uint32_t i = 0; i < n; i++)
    enqueue(o, &out[i], 0);
  return called(o, "on_element", err);
}

static int begin_share(sc_operator_t *op, uint32_t port, const sc_item_t *item, sc_error_t *err) {
  sim_op_t *o = (sim_op_t *)op;
  sim_record_t in;
  look_at(o, item, &in);
  sim_record_t out = sim_pass_record(o->node, &in);
  if (sim_mix(in.l, in.s) % op->context->parallelism == op->context->subtask)
    enqueue(o, &out, 0);
  return called(o, "on_element", err);
}

/* ---- buffer ---- */

static void let_out(sim_op_t *o, int64_t upto) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < o->n_held; i++) {
    if (o->held[i].ts <= upto)
      enqueue(o, &o->held[i], 0);
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
  look_at(o, item, &in);
  sim_record_t out = sim_pass_record(o->node, &in);
  hold(o, &out);
  if (o->n_held >= o->node->hold)
    let_out(o, INT64_MAX);
  return called(o, "on_element", err);
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
  return called(o, "snapshot", err);
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
  return called(o, "restore", err);
}

/* ---- source ---- */

static int list_splits(void *data, sc_bytes_t options, uint32_t parallelism, void *host,
                       sc_buf_t *out, sc_error_t *err) {
  const sim_place_t *place = data;
  sc_pack_array(out, place->node->splits);
  for (uint32_t i = 0; i < place->node->splits; i++) {
    sc_pack_map(out, 1);
    sc_pack_cstr(out, "split");
    sc_pack_int(out, i);
  }
  return 0;
}

static void take_split(sim_op_t *o, int64_t split, int64_t seq) {
  for (uint32_t i = 0; i < o->n_splits; i++)
    if (o->splits[i].split == split)
      sim_wrong(o->shared, "%s: got split %" PRId64 " twice", label(o), split);
  o->splits = sc_realloc(o->splits, (o->n_splits + 1) * sizeof *o->splits);
  o->splits[o->n_splits++] = (split_t){split, seq, false};
}

static int add_split(sc_operator_t *op, sc_bytes_t split, sc_error_t *err) {
  take_split((sim_op_t *)op, sc_value_field_int(split, "split", -1), 0);
  return called((sim_op_t *)op, "add_split", err);
}

static void no_more_splits(sc_operator_t *op) {
  ((sim_op_t *)op)->no_more = true;
}

/* Nothing earlier will come from here. */
static int64_t low_watermark(const sim_op_t *o) {
  int64_t least = o->n_splits ? INT64_MAX : o->last_ts + 1;
  for (uint32_t i = 0; i < o->n_splits; i++) {
    int64_t ts = sim_timestamp(o->node, o->splits[i].split, o->splits[i].seq);
    least = ts < least ? ts : least;
  }
  return least - 1;
}

static int wait_for_split(sim_op_t *o) {
  sc_op_context_t *c = o->op.context;
  if (o->no_more)
    return SC_ENDED;
  c->services->ask_split(c);
  c->wake_at_ms = INT64_MAX;
  return SC_IDLE;
}

static int emit_next(sim_op_t *o, uint32_t i, sc_item_t *out) {
  split_t *s = &o->splits[i];
  emission_t e = {.output = 0};
  sim_source_record(o->node, s->split, s->seq++, &e.record);
  s->rested = false;
  o->last_ts = e.record.ts > o->last_ts ? e.record.ts : o->last_ts;
  o->watermark_due = sim_mix(e.record.l, e.record.s + 9) % 3 == 0;
  if (s->seq == o->node->records)
    o->splits[i] = o->splits[--o->n_splits];
  fill_item(o, &e, out);
  return SC_EMIT;
}

static int poll_source(sc_operator_t *op, sc_item_t *out, sc_error_t *err) {
  sim_op_t *o = (sim_op_t *)op;
  int rc = called(o, "poll", err);
  if (rc < 0)
    return rc;
  if (o->watermark_due) {
    o->watermark_due = false;
    *out = (sc_item_t){.is_watermark = true, .timestamp = low_watermark(o)};
    return SC_EMIT;
  }
  if (o->n_splits == 0)
    return wait_for_split(o);
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
  return called(o, "snapshot", err);
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
  return called((sim_op_t *)op, "restore", err);
}

/* ---- keyed ---- */

typedef struct pair { uint8_t data[64]; size_t len; } pair_t;

static sc_bytes_t pack_pair(pair_t *p, int64_t a, int64_t b) {
  sc_buf_t out = SC_BUF_INIT;
  sc_pack_array(&out, 2);
  sc_pack_int(&out, a);
  sc_pack_int(&out, b);
  p->len = out.len;
  memcpy(p->data, out.data, out.len);
  sc_buf_free(&out);
  return sc_bytes(p->data, p->len);
}

static bool unpack_pair(sc_bytes_t bytes, int64_t out[2]) {
  sc_cursor_t c = sc_cursor(bytes);
  sc_token_t t[3];
  for (int i = 0; i < 3; i++)
    if (sc_cursor_next(&c, &t[i]) <= 0)
      return false;
  out[0] = t[1].i;
  out[1] = t[2].i;
  return true;
}

static sc_address_t address(const sim_op_t *o, int state) {
  const sc_op_context_t *c = o->op.context;
  return (sc_address_t){.state = state, .group = c->key_group, .key = c->key};
}

/* Read a pair of a map, or {0, 0}. */
static bool map_pair(sim_op_t *o, int state, sc_bytes_t map_key, int64_t out[2]) {
  sc_keyed_t *k = o->op.context->keyed;
  sc_address_t at = address(o, state);
  sc_bytes_t value;
  out[0] = out[1] = 0;
  return k->ops->map_get(k, &at, map_key, &value, NULL) > 0 && unpack_pair(value, out);
}

static int map_put(sim_op_t *o, int state, sc_bytes_t map_key, int64_t a, int64_t b,
                   sc_error_t *err) {
  sc_keyed_t *k = o->op.context->keyed;
  sc_address_t at = address(o, state);
  pair_t value;
  return k->ops->map_put(k, &at, map_key, pack_pair(&value, a, b), err);
}

static int declare(sim_op_t *o, const char *name, sc_state_kind_t kind, sc_error_t *err) {
  return sc_keyed_declare(o->op.context->keyed, &(sc_state_descriptor_t){name, kind}, err);
}

static int open_keyed(sc_operator_t *op, sc_error_t *err) {
  sim_op_t *o = (sim_op_t *)op;
  o->acc = declare(o, "acc", SC_STATE_VALUE, err);
  o->seen = declare(o, "seen", SC_STATE_MAP, err);
  o->windows = declare(o, "windows", SC_STATE_MAP, err);
  o->pt = declare(o, "pt", SC_STATE_MAP, err);
  o->fired = declare(o, "fired", SC_STATE_MAP, err);
  o->lanes = declare(o, "lanes", SC_STATE_MAP, err);
  return o->lanes < 0 ? o->lanes : open_op(op, err);
}

static void look_at_key(sim_op_t *o, const sim_record_t *in) {
  const sc_op_context_t *c = o->op.context;
  sc_key_range_t range = sc_key_range(c->max_parallelism, c->parallelism, c->subtask);
  sc_token_t t;
  sc_cursor_t cursor = sc_cursor(c->key);
  if (!c->has_key || sc_cursor_next(&cursor, &t) <= 0 || t.i != in->k)
    sim_wrong(o->shared, "%s: record %" PRId64 "/%" PRId64 " came with the wrong key", label(o),
              in->l, in->s);
  else if (c->key_group < range.first || c->key_group > range.last)
    sim_wrong(o->shared, "%s: a record of key group %u came to a foreign subtask", label(o),
              c->key_group);
}

/* Once, and in the order of its lane. */
static int remember(sim_op_t *o, const sim_record_t *in, sc_error_t *err) {
  pair_t id, lane;
  int64_t old[2];
  if (map_pair(o, o->seen, pack_pair(&id, in->l, in->s), old))
    sim_wrong(o->shared, "%s: record %" PRId64 "/%" PRId64 " of key %" PRId64 " came twice",
              label(o), in->l, in->s, in->k);
  bool ordered = true;
  for (uint32_t i = 0; i < o->node->n_inputs; i++)
    ordered &= o->shared->plan->nodes[o->node->inputs[i].from].ordered;
  if (ordered && map_pair(o, o->lanes, pack_pair(&lane, in->l, 0), old) && old[0] >= in->s)
    sim_wrong(o->shared,
              "%s: record %" PRId64 "/%" PRId64 " of key %" PRId64 " came after number %" PRId64,
              label(o), in->l, in->s, in->k, old[0]);
  int rc = map_put(o, o->seen, pack_pair(&id, in->l, in->s), in->ts, in->v, err);
  return rc < 0 ? rc : map_put(o, o->lanes, pack_pair(&lane, in->l, 0), in->s, 0, err);
}

static int count(sim_op_t *o, const sim_record_t *in, sc_error_t *err) {
  sc_keyed_t *k = o->op.context->keyed;
  sc_address_t at = address(o, o->acc);
  sc_bytes_t value;
  int64_t digest[2] = {0, 0};
  pair_t packed;
  if (sc_keyed_get(k, &at, &value, err) > 0)
    unpack_pair(value, digest);
  sim_window_add(digest, in);
  return sc_keyed_put(k, &at, pack_pair(&packed, digest[0], digest[1]), err);
}

static sc_timer_t timer_of(const sim_op_t *o, sc_time_domain_t domain, int64_t time,
                           sc_bytes_t name_space) {
  const sc_op_context_t *c = o->op.context;
  return (sc_timer_t){domain, time, c->key_group, c->key, name_space};
}

static int set_window(sim_op_t *o, const sim_record_t *in, sc_error_t *err) {
  int64_t digest[2], end = sim_window_end(o->node, in);
  pair_t key;
  map_pair(o, o->windows, pack_pair(&key, end, 0), digest);
  sim_window_add(digest, in);
  int rc = map_put(o, o->windows, pack_pair(&key, end, 0), digest[0], digest[1], err);
  sc_timer_t t = timer_of(o, SC_EVENT_TIME, end, sc_bytes(NULL, 0));
  return rc < 0 ? rc : sc_timers_register(o->op.context->timers, &t, err);
}

static int set_pt(sim_op_t *o, const sim_record_t *in, sc_error_t *err) {
  if (!sim_has_pt(o->node, in))
    return 0;
  int64_t time = sc_world_now_ms(o->op.context->world) + sim_mix(in->s, in->l) % 60;
  pair_t key;
  sc_bytes_t id = pack_pair(&key, in->l, in->s);
  int rc = map_put(o, o->pt, id, time, in->k, err);
  sc_timer_t t = timer_of(o, SC_PROCESSING_TIME, time, id);
  return rc < 0 ? rc : sc_timers_register(o->op.context->timers, &t, err);
}

static int begin_keyed(sc_operator_t *op, uint32_t port, const sc_item_t *item, sc_error_t *err) {
  sim_op_t *o = (sim_op_t *)op;
  sim_record_t in;
  look_at(o, item, &in);
  look_at_key(o, &in);
  sim_record_t out = sim_pass_record(o->node, &in);
  enqueue(o, &out, 0);
  int rc = remember(o, &in, err);
  if (rc >= 0)
    rc = count(o, &in, err);
  if (rc >= 0)
    rc = called(o, "on_element", err);
  if (rc >= 0)
    rc = set_window(o, &in, err);
  return rc < 0 ? rc : set_pt(o, &in, err);
}

static int fire_window(sim_op_t *o, const sc_timer_t *t, int64_t key, sc_error_t *err) {
  int64_t digest[2];
  pair_t map_key;
  sc_bytes_t end = pack_pair(&map_key, t->time, 0);
  sc_keyed_t *k = o->op.context->keyed;
  sc_address_t at = address(o, o->windows);
  if (!map_pair(o, o->windows, end, digest))
    sim_wrong(o->shared,
              "%s: the timer of key %" PRId64 " at %" PRId64 " fires, but its window is not there",
              label(o), key, t->time);
  if (t->time > o->op.context->watermark)
    sim_wrong(o->shared, "%s: an event-time timer at %" PRId64 " fires at watermark %" PRId64,
              label(o), t->time, o->op.context->watermark);
  sim_record_t out = sim_window_record(o->node, key, t->time, digest);
  enqueue(o, &out, 0);
  return k->ops->map_remove(k, &at, end, err);
}

static int fire_pt(sim_op_t *o, const sc_timer_t *t, int64_t key, sc_error_t *err) {
  int64_t id[2] = {0, 0}, set[2] = {0, 0};
  sc_keyed_t *k = o->op.context->keyed;
  sc_address_t at = address(o, o->pt);
  if (!unpack_pair(t->name_space, id) || !map_pair(o, o->pt, t->name_space, set) ||
      set[0] != t->time)
    sim_wrong(o->shared,
              "%s: a processing-time timer of key %" PRId64 " fires that nobody waits for",
              label(o), key);
  if (t->time > sc_world_now_ms(o->op.context->world))
    sim_wrong(o->shared, "%s: a processing-time timer fires too early", label(o));
  sim_record_t in = {.k = key, .l = id[0], .s = id[1]}, out = sim_pt_record(o->node, &in);
  out.ts = t->time;
  enqueue(o, &out, 1);
  int rc = map_put(o, o->fired, t->name_space, key, 0, err);
  return rc < 0 ? rc : k->ops->map_remove(k, &at, t->name_space, err);
}

static int begin_timer(sc_operator_t *op, const sc_timer_t *t, sc_error_t *err) {
  sim_op_t *o = (sim_op_t *)op;
  sc_token_t token = {.i = -1};
  sc_cursor_t c = sc_cursor(t->key);
  sc_cursor_next(&c, &token);
  int rc = t->domain == SC_EVENT_TIME ? fire_window(o, t, token.i, err)
                                      : fire_pt(o, t, token.i, err);
  return rc < 0 ? rc : called(o, "on_timer", err);
}

/* ---- types ---- */

static const sc_operator_ops_t map_ops = {
    .open = open_op, .begin = begin_map, .begin_watermark = begin_watermark, .step = step,
    .snapshot = snapshot_nothing, .complete = complete, .destroy = destroy};
static const sc_operator_ops_t share_ops = {
    .open = open_op, .begin = begin_share, .begin_watermark = begin_watermark, .step = step,
    .snapshot = snapshot_nothing, .complete = complete, .destroy = destroy};
static const sc_operator_ops_t buffer_ops = {.open = open_op,
                                             .begin = begin_buffer,
                                             .begin_watermark = buffer_watermark,
                                             .step = step,
                                             .snapshot = snapshot_buffer,
                                             .restore = restore_buffer,
                                             .complete = complete,
                                             .destroy = destroy};
static const sc_operator_ops_t source_ops = {.open = open_op,
                                             .poll = poll_source,
                                             .begin_watermark = begin_watermark,
                                             .step = step,
                                             .add_split = add_split,
                                             .no_more_splits = no_more_splits,
                                             .snapshot = snapshot_source,
                                             .restore = restore_source,
                                             .complete = complete,
                                             .destroy = destroy};
static const sc_operator_ops_t keyed_ops = {
    .open = open_keyed, .begin = begin_keyed, .begin_timer = begin_timer,
    .begin_watermark = begin_watermark, .step = step, .snapshot = snapshot_nothing,
    .complete = complete, .destroy = destroy};

static int create(void *data, sc_bytes_t options, sc_op_context_t *context, sc_operator_t **out,
                  sc_error_t *err) {
  static const sc_operator_ops_t *const all[] = {&source_ops, &map_ops, &buffer_ops, &share_ops,
                                                 &keyed_ops};
  const sim_place_t *place = data;
  sim_op_t *o = sc_calloc(1, sizeof *o);
  o->op = (sc_operator_t){all[place->node->kind], context};
  o->node = place->node;
  o->shared = place->shared;
  o->watermark = SC_WATERMARK_MIN;
  o->last_ts = -1;
  int rc = called(o, "create", err);
  if (rc < 0) {
    destroy(&o->op);
    return rc;
  }
  *out = &o->op;
  return 0;
}

const sc_operator_type_t *sim_operator_type(const sim_node_t *n) {
  static const sc_operator_type_t operator_type = {
      .kind = "sim", .replayable = true, .exactly_once = true, .create = create};
  static const sc_operator_type_t source_types[] = {
      {.kind = "sim_source", .is_source = true, .replayable = true, .exactly_once = true,
       .create = create, .list_splits = list_splits, .in_pool = false},
      {.kind = "sim_source", .is_source = true, .replayable = true, .exactly_once = true,
       .create = create, .list_splits = list_splits, .in_pool = true}};
  return n->kind == SIM_SOURCE ? &source_types[n->salt % 2] : &operator_type;
}
