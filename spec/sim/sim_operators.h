/*
 * sim_operators: operators whose output does not depend on the order in which things happen, and
 * which notice at once when something happens that must not.
 *
 * A record is {k, l, s, t, v}: key, lane, number within the lane, kind (0 data, 1 result of a
 * window, 2 a processing-time timer that fired), value. (l, s, k) is unique at every place of the
 * graph: each operator mixes what is its own into the lane. Records of one lane and key that came
 * along keyed and forward edges only keep their order.
 *
 *   source  splits with offsets in list state; watermarks behind the least of what it still reads
 *   map     same, filter, flat, another key
 *   buffer  holds some records back in list state until a watermark, or enough of them
 *   share   behind a broadcast: of all its subtasks exactly one passes a record on
 *   keyed   counts in value state, remembers each record in map state, windows by event-time
 *           timers, and fires a processing-time timer for some
 *
 * What they notice: a record that is late, comes twice, comes to a foreign subtask or out of order,
 * a watermark that goes back, a timer too early or twice, a notice of a checkpoint that is not
 * safe, an operator that begins anew though nothing of its region has failed. Each call of an
 * operator may be told to fail.
 *
 * Threads: one. Ownership: sim_shared_t belongs to the run and outlives every simulated process.
 */
#ifndef SPEC_SIM_OPERATORS_H
#define SPEC_SIM_OPERATORS_H

#include "../../core/runtime/operator.h"
#include "sim_plan.h"
#include "sim_tally.h"

typedef struct sim_position {
  uint64_t attempt; /* in which it was told; 0: in none of this life */
  uint32_t seq;
} sim_position_t;

typedef struct sim_shared {
  sim_plan_t *plan;
  uint64_t calls;                            /* of operators, over the whole run */
  uint64_t emitted;                          /* records, by operators, likewise */
  bool calm;                                 /* nothing is told to fail any more */
  uint64_t first_attempt;                    /* of this life; 0: no operator was made yet */
  bool undeleted;                            /* in this life: a _metadata could not be deleted */
  bool all_may_restart;                      /* in this life: not only operators have failed */
  bool may_restart[SIM_NODES];               /* in this life: regions whose operators have failed */
  bool at_least_once;                        /* this life, or one before, was */
  bool loose;                                /* and something was restored from it: records may
                                                come again, late, and out of order */
  uint32_t life;                             /* this one */
  uint64_t moved_from;                       /* the first job's checkpoint that another one began
                                                from, and goes on since; 0: it is the first */
  uint32_t drained;                          /* lives whose user has asked for it: bits */
  bool finished_now;                         /* the life that has ended came to the job's end */
  uint64_t attempts[SIM_NODES];              /* in this life: the last of each node */
  sim_position_t read[SIM_NODES][SIM_SPLITS]; /* in this life: how far sources have read */
  sim_tally_t tally;                         /* what has happened */
  char failure[600];                         /* the first thing that must not be; empty: none */
  void *run;                                 /* the run's own */
  void (*tell)(void *run, const char *text); /* a line of the story */
  void (*completed)(void *run, uint64_t id); /* an operator was told that id completed */
} sim_shared_t;

void sim_wrong(sim_shared_t *shared, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What an operator type's `data` is. */
typedef struct sim_place {
  sim_shared_t *shared;
  const sim_node_t *node;
} sim_place_t;

typedef struct sim_record {
  int64_t k, l, s, t, v, ts;
} sim_record_t;

/* What source, window and timer make of a record: shared with the model, which has no engine. */
void sim_source_record(const sim_node_t *n, int64_t split, int64_t seq, sim_record_t *out);
uint32_t sim_map_record(const sim_node_t *n, const sim_record_t *in, sim_record_t out[2]);
sim_record_t sim_pass_record(const sim_node_t *n, const sim_record_t *in);
int64_t sim_window_end(const sim_node_t *n, const sim_record_t *in);
void sim_window_add(int64_t digest[2], const sim_record_t *in);
sim_record_t sim_window_record(const sim_node_t *n, int64_t key, int64_t end,
                               const int64_t digest[2]);
bool sim_has_pt(const sim_node_t *n, const sim_record_t *in);
sim_record_t sim_pt_record(const sim_node_t *n, const sim_record_t *in);
void sim_record_pack(const sim_record_t *r, sc_buf_t *out);
void sim_record_unpack(sc_bytes_t value, sim_record_t *out);

const sc_operator_type_t *sim_operator_type(const sim_node_t *n);

#endif
