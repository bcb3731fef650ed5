#include "delta.h"

#include <stdlib.h>

#include "../base/mem.h"

#define FOLDED_AHEAD 16 /* entries that are fetched from memory together, before they are folded */
#define SCAN_BUCKETS 64 /* empty buckets that cost as much budget as one entry */

struct sc_delta {
  sc_table_t *table; /* entries and tombstones of all groups */
  size_t cursor;     /* where folding goes on */
  uint32_t fetched;  /* entries that are left of those that were fetched */
};

sc_delta_t *sc_delta_create(void) {
  sc_delta_t *d = sc_calloc(1, sizeof *d);
  d->table = sc_table_create();
  return d;
}

void sc_delta_destroy(sc_delta_t *d) {
  if (!d)
    return;
  sc_table_destroy(d->table);
  free(d);
}

bool sc_delta_empty(const sc_delta_t *d) { return sc_table_count(d->table) == 0; }

void sc_delta_put(sc_delta_t *d, const sc_address_t *at, uint32_t hash, sc_bytes_t value) {
  sc_table_put(d->table, at, hash, value);
}

void sc_delta_remove(sc_delta_t *d, const sc_address_t *at, uint32_t hash) {
  sc_table_put(d->table, at, hash, sc_bytes(NULL, 0))->flags = SC_ENTRY_TOMBSTONE;
}

void sc_delta_map_put(sc_delta_t *d, const sc_address_t *at, uint32_t hash, sc_bytes_t map_key,
                      sc_bytes_t value) {
  sc_table_entry_t *e = sc_table_map(d->table, at, hash);
  sc_table_map_put(d->table, e, map_key, value)->flags = 0;
}

void sc_delta_map_remove(sc_delta_t *d, const sc_address_t *at, uint32_t hash,
                         sc_bytes_t map_key) {
  sc_table_entry_t *e = sc_table_map(d->table, at, hash);
  if (e->flags & SC_ENTRY_CLEARED)
    sc_table_map_remove(d->table, e, map_key); /* the range tombstone covers what is older */
  else
    sc_table_map_put(d->table, e, map_key, sc_bytes(NULL, 0))->flags = SC_ENTRY_TOMBSTONE;
}

void sc_delta_map_clear(sc_delta_t *d, const sc_address_t *at, uint32_t hash) {
  sc_table_remove(d->table, at, hash);
  sc_table_map(d->table, at, hash)->flags = SC_ENTRY_CLEARED;
}

sc_delta_answer_t sc_delta_get(const sc_delta_t *d, const sc_address_t *at, uint32_t hash,
                               sc_bytes_t *value) {
  const sc_table_entry_t *e = sc_table_find(d->table, at, hash);
  if (!e)
    return SC_DELTA_UNKNOWN;
  if (e->flags & SC_ENTRY_TOMBSTONE)
    return SC_DELTA_REMOVED;
  *value = sc_table_value(e);
  return SC_DELTA_PRESENT;
}

sc_delta_answer_t sc_delta_map_get(const sc_delta_t *d, const sc_address_t *at, uint32_t hash,
                                   sc_bytes_t map_key, sc_bytes_t *value) {
  const sc_table_entry_t *e = sc_table_find(d->table, at, hash);
  if (!e)
    return SC_DELTA_UNKNOWN;
  const sc_omap_entry_t *m = sc_omap_find(e->map, map_key);
  if (!m)
    return e->flags & SC_ENTRY_CLEARED ? SC_DELTA_REMOVED : SC_DELTA_UNKNOWN;
  if (m->flags & SC_ENTRY_TOMBSTONE)
    return SC_DELTA_REMOVED;
  *value = sc_omap_value(m);
  return SC_DELTA_PRESENT;
}

const sc_table_entry_t *sc_delta_map(const sc_delta_t *d, const sc_address_t *at, uint32_t hash) {
  return sc_table_find(d->table, at, hash);
}

void sc_delta_fetch(const sc_delta_t *d, uint32_t hash, sc_fetch_t what) {
  sc_table_fetch(d->table, hash, what);
}

void sc_delta_forget(sc_delta_t *d, const sc_address_t *at, uint32_t hash) {
  sc_table_remove(d->table, at, hash);
}

