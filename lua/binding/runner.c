#include "runner.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/base/mem.h"
#include "codec.h"
#include "context.h"
#include "interrupt.h"
#include "user_error.h"

/* Every call needs a function and a few arguments; a coroutine's base frame has room for these. */
_Static_assert(LUA_MINSTACK >= 16, "calls are laid out without asking for room");

/* ---- calls ---- */

void lsc__push(lsc_op_t *op, int slot) {
  lua_pushvalue(op->shelf, slot);
  lua_xmove(op->shelf, op->co, 1);
}

void lsc__prepare(lsc_op_t *op, int function_slot) {
  if (lua_status(op->co) != LUA_OK) /* another function got hold of it and resumed it */
    lua_resetthread(op->co);
  lua_settop(op->co, 0);
  lsc__push(op, function_slot);
}

void lsc__call(lsc_op_t *op, lsc_returned_cb returned) {
  op->returned = returned;
  op->phase = LSC_READY;
}

void lsc__end(lsc_op_t *op) {
  op->phase = LSC_IDLE;
  op->handling = false;
  if (op->cursors)
    lsc__cursors_end(op);
}

void lsc__reset(lsc_op_t *op) {
  lua_resetthread(op->co);
  lua_settop(op->co, 0);
  op->n_yielded = 0;
  op->guard = false;
  lsc__end(op);
}

void lsc__note_key(lsc_op_t *op) {
  const sc_op_context_t *c = op->base.context;
  op->has_key = c->has_key;
  sc_buf_clear(&op->key);
  if (c->has_key) {
    op->key_group = c->key_group;
    op->key_hash = c->key_hash;
    sc_buf_put_bytes(&op->key, c->key);
  }
}

/* A suspended coroutine is as it was left, unless another function got hold of it
 * (coroutine.running) and resumed or closed it. */
static bool as_left(const lsc_op_t *op) {
  return lua_status(op->co) == LUA_YIELD && lua_gettop(op->co) >= op->n_yielded;
}

/* Resume the coroutine; its status. Meanwhile it is what runs in the slot. */
static int run(lsc_op_t *op, int nargs, int *nresults) {
  lsc_op_t *outer = *op->current;
  *op->current = op;
  op->running = true;
  lua_State *before = lsc_interrupt_mark(op->co);
  int status = lua_resume(op->co, lsc_host_state(op->host), nargs, nresults);
  lsc_interrupt_mark(before);
  op->running = false;
  *op->current = outer;
  op->guard = false;
  return status;
}

/* An error that core, or a callback of luv, has left: it fails the task whatever became of it in
 * the user's code. */
static int take_fail(lsc_op_t *op, sc_error_t *err) {
  int code = op->fail.code;
  sc_error_set_operator(&op->fail, op->base.context->label);
  if (err)
    sc_error_move(err, &op->fail);
  sc_error_clear(&op->fail);
  lsc__reset(op);
  return code;
}

/* Run until the function emits, waits, returns, or fails. */
static int resume(lsc_op_t *op, sc_error_t *err) {
  int nargs = 0, nresults;
  if (op->phase == LSC_READY)
    nargs = lua_gettop(op->co) - 1;
  else if (as_left(op))
    lua_pop(op->co, op->n_yielded);
  else
    return lsc__user_reject(op, err, "the coroutine of %s was resumed or closed by another "
                            "function", op->family->noun);
  op->n_yielded = 0;
  op->yielded = LSC_YIELD_FOREIGN;
  int status = run(op, nargs, &nresults);
  if (op->fail.code != SC_OK)
    return take_fail(op, err);
  if (status == LUA_OK) {
    op->phase = LSC_RETURNED;
    return 0;
  }
  if (status != LUA_YIELD)
    return lsc__user_raised(op, status, err);
  if (op->yielded == LSC_YIELD_FOREIGN)
    return lsc__user_reject(op, err, "%s called coroutine.yield outside of a coroutine of its own; "
                            "only ctx:emit and ctx:side may suspend it", op->family->noun);
  op->n_yielded = nresults;
  op->phase = op->yielded == LSC_YIELD_VALUE ? LSC_EMITTED : LSC_SUSPENDED;
  return 0;
}

