#include "families.h"

#include <lauxlib.h>
#include <string.h>

#include "../../core/operator/file_source.h"
#include "codec.h"
#include "context.h"
#include "user_error.h"

/*
 * A source that is not asked for its values but told them: by callbacks of the slot's event loop.
 *   push(ctx, sink)   called once, before the first poll; what it registers calls sink:push(value)
 *                     -> nil, or {pause = fn, resume = fn, close = fn}, each of them optional
 * A value is encoded when it is pushed, so that the pusher may change it afterwards, and waits in a
 * queue until the task polls. From `capacity` values on (or PAUSE_BYTES) the producer is paused,
 * and resumed when half of them are gone:
 *
 *   OPEN --queue full--> PAUSED --half of it gone--> OPEN;  either --finish, drain--> FINISHED
 *   (FINISHED: what is queued is still handed on, then the source has ended)
 *
 * A producer that has no `pause` loses what comes while the queue is full; that is counted. One
 * that has may still push what it has in its hands (the lines of one chunk), up to LIMIT_BYTES.
 *
 * State: list "queue" (split mode), items [value] or [value, timestamp]: what was taken but not yet
 * handed on, at most `capacity` and what came with it. So a job that is stopped loses none of it.
 * A line of which only the beginning has come is not kept: its rest will not come.
 */
#define CAPACITY_DEFAULT 1024
#define PAUSE_BYTES (4u << 20)
#define LIMIT_BYTES (256u << 20)
#define COMPACT_BYTES (64u << 10) /* handed-on bytes that are worth moving the others for */
#define LIST_NAME "queue"

/* The shelf, above what every operator has there. */
enum { SHELF_SINK = LSC_SHELF_RECORD, SHELF_CONTROLS = LSC_SHELF_POSITION };

typedef struct lsc_push {
  lsc_op_t op;        /* first */
  sc_buf_t queue;     /* values that wait, each behind its queued_t */
  size_t head;        /* where the first of them begins */
  int64_t queued;     /* how many */
  int64_t capacity;   /* from so many on the producer is paused */
  sc_buf_t out;       /* the value that was handed out last */
  sc_buf_t rest;      /* sink:lines: the beginning of a line */
  bool begun;         /* push has been called */
  bool can_pause;     /* it has given us `pause` */
  bool paused;        /* and that was called */
  bool finished;      /* nothing more is taken */
  bool drained;       /* because the job is to end: the producer does not know */
  bool has_dropped;   /* and was said to have */
} lsc_push_t;

typedef struct queued {
  uint32_t len;       /* of the value behind it */
  bool has_timestamp;
  int64_t timestamp;
} queued_t;

/* ---- the queue ---- */

static bool is_full(const lsc_push_t *p) {
  return p->queued >= p->capacity || p->queue.len - p->head >= PAUSE_BYTES;
}

static bool is_half_empty(const lsc_push_t *p) {
  return p->queued <= p->capacity / 2 && p->queue.len - p->head <= PAUSE_BYTES / 2;
}

/* The value from `at` on, behind room for a queued_t, has been appended: it counts from now on. */
static void enqueue(lsc_push_t *p, size_t at, bool has_timestamp, int64_t timestamp) {
  queued_t q;
  memset(&q, 0, sizeof q);
  q.len = (uint32_t)(p->queue.len - at - sizeof q);
  q.has_timestamp = has_timestamp;
  q.timestamp = timestamp;
  memcpy(p->queue.data + at, &q, sizeof q);
  if (p->queued++ == 0)
    p->op.base.context->services->wake(p->op.base.context);
}

static size_t begin_value(lsc_push_t *p) {
  size_t at = p->queue.len;
  queued_t nothing = {0};
  sc_buf_put(&p->queue, &nothing, sizeof nothing);
  return at;
}

static sc_bytes_t first(const lsc_push_t *p, size_t at, queued_t *q) {
  memcpy(q, p->queue.data + at, sizeof *q);
  return sc_bytes(p->queue.data + at + sizeof *q, q->len);
}

