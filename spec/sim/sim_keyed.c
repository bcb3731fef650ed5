#include <inttypes.h>

#include "sim_op.h"

typedef struct pair {
  uint8_t data[64];
  size_t len;
} pair_t;

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
  return o->lanes < 0 ? o->lanes : sim_op_open(op, err);
}

static void look_at_key(sim_op_t *o, const sim_record_t *in) {
  const sc_op_context_t *c = o->op.context;
  sc_key_range_t range = sc_key_range(c->max_parallelism, c->parallelism, c->subtask);
  sc_token_t t;
  sc_cursor_t cursor = sc_cursor(c->key);
  if (!c->has_key || sc_cursor_next(&cursor, &t) <= 0 || t.i != in->k)
    sim_wrong(o->shared, "%s: record %" PRId64 "/%" PRId64 " came with the wrong key", sim_label(o),
              in->l, in->s);
  else if (c->key_group < range.first || c->key_group > range.last)
    sim_wrong(o->shared, "%s: a record of key group %u came to a foreign subtask", sim_label(o),
              c->key_group);
}

/* Once, and in the order of its lane. */
static int remember(sim_op_t *o, const sim_record_t *in, sc_error_t *err) {
  pair_t id, lane;
  int64_t old[2];
  bool loose = o->shared->loose;
  if (map_pair(o, o->seen, pack_pair(&id, in->l, in->s), old) && !loose)
    sim_wrong(o->shared, "%s: record %" PRId64 "/%" PRId64 " of key %" PRId64 " came twice",
              sim_label(o), in->l, in->s, in->k);
  bool ordered = !loose;
  for (uint32_t i = 0; i < o->node->n_inputs; i++)
    ordered &= o->shared->plan->nodes[o->node->inputs[i].from].ordered;
  if (ordered && map_pair(o, o->lanes, pack_pair(&lane, in->l, 0), old) && old[0] >= in->s)
    sim_wrong(o->shared,
              "%s: record %" PRId64 "/%" PRId64 " of key %" PRId64 " came after number %" PRId64,
              sim_label(o), in->l, in->s, in->k, old[0]);
  int rc = map_put(o, o->seen, pack_pair(&id, in->l, in->s), in->ts, in->v, err);
  return rc < 0 ? rc : map_put(o, o->lanes, pack_pair(&lane, in->l, 0), in->s, 0, err);
}

static int count(sim_op_t *o, const sim_record_t *in, sc_error_t *err) {
  sc_keyed_t *k = o->op.context->keyed;
  sc_address_t at = address(o, o->acc);
  sc_place_t place;
  int64_t digest[2] = {0, 0};
  pair_t packed;
  int rc = sc_keyed_find(k, &at, &place, err);
  if (rc > 0)
    unpack_pair(place.value, digest);
  sim_window_add(digest, in);
  return rc < 0 ? rc : sc_keyed_replace(k, &place, pack_pair(&packed, digest[0], digest[1]), err);
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
  int64_t old[2];
  sc_bytes_t id = pack_pair(&key, in->l, in->s);
  if (map_pair(o, o->pt, id, old)) /* a record that came again finds its timer waiting */
    return 0;
  int rc = map_put(o, o->pt, id, time, in->k, err);
  sc_timer_t t = timer_of(o, SC_PROCESSING_TIME, time, id);
  return rc < 0 ? rc : sc_timers_register(o->op.context->timers, &t, err);
}

static int begin_keyed(sc_operator_t *op, uint32_t port, const sc_item_t *item, sc_error_t *err) {
  sim_op_t *o = (sim_op_t *)op;
  sim_record_t in;
  sim_look_at(o, item, &in);
  look_at_key(o, &in);
  sim_record_t out = sim_pass_record(o->node, &in);
  sim_enqueue(o, &out, 0);
  int rc = remember(o, &in, err);
  if (rc >= 0)
    rc = count(o, &in, err);
  if (rc >= 0)
    rc = sim_called(o, "on_element", err);
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
              sim_label(o), key, t->time);
  if (t->time > o->op.context->watermark)
    sim_wrong(o->shared, "%s: an event-time timer at %" PRId64 " fires at watermark %" PRId64,
              sim_label(o), t->time, o->op.context->watermark);
  sim_record_t out = sim_window_record(o->node, key, t->time, digest);
  sim_enqueue(o, &out, 0);
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
              sim_label(o), key);
  if (t->time > sc_world_now_ms(o->op.context->world) && !o->shared->plan->clock_set_ms)
    sim_wrong(o->shared, "%s: a processing-time timer fires too early", sim_label(o));
  sim_record_t in = {.k = key, .l = id[0], .s = id[1]}, out = sim_pt_record(o->node, &in);
  out.ts = t->time;
  sim_enqueue(o, &out, 1);
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
  return rc < 0 ? rc : sim_called(o, "on_timer", err);
}

const sc_operator_ops_t sim_keyed_ops = {.open = open_keyed,
                                         .begin = begin_keyed,
                                         .begin_timer = begin_timer,
                                         .begin_watermark = sim_op_watermark,
                                         .step = sim_op_step,
                                         .snapshot = sim_op_snapshot,
                                         .complete = sim_op_complete,
                                         .destroy = sim_op_destroy};