/* ---- handing out ---- */

void lsc__item(lsc_op_t *op, uint16_t output) {
  op->item = (sc_item_t){.output = output,
                         .has_timestamp = op->stamps,
                         .timestamp = op->stamps ? op->timestamp : 0};
}

int lsc__give(lsc_op_t *op, lua_State *from, sc_item_t *out, sc_error_t *err) {
  if (op->chained[op->item.output]) {
    op->value.from = from;
    op->item.opaque = &op->value;
    op->item.opaque_ops = &lsc__value_ops;
    *out = op->item;
    return SC_EMIT;
  }
  sc_buf_clear(&op->scratch);
  if (lsc_encode(from, -1, &op->scratch, &op->error) < 0)
    return lsc__user_reject(op, err, "%s gave what cannot be sent: %s", op->family->noun,
                            op->error.message);
  op->item.bytes = sc_buf_bytes(&op->scratch);
  int rc = sc_op_write(op->base.context, &op->item, err);
  if (rc > 0)
    op->full = true;
  return rc < 0 ? rc : 0;
}

void lsc__overflow_add(lsc_op_t *op, const sc_item_t *item, size_t at) {
  lsc_overflow_t *o = &op->overflow;
  if (o->n == o->cap) {
    o->cap = o->cap ? 2 * o->cap : 8;
    o->items = sc_realloc(o->items, o->cap * sizeof *o->items);
  }
  o->items[o->n++] = (lsc_overflow_item_t){item->output, item->has_timestamp, item->timestamp, at,
                                           o->bytes.len - at};
}

/* The next item of the overflow list, borrowed until the next call: only then is it emptied. */
static bool overflow_next(lsc_op_t *op, sc_item_t *out) {
  lsc_overflow_t *o = &op->overflow;
  if (o->next == o->n) {
    o->n = o->next = 0;
    sc_buf_clear(&o->bytes);
    return false;
  }
  const lsc_overflow_item_t *i = &o->items[o->next++];
  *out = (sc_item_t){.output = i->output,
                     .has_timestamp = i->has_timestamp,
                     .timestamp = i->timestamp,
                     .bytes = sc_bytes(o->bytes.data + i->at, i->len)};
  return true;
}

int lsc__op_step(sc_operator_t *base, sc_item_t *out, sc_error_t *err) {
  lsc_op_t *op = (lsc_op_t *)base;
  for (;;) {
    if (op->overflow.n && overflow_next(op, out))
      return SC_EMIT;
    if (op->full) {
      op->full = false;
      return SC_BLOCKED;
    }
    int rc;
    switch (op->phase) {
      case LSC_IDLE:
        return SC_DONE;
      case LSC_EMITTED:
        op->phase = LSC_SUSPENDED;
        op->value.from = op->co;
        op->item.opaque = &op->value;
        op->item.opaque_ops = &lsc__value_ops;
        *out = op->item;
        return SC_EMIT;
      case LSC_READY:
      case LSC_SUSPENDED:
        rc = resume(op, err);
        break;
      case LSC_RETURNED:
      default:
        rc = op->returned(op, out, err);
    }
    if (rc)
      return rc;
  }
}

int lsc__op_begin(sc_operator_t *base, uint32_t port, const sc_item_t *item, sc_error_t *err) {
  lsc_op_t *op = (lsc_op_t *)base;
  lua_settop(op->shelf, LSC_SHELF_FIXED);
  int rc = lsc__value_take(op->host, op->shelf, item, &op->scratch, err);
  if (rc < 0)
    return rc;
  op->subject = LSC_ON_RECORD;
  op->has_timestamp = op->stamps = item->has_timestamp;
  op->timestamp = item->timestamp;
  lsc__note_key(op);
  return op->family->begin(op, err);
}

/* ---- open and close ---- */

int lsc__run_whole(lsc_op_t *op, const char *where, sc_error_t *err) {
  int nresults;
  op->subject = LSC_ON_NOTHING;
  op->has_timestamp = op->stamps = op->has_key = false;
  op->may_emit = false;
  int status = run(op, lua_gettop(op->co) - 1, &nresults);
  op->may_emit = true;
  if (op->fail.code != SC_OK)
    return take_fail(op, err);
  if (status != LUA_OK)
    return lsc__user_failed(op, where, status, err);
  lsc__end(op);
  return 0;
}