/* Copied out: a function that gets it may run the loop, and with it somebody who pushes. */
static void dequeue(lsc_push_t *p, sc_item_t *out) {
  queued_t q;
  sc_bytes_t value = first(p, p->head, &q);
  sc_buf_clear(&p->out);
  sc_buf_put_bytes(&p->out, value);
  p->head += sizeof q + q.len;
  if (--p->queued == 0) {
    p->head = p->queue.len = 0;
  } else if (p->head > COMPACT_BYTES && p->head > p->queue.len / 2) {
    p->queue.len -= p->head;
    memmove(p->queue.data, p->queue.data + p->head, p->queue.len);
    p->head = 0;
  }
  *out = (sc_item_t){.bytes = sc_buf_bytes(&p->out),
                     .has_timestamp = q.has_timestamp,
                     .timestamp = q.timestamp};
}

static void say(lsc_push_t *p, sc_log_level_t level, const char *text) {
  const sc_op_context_t *c = p->op.base.context;
  sc_log_write(c->log, level, &(sc_log_where_t){c->job_id, c->attempt, 0, c->label}, "%s", text);
}

/* Must what comes now be dropped? Before `push` has returned nobody knows whether it can pause. */
static bool must_drop(lsc_push_t *p) {
  bool waits = p->can_pause || !p->begun;
  if (waits ? p->queue.len - p->head < LIMIT_BYTES : !is_full(p))
    return false;
  sc_op_count(p->op.base.context, "numRecordsDropped", 1);
  if (!p->has_dropped)
    say(p, SC_LOG_WARN,
        "more is pushed than the job takes, and the producer does not pause: what comes while the "
        "queue is full is dropped, and counted as numRecordsDropped");
  p->has_dropped = true;
  return true;
}

/* ---- sink, on the thread that runs ---- */

static lsc_push_t *sink_of(lua_State *L, const char *usage) {
  lsc_op_t **box = lua_touserdata(L, lua_upvalueindex(1));
  if (!*box)
    luaL_error(L, "%s: closed, because its operator has ended", usage);
  if (!lua_rawequal(L, 1, lua_upvalueindex(2)))
    luaL_error(L, "call it with a colon: %s", usage);
  return (lsc_push_t *)*box;
}

/* Push the named function of what `push` returned; false (nothing pushed) where there is none. */
static bool push_control(const lsc_push_t *p, lua_State *L, const char *name) {
  lua_State *shelf = p->op.shelf;
  if (!p->begun || !lua_istable(shelf, SHELF_CONTROLS))
    return false;
  lua_pushvalue(shelf, SHELF_CONTROLS);
  lua_xmove(shelf, L, 1);
  lua_getfield(L, -1, name);
  lua_remove(L, -2);
  if (lua_isfunction(L, -1))
    return true;
  lua_pop(L, 1);
  return false;
}

/* What it raises is raised in the callback that pushed. */
static void pause_if_full(lsc_push_t *p, lua_State *L) {
  if (!p->can_pause || p->paused || !is_full(p))
    return;
  p->paused = true;
  if (push_control(p, L, "pause"))
    lua_call(L, 0, 0);
}

static void check_open(lsc_push_t *p, lua_State *L, const char *usage) {
  if (p->finished)
    luaL_error(L, "%s: after sink:finish()", usage);
}

/* sink:push(value [, timestamp]) -> whether it was taken */
static int sink_push(lua_State *L) {
  const char *usage = "sink:push(value)";
  lsc_push_t *p = sink_of(L, usage);
  luaL_checkstack(L, 4, usage);
  lua_settop(L, 3);
  if (lua_isnil(L, 2))
    return luaL_error(L, "%s: nil cannot be emitted", usage);
  bool timed = !lua_isnil(L, 3);
  int64_t timestamp = timed ? lsc__check_time(L, 3, "the timestamp of a pushed value") : 0;
  bool taken = !p->finished && !must_drop(p);
  if (taken) {
    size_t at = begin_value(p);
    if (lsc_encode(L, 2, &p->queue, &p->op.error) < 0) {
      p->queue.len = at;
      return lsc__raise(L, &p->op);
    }
    enqueue(p, at, timed, timestamp);
    pause_if_full(p, L);
  }
  lua_pushboolean(L, taken);
  return 1;
}

