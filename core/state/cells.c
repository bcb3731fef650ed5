#include "cells.h"

#include <stdlib.h>

#include "../base/error.h"
#include "../base/mem.h"

#define BUCKETS_MIN 8
#define BUCKETS_MOVED 4 /* old buckets that an insertion moves */
#define ROOM_MAX 0x7fff /* unused bytes that a cell can say of itself */
#define ROOM_LEAST 64   /* a value that leaves more unused, and more than it needs, moves */

sc_cells_t *sc_cells_create(void) {
  sc_cells_t *c = sc_calloc(1, sizeof *c);
  sc_slab_init(&c->slab);
  return c;
}

void sc_cells_destroy(sc_cells_t *c) {
  if (!c)
    return;
  free(c->buckets);
  free(c->old);
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

static bool is(const sc_cell_t *e, const sc_address_t *at, uint32_t hash) {
  return e->hash == hash && e->state == at->state && sc_bytes_equal(sc_cell_key(e), at->key) &&
         sc_bytes_equal(sc_cell_space(e), at->name_space);
}

/* --- the table --- */

static sc_cell_t *cell_of(sc_slot_t *slot) { return (sc_cell_t *)slot; }

/* The link in which the cell hangs, or NULL. */
static sc_slot_t **find_link(const sc_cells_t *c, const sc_address_t *at, uint32_t hash) {
  if (!c->buckets)
    return NULL;
  for (sc_slot_t **l = &c->buckets[hash & c->mask]; *l; l = &(*l)->next)
    if (is(cell_of(*l), at, hash))
      return l;
  if (c->old)
    for (sc_slot_t **l = &c->old[hash & c->old_mask]; *l; l = &(*l)->next)
      if (is(cell_of(*l), at, hash))
        return l;
  return NULL;
}

const sc_cell_t *sc_cells_find(const sc_cells_t *c, const sc_address_t *at, uint32_t hash) {
  sc_slot_t **l = find_link(c, at, hash);
  return l ? cell_of(*l) : NULL;
}

/* A small cell lies in one line of the cache or in two. */
static void fetch_cell(const sc_slot_t *slot) {
  __builtin_prefetch(slot);
  __builtin_prefetch((const uint8_t *)slot + offsetof(sc_cell_t, data) + 8);
}

void sc_cells_fetch(const sc_cells_t *c, uint32_t hash, sc_fetch_t what) {
  if (!c->buckets)
    return;
  sc_slot_t *const *bucket = &c->buckets[hash & c->mask];
  if (what == SC_FETCH_BUCKET)
    __builtin_prefetch(bucket);
  else if (*bucket && what == SC_FETCH_FIRST)
    fetch_cell(*bucket);
  else if (*bucket && cell_of(*bucket)->hash != hash && (*bucket)->next)
    fetch_cell((*bucket)->next);
}

/* Move up to `n` old buckets to where they belong now. */
static void move_buckets(sc_cells_t *c, size_t n) {
  for (; c->old && n > 0; n--) {
    for (sc_slot_t *e = c->old[c->moved], *next; e; e = next) {
      next = e->next;
      e->next = c->buckets[cell_of(e)->hash & c->mask];
      c->buckets[cell_of(e)->hash & c->mask] = e;
    }
    c->old[c->moved] = NULL;
    if (c->moved++ == c->old_mask) {
      free(c->old);
      c->old = NULL;
    }
  }
}

static void grow(sc_cells_t *c) {
  move_buckets(c, SIZE_MAX);
  c->old = c->buckets;
  c->old_mask = c->mask;
  c->moved = 0;
  size_t n = c->buckets ? (c->mask + 1) * 2 : BUCKETS_MIN;
  c->buckets = sc_calloc(n, sizeof *c->buckets);
  c->mask = n - 1;
}

/* --- changes --- */

static void set_value(sc_cell_t *e, sc_bytes_t value, size_t room) {
  if (value.len)
    memmove(e->data + value_at(e), value.data, value.len);
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
  sc_cell_t *e = cell_of(sc_slab_take(&c->slab, head + value.len, &size));
  e->hash = hash;
  e->state = (uint16_t)at->state;
  e->key_len = (uint32_t)at->key.len;
  e->room = at->name_space.len ? SC_CELL_SPACED : 0;
  uint8_t *to = e->data;
  if (at->name_space.len) {
    sc_store_u32(to, (uint32_t)at->name_space.len);
    to += 4;
  }
  if (at->key.len)
    memcpy(to, at->key.data, at->key.len);
  if (at->name_space.len)
    memcpy(to + at->key.len, at->name_space.data, at->name_space.len);
  set_value(e, value, size - head);
  return e;
}

/* Nobody finds it in the table any more. */
static void leave(sc_slot_t *old, const sc_cells_guard_t *guard) {
  if (sc_slab_born(old) > guard->keep) {
    sc_slab_give(old, guard->walked);
    return;
  }
  old->next = guard->kept->first;
  guard->kept->first = old;
  if (!guard->kept->last)
    guard->kept->last = old;
}

/* May a value of that length stand where this cell's value does? */
static bool fits(const sc_cell_t *e, size_t len, size_t *room) {
  *room = (size_t)e->value_len + (e->room & ROOM_MAX);
  return len <= *room && (*room - len <= ROOM_LEAST || *room - len <= value_at(e) + len);
}

void sc_cells_put(sc_cells_t *c, const sc_address_t *at, uint32_t hash, sc_bytes_t value,
                  const sc_cells_guard_t *guard) {
  sc_slot_t **l = find_link(c, at, hash);
  size_t room;
  if (l && sc_slab_born(*l) > guard->keep && fits(cell_of(*l), value.len, &room)) {
    set_value(cell_of(*l), value, room);
    return;
  }
  sc_slot_t *e = &new_cell(c, at, hash, value)->slot; /* first: the value may be the old cell's */
  if (l) {
    sc_slot_t *old = *l;
    e->next = old->next;
    *l = e;
    leave(old, guard);
  } else {
    if (!c->buckets || c->count > c->mask)
      grow(c);
    move_buckets(c, BUCKETS_MOVED);
    e->next = c->buckets[hash & c->mask];
    c->buckets[hash & c->mask] = e;
    c->count++;
  }
  sc_slab_publish(e, guard->epoch);
}

void sc_cells_remove(sc_cells_t *c, const sc_address_t *at, uint32_t hash,
                     const sc_cells_guard_t *guard) {
  sc_slot_t **l = find_link(c, at, hash);
  if (!l)
    return;
  sc_slot_t *old = *l;
  *l = old->next;
  c->count--;
  leave(old, guard);
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
  for (; list->first && budget > 0; budget--) {
    sc_slot_t *slot = list->first;
    list->first = slot->next;
    if (list->first)
      __builtin_prefetch(list->first);
    else
      list->last = NULL;
    sc_slab_give(slot, false);
  }
  return budget;
}

uint64_t sc_cells_bytes(const sc_cells_t *c) {
  size_t buckets = (c->buckets ? c->mask + 1 : 0) + (c->old ? c->old_mask + 1 : 0);
  return sizeof *c + c->slab.bytes + buckets * sizeof *c->buckets;
}
