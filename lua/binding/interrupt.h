/*
 * interrupt: ends a user's function that runs on after its job was canceled, from outside.
 *
 * A slot's thread has SIGURG unblocked (all other engine threads block everything). The handler
 * does one thing, which Lua allows in a handler: it sets a hook in the Lua thread that runs there.
 * The hook raises if the attempt was canceled, and takes itself away if not. Which Lua thread runs
 * is noted by whoever resumes one: the runner, and the slot's own coroutine.resume and wrap
 * (lsc_interrupt_watch_coroutines), since a hook does not reach coroutines made before it. Who
 * sends the signal: the world's `interrupt`, told by the job (core/runtime/job.c), again and again
 * until the slot is down, so that a pcall around the error helps nobody. A function that hangs in C
 * cannot be ended; its system call returns early, that is all.
 *
 * SC_SIGNAL_SAMPLE goes the same way, but for its system calls, which go on: where somebody has
 * asked (sc_host_watch_t), the hook says in which function and line this thread is. A call of C
 * does so only when it has returned.
 *
 * Threads: everything on the slot's thread. Ownership: embedded in the host; enter ... leave.
 */
#ifndef LSC_INTERRUPT_H
#define LSC_INTERRUPT_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <lua.h>

#include "../../core/runtime/host_watch.h"

typedef struct lsc_interrupt {
  sc_host_watch_t *watch;      /* the slot's; NULL: nobody looks */
  lua_State *volatile running; /* the Lua thread that runs now, or NULL */
  volatile sig_atomic_t asked; /* a signal has come */
  char *home;                  /* "@" and the folder of the engine's own Lua files, or NULL */
} lsc_interrupt_t;

/* What the hook raises. */
#define LSC_INTERRUPTED "the job was canceled while this function was running"

void lsc_interrupt_enter(lsc_interrupt_t *i, sc_host_watch_t *watch);
void lsc_interrupt_leave(lsc_interrupt_t *i);

/* The function on top of the stack stands in one of the engine's own Lua files: where those of the
 * same folder call for a user's function, that one is the place that is told. */
void lsc_interrupt_note_home(lua_State *L);

/* Around every resume and protected call: L begins to run; the one that ran before is returned,
 * to be marked again afterwards. Does nothing on threads that are no slot's. */
lua_State *lsc_interrupt_mark(lua_State *L);

/* Whether what runs on this thread is to end: for a library that calls back now and then, and in
 * whose C code the hook, which waits for the thread that called it, does not fire. */
bool lsc_interrupt_asked(void);

/* Replace coroutine.resume and coroutine.wrap of this state by ones that note what runs. They
 * behave like Lua's. */
void lsc_interrupt_watch_coroutines(lua_State *L);

#endif
