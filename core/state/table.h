/*
 * table: a hash table of state entries, addressed by (state, group, key, namespace).
 *
 * An entry is one value, or one map: an ordered map of (map key, value). The base of the heap
 * backend has one table per key group; a delta is one table over all groups, whose flags mark
 * removals. One allocation holds an entry with key, namespace and value and a few bytes of slack;
 * a small counter costs about 56 bytes beside its key, buckets included.
 *
 * The table grows step by step: an insertion moves a few buckets, so that no single write pays for
 * the whole. Look-ups change nothing, so any number of threads may read while nobody writes.
 *
 * Ownership: everything given is copied in; entries live until they are removed, and an entry may
 * move when its value is replaced. Threads: one writer, or any readers. Failure: none (mem.h).
 */
#ifndef SC_STATE_TABLE_H
#define SC_STATE_TABLE_H

#include "../base/hash.h"
#include "../base/ordered_map.h"
#include "backend.h"

/* Flags of entries; only deltas use them. An ordered map's entry that is a tombstone carries
 * SC_ENTRY_TOMBSTONE in its own flags. */
enum {
  SC_ENTRY_TOMBSTONE = 1, /* the value was removed */
  SC_ENTRY_CLEARED = 2    /* the map was cleared before what it holds here */
};

typedef struct sc_table_entry {
  struct sc_table_entry *next; /* of the same bucket */
  sc_omap_t *map;              /* of a map state, else NULL; change it by sc_table_map_* only */
  uint32_t hash;               /* of the address */
  uint32_t key_len;            /* bytes of the key */
  uint32_t space_len;          /* bytes of the namespace */
  uint32_t value_len;          /* bytes of the value */
  uint16_t state;              /* index of the state in its window */
  uint16_t group;              /* key group */
  uint8_t flags;               /* SC_ENTRY_* */
  uint8_t slack;               /* unused bytes behind the value */
  uint8_t data[];              /* key, namespace, value */
} sc_table_entry_t;

typedef struct sc_table sc_table_t;

sc_table_t *sc_table_create(void);
void sc_table_destroy(sc_table_t *t); /* NULL is fine */

/* Hash of an address; computed once and handed to each table that is asked. */
static inline uint32_t sc_table_hash(const sc_address_t *at) {
  uint64_t h = at->key_hash ? at->key_hash : sc_hash(at->key);
  h ^= ((uint64_t)at->state << 16 | at->group) * 0x9E3779B97F4A7C15u;
  if (at->name_space.len)
    h = (h ^ sc_hash(at->name_space)) * 0xC2B2AE3D27D4EB4Fu;
  return (uint32_t)(h ^ h >> 32);
}
sc_table_entry_t *sc_table_find(const sc_table_t *t, const sc_address_t *at, uint32_t hash);
/* Bring nearer from memory what a find with that hash will look at, one step after another, each
 * when the one before has had time to come: its bucket, the first entry there, and the second one
 * where the first has another hash. */
typedef enum { SC_FETCH_BUCKET, SC_FETCH_FIRST, SC_FETCH_SECOND } sc_fetch_t;
void sc_table_fetch(const sc_table_t *t, uint32_t hash, sc_fetch_t what);
void sc_table_fetch_entry(const sc_table_entry_t *e);
/* Insert or replace a value; flags become 0. `value` may be the entry's own, whole, but not a part
 * of it. */
sc_table_entry_t *sc_table_put(sc_table_t *t, const sc_address_t *at, uint32_t hash,
                               sc_bytes_t value);
/* Find a map, or make an empty one. */
sc_table_entry_t *sc_table_map(sc_table_t *t, const sc_address_t *at, uint32_t hash);
/* Remove a value or a whole map: was it there? */
bool sc_table_remove(sc_table_t *t, const sc_address_t *at, uint32_t hash);
/* Remove a map, but hand its ordered map to the caller; NULL where there is none. */
sc_omap_t *sc_table_detach(sc_table_t *t, const sc_address_t *at, uint32_t hash);

/* One entry of a map of this table. An emptied map stays until sc_table_remove. */
sc_omap_entry_t *sc_table_map_put(sc_table_t *t, sc_table_entry_t *e, sc_bytes_t map_key,
                                  sc_bytes_t value);
bool sc_table_map_remove(sc_table_t *t, sc_table_entry_t *e, sc_bytes_t map_key);

/* The first entry at or behind bucket *cursor, of at most `buckets` buckets; NULL when there is
 * none, with *cursor where to go on; at the end *cursor is SC_TABLE_END. The cursor (from 0) stays
 * right while entries are removed, and never goes back; not across insertions. */
#define SC_TABLE_END SIZE_MAX
sc_table_entry_t *sc_table_scan(const sc_table_t *t, size_t *cursor, size_t buckets);

/* The first entries of the next buckets that sc_table_scan will come to, at most `max`. */
uint32_t sc_table_scan_ahead(const sc_table_t *t, size_t cursor, const sc_table_entry_t **out,
                             uint32_t max);

sc_bytes_t sc_table_key(const sc_table_entry_t *e);
sc_bytes_t sc_table_space(const sc_table_entry_t *e);
sc_bytes_t sc_table_value(const sc_table_entry_t *e);
/* Address of an entry, borrowed from it. */
sc_address_t sc_table_address(const sc_table_entry_t *e);

size_t sc_table_count(const sc_table_t *t);  /* entries; a map is one */
uint64_t sc_table_items(const sc_table_t *t); /* values and entries of maps */
uint64_t sc_table_bytes(const sc_table_t *t); /* memory, roughly */

#endif
