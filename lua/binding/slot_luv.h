/*
 * slot_luv: the C half of luv in slots (lua/streamckpt/slot_luv.lua is the other).
 *
 * luv ends the process when a callback raises. In a slot, `require "luv"` is answered by a loader
 * that opens luv in the state's main thread, which luv goes on to use for its callbacks (it would
 * take the coroutine that asked first, and that may be gone by then), and wraps every callback: one
 * that raises fails the task whose function registered it.
 *
 * The slot's tasks and the loop share its thread: lsc_slot_luv_turn runs what is due, without
 * waiting, between two rounds of the tasks, and lsc_slot_luv_wait is how a slot sleeps whose script
 * has loaded luv. It waits in poll for the loop's own descriptor beside the slot's eventfd, and not
 * inside the loop: so nothing of the engine's is in the loop, where uv.walk would show it and
 * uv.run of a user's function would wait for it.
 *
 * Threads: the slot's. Failure: errors of callbacks are SC_EUSER of that task. Where no operator
 * registered it (a module did, when it was loaded), the task fails whose function runs the loop,
 * or the turn.
 */
#ifndef LSC_SLOT_LUV_H
#define LSC_SLOT_LUV_H

#include "../../core/base/error.h"
#include "host.h"

typedef struct lsc_slot_luv {
  int turn;        /* registry reference of what runs what is due; 0: luv is not loaded */
  int fd;          /* of the loop: readable when something of it is ready */
  bool alive;      /* something was in the loop after the last turn */
  int timeout_ms;  /* then: nothing is due for so long; negative: until fd is readable */
  bool closing;    /* the host is: no callback of the job's is called any more */
  bool orphan;     /* a callback that no operator registered has failed */
  uint64_t calls;  /* callbacks that were called so far */
} lsc_slot_luv_t;

/* Answer `require "luv"` in the host's state, which L is of. May raise. */
void lsc_slot_luv_open(lua_State *L, lsc_host_t *host);
/* For the runtime (sc_host_ops_t): has a function of the job loaded luv? */
bool lsc_slot_luv_loaded(const lsc_host_t *host);
/* 1 if a callback was called, 0 if none, negative where one failed that is no operator's. */
int lsc_slot_luv_turn(lsc_host_t *host, sc_error_t *err);
void lsc_slot_luv_wait(lsc_host_t *host, int fd, int64_t timeout_ns);
/* Before the state is closed: luv reaches into it, and crashes, for a handle that is still about to
 * close when the state is gone. */
void lsc_slot_luv_close(lsc_host_t *host);

#endif