/* Run a function of the spec, given only ctx, that may not emit: to its end. */
static int run_plain(lsc_op_t *op, int slot, const char *where, sc_error_t *err) {
  lsc__prepare(op, slot);
  lsc__push(op, LSC_SHELF_CONTEXT);
  int rc = lsc__run_whole(op, where, err);
  lua_settop(op->co, 0);
  return rc;
}

int lsc__op_open(sc_operator_t *base, sc_error_t *err) {
  lsc_op_t *op = (lsc_op_t *)base;
  for (uint16_t i = 0; i < op->n_outputs; i++)
    op->chained[i] = sc_op_chained(base->context, i);
  int rc = lsc__states_declare(op, err);
  if (rc == 0 && lua_type(op->shelf, LSC_SHELF_OPEN) == LUA_TFUNCTION)
    rc = run_plain(op, LSC_SHELF_OPEN, "open", err);
  op->opened = rc == 0;
  return rc;
}

/* A failure names its operator; the line of the log does so already. */
static const char *without_label(const char *message, const char *label) {
  size_t n = strlen(label);
  return strncmp(message, label, n) == 0 && strncmp(message + n, ": ", 2) == 0 ? message + n + 2
                                                                               : message;
}

static void run_close(lsc_op_t *op) {
  const sc_op_context_t *c = op->base.context;
  sc_error_t err = SC_ERROR_INIT;
  if (run_plain(op, LSC_SHELF_CLOSE, "close", &err) < 0)
    sc_log_write(c->log, SC_LOG_ERROR, &(sc_log_where_t){c->job_id, c->attempt, 0, c->label}, "%s",
                 without_label(err.message, c->label));
  sc_error_clear(&err);
}

/* ---- create and destroy ---- */

typedef struct setup_args {
  lsc_op_t *op;       /* being made */
  int index;          /* of the spec in the root table */
  sc_bytes_t options; /* of the operator */
} setup_args_t;

/* Move the spec's function to the shelf, or nil where there is none. */
static void shelve(lsc_op_t *op, lua_State *L, const char *field, bool required) {
  int type = lua_getfield(L, -1, field);
  if (type != LUA_TFUNCTION && (required || type != LUA_TNIL))
    luaL_error(L, "'%s' of %s must be a function, not a %s", field, op->family->noun,
               lua_typename(L, type));
  lua_xmove(L, op->shelf, 1);
}

static void shelve_on_error(lsc_op_t *op, lua_State *L) {
  int type = lua_getfield(L, -1, "on_error");
  if (type == LUA_TFUNCTION) {
    op->on_error = LSC_ERROR_CALL;
  } else if (type == LUA_TSTRING && strcmp(lua_tostring(L, -1), "skip") == 0) {
    op->on_error = LSC_ERROR_SKIP;
  } else if (type != LUA_TNIL) {
    luaL_error(L, "on_error must be \"skip\" or a function");
  }
  lua_xmove(L, op->shelf, 1);
}

/* Protected: whatever raises here leaves an operator that destroy can take apart. */
static int setup(lua_State *L) {
  setup_args_t *args = lua_touserdata(L, 1);
  lsc_op_t *op = args->op;
  lua_settop(L, 0);
  lua_createtable(L, 3, 0); /* 1: the anchor */
  lsc_op_t **box = lua_newuserdatauv(L, sizeof *box, 0); /* 2 */
  *box = op;
  lua_pushvalue(L, 2);
  lua_rawseti(L, 1, 1);
  op->co = lua_newthread(L);
  lua_rawseti(L, 1, 2);
  op->shelf = lua_newthread(L);
  lua_rawseti(L, 1, 3);
  lua_pushvalue(L, 1);
  op->anchor = luaL_ref(L, LUA_REGISTRYINDEX);
  op->box = box; /* not before it is anchored: destroy writes to it */
  luaL_checkstack(op->shelf, 2 * LUA_MINSTACK, "no room for the shelf");
  lsc_host_push_spec(op->host, L, args->index); /* 3 */
  lsc__states_read(op, L);
  lsc__context_push(op, L, 2, args->options);
  lua_xmove(L, op->shelf, 1);
  const lsc_family_t *f = op->family;
  if (f->function)
    shelve(op, L, f->function, !f->optional);
  else
    lua_pushnil(op->shelf);
  op->wants_context = !lua_iscfunction(op->shelf, -1);
  shelve(op, L, "on_timer", false);
  op->has_on_timer = f->ops->begin_timer && lua_type(op->shelf, -1) == LUA_TFUNCTION;
  shelve_on_error(op, L);
  shelve(op, L, "open", false);
  shelve(op, L, "close", false);
  lua_pushliteral(op->shelf, "event");
  lua_pushliteral(op->shelf, "processing");
  sc_assert(lua_gettop(op->shelf) == LSC_SHELF_FIXED);
  if (f->setup)
    f->setup(op, L);
  return 0;
}

