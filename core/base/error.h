/*
 * error: what went wrong, where, and why, in one value that crosses every layer.
 *
 * A function that can fail returns 0 (or a count) or a negative SC_E* code, and takes an
 * `sc_error_t *err` last; NULL is allowed and means "the code is enough". Where err is given it
 * holds the same code, a whole sentence for a user, the names that a user needs (operator, file),
 * and the error that caused it.
 *
 * Ownership: an sc_error_t is a value that owns its strings and its cause. Start it with
 * SC_ERROR_INIT, end it with sc_error_clear. Setting replaces what was there.
 * Threads: a value belongs to one thread at a time; hand it over with sc_error_move.
 * Failure: setting never fails (out of memory ends the process, see mem.h).
 */
#ifndef SC_BASE_ERROR_H
#define SC_BASE_ERROR_H

#include <stdarg.h>
#include <stddef.h>

/* One list makes the enum, the names and the general texts. Append only: codes reach users. */
#define SC_ERR_MAP(XX) \
  XX(EINVAL, "invalid argument") \
  XX(EIO, "input or output failed") \
  XX(ECORRUPT, "data is damaged") \
  XX(EVERSION, "format version is not supported") \
  XX(ENOTFOUND, "not found") \
  XX(EEXIST, "already exists") \
  XX(ELOCKED, "in use by another process") \
  XX(ESTALE, "checkpoint was aborted") \
  XX(ETIMEOUT, "timed out") \
  XX(EDECLINED, "checkpoint was declined") \
  XX(ECANCELED, "canceled") \
  XX(EUSER, "error in a user function") \
  XX(EKEY, "not a key") \
  XX(EVALUE, "value cannot be stored") \
  XX(ELIMIT, "a limit was exceeded") \
  XX(ESTATE, "state does not fit") \
  XX(EUNSUPPORTED, "not supported") \
  XX(ECLOSED, "closed") \
  XX(ENOSPACE, "no space left") \
  XX(EACCESS, "permission denied") \
  XX(EFAILED, "job failed") \
  XX(EINTERNAL, "internal error")

#define SC__ERR_ORDINAL(name, text) SC__ORD_##name,
enum { SC_ERR_MAP(SC__ERR_ORDINAL) SC__ERR_COUNT };
#undef SC__ERR_ORDINAL
#define SC__ERR_CODE(name, text) SC_##name = -(SC__ORD_##name + 1),
enum { SC_OK = 0, SC_ERR_MAP(SC__ERR_CODE) };
#undef SC__ERR_CODE

typedef struct sc_error {
  int code;               /* SC_OK (nothing set) or a negative SC_E* */
  char *message;          /* whole sentence without the code's name; NULL when nothing is set */
  char *operator_name;    /* "name (uid) 2/4" of the operator, or NULL */
  char *file;             /* path of the file concerned, or NULL */
  struct sc_error *cause; /* what led to it, or NULL */
} sc_error_t;

#define SC_ERROR_INIT {0, NULL, NULL, NULL, NULL}

/* Name of a code, "ESTALE", or "OK"; of an unknown number "EINTERNAL". Static string. */
const char *sc_error_name(int code);
/* General text of a code. Static string. */
const char *sc_error_text(int code);

/* Set err (when given) to code and a printf-formatted sentence; returns code.
 * Example: return sc_fail(err, SC_EIO, "cannot write %s: %s", path, strerror(errno)); */
int sc_fail(sc_error_t *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int sc_vfail(sc_error_t *err, int code, const char *format, va_list args);

/* As sc_fail, but what err held before becomes its cause. */
int sc_fail_cause(sc_error_t *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The code for an errno: ENOSPC -> SC_ENOSPACE, EACCES/EPERM/EROFS -> SC_EACCESS,
 * ENOENT -> SC_ENOTFOUND, EEXIST -> SC_EEXIST, else SC_EIO. */
int sc_error_from_errno(int errno_value);

/* Name the operator or the file; text is copied. Only the first naming counts. */
void sc_error_set_operator(sc_error_t *err, const char *name);
void sc_error_set_file(sc_error_t *err, const char *path);

/* Whole chain as one text, "EIO: ...; because ENOSPACE: ...", malloc'ed, for the caller to free. */
char *sc_error_format(const sc_error_t *err);

void sc_error_copy(sc_error_t *to, const sc_error_t *from);  /* deep; replaces `to` */
void sc_error_move(sc_error_t *to, sc_error_t *from);        /* `from` is empty afterwards */
void sc_error_clear(sc_error_t *err);                        /* NULL is fine */

/* Programmer errors only: stays on in release, prints file, line and text, aborts. */
#define sc_assert(cond) ((cond) ? (void)0 : sc__assert_failed(#cond, __FILE__, __LINE__))
_Noreturn void sc__assert_failed(const char *cond, const char *file, int line);

#endif
