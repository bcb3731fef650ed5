#include "families.h"

#include <lauxlib.h>

#include "context.h"
#include "splits.h"
#include "user_error.h"

/*
 * A generator emits fn(i) for i from 0 to below `count` (without it: for ever), where nil skips;
 * without fn it emits i itself. Split k of P has the indices k, k + P, ...; P is the parallelism of
 * the first start and stays, since it lies in the splits. With `rate` the whole job makes so many a
 * second: each split a P-th of it, counted from when its reader began, so that a stop or a slow
 * consumer is made up for, but not the time before a restart.
 */
typedef struct lsc_generator {
  lsc_op_t op;         /* first */
  lsc_splits_t splits; /* those of this reader */
  int64_t count;       /* INT64_MAX: endless */
  double rate;         /* records a second; 0: as fast as possible */
  bool has_function;   /* else the index itself is emitted */
} lsc_generator_t;

/* Protected. */
static void generator_setup(lsc_op_t *op, lua_State *L) {
  lsc_generator_t *g = (lsc_generator_t *)op;
  g->has_function = lua_type(op->shelf, LSC_SHELF_FUNCTION) == LUA_TFUNCTION;
  g->count = INT64_MAX;
  if (lua_getfield(L, -1, "count") != LUA_TNIL) {
    int whole;
    g->count = lua_tointegerx(L, -1, &whole);
    if (!whole || g->count < 0)
      luaL_error(L, "'count' of a generator must be a whole number from 0 on");
  }
  if (lua_getfield(L, -2, "rate") != LUA_TNIL) {
    g->rate = lua_tonumber(L, -1);
    if (!(g->rate > 0))
      luaL_error(L, "'rate' of a generator must be a number above 0, in records a second");
  }
  lua_pop(L, 2);
}

int lsc__generator_list_splits(void *data, sc_bytes_t options, uint32_t parallelism, void *host,
                               sc_buf_t *out, sc_error_t *err) {
  sc_pack_array(out, parallelism);
  for (uint32_t k = 0; k < parallelism; k++) {
    sc_pack_map(out, 2);
    sc_pack_cstr(out, "step"); /* the shorter key is the first in byte order */
    sc_pack_int(out, parallelism);
    sc_pack_cstr(out, "first");
    sc_pack_int(out, k);
  }
  return 0;
}

/* Read the numbers of a split that was added. A position is the next index. */
static int note_numbers(lsc_generator_t *g, lsc_split_t *s, sc_error_t *err) {
  s->first = sc_value_field_int(sc_buf_bytes(&s->split), "first", -1);
  s->step = sc_value_field_int(sc_buf_bytes(&s->split), "step", 0);
  s->next = s->first;
  if (s->position.len) {
    sc_cursor_t c = sc_cursor(sc_buf_bytes(&s->position));
    sc_token_t t;
    if (sc_cursor_next(&c, &t) != 1 || t.type != SC_INT)
      s->step = 0;
    else
      s->next = t.i;
  }
  if (s->step < 1 || s->first < 0 || s->next < s->first)
    return sc_fail(err, SC_ECORRUPT, "%s: a split of the generator is damaged",
                   g->op.base.context->label);
  return 0;
}

static void set_position(lsc_split_t *s) {
  sc_buf_clear(&s->position);
  sc_pack_int(&s->position, s->next);
}

/* When the next record of a split is due. */
static int64_t due_ms(const lsc_generator_t *g, const lsc_split_t *s) {
  if (g->rate <= 0)
    return INT64_MIN;
  double after_ms = (double)s->given * (double)s->step * 1000.0 / g->rate;
  return after_ms < 1e15 ? s->began_ms + (int64_t)after_ms : INT64_MAX;
}

/* Drop splits that are done and choose the one that is due first; the lowest index among equals. */
static lsc_split_t *choose(lsc_generator_t *g, int64_t now_ms) {
  lsc_split_t *best = NULL;
  for (uint32_t i = g->splits.n; i-- > 0;) {
    if (g->splits.items[i].next >= g->count)
      lsc__splits_remove(&g->splits, i);
  }
  for (uint32_t i = 0; i < g->splits.n; i++) {
    lsc_split_t *s = &g->splits.items[i];
    if (s->given == 0 && s->began_ms == 0)
      s->began_ms = now_ms;
    s->wake_at_ms = due_ms(g, s);
    if (!best || s->wake_at_ms < best->wake_at_ms ||
        (s->wake_at_ms == best->wake_at_ms && s->next < best->next))
      best = s;
  }
  return best;
}

