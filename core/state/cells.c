#include "cells.h"

#include <stdlib.h>

#include "../base/error.h"
#include "../base/mem.h"

#define BUCKETS_MIN 8
#define BUCKETS_MOVED 8 /* old buckets that an insertion or a removal moves */
#define ROOM_MAX 0x7fff /* unused bytes that a cell can say of itself */
#define ROOM_LEAST 64   /* a value that leaves more unused, and more than it needs, moves */
#define BLOCK_SLOTS 254
#define GIVEN_AHEAD 16  /* slots that are fetched from memory before their turn to be given back */

struct sc_cell_block {
  sc_cell_block_t *next;        /* of the list */
  uint32_t n;                   /* slots that are here, at least 1 */
  sc_slot_t *slots[BLOCK_SLOTS];
};

sc_cells_t *sc_cells_create(sc_pages_t *source) {
  sc_cells_t *c = sc_calloc(1, sizeof *c);
  sc_slab_init(&c->slab, source);
  return c;
}

static void give_buckets(sc_cells_t *c, uint64_t *buckets, size_t mask) {
  size_t bytes = (mask + 1) * sizeof *buckets;
  if (!sc_pages_for_array(bytes))
    free(buckets);
  else if (buckets)
    sc_pages_array_give(c->slab.source, buckets, bytes);
}

void sc_cells_destroy(sc_cells_t *c) {
  if (!c)
    return;
  give_buckets(c, c->buckets, c->mask);
  give_buckets(c, c->old, c->old_mask);
  sc_slab_fini(&c->slab);
  free(c);
}

/* --- one cell --- */

static size_t spaced(const sc_cell_t *e) { return e->room & SC_CELL_SPACED ? 4 : 0; }

static size_t space_len(const sc_cell_t *e) { return spaced(e) ? sc_load_u32(e->data) : 0; }

sc_bytes_t sc_cell_key(const sc_cell_t *e) { return sc_bytes(e->data + spaced(e), e->key_len); }

sc_bytes_t sc_cell_space(const sc_cell_t *e) {
  return sc_bytes(e->data + spaced(e) + e->key_len, space_len(e));
}

static size_t value_at(const sc_cell_t *e) { return spaced(e) + e->key_len + space_len(e); }

sc_bytes_t sc_cell_value(const sc_cell_t *e) {
  return sc_bytes(e->data + value_at(e), e->value_len);
}

static inline bool is(const sc_cell_t *e, const sc_address_t *at, uint32_t hash) {
  return e->hash == hash && e->state == at->state && sc_bytes_equal(sc_cell_key(e), at->key) &&
         sc_bytes_equal(sc_cell_space(e), at->name_space);
}

/* --- the table --- */

/* What a bucket holds: nothing (0), GONE, or a slot's address with 16 bits of its hash above, by
 * which nearly every look at a cell that is another's is saved. Addresses of a process have at most
 * 48 bits where the engine runs; bucket_of asserts it. */
#define GONE 1
#define ADDRESS_BITS 48

static inline uint64_t tag_of(uint32_t hash) { return (uint64_t)(hash >> 16) << ADDRESS_BITS; }

static inline sc_cell_t *cell_in(uint64_t bucket) {
  return (sc_cell_t *)(uintptr_t)(bucket & (((uint64_t)1 << ADDRESS_BITS) - 1));
}

static inline uint64_t bucket_of(const sc_cell_t *e, uint32_t hash) {
  sc_assert((uint64_t)(uintptr_t)e >> ADDRESS_BITS == 0);
  return tag_of(hash) | (uintptr_t)e;
}

static inline bool taken(uint64_t bucket) { return bucket > GONE; }

/* The bucket of an address, or NULL; buckets follow each other from its hash on, up to an empty
 * one, of which there always are some. */
static inline uint64_t *find_in(uint64_t *buckets, size_t mask, const sc_address_t *at,
                                uint32_t hash) {
  for (size_t i = hash & mask; buckets[i]; i = (i + 1) & mask)
    if (((buckets[i] ^ tag_of(hash)) >> ADDRESS_BITS) == 0 && taken(buckets[i]) &&
        is(cell_in(buckets[i]), at, hash))
      return &buckets[i];
  return NULL;
}

static inline uint64_t *find(const sc_cells_t *c, const sc_address_t *at, uint32_t hash) {
  if (!c->buckets)
    return NULL;
  uint64_t *found = find_in(c->buckets, c->mask, at, hash);
  return found || !c->old ? found : find_in(c->old, c->old_mask, at, hash);
}

const sc_cell_t *sc_cells_find(sc_cells_t *c, const sc_address_t *at, uint32_t hash) {
  const uint64_t *found = find(c, at, hash);
  if (!found)
    return NULL;
  return c->last = cell_in(*found);
}

/* A small cell lies in one line of the cache or in two. */
static void fetch_cell(const sc_cell_t *e) {
  __builtin_prefetch(e);
  __builtin_prefetch((const uint8_t *)e + offsetof(sc_cell_t, data) + 16);
}

