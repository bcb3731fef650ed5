/*
 * pending: one checkpoint between its id and its end.
 *
 *   PREPARING --sc_pending_plan--> PENDING --last sc_pending_ack--> DECIDED
 *   DECIDED --(the coordinator hands it out to be written)--> WRITING
 *
 * The plan is made when the folder is there and the triggers go out: until then it waits for
 * nobody, so that tasks may still leave. From DECIDED on it holds a snapshot of every task:
 * acknowledged ones, and copies of the final ones of tasks that had left.
 *
 * Threads: one (the coordinator's). Ownership: create/destroy; owns its snapshots.
 */
#ifndef SC_CHECKPOINT_PENDING_H
#define SC_CHECKPOINT_PENDING_H

#include "roster.h"

typedef enum {
  SC_PENDING_PREPARING, /* its folder is being made */
  SC_PENDING_PENDING,   /* triggered; acknowledgements are missing */
  SC_PENDING_DECIDED,   /* all acknowledged; waits to be written */
  SC_PENDING_WRITING    /* its _metadata is being written */
} sc_pending_state_t;

typedef struct sc_pending sc_pending_t;
struct sc_pending {
  sc_pending_t *next;             /* the coordinator's list, by id */
  uint64_t id;                    /* never 0 */
  int64_t timestamp_ms;           /* wall clock when it was begun */
  int64_t waited_ms;              /* for another to end, before that */
  int64_t expires_ms;             /* monotonic; holds while PREPARING or PENDING */
  int64_t overtake_at_ms;         /* for its barriers, as in sc_barrier_t */
  uint64_t attempt;               /* of the coordinator's starts: which it belongs to */
  uint64_t request;               /* the manual request to answer; 0 if none */
  bool after_end;                 /* begun when every task had ended: will be final */
  bool stop;                      /* the job is suspended with it */
  sc_pending_state_t state;
  uint32_t n_tasks;               /* 0 while PREPARING */
  uint32_t n_missing;             /* acknowledgements that have not come */
  bool *waits;                    /* n_tasks: not acknowledged yet */
  bool *left;                     /* n_tasks: had finished when it was triggered */
  sc_task_snapshot_t **snapshots; /* n_tasks; NULL until acknowledged */
};

typedef enum {
  SC_ACK_STORED,     /* taken */
  SC_ACK_LAST,       /* taken, and none is missing now: DECIDED */
  SC_ACK_DUPLICATE,  /* this task had acknowledged: not taken, its files are those of the first */
  SC_ACK_UNKNOWN     /* not a task that it waits for: not taken */
} sc_ack_t;

sc_pending_t *sc_pending_create(uint64_t id, int64_t timestamp_ms, int64_t expires_ms);
void sc_pending_destroy(sc_pending_t *p); /* NULL is fine */
/* PREPARING -> PENDING: wait for all tasks that are not FINISHED. At least one is not. */
void sc_pending_plan(sc_pending_t *p, const sc_roster_t *roster);
bool sc_pending_waits_for(const sc_pending_t *p, uint32_t task);
/* PENDING: the first task that has not acknowledged; PREPARING: UINT32_MAX. */
uint32_t sc_pending_first_missing(const sc_pending_t *p);
/* Takes ownership of snap where the answer says "taken". */
sc_ack_t sc_pending_ack(sc_pending_t *p, sc_task_snapshot_t *snap);
/* DECIDED or later: does every snapshot say ENDED or FINISHED? */
bool sc_pending_is_final(const sc_pending_t *p);
/* Likewise: do some, but not all? */
bool sc_pending_is_mixed(const sc_pending_t *p);

#endif
