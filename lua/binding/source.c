#include "families.h"

#include <inttypes.h>
#include <lauxlib.h>

#include "codec.h"
#include "splits.h"
#include "user_error.h"

/*
 * A source whose splits and reading are Lua functions:
 *   splits()                      -> array of plain values, run once in slot 0
 *   read(ctx, split, position)    -> new position [, wait_ms]; nil at the split's end
 * Each poll goes on with the call of read that is suspended, or begins one. The position advances
 * only when read returns; until then the source is mid-record and no snapshot is taken.
 */
typedef struct lsc_source {
  lsc_op_t op;         /* first */
  lsc_splits_t splits; /* those of this reader */
  uint32_t current;    /* the split that is read; beyond the last: none */
  bool shelved;        /* its values lie on the shelf */
} lsc_source_t;

/* ---- splits, in slot 0 ---- */

typedef struct list_args {
  lsc_host_t *host;      /* of slot 0 */
  int index;             /* of the spec */
  uint32_t parallelism;  /* of the source, told to `splits` */
  sc_buf_t *out;         /* the array is appended here */
  int rc;                /* out: a split could not be encoded */
  sc_error_t *err;       /* out: why */
} list_args_t;

static int call_splits(lua_State *L) {
  list_args_t *args = lua_touserdata(L, 1);
  lsc_host_push_spec(args->host, L, args->index);
  int type = lua_getfield(L, -1, "splits");
  if (type == LUA_TNIL) { /* nothing to deal: one split, which read gets as 1 */
    sc_pack_array(args->out, 1);
    sc_pack_int(args->out, 1);
    return 0;
  }
  if (type != LUA_TFUNCTION)
    return luaL_error(L, "'splits' of a source must be a function, not a %s",
                      lua_typename(L, type));
  lua_pushinteger(L, args->parallelism);
  lua_call(L, 1, 1);
  if (!lua_istable(L, -1))
    return luaL_error(L, "'splits' of a source must return an array of plain values, not a %s",
                      luaL_typename(L, -1));
  lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
  lua_pushnil(L);
  if (n == 0 && lua_next(L, -2))
    return luaL_error(L, "'splits' of a source must return an array; a table with names came");
  lua_settop(L, 3);
  sc_pack_array(args->out, (uint32_t)n);
  for (lua_Integer i = 1; i <= n && args->rc == 0; i++) {
    lua_rawgeti(L, 3, i);
    args->rc = lsc_encode(L, -1, args->out, args->err) < 0 ? SC_EVALUE : 0;
    lua_pop(L, 1);
  }
  return 0;
}

int lsc__source_list_splits(void *data, sc_bytes_t options, uint32_t parallelism, void *host,
                            sc_buf_t *out, sc_error_t *err) {
  const lsc_factory_t *factory = data;
  size_t before = out->len;
  list_args_t args = {host, factory->index, parallelism, out, 0, err};
  int rc = lsc_protect_traced(lsc_host_state(host), call_splits, &args, 0, err);
  if (rc == 0 && args.rc < 0)
    rc = sc_fail_cause(err, SC_EVALUE, "a split that 'splits' of a source returned cannot be sent");
  if (rc < 0)
    out->len = before;
  return rc;
}

/* ---- reading ---- */

static lsc_split_t *current_split(lsc_source_t *s) {
  return s->current < s->splits.n ? &s->splits.items[s->current] : NULL;
}

/* Choose a split that may be read now, the current one first. */
static bool choose(lsc_source_t *s, int64_t now_ms) {
  for (uint32_t k = 0; k < s->splits.n; k++) {
    uint32_t i = (s->current + k) % s->splits.n;
    if (s->splits.items[i].wake_at_ms <= now_ms) {
      s->shelved = s->shelved && i == s->current;
      s->current = i;
      return true;
    }
  }
  return false;
}

/* Put the current split and its position on the shelf; then they stay as long as it is current. */
static int shelve(lsc_source_t *s, sc_error_t *err) {
  if (s->shelved)
    return 0;
  const lsc_split_t *split = current_split(s);
  lua_settop(s->op.shelf, LSC_SHELF_FIXED);
  int rc = lsc__value_push(s->op.shelf, sc_buf_bytes(&split->split), err);
  if (rc == 0 && split->position.len)
    rc = lsc__value_push(s->op.shelf, sc_buf_bytes(&split->position), err);
  if (rc < 0)
    return rc;
  lua_settop(s->op.shelf, LSC_SHELF_POSITION);
  s->shelved = true;
  return 0;
}

/* A second result: nothing to read for so many ms. */
static int read_wait(lsc_op_t *op, int index, int64_t *wait_ms) {
  *wait_ms = 0;
  if (lua_isnil(op->co, index))
    return 0;
  if (lua_type(op->co, index) != LUA_TNUMBER || !(lua_tonumber(op->co, index) >= 0))
    return -1;
  lua_Number ms = lua_tonumber(op->co, index);
  *wait_ms = ms < 1e12 ? (int64_t)ms : INT64_C(1000000000000);
  return 0;
}

