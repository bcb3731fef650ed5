/*
 * map_merge: one map as its layers make it, in order, newest layer first.
 *
 * Each layer is what a delta, or the base, holds of the map. Of equal map keys the newest layer's
 * entry counts; a tombstone hides older ones; a cleared layer hides all older layers.
 *
 * Ownership: init/fini; entries are borrowed from the layers, which must not change meanwhile.
 * A merge may not be copied or moved. Threads: one at a time, reading. Pure.
 */
#ifndef SC_STATE_MAP_MERGE_H
#define SC_STATE_MAP_MERGE_H

#include "table.h"

#define SC_MAP_MERGE_FEW 4 /* layers without an allocation */

typedef struct sc_map_merge {
  const sc_omap_entry_t **at;                     /* next entry of each layer, newest first */
  uint32_t n;                                     /* layers that have entries left */
  uint32_t cap;                                   /* room at `at` */
  const sc_omap_entry_t *few[SC_MAP_MERGE_FEW];   /* where `at` points at first */
} sc_map_merge_t;

void sc_map_merge_init(sc_map_merge_t *m);
void sc_map_merge_fini(sc_map_merge_t *m);
/* Add the next older layer (NULL: it knows nothing of the map), from the first map key >= *from (or
 * all, where from is NULL). False: what is older does not show; stop. */
bool sc_map_merge_add(sc_map_merge_t *m, const sc_table_entry_t *layer, const sc_bytes_t *from);
/* The next visible entry, or NULL. */
const sc_omap_entry_t *sc_map_merge_next(sc_map_merge_t *m);

#endif
