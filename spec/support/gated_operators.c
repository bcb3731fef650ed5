#include "gated_operators.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "../../core/base/mem.h"
#include "../../core/snapshot/redistribute.h"

/* ---- the gate ---- */

typedef struct reader reader_t;

struct gate {
  uint32_t splits;
  atomic_int_fast64_t allowed;
  atomic_bool finished, fails, presses;
  atomic_int_fast64_t plug; /* the subtask that is held up, or -1 */
  bool plugged;         /* it waits; under lock */
  bool stalls, stalled; /* snapshots wait; one does; under lock */
  pthread_cond_t unplugged;
  pthread_mutex_t lock; /* guards the list */
  reader_t *readers;    /* the ones that live */
};

typedef struct split {
  int64_t first, out; /* its number; values that are out */
} split_t;

struct reader {
  sc_operator_t op;
  gate_t *gate;
  split_t *splits;
  uint32_t n, turn;
  bool no_more;
  sc_buf_t value;
  reader_t *next;
};

gate_t *gate_create(uint32_t splits) {
  gate_t *g = sc_calloc(1, sizeof *g);
  g->splits = splits;
  atomic_init(&g->plug, -1);
  pthread_mutex_init(&g->lock, NULL);
  pthread_cond_init(&g->unplugged, NULL);
  return g;
}

void gate_destroy(gate_t *g) {
  pthread_cond_destroy(&g->unplugged);
  pthread_mutex_destroy(&g->lock);
  free(g);
}

static void wake_all(gate_t *g) {
  pthread_mutex_lock(&g->lock);
  for (reader_t *r = g->readers; r; r = r->next)
    r->op.context->services->wake(r->op.context);
  pthread_mutex_unlock(&g->lock);
}

void gate_allow(gate_t *g, int64_t allowed) {
  atomic_store(&g->allowed, allowed);
  wake_all(g);
}

void gate_finish(gate_t *g) {
  atomic_store(&g->finished, true);
  wake_all(g);
}

void gate_fail(gate_t *g) {
  atomic_store(&g->fails, true);
  wake_all(g);
}

void gate_press(gate_t *g, bool yes) {
  atomic_store(&g->presses, yes);
}

void gate_plug(gate_t *g, int64_t subtask) {
  pthread_mutex_lock(&g->lock);
  atomic_store(&g->plug, subtask);
  pthread_cond_broadcast(&g->unplugged);
  pthread_mutex_unlock(&g->lock);
  wake_all(g); /* a reader that has nothing to do comes to it, too */
}

bool gate_plugged(gate_t *g) {
  pthread_mutex_lock(&g->lock);
  bool plugged = g->plugged;
  pthread_mutex_unlock(&g->lock);
  return plugged;
}

void gate_stall(gate_t *g, bool yes) {
  pthread_mutex_lock(&g->lock);
  g->stalls = yes;
  pthread_cond_broadcast(&g->unplugged);
  pthread_mutex_unlock(&g->lock);
}

bool gate_stalled(gate_t *g) {
  pthread_mutex_lock(&g->lock);
  bool stalled = g->stalled;
  pthread_mutex_unlock(&g->lock);
  return stalled;
}

static void wait_while_stalled(gate_t *g) {
  pthread_mutex_lock(&g->lock);
  while (g->stalls) {
    g->stalled = true;
    pthread_cond_wait(&g->unplugged, &g->lock);
  }
  g->stalled = false;
  pthread_mutex_unlock(&g->lock);
}

static void wait_at_plug(gate_t *g, int64_t subtask) {
  if (atomic_load(&g->plug) != subtask)
    return;
  pthread_mutex_lock(&g->lock);
  g->plugged = true;
  while (atomic_load(&g->plug) == subtask)
    pthread_cond_wait(&g->unplugged, &g->lock);
  g->plugged = false;
  pthread_mutex_unlock(&g->lock);
}

/* ---- the source ---- */

static int reader_open(sc_operator_t *op, sc_error_t *err) {
  reader_t *r = (reader_t *)op;
  pthread_mutex_lock(&r->gate->lock);
  r->next = r->gate->readers;
  r->gate->readers = r;
  pthread_mutex_unlock(&r->gate->lock);
  return 0;
}

static void add(reader_t *r, int64_t first, int64_t out) {
  r->splits = sc_realloc(r->splits, (r->n + 1) * sizeof *r->splits);
  r->splits[r->n++] = (split_t){first, out};
}

static int add_split(sc_operator_t *op, sc_bytes_t split, sc_error_t *err) {
  add((reader_t *)op, sc_value_field_int(split, "first", -1), sc_value_field_int(split, "out", 0));
  return 0;
}

