/*
 * slot_luv: the C half of luv in slots (lua/streamckpt/slot_luv.lua is the other).
 *
 * luv ends the process when a callback raises. In a slot, `require "luv"` is answered by a loader
 * that opens luv in the state's main thread, which luv goes on to use for its callbacks (it would
 * take the coroutine that asked first, and that may be gone by then), and wraps every callback: one
 * that raises fails the task whose function registered it.
 *
 * Threads: the slot's. Failure: errors of callbacks are SC_EUSER of that task. Where no operator
 * registered it (a module did, when it was loaded), the task fails whose function runs the loop.
 */
#ifndef LSC_SLOT_LUV_H
#define LSC_SLOT_LUV_H

#include "host.h"

/* Answer `require "luv"` in the host's state, which L is of. May raise. */
void lsc_slot_luv_open(lua_State *L, lsc_host_t *host);

#endif
