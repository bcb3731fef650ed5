#include "groups.h"

#include <stdlib.h>

#include "../base/mem.h"

#define SMALL_MAP 16 /* entries of a map that are freed at once rather than in sweeps */

struct sc_groups {
  sc_key_range_t range;  /* groups that are here */
  sc_table_t **tables;   /* one for each group of range; NULL while nothing was written to it */
  sc_omap_t **graves;    /* maps that were cleared by folding and have still to be freed */
  size_t n_graves;       /* of them */
  size_t cap_graves;     /* room for them */
};

static size_t n_groups(const sc_groups_t *g) { return (size_t)g->range.last - g->range.first + 1; }

sc_groups_t *sc_groups_create(sc_key_range_t range) {
  sc_assert(range.first <= range.last);
  sc_groups_t *g = sc_calloc(1, sizeof *g);
  g->range = range;
  g->tables = sc_calloc(n_groups(g), sizeof *g->tables);
  return g;
}

void sc_groups_destroy(sc_groups_t *g) {
  if (!g)
    return;
  for (size_t i = 0; i < n_groups(g); i++)
    sc_table_destroy(g->tables[i]);
  for (size_t i = 0; i < g->n_graves; i++)
    sc_omap_destroy(g->graves[i]);
  free(g->graves);
  free(g->tables);
  free(g);
}

/* The slot of the group's table. */
static sc_table_t **slot(const sc_groups_t *g, uint16_t group) {
  sc_assert(group >= g->range.first && group <= g->range.last);
  return &g->tables[group - g->range.first];
}

static sc_table_entry_t *find(const sc_groups_t *g, const sc_address_t *at, uint32_t hash) {
  sc_table_t *t = *slot(g, at->group);
  return t ? sc_table_find(t, at, hash) : NULL;
}

static sc_table_t *table_for_write(sc_groups_t *g, uint16_t group) {
  sc_table_t **t = slot(g, group);
  if (!*t)
    *t = sc_table_create();
  return *t;
}

bool sc_groups_get(const sc_groups_t *g, const sc_address_t *at, uint32_t hash, sc_bytes_t *value) {
  const sc_table_entry_t *e = find(g, at, hash);
  if (e)
    *value = sc_table_value(e);
  return e != NULL;
}

void sc_groups_put(sc_groups_t *g, const sc_address_t *at, uint32_t hash, sc_bytes_t value) {
  sc_table_put(table_for_write(g, at->group), at, hash, value);
}

void sc_groups_remove(sc_groups_t *g, const sc_address_t *at, uint32_t hash) {
  sc_table_t *t = *slot(g, at->group);
  if (t)
    sc_table_remove(t, at, hash);
}

void sc_groups_fetch(const sc_groups_t *g, uint16_t group, uint32_t hash, sc_fetch_t what) {
  const sc_table_t *t = *slot(g, group);
  if (t)
    sc_table_fetch(t, hash, what);
}

const sc_table_entry_t *sc_groups_map(const sc_groups_t *g, const sc_address_t *at, uint32_t hash) {
  return find(g, at, hash);
}

void sc_groups_map_put(sc_groups_t *g, const sc_address_t *at, uint32_t hash, sc_bytes_t map_key,
                       sc_bytes_t value) {
  sc_table_t *t = table_for_write(g, at->group);
  sc_table_map_put(t, sc_table_map(t, at, hash), map_key, value);
}

void sc_groups_map_remove(sc_groups_t *g, const sc_address_t *at, uint32_t hash,
                          sc_bytes_t map_key) {
  sc_table_t *t = *slot(g, at->group);
  sc_table_entry_t *e = t ? sc_table_find(t, at, hash) : NULL;
  if (!e)
    return;
  sc_table_map_remove(t, e, map_key);
  if (sc_omap_count(e->map) == 0)
    sc_table_remove(t, at, hash);
}

/* --- folding --- */

static void sink_put(void *arg, const sc_address_t *at, uint32_t hash, sc_bytes_t value) {
  sc_groups_put(arg, at, hash, value);
}

static void sink_remove(void *arg, const sc_address_t *at, uint32_t hash) {
  sc_groups_remove(arg, at, hash);
}

static void sink_map_put(void *arg, const sc_address_t *at, uint32_t hash, sc_bytes_t map_key,
                         sc_bytes_t value) {
  sc_groups_map_put(arg, at, hash, map_key, value);
}

