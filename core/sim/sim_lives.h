/*
 * sim_lives: a job of anybody's in a simulated world, from its first start to its end, through
 * everything that goes wrong on the way.
 *
 * A *life* is one process: a world, an engine, the job. A life ends when the job does, or in the
 * middle of it; then somebody starts the job again with from = "latest", as often as it takes. What
 * goes wrong, and when, are *events*, told before; when all have happened, or after `lives_max`
 * lives, nothing goes wrong any more.
 *
 *   (begin) -> life 0 -> crashed, cancelled, or failed by what we did -> life 1 -> ... -> finished
 *                 '-> failed by itself, or never ends -> WRONG
 *
 * Threads: one. Ownership: create/destroy. A process that crashed leaves behind what it had
 * allocated (sim_world.h), and the jobs are kept until destroy, since what a dead one had shown is
 * asked for later: meant for a process that ends soon.
 */
#ifndef SC_SIM_SIM_LIVES_H
#define SC_SIM_SIM_LIVES_H

#include "../runtime/job.h"
#include "sim_storage.h"
#include "sim_taps.h"
#include "sim_world.h"

#define SC_SIM_EVENTS_MAX 16

typedef enum {
  SC_SIM_DIES_AT_TURN, /* the process, at a turn of the scheduler */
  SC_SIM_DIES_AT_CALL, /* the process, at a call of an operator */
  SC_SIM_DIES_AT_OP,   /* the process, at an operation of the storage */
  SC_SIM_TASK_FAILS,   /* at a call of an operator */
  SC_SIM_STORAGE_FAILS,
  SC_SIM_CANCELS       /* the user cancels the job, and starts it again */
} sc_sim_event_kind_t;

typedef struct sc_sim_event {
  sc_sim_event_kind_t kind;
  uint64_t at;    /* turn, call, or operation, counted from 1 over all lives */
  uint32_t mask;  /* of operations: DIES_AT_OP, STORAGE_FAILS */
  uint32_t times; /* STORAGE_FAILS */
  int code;       /* STORAGE_FAILS */
  bool power;     /* of a death: what was not synced is lost */
  bool done;      /* it has happened */
} sc_sim_event_t;

typedef struct sc_sim_lives_config {
  uint64_t seed;
  int64_t look_ns, latency_ns;        /* sim_world.h, sim_storage.h */
  int64_t pace_ns;                    /* a record of a source takes so much, on average */
  int64_t slow_ns;                    /* a call of another operator takes so much, on average */
  uint32_t stall_one_in;              /* records: takes up to stall_ns instead; 0: never */
  int64_t stall_ns;
  uint32_t pool_threads, jump_one_in; /* sim_world.h */
  uint32_t lives_max;
  uint64_t turns_max; /* of a life; then the process is killed, and one without events is WRONG */
  uint64_t steps_max; /* calls of operators, questions to sources, over all lives; more: WRONG */
  sc_sim_event_t events[SC_SIM_EVENTS_MAX];
  uint32_t n_events;
  /* The graph, finished, and the options for the n-th life, from 0. Strings in the options live
   * until the next call. `from` is set afterwards. 0, or a code. */
  int (*begin)(void *arg, uint32_t life, sc_graph_t **graph, sc_job_options_t *options,
               sc_error_t *err);
  void (*given)(void *arg, uint32_t node, const sc_bytes_t *key, sc_bytes_t value); /* sim_taps.h */
  void *arg;
} sc_sim_lives_config_t;

typedef struct sc_sim_lives_result {
  bool finished;         /* else `error` says what went wrong that nobody had told to */
  uint32_t lives, crashes, task_failures, storage_failures, cancels;
  uint32_t restores;     /* starts and restarts from a checkpoint */
  uint64_t checkpoints;  /* completed */
  uint64_t turns, calls, steps, ops;
  uint64_t records;      /* that sources gave */
  int64_t time_ns;       /* virtual, from the first start to the end */
  sc_error_t error;      /* its message is the whole text */
} sc_sim_lives_result_t;

typedef struct sc_sim_lives sc_sim_lives_t;

/* The storage is borrowed, and outlives the lives. */
sc_sim_lives_t *sc_sim_lives_create(const sc_sim_lives_config_t *config, sc_storage_t *storage);
void sc_sim_lives_destroy(sc_sim_lives_t *l);
/* Once. The result is the lives'. */
const sc_sim_lives_result_t *sc_sim_lives_run(sc_sim_lives_t *l);
/* What happened, a line an event: virtual ms, then text. */
sc_bytes_t sc_sim_lives_story(const sc_sim_lives_t *l);
/* The rows of a collect that its users have seen, or would have if their process had lived, over
 * all lives: msgpack values, one after another. */
int sc_sim_lives_rows(sc_sim_lives_t *l, const char *uid, sc_buf_t *out, sc_error_t *err);

#endif
