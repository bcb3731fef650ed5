/*
 * schedule: which checkpoint may start now, and when the next periodic one is due.
 *
 * Three kinds compete, in this order: manual requests (first come first served, at most `capacity`
 * waiting), the final one (whenever the coordinator says that it is wanted), the periodic one (one
 * at most is waiting: intervals missed while checkpoints were slow are not made up for). None
 * starts while one is being prepared, while `max_concurrent` are pending, or while more than
 * `max_concurrent` old ones are still being deleted. Only the periodic one heeds min_pause, which
 * runs from the last completion (and a pause after a failure, where the coordinator asks for one);
 * where it comes too early it is dropped and the timeline goes on from the end of the pause.
 *
 * The timeline is planned: the next is one interval after the last planned one, not after the last
 * start. An interval shorter than min_pause is taken as min_pause.
 *
 * Pure; times are monotonic ms. Threads: one. Ownership: init/fini, embedded.
 */
#ifndef SC_CHECKPOINT_SCHEDULE_H
#define SC_CHECKPOINT_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
  SC_START_NOTHING,
  SC_START_MANUAL,
  SC_START_FINAL,
  SC_START_PERIODIC,
  SC_START_STOP     /* the coordinator's own: never chosen here */
} sc_start_t;

/* What the coordinator has in hand when it asks. */
typedef struct sc_schedule_load {
  uint32_t pending;   /* checkpoints that are not yet completed or aborted */
  uint32_t deleting;  /* completed ones whose deletion is under way */
  bool preparing;     /* one has its id but is not triggered yet */
  bool final_wanted;  /* a final checkpoint is due */
} sc_schedule_load_t;

typedef struct sc_schedule {
  int64_t interval_ms;     /* 0: no periodic ones */
  int64_t min_pause_ms;    /* between a completion and a periodic start */
  uint32_t max_concurrent; /* at least 1 */
  size_t capacity;         /* manual requests that may wait */
  bool running;            /* the job runs: the timeline goes on */
  bool periodic_waiting;   /* a periodic one is due and has not started */
  int64_t next_ms;         /* next planned periodic one */
  int64_t earliest_ms;     /* end of the pause after the last completion */
  uint64_t *requests;      /* ring of manual requests */
  size_t first, count;     /* of the ring: oldest, and how many */
  size_t allocated;        /* entries of the ring */
} sc_schedule_t;

void sc_schedule_init(sc_schedule_t *s, int64_t interval_ms, int64_t min_pause_ms,
                      uint32_t max_concurrent, size_t capacity);
void sc_schedule_fini(sc_schedule_t *s);

/* The job runs from now on: the first periodic one comes one interval later. */
void sc_schedule_start(sc_schedule_t *s, int64_t mono_ms);
/* The job does not run any more. Manual requests stay, for the coordinator to take and answer. */
void sc_schedule_stop(sc_schedule_t *s);
/* Time has passed: a periodic one may have come due. */
void sc_schedule_tick(sc_schedule_t *s, int64_t mono_ms);
/* Next planned periodic one; INT64_MAX if none. */
int64_t sc_schedule_deadline(const sc_schedule_t *s);
/* A checkpoint completed: the pause begins. */
void sc_schedule_completed(sc_schedule_t *s, int64_t mono_ms);
/* A checkpoint failed: no periodic one for pause_ms, nor before the pause that runs is over. */
void sc_schedule_failed(sc_schedule_t *s, int64_t mono_ms, int64_t pause_ms);
/* False: too many are waiting. */
bool sc_schedule_request(sc_schedule_t *s, uint64_t request);

/* What may start now. It stays waiting until taken; a periodic one in the pause is dropped. */
sc_start_t sc_schedule_choose(sc_schedule_t *s, int64_t mono_ms, const sc_schedule_load_t *load);
/* Take what was chosen: a manual request's number, else 0. */
uint64_t sc_schedule_take(sc_schedule_t *s, sc_start_t kind);
/* Would one start now, were no other in its way? */
bool sc_schedule_wants(const sc_schedule_t *s, int64_t mono_ms);
static inline size_t sc_schedule_waiting(const sc_schedule_t *s) { return s->count; }

#endif
