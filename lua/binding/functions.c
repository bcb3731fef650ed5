#include "families.h"

#include <lauxlib.h>
#include <math.h>

#include "codec.h"
#include "context.h"
#include "user_error.h"

/* Lay out fn(record) or fn(record, ctx). C functions take what follows their argument for options:
 * tonumber(v, ctx) would look for a base. */
static void lay_out(lsc_op_t *op, bool with_context, lsc_returned_cb returned) {
  lsc__prepare(op, LSC_SHELF_FUNCTION);
  lsc__push(op, LSC_SHELF_RECORD);
  if (with_context && op->wants_context)
    lsc__push(op, LSC_SHELF_CONTEXT);
  lsc__call(op, returned);
}

/* Keep the first result only, at the top of the coroutine. */
static void one_result(lsc_op_t *op) {
  lua_settop(op->co, 1);
}

static int nothing_returned(lsc_op_t *op, sc_item_t *out, sc_error_t *err) {
  lsc__end(op);
  return 0;
}

/* ---- map ---- */

static int map_returned(lsc_op_t *op, sc_item_t *out, sc_error_t *err) {
  one_result(op);
  if (lua_isnil(op->co, 1))
    return lsc__user_reject(op, err, "map returned nil; use filter to drop");
  lsc__end(op);
  lsc__item(op, 0);
  return lsc__give(op, op->co, out, err);
}

static int map_begin(lsc_op_t *op, sc_error_t *err) {
  lay_out(op, true, map_returned);
  return 0;
}

/* ---- filter ---- */

static int filter_returned(lsc_op_t *op, sc_item_t *out, sc_error_t *err) {
  one_result(op);
  lsc__end(op);
  if (!lua_toboolean(op->co, 1))
    return 0;
  lsc__item(op, 0);
  return lsc__give(op, op->shelf, out, err);
}

static int filter_begin(lsc_op_t *op, sc_error_t *err) {
  lay_out(op, true, filter_returned);
  return 0;
}

/* ---- flat_map ---- */

/* The array stays at 1, the element that is given above it. */
static int flat_map_element(lsc_op_t *op, sc_item_t *out, sc_error_t *err) {
  lua_settop(op->co, 1);
  if (op->list_next > (lua_Integer)lua_rawlen(op->co, 1)) {
    lsc__end(op);
    return 0;
  }
  if (lua_rawgeti(op->co, 1, op->list_next) == LUA_TNIL)
    return lsc__user_reject(op, err, "flat_map returned an array whose element %lld is nil",
                            (long long)op->list_next);
  op->list_next++;
  lsc__item(op, 0);
  op->item.shared = true; /* the array may hold it twice */
  return lsc__give(op, op->co, out, err);
}

static int flat_map_returned(lsc_op_t *op, sc_item_t *out, sc_error_t *err) {
  one_result(op);
  if (lua_isnil(op->co, 1)) {
    lsc__end(op);
    return 0;
  }
  if (!lua_istable(op->co, 1))
    return lsc__user_reject(op, err, "flat_map returned a %s; it must return an array, or nothing "
                            "and call ctx:emit", luaL_typename(op->co, 1));
  /* An element under a name is a single record that was meant to be wrapped. */
  if (lua_rawlen(op->co, 1) == 0) {
    lua_pushnil(op->co);
    if (lua_next(op->co, 1))
      return lsc__user_reject(op, err, "flat_map returned a table that is not an array; return "
                              "{ record } for a single record");
  }
  op->list_next = 1;
  op->returned = flat_map_element;
  return 0;
}

static int flat_map_begin(lsc_op_t *op, sc_error_t *err) {
  lay_out(op, true, flat_map_returned);
  return 0;
}

/* ---- key_by ---- */