static void push_line(lsc_push_t *p, sc_bytes_t line) {
  if (line.len > 0 && line.data[line.len - 1] == '\r')
    line.len--;
  if (must_drop(p))
    return;
  size_t at = begin_value(p);
  sc_pack_str(&p->queue, line);
  enqueue(p, at, false, 0);
}

/* sink:lines(chunk): push the lines of a text that comes in pieces. */
static int sink_lines(lua_State *L) {
  const char *usage = "sink:lines(chunk)";
  lsc_push_t *p = sink_of(L, usage);
  luaL_checkstack(L, 4, usage);
  check_open(p, L, usage);
  size_t n;
  const char *text = luaL_checklstring(L, 2, &n), *end = text + n;
  for (const char *stop; (stop = memchr(text, '\n', (size_t)(end - text))); text = stop + 1) {
    sc_bytes_t line = sc_bytes(text, (size_t)(stop - text));
    if (p->rest.len) {
      sc_buf_put_bytes(&p->rest, line);
      line = sc_buf_bytes(&p->rest);
    }
    push_line(p, line);
    sc_buf_clear(&p->rest);
  }
  sc_buf_put(&p->rest, text, (size_t)(end - text));
  if (p->rest.len > SC_LINE_MAX)
    return luaL_error(L, "%s: a line is longer than %d bytes", usage, (int)SC_LINE_MAX);
  pause_if_full(p, L);
  return 0;
}

/* sink:flush() -> the bytes of a line without its end, which is pushed; 0 without one */
static int sink_flush(lua_State *L) {
  lsc_push_t *p = sink_of(L, "sink:flush()");
  lua_pushinteger(L, (lua_Integer)p->rest.len);
  if (p->rest.len && !p->finished)
    push_line(p, sc_buf_bytes(&p->rest));
  sc_buf_clear(&p->rest);
  return 1;
}

/* sink:finish(): the input has ended. */
static int sink_finish(lua_State *L) {
  lsc_push_t *p = sink_of(L, "sink:finish()");
  if (p->rest.len && !p->finished)
    push_line(p, sc_buf_bytes(&p->rest));
  sc_buf_clear(&p->rest);
  p->finished = true;
  p->op.base.context->services->wake(p->op.base.context);
  return 0;
}

/* sink:fail(message): the task fails. In a call of the operator itself, when that has ended. */
static int sink_fail(lua_State *L) {
  lsc_push_t *p = sink_of(L, "sink:fail(message)");
  sc_op_context_t *c = p->op.base.context;
  luaL_checkstack(L, 2, NULL);
  const char *text = luaL_tolstring(L, 2, NULL);
  sc_error_t err = SC_ERROR_INIT;
  sc_fail(&err, SC_EIO, "%s: %s", c->label, text);
  if (!p->op.running)
    c->services->fail(c, &err);
  else if (p->op.fail.code == SC_OK)
    sc_error_move(&p->op.fail, &err);
  sc_error_clear(&err);
  return 0;
}

/* sink:warn(message): a line in the job's log. */
static int sink_warn(lua_State *L) {
  lsc_push_t *p = sink_of(L, "sink:warn(message)");
  say(p, SC_LOG_WARN, luaL_tolstring(L, 2, NULL));
  return 0;
}

static int no_field(lua_State *L) {
  return luaL_error(L, "sink has no field '%s'; it has push, lines, flush, finish, fail and warn",
                    luaL_tolstring(L, 2, NULL));
}

static const luaL_Reg sink_methods[] = {{"push", sink_push},     {"lines", sink_lines},
                                        {"flush", sink_flush},   {"finish", sink_finish},
                                        {"fail", sink_fail},     {"warn", sink_warn},
                                        {NULL, NULL}};

