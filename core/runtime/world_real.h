/*
 * world_real: the world of threads, clocks and files (base/world.h says what a world is).
 *
 * Each actor is a thread; it sleeps on a condition (or in its own wait hook, woken through an
 * eventfd) until woken or its deadline. The I/O pool is a few threads over one queue, begun with
 * the first work. Threads block all signals, so the user's handlers run on the user's thread.
 *
 * Threads: any. Ownership: create/destroy through world->ops->destroy; before that every actor
 * must have been retired. Failure: a thread that cannot be made is SC_EINTERNAL with the reason.
 */
#ifndef SC_RUNTIME_WORLD_REAL_H
#define SC_RUNTIME_WORLD_REAL_H

#include "../base/world.h"

/* `sync` false: files are not synced (checkpoint.sync = false). pool_threads: 0 means 4. */
sc_world_t *sc_world_real_create(bool sync, int pool_threads);

#endif
