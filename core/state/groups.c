#include "groups.h"

#include <stdlib.h>

#include "../base/mem.h"
#include "rows.h"

#define SMALL_MAP 16 /* entries of a map that are freed at once rather than in sweeps */

struct sc_groups {
  sc_key_range_t range;  /* groups that are here */
  sc_pages_t pages;      /* that values are in */
  _Atomic(sc_cells_t *) *values; /* of each group of range; NULL while there never was one */
  sc_table_t **maps;     /* of each group of range; NULL while there never was one */
  sc_omap_t **graves;    /* maps that were cleared by folding and have still to be freed */
  size_t n_graves;       /* of them */
  size_t cap_graves;     /* room for them */
};

static size_t n_groups(const sc_groups_t *g) { return (size_t)g->range.last - g->range.first + 1; }

sc_groups_t *sc_groups_create(sc_key_range_t range) {
  sc_assert(range.first <= range.last);
  sc_groups_t *g = sc_calloc(1, sizeof *g);
  g->range = range;
  sc_pages_init(&g->pages);
  g->values = sc_calloc(n_groups(g), sizeof *g->values);
  g->maps = sc_calloc(n_groups(g), sizeof *g->maps);
  return g;
}

/* Relaxed: the owner's question, who put it there. */
static sc_cells_t *values_of(const sc_groups_t *g, size_t i) {
  return atomic_load_explicit(&g->values[i], memory_order_relaxed);
}

void sc_groups_destroy(sc_groups_t *g) {
  if (!g)
    return;
  for (size_t i = 0; i < n_groups(g); i++) {
    sc_cells_destroy(values_of(g, i));
    sc_table_destroy(g->maps[i]);
  }
  for (size_t i = 0; i < g->n_graves; i++)
    sc_omap_destroy(g->graves[i]);
  sc_pages_fini(&g->pages);
  free(g->graves);
  free(g->values);
  free(g->maps);
  free(g);
}

static size_t place(const sc_groups_t *g, uint16_t group) {
  sc_assert(group >= g->range.first && group <= g->range.last);
  return (size_t)group - g->range.first;
}

/* --- values --- */

static sc_cells_t *cells_for_write(sc_groups_t *g, uint16_t group) {
  size_t i = place(g, group);
  sc_cells_t *c = values_of(g, i);
  if (!c) {
    c = sc_cells_create(&g->pages);
    /* Release: the pool may come by. */
    atomic_store_explicit(&g->values[i], c, memory_order_release);
  }
  return c;
}

const sc_cell_t *sc_groups_find(const sc_groups_t *g, const sc_address_t *at, uint32_t hash) {
  sc_cells_t *c = values_of(g, place(g, at->group));
  return c ? sc_cells_find(c, at, hash) : NULL;
}

void sc_groups_put(sc_groups_t *g, const sc_address_t *at, uint32_t hash, sc_bytes_t value,
                   const sc_cells_guard_t *guard) {
  sc_cells_put(cells_for_write(g, at->group), at, hash, value, guard);
}

void sc_groups_renew(sc_groups_t *g, const sc_cell_t *e, const sc_address_t *at, uint32_t hash,
                     sc_bytes_t value, const sc_cells_guard_t *guard) {
  sc_cells_renew(cells_for_write(g, at->group), e, at, hash, value, guard);
}

void sc_groups_remove(sc_groups_t *g, const sc_address_t *at, uint32_t hash,
                      const sc_cells_guard_t *guard) {
  sc_cells_t *c = values_of(g, place(g, at->group));
  if (c)
    sc_cells_remove(c, at, hash, guard);
}

const sc_cells_t *sc_groups_cells(const sc_groups_t *g, uint16_t group) {
  return values_of(g, place(g, group));
}

/* --- maps --- */

const sc_table_entry_t *sc_groups_map(const sc_groups_t *g, const sc_address_t *at, uint32_t hash) {
  const sc_table_t *t = g->maps[place(g, at->group)];
  return t ? sc_table_find(t, at, hash) : NULL;
}

void sc_groups_fetch_map(const sc_groups_t *g, uint16_t group, uint32_t hash, sc_fetch_t what) {
  const sc_table_t *t = g->maps[place(g, group)];
  if (t)
    sc_table_fetch(t, hash, what);
}

void sc_groups_map_put(sc_groups_t *g, const sc_address_t *at, uint32_t hash, sc_bytes_t map_key,
                       sc_bytes_t value) {
  sc_table_t **t = &g->maps[place(g, at->group)];
  if (!*t)
    *t = sc_table_create();
  sc_table_map_put(*t, sc_table_map(*t, at, hash), map_key, value);
}