static int key_by_returned(lsc_op_t *op, sc_item_t *out, sc_error_t *err) {
  one_result(op);
  sc_buf_clear(&op->map_key);
  if (lsc_encode_key(op->co, 1, &op->map_key, &op->error) < 0)
    return lsc__user_reject(op, err, "the function of key_by returned what cannot be a key: %s",
                            op->error.message);
  lsc__end(op);
  lsc__item(op, 0);
  op->item.has_key = true;
  op->item.key = sc_buf_bytes(&op->map_key);
  return lsc__give(op, op->shelf, out, err);
}

static int key_by_begin(lsc_op_t *op, sc_error_t *err) {
  lay_out(op, false, key_by_returned);
  return 0;
}

/* ---- timestamps ---- */

static int timestamps_returned(lsc_op_t *op, sc_item_t *out, sc_error_t *err) {
  one_result(op);
  lua_Integer ms = 0;
  bool whole = lua_isinteger(op->co, 1);
  if (whole)
    ms = lua_tointeger(op->co, 1);
  else if (lua_type(op->co, 1) == LUA_TNUMBER)
    whole = lua_numbertointeger(floor(lua_tonumber(op->co, 1)), &ms);
  if (!whole)
    return lsc__user_reject(op, err, "the timestamp function returned %s instead of milliseconds",
                            lua_type(op->co, 1) == LUA_TNUMBER ? "NaN or a number beyond 64 bits"
                                                               : luaL_typename(op->co, 1));
  lsc__end(op);
  lsc__item(op, 0);
  op->item.has_timestamp = true;
  op->item.timestamp = ms;
  return lsc__give(op, op->shelf, out, err);
}

static int timestamps_begin(lsc_op_t *op, sc_error_t *err) {
  lay_out(op, false, timestamps_returned);
  return 0;
}

/* ---- sink ---- */

static int sink_begin(lsc_op_t *op, sc_error_t *err) {
  lay_out(op, true, nothing_returned);
  return 0;
}

/* ---- process ---- */

static int process_begin(lsc_op_t *op, sc_error_t *err) {
  lsc__prepare(op, LSC_SHELF_FUNCTION);
  lsc__push(op, LSC_SHELF_CONTEXT);
  lsc__push(op, LSC_SHELF_RECORD);
  lsc__call(op, nothing_returned);
  return 0;
}

/* What an event-time timer emits carries its time; a processing time is no event time. */
static int begin_timer(sc_operator_t *base, const sc_timer_t *timer, sc_error_t *err) {
  lsc_op_t *op = (lsc_op_t *)base;
  if (!op->has_on_timer)
    return sc_fail(err, SC_ESTATE, "%s: a timer fired, restored or left behind, but the operator "
                   "has no on_timer", base->context->label);
  bool event = timer->domain == SC_EVENT_TIME;
  lua_settop(op->shelf, LSC_SHELF_FIXED);
  op->subject = LSC_ON_TIMER;
  op->domain = timer->domain;
  op->has_timestamp = true;
  op->stamps = event;
  op->timestamp = timer->time;
  lsc__note_key(op);
  lsc__prepare(op, LSC_SHELF_ON_TIMER);
  lsc__push(op, LSC_SHELF_CONTEXT);
  lua_pushinteger(op->co, timer->time);
  lsc__push(op, event ? LSC_SHELF_EVENT : LSC_SHELF_PROCESSING);
  lsc__call(op, nothing_returned);
  return 0;
}

/* ---- reduce ---- */

#define REDUCE_STATE "reduce"

static sc_address_t reduce_address(const lsc_op_t *op) {
  return (sc_address_t){
      .state = op->reduce_state, .group = op->key_group, .key_hash = op->key_hash,
      .key = sc_buf_bytes(&op->key)};
}

