#include "table.h"

#include <stdlib.h>

#include "../base/mem.h"

#define BUCKETS_MIN 8
#define BUCKETS_MOVED 4 /* old buckets that an insertion moves */

struct sc_table {
  sc_table_entry_t **buckets; /* mask + 1 of them, or NULL while the table is new */
  sc_table_entry_t **old;     /* buckets before the last growth that have still to move, or NULL */
  size_t mask;                /* of buckets */
  size_t old_mask;            /* of old */
  size_t moved;               /* old buckets below this one are empty */
  size_t count;               /* entries */
  uint64_t map_items;         /* entries inside of maps */
  uint64_t n_maps;            /* entries that are maps */
  uint64_t bytes;             /* entries and what is in their maps */
};

sc_table_t *sc_table_create(void) { return sc_calloc(1, sizeof(sc_table_t)); }

static size_t size_of(const sc_table_entry_t *e) {
  return offsetof(sc_table_entry_t, data) + e->key_len + e->space_len + e->value_len + e->slack;
}

static void free_buckets(sc_table_entry_t **buckets, size_t n) {
  for (size_t i = 0; buckets && i < n; i++)
    for (sc_table_entry_t *e = buckets[i], *next; e; e = next) {
      next = e->next;
      sc_omap_destroy(e->map);
      free(e);
    }
  free(buckets);
}

void sc_table_destroy(sc_table_t *t) {
  if (!t)
    return;
  /* A delta that was folded is empty, but may have been large: its owner has no time to look. */
  free_buckets(t->buckets, t->count ? t->mask + 1 : 0);
  free_buckets(t->old, t->count ? t->old_mask + 1 : 0);
  free(t);
}

sc_bytes_t sc_table_key(const sc_table_entry_t *e) { return sc_bytes(e->data, e->key_len); }

sc_bytes_t sc_table_space(const sc_table_entry_t *e) {
  return sc_bytes(e->data + e->key_len, e->space_len);
}

sc_bytes_t sc_table_value(const sc_table_entry_t *e) {
  return sc_bytes(e->data + e->key_len + e->space_len, e->value_len);
}

sc_address_t sc_table_address(const sc_table_entry_t *e) {
  return (sc_address_t){.state = e->state, .group = e->group, .key = sc_table_key(e),
                        .name_space = sc_table_space(e)};
}

static bool is(const sc_table_entry_t *e, const sc_address_t *at, uint32_t hash) {
  return e->hash == hash && e->state == at->state && e->group == at->group &&
         sc_bytes_equal(sc_table_key(e), at->key) &&
         sc_bytes_equal(sc_table_space(e), at->name_space);
}

/* The link in which the entry hangs, or NULL. */
static sc_table_entry_t **find_link(const sc_table_t *t, const sc_address_t *at, uint32_t hash) {
  if (!t->buckets)
    return NULL;
  for (sc_table_entry_t **l = &t->buckets[hash & t->mask]; *l; l = &(*l)->next)
    if (is(*l, at, hash))
      return l;
  if (t->old)
    for (sc_table_entry_t **l = &t->old[hash & t->old_mask]; *l; l = &(*l)->next)
      if (is(*l, at, hash))
        return l;
  return NULL;
}

sc_table_entry_t *sc_table_find(const sc_table_t *t, const sc_address_t *at, uint32_t hash) {
  sc_table_entry_t **l = find_link(t, at, hash);
  return l ? *l : NULL;
}

/* A small entry lies in one line of the cache or in two. */
void sc_table_fetch_entry(const sc_table_entry_t *e) {
  __builtin_prefetch(e);
  __builtin_prefetch((const uint8_t *)e + offsetof(sc_table_entry_t, data) + 8);
}

void sc_table_fetch(const sc_table_t *t, uint32_t hash, sc_fetch_t what) {
  if (!t->buckets)
    return;
  sc_table_entry_t *const *bucket = &t->buckets[hash & t->mask];
  if (what == SC_FETCH_BUCKET)
    __builtin_prefetch(bucket);
  else if (*bucket && what == SC_FETCH_FIRST)
    sc_table_fetch_entry(*bucket);
  else if (*bucket && (*bucket)->hash != hash && (*bucket)->next)
    sc_table_fetch_entry((*bucket)->next);
}

/* Move up to `n` old buckets to where they belong now. */
static void move_buckets(sc_table_t *t, size_t n) {
  for (; t->old && n > 0; n--) {
    for (sc_table_entry_t *e = t->old[t->moved], *next; e; e = next) {
      next = e->next;
      e->next = t->buckets[e->hash & t->mask];
      t->buckets[e->hash & t->mask] = e;
    }
    t->old[t->moved] = NULL;
    if (t->moved++ == t->old_mask) {
      free(t->old);
      t->old = NULL;
    }
  }
}

static void grow(sc_table_t *t) {
  move_buckets(t, SIZE_MAX);
  t->old = t->buckets;
  t->old_mask = t->mask;
  t->moved = 0;
  size_t n = t->buckets ? (t->mask + 1) * 2 : BUCKETS_MIN;
  t->buckets = sc_calloc(n, sizeof *t->buckets);
  t->mask = n - 1;
}

/* Round such that malloc's own rounding becomes slack of the value. */
static size_t slack_for(size_t size) { return (((size + 8 + 15) & ~(size_t)15) - 8) - size; }

