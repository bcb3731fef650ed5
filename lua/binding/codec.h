/*
 * codec: Lua values to msgpack bytes and back, and the bytes of keys.
 *
 * What a Lua value becomes (DESIGN section 5, "Values"):
 *   nil, sc.null       nil                     boolean            boolean
 *   integer            integer                 float              float64, 1.0 too
 *   string             str, any bytes          table              array or map, see below
 * A table whose keys are exactly 1..n, n > 0, is an array. A table that has no key 1 is a map, and
 * so is an empty one unless sc.array made it. Anything else that has the key 1 is refused, naming
 * the hole or the other key. Keys of maps are strings, numbers and booleans; a map is written with
 * its keys in the byte order of their encoded form (key.h), so equal values have equal bytes.
 * Functions, userdata, coroutines, cycles and nesting deeper than 64 are refused with the path to
 * the culprit, "value.user.tags[3]".
 *
 * Back: nil inside a container is sc.null, at the top nil; an empty array is one that sc.array
 * made, so it stays an array when it is encoded again. nil, NaN and containers as keys of a map
 * (only others can have written them) are refused.
 *
 * No metamethod is ever called. sc.null is the light userdata NULL; sc.array{...} is a table with
 * the metatable that lsc_array_metatable pushes.
 *
 * Threads: an lua_State belongs to one thread. Ownership: bytes are copied either way.
 * Failure: nothing here raises, but for Lua being out of memory while it decodes; then no memory
 * of ours is lost. The Lua stack is as before after a failure.
 */
#ifndef LSC_BINDING_CODEC_H
#define LSC_BINDING_CODEC_H

#include <lua.h>

#include "../../core/base/buf.h"
#include "../../core/base/error.h"

/* Once for each Lua state, before the rest; again does nothing. */
void lsc_codec_open(lua_State *L);

/* Append the value at index to out: 0, SC_EVALUE with the path, or SC_ELIMIT where the Lua stack
 * cannot grow. On failure out is as before. */
int lsc_encode(lua_State *L, int index, sc_buf_t *out, sc_error_t *err);

/* Push the one value that the bytes hold: 0, or SC_ECORRUPT, SC_EVALUE (a key that no Lua table
 * can have), SC_ELIMIT (the Lua stack cannot grow) with nothing pushed. */
int lsc_decode(lua_State *L, sc_bytes_t value, sc_error_t *err);

/* Append the key bytes (key.h) of the value at index: 0, or SC_EKEY saying what it was. On failure
 * out is as before. */
int lsc_encode_key(lua_State *L, int index, sc_buf_t *out, sc_error_t *err);

/* Push sc.null, and the metatable of what sc.array makes. */
void lsc_push_null(lua_State *L);
void lsc_array_metatable(lua_State *L);
/* Does the table at index have that metatable? Needs two free stack slots. */
bool lsc_is_array(lua_State *L, int index);

#endif
