/*
 * restart: does a job that failed begin again, and after which delay?
 *
 * Strategies: `none`, and `fixed_delay` (so many attempts in the job's life, each after the same
 * delay). A strategy is asked once for every failure and keeps whatever it must remember, so that
 * others, which judge by when failures came, can join without a change here.
 *
 * Pure: time is an argument. Threads: one (the coordinator's). Ownership: create/destroy.
 */
#ifndef SC_RUNTIME_RESTART_H
#define SC_RUNTIME_RESTART_H

#include <stdbool.h>
#include <stdint.h>

#include "../base/error.h"

typedef enum { SC_RESTART_NONE, SC_RESTART_FIXED_DELAY } sc_restart_kind_t;

#define SC_RESTART_UNLIMITED (-1)

typedef struct sc_restart_config {
  sc_restart_kind_t kind;
  int64_t attempts; /* FIXED_DELAY: restarts allowed; < 0: unlimited (default) */
  int64_t delay_ms; /* FIXED_DELAY: 1,000 by default */
} sc_restart_config_t;

/* The defaults of a strategy by its name ("none", "fixed_delay"); SC_EUNSUPPORTED names those that
 * there are. */
int sc_restart_config(const char *name, sc_restart_config_t *out, sc_error_t *err);

typedef struct sc_restart sc_restart_t;

typedef struct sc_restart_decision {
  bool restart;     /* false: the job has failed for good */
  int64_t delay_ms; /* with restart: wait so long before the next attempt */
} sc_restart_decision_t;

/* SC_EINVAL where the delay is negative. */
int sc_restart_create(const sc_restart_config_t *config, sc_restart_t **out, sc_error_t *err);
void sc_restart_destroy(sc_restart_t *r); /* NULL is fine */
/* An attempt failed at now_ms (monotonic). */
sc_restart_decision_t sc_restart_failed(sc_restart_t *r, int64_t now_ms);
uint64_t sc_restart_count(const sc_restart_t *r); /* restarts granted so far */

#endif
