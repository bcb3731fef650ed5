#include "schedule.h"

#include <stdlib.h>

#include "../base/error.h"
#include "../base/mem.h"

/* Longer pauses are as good as for ever, and sums with them must not overflow. */
#define PAUSE_MAX_MS (INT64_C(365) * 24 * 3600 * 1000)

void sc_schedule_init(sc_schedule_t *s, int64_t interval_ms, int64_t min_pause_ms,
                      uint32_t max_concurrent, size_t capacity) {
  if (min_pause_ms > PAUSE_MAX_MS)
    min_pause_ms = PAUSE_MAX_MS;
  if (interval_ms > 0 && interval_ms < min_pause_ms)
    interval_ms = min_pause_ms;
  *s = (sc_schedule_t){.interval_ms = interval_ms,
                       .min_pause_ms = min_pause_ms,
                       .max_concurrent = max_concurrent ? max_concurrent : 1,
                       .capacity = capacity,
                       .next_ms = INT64_MAX,
                       .earliest_ms = INT64_MIN};
}

void sc_schedule_fini(sc_schedule_t *s) {
  free(s->requests);
  s->requests = NULL;
  s->count = s->allocated = 0;
}

static int64_t later(int64_t at, int64_t by) {
  return at > INT64_MAX - by ? INT64_MAX : at + by;
}

void sc_schedule_start(sc_schedule_t *s, int64_t mono_ms) {
  s->running = true;
  s->periodic_waiting = false;
  s->next_ms = s->interval_ms > 0 ? later(mono_ms, s->interval_ms) : INT64_MAX;
}

void sc_schedule_stop(sc_schedule_t *s) {
  s->running = false;
  s->periodic_waiting = false;
  s->next_ms = INT64_MAX;
}

void sc_schedule_tick(sc_schedule_t *s, int64_t mono_ms) {
  if (!s->running || mono_ms < s->next_ms)
    return;
  s->periodic_waiting = true;
  int64_t missed = (mono_ms - s->next_ms) / s->interval_ms;
  s->next_ms = later(s->next_ms + missed * s->interval_ms, s->interval_ms);
}

int64_t sc_schedule_deadline(const sc_schedule_t *s) {
  return s->running ? s->next_ms : INT64_MAX;
}

void sc_schedule_completed(sc_schedule_t *s, int64_t mono_ms) {
  s->earliest_ms = later(mono_ms, s->min_pause_ms);
}

void sc_schedule_failed(sc_schedule_t *s, int64_t mono_ms, int64_t pause_ms) {
  int64_t end = later(mono_ms, pause_ms > PAUSE_MAX_MS ? PAUSE_MAX_MS : pause_ms);
  if (pause_ms > 0 && end > s->earliest_ms)
    s->earliest_ms = end;
}

static void grow(sc_schedule_t *s) {
  size_t allocated = s->allocated ? 2 * s->allocated : 8;
  uint64_t *requests = sc_malloc(allocated * sizeof *requests);
  for (size_t i = 0; i < s->count; i++)
    requests[i] = s->requests[(s->first + i) % s->allocated];
  free(s->requests);
  s->requests = requests;
  s->allocated = allocated;
  s->first = 0;
}

bool sc_schedule_request(sc_schedule_t *s, uint64_t request) {
  if (s->count >= s->capacity)
    return false;
  if (s->count == s->allocated)
    grow(s);
  s->requests[(s->first + s->count++) % s->allocated] = request;
  return true;
}

/* Has the pause passed? If not, the periodic one is planned anew at its end. */
static bool pause_is_over(sc_schedule_t *s, int64_t mono_ms) {
  if (mono_ms >= s->earliest_ms)
    return true;
  s->periodic_waiting = false;
  s->next_ms = s->earliest_ms;
  return false;
}

bool sc_schedule_wants(const sc_schedule_t *s, int64_t mono_ms) {
  return s->count > 0 || (s->periodic_waiting && mono_ms >= s->earliest_ms);
}

sc_start_t sc_schedule_choose(sc_schedule_t *s, int64_t mono_ms, const sc_schedule_load_t *load) {
  if (load->preparing || load->pending >= s->max_concurrent || load->deleting > s->max_concurrent)
    return SC_START_NOTHING;
  if (s->count)
    return SC_START_MANUAL;
  if (load->final_wanted)
    return SC_START_FINAL;
  if (s->periodic_waiting && pause_is_over(s, mono_ms))
    return SC_START_PERIODIC;
  return SC_START_NOTHING;
}

uint64_t sc_schedule_take(sc_schedule_t *s, sc_start_t kind) {
  if (kind == SC_START_PERIODIC)
    s->periodic_waiting = false;
  if (kind != SC_START_MANUAL)
    return 0;
  sc_assert(s->count > 0);
  uint64_t request = s->requests[s->first];
  s->first = (s->first + 1) % s->allocated;
  s->count--;
  return request;
}