static void no_more_splits(sc_operator_t *op) {
  ((reader_t *)op)->no_more = true;
}

static void make_value(reader_t *r, const split_t *s) {
  int64_t v = s->first + s->out * r->gate->splits;
  sc_buf_clear(&r->value);
  sc_pack_map(&r->value, 2);
  sc_pack_cstr(&r->value, "k");
  sc_pack_int(&r->value, v % GATE_KEYS);
  sc_pack_cstr(&r->value, "n");
  sc_pack_int(&r->value, v);
}

static int reader_poll(sc_operator_t *op, sc_item_t *out, sc_error_t *err) {
  reader_t *r = (reader_t *)op;
  wait_at_plug(r->gate, op->context->subtask);
  if (atomic_load(&r->gate->fails) && atomic_exchange(&r->gate->fails, false))
    return sc_fail(err, SC_EIO, "the gate fell");
  int64_t allowed = atomic_load(&r->gate->allowed);
  for (uint32_t i = 0; i < r->n; i++) {
    split_t *s = &r->splits[(r->turn + i) % r->n];
    if (s->out >= allowed)
      continue;
    make_value(r, s);
    s->out++;
    r->turn = (r->turn + i + 1) % r->n;
    *out = (sc_item_t){.bytes = sc_buf_bytes(&r->value)};
    return SC_EMIT;
  }
  if (atomic_load(&r->gate->finished) && r->no_more)
    return SC_ENDED;
  if (!r->no_more)
    op->context->services->ask_split(op->context);
  op->context->wake_at_ms = INT64_MAX; /* the gate wakes it */
  return SC_IDLE;
}

static void put_split(sc_buf_t *out, int64_t first, int64_t n) {
  sc_pack_map(out, 2);
  sc_pack_cstr(out, "first");
  sc_pack_int(out, first);
  sc_pack_cstr(out, "out");
  sc_pack_int(out, n);
}

static int reader_snapshot(sc_operator_t *op, uint64_t id, sc_snapshot_parts_t *parts,
                           sc_error_t *err) {
  reader_t *r = (reader_t *)op;
  wait_while_stalled(r->gate);
  for (uint32_t i = 0; i < r->n; i++) {
    sc_buf_t item = SC_BUF_INIT;
    put_split(&item, r->splits[i].first, r->splits[i].out);
    sc_parts_list(parts, "splits", SC_LIST_SPLIT, sc_buf_bytes(&item));
    sc_buf_free(&item);
  }
  return 0;
}

static int restore_split(void *op, sc_bytes_t item, sc_error_t *err) {
  return add_split(op, item, err);
}

static int reader_restore(sc_operator_t *op, sc_bytes_t lists, sc_error_t *err) {
  return sc_lists_each(lists, "splits", restore_split, op, op->context->label, err);
}

static void reader_destroy(sc_operator_t *op) {
  reader_t *r = (reader_t *)op;
  pthread_mutex_lock(&r->gate->lock);
  for (reader_t **at = &r->gate->readers; *at; at = &(*at)->next)
    if (*at == r) {
      *at = r->next;
      break;
    }
  pthread_mutex_unlock(&r->gate->lock);
  sc_buf_free(&r->value);
  free(r->splits);
  free(r);
}

static const sc_operator_ops_t reader_ops = {
    .open = reader_open, .poll = reader_poll, .add_split = add_split,
    .no_more_splits = no_more_splits, .snapshot = reader_snapshot, .restore = reader_restore,
    .destroy = reader_destroy,
};

static int reader_create(void *data, sc_bytes_t options, sc_op_context_t *context,
                         sc_operator_t **out, sc_error_t *err) {
  reader_t *r = sc_calloc(1, sizeof *r);
  r->op = (sc_operator_t){&reader_ops, context};
  r->gate = data;
  *out = &r->op;
  return 0;
}

static int list_splits(void *data, sc_bytes_t options, uint32_t parallelism, void *host,
                       sc_buf_t *out, sc_error_t *err) {
  const gate_t *g = data;
  sc_pack_array(out, g->splits);
  for (uint32_t i = 0; i < g->splits; i++)
    put_split(out, i, 0);
  return 0;
}

const sc_operator_type_t gate_source_type = {
    .kind = "gate", .is_source = true, .replayable = true, .exactly_once = true, .in_pool = true,
    .create = reader_create, .list_splits = list_splits,
};

/* ---- the count ---- */

typedef struct tally {
  sc_operator_t op;
  gate_t *gate;   /* or NULL */
  int state;
  bool has_item;
  sc_buf_t value; /* to be emitted */
} tally_t;

