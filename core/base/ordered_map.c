#include "ordered_map.h"

#include <stdlib.h>

#include "error.h"
#include "mem.h"

#define LEVELS_MAX 16

struct sc_omap {
  sc_omap_entry_t **head; /* first entry of each list, `height` of them */
  size_t count;           /* entries */
  size_t bytes;           /* allocated for entries */
  uint32_t seed;          /* of the coin that chooses levels; the same sequence in every map */
  uint32_t height;        /* lists in use; grows by one at most with an entry */
};

/* An entry is one allocation: the struct, links of the lists 1.., the key, the value. */
static sc_omap_entry_t **tower(const sc_omap_entry_t *e) {
  return (sc_omap_entry_t **)(void *)(uintptr_t)(e + 1);
}

static uint8_t *key_at(const sc_omap_entry_t *e) {
  return (uint8_t *)(tower(e) + (e->levels - 1));
}

static size_t entry_size(size_t levels, size_t key_len, size_t value_cap) {
  return sizeof(sc_omap_entry_t) + (levels - 1) * sizeof(sc_omap_entry_t *) + key_len + value_cap;
}

/* Room for the value such that malloc's own rounding (16 bytes, 8 of them its own) is used. */
static size_t value_room(size_t levels, size_t key_len, size_t value_len) {
  size_t size = entry_size(levels, key_len, value_len);
  size_t rounded = ((size + 8 + 15) & ~(size_t)15) - 8;
  return value_len + (rounded - size);
}

/* The link to what follows `e` (NULL: the head) in list `level`. */
static sc_omap_entry_t **link_at(const sc_omap_t *map, sc_omap_entry_t *e, uint32_t level) {
  if (!e)
    return &map->head[level];
  return level == 0 ? &e->next : &tower(e)[level - 1];
}

sc_bytes_t sc_omap_key(const sc_omap_entry_t *e) { return sc_bytes(key_at(e), e->key_len); }

sc_omap_t *sc_omap_create(void) {
  sc_omap_t *map = sc_calloc(1, sizeof *map);
  map->seed = 0x9E3779B9u;
  return map;
}

void sc_omap_destroy(sc_omap_t *map) {
  if (!map)
    return;
  sc_omap_clear(map);
  free(map->head);
  free(map);
}

void sc_omap_clear(sc_omap_t *map) {
  sc_omap_entry_t *e = sc_omap_first(map);
  while (e) {
    sc_omap_entry_t *next = e->next;
    free(e);
    e = next;
  }
  for (uint32_t level = 0; level < map->height; level++)
    map->head[level] = NULL;
  map->count = 0;
  map->bytes = 0;
}

/* First entry whose key is >= `key` (with `past`: > `key`). Where `links` is given it gets, for
 * each list in use, the link that leads to the first such entry. */
static sc_omap_entry_t *search(const sc_omap_t *map, sc_bytes_t key, bool past,
                               sc_omap_entry_t ***links) {
  sc_omap_entry_t *before = NULL, *at = NULL;
  for (uint32_t level = map->height; level-- > 0;) {
    sc_omap_entry_t *known = at; /* compared in the list above: it does not come before the key */
    for (at = *link_at(map, before, level); at && at != known;) {
      int order = sc_bytes_compare(sc_omap_key(at), key);
      if (order > 0 || (order == 0 && !past))
        break;
      before = at;
      at = *link_at(map, at, level);
    }
    if (links)
      links[level] = link_at(map, before, level);
  }
  return at;
}

static bool is(const sc_omap_entry_t *e, sc_bytes_t key) {
  return e && sc_bytes_equal(sc_omap_key(e), key);
}

sc_omap_entry_t *sc_omap_find(const sc_omap_t *map, sc_bytes_t key) {
  sc_omap_entry_t *e = search(map, key, false, NULL);
  return is(e, key) ? e : NULL;
}

/* One list for all, each further one for a quarter of the entries of the one below. */
static uint32_t draw_levels(sc_omap_t *map) {
  uint32_t x = map->seed;
  x ^= x << 13;
  x ^= x >> 17;
  x ^= x << 5;
  map->seed = x;
  uint32_t levels = 1;
  while (levels < LEVELS_MAX && levels <= map->height && (x & 3) == 0) {
    levels++;
    x >>= 2;
  }
  return levels;
}

static void store_value(sc_omap_entry_t *e, sc_bytes_t value) {
  if (value.len)
    memmove(e->value, value.data, value.len);
  e->value_len = (uint32_t)value.len;
}

static sc_omap_entry_t *replace(sc_omap_t *map, sc_omap_entry_t *e, sc_bytes_t value,
                                sc_omap_entry_t ***links) {
  if (value.len > e->value_cap) {
    size_t room = value_room(e->levels, e->key_len, value.len);
    map->bytes += room - e->value_cap;
    e = sc_realloc(e, entry_size(e->levels, e->key_len, room));
    e->value_cap = (uint32_t)room;
    e->value = key_at(e) + e->key_len;
    for (uint32_t level = 0; level < e->levels; level++)
      *links[level] = e;
  }
  store_value(e, value);
  return e;
}

sc_omap_entry_t *sc_omap_put(sc_omap_t *map, sc_bytes_t key, sc_bytes_t value) {
  sc_assert(key.len < UINT32_MAX - 64 && value.len < UINT32_MAX - 64);
  sc_omap_entry_t **links[LEVELS_MAX];
  sc_omap_entry_t *e = search(map, key, false, links);
  if (is(e, key))
    return replace(map, e, value, links);
  uint32_t levels = draw_levels(map);
  if (levels > map->height) {
    /* The heads may move, and links into them with them: they are searched again. */
    map->head = sc_realloc(map->head, levels * sizeof *map->head);
    while (map->height < levels)
      map->head[map->height++] = NULL;
    search(map, key, false, links);
  }
  size_t room = value_room(levels, key.len, value.len);
  e = sc_malloc(entry_size(levels, key.len, room));
  *e = (sc_omap_entry_t){.key_len = (uint32_t)key.len, .levels = (uint8_t)levels,
                         .value_cap = (uint32_t)room};
  if (key.len)
    memcpy(key_at(e), key.data, key.len);
  e->value = key_at(e) + key.len;
  store_value(e, value);
  for (uint32_t level = 0; level < levels; level++) {
    *link_at(map, e, level) = *links[level];
    *links[level] = e;
  }
  map->count++;
  map->bytes += entry_size(levels, key.len, room);
  return e;
}

bool sc_omap_remove(sc_omap_t *map, sc_bytes_t key) {
  sc_omap_entry_t **links[LEVELS_MAX];
  sc_omap_entry_t *e = search(map, key, false, links);
  if (!is(e, key))
    return false;
  for (uint32_t level = 0; level < e->levels; level++)
    *links[level] = *link_at(map, e, level);
  map->count--;
  map->bytes -= entry_size(e->levels, e->key_len, e->value_cap);
  free(e);
  return true;
}

sc_omap_entry_t *sc_omap_first(const sc_omap_t *map) { return map->height ? map->head[0] : NULL; }

sc_omap_entry_t *sc_omap_seek(const sc_omap_t *map, sc_bytes_t key) {
  return search(map, key, false, NULL);
}

sc_omap_entry_t *sc_omap_after(const sc_omap_t *map, sc_bytes_t key) {
  return search(map, key, true, NULL);
}

size_t sc_omap_count(const sc_omap_t *map) { return map->count; }

size_t sc_omap_bytes(const sc_omap_t *map) { return map->bytes; }