static sc_table_entry_t *insert(sc_table_t *t, const sc_address_t *at, uint32_t hash,
                                size_t value_len) {
  sc_assert(at->key.len < UINT32_MAX && at->name_space.len < UINT32_MAX && value_len < UINT32_MAX);
  if (!t->buckets || t->count > t->mask)
    grow(t);
  move_buckets(t, BUCKETS_MOVED);
  size_t size = offsetof(sc_table_entry_t, data) + at->key.len + at->name_space.len + value_len;
  size_t slack = slack_for(size);
  sc_table_entry_t *e = sc_malloc(size + slack);
  e->map = NULL;
  e->hash = hash;
  e->key_len = (uint32_t)at->key.len;
  e->space_len = (uint32_t)at->name_space.len;
  e->value_len = (uint32_t)value_len;
  e->state = (uint16_t)at->state;
  e->group = at->group;
  e->flags = 0;
  e->slack = (uint8_t)slack;
  if (at->key.len)
    memcpy(e->data, at->key.data, at->key.len);
  if (at->name_space.len)
    memcpy(e->data + e->key_len, at->name_space.data, at->name_space.len);
  e->next = t->buckets[hash & t->mask];
  t->buckets[hash & t->mask] = e;
  t->count++;
  t->bytes += size + slack;
  return e;
}

/* Make room for another length of the value; the entry may move. */
static sc_table_entry_t *resize(sc_table_t *t, sc_table_entry_t **l, size_t value_len) {
  sc_assert(value_len < UINT32_MAX);
  sc_table_entry_t *e = *l;
  size_t cap = (size_t)e->value_len + e->slack;
  if (value_len > cap || cap - value_len > UINT8_MAX) {
    size_t size = size_of(e) - cap + value_len;
    size_t slack = slack_for(size);
    t->bytes += size + slack - size_of(e);
    e = *l = sc_realloc(e, size + slack);
    cap = value_len + slack;
  }
  e->value_len = (uint32_t)value_len;
  e->slack = (uint8_t)(cap - value_len);
  return e;
}

sc_table_entry_t *sc_table_put(sc_table_t *t, const sc_address_t *at, uint32_t hash,
                               sc_bytes_t value) {
  sc_table_entry_t **l = find_link(t, at, hash);
  sc_table_entry_t *e = l ? resize(t, l, value.len) : insert(t, at, hash, value.len);
  if (value.len)
    memmove(e->data + e->key_len + e->space_len, value.data, value.len);
  e->flags = 0;
  return e;
}

sc_table_entry_t *sc_table_map(sc_table_t *t, const sc_address_t *at, uint32_t hash) {
  sc_table_entry_t *e = sc_table_find(t, at, hash);
  if (!e) {
    e = insert(t, at, hash, 0);
    e->map = sc_omap_create();
    t->n_maps++;
  }
  return e;
}

sc_omap_t *sc_table_detach(sc_table_t *t, const sc_address_t *at, uint32_t hash) {
  sc_table_entry_t **l = find_link(t, at, hash);
  if (!l)
    return NULL;
  sc_table_entry_t *e = *l;
  sc_omap_t *map = e->map;
  *l = e->next;
  t->count--;
  t->bytes -= size_of(e);
  if (map) {
    t->n_maps--;
    t->map_items -= sc_omap_count(map);
    t->bytes -= sc_omap_bytes(map);
  }
  free(e);
  return map;
}

bool sc_table_remove(sc_table_t *t, const sc_address_t *at, uint32_t hash) {
  size_t before = t->count;
  sc_omap_destroy(sc_table_detach(t, at, hash));
  return t->count != before;
}

sc_omap_entry_t *sc_table_map_put(sc_table_t *t, sc_table_entry_t *e, sc_bytes_t map_key,
                                  sc_bytes_t value) {
  t->map_items -= sc_omap_count(e->map);
  t->bytes -= sc_omap_bytes(e->map);
  sc_omap_entry_t *put = sc_omap_put(e->map, map_key, value);
  t->map_items += sc_omap_count(e->map);
  t->bytes += sc_omap_bytes(e->map);
  return put;
}

bool sc_table_map_remove(sc_table_t *t, sc_table_entry_t *e, sc_bytes_t map_key) {
  t->bytes -= sc_omap_bytes(e->map);
  bool removed = sc_omap_remove(e->map, map_key);
  t->bytes += sc_omap_bytes(e->map);
  t->map_items -= removed;
  return removed;
}

sc_table_entry_t *sc_table_scan(const sc_table_t *t, size_t *cursor, size_t buckets) {
  /* Old buckets come first: those below `moved` are empty, the rest stays while nobody inserts. */
  size_t n_old = t->old ? t->old_mask + 1 : 0;
  size_t end = t->count ? n_old + t->mask + 1 : 0;
  for (; buckets > 0 && *cursor < end; buckets--, ++*cursor) {
    size_t i = *cursor;
    sc_table_entry_t *e = i < n_old ? t->old[i] : t->buckets[i - n_old];
    if (e)
      return e;
  }
  if (*cursor >= end)
    *cursor = SC_TABLE_END;
  return NULL;
}

uint32_t sc_table_scan_ahead(const sc_table_t *t, size_t cursor, const sc_table_entry_t **out,
                             uint32_t max) {
  size_t n_old = t->old ? t->old_mask + 1 : 0;
  size_t end = t->count ? n_old + t->mask + 1 : 0;
  uint32_t n = 0;
  for (size_t i = cursor; i < end && i - cursor < 2 * (size_t)max && n < max; i++) {
    out[n] = i < n_old ? t->old[i] : t->buckets[i - n_old];
    n += out[n] != NULL;
  }
  return n;
}

size_t sc_table_count(const sc_table_t *t) { return t->count; }

uint64_t sc_table_items(const sc_table_t *t) { return t->count - t->n_maps + t->map_items; }

uint64_t sc_table_bytes(const sc_table_t *t) {
  size_t buckets = t->buckets ? t->mask + 1 : 0;
  return t->bytes + (buckets + (t->old ? t->old_mask + 1 : 0)) * sizeof *t->buckets;
}
