/*
 * restart: does a job that failed begin again, and after which delay?
 *
 *   none               never
 *   fixed_delay        so many restarts in the job's life, each after the same delay
 *   failure_rate       unless more than max_failures came within interval
 *   exponential_delay  the delay grows by a factor up to a maximum, with jitter; back to the first
 *                      one after a long healthy run
 *
 * Rules and sequences are the reference's (Apache Flink's restart back-off strategies, section
 * 19.1), but for two things. The delay is computed in reals and cut to whole milliseconds once
 * (cutting at every step would let the sequence drift). And only time in which the job really ran
 * counts as healthy: time spent waiting and restoring does not bring the first delay back (scenario
 * 281), so the job says when it runs (sc_restart_running).
 *
 * It is the job's: where several regions fail, one after the other, each failure counts.
 *
 * Pure: time and chance are arguments. Threads: one (the coordinator's). Ownership: create/destroy.
 */
#ifndef SC_RUNTIME_RESTART_H
#define SC_RUNTIME_RESTART_H

#include <stdbool.h>
#include <stdint.h>

#include "../base/error.h"

typedef enum {
  SC_RESTART_NONE,
  SC_RESTART_FIXED_DELAY,
  SC_RESTART_FAILURE_RATE,
  SC_RESTART_EXPONENTIAL_DELAY
} sc_restart_kind_t;

#define SC_RESTART_UNLIMITED (-1)

typedef struct sc_restart_config {
  sc_restart_kind_t kind;
  int64_t attempts;           /* FIXED_DELAY: restarts in all; EXPONENTIAL_DELAY: since the delay
                                 was last the first one; < 0: unlimited (default) */
  int64_t delay_ms;           /* FIXED_DELAY, FAILURE_RATE: 1,000 by default */
  int64_t max_failures;       /* FAILURE_RATE: restarts allowed within interval_ms; 1 by default */
  int64_t interval_ms;        /* FAILURE_RATE: 60,000 by default */
  int64_t initial_backoff_ms; /* EXPONENTIAL_DELAY: 1,000 by default */
  int64_t max_backoff_ms;     /* 60,000 by default */
  double multiplier;          /* > 1; 1.5 by default */
  double jitter;              /* 0..1, of the delay before it is capped; 0.1 by default */
  int64_t reset_threshold_ms; /* healthy time that brings the first delay back; 1 h by default */
} sc_restart_config_t;

/* The defaults of a strategy by its name; SC_EUNSUPPORTED names those that there are. */
int sc_restart_config(const char *name, sc_restart_config_t *out, sc_error_t *err);

typedef struct sc_restart sc_restart_t;

typedef struct sc_restart_decision {
  bool restart;     /* false: the job has failed for good */
  int64_t delay_ms; /* with restart: wait so long before the next attempt */
} sc_restart_decision_t;

/* SC_EINVAL names the number that makes no sense. */
int sc_restart_create(const sc_restart_config_t *config, sc_restart_t **out, sc_error_t *err);
void sc_restart_destroy(sc_restart_t *r); /* NULL is fine */
/* Every task of the job runs since now_ms (monotonic). */
void sc_restart_running(sc_restart_t *r, int64_t now_ms);
/* A region failed at now_ms, or several by one cause (regions.h); `uniform` is a random number in
 * [0, 1), for jitter. */
sc_restart_decision_t sc_restart_failed(sc_restart_t *r, int64_t now_ms, double uniform);
uint64_t sc_restart_count(const sc_restart_t *r); /* restarts granted so far */

#endif
