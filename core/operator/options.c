#include "options.h"

#include "../base/mem.h"
#include "../data/value.h"

/* 1 with the first token of the option and what follows it, 0 where it is absent or nil. */
static int find(const sc_options_t *o, const char *name, sc_token_t *token, sc_bytes_t *rest) {
  sc_bytes_t value;
  if (!sc_value_field(o->map, sc_bytes_str(name), &value))
    return 0;
  sc_cursor_t c = sc_cursor(value);
  if (sc_cursor_next(&c, token) <= 0 || token->type == SC_NIL)
    return 0;
  *rest = sc_bytes(c.at, (size_t)(c.end - c.at));
  return 1;
}

static int wrong(const sc_options_t *o, const char *name, const char *wanted, sc_error_t *err) {
  sc_bytes_t value;
  sc_buf_t text = SC_BUF_INIT;
  if (sc_value_field(o->map, sc_bytes_str(name), &value))
    sc_value_print(value, 100, &text);
  sc_fail(err, SC_EINVAL, "%s: option %s must be %s, but it is %.*s", o->kind, name, wanted,
          (int)text.len, text.len ? (const char *)text.data : "");
  sc_buf_free(&text);
  return SC_EINVAL;
}

int sc_options_str(const sc_options_t *o, const char *name, char **out, sc_error_t *err) {
  sc_token_t t;
  sc_bytes_t rest;
  if (!find(o, name, &t, &rest))
    return 0;
  if (t.type != SC_STR || t.s.len == 0 || memchr(t.s.data, 0, t.s.len))
    return wrong(o, name, "a string that is not empty and has no zero byte", err);
  *out = sc_strndup((const char *)t.s.data, t.s.len);
  return 1;
}

int sc_options_bool(const sc_options_t *o, const char *name, bool *out, sc_error_t *err) {
  sc_token_t t;
  sc_bytes_t rest;
  if (!find(o, name, &t, &rest))
    return 0;
  if (t.type != SC_BOOL)
    return wrong(o, name, "true or false", err);
  *out = t.b;
  return 1;
}

int sc_options_int(const sc_options_t *o, const char *name, int64_t *out, sc_error_t *err) {
  sc_token_t t;
  sc_bytes_t rest;
  if (!find(o, name, &t, &rest))
    return 0;
  if (t.type == SC_INT)
    *out = t.i;
  else if (t.type == SC_FLOAT && t.f >= -0x1p62 && t.f <= 0x1p62 && (double)(int64_t)t.f == t.f)
    *out = (int64_t)t.f;
  else
    return wrong(o, name, "a whole number", err);
  return 1;
}

int sc_options_array(const sc_options_t *o, const char *name, sc_bytes_t *body, uint32_t *n,
                     sc_error_t *err) {
  sc_token_t t;
  if (!find(o, name, &t, body))
    return 0;
  if (t.type != SC_ARRAY && !(t.type == SC_MAP && t.n == 0))
    return wrong(o, name, "an array", err);
  *n = t.n;
  return 1;
}

int sc_options_missing(const sc_options_t *o, const char *name, sc_error_t *err) {
  return sc_fail(err, SC_EINVAL, "%s: option %s is missing", o->kind, name);
}