static int read_returned(lsc_op_t *op, sc_item_t *out, sc_error_t *err) {
  lsc_source_t *s = (lsc_source_t *)op;
  int64_t wait_ms;
  lua_settop(op->co, 2);
  if (lua_isnil(op->co, 1)) {
    lsc__splits_remove(&s->splits, s->current);
    s->shelved = false;
    lsc__end(op);
    return 0;
  }
  if (read_wait(op, 2, &wait_ms) < 0)
    return lsc__user_reject(op, err, "read returned a wait that is no number of milliseconds from "
                            "0 on, but a %s", luaL_typename(op->co, 2));
  sc_buf_clear(&op->scratch);
  if (lsc_encode(op->co, 1, &op->scratch, &op->error) < 0)
    return lsc__user_reject(op, err, "read returned a position that cannot be stored: %s",
                            op->error.message);
  lsc_split_t *split = current_split(s);
  sc_buf_clear(&split->position);
  sc_buf_put_bytes(&split->position, sc_buf_bytes(&op->scratch));
  if (wait_ms)
    split->wake_at_ms = sc_world_now_ms(op->base.context->world) + wait_ms;
  lua_settop(op->co, 1);
  lua_settop(op->shelf, LSC_SHELF_RECORD);
  lua_xmove(op->co, op->shelf, 1);
  lsc__end(op);
  return 0;
}

static int begin_read(lsc_source_t *s, sc_error_t *err) {
  lsc_op_t *op = &s->op;
  int rc = shelve(s, err);
  if (rc < 0)
    return rc;
  op->subject = LSC_ON_SPLIT;
  op->has_timestamp = op->stamps = false;
  lsc__prepare(op, LSC_SHELF_FUNCTION);
  lsc__push(op, LSC_SHELF_CONTEXT);
  lsc__push(op, LSC_SHELF_RECORD);
  lsc__push(op, LSC_SHELF_POSITION);
  lsc__call(op, read_returned);
  return 0;
}

static bool source_mid_record(sc_operator_t *base) {
  const lsc_op_t *op = (const lsc_op_t *)base;
  return op->phase != LSC_IDLE || op->overflow.next < op->overflow.n;
}

/* Nothing can be read now: why, and when to come again. */
static int source_rests(lsc_source_t *s) {
  sc_op_context_t *c = s->op.base.context;
  if (s->splits.n == 0 && s->splits.no_more)
    return SC_ENDED;
  if (!s->splits.no_more) /* also while all of its own wait: splits may be many and never end */
    c->services->ask_split(c);
  c->wake_at_ms = lsc__splits_wake(&s->splits);
  return SC_IDLE;
}

static int source_poll(sc_operator_t *base, sc_item_t *out, sc_error_t *err) {
  lsc_source_t *s = (lsc_source_t *)base;
  if (!source_mid_record(base) && !s->op.full) {
    int64_t now_ms = s->splits.n ? sc_world_now_ms(base->context->world) : 0;
    if (!choose(s, now_ms))
      return source_rests(s);
    int rc = begin_read(s, err);
    if (rc < 0)
      return rc;
  }
  int rc = lsc__op_step(base, out, err);
  if (rc != SC_DONE)
    return rc;
  /* The read has returned. Where it asked to wait and nothing else is there, say so at once. */
  const lsc_split_t *split = current_split(s);
  if (split && s->splits.n == 1 && split->wake_at_ms > sc_world_now_ms(base->context->world))
    return source_rests(s);
  return SC_DONE;
}

static int source_add_split(sc_operator_t *base, sc_bytes_t split, sc_error_t *err) {
  lsc__splits_add(&((lsc_source_t *)base)->splits, split, sc_bytes(NULL, 0));
  return 0;
}

static void source_no_more(sc_operator_t *base) {
  ((lsc_source_t *)base)->splits.no_more = true;
}

static bool source_holds(sc_operator_t *base) {
  return ((lsc_source_t *)base)->splits.n > 0;
}

static int source_restore(sc_operator_t *base, sc_bytes_t lists, sc_error_t *err) {
  return lsc__splits_restore(&((lsc_source_t *)base)->splits, lists, err);
}

static int source_snapshot(sc_operator_t *base, uint64_t id, sc_snapshot_parts_t *parts,
                           sc_error_t *err) {
  lsc__splits_snapshot(&((lsc_source_t *)base)->splits, parts);
  return 0;
}

static void source_fini(lsc_op_t *op) {
  lsc__splits_free(&((lsc_source_t *)op)->splits);
}

static const sc_operator_ops_t source_ops = {.open = lsc__op_open,
                                             .poll = source_poll,
                                             .mid_record = source_mid_record,
                                             .add_split = source_add_split,
                                             .no_more_splits = source_no_more,
                                             .holds_splits = source_holds,
                                             .restore = source_restore,
                                             .snapshot = source_snapshot,
                                             .destroy = lsc__op_destroy};

const lsc_family_t lsc__source = {.kind = "source",
                                  .function = "read",
                                  .noun = "source",
                                  .emits = true,
                                  .size = sizeof(lsc_source_t),
                                  .ops = &source_ops,
                                  .fini = source_fini};