static int tally_open(sc_operator_t *op, sc_error_t *err) {
  tally_t *t = (tally_t *)op;
  sc_state_descriptor_t d = {"count", SC_STATE_VALUE};
  return t->state = sc_keyed_declare(op->context->keyed, &d, err);
}

static int tally_begin(sc_operator_t *op, uint32_t port, const sc_item_t *item, sc_error_t *err) {
  tally_t *t = (tally_t *)op;
  sc_op_context_t *c = op->context;
  if (t->gate && atomic_load(&t->gate->presses)) /* slower than the source, by far */
    nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
  sc_address_t at = {.state = t->state, .group = c->key_group, .key = c->key};
  sc_bytes_t old;
  sc_token_t token = {.i = 0};
  int rc = sc_keyed_get(c->keyed, &at, &old, err);
  if (rc > 0) {
    sc_cursor_t cursor = sc_cursor(old);
    sc_cursor_next(&cursor, &token);
  }
  sc_buf_t count = SC_BUF_INIT;
  sc_pack_int(&count, token.i + 1);
  if (rc >= 0)
    rc = sc_keyed_put(c->keyed, &at, sc_buf_bytes(&count), err);
  sc_buf_free(&count);
  sc_buf_clear(&t->value);
  sc_pack_map(&t->value, 2);
  sc_pack_cstr(&t->value, "k");
  sc_pack_int(&t->value, sc_value_field_int(item->bytes, "k", -1));
  sc_pack_cstr(&t->value, "n");
  sc_pack_int(&t->value, token.i + 1);
  t->has_item = true;
  return rc < 0 ? rc : 0;
}

static int tally_step(sc_operator_t *op, sc_item_t *out, sc_error_t *err) {
  tally_t *t = (tally_t *)op;
  if (!t->has_item)
    return SC_DONE;
  t->has_item = false;
  *out = (sc_item_t){.bytes = sc_buf_bytes(&t->value)};
  return SC_EMIT;
}

static void tally_destroy(sc_operator_t *op) {
  sc_buf_free(&((tally_t *)op)->value);
  free(op);
}

static const sc_operator_ops_t tally_ops = {
    .open = tally_open, .begin = tally_begin, .step = tally_step, .destroy = tally_destroy,
};

static int tally_create(void *data, sc_bytes_t options, sc_op_context_t *context,
                        sc_operator_t **out, sc_error_t *err) {
  tally_t *t = sc_calloc(1, sizeof *t);
  t->op = (sc_operator_t){&tally_ops, context};
  t->gate = data;
  *out = &t->op;
  return 0;
}

const sc_operator_type_t tally_type = {
    .kind = "tally", .replayable = true, .exactly_once = true, .create = tally_create,
};

/* ---- one that has a last word ---- */

typedef struct farewell {
  sc_operator_t op;
  bool has_item;
  sc_buf_t value;
} farewell_t;

static int farewell_begin(sc_operator_t *op, uint32_t port, const sc_item_t *item,
                          sc_error_t *err) {
  farewell_t *f = (farewell_t *)op;
  sc_buf_clear(&f->value);
  sc_buf_put_bytes(&f->value, item->bytes);
  f->has_item = true;
  return 0;
}

static int farewell_finish(sc_operator_t *op, sc_error_t *err) {
  farewell_t *f = (farewell_t *)op;
  sc_buf_clear(&f->value);
  sc_pack_cstr(&f->value, "bye");
  f->has_item = true;
  return 0;
}

static int farewell_step(sc_operator_t *op, sc_item_t *out, sc_error_t *err) {
  farewell_t *f = (farewell_t *)op;
  if (!f->has_item)
    return SC_DONE;
  f->has_item = false;
  *out = (sc_item_t){.bytes = sc_buf_bytes(&f->value)};
  return SC_EMIT;
}

static void farewell_destroy(sc_operator_t *op) {
  sc_buf_free(&((farewell_t *)op)->value);
  free(op);
}

static const sc_operator_ops_t farewell_ops = {
    .begin = farewell_begin, .begin_finish = farewell_finish, .step = farewell_step,
    .destroy = farewell_destroy,
};

static int farewell_create(void *data, sc_bytes_t options, sc_op_context_t *context,
                           sc_operator_t **out, sc_error_t *err) {
  farewell_t *f = sc_calloc(1, sizeof *f);
  f->op = (sc_operator_t){&farewell_ops, context};
  *out = &f->op;
  return 0;
}

const sc_operator_type_t farewell_type = {
    .kind = "farewell", .replayable = true, .exactly_once = true, .create = farewell_create,
};
