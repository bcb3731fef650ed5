/*
 * simulate: core.simulate(spec) -> result | nil, message, code: a simulated run in a process of its
 * own, a fork of this one.
 *
 * A process that is simulated to die leaves behind all that it had (core/sim/sim_world.h), and
 * users' functions may loop, call os.exit, or crash in a library of theirs: so none of that happens
 * here. The child reads the spec where it lies (simulate_run.h), has standard output thrown away
 * and standard error told to its parent, and ends without running anything of the script's. It dies
 * with its parent.
 *
 * Threads: the user's; engine threads may run (the child has none of them, and asks for none).
 * Ctrl-C raises as in any wait, and ends the child. Failure: SC_EINTERNAL where the child dies by
 * itself, with how and with what it said on standard error last.
 */
#ifndef LSC_SIMULATE_H
#define LSC_SIMULATE_H

#include <lua.h>

int lsc_simulate(lua_State *L, lua_CFunction open_core);

#endif