/* The index of the side output "errors" in options.outputs, and how many outputs there are. */
static void read_outputs(lsc_op_t *op, sc_bytes_t options) {
  op->n_outputs = 1;
  op->errors_output = -1;
  sc_bytes_t outputs;
  if (sc_value_field(options, sc_bytes_str("outputs"), &outputs) == 1) {
    sc_cursor_t c = sc_cursor(outputs);
    sc_token_t t;
    if (sc_cursor_next(&c, &t) == 1 && t.type == SC_ARRAY && t.n > 0 && t.n <= UINT16_MAX)
      op->n_outputs = (uint16_t)t.n;
    for (uint16_t i = 0; i < op->n_outputs && sc_cursor_next(&c, &t) == 1; i++)
      if (i > 0 && t.type == SC_STR && sc_bytes_equal(t.s, sc_bytes_str("errors")))
        op->errors_output = i;
  }
  op->chained = sc_calloc(op->n_outputs, sizeof *op->chained);
}

int lsc__op_create(const lsc_family_t *family, void *data, sc_bytes_t options,
                   sc_op_context_t *context, sc_operator_t **out, sc_error_t *err) {
  const lsc_factory_t *factory = data;
  lsc_op_t *op = sc_calloc(1, family->size);
  op->base.ops = family->ops;
  op->base.context = context;
  op->family = family;
  op->host = context->host;
  op->current = lsc_host_current(op->host);
  op->value.host = op->host;
  op->anchor = LUA_NOREF;
  op->may_emit = true;
  read_outputs(op, options);
  setup_args_t args = {op, factory->index, options};
  int rc = lsc_protect(lsc_host_state(op->host), setup, &args, 0, err);
  if (rc < 0) {
    lsc__op_destroy(&op->base);
    return sc_fail_cause(err, rc, "%s: its functions cannot be set up", context->label);
  }
  *out = &op->base;
  return 0;
}

void lsc__op_push_box(lsc_op_t *op, lua_State *L) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, op->anchor);
  lua_rawgeti(L, -1, 1);
  lua_remove(L, -2);
}

void lsc__op_destroy(sc_operator_t *base) {
  lsc_op_t *op = (lsc_op_t *)base;
  if (!op)
    return;
  if (op->anchor != LUA_NOREF) {
    lsc__reset(op);
    if (op->opened && lua_type(op->shelf, LSC_SHELF_CLOSE) == LUA_TFUNCTION)
      run_close(op);
    luaL_unref(lsc_host_state(op->host), LUA_REGISTRYINDEX, op->anchor);
  }
  if (op->box)
    *op->box = NULL;
  if (op->family->fini)
    op->family->fini(op);
  for (uint32_t i = 0; i < op->n_states; i++)
    free(op->states[i].name);
  free(op->states);
  free(op->chained);
  free(op->overflow.items);
  sc_buf_free(&op->overflow.bytes);
  sc_buf_free(&op->key);
  sc_buf_free(&op->scratch);
  sc_buf_free(&op->map_key);
  sc_buf_free(&op->message);
  sc_buf_free(&op->trace);
  sc_error_clear(&op->error);
  sc_error_clear(&op->fail);
  free(op);
}
