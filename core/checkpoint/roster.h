/*
 * roster: the tasks of the running attempt, as far as checkpoints care.
 *
 *   RUNNING --sc_roster_end--> ENDED --sc_roster_finish--> FINISHED
 *   any --sc_roster_restart--> RUNNING
 *
 * A task that has ended has handed end of input on; one that is FINISHED was told that it may leave
 * and is neither triggered nor waited for. Once a completed checkpoint holds a snapshot that a task
 * took after its end, that snapshot is the task's *final* one: every later checkpoint lists a copy.
 *
 * Triggered are all tasks that no unfinished task feeds: the barriers of the others come through
 * their channels.
 *
 * Threads: one (the coordinator's). Ownership: init/fini, embedded; copies the topology, owns the
 * final snapshots.
 */
#ifndef SC_CHECKPOINT_ROSTER_H
#define SC_CHECKPOINT_ROSTER_H

#include "../snapshot/handle.h"

/* What the coordinator must know of the running graph. Arrays are copied. */
typedef struct sc_topology {
  uint32_t n_tasks;               /* tasks are numbered from 0 */
  const uint32_t *const *senders; /* senders[i]: tasks that feed task i */
  const uint32_t *n_senders;      /* n_senders[i]: how many */
} sc_topology_t;

typedef struct sc_roster_task {
  sc_task_end_t life;         /* RUNNING, ENDED, FINISHED */
  bool asked;                 /* it asks to leave and has no answer yet */
  uint32_t n_senders;         /* tasks that feed it */
  uint32_t *senders;          /* their numbers */
  sc_task_snapshot_t *final;  /* its final snapshot, says FINISHED; NULL until there is one */
} sc_roster_task_t;

typedef struct sc_roster {
  uint32_t n_tasks;        /* 0 before the first attempt */
  uint32_t n_unended;      /* tasks that are still RUNNING */
  uint32_t n_unfinished;   /* tasks that are not FINISHED */
  sc_roster_task_t *tasks; /* n_tasks */
} sc_roster_t;

void sc_roster_init(sc_roster_t *r); /* no tasks */
void sc_roster_fini(sc_roster_t *r);
/* A new attempt: all tasks RUNNING, no final snapshots. */
void sc_roster_reset(sc_roster_t *r, const sc_topology_t *t);
/* The task alone runs anew, from a checkpoint: RUNNING, and without a final snapshot. */
void sc_roster_restart(sc_roster_t *r, uint32_t task);

void sc_roster_end(sc_roster_t *r, uint32_t task);    /* RUNNING -> ENDED; else nothing */
void sc_roster_finish(sc_roster_t *r, uint32_t task); /* -> FINISHED */
/* Keep what a completed checkpoint lists of a task, as its final snapshot; takes ownership. */
void sc_roster_keep_final(sc_roster_t *r, uint32_t task, sc_task_snapshot_t *snap);

/* May a checkpoint be taken? False where no task is left to take it, or where one has left without
 * a final snapshot, whose state a checkpoint would lose. */
bool sc_roster_ready(const sc_roster_t *r);
/* Every task has ended, and one that has not left still lacks its final snapshot. */
bool sc_roster_wants_final(const sc_roster_t *r);
/* The tasks to trigger, in order; writes at most n_tasks numbers and returns how many. */
uint32_t sc_roster_to_trigger(const sc_roster_t *r, uint32_t *tasks);

#endif
