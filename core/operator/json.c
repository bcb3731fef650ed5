#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../data/value.h"

/* Length of the well-formed UTF-8 sequence at p, or 0. Overlong forms, surrogates, and code points
 * above U+10FFFF are not well-formed: the second byte's range excludes them. */
static size_t utf8_length(const uint8_t *p, const uint8_t *end) {
  uint8_t first = *p, low = 0x80, high = 0xbf;
  size_t n;
  if (first < 0x80)
    return 1;
  if (first >= 0xc2 && first <= 0xdf)
    n = 2;
  else if (first >= 0xe0 && first <= 0xef) {
    n = 3;
    low = first == 0xe0 ? 0xa0 : 0x80;
    high = first == 0xed ? 0x9f : 0xbf;
  } else if (first >= 0xf0 && first <= 0xf4) {
    n = 4;
    low = first == 0xf0 ? 0x90 : 0x80;
    high = first == 0xf4 ? 0x8f : 0xbf;
  } else
    return 0;
  if ((size_t)(end - p) < n || p[1] < low || p[1] > high)
    return 0;
  for (size_t i = 2; i < n; i++)
    if (p[i] < 0x80 || p[i] > 0xbf)
      return 0;
  return n;
}

static void append_escape(sc_buf_t *out, uint8_t c) {
  static const char shorts[][3] = {"\bb", "\tt", "\nn", "\ff", "\rr", "\"\"", "\\\\"};
  for (size_t i = 0; i < sizeof shorts / sizeof *shorts; i++)
    if ((uint8_t)shorts[i][0] == c) {
      sc_buf_put_u8(out, '\\');
      sc_buf_put_u8(out, (uint8_t)shorts[i][1]);
      return;
    }
  sc_buf_printf(out, "\\u%04x", c);
}

void sc_json_append_str(sc_buf_t *out, sc_bytes_t text) {
  const uint8_t *p = text.data, *end = p + text.len, *plain = p;
  sc_buf_put_u8(out, '"');
  while (p < end) {
    size_t n = utf8_length(p, end);
    if (n > 0 && *p >= 0x20 && *p != '"' && *p != '\\') {
      p += n;
      continue;
    }
    sc_buf_put(out, plain, (size_t)(p - plain));
    if (n > 0)
      append_escape(out, *p);
    else
      sc_buf_puts(out, "\\ufffd");
    plain = ++p;
  }
  sc_buf_put(out, plain, (size_t)(p - plain));
  sc_buf_put_u8(out, '"');
}

/* Digits needed for v to read back the same; 17 always do. */
static int digits_of(double v) {
  char text[40];
  for (int digits = 1; digits < 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, v);
    if (strtod(text, NULL) == v)
      return digits;
  }
  return 17;
}

void sc_json_append_float(sc_buf_t *out, double v) {
  if (!isfinite(v)) {
    sc_buf_puts(out, "null");
    return;
  }
  int digits = digits_of(v);
  /* %g turns to exponents where the digits do not reach the point: 100 would be 1e+02. Up to 15
   * digits are exact, so asking for more of them only adds zeros. */
  if (fabs(v) >= 1 && fabs(v) < 1e15) {
    int whole = 1;
    for (double power = 10; power <= fabs(v); power *= 10)
      whole++;
    if (whole > digits)
      digits = whole;
  }
  char text[40];
  int n = snprintf(text, sizeof text, "%.*g", digits, v);
  bool is_float = false;
  for (int i = 0; i < n; i++) {
    char c = text[i];
    bool digit = c >= '0' && c <= '9';
    /* The script may have set a locale whose decimal point is a comma. */
    if (!digit && c != '-' && c != '+' && c != 'e')
      text[i] = '.';
    is_float = is_float || text[i] == '.' || c == 'e';
  }
  sc_buf_put(out, text, (size_t)n);
  if (!is_float)
    sc_buf_puts(out, ".0");
}

static int append_value(sc_buf_t *out, sc_cursor_t *c);

static int append_key(sc_buf_t *out, sc_cursor_t *c) {
  sc_cursor_t ahead = *c;
  sc_token_t t;
  if (sc_cursor_next(&ahead, &t) <= 0)
    return SC_ECORRUPT;
  if (t.type == SC_STR)
    return append_value(out, c);
  sc_buf_t text = SC_BUF_INIT;
  int rc = append_value(&text, c);
  if (rc == 0)
    sc_json_append_str(out, sc_buf_bytes(&text));
  sc_buf_free(&text);
  return rc;
}

static int append_items(sc_buf_t *out, sc_cursor_t *c, uint32_t n, bool map) {
  sc_buf_put_u8(out, map ? '{' : '[');
  for (uint32_t i = 0; i < n; i++) {
    if (i)
      sc_buf_put_u8(out, ',');
    if (map) {
      int rc = append_key(out, c);
      if (rc < 0)
        return rc;
      sc_buf_put_u8(out, ':');
    }
    int rc = append_value(out, c);
    if (rc < 0)
      return rc;
  }
  sc_buf_put_u8(out, map ? '}' : ']');
  return 0;
}

/* Nests as deep as the value does, which SC_VALUE_DEPTH_MAX bounds. */
static int append_value(sc_buf_t *out, sc_cursor_t *c) {
  sc_token_t t;
  if (sc_cursor_next(c, &t) <= 0)
    return SC_ECORRUPT;
  switch (t.type) {
  case SC_NIL: sc_buf_puts(out, "null"); return 0;
  case SC_BOOL: sc_buf_puts(out, t.b ? "true" : "false"); return 0;
  case SC_INT: sc_buf_printf(out, "%" PRId64, t.i); return 0;
  case SC_FLOAT: sc_json_append_float(out, t.f); return 0;
  case SC_STR: sc_json_append_str(out, t.s); return 0;
  case SC_ARRAY: return append_items(out, c, t.n, false);
  case SC_MAP: return append_items(out, c, t.n, true);
  }
  return SC_ECORRUPT;
}

int sc_json_append(sc_buf_t *out, sc_bytes_t value, sc_error_t *err) {
  size_t before = out->len;
  sc_cursor_t c = sc_cursor(value);
  int rc = append_value(out, &c);
  if (rc == 0)
    return 0;
  out->len = before;
  return sc_fail(err, SC_ECORRUPT, "a value of %zu bytes is no well-formed msgpack", value.len);
}