/* The range tombstone goes first, before any entry of its map: it must not cover newer puts. */
static bool fold_cleared(sc_table_entry_t *e, const sc_address_t *at, const sc_delta_sink_t *sink) {
  if (!(e->flags & SC_ENTRY_CLEARED))
    return false;
  sink->map_clear(sink->arg, at, e->hash);
  e->flags &= (uint8_t)~SC_ENTRY_CLEARED;
  return true;
}

void sc_delta_bring_clear(sc_delta_t *d, const sc_address_t *at, uint32_t hash,
                          const sc_delta_sink_t *sink) {
  sc_table_entry_t *e = sc_table_find(d->table, at, hash);
  if (!e)
    return;
  fold_cleared(e, at, sink);
  if (sc_omap_count(e->map) == 0)
    sc_table_remove(d->table, at, hash);
}

void sc_delta_forget_map_key(sc_delta_t *d, const sc_address_t *at, uint32_t hash,
                             sc_bytes_t map_key) {
  sc_table_entry_t *e = sc_table_find(d->table, at, hash);
  if (!e)
    return;
  sc_table_map_remove(d->table, e, map_key);
  if (sc_omap_count(e->map) == 0)
    sc_table_remove(d->table, at, hash);
}

static void fold_value(sc_delta_t *d, sc_table_entry_t *e, const sc_delta_sink_t *sink) {
  sc_address_t at = sc_table_address(e);
  if (e->flags & SC_ENTRY_TOMBSTONE)
    sink->remove(sink->arg, &at, e->hash);
  else
    sink->put(sink->arg, &at, e->hash, sc_table_value(e));
  sc_table_remove(d->table, &at, e->hash);
}

static int fold_map(sc_delta_t *d, sc_table_entry_t *e, int budget, const sc_delta_sink_t *sink) {
  sc_address_t at = sc_table_address(e);
  budget -= fold_cleared(e, &at, sink);
  const sc_omap_entry_t *m;
  for (; budget > 0 && (m = sc_omap_first(e->map)); budget--) {
    if (m->flags & SC_ENTRY_TOMBSTONE)
      sink->map_remove(sink->arg, &at, e->hash, sc_omap_key(m));
    else
      sink->map_put(sink->arg, &at, e->hash, sc_omap_key(m), sc_omap_value(m));
    sc_table_map_remove(d->table, e, sc_omap_key(m));
  }
  if (sc_omap_count(e->map) == 0)
    sc_table_remove(d->table, &at, e->hash);
  return budget;
}

/* An entry and its place in the sink lie anywhere in memory: bring those of several entries nearer
 * at once, one step after another, instead of waiting for each. */
static void fetch_ahead(sc_delta_t *d, const sc_delta_sink_t *sink) {
  const sc_table_entry_t *entries[FOLDED_AHEAD];
  uint32_t n = sc_table_scan_ahead(d->table, d->cursor, entries, FOLDED_AHEAD);
  for (uint32_t i = 0; i < n; i++)
    sc_table_fetch_entry(entries[i]);
  for (int what = SC_FETCH_BUCKET; what <= SC_FETCH_SECOND; what++)
    for (uint32_t i = 0; i < n; i++)
      sink->fetch(sink->arg, entries[i], (sc_fetch_t)what);
  d->fetched = n;
}

int sc_delta_fold(sc_delta_t *d, int budget, const sc_delta_sink_t *sink) {
  while (budget > 0 && !sc_delta_empty(d)) {
    if (d->fetched > 0)
      d->fetched--;
    else if (sink->fetch)
      fetch_ahead(d, sink);
    sc_table_entry_t *e = sc_table_scan(d->table, &d->cursor, SCAN_BUCKETS);
    if (e && e->map) {
      budget = fold_map(d, e, budget, sink);
    } else {
      budget--;
      if (e)
        fold_value(d, e, sink);
    }
  }
  return budget;
}

uint64_t sc_delta_items(const sc_delta_t *d) { return sc_table_items(d->table); }

uint64_t sc_delta_bytes(const sc_delta_t *d) { return sc_table_bytes(d->table); }
