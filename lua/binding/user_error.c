#include "user_error.h"

#include <inttypes.h>
#include <lauxlib.h>
#include <stdarg.h>
#include <stdio.h>

#include "codec.h"

#define RECORD_MAX 200 /* bytes of a record in a message */

static sc_bytes_t text_of(lua_State *L, int index) {
  size_t n;
  const char *s = lua_tolstring(L, index, &n);
  return sc_bytes(s, n);
}

static void set_text(sc_buf_t *buf, sc_bytes_t text) {
  sc_buf_clear(buf);
  sc_buf_put_bytes(buf, text);
}

/* ---- what the error object and the stack say; both run protected ---- */

/* The error object lies at the top of the coroutine. A table says most by its contents, where it
 * has no __tostring. */
static int describe(lua_State *L) {
  lsc_op_t *op = lua_touserdata(L, 1);
  lua_xmove(op->co, L, 1);
  int type = lua_type(L, -1);
  bool text = type == LUA_TSTRING || type == LUA_TNUMBER;
  if (text || luaL_getmetafield(L, -1, "__tostring") != LUA_TNIL) {
    if (!text)
      lua_pop(L, 1);
    luaL_tolstring(L, -1, NULL);
    set_text(&op->message, text_of(L, -1));
    return 0;
  }
  sc_buf_clear(&op->message);
  sc_buf_clear(&op->scratch);
  sc_buf_puts(&op->message, "(error object is ");
  if (type == LUA_TNIL) {
    sc_buf_puts(&op->message, "nil)");
  } else if (type != LUA_TTABLE) {
    luaL_tolstring(L, -1, NULL);
    sc_buf_printf(&op->message, "a %s: %s)", lua_typename(L, type), lua_tostring(L, -1));
  } else if (lsc_encode(L, -1, &op->scratch, NULL) < 0) {
    sc_buf_puts(&op->message, "a table without __tostring)");
  } else {
    sc_buf_puts(&op->message, "a table: ");
    sc_value_print(sc_buf_bytes(&op->scratch), RECORD_MAX, &op->message);
    sc_buf_puts(&op->message, ")");
  }
  return 0;
}

static int trace(lua_State *L) {
  lsc_op_t *op = lua_touserdata(L, 1);
  luaL_traceback(L, op->co, NULL, 0);
  set_text(&op->trace, text_of(L, -1));
  return 0;
}

static int push_message(lua_State *L) {
  const lsc_op_t *op = lua_touserdata(L, 1);
  lua_pushlstring(L, (const char *)op->message.data, op->message.len);
  return 1;
}

/* ---- what was being worked on ---- */

static void print_shelved(lsc_op_t *op, int slot, sc_buf_t *out) {
  sc_error_t err = SC_ERROR_INIT;
  sc_buf_clear(&op->scratch);
  lua_pushvalue(op->shelf, slot);
  if (lsc_encode(op->shelf, -1, &op->scratch, &err) < 0)
    sc_buf_printf(out, "a value that cannot be printed (%s)", err.message);
  else
    sc_value_print(sc_buf_bytes(&op->scratch), RECORD_MAX, out);
  lua_pop(op->shelf, 1);
  sc_error_clear(&err);
}

static void print_subject(lsc_op_t *op, sc_buf_t *out) {
  switch (op->subject) {
    case LSC_ON_RECORD:
      sc_buf_puts(out, "\nrecord: ");
      print_shelved(op, LSC_SHELF_RECORD, out);
      break;
    case LSC_ON_TIMER:
      sc_buf_printf(out, "\n%s-time timer: %" PRId64 ", key ",
                    op->domain == SC_EVENT_TIME ? "event" : "processing", op->timestamp);
      sc_value_print(sc_buf_bytes(&op->key), RECORD_MAX, out);
      break;
    case LSC_ON_SPLIT:
      sc_buf_puts(out, "\nsplit: ");
      print_shelved(op, LSC_SHELF_RECORD, out);
      sc_buf_puts(out, ", position: ");
      print_shelved(op, LSC_SHELF_POSITION, out);
      break;
    case LSC_ON_INDEX:
      sc_buf_puts(out, "\nindex: ");
      print_shelved(op, LSC_SHELF_RECORD, out);
      break;
    case LSC_ON_NOTHING:
    default:
      break;
  }
}

