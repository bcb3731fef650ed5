/*
 * timers: event-time and processing-time timers of one keyed operator at one task.
 *
 * A timer is (time, key, namespace), a set per domain: registering twice is one, deleting what is
 * absent does nothing (reference 13). Timers are state: two states of kind SC_STATE_TIMERS in the
 * operator's window, "_timers/event" and "_timers/processing", per key group a map ordered by
 * (time with its sign bit flipped, big endian; key length and key; namespace). So they are in every
 * snapshot, and are redistributed, as any state is. Order of firing: by time, then key group, then
 * bytes.
 *
 * Each domain keeps the head of every key group in a small heap in memory, rebuilt after a restore
 * (sc_timers_rebuild), so that the next timer is a look-up.
 *
 * Registering a timer at or before the current watermark fires it at the next advance, never inside
 * the call (073); a timer that its own callback registers again at a time <= the watermark fires
 * again only at the next advance (075): sc_timers_begin_advance draws that line.
 *
 * Threads: the task's slot. Pure: `now` and watermarks are arguments.
 */
#ifndef SC_STATE_TIMERS_H
#define SC_STATE_TIMERS_H

#include "backend.h"

typedef enum { SC_EVENT_TIME = 0, SC_PROCESSING_TIME = 1 } sc_time_domain_t;

typedef struct sc_timer {
  sc_time_domain_t domain;
  int64_t time;          /* ms */
  uint16_t group;
  sc_bytes_t key, name_space; /* borrowed until the next call */
} sc_timer_t;

typedef struct sc_timers sc_timers_t;

int sc_timers_create(sc_keyed_t *k, sc_timers_t **out, sc_error_t *err);
void sc_timers_destroy(sc_timers_t *t);
int sc_timers_rebuild(sc_timers_t *t, sc_error_t *err); /* after a restore */
int sc_timers_register(sc_timers_t *t, const sc_timer_t *timer, sc_error_t *err);
int sc_timers_delete(sc_timers_t *t, const sc_timer_t *timer, sc_error_t *err);
/* Earliest time of a domain; false where there is none. */
bool sc_timers_next(sc_timers_t *t, sc_time_domain_t domain, int64_t *time);
/* An advance begins: timers registered from here on at a time <= `upto` wait for the next advance,
 * unless their time is later than that of the timer being fired (074: a callback of 10 that
 * registers 12 while advancing to 20 sees 12 fire in the same advance; 075: 10 again does not). */
void sc_timers_begin_advance(sc_timers_t *t, sc_time_domain_t domain);
/* Remove and return the earliest timer with time <= upto: 1, or 0. Removed before it fires. */
int sc_timers_pop(sc_timers_t *t, sc_time_domain_t domain, int64_t upto, sc_timer_t *out, sc_error_t *err);
uint64_t sc_timers_count(sc_timers_t *t, sc_time_domain_t domain);

#endif
