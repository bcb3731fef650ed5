#include "error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "mem.h"

#define SC__ERR_NAME(name, text) #name,
static const char *const names[] = {SC_ERR_MAP(SC__ERR_NAME)};
#define SC__ERR_TEXT(name, text) text,
static const char *const texts[] = {SC_ERR_MAP(SC__ERR_TEXT)};

static int ordinal(int code) {
  return code < 0 && code >= -SC__ERR_COUNT ? -code - 1 : SC__ORD_EINTERNAL;
}

const char *sc_error_name(int code) {
  return code >= 0 ? "OK" : names[ordinal(code)];
}

const char *sc_error_text(int code) {
  return code >= 0 ? "no error" : texts[ordinal(code)];
}

static char *format_text(const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, again);
  va_end(again);
  sc_assert(n >= 0);
  char *text = sc_malloc((size_t)n + 1);
  vsnprintf(text, (size_t)n + 1, format, args);
  return text;
}

int sc_vfail(sc_error_t *err, int code, const char *format, va_list args) {
  if (!err)
    return code;
  char *text = format_text(format, args);  /* before clearing: an argument may be err's own text */
  sc_error_clear(err);
  err->code = code;
  err->message = text;
  return code;
}

int sc_fail(sc_error_t *err, int code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  sc_vfail(err, code, format, args);
  va_end(args);
  return code;
}

int sc_fail_cause(sc_error_t *err, int code, const char *format, ...) {
  if (!err)
    return code;
  va_list args;
  va_start(args, format);
  char *text = format_text(format, args);
  va_end(args);
  sc_error_t *cause = NULL;
  if (err->code != SC_OK) {
    cause = sc_malloc(sizeof *cause);
    *cause = *err;
  }
  *err = (sc_error_t){.code = code, .message = text, .cause = cause};
  return code;
}

int sc_error_from_errno(int e) {
  switch (e) {
    case ENOSPC: case EDQUOT: return SC_ENOSPACE;
    case EACCES: case EPERM: case EROFS: return SC_EACCESS;
    case ENOENT: return SC_ENOTFOUND;
    case EEXIST: return SC_EEXIST;
    default: return SC_EIO;
  }
}

static void set_once(char **field, const char *text) {
  if (!*field && text)
    *field = sc_strdup(text);
}

void sc_error_set_operator(sc_error_t *err, const char *name) {
  if (err)
    set_once(&err->operator_name, name);
}

void sc_error_set_file(sc_error_t *err, const char *path) {
  if (err)
    set_once(&err->file, path);
}

char *sc_error_format(const sc_error_t *err) {
  sc_buf_t out = SC_BUF_INIT;
  for (const sc_error_t *e = err; e; e = e->cause) {
    if (e != err)
      sc_buf_puts(&out, "; because ");
    sc_buf_puts(&out, sc_error_name(e->code));
    sc_buf_puts(&out, ": ");
    sc_buf_puts(&out, e->message ? e->message : sc_error_text(e->code));
  }
  sc_buf_put_u8(&out, 0);
  return (char *)out.data;
}

void sc_error_copy(sc_error_t *to, const sc_error_t *from) {
  sc_error_t copy = SC_ERROR_INIT;
  copy.code = from->code;
  set_once(&copy.message, from->message);
  set_once(&copy.operator_name, from->operator_name);
  set_once(&copy.file, from->file);
  if (from->cause) {
    copy.cause = sc_calloc(1, sizeof *copy.cause);
    sc_error_copy(copy.cause, from->cause);
  }
  sc_error_clear(to);
  *to = copy;
}

void sc_error_move(sc_error_t *to, sc_error_t *from) {
  sc_error_clear(to);
  *to = *from;
  *from = (sc_error_t)SC_ERROR_INIT;
}

void sc_error_clear(sc_error_t *err) {
  if (!err)
    return;
  free(err->message);
  free(err->operator_name);
  free(err->file);
  if (err->cause) {
    sc_error_clear(err->cause);
    free(err->cause);
  }
  *err = (sc_error_t)SC_ERROR_INIT;
}

_Noreturn void sc__assert_failed(const char *cond, const char *file, int line) {
  fprintf(stderr, "streamckpt: assertion failed: %s (%s:%d)\n", cond, file, line);
  abort();
}