/* Protected. */
static void push_setup(lsc_op_t *op, lua_State *L) {
  lsc_push_t *p = (lsc_push_t *)op;
  int spec = lua_gettop(L);
  p->capacity = CAPACITY_DEFAULT;
  if (lua_getfield(L, spec, "capacity") != LUA_TNIL) {
    int whole;
    p->capacity = lua_tointegerx(L, -1, &whole);
    if (!whole || p->capacity < 1)
      luaL_error(L, "'capacity' of a push source must be a whole number from 1 on");
  }
  lsc__op_push_box(op, L);
  int box = lua_gettop(L);
  lua_createtable(L, 0, 6);
  int sink = lua_gettop(L);
  for (const luaL_Reg *m = sink_methods; m->name; m++)
    lsc__method(L, m->name, m->func, box, sink, 0);
  lsc__seal(L, "sink", no_field, box);
  lua_xmove(L, op->shelf, 1);
  lua_pushnil(op->shelf); /* the controls */
  lua_settop(L, spec);
}

/* ---- the source ---- */

int lsc__push_source_list_splits(void *data, sc_bytes_t options, uint32_t parallelism, void *host,
                                 sc_buf_t *out, sc_error_t *err) {
  sc_pack_array(out, 0); /* nothing to deal: every reader has its own producer */
  return 0;
}

static int check_controls(lua_State *L) {
  if (!lua_istable(L, 2))
    return luaL_error(L, "push must return nothing, or a table with pause, resume and close, not a "
                      "%s", luaL_typename(L, 2));
  lua_pushnil(L);
  while (lua_next(L, 2)) {
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
    if (strcmp(name, "pause") && strcmp(name, "resume") && strcmp(name, "close"))
      return luaL_error(L, "push returned a table with '%s'; it may have pause, resume and close",
                        luaL_tolstring(L, -2, NULL));
    if (!lua_isfunction(L, -1))
      return luaL_error(L, "push returned a '%s' that is no function, but a %s", name,
                        luaL_typename(L, -1));
    lua_pop(L, 1);
  }
  return 0;
}

/* Protected: what push returned lies on the coroutine. */
static int take_controls(lua_State *L) {
  lsc_push_t *p = lua_touserdata(L, 1);
  lua_State *co = p->op.co, *shelf = p->op.shelf;
  lua_settop(co, 1);
  if (lua_isnil(co, 1))
    return 0;
  lua_xmove(co, L, 1);
  check_controls(L);
  lua_pushvalue(L, 2);
  lua_xmove(L, shelf, 1);
  lua_replace(shelf, SHELF_CONTROLS);
  bool pauses = lua_getfield(L, 2, "pause") == LUA_TFUNCTION;
  bool resumes = lua_getfield(L, 2, "resume") == LUA_TFUNCTION;
  if (pauses != resumes)
    return luaL_error(L, "push returned only one of pause and resume: each needs the other");
  p->can_pause = pauses;
  if (lua_getfield(L, 2, "close") == LUA_TFUNCTION) {
    lua_xmove(L, shelf, 1);
    lua_replace(shelf, LSC_SHELF_CLOSE);
  }
  return 0;
}

static int call_control(lsc_push_t *p, const char *name, sc_error_t *err) {
  lsc_op_t *op = &p->op;
  if (lua_status(op->co) != LUA_OK)
    lua_resetthread(op->co);
  lua_settop(op->co, 0);
  return push_control(p, op->co, name) ? lsc__run_whole(op, name, err) : 0;
}

/* Call push, once. */
static int begin(lsc_push_t *p, sc_error_t *err) {
  lsc_op_t *op = &p->op;
  lsc__prepare(op, LSC_SHELF_FUNCTION);
  lsc__push(op, LSC_SHELF_CONTEXT);
  lsc__push(op, SHELF_SINK);
  int rc = lsc__run_whole(op, "push", err);
  if (rc == 0 && lsc_protect(lsc_host_state(op->host), take_controls, p, 0, &op->error) < 0)
    rc = lsc__user_reject(op, err, "%s", op->error.message);
  p->begun = true;
  if (rc < 0 || !p->can_pause || !is_full(p))
    return rc;
  p->paused = true;
  return call_control(p, "pause", err);
}

/* Let the producer go on, or not, as the queue wants it. */
static int steer(lsc_push_t *p, sc_error_t *err) {
  if (!p->begun)
    return p->finished ? 0 : begin(p, err);
  if (p->drained && p->can_pause && !p->paused) {
    p->paused = true;
    return call_control(p, "pause", err);
  }
  if (!p->paused || p->finished || !is_half_empty(p))
    return 0;
  p->paused = false;
  return call_control(p, "resume", err);
}