static void sink_map_remove(void *arg, const sc_address_t *at, uint32_t hash, sc_bytes_t map_key) {
  sc_groups_map_remove(arg, at, hash, map_key);
}

static void sink_map_clear(void *arg, const sc_address_t *at, uint32_t hash) {
  sc_groups_t *g = arg;
  sc_table_t *t = *slot(g, at->group);
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
  sc_groups_fetch(arg, e->group, e->hash, what);
}

sc_delta_sink_t sc_groups_sink(sc_groups_t *g) {
  return (sc_delta_sink_t){.arg = g, .fetch = sink_fetch, .put = sink_put, .remove = sink_remove,
                           .map_put = sink_map_put, .map_remove = sink_map_remove,
                           .map_clear = sink_map_clear};
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

/* Most rows are told apart by what stands here, so that sorting seldom has to look at an entry,
 * which is somewhere in memory. */
typedef struct row {
  uint64_t prefix;               /* first 8 bytes of the key, as a number that orders like them */
  const sc_table_entry_t *entry; /* borrowed from the table */
  uint16_t rank;                 /* of its state in the file */
} row_t;

#define WRITTEN_AHEAD 8 /* rows that are fetched from memory before their turn to be written */

static uint64_t prefix_of(sc_bytes_t key) {
  uint64_t prefix = 0;
  if (key.len)
    memcpy(&prefix, key.data, key.len < 8 ? key.len : 8);
  return __builtin_bswap64(prefix); /* shorter ones are filled with zeros and compared whole */
}

static int compare_rows(const void *a, const void *b) {
  const row_t *x = a, *y = b;
  if (x->rank != y->rank)
    return x->rank < y->rank ? -1 : 1;
  if (x->prefix != y->prefix)
    return x->prefix < y->prefix ? -1 : 1;
  int order = sc_bytes_compare(sc_table_key(x->entry), sc_table_key(y->entry));
  return order ? order : sc_bytes_compare(sc_table_space(x->entry), sc_table_space(y->entry));
}

static row_t *sorted_rows(const sc_table_t *t, const uint16_t *ranks) {
  row_t *rows = sc_malloc(sc_table_count(t) * sizeof *rows);
  size_t n = 0;
  size_t cursor = 0;
  for (const sc_table_entry_t *e; (e = sc_table_scan(t, &cursor, SIZE_MAX)); cursor++)
    for (; e; e = e->next)
      rows[n++] = (row_t){prefix_of(sc_table_key(e)), e, ranks[e->state]};
  sc_assert(n == sc_table_count(t));
  qsort(rows, n, sizeof *rows, compare_rows);
  return rows;
}

static int write_entry(const sc_table_entry_t *e, uint16_t rank, sc_keyed_writer_t *w,
                       sc_error_t *err) {
  sc_keyed_row_t row = {.group = e->group, .state = rank, .key = sc_table_key(e),
                        .name_space = sc_table_space(e), .value = sc_table_value(e)};
  if (!e->map)
    return sc_keyed_writer_put(w, &row, err);
  row.has_map_key = true;
  for (const sc_omap_entry_t *m = sc_omap_first(e->map); m; m = m->next) {
    row.map_key = sc_omap_key(m);
    row.value = sc_omap_value(m);
    int rc = sc_keyed_writer_put(w, &row, err);
    if (rc < 0)
      return rc;
  }
  return 0;
}

int sc_groups_write(const sc_groups_t *g, const uint16_t *ranks, sc_keyed_writer_t *w,
                    sc_error_t *err) {
  for (size_t i = 0; i < n_groups(g); i++) {
    const sc_table_t *t = g->tables[i];
    if (!t || sc_table_count(t) == 0)
      continue;
    row_t *rows = sorted_rows(t, ranks);
    int rc = 0;
    for (size_t k = 0, n = sc_table_count(t); rc >= 0 && k < n; k++) {
      if (k + WRITTEN_AHEAD < n)
        sc_table_fetch_entry(rows[k + WRITTEN_AHEAD].entry);
      rc = write_entry(rows[k].entry, rows[k].rank, w, err);
    }
    free(rows);
    if (rc < 0)
      return rc;
  }
  return 0;
}

void sc_groups_usage(const sc_groups_t *g, uint64_t *items, uint64_t *bytes) {
  *items = 0;
  *bytes = 0;
  for (size_t i = 0; i < n_groups(g); i++)
    if (g->tables[i]) {
      *items += sc_table_items(g->tables[i]);
      *bytes += sc_table_bytes(g->tables[i]);
    }
}
