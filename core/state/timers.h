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
 * An *advance* is sc_timers_begin_advance and then sc_timers_pop until it gives 0. Between pops it
 * may stop and go on as long as it likes (081). A timer registered meanwhile at a time <= that of
 * the last one popped waits for the next advance: so a timer that its own callback registers again
 * (075) fires once an advance, and none can loop. A later one fires in this advance if it is due
 * (074). Registering never fires inside the call, however old the time is (073).
 *
 * Threads: the task's slot. Pure: `now` and watermarks are arguments. Ownership: create/destroy;
 * the window is borrowed and must outlive it. Failure: what the window's operations fail with.
 */
#ifndef SC_STATE_TIMERS_H
#define SC_STATE_TIMERS_H

#include "backend.h"

typedef enum { SC_EVENT_TIME = 0, SC_PROCESSING_TIME = 1 } sc_time_domain_t;

typedef struct sc_timer {
  sc_time_domain_t domain; /* which clock fires it */
  int64_t time;          /* ms */
  uint16_t group;        /* of the key */
  sc_bytes_t key;        /* key bytes; of a popped one borrowed until the next pop */
  sc_bytes_t name_space; /* of the window or the user; borrowed likewise */
} sc_timer_t;

typedef struct sc_timers sc_timers_t;

/* Declares the two states in the window; timers that are there already need sc_timers_rebuild. */
int sc_timers_create(sc_keyed_t *k, sc_timers_t **out, sc_error_t *err);
void sc_timers_destroy(sc_timers_t *t);
int sc_timers_rebuild(sc_timers_t *t, sc_error_t *err); /* after a restore */
/* The timer's group is in the window's range; what is registered already stays as it is. */
int sc_timers_register(sc_timers_t *t, const sc_timer_t *timer, sc_error_t *err);
int sc_timers_delete(sc_timers_t *t, const sc_timer_t *timer, sc_error_t *err);
/* Earliest time of a domain, put-off ones included; false where there is none. */
bool sc_timers_next(sc_timers_t *t, sc_time_domain_t domain, int64_t *time);
/* Begin an advance; timers that an earlier one put off are due like any other. */
void sc_timers_begin_advance(sc_timers_t *t, sc_time_domain_t domain);
/* Remove and return the earliest timer with time <= upto: 1, or 0, which ends the advance. The
 * timer is removed before it fires. */
int sc_timers_pop(sc_timers_t *t, sc_time_domain_t domain, int64_t upto, sc_timer_t *out,
                  sc_error_t *err);
uint64_t sc_timers_count(sc_timers_t *t, sc_time_domain_t domain);

#endif
