#include "restart.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../base/mem.h"

struct sc_restart {
  sc_restart_config_t config;
  uint64_t count; /* restarts granted */
};

int sc_restart_config(const char *name, sc_restart_config_t *out, sc_error_t *err) {
  if (strcmp(name, "none") == 0) {
    *out = (sc_restart_config_t){SC_RESTART_NONE, 0, 0};
    return 0;
  }
  if (strcmp(name, "fixed_delay") == 0) {
    *out = (sc_restart_config_t){SC_RESTART_FIXED_DELAY, SC_RESTART_UNLIMITED, 1000};
    return 0;
  }
  return sc_fail(err, SC_EUNSUPPORTED,
                 "restart strategy \"%s\" is not known: use \"none\" or \"fixed_delay\"", name);
}

int sc_restart_create(const sc_restart_config_t *config, sc_restart_t **out, sc_error_t *err) {
  if (config->kind == SC_RESTART_FIXED_DELAY && config->delay_ms < 0)
    return sc_fail(err, SC_EINVAL, "the restart delay is %" PRId64 " ms; it must not be negative",
                   config->delay_ms);
  *out = sc_calloc(1, sizeof **out);
  (*out)->config = *config;
  return 0;
}

void sc_restart_destroy(sc_restart_t *r) {
  free(r);
}

sc_restart_decision_t sc_restart_failed(sc_restart_t *r, int64_t now_ms) {
  const sc_restart_config_t *config = &r->config;
  if (config->kind == SC_RESTART_NONE)
    return (sc_restart_decision_t){false, 0};
  if (config->attempts >= 0 && r->count >= (uint64_t)config->attempts)
    return (sc_restart_decision_t){false, 0};
  r->count++;
  return (sc_restart_decision_t){true, config->delay_ms};
}

uint64_t sc_restart_count(const sc_restart_t *r) {
  return r->count;
}