static int push_poll(sc_operator_t *base, sc_item_t *out, sc_error_t *err) {
  lsc_push_t *p = (lsc_push_t *)base;
  int rc = steer(p, err);
  if (rc < 0)
    return rc;
  if (p->queued > 0) {
    dequeue(p, out);
    return SC_EMIT;
  }
  if (p->finished)
    return SC_ENDED;
  base->context->wake_at_ms = INT64_MAX;
  return SC_IDLE;
}

static void push_drain(sc_operator_t *base) {
  lsc_push_t *p = (lsc_push_t *)base;
  p->drained |= !p->finished;
  p->finished = true;
}

static int push_add_split(sc_operator_t *base, sc_bytes_t split, sc_error_t *err) {
  return 0;
}

static void push_no_more(sc_operator_t *base) {}

/* ---- state ---- */

static int push_snapshot(sc_operator_t *base, uint64_t id, sc_snapshot_parts_t *parts,
                         sc_error_t *err) {
  const lsc_push_t *p = (const lsc_push_t *)base;
  sc_buf_t item = SC_BUF_INIT;
  sc_parts_declare(parts, LIST_NAME, SC_LIST_SPLIT);
  queued_t q;
  for (size_t at = p->head; at < p->queue.len; at += sizeof q + q.len) {
    sc_bytes_t value = first(p, at, &q);
    sc_buf_clear(&item);
    sc_pack_array(&item, q.has_timestamp ? 2 : 1);
    sc_buf_put_bytes(&item, value);
    if (q.has_timestamp)
      sc_pack_int(&item, q.timestamp);
    sc_parts_list(parts, LIST_NAME, SC_LIST_SPLIT, sc_buf_bytes(&item));
  }
  sc_buf_free(&item);
  return 0;
}

static int restore_item(lsc_push_t *p, sc_cursor_t *c) {
  sc_token_t t;
  sc_bytes_t value;
  if (sc_cursor_next(c, &t) != 1 || t.type != SC_ARRAY || t.n < 1 || t.n > 2)
    return SC_ECORRUPT;
  uint32_t n = t.n;
  if (sc_cursor_value(c, &value) != 1)
    return SC_ECORRUPT;
  t.i = 0;
  if (n == 2 && (sc_cursor_next(c, &t) != 1 || t.type != SC_INT))
    return SC_ECORRUPT;
  size_t at = begin_value(p);
  sc_buf_put_bytes(&p->queue, value);
  enqueue(p, at, n == 2, t.i);
  return 0;
}

static int push_restore(sc_operator_t *base, sc_bytes_t lists, sc_error_t *err) {
  sc_bytes_t items = {0};
  uint32_t n = 0;
  int rc = sc_lists_find(lists, LIST_NAME, &items, &n);
  sc_cursor_t c = sc_cursor(items);
  for (uint32_t i = 0; rc > 0 && i < n; i++)
    if (restore_item((lsc_push_t *)base, &c) < 0)
      rc = SC_ECORRUPT;
  if (rc < 0)
    return sc_fail(err, rc, "%s: the list of what it had taken is damaged", base->context->label);
  return 0;
}

static void push_fini(lsc_op_t *op) {
  lsc_push_t *p = (lsc_push_t *)op;
  sc_buf_free(&p->queue);
  sc_buf_free(&p->out);
  sc_buf_free(&p->rest);
}

static const sc_operator_ops_t push_ops = {.open = lsc__op_open,
                                           .poll = push_poll,
                                           .drain = push_drain,
                                           .add_split = push_add_split,
                                           .no_more_splits = push_no_more,
                                           .restore = push_restore,
                                           .snapshot = push_snapshot,
                                           .destroy = lsc__op_destroy};

const lsc_family_t lsc__push_source = {.kind = "push_source",
                                       .function = "push",
                                       .noun = "push source",
                                       .emits = true,
                                       .size = sizeof(lsc_push_t),
                                       .ops = &push_ops,
                                       .setup = push_setup,
                                       .fini = push_fini};
