/*
 * groups: the base of a heap window, one table for each key group of a range.
 *
 * Plain state without layers. While a snapshot of it is written it stands still: the pool reads it
 * (sc_groups_write) and its task reads it too; look-ups change nothing.
 *
 * Ownership: create/destroy; everything is copied in; answers are borrowed until the next change.
 * Threads: one writer, or any readers. Failure: only writing to storage fails.
 */
#ifndef SC_STATE_GROUPS_H
#define SC_STATE_GROUPS_H

#include "delta.h"

typedef struct sc_groups sc_groups_t;

sc_groups_t *sc_groups_create(sc_key_range_t range);
void sc_groups_destroy(sc_groups_t *g); /* NULL is fine */

bool sc_groups_get(const sc_groups_t *g, const sc_address_t *at, uint32_t hash, sc_bytes_t *value);
void sc_groups_put(sc_groups_t *g, const sc_address_t *at, uint32_t hash, sc_bytes_t value);
/* A value, or a map with all its entries. */
void sc_groups_remove(sc_groups_t *g, const sc_address_t *at, uint32_t hash);

/* A hint, see table.h. */
void sc_groups_fetch(const sc_groups_t *g, uint16_t group, uint32_t hash, sc_fetch_t what);

/* The map, or NULL; an empty map does not exist. */
const sc_table_entry_t *sc_groups_map(const sc_groups_t *g, const sc_address_t *at, uint32_t hash);
void sc_groups_map_put(sc_groups_t *g, const sc_address_t *at, uint32_t hash, sc_bytes_t map_key,
                       sc_bytes_t value);
void sc_groups_map_remove(sc_groups_t *g, const sc_address_t *at, uint32_t hash,
                          sc_bytes_t map_key);

/* A sink that brings a delta's entries here. Maps that it clears are freed later, in sweeps. */
sc_delta_sink_t sc_groups_sink(sc_groups_t *g);
/* Free up to `budget` entries of cleared maps; returns what is left of the budget. */
int sc_groups_sweep(sc_groups_t *g, int budget);
bool sc_groups_swept(const sc_groups_t *g); /* nothing is left to sweep */

/* Write every row, group by group. ranks[state] is the state's index in the file: rows are ordered
 * by it, then by key, namespace and map key. Pool. */
int sc_groups_write(const sc_groups_t *g, const uint16_t *ranks, sc_keyed_writer_t *w,
                    sc_error_t *err);

void sc_groups_usage(const sc_groups_t *g, uint64_t *items, uint64_t *bytes);

#endif