/* The cell that the buckets have for a hash, or NULL: most likely the one that is wanted. */
static inline const sc_cell_t *likely_in(const uint64_t *buckets, size_t mask, uint32_t hash) {
  size_t i = hash & mask;
  while (buckets[i] && (buckets[i] ^ tag_of(hash)) >> ADDRESS_BITS)
    i = (i + 1) & mask;
  return taken(buckets[i]) ? cell_in(buckets[i]) : NULL;
}

void sc_cells_fetch(const sc_cells_t *c, uint32_t hash, sc_fetch_t what) {
  if (!c->buckets)
    return;
  if (what == SC_FETCH_BUCKET) {
    __builtin_prefetch(&c->buckets[hash & c->mask]);
    if (c->old)
      __builtin_prefetch(&c->old[hash & c->old_mask]);
  } else if (what == SC_FETCH_FIRST) {
    const sc_cell_t *e = likely_in(c->buckets, c->mask, hash);
    if (!e && c->old)
      e = likely_in(c->old, c->old_mask, hash);
    if (e)
      fetch_cell(e);
  }
}

/* In a bucket that is empty: one that is GONE would not be counted once more. */
static void enter(sc_cells_t *c, sc_cell_t *e) {
  size_t i = e->hash & c->mask;
  while (c->buckets[i])
    i = (i + 1) & c->mask;
  c->buckets[i] = bucket_of(e, e->hash);
  c->used++;
}

/* What the next move will look at: the cells, which are somewhere in memory, and the buckets that
 * these go to. The table is new and nobody has been there. */
static void fetch_next_move(const sc_cells_t *c) {
  size_t first = c->moved;
  if (!c->old || first + BUCKETS_MOVED > c->old_mask)
    return;
  for (size_t i = 0; i < BUCKETS_MOVED; i++)
    if (taken(c->old[first + i]))
      __builtin_prefetch(cell_in(c->old[first + i]));
  __builtin_prefetch(&c->buckets[first], 1);
  __builtin_prefetch(&c->buckets[(first + c->old_mask + 1) & c->mask], 1);
}

/* Move up to `n` old buckets to where they belong now, which the cell says. */
static void move_buckets(sc_cells_t *c, size_t n) {
  for (; c->old && n > 0; n--) {
    uint64_t *bucket = &c->old[c->moved];
    if (taken(*bucket)) {
      enter(c, cell_in(*bucket));
      *bucket = GONE; /* others may lie behind it */
    }
    if (c->moved++ == c->old_mask) {
      give_buckets(c, c->old, c->old_mask);
      c->old = NULL;
    }
  }
  fetch_next_move(c);
}

/* Buckets for one cell more: twice as many, or as many where a good part is only GONE. The move of
 * the old ones has ended long before the new ones are used up. */
static void make_room(sc_cells_t *c) {
  size_t n = c->buckets ? c->mask + 1 : 0;
  if (4 * (c->used + 1) > 3 * n) {
    move_buckets(c, SIZE_MAX);
    c->old = c->buckets;
    c->old_mask = c->mask;
    c->moved = 0;
    n = n == 0 ? BUCKETS_MIN : 8 * c->count > 3 * n ? 2 * n : n;
    size_t bytes = n * sizeof *c->buckets;
    c->buckets = sc_pages_for_array(bytes) ? sc_pages_array(c->slab.source, bytes)
                                           : sc_calloc(1, bytes);
    c->mask = n - 1;
    c->used = 0;
  }
  move_buckets(c, BUCKETS_MOVED);
}

/* --- changes --- */

static inline void set_value(sc_cell_t *e, sc_bytes_t value, size_t room) {
  uint8_t *to = e->data + value_at(e);
  sc_bytes_move(to, value);
  e->value_len = (uint32_t)value.len;
  room -= value.len;
  e->room = (uint16_t)((e->room & SC_CELL_SPACED) | (room > ROOM_MAX ? ROOM_MAX : room));
}

static sc_cell_t *new_cell(sc_cells_t *c, const sc_address_t *at, uint32_t hash,
                           sc_bytes_t value) {
  sc_assert(at->key.len < UINT32_MAX && at->name_space.len < UINT32_MAX && value.len < UINT32_MAX);
  size_t head = offsetof(sc_cell_t, data) + at->key.len;
  if (at->name_space.len)
    head += 4 + at->name_space.len;
  size_t size;
  sc_cell_t *e = (sc_cell_t *)sc_slab_take(&c->slab, head + value.len, &size);
  e->hash = hash;
  e->state = (uint16_t)at->state;
  e->key_len = (uint32_t)at->key.len;
  e->room = at->name_space.len ? SC_CELL_SPACED : 0;
  uint8_t *to = e->data;
  if (at->name_space.len) {
    sc_store_u32(to, (uint32_t)at->name_space.len);
    to += 4;
  }
  sc_bytes_move(to, at->key);
  sc_bytes_move(to + at->key.len, at->name_space);
  set_value(e, value, size - head);
  return e;
}

