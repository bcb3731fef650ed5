/*
 * count_work: keyed count through one hash exchange, as native operators, for the benchmarks.
 *
 * Event i of N has a key out of K (uniform, or about as 1 / rank), an amount, and `pad` bytes; the
 * counter of a key is (count, sum); the sink adds up n, total and check, which depend neither on
 * order nor on parallelism, so that engines can be compared by them:
 *
 *   mix(x)    splitmix64's output function
 *   key       mix(index + 1), index = mix(i) mod K, or floor(exp(u ln(K + 1))) - 1 for skewed keys
 *   amount    mix(i ^ 0xABCDEF) & 0xFFFF;   timestamp   i / 1000
 *   check     sum of mix(key + count)
 *
 * Threads: a work is shared by all subtasks: parameters are read only, sums are added under a lock
 * when a sink is destroyed. Ownership: the caller's, and it outlives the job.
 */
#ifndef SC_BENCH_COUNT_WORK_H
#define SC_BENCH_COUNT_WORK_H

#include <pthread.h>

#include "../../core/runtime/graph.h"

typedef struct sc_count_sums { uint64_t n, total, check; } sc_count_sums_t;

typedef struct sc_count_work {
  uint64_t events, keys, pad;
  bool zipf;
  pthread_mutex_t lock;     /* guards what follows */
  bool begun;               /* an event has been made */
  double begin_s, cpu_s;    /* when: monotonic clock, CPU time of the process */
  double made_s, made_cpu_s; /* the same when the last event has been made */
  double slots_s, made_slots_s; /* CPU time of the threads of slots, at both times */
  sc_count_sums_t sums;     /* of the sinks that are gone */
  uint64_t usage_entries, usage_bytes; /* of the counters when their operators were destroyed */
} sc_count_work_t;

double sc_count_now(void);  /* seconds, monotonic */
double sc_count_cpu(void);  /* seconds of all threads, user and system */
double sc_count_slots_cpu(void); /* seconds of those that are named as slots */

/* The data of their nodes is the work. */
extern const sc_operator_type_t sc_count_source_type;  /* events, each with its key */
extern const sc_operator_type_t sc_count_type;         /* (count, sum) by key; emits each change */
extern const sc_operator_type_t sc_count_sink_type;    /* n, total, check */

/* The same without any engine: one loop, one table, on this thread. */
sc_count_sums_t sc_count_plain(const sc_count_work_t *w);

#endif