void sc_groups_map_remove(sc_groups_t *g, const sc_address_t *at, uint32_t hash,
                          sc_bytes_t map_key) {
  sc_table_t *t = g->maps[place(g, at->group)];
  sc_table_entry_t *e = t ? sc_table_find(t, at, hash) : NULL;
  if (!e)
    return;
  sc_table_map_remove(t, e, map_key);
  if (sc_omap_count(e->map) == 0)
    sc_table_remove(t, at, hash);
}

void sc_groups_map_clear(sc_groups_t *g, const sc_address_t *at, uint32_t hash) {
  sc_table_t *t = g->maps[place(g, at->group)];
  if (t)
    sc_table_remove(t, at, hash);
}

/* --- folding --- */

static void sink_map_put(void *arg, const sc_address_t *at, uint32_t hash, sc_bytes_t map_key,
                         sc_bytes_t value) {
  sc_groups_map_put(arg, at, hash, map_key, value);
}

static void sink_map_remove(void *arg, const sc_address_t *at, uint32_t hash, sc_bytes_t map_key) {
  sc_groups_map_remove(arg, at, hash, map_key);
}

static void sink_map_clear(void *arg, const sc_address_t *at, uint32_t hash) {
  sc_groups_t *g = arg;
  sc_table_t *t = g->maps[place(g, at->group)];
  sc_omap_t *map = t ? sc_table_detach(t, at, hash) : NULL;
  if (!map)
    return;
  if (sc_omap_count(map) <= SMALL_MAP) {
    sc_omap_destroy(map);
    return;
  }
  if (g->n_graves == g->cap_graves) {
    g->cap_graves = g->cap_graves ? g->cap_graves * 2 : 8;
    g->graves = sc_realloc(g->graves, g->cap_graves * sizeof *g->graves);
  }
  g->graves[g->n_graves++] = map;
}

static void sink_fetch(void *arg, const sc_table_entry_t *e, sc_fetch_t what) {
  sc_groups_fetch_map(arg, e->group, e->hash, what);
}

/* Without values: those of a heap never go through a delta. */
sc_delta_sink_t sc_groups_sink(sc_groups_t *g) {
  return (sc_delta_sink_t){.arg = g, .fetch = sink_fetch, .map_put = sink_map_put,
                           .map_remove = sink_map_remove, .map_clear = sink_map_clear};
}

int sc_groups_sweep(sc_groups_t *g, int budget) {
  while (budget > 0 && g->n_graves > 0) {
    sc_omap_t *map = g->graves[g->n_graves - 1];
    const sc_omap_entry_t *e;
    for (; budget > 0 && (e = sc_omap_first(map)); budget--)
      sc_omap_remove(map, sc_omap_key(e));
    if (sc_omap_count(map) > 0)
      break;
    sc_omap_destroy(map);
    g->n_graves--;
  }
  return budget;
}

bool sc_groups_swept(const sc_groups_t *g) { return g->n_graves == 0; }

/* --- writing --- */

int sc_groups_write(const sc_groups_t *g, const uint16_t *ranks, uint32_t n_ranks, uint64_t epoch,
                    atomic_uint_least32_t *written, sc_keyed_writer_t *w, sc_error_t *err) {
  sc_rows_t rows;
  sc_rows_init(&rows, ranks, n_ranks);
  int rc = 0;
  for (size_t i = 0; rc >= 0 && i < n_groups(g); i++) {
    /* Acquire: pairs with the release of cells_for_write, of a group that is new since the cut. */
    const sc_cells_t *values = atomic_load_explicit(&g->values[i], memory_order_acquire);
    if (values)
      sc_rows_add_values(&rows, &values->slab, epoch);
    if (g->maps[i])
      sc_rows_add_maps(&rows, g->maps[i]);
    rc = sc_rows_write(&rows, (uint16_t)(g->range.first + i), w, err);
    /* Release: all reading of the group lies before what its owner does when it has seen this. */
    atomic_store_explicit(written, (uint32_t)i + 1, memory_order_release);
  }
  sc_rows_fini(&rows);
  return rc;
}

void sc_groups_usage(const sc_groups_t *g, uint64_t *items, uint64_t *bytes) {
  *items = 0;
  *bytes = 0;
  for (size_t i = 0; i < n_groups(g); i++) {
    const sc_cells_t *values = values_of(g, i);
    if (values) {
      *items += values->slab.live;
      *bytes += sc_cells_bytes(values);
    }
    if (g->maps[i]) {
      *items += sc_table_items(g->maps[i]);
      *bytes += sc_table_bytes(g->maps[i]);
    }
  }
}
