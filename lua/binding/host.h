/*
 * host: the Lua state of one slot.
 *
 * A host is built from the job's blob of functions (closure transfer) and holds the tables that
 * describe the job's Lua operators; the operators of a slot share it. Nothing but the blob reaches
 * it, so every attempt begins alike.
 *
 * Promise: no Lua error leaves a function of this room. What can raise runs under lsc_protect or in
 * an operator's coroutine.
 * Threads: a host belongs to its slot's thread. It may be created on another one before the slot
 * runs and destroyed after it has ended.
 * Ownership: create/destroy; operators (lua_operator.h) must be destroyed before their host.
 * Failure: SC_EUSER with the message and the traceback, SC_ELIMIT where memory is short.
 */
#ifndef LSC_HOST_H
#define LSC_HOST_H

#include <lua.h>

#include "../../core/base/buf.h"
#include "../../core/base/error.h"
#include "interrupt.h"

typedef struct lsc_host lsc_host_t;
struct lsc_op; /* runner.h */

/* `watch` (may be NULL): who looks at this thread from outside (interrupt.h).
 * A state with the standard libraries, package.path and package.cpath as given (NULL: as they are),
 * `require "streamckpt.core"` answered by open_core (NULL: searched as any module), and the root
 * table that `require("streamckpt.slot").load(blob)` returns. */
int lsc_host_create(const char *blob, size_t n, const char *path, const char *cpath,
                    lua_CFunction open_core, sc_host_watch_t *watch, lsc_host_t **out,
                    sc_error_t *err);
/* The same, but the root table is what a chunk of Lua source returns. For specs and tools. */
int lsc_host_create_from_source(const char *source, size_t n, const char *path, const char *cpath,
                                lua_CFunction open_core, lsc_host_t **out, sc_error_t *err);
void lsc_host_destroy(lsc_host_t *host); /* NULL is fine */
/* From now on math.random of each new host gives what `seed`, and how many hosts were made since,
 * decide. For simulations: in a process of their own with one thread. */
void lsc_host_seed_random(uint64_t seed);
/* What the host's thread runs, and whether it should. */
lsc_interrupt_t *lsc_host_interrupt(lsc_host_t *host);

/* Where the host keeps the operator whose function runs now, or NULL: noted by who calls one. */
struct lsc_op **lsc_host_current(lsc_host_t *host);

/* What slot_luv.h keeps in the host. */
struct lsc_slot_luv *lsc_host_luv(const lsc_host_t *host);

/* The main thread of the state: coroutines are resumed from it. */
lua_State *lsc_host_state(lsc_host_t *host);
/* Whether L is a thread of some host's state, so that it runs a job's functions, not the script. */
bool lsc_host_is(lua_State *L);
/* Push root.operators[index] on L, a thread of the host. May raise: call it under lsc_protect. */
void lsc_host_push_spec(lsc_host_t *host, lua_State *L, int index);

/* Call f(arg as light userdata) on L, which must not be running, and leave nresults values there.
 * On failure nothing is left, and err says what was raised. */
int lsc_protect(lua_State *L, lua_CFunction f, void *arg, int nresults, sc_error_t *err);

/* A message handler for lua_pcall: the error as text, with the traceback. */
int lsc_host_traceback(lua_State *L);

/* The same where f runs users' code: err gets the traceback, too. */
int lsc_protect_traced(lua_State *L, lua_CFunction f, void *arg, int nresults, sc_error_t *err);

/* Push `name` as a Lua string on any thread of the host. Each name is made once and kept, so that
 * looking up a field of a record neither allocates nor raises: meant for a graph's few names. */
int lsc_host_push_name(lsc_host_t *host, lua_State *L, sc_bytes_t name, sc_error_t *err);

#endif
