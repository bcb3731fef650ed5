/*
 * simulate_run: the user's graph through simulated lives (core/sim/sim_lives.h), and what came of
 * it as one msgpack map. What happens in the process of its own that simulate.h makes.
 *
 * The spec, a Lua table that lua/streamckpt/testing.lua makes:
 *   plans    array of plans as `start` takes them (plan.h), which differ in parallelism and slots
 *   lives    array of numbers of plans: of each start; the last one for all further ones
 *   seed, look_ns, latency_ns, pace_ns, slow_ns, stall_one_in, stall_ns, pool_threads,
 *   jump_one_in, lives_max, turns_max, steps_max  as in sim_lives.h
 *   events   array of {kind, at, mask, times, power, space (no space is left, else input or output
 *            fails)}; kinds: "turn" "call" "op" (the process dies there) "task" "storage" "cancel"
 *   files    array of paths: real files that may be read
 *   sinks    array of {node: its number in the plan, uid, kind = "collect" "file" "calls",
 *            lines (a file sink of strings as they are), dir}
 *   random   a seed for math.random in the slots
 *   keys     rows of sinks are told with their keys
 *
 * The result: finished, error, code, the counts of sim_lives.h, story, sinks = array of {rows =
 * array of JSON texts, keys = array of key, row, key, row ... as far as keys are known}, states =
 * array of {uid, state, key, map_key, value}, all JSON texts, of the last checkpoint.
 *
 * Threads: one, and no other in the process. Ownership: nothing is given back of what a crash left.
 */
#ifndef LSC_SIMULATE_RUN_H
#define LSC_SIMULATE_RUN_H

#include <lua.h>

#include "../../core/base/buf.h"

/* Append the result to out. The spec is at `index`; open_core as in plan.h. */
void lsc_simulate_run(lua_State *L, int index, lua_CFunction open_core, sc_buf_t *out);

#endif
