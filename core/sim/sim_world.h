/*
 * sim_world: a world in one thread (base/world.h says what a world is): virtual time, and a seeded
 * scheduler that runs any ready actor or pool work next.
 *
 * Actors and the pool's threads are *fibers*, each on a stack of its own. A fiber runs from one
 * yield to the next: an actor yields after each step, and every operation of the simulated storage
 * yields too (sc_sim_io), so that a slow write lets everything else go on. Nothing else yields:
 * between two yields a fiber is alone. Which of the ready fibers goes on is drawn by weights that
 * are themselves redrawn now and then, so that some runs have a slot, or a pool thread, that hardly
 * ever gets its turn. Users' functions run on these stacks, so they are as large as a thread's.
 *
 * Time is a number. It grows a little at every look at the clock and at every turn (how much is
 * drawn from the seed: where it is much, tasks use up their budget after a record or two), it jumps
 * to the next deadline when nobody is ready, and, if wanted, now and then though somebody is.
 *
 * The wall clock goes along with time, but it may be set, as a machine's clock is.
 *
 * A crash ends the simulated process where it is: the fiber that runs stops in the middle, no other
 * one runs again, and sc_sim_world_abandon forgets them all. What they had allocated is lost, as
 * it is in a process that dies; a simulation with crashes therefore belongs into a process of its
 * own that ends (spec/sim forks one for each seed).
 *
 * A fiber that held an ordinary mutex across a storage operation would block all others for ever,
 * since they are one thread: what is held there is an sc_io_lock_t, which yields (base/io_lock.h).
 *
 * Threads: one; all of it. Equal seeds, and equal programs, give equal runs.
 * Ownership: as any world it is destroyed through ops->destroy by the engine that took it over, or
 * abandoned after a crash. The storage is borrowed, since it outlives processes.
 */
#ifndef SC_SIM_SIM_WORLD_H
#define SC_SIM_SIM_WORLD_H

#include "../base/world.h"

typedef enum {
  SC_SIM_RAN,    /* one fiber had its turn */
  SC_SIM_STUCK,  /* nobody is ready, and no time will come that makes anybody so */
  SC_SIM_CRASHED /* the process is dead */
} sc_sim_turn_t;

typedef struct sc_sim_world_config {
  uint64_t seed;
  int64_t start_ns;       /* monotonic time at the beginning */
  uint32_t pool_threads;  /* >= 1 */
  int64_t look_ns;        /* a look at the clock takes up to so much; >= 1 */
  uint32_t jump_one_in;   /* turns: up to a minute passes though somebody is ready; 0: never */
  uint32_t clock_set_one_in; /* turns: the wall clock, and it alone, is set; 0: never */
  int64_t clock_set_ms;      /* by up to so much, to and fro */
  uint64_t crash_at_turn; /* the process dies before this turn, counted from 1; 0: never */
  void (*log_line)(void *arg, const char *line); /* the jobs' log; may be NULL */
  void *log_arg;
} sc_sim_world_config_t;

sc_world_t *sc_sim_world_create(const sc_sim_world_config_t *config, struct sc_storage *storage);
/* One turn of one fiber. Not from inside a fiber. */
sc_sim_turn_t sc_sim_turn(sc_world_t *w);
uint64_t sc_sim_turns(const sc_world_t *w); /* so far */
bool sc_sim_crashed(const sc_world_t *w);
void sc_sim_never_crash(sc_world_t *w); /* forgets crash_at_turn */
/* After a crash: frees the world and the fibers' stacks, and nothing of what ran on them. */
void sc_sim_world_abandon(sc_world_t *w);

/* ---- for the simulated storage and the program ---- */

/* An operation that takes `ns`: the fiber that called yields until then; outside of fibers (a job's
 * start on the caller's thread) time passes. */
void sc_sim_io(sc_world_t *w, int64_t ns);
/* The process dies here and now. From a fiber it does not return; from outside it does, and
 * whoever called sees that sc_sim_crashed. */
void sc_sim_crash(sc_world_t *w);
/* The fiber that runs cannot go on just now; another one has its turn. Aborts outside of fibers. */
void sc_sim_yield(void);
int64_t sc_sim_now_ns(const sc_world_t *w); /* a look that takes no time */

#endif
