/*
 * coordinator_parts: what the files of the coordinator share (coordinator.h says what it is).
 * Internal to them.
 *
 *   coordinator        its life, and the events
 *   coordinator_next   what an event may set going: leavers, the next write, the next start
 *   coordinator_end    how a checkpoint ends, and what that says of the tasks
 */
#ifndef SC_CHECKPOINT_COORDINATOR_PARTS_H
#define SC_CHECKPOINT_COORDINATOR_PARTS_H

#include "coordinator.h"
#include "failures.h"
#include "ids.h"
#include "outbox.h"
#include "pending.h"
#include "retained.h"
#include "schedule.h"

#define SC_NOBODY UINT32_MAX

typedef struct sc_stop {
  enum { SC_STOP_NONE, SC_STOP_WANTED, SC_STOP_UNDER_WAY, SC_STOP_DONE } state;
  bool drain;
  uint64_t request; /* to answer; 0: it has its answer, or a pending checkpoint gives it */
} sc_stop_t;

struct sc_coordinator {
  sc_coordinator_config_t config;
  sc_schedule_t schedule;
  sc_failures_t failures;
  sc_ids_t ids;
  sc_roster_t roster;     /* of the attempt that runs, or ran last */
  sc_retained_t retained;
  sc_outbox_t outbox;
  sc_pending_t *pending;  /* by id, oldest first */
  bool running;           /* an attempt runs, the whole of it */
  bool alive;             /* some of its tasks do: they are told what completes */
  bool starved;           /* something could start but for a reserved id */
  bool recheck;           /* ids have come: the next tick is due at once */
  uint64_t attempt;       /* starts so far */
  uint64_t requests;      /* requests so far */
  uint32_t deleting;      /* DELETE actions without their sc_coordinator_deleted */
  int64_t now_ms, mono_ms;/* of the newest event */
  int64_t queued_since_ms;/* one could start but for another that is pending; INT64_MIN: none */
  int64_t final_after_ms; /* monotonic; a final checkpoint that failed is not tried before */
  int64_t final_pause_ms; /* after the next one that fails */
  int64_t final_timeout_ms; /* of the next one */
  bool forbidden_told;    /* that none is taken while only some tasks have ended */
  uint64_t final_id;      /* the final checkpoint of this attempt; 0: not completed yet */
  sc_stop_t stop;         /* of the job, by a user */
};

/* How a checkpoint or a request failed. */
typedef struct sc_failure {
  sc_reason_t reason;
  uint32_t task;    /* who caused it, or SC_NOBODY */
  const char *text; /* what that task said, or NULL */
} sc_failure_t;

static inline int64_t sc__after(int64_t at, int64_t by) {
  return at > INT64_MAX - by ? INT64_MAX : at + by;
}

/* coordinator.c */
sc_pending_t *sc__coordinator_find(const sc_coordinator_t *c, uint64_t id); /* or NULL */
/* Oldest in a state, or NULL. */
sc_pending_t *sc__coordinator_find_state(const sc_coordinator_t *c, sc_pending_state_t state);
/* A new action about a pending checkpoint. */
sc_outgoing_t *sc__coordinator_act(sc_coordinator_t *c, sc_action_kind_t kind,
                                   const sc_pending_t *p);
/* Answer a request (0: none): completed as id, or failed. */
void sc__coordinator_answer(sc_coordinator_t *c, uint64_t request, uint64_t id,
                            const sc_failure_t *why);
void sc__coordinator_count(sc_coordinator_t *c, sc_reason_t reason, uint64_t id);

/* coordinator_next.c */
/* May a checkpoint be taken of the tasks as they are now? */
bool sc__coordinator_ready(const sc_coordinator_t *c);
static inline bool sc__coordinator_draining(const sc_coordinator_t *c) {
  return c->stop.drain && c->stop.state == SC_STOP_UNDER_WAY;
}
/* Every task has ended, and the checkpoint that says so is still to come. */
bool sc__coordinator_lacks_final(const sc_coordinator_t *c);
/* What could start if there were an id. */
sc_start_t sc__coordinator_choose(sc_coordinator_t *c);
void sc__coordinator_refuse(sc_coordinator_t *c, sc_start_t kind, sc_reason_t reason);
void sc__coordinator_reserve(sc_coordinator_t *c);
/* The end of every event: whatever may go on, does. */
void sc__coordinator_advance(sc_coordinator_t *c);

/* coordinator_end.c */
void sc__coordinator_abort(sc_coordinator_t *c, sc_pending_t *p, const sc_failure_t *why);
void sc__coordinator_complete(sc_coordinator_t *c, sc_pending_t *p);
void sc__coordinator_delay_final(sc_coordinator_t *c, sc_reason_t reason);
/* Once a drain is done and nothing is pending that could take its checkpoint's place. */
void sc__coordinator_answer_stop(sc_coordinator_t *c);
/* A stop that is under way has failed: the job goes on. */
void sc__coordinator_stop_failed(sc_coordinator_t *c, const sc_failure_t *why);

#endif