static int fail(lsc_op_t *op, const char *where, sc_error_t *err) {
  const char *label = op->base.context->label;
  sc_buf_t text = SC_BUF_INIT;
  if (where)
    sc_buf_printf(&text, "%s: ", where);
  sc_buf_put_bytes(&text, sc_buf_bytes(&op->message));
  print_subject(op, &text);
  if (op->trace.len) {
    sc_buf_puts(&text, "\n");
    sc_buf_put_bytes(&text, sc_buf_bytes(&op->trace));
  }
  int rc = sc_fail(err, SC_EUSER, "%s: %.*s", label, (int)text.len, (const char *)text.data);
  sc_error_set_operator(err, label);
  sc_buf_free(&text);
  return rc;
}

/* ---- on_error ---- */

/* {error = message, record = record} for the side output, its keys in byte order. A record that
 * cannot be stored goes as its text. */
static void give_skipped(lsc_op_t *op) {
  sc_op_count(op->base.context, "numRecordsSkipped", 1);
  if (op->errors_output < 0)
    return;
  sc_buf_t *out = &op->overflow.bytes;
  size_t at = out->len;
  sc_pack_map(out, 2);
  sc_pack_cstr(out, "error");
  sc_pack_str(out, sc_buf_bytes(&op->message));
  sc_pack_cstr(out, "record");
  lua_pushvalue(op->shelf, LSC_SHELF_RECORD);
  if (lsc_encode(op->shelf, -1, out, NULL) < 0) {
    sc_buf_t text = SC_BUF_INIT;
    print_shelved(op, LSC_SHELF_RECORD, &text);
    sc_pack_str(out, sc_buf_bytes(&text));
    sc_buf_free(&text);
  }
  lua_pop(op->shelf, 1);
  lsc__item(op, (uint16_t)op->errors_output);
  lsc__overflow_add(op, &op->item, at);
}

static int handled(lsc_op_t *op, sc_item_t *out, sc_error_t *err) {
  lsc__end(op);
  return 0;
}

static int call_handler(lsc_op_t *op, sc_error_t *err) {
  lsc__prepare(op, LSC_SHELF_ON_ERROR);
  int rc = lsc_protect(op->shelf, push_message, op, 1, err);
  if (rc < 0)
    return rc;
  lua_xmove(op->shelf, op->co, 1);
  lsc__push(op, LSC_SHELF_RECORD);
  lsc__push(op, LSC_SHELF_CONTEXT);
  lsc__call(op, handled);
  op->handling = true;
  return 0;
}

/* The message and trace are known: fail, or set the record aside. */
static int settle(lsc_op_t *op, sc_error_t *err) {
  bool handling = op->handling;
  lsc__reset(op);
  if (handling)
    return fail(op, "on_error", err);
  if (op->subject != LSC_ON_RECORD || op->on_error == LSC_ERROR_FAIL)
    return fail(op, NULL, err);
  if (op->on_error == LSC_ERROR_CALL)
    return call_handler(op, err);
  give_skipped(op);
  return 0;
}

static void note(lsc_op_t *op, int status) {
  sc_buf_clear(&op->trace);
  if (lsc_protect(lsc_host_state(op->host), trace, op, 0, NULL) < 0)
    sc_buf_clear(&op->trace);
  if (status == LUA_YIELD)
    set_text(&op->message, sc_bytes_str("coroutine.yield was called outside of a coroutine of the "
                                        "function's own"));
  else if (status == LUA_ERRMEM)
    set_text(&op->message, sc_bytes_str("not enough memory"));
  else if (lsc_protect(lsc_host_state(op->host), describe, op, 0, NULL) < 0)
    set_text(&op->message, sc_bytes_str("(error object has no text: its __tostring failed)"));
}

int lsc__user_raised(lsc_op_t *op, int status, sc_error_t *err) {
  note(op, status);
  return settle(op, err);
}

int lsc__user_reject(lsc_op_t *op, sc_error_t *err, const char *format, ...) {
  sc_buf_clear(&op->trace);
  if (lua_status(op->co) == LUA_YIELD)
    lsc_protect(lsc_host_state(op->host), trace, op, 0, NULL);
  char text[512];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  set_text(&op->message, sc_bytes(text, n < (int)sizeof text ? (size_t)n : sizeof text - 1));
  return settle(op, err);
}

int lsc__user_failed(lsc_op_t *op, const char *where, int status, sc_error_t *err) {
  note(op, status);
  lsc__reset(op);
  return fail(op, where, err);
}
