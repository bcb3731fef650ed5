/*
 * signals: the user's thread waits in C, and Ctrl-C still raises in the script.
 *
 * A handler of signals, such as that of the standard interpreter, cannot raise by itself: it sets a
 * hook in the main thread of the state, which fires with the next instruction there. So whoever
 * waits runs one before and after, also where a coroutine waits. Signals are blocked from the look
 * for one that has come until the wait (ppoll with `before`), in which alone they end it: one that
 * comes between the two would not be seen before the next news.
 *
 *   bool calm = lsc_signals_block(L, &before);
 *   if (calm) wait with the signal mask `before`;
 *   if (!lsc_signals_unblock(L, &before, calm)) { clean up; lua_error(L); }
 *
 * Threads: the user's. Failure: where a signal raised, what it raised lies on top of L. Raises by
 * itself only where there is no memory, and then before anything is blocked.
 */
#ifndef LSC_SIGNALS_H
#define LSC_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

#include <lua.h>

/* False: a signal has raised; do not wait. */
bool lsc_signals_block(lua_State *L, sigset_t *before);
/* False: a signal has raised, now or (calm is false) before. */
bool lsc_signals_unblock(lua_State *L, const sigset_t *before, bool calm);

#endif
