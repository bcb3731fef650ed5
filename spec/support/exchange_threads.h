/*
 * exchange_threads: real threads on the two ends of channels, for the probe. Test only.
 *
 * Lua calls channel_hammer{senders, total, every, exclusive, floating, segment, seed, leave_after}
 * and gets: a fault or nil, records, snapshots, floating units left at the end, times that anyone
 * slept. Each sender is a thread that sends `total` numbered records through an output of its own,
 * with a barrier after each `every`; the caller's thread is the receiver, which leaves after
 * `leave_after` records (0: never). The receiver checks that no record is lost, doubled or
 * overtaken and that snapshots are at the barriers.
 */
#ifndef SC_SPEC_EXCHANGE_THREADS_H
#define SC_SPEC_EXCHANGE_THREADS_H

#include "probe.h"

int probe_channel_hammer(lua_State *L);
/* cut_hammer{senders, total, checkpoints, exclusive, segment, seed}: fault or nil, records,
 * checkpoints that were complete and compared, starts that overtook, records that were kept. */
int probe_cut_hammer(lua_State *L);

#endif
