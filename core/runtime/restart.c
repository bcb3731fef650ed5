#include "restart.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../base/mem.h"

#define NOT_RUNNING INT64_MIN

struct sc_restart {
  sc_restart_config_t config;
  uint64_t count;        /* restarts granted */
  int64_t running_since; /* of this attempt; NOT_RUNNING before it runs */
  int64_t *failures;     /* FAILURE_RATE: times of the newest ones, a ring of max_failures + 1 */
  uint64_t n_failures;   /* all of them */
  int64_t step;          /* EXPONENTIAL_DELAY: how often the delay has grown */
  int64_t next_ms;       /* EXPONENTIAL_DELAY: when the restart that was granted last is due */
};

static const struct { const char *name; sc_restart_config_t config; } strategies[] = {
    {"none", {.kind = SC_RESTART_NONE}},
    {"fixed_delay",
     {.kind = SC_RESTART_FIXED_DELAY, .attempts = SC_RESTART_UNLIMITED, .delay_ms = 1000}},
    {"failure_rate",
     {.kind = SC_RESTART_FAILURE_RATE, .attempts = SC_RESTART_UNLIMITED, .delay_ms = 1000,
      .max_failures = 1, .interval_ms = 60000}},
    {"exponential_delay",
     {.kind = SC_RESTART_EXPONENTIAL_DELAY, .attempts = SC_RESTART_UNLIMITED,
      .initial_backoff_ms = 1000, .max_backoff_ms = 60000, .multiplier = 1.5, .jitter = 0.1,
      .reset_threshold_ms = 3600000}},
};

int sc_restart_config(const char *name, sc_restart_config_t *out, sc_error_t *err) {
  for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++)
    if (strcmp(name, strategies[i].name) == 0) {
      *out = strategies[i].config;
      return 0;
    }
  return sc_fail(err, SC_EUNSUPPORTED,
                 "restart strategy \"%s\" is not known: use \"none\", \"fixed_delay\", "
                 "\"failure_rate\" or \"exponential_delay\"", name);
}

static int check(const sc_restart_config_t *c, sc_error_t *err) {
  bool delays = c->kind == SC_RESTART_FIXED_DELAY || c->kind == SC_RESTART_FAILURE_RATE;
  if (delays && c->delay_ms < 0)
    return sc_fail(err, SC_EINVAL, "the restart delay is %" PRId64 " ms; it must not be negative",
                   c->delay_ms);
  if (c->kind == SC_RESTART_FAILURE_RATE && (c->max_failures < 1 || c->interval_ms < 1))
    return sc_fail(err, SC_EINVAL,
                   "failure_rate needs at least 1 failure in at least 1 ms, not %" PRId64
                   " in %" PRId64 " ms",
                   c->max_failures, c->interval_ms);
  if (c->kind != SC_RESTART_EXPONENTIAL_DELAY)
    return 0;
  if (c->initial_backoff_ms < 1 || c->max_backoff_ms < c->initial_backoff_ms)
    return sc_fail(err, SC_EINVAL,
                   "exponential_delay needs 1 ms <= initial_backoff <= max_backoff, not %" PRId64
                   " and %" PRId64 " ms",
                   c->initial_backoff_ms, c->max_backoff_ms);
  if (!(c->multiplier > 1) || !(c->jitter >= 0 && c->jitter <= 1) || c->reset_threshold_ms < 1)
    return sc_fail(err, SC_EINVAL,
                   "exponential_delay needs a multiplier above 1 (%g), a jitter from 0 to 1 (%g) "
                   "and a reset_threshold of at least 1 ms (%" PRId64 ")",
                   c->multiplier, c->jitter, c->reset_threshold_ms);
  return 0;
}

int sc_restart_create(const sc_restart_config_t *config, sc_restart_t **out, sc_error_t *err) {
  int rc = check(config, err);
  if (rc < 0)
    return rc;
  sc_restart_t *r = sc_calloc(1, sizeof *r);
  r->config = *config;
  r->running_since = NOT_RUNNING;
  r->next_ms = INT64_MIN;
  if (config->kind == SC_RESTART_FAILURE_RATE)
    r->failures = sc_calloc((size_t)config->max_failures + 1, sizeof *r->failures);
  *out = r;
  return 0;
}

void sc_restart_destroy(sc_restart_t *r) {
  if (r)
    free(r->failures);
  free(r);
}

void sc_restart_running(sc_restart_t *r, int64_t now_ms) {
  r->running_since = now_ms;
}

static bool attempts_left(const sc_restart_config_t *c, uint64_t used) {
  return c->attempts < 0 || used < (uint64_t)c->attempts;
}

/* More than max_failures within the interval, this one included, is too many. */
static sc_restart_decision_t failure_rate(sc_restart_t *r, int64_t now_ms) {
  uint64_t size = (uint64_t)r->config.max_failures + 1;
  r->failures[r->n_failures++ % size] = now_ms;
  bool full = r->n_failures >= size;
  int64_t oldest =
      r->failures[r->n_failures % size]; /* once full: the one max_failures before this */
  return (sc_restart_decision_t){!full || now_ms - oldest > r->config.interval_ms,
                                 r->config.delay_ms};
}

/* initial * multiplier^step, moved by jitter, then capped. */
static int64_t backoff(const sc_restart_config_t *c, int64_t step, double uniform) {
  double exact = (double)c->initial_backoff_ms * pow(c->multiplier, (double)step);
  if (exact > 1e15)
    exact = 1e15; /* far beyond any cap; keeps the casts below defined */
  int64_t delay = (int64_t)exact, reach = (int64_t)((double)delay * c->jitter);
  delay += (int64_t)floor(uniform * (2.0 * (double)reach + 1.0)) - reach;
  if (delay > c->max_backoff_ms)
    delay = c->max_backoff_ms;
  return delay < c->initial_backoff_ms ? c->initial_backoff_ms : delay;
}

static sc_restart_decision_t exponential(sc_restart_t *r, int64_t now_ms, double uniform) {
  const sc_restart_config_t *c = &r->config;
  if (now_ms <= r->next_ms) /* another failure of what is to be restarted anyway */
    return (sc_restart_decision_t){true, r->next_ms - now_ms};
  if (r->running_since != NOT_RUNNING && now_ms - r->running_since >= c->reset_threshold_ms)
    r->step = 0;
  if (!attempts_left(c, (uint64_t)r->step))
    return (sc_restart_decision_t){false, 0};
  int64_t delay = backoff(c, r->step++, uniform);
  r->next_ms = now_ms + delay;
  return (sc_restart_decision_t){true, delay};
}

static sc_restart_decision_t decide(sc_restart_t *r, int64_t now_ms, double uniform) {
  switch (r->config.kind) {
    case SC_RESTART_FIXED_DELAY:
      return (sc_restart_decision_t){attempts_left(&r->config, r->count), r->config.delay_ms};
    case SC_RESTART_FAILURE_RATE: return failure_rate(r, now_ms);
    case SC_RESTART_EXPONENTIAL_DELAY: return exponential(r, now_ms, uniform);
    default: return (sc_restart_decision_t){false, 0};
  }
}

sc_restart_decision_t sc_restart_failed(sc_restart_t *r, int64_t now_ms, double uniform) {
  sc_restart_decision_t d = decide(r, now_ms, uniform);
  r->running_since = NOT_RUNNING;
  r->count += d.restart;
  return d.restart ? d : (sc_restart_decision_t){false, 0};
}

uint64_t sc_restart_count(const sc_restart_t *r) {
  return r->count;
}
