/*
 * timed_storage: another storage, and how long its calls took: the storage's share of a snapshot.
 *
 * Everything is passed on as it is. What a call took is added up by the world's monotonic clock,
 * so under simulation it is virtual time.
 *
 * Threads: as the storage behind it, but the sum is one thread's at a time: whoever makes calls.
 * Ownership: embedded, needs no end; borrows the storage and the world, and outlives its files.
 * Failure: as the storage behind it.
 */
#ifndef SC_SNAPSHOT_TIMED_STORAGE_H
#define SC_SNAPSHOT_TIMED_STORAGE_H

#include "../base/world.h"
#include "storage.h"

typedef struct sc_timed_storage {
  sc_storage_t base;    /* to be handed to whoever is measured */
  sc_storage_t *inner;
  sc_world_t *world;
  int64_t spent_ns;     /* in all calls so far */
} sc_timed_storage_t;

void sc_timed_storage_init(sc_timed_storage_t *t, sc_storage_t *inner, sc_world_t *world);

#endif
