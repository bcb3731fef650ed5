/*
 * options: what a native operator reads from its options, with one voice for what is wrong.
 *
 * Options are a msgpack map. Each function returns 1 where the option is there, 0 where it is not
 * (or is nil), and SC_EINVAL with a sentence that names operator kind, option, and what was given.
 *
 * Threads: pure. Ownership: bytes borrow from the options; strings are the caller's (free).
 */
#ifndef SC_OPERATOR_OPTIONS_H
#define SC_OPERATOR_OPTIONS_H

#include "../base/buf.h"
#include "../base/error.h"

typedef struct sc_options {
  const char *kind; /* of the operator, for messages; borrowed */
  sc_bytes_t map;   /* borrowed */
} sc_options_t;

int sc_options_str(const sc_options_t *o, const char *name, char **out, sc_error_t *err);
int sc_options_bool(const sc_options_t *o, const char *name, bool *out, sc_error_t *err);
/* An integer, or a float that is whole. */
int sc_options_int(const sc_options_t *o, const char *name, int64_t *out, sc_error_t *err);
/* An array: its body's first element is at out->data. An empty map counts as an empty array: a
 * script's {} cannot say which of the two it is. */
int sc_options_array(const sc_options_t *o, const char *name, sc_bytes_t *body, uint32_t *n,
                     sc_error_t *err);
/* "file_sink: option dir is missing". */
int sc_options_missing(const sc_options_t *o, const char *name, sc_error_t *err);

#endif
