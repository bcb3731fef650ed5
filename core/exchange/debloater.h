/*
 * debloater: how large the buffers of a task's gates shall be, so that what is in flight at each is
 * about `target` of work (SPEC B11; Flink's formula and defaults).
 *
 * The number of buffers of a gate is fixed, so their size decides how long a record, or a barrier
 * that waits its turn, stands in the queue. Once a *period* the task's throughput is measured:
 * bytes read by the time in which it was not idle. Back-pressured time counts: what is queued
 * drains at that pace, too, so that each hop of a blocked pipeline holds about `target`, not only
 * the one before the bottleneck. Each gate then moves its size towards
 *
 *   throughput * target / units in its queues, at most twice what it is
 *
 * by 2 / (samples + 1) of the difference (an exponential mean), within [SC_DEBLOAT_MIN, segment
 * size]. The bound of twice makes it grow no faster than it shrinks. Senders are told only what
 * differs from what they heard last by `threshold_percent`, or is one of the two bounds.
 * Memory is not saved: a buffer that is left early takes a segment all the same, and bounds that
 * are counted in buffers (overdraft) stay what they are.
 * Several gates of a task share its throughput, as in Flink: together they may hold that many
 * targets.
 *
 *   period: sc_debloater_due -> sc_debloater_measure -> sc_debloater_gate for each gate
 *
 * Pure: time, bytes and units are arguments. Threads: one (the task's slot). Ownership:
 * create/destroy. Failure: none; without any time that was not idle the last throughput holds, and
 * before there is one no size moves.
 */
#ifndef SC_EXCHANGE_DEBLOATER_H
#define SC_EXCHANGE_DEBLOATER_H

#include <stdbool.h>
#include <stdint.h>

#define SC_DEBLOAT_MIN 256    /* no buffer is asked to be smaller */
#define SC_DEBLOAT_START 1024 /* how large they are until something is measured */

/* The user's options (network.debloat). */
typedef struct sc_debloat {
  bool enabled;
  int64_t target_ms;          /* of work that is in flight at a gate */
  int64_t period_ms;          /* between two measurements */
  uint32_t samples;           /* that the mean is over; at least 1 */
  uint32_t threshold_percent; /* smaller changes are not announced */
} sc_debloat_t;

typedef struct sc_debloater sc_debloater_t;

/* segment_size: of a buffer that nothing holds down; where that is below SC_DEBLOAT_MIN, sizes
 * never move. */
sc_debloater_t *sc_debloater_create(const sc_debloat_t *options, uint32_t segment_size,
                                    uint32_t n_gates);
void sc_debloater_destroy(sc_debloater_t *d); /* NULL is fine */
/* What senders begin with. */
uint32_t sc_debloat_start_size(uint32_t segment_size);
bool sc_debloater_due(const sc_debloater_t *d, int64_t now_ns);
/* A period is over: bytes read, and time that was not idle, both since the beginning. */
void sc_debloater_measure(sc_debloater_t *d, int64_t now_ns, uint64_t bytes, int64_t active_ns);
/* Likewise, but what was read since the last time says nothing. */
void sc_debloater_skip(sc_debloater_t *d, int64_t now_ns, uint64_t bytes, int64_t active_ns);
/* After a measurement, once for each gate: the size that is to be announced to its senders, or 0.
 * units: that the buffers in its queues count as. */
uint32_t sc_debloater_gate(sc_debloater_t *d, uint32_t gate, uint64_t units);

#endif
