/*
 * groups: the base of a heap window: for each key group of a range its values (cells.h) and its
 * maps (table.h).
 *
 * While a snapshot of it is written, the pool reads it group by group (sc_groups_write) and says
 * after each that it is done with it. Of values it reads the cells up to an epoch, which the
 * window keeps for it (sc_cells_guard_t) while it changes others. Maps have to stand still.
 * Look-ups change nothing.
 *
 * Ownership: create/destroy; everything is copied in; answers are borrowed until the next change.
 * Threads: one owner; the pool in sc_groups_write, as said. Failure: only writing to storage fails.
 */
#ifndef SC_STATE_GROUPS_H
#define SC_STATE_GROUPS_H

#include "cells.h"
#include "delta.h"

typedef struct sc_groups sc_groups_t;

sc_groups_t *sc_groups_create(sc_key_range_t range);
void sc_groups_destroy(sc_groups_t *g); /* NULL is fine */

/* NULL where there is no value. */
const sc_cell_t *sc_groups_find(const sc_groups_t *g, const sc_address_t *at, uint32_t hash);
void sc_groups_put(sc_groups_t *g, const sc_address_t *at, uint32_t hash, sc_bytes_t value,
                   const sc_cells_guard_t *guard);
/* As sc_cells_renew. */
void sc_groups_renew(sc_groups_t *g, const sc_cell_t *e, const sc_address_t *at, uint32_t hash,
                     sc_bytes_t value, const sc_cells_guard_t *guard);
void sc_groups_remove(sc_groups_t *g, const sc_address_t *at, uint32_t hash,
                      const sc_cells_guard_t *guard);

/* The values of a group, for hints (sc_cells_fetch); NULL where there never was one. */
const sc_cells_t *sc_groups_cells(const sc_groups_t *g, uint16_t group);
/* A hint, see table.h, for a map of the group. */
void sc_groups_fetch_map(const sc_groups_t *g, uint16_t group, uint32_t hash, sc_fetch_t what);

/* The map, or NULL; an empty map does not exist. */
const sc_table_entry_t *sc_groups_map(const sc_groups_t *g, const sc_address_t *at, uint32_t hash);
void sc_groups_map_put(sc_groups_t *g, const sc_address_t *at, uint32_t hash, sc_bytes_t map_key,
                       sc_bytes_t value);
void sc_groups_map_remove(sc_groups_t *g, const sc_address_t *at, uint32_t hash,
                          sc_bytes_t map_key);

void sc_groups_map_clear(sc_groups_t *g, const sc_address_t *at, uint32_t hash);

/* A sink that brings a delta's maps here. Those that it clears are freed later, in sweeps. */
sc_delta_sink_t sc_groups_sink(sc_groups_t *g);
/* Free up to `budget` entries of cleared maps; returns what is left of the budget. */
int sc_groups_sweep(sc_groups_t *g, int budget);
bool sc_groups_swept(const sc_groups_t *g); /* nothing is left to sweep */

/* Write every row, group by group, of values those born up to `epoch`. ranks[state] is the index in
 * the file, below n_ranks. *written counts the groups of the range that are done with, from the
 * first on: what it released is not read again. Pool. */
int sc_groups_write(const sc_groups_t *g, const uint16_t *ranks, uint32_t n_ranks, uint64_t epoch,
                    atomic_uint_least32_t *written, sc_keyed_writer_t *w, sc_error_t *err);

/* What is held, kept cells included. */
void sc_groups_usage(const sc_groups_t *g, uint64_t *items, uint64_t *bytes);

#endif