static void add_to(sc_cell_list_t *list, sc_slot_t *slot) {
  sc_cell_block_t *b = list->first;
  if (!b || b->n == BLOCK_SLOTS) {
    b = sc_malloc(sizeof *b);
    b->next = list->first;
    b->n = 0;
    list->first = b;
    if (!list->last)
      list->last = b;
  }
  b->slots[b->n++] = slot;
}

/* Nobody finds it in the table any more. */
static void leave(sc_cells_t *c, sc_cell_t *cell, const sc_cells_guard_t *guard) {
  c->last = NULL;
  sc_slot_t *old = &cell->slot;
  if (sc_slab_born(old) > guard->keep) {
    sc_slab_give(old, guard->walked);
    return;
  }
  add_to(guard->kept, old);
}

bool sc_cells_overwrite(const sc_cell_t *cell, sc_bytes_t value, const sc_cells_guard_t *guard) {
  sc_cell_t *e = (sc_cell_t *)(uintptr_t)cell;
  size_t room = (size_t)e->value_len + (e->room & ROOM_MAX), unused = room - value.len;
  bool fits = value.len <= room && (unused <= ROOM_LEAST || unused <= value_at(e) + value.len);
  if (!fits || sc_slab_born(&e->slot) <= guard->keep)
    return false;
  set_value(e, value, room);
  return true;
}

/* The bucket of a cell that is in the table. */
static uint64_t *bucket_with(const sc_cells_t *c, const sc_cell_t *e) {
  for (size_t i = e->hash & c->mask; c->buckets[i]; i = (i + 1) & c->mask)
    if (cell_in(c->buckets[i]) == e)
      return &c->buckets[i];
  size_t i = e->hash & c->old_mask;
  while (cell_in(c->old[i]) != e)
    i = (i + 1) & c->old_mask;
  return &c->old[i];
}

void sc_cells_renew(sc_cells_t *c, const sc_cell_t *cell, const sc_address_t *at, uint32_t hash,
                    sc_bytes_t value, const sc_cells_guard_t *guard) {
  sc_cell_t *old = (sc_cell_t *)(uintptr_t)cell;
  sc_cell_t *e = new_cell(c, at, hash, value); /* first: the value may be the old cell's */
  if (old) {
    *bucket_with(c, old) = bucket_of(e, hash);
    leave(c, old, guard);
  } else {
    make_room(c);
    enter(c, e);
    c->count++;
  }
  sc_slab_publish(&e->slot, guard->epoch);
}

void sc_cells_put(sc_cells_t *c, const sc_address_t *at, uint32_t hash, sc_bytes_t value,
                  const sc_cells_guard_t *guard) {
  const sc_cell_t *last = c->last; /* most values are read before they are written */
  const sc_cell_t *e = last && is(last, at, hash) ? last : sc_cells_find(c, at, hash);
  if (!e || !sc_cells_overwrite(e, value, guard))
    sc_cells_renew(c, e, at, hash, value, guard);
}

void sc_cells_remove(sc_cells_t *c, const sc_address_t *at, uint32_t hash,
                     const sc_cells_guard_t *guard) {
  uint64_t *found = find(c, at, hash);
  if (!found)
    return;
  leave(c, cell_in(*found), guard);
  *found = GONE;
  c->count--;
  move_buckets(c, BUCKETS_MOVED); /* no growth is left undone by whoever only removes */
}

/* --- kept cells --- */

void sc_cell_list_join(sc_cell_list_t *to, sc_cell_list_t *from) {
  if (!from->first)
    return;
  from->last->next = to->first;
  to->first = from->first;
  if (!to->last)
    to->last = from->last;
  *from = (sc_cell_list_t){NULL, NULL};
}

int sc_cell_list_give(sc_cell_list_t *list, int budget) {
  while (list->first && budget > 0) {
    sc_cell_block_t *b = list->first;
    for (; b->n > 0 && budget > 0; budget--) {
      b->n--;
      if (b->n >= GIVEN_AHEAD)
        __builtin_prefetch(b->slots[b->n - GIVEN_AHEAD], 1);
      sc_slab_give(b->slots[b->n], false);
    }
    if (b->n > 0)
      break;
    list->first = b->next;
    if (!list->first)
      list->last = NULL;
    free(b);
  }
  return budget;
}

void sc_cell_list_fini(sc_cell_list_t *list) {
  for (sc_cell_block_t *b = list->first, *next; b; b = next) {
    next = b->next;
    free(b);
  }
}

uint64_t sc_cells_bytes(const sc_cells_t *c) {
  size_t buckets = (c->buckets ? c->mask + 1 : 0) + (c->old ? c->old_mask + 1 : 0);
  return sizeof *c + c->slab.bytes + buckets * sizeof *c->buckets;
}
