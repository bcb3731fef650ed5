/*
 * random: a seeded generator (splitmix64, Steele and others 2014), for jitter, sampling and
 * simulation; not for secrets. A value belongs to one thread. Equal seeds give equal sequences.
 */
#ifndef SC_BASE_RANDOM_H
#define SC_BASE_RANDOM_H

#include <stdint.h>

typedef struct sc_random { uint64_t state; } sc_random_t;

static inline void sc_random_init(sc_random_t *r, uint64_t seed) { r->state = seed; }
static inline uint64_t sc_random_next(sc_random_t *r) {
  uint64_t z = (r->state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}
/* 0 <= result < n; n > 0. The bias for n far below 2^64 does not matter here. */
static inline uint64_t sc_random_below(sc_random_t *r, uint64_t n) { return sc_random_next(r) % n; }

#endif
