/*
 * ordered_map: byte-string keys in bytewise order, each with a byte-string value.
 *
 * For the entries of one map state and for timers: insert, find, remove, seek, walk. A skip list
 * (Pugh 1990) with at most 16 levels, one allocation an entry. Values may be replaced in place.
 *
 * Ownership: keys and values are copied in. Pointers handed out live until the next change of
 * that entry (or of the map, for iterators positioned by sc_omap_seek: use sc_omap_after).
 * Threads: one at a time; readers may share it while nobody writes (reading changes nothing).
 * Failure: none. Keys and values are shorter than 4 GiB, which is asserted.
 */
#ifndef SC_BASE_ORDERED_MAP_H
#define SC_BASE_ORDERED_MAP_H

#include "buf.h"

typedef struct sc_omap sc_omap_t;

typedef struct sc_omap_entry {
  struct sc_omap_entry *next; /* next in order; NULL at the end. Read only. */
  uint32_t key_len;           /* bytes of the key */
  uint32_t value_len;         /* bytes of the value */
  uint8_t flags;              /* the user's; 0 when made */
  uint8_t levels;             /* the map's: lists that the entry is in, at least 1 */
  uint32_t value_cap;         /* the map's: bytes that fit at `value` */
  uint8_t *value;             /* value_len bytes */
} sc_omap_entry_t;

sc_omap_t *sc_omap_create(void);
void sc_omap_destroy(sc_omap_t *map); /* NULL is fine */
sc_bytes_t sc_omap_key(const sc_omap_entry_t *e);
static inline sc_bytes_t sc_omap_value(const sc_omap_entry_t *e) {
  return (sc_bytes_t){e->value, e->value_len};
}

sc_omap_entry_t *sc_omap_find(const sc_omap_t *map, sc_bytes_t key);       /* or NULL */
/* Insert or replace; flags of a replaced entry are kept. Returns the entry. `value` may be the
 * entry's own, whole, but not a part of it. */
sc_omap_entry_t *sc_omap_put(sc_omap_t *map, sc_bytes_t key, sc_bytes_t value);
bool sc_omap_remove(sc_omap_t *map, sc_bytes_t key);                       /* was it there? */
void sc_omap_clear(sc_omap_t *map);
sc_omap_entry_t *sc_omap_first(const sc_omap_t *map);                      /* or NULL */
sc_omap_entry_t *sc_omap_seek(const sc_omap_t *map, sc_bytes_t key);       /* first with key >= */
sc_omap_entry_t *sc_omap_after(const sc_omap_t *map, sc_bytes_t key);      /* first with key > */
size_t sc_omap_count(const sc_omap_t *map);
size_t sc_omap_bytes(const sc_omap_t *map); /* memory of entries, roughly */

#endif
