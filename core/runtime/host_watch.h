/*
 * host_watch: how a slot's host (the binding's Lua state) hears that it is looked at from outside.
 *
 * The coordinator sets `asked` and signals the slot's thread (sc_world_sample); the host, as soon
 * as user code that runs there can be looked at, lowers the flag and says where it is.
 *
 * Threads: canceled and asked from any; seen on the slot's. Ownership: the slot's, and outlives the
 * host.
 */
#ifndef SC_RUNTIME_HOST_WATCH_H
#define SC_RUNTIME_HOST_WATCH_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Unlike SIGURG, which ends what a canceled job does, system calls go on behind it (but sleeps and
 * polls, which no signal leaves alone: EINTR). It is blocked in all threads but where a host lets
 * it through. */
#define SC_SIGNAL_SAMPLE (SIGRTMIN + 5)

typedef struct sc_host_watch {
  const atomic_bool *canceled;  /* what runs is to end; NULL: never */
  atomic_bool asked;            /* where is it? */
  atomic_bool reached;          /* the signal was handled: the thread has had a processor since. The
                                   host sets it, in the handler */
  /* The answer, borrowed for the call. returned: from a call of C, which it may have been in since
   * it was asked. */
  void (*seen)(void *arg, const char *place, bool returned);
  void *arg;
} sc_host_watch_t;

#endif
