/*
 * context: `ctx`, what a user's function asks its operator for, and the handles in it.
 *
 *   ctx.key             the current key; an error outside of one
 *   ctx.timestamp       ms of the record, or of the timer that fired; nil if it has none
 *   ctx.watermark       current watermark, ms; math.mininteger before the first
 *   ctx.state.NAME      handles (state_handle.c); ctx.timers (timer_handle.c)
 *   ctx:emit(v [, ts])  to the main output; ctx:side(name, v [, ts]) to a side output
 *   ctx:now()           wall clock, ms
 *   ctx.subtask         from 0; ctx.parallelism, ctx.name, ctx.uid
 *
 * ctx and handles are plain tables of closures over the operator's box, so a call costs no look-up
 * in the registry. They are refused while their operator's own function does not run (kept in a
 * global and used by another operator, say), and once it is gone.
 *
 * Threads: the slot's. Failure: everything here raises Lua errors at the caller's line, and is only
 * called under a resume or a protected call.
 */
#ifndef LSC_CONTEXT_H
#define LSC_CONTEXT_H

#include "runner.h"

/* Push ctx. The box's userdata is at index `box`; the outputs' names come from the options. */
void lsc__context_push(lsc_op_t *op, lua_State *L, int box, sc_bytes_t options);
/* Push the table of state handles, and of timer methods. */
void lsc__states_push(lsc_op_t *op, lua_State *L, int box);
void lsc__timers_push(lsc_op_t *op, lua_State *L, int box);
/* Read spec.state (the spec is at the top of L): names and kinds into op->states. */
void lsc__states_read(lsc_op_t *op, lua_State *L);
/* Declare them in the operator's window. */
int lsc__states_declare(lsc_op_t *op, sc_error_t *err);
/* End the iterations that are still open. */
void lsc__cursors_end(lsc_op_t *op);

/* Upvalue 1 of a method is the box, upvalue 2 the table it was taken from. */
lsc_op_t *lsc__method_op(lua_State *L, const char *usage);
/* Further: inside a keyed call, with nothing else of the operator at work. */
lsc_op_t *lsc__keyed_op(lua_State *L, const char *usage);
/* Set a method in the table at the top: a closure over box, table, and n more values, popped. */
void lsc__method(lua_State *L, const char *name, lua_CFunction f, int box, int table, int n);
/* Give the table at the top a __name, a __tostring that says it, and refuse new fields. */
void lsc__seal(lua_State *L, const char *name, lua_CFunction index, int box);
/* A time argument: an integer, or a float, floored. */
int64_t lsc__check_time(lua_State *L, int arg, const char *what);
/* Raise op->error, at the caller's line; or op->fail, which fails the task whoever catches it. */
int lsc__raise(lua_State *L, lsc_op_t *op);
int lsc__raise_fail(lua_State *L, lsc_op_t *op);

#endif