static int generator_returned(lsc_op_t *op, sc_item_t *out, sc_error_t *err) {
  lua_settop(op->co, 1);
  lsc__end(op);
  if (lua_isnil(op->co, 1))
    return 0;
  lsc__item(op, 0);
  return lsc__give(op, op->co, out, err);
}

/* The index counts as given when its record goes out, before any snapshot can come. */
static void begin_index(lsc_generator_t *g, lsc_split_t *s) {
  lsc_op_t *op = &g->op;
  op->subject = LSC_ON_INDEX;
  op->has_timestamp = op->stamps = false;
  lua_settop(op->shelf, LSC_SHELF_FIXED);
  lua_pushinteger(op->shelf, s->next);
  if (g->has_function) {
    lsc__prepare(op, LSC_SHELF_FUNCTION);
    lsc__push(op, LSC_SHELF_RECORD);
    lsc__call(op, generator_returned);
  } else {
    lua_settop(op->co, 0);
    lua_pushinteger(op->co, s->next);
    op->returned = generator_returned;
    op->phase = LSC_RETURNED;
  }
  s->given++;
  if (s->next > INT64_MAX - s->step)
    s->next = INT64_MAX; /* beyond any count: INT64_MAX is never given */
  else
    s->next += s->step;
  set_position(s);
}

static bool generator_mid_record(sc_operator_t *base) {
  return ((lsc_op_t *)base)->phase != LSC_IDLE;
}

static int generator_poll(sc_operator_t *base, sc_item_t *out, sc_error_t *err) {
  lsc_generator_t *g = (lsc_generator_t *)base;
  sc_op_context_t *c = base->context;
  if (g->op.phase == LSC_IDLE && !g->op.full) {
    int64_t now_ms = g->rate > 0 ? sc_world_now_ms(c->world) : 1;
    lsc_split_t *s = choose(g, now_ms);
    if (!s && g->splits.no_more)
      return SC_ENDED;
    if (!s)
      c->services->ask_split(c);
    if (!s || s->wake_at_ms > now_ms) {
      c->wake_at_ms = s ? s->wake_at_ms : INT64_MAX;
      return SC_IDLE;
    }
    begin_index(g, s);
  }
  return lsc__op_step(base, out, err);
}

static int generator_add_split(sc_operator_t *base, sc_bytes_t split, sc_error_t *err) {
  lsc_generator_t *g = (lsc_generator_t *)base;
  return note_numbers(g, lsc__splits_add(&g->splits, split, sc_bytes(NULL, 0)), err);
}

static void generator_no_more(sc_operator_t *base) {
  ((lsc_generator_t *)base)->splits.no_more = true;
}

static int generator_restore(sc_operator_t *base, sc_bytes_t lists, sc_error_t *err) {
  lsc_generator_t *g = (lsc_generator_t *)base;
  int rc = lsc__splits_restore(&g->splits, lists, err);
  for (uint32_t i = 0; rc == 0 && i < g->splits.n; i++)
    rc = note_numbers(g, &g->splits.items[i], err);
  return rc;
}

static int generator_snapshot(sc_operator_t *base, uint64_t id, sc_snapshot_parts_t *parts,
                              sc_error_t *err) {
  lsc__splits_snapshot(&((lsc_generator_t *)base)->splits, parts);
  return 0;
}

static void generator_fini(lsc_op_t *op) {
  lsc__splits_free(&((lsc_generator_t *)op)->splits);
}

static const sc_operator_ops_t generator_ops = {.open = lsc__op_open,
                                                .poll = generator_poll,
                                                .mid_record = generator_mid_record,
                                                .add_split = generator_add_split,
                                                .no_more_splits = generator_no_more,
                                                .restore = generator_restore,
                                                .snapshot = generator_snapshot,
                                                .destroy = lsc__op_destroy};

const lsc_family_t lsc__generator = {.kind = "generator",
                                     .function = "fn",
                                     .noun = "generator",
                                     .optional = true,
                                     .emits = true,
                                     .size = sizeof(lsc_generator_t),
                                     .ops = &generator_ops,
                                     .setup = generator_setup,
                                     .fini = generator_fini};
