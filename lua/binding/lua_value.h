/*
 * lua_value: a Lua value as an opaque value of core.
 *
 * It points at the top of the stack of a thread that is not running (a suspended coroutine, one
 * that has returned, or a shelf): valid until its operator is stepped again.
 * Threads: the slot's. Ownership: borrows everything. Failure: nothing here raises.
 */
#ifndef LSC_LUA_VALUE_H
#define LSC_LUA_VALUE_H

#include "../../core/runtime/operator.h"
#include "host.h"

typedef struct lsc_value {
  lsc_host_t *host; /* whose state it lives in */
  lua_State *from;  /* the value is at the top of this thread's stack */
} lsc_value_t;

extern const sc_opaque_ops_t lsc__value_ops;

/* Push the value of an item on `to`, a thread of `host` that is not running: by reference where it
 * lives in the same host and nobody else has it, else a copy. `scratch` is overwritten. SC_EVALUE
 * where a copy is needed of what cannot be stored. */
int lsc__value_take(lsc_host_t *host, lua_State *to, const sc_item_t *item, sc_buf_t *scratch,
                    sc_error_t *err);
/* Decode bytes and push the value on `to`, a thread that is not running. */
int lsc__value_push(lua_State *to, sc_bytes_t bytes, sc_error_t *err);

#endif