/* Store the value at the top of `from` as the accumulator and emit it. */
static int reduce_store(lsc_op_t *op, lua_State *from, sc_item_t *out, sc_error_t *err) {
  sc_buf_clear(&op->scratch);
  if (lsc_encode(from, -1, &op->scratch, &op->error) < 0)
    return lsc__user_reject(op, err, "reduce gave what cannot be stored: %s", op->error.message);
  sc_address_t at = reduce_address(op);
  int rc = sc_keyed_put(op->base.context->keyed, &at, sc_buf_bytes(&op->scratch), err);
  if (rc < 0)
    return rc;
  lsc__end(op);
  lsc__item(op, 0);
  return lsc__give(op, from, out, err);
}

static int reduce_first(lsc_op_t *op, sc_item_t *out, sc_error_t *err) {
  return reduce_store(op, op->shelf, out, err);
}

static int reduce_returned(lsc_op_t *op, sc_item_t *out, sc_error_t *err) {
  one_result(op);
  if (lua_isnil(op->co, 1))
    return lsc__user_reject(op, err, "reduce returned nil; it must return the new value");
  return reduce_store(op, op->co, out, err);
}

static int reduce_begin(lsc_op_t *op, sc_error_t *err) {
  sc_bytes_t accumulator;
  if (!op->has_key)
    return sc_fail(err, SC_EINTERNAL, "%s: reduce got a record without a key",
                   op->base.context->label);
  sc_address_t at = reduce_address(op);
  int rc = sc_keyed_get(op->base.context->keyed, &at, &accumulator, err);
  if (rc < 0)
    return rc;
  lsc__prepare(op, LSC_SHELF_FUNCTION);
  if (rc == 0) {
    lua_settop(op->co, 0);
    op->returned = reduce_first;
    op->phase = LSC_RETURNED;
    return 0;
  }
  rc = lsc__value_push(op->shelf, accumulator, err);
  if (rc < 0)
    return rc;
  lua_xmove(op->shelf, op->co, 1);
  lsc__push(op, LSC_SHELF_RECORD);
  lsc__call(op, reduce_returned);
  return 0;
}

static int reduce_open(sc_operator_t *base, sc_error_t *err) {
  lsc_op_t *op = (lsc_op_t *)base;
  if (!base->context->keyed)
    return sc_fail(err, SC_EINVAL, "%s: reduce needs a keyed stream: put key_by before it",
                   base->context->label);
  sc_state_descriptor_t d = {REDUCE_STATE, SC_STATE_VALUE};
  op->reduce_state = sc_keyed_declare(base->context->keyed, &d, err);
  return op->reduce_state < 0 ? op->reduce_state : lsc__op_open(base, err);
}

/* ---- the families ---- */

static const sc_operator_ops_t element_ops = {
    .open = lsc__op_open, .begin = lsc__op_begin, .step = lsc__op_step, .destroy = lsc__op_destroy};
static const sc_operator_ops_t process_ops = {.open = lsc__op_open,
                                              .begin = lsc__op_begin,
                                              .begin_timer = begin_timer,
                                              .step = lsc__op_step,
                                              .destroy = lsc__op_destroy};
static const sc_operator_ops_t reduce_ops = {
    .open = reduce_open, .begin = lsc__op_begin, .step = lsc__op_step, .destroy = lsc__op_destroy};

#define FAMILY(name, field, its_ops, its_begin, does_emit) \
  const lsc_family_t lsc__##name = {.kind = #name,         \
                                    .function = field,     \
                                    .noun = #name,         \
                                    .emits = does_emit,    \
                                    .size = sizeof(lsc_op_t), \
                                    .ops = &its_ops,       \
                                    .begin = its_begin}

FAMILY(map, "fn", element_ops, map_begin, true);
FAMILY(filter, "fn", element_ops, filter_begin, true);
FAMILY(flat_map, "fn", element_ops, flat_map_begin, true);
FAMILY(key_by, "fn", element_ops, key_by_begin, true);
FAMILY(timestamps, "fn", element_ops, timestamps_begin, true);
FAMILY(sink, "fn", element_ops, sink_begin, false);
FAMILY(process, "on_element", process_ops, process_begin, true);
FAMILY(reduce, "fn", reduce_ops, reduce_begin, true);
