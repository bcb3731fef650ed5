/*
 * json: a msgpack value as JSON text, for sinks that people and other programs read.
 *
 * One value becomes one line without spaces. Equal values have equal text:
 *   maps      in the order in which they are stored (which is the byte order of their keys)
 *   integers  exactly; floats with the fewest digits that read back as the same float, and always
 *             with a "." or an exponent, so that 1.0 does not come back as the integer 1
 *   NaN, infinities   null, since JSON has no word for them
 *   strings   escaped; each byte that is no part of well-formed UTF-8 becomes \ufffd
 *   keys      that are no strings become strings: the JSON text of the key, in quotes
 *
 * Threads: pure. Ownership: appends to out. Failure: SC_ECORRUPT where the bytes are no msgpack
 * value (values inside the engine always are); out is then as before.
 */
#ifndef SC_OPERATOR_JSON_H
#define SC_OPERATOR_JSON_H

#include "../base/buf.h"
#include "../base/error.h"

int sc_json_append(sc_buf_t *out, sc_bytes_t value, sc_error_t *err);
/* The number alone, as above. */
void sc_json_append_float(sc_buf_t *out, double v);
/* A string in quotes. */
void sc_json_append_str(sc_buf_t *out, sc_bytes_t text);

#endif
