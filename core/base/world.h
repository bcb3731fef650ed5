/*
 * world: everything the engine asks of its surroundings, as an argument.
 *
 * Clock, threads, the I/O pool, randomness, storage and log reach the runtime through one
 * sc_world_t. runtime/world_real.c is the real one (threads, monotonic clock, files); core/sim
 * has a simulated one (one thread, virtual time, seeded order). Nothing else in core/ asks the
 * operating system for these.
 *
 * An *actor* is one thread of control: in the real world a thread, under simulation an entry in
 * a scheduler. It owns its data; others reach it by mail (mailbox.h) and wake it. A *work* is a
 * piece for the I/O pool: it may block, owns nothing, and tells of its end by mail.
 *
 * Actor life:  created --spawn--> RUNNING (start; step, step, ...) --retire--> (stop) --> gone
 *
 * Threads: every function here may be called from any thread, except that retire must not be
 * called by the actor itself.
 */
#ifndef SC_BASE_WORLD_H
#define SC_BASE_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"

typedef struct sc_world sc_world_t;
typedef struct sc_actor sc_actor_t;
typedef struct sc_work sc_work_t;

/* What a step returns: when to step again, as a monotonic time in ns. */
#define SC_STEP_AGAIN 0           /* at once */
#define SC_STEP_ON_WAKE INT64_MAX /* only when somebody wakes it */

typedef struct sc_actor_ops {
  void (*start)(void *arg);   /* first call on the actor's own thread; may be NULL */
  int64_t (*step)(void *arg); /* one bounded step; returns a deadline as above */
  void (*stop)(void *arg);    /* last call on the actor's own thread; may be NULL */
  /* Does it wait by itself? Asked on its own thread before each sleep; NULL: never. It then sleeps
   * in `wait` and not on a condition: wait returns when `fd` (an eventfd, which the world makes now
   * and drains) becomes readable, when `deadline_ns` passes, or before. For slots whose script has
   * an event loop of its own; the others have no descriptor. */
  bool (*waits)(void *arg);
  void (*wait)(void *arg, int fd, int64_t deadline_ns);
} sc_actor_ops_t;

struct sc_actor {
  const sc_actor_ops_t *ops;
  void *arg;        /* handed to ops */
  const char *name; /* shown in thread lists and logs; at most 15 bytes are visible. Borrowed. */
  void *impl;       /* the world's */
};

struct sc_work {
  void (*run)(sc_work_t *work); /* on a pool thread; the work may free itself as its last act */
  sc_work_t *next;              /* the pool's */
};

typedef struct sc_world_ops {
  int64_t (*now_ms)(sc_world_t *w);     /* wall clock, ms since 1970; may jump */
  int64_t (*mono_ns)(sc_world_t *w);    /* monotonic clock, ns */
  uint64_t (*random)(sc_world_t *w);    /* 64 random bits; seeded under simulation */
  int (*spawn)(sc_world_t *w, sc_actor_t *actor, sc_error_t *err);
  /* Step it soon, at least once from now on. The actor has been spawned, and is not retired. */
  void (*wake)(sc_world_t *w, sc_actor_t *actor);
  /* No step begins after this; returns when the running one has ended and stop was called.
   * Waits at most wait_ms (<0: for ever). True if gone; false if it hangs: it is then left as it
   * is, and may be retired again. */
  bool (*retire)(sc_world_t *w, sc_actor_t *actor, int64_t wait_ms);
  /* The step that runs now takes too long: interrupt it (a signal to its thread). What it does with
   * that is the actor's. NULL: nothing can be interrupted. */
  void (*interrupt)(sc_world_t *w, sc_actor_t *actor);
  /* Have a look at what the step that runs now is in; system calls go on behind it. NULL: none. */
  void (*sample)(sc_world_t *w, sc_actor_t *actor);
  void (*submit)(sc_world_t *w, sc_work_t *work); /* to the I/O pool, in order of arrival */
  void (*pause)(sc_world_t *w, int64_t ms);       /* let that much time pass; not for actors */
  /* Where a job's log goes, line by line from any thread, instead of to stderr and a file. NULL:
   * the job opens its own. */
  void (*log_line)(sc_world_t *w, const char *line);
  void (*destroy)(sc_world_t *w);
} sc_world_ops_t;

struct sc_storage; /* snapshot/storage.h */
struct sc_log;     /* log.h */

struct sc_world {
  const sc_world_ops_t *ops;
  struct sc_storage *storage; /* where snapshots and sinks' files live */
  struct sc_storage *unsynced; /* the same files, nothing of which waits for the disk */
};

static inline int64_t sc_world_now_ms(sc_world_t *w) { return w->ops->now_ms(w); }
static inline int64_t sc_world_mono_ns(sc_world_t *w) { return w->ops->mono_ns(w); }
static inline uint64_t sc_world_random(sc_world_t *w) { return w->ops->random(w); }
static inline int sc_world_spawn(sc_world_t *w, sc_actor_t *a, sc_error_t *err) {
  return w->ops->spawn(w, a, err);
}
static inline void sc_world_wake(sc_world_t *w, sc_actor_t *a) { w->ops->wake(w, a); }
static inline bool sc_world_retire(sc_world_t *w, sc_actor_t *a, int64_t wait_ms) {
  return w->ops->retire(w, a, wait_ms);
}
static inline void sc_world_interrupt(sc_world_t *w, sc_actor_t *a) {
  if (w->ops->interrupt)
    w->ops->interrupt(w, a);
}
static inline void sc_world_sample(sc_world_t *w, sc_actor_t *a) {
  if (w->ops->sample)
    w->ops->sample(w, a);
}
static inline void sc_world_submit(sc_world_t *w, sc_work_t *work) { w->ops->submit(w, work); }

#endif
