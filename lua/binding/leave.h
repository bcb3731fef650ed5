/*
 * leave: one thread at a time ends the process or takes the engine down.
 *
 * A user's function may call os.exit in a slot. The engine's shutdown, which hangs on exit, would
 * wait for that very slot; and two threads must not run exit at once. So the slot's os.exit leaves
 * like a crash of the job (its last checkpoint is what counts), with the status that was asked for;
 * where the engine goes down already it raises instead, and a shutdown or another slot's os.exit
 * that comes after it waits for the process to end.
 *
 * Threads: any.
 */
#ifndef LSC_LEAVE_H
#define LSC_LEAVE_H

#include <stdbool.h>

#include <lua.h>

/* Around a shutdown. False: a slot's os.exit runs on this thread, and there is nothing to do. */
bool lsc_leave_begin(void);
void lsc_leave_end(void);

/* Replace os.exit of a slot's state. */
void lsc_leave_open(lua_State *L);

#endif
