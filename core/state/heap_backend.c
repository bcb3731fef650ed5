/*
 * heap_backend: keyed state in memory. A window is layered, newest first:
 *
 *   deltas[n - 1]   active: takes the writes
 *   ...             frozen: each the end of one cut (or of one that was aborted)
 *   deltas[0]       the oldest; it is folded into the base next
 *   groups          the base
 *
 * A cut (checkpoint) is "the base and all deltas up to `newest`"; where newest is NULL, the base.
 *
 * (I1) While a cut is the base, the base is locked: nothing writes to it, the pool may read it.
 * (I2) A locked base has a delta above it: freezing makes one.
 * (I3) At most one cut is the base, and it is the oldest: each freeze ends a delta of its own, and
 *      a delta leaves only while the base is not locked.
 * (I4) Where the active delta is the only one and the base is not locked, it takes no new entries:
 *      a write brings its key home, out of the delta, and goes to the base.
 * (I5) A live iterator's layers do not change: what would change them first lets it copy the rest.
 *
 * What the pool touches while it writes snapshot n: the snapshot's own struct, the window's uid and
 * range, names of states (never changed once declared), and the base.
 */
#include "backend.h"

#include <inttypes.h>
#include <stdlib.h>

#include "../base/mem.h"
#include "delta.h"
#include "groups.h"
#include "map_merge.h"

#define STATES_MAX 65535
#define LENGTH_MAX (UINT32_MAX - 65536) /* of a key or a value */

typedef struct heap heap_t;

typedef struct state {
  char *name;           /* unique in the window */
  sc_state_kind_t kind; /* as declared or restored */
  bool declared;        /* false: only a restore brought it */
} state_t;

struct sc_keyed_snapshot {
  sc_keyed_snapshot_t *next;     /* the next newer cut, or NULL */
  heap_t *heap;                  /* the window */
  uint64_t id;                   /* checkpoint */
  sc_delta_t *newest;            /* last delta of the cut; NULL: the cut is the base */
  bool writing;                  /* handed out by ready, not yet done */
  uint32_t n_states;             /* that existed at the freeze */
  sc_keyed_file_state_t *states; /* of them, by name; filled by ready */
  uint16_t *ranks;               /* where each state of the window is in `states` */
};

struct sc_map_iterator {
  heap_t *heap;            /* the window */
  sc_map_iterator_t *next; /* other live iterators */
  int state;               /* of the map */
  uint32_t hash;           /* of the map's address; equal ones count as the same map */
  bool copied;             /* the rest is in `rest`, no longer in the layers */
  sc_map_merge_t merge;    /* the map's layers */
  sc_buf_t rest;           /* (u32 length, map key, u32 length, value) again and again */
  size_t at;               /* where in rest it is */
};

struct heap {
  sc_keyed_t keyed;             /* first: the window is one */
  char *uid;                    /* of the operator, for files and messages */
  state_t *states;              /* n_states; only ever more */
  uint32_t n_states;
  uint32_t cap_states;
  sc_groups_t *groups;          /* the base */
  sc_delta_t **deltas;          /* oldest first; the last one is active */
  uint32_t n_deltas;
  uint32_t cap_deltas;
  sc_keyed_snapshot_t *cuts;    /* oldest first */
  sc_map_iterator_t *iterators; /* live ones */
};

static heap_t *heap_of(sc_keyed_t *k) { return (heap_t *)k; }

/* --- states --- */

static bool is_map_kind(sc_state_kind_t kind) {
  return kind == SC_STATE_MAP || kind == SC_STATE_TIMERS;
}

static const char *kind_name(sc_state_kind_t kind) {
  switch (kind) {
  case SC_STATE_VALUE: return "value";
  case SC_STATE_LIST: return "list";
  case SC_STATE_MAP: return "map";
  case SC_STATE_REDUCING: return "reducing";
  case SC_STATE_AGGREGATING: return "aggregating";
  case SC_STATE_TIMERS: return "timers";
  }
  return "unknown";
}

static int find_state(const heap_t *h, const char *name) {
  for (uint32_t i = 0; i < h->n_states; i++)
    if (strcmp(h->states[i].name, name) == 0)
      return (int)i;
  return -1;
}

static int add_state(heap_t *h, const char *name, sc_state_kind_t kind, bool declared,
                     sc_error_t *err) {
  if (h->n_states == STATES_MAX)
    return sc_fail(err, SC_ELIMIT, "operator \"%s\" has more than %d states", h->uid, STATES_MAX);
  if (h->n_states == h->cap_states) {
    h->cap_states = h->cap_states ? h->cap_states * 2 : 4;
    h->states = sc_realloc(h->states, h->cap_states * sizeof *h->states);
  }
  h->states[h->n_states] = (state_t){sc_strdup(name), kind, declared};
  return (int)h->n_states++;
}

static int heap_declare(sc_keyed_t *k, const sc_state_descriptor_t *d, sc_error_t *err) {
  heap_t *h = heap_of(k);
  int i = find_state(h, d->name);
  if (i < 0)
    return add_state(h, d->name, d->kind, true, err);
  state_t *s = &h->states[i];
  if (s->kind != d->kind && s->declared)
    return sc_fail(err, SC_ESTATE,
                   "operator \"%s\" declares state \"%s\" twice, as %s and as %s", h->uid, d->name,
                   kind_name(s->kind), kind_name(d->kind));
  if (s->kind != d->kind)
    return sc_fail(err, SC_ESTATE,
                   "state \"%s\" of operator \"%s\" is %s in the snapshot, but is declared as %s",
                   d->name, h->uid, kind_name(s->kind), kind_name(d->kind));
  s->declared = true;
  return i;
}

/* Is the address of a state of this sort? Also guards what is about to be stored. */
static int check(const heap_t *h, const sc_address_t *at, bool map, size_t longest,
                 sc_error_t *err) {
  sc_assert(at->state >= 0 && (uint32_t)at->state < h->n_states);
  sc_assert(at->group >= h->keyed.range.first && at->group <= h->keyed.range.last);
  const state_t *s = &h->states[at->state];
  if (is_map_kind(s->kind) != map)
    return sc_fail(err, SC_ESTATE, "state \"%s\" of operator \"%s\" is %s and is used as a %s",
                   s->name, h->uid, kind_name(s->kind), map ? "map" : "value");
  if (longest > LENGTH_MAX || at->key.len > LENGTH_MAX || at->name_space.len > LENGTH_MAX)
    return sc_fail(err, SC_ELIMIT,
                   "state \"%s\" of operator \"%s\" cannot hold a key or value of 4 GiB", s->name,
                   h->uid);
  return 0;
}

/* --- layers --- */

static bool base_locked(const heap_t *h) { return h->cuts && !h->cuts->newest; }

static sc_delta_t *active(const heap_t *h) {
  return h->n_deltas ? h->deltas[h->n_deltas - 1] : NULL;
}

/* The delta that a write goes to, or NULL: bring the key home and write to the base (I4). */
static sc_delta_t *delta_for_write(const heap_t *h) {
  return h->n_deltas > 1 || base_locked(h) ? active(h) : NULL;
}

static void push_delta(heap_t *h) {
  if (h->n_deltas == h->cap_deltas) {
    h->cap_deltas = h->cap_deltas ? h->cap_deltas * 2 : 4;
    h->deltas = sc_realloc(h->deltas, h->cap_deltas * sizeof *h->deltas);
  }
  h->deltas[h->n_deltas++] = sc_delta_create();
}

/* Drop what has been folded. A cut that ended with it is now the base, which locks it. */
static void settle(heap_t *h) {
  while (!base_locked(h) && h->n_deltas > 0 && sc_delta_empty(h->deltas[0])) {
    for (sc_keyed_snapshot_t *c = h->cuts; c; c = c->next)
      if (c->newest == h->deltas[0])
        c->newest = NULL;
    sc_delta_destroy(h->deltas[0]);
    h->n_deltas--;
    memmove(h->deltas, h->deltas + 1, h->n_deltas * sizeof *h->deltas);
  }
}

/* --- values --- */

static int heap_get(sc_keyed_t *k, const sc_address_t *at, sc_bytes_t *value, sc_error_t *err) {
  heap_t *h = heap_of(k);
  int rc = check(h, at, false, 0, err);
  if (rc < 0)
    return rc;
  uint32_t hash = sc_table_hash(at);
  for (uint32_t i = h->n_deltas; i-- > 0;) {
    sc_delta_answer_t answer = sc_delta_get(h->deltas[i], at, hash, value);
    if (answer != SC_DELTA_UNKNOWN)
      return answer == SC_DELTA_PRESENT;
  }
  return sc_groups_get(h->groups, at, hash, value);
}

static int heap_put(sc_keyed_t *k, const sc_address_t *at, sc_bytes_t value, sc_error_t *err) {
  heap_t *h = heap_of(k);
  int rc = check(h, at, false, value.len, err);
  if (rc < 0)
    return rc;
  uint32_t hash = sc_table_hash(at);
  sc_delta_t *d = delta_for_write(h);
  if (d) {
    sc_delta_put(d, at, hash, value);
    return 0;
  }
  sc_groups_put(h->groups, at, hash, value);
  if (active(h)) /* after the put: the value given may be what the delta held */
    sc_delta_forget(active(h), at, hash);
  return 0;
}

/* --- iterators --- */

static void put_length_and_bytes(sc_buf_t *out, sc_bytes_t b) {
  sc_buf_put_u32(out, (uint32_t)b.len);
  sc_buf_put_bytes(out, b);
}

/* (I5) From here on the iterator does not need the layers. */
static void copy_rest(sc_map_iterator_t *it) {
  if (it->copied)
    return;
  it->copied = true;
  const sc_omap_entry_t *e;
  while ((e = sc_map_merge_next(&it->merge))) {
    put_length_and_bytes(&it->rest, sc_omap_key(e));
    put_length_and_bytes(&it->rest, sc_omap_value(e));
  }
}

static void before_map_write(heap_t *h, int state, uint32_t hash) {
  for (sc_map_iterator_t *it = h->iterators; it; it = it->next)
    if (it->state == state && it->hash == hash)
      copy_rest(it);
}

static void merge_layers(heap_t *h, const sc_address_t *at, const sc_bytes_t *from,
                         sc_map_merge_t *merge) {
  uint32_t hash = sc_table_hash(at);
  bool more = true;
  sc_map_merge_init(merge);
  for (uint32_t i = h->n_deltas; more && i-- > 0;)
    more = sc_map_merge_add(merge, sc_delta_map(h->deltas[i], at, hash), from);
  if (more)
    sc_map_merge_add(merge, sc_groups_map(h->groups, at, hash), from);
}

static sc_map_iterator_t *heap_map_iterate(sc_keyed_t *k, const sc_address_t *at,
                                           const sc_bytes_t *from) {
  heap_t *h = heap_of(k);
  sc_assert(check(h, at, true, 0, NULL) == 0);
  sc_map_iterator_t *it = sc_calloc(1, sizeof *it);
  it->heap = h;
  it->state = at->state;
  it->hash = sc_table_hash(at);
  merge_layers(h, at, from, &it->merge);
  it->next = h->iterators;
  h->iterators = it;
  return it;
}

static sc_bytes_t take_bytes(sc_map_iterator_t *it) {
  const uint8_t *at = it->rest.data + it->at;
  uint32_t len = sc_load_u32(at);
  it->at += 4 + (size_t)len;
  return sc_bytes(at + 4, len);
}

static int heap_map_next(sc_map_iterator_t *it, sc_bytes_t *map_key, sc_bytes_t *value) {
  if (it->copied) {
    if (it->at == it->rest.len)
      return 0;
    *map_key = take_bytes(it);
    *value = take_bytes(it);
    return 1;
  }
  const sc_omap_entry_t *e = sc_map_merge_next(&it->merge);
  if (!e)
    return 0;
  *map_key = sc_omap_key(e);
  *value = sc_omap_value(e);
  return 1;
}

static void heap_map_done(sc_map_iterator_t *it) {
  if (!it)
    return;
  sc_map_iterator_t **at = &it->heap->iterators;
  while (*at != it)
    at = &(*at)->next;
  *at = it->next;
  sc_map_merge_fini(&it->merge);
  sc_buf_free(&it->rest);
  free(it);
}

/* --- maps --- */

static int heap_map_first(sc_keyed_t *k, const sc_address_t *at, const sc_bytes_t *from,
                          sc_bytes_t *map_key, sc_bytes_t *value) {
  heap_t *h = heap_of(k);
  sc_assert(check(h, at, true, 0, NULL) == 0);
  sc_map_merge_t merge;
  merge_layers(h, at, from, &merge);
  const sc_omap_entry_t *e = sc_map_merge_next(&merge);
  sc_map_merge_fini(&merge);
  if (!e)
    return 0;
  *map_key = sc_omap_key(e);
  *value = sc_omap_value(e);
  return 1;
}

static int heap_map_get(sc_keyed_t *k, const sc_address_t *at, sc_bytes_t map_key,
                        sc_bytes_t *value, sc_error_t *err) {
  heap_t *h = heap_of(k);
  int rc = check(h, at, true, 0, err);
  if (rc < 0)
    return rc;
  uint32_t hash = sc_table_hash(at);
  for (uint32_t i = h->n_deltas; i-- > 0;) {
    sc_delta_answer_t answer = sc_delta_map_get(h->deltas[i], at, hash, map_key, value);
    if (answer != SC_DELTA_UNKNOWN)
      return answer == SC_DELTA_PRESENT;
  }
  const sc_table_entry_t *map = sc_groups_map(h->groups, at, hash);
  const sc_omap_entry_t *e = map ? sc_omap_find(map->map, map_key) : NULL;
  if (e)
    *value = sc_omap_value(e);
  return e != NULL;
}

static int heap_map_put(sc_keyed_t *k, const sc_address_t *at, sc_bytes_t map_key,
                        sc_bytes_t value, sc_error_t *err) {
  heap_t *h = heap_of(k);
  int rc = check(h, at, true, map_key.len > value.len ? map_key.len : value.len, err);
  if (rc < 0)
    return rc;
  uint32_t hash = sc_table_hash(at);
  before_map_write(h, at->state, hash);
  sc_delta_t *d = delta_for_write(h);
  if (d) {
    sc_delta_map_put(d, at, hash, map_key, value);
    return 0;
  }
  sc_delta_sink_t sink = sc_groups_sink(h->groups);
  if (active(h))
    sc_delta_bring_clear(active(h), at, hash, &sink);
  sc_groups_map_put(h->groups, at, hash, map_key, value);
  if (active(h))
    sc_delta_forget_map_key(active(h), at, hash, map_key);
  return 0;
}

static int heap_map_remove(sc_keyed_t *k, const sc_address_t *at, sc_bytes_t map_key,
                           sc_error_t *err) {
  heap_t *h = heap_of(k);
  int rc = check(h, at, true, map_key.len, err);
  if (rc < 0)
    return rc;
  uint32_t hash = sc_table_hash(at);
  before_map_write(h, at->state, hash);
  sc_delta_t *d = delta_for_write(h);
  if (d) {
    sc_delta_map_remove(d, at, hash, map_key);
    return 0;
  }
  /* The key given may be an entry's own: it is gone from the last place at last. */
  if (active(h)) {
    sc_delta_sink_t sink = sc_groups_sink(h->groups);
    sc_bytes_t key = sc_bytes_copy(map_key);
    sc_delta_bring_clear(active(h), at, hash, &sink);
    sc_delta_forget_map_key(active(h), at, hash, key);
    sc_groups_map_remove(h->groups, at, hash, key);
    free((void *)(uintptr_t)key.data);
    return 0;
  }
  sc_groups_map_remove(h->groups, at, hash, map_key);
  return 0;
}

static int heap_clear(sc_keyed_t *k, const sc_address_t *at, sc_error_t *err) {
  heap_t *h = heap_of(k);
  bool map = is_map_kind(h->states[at->state].kind);
  int rc = check(h, at, map, 0, err);
  if (rc < 0)
    return rc;
  uint32_t hash = sc_table_hash(at);
  if (map)
    before_map_write(h, at->state, hash);
  sc_delta_t *d = delta_for_write(h);
  if (d && map) {
    sc_delta_map_clear(d, at, hash);
  } else if (d) {
    sc_delta_remove(d, at, hash);
  } else {
    if (active(h))
      sc_delta_forget(active(h), at, hash);
    sc_groups_remove(h->groups, at, hash);
  }
  return 0;
}

/* --- snapshots --- */

static sc_keyed_snapshot_t *heap_freeze(sc_keyed_t *k, uint64_t checkpoint) {
  heap_t *h = heap_of(k);
  settle(h);
  sc_keyed_snapshot_t *cut = sc_calloc(1, sizeof *cut);
  cut->heap = h;
  cut->id = checkpoint;
  cut->newest = active(h);
  cut->n_states = h->n_states;
  sc_keyed_snapshot_t **end = &h->cuts; /* as many as checkpoints are pending: a few */
  while (*end)
    end = &(*end)->next;
  *end = cut;
  push_delta(h);
  return cut;
}

static int compare_states(const void *a, const void *b) {
  const sc_keyed_file_state_t *x = a, *y = b;
  return strcmp(x->name, y->name);
}

/* States are written by name: equal state makes equal bytes, in whatever order it was declared. */
static void list_states(sc_keyed_snapshot_t *cut) {
  const heap_t *h = cut->heap;
  cut->states = sc_calloc(cut->n_states, sizeof *cut->states);
  cut->ranks = sc_calloc(cut->n_states, sizeof *cut->ranks);
  for (uint32_t i = 0; i < cut->n_states; i++)
    cut->states[i] = (sc_keyed_file_state_t){h->states[i].name, h->states[i].kind};
  qsort(cut->states, cut->n_states, sizeof *cut->states, compare_states);
  for (uint32_t i = 0; i < cut->n_states; i++)
    cut->ranks[find_state(h, cut->states[i].name)] = (uint16_t)i;
}

static sc_keyed_snapshot_t *heap_ready(sc_keyed_t *k) {
  heap_t *h = heap_of(k);
  settle(h);
  if (!base_locked(h) || h->cuts->writing)
    return NULL;
  h->cuts->writing = true;
  list_states(h->cuts);
  return h->cuts;
}

static int heap_snapshot_write(sc_keyed_snapshot_t *snap, sc_storage_t *s, const char *dir,
                               const char *file, sc_handle_t *handle, sc_error_t *err) {
  const heap_t *h = snap->heap;
  sc_assert(snap->writing && !snap->newest);
  char *path = sc_path_join(dir, file);
  sc_keyed_writer_t *w;
  int rc = sc_keyed_writer_create(s, path, h->uid, h->keyed.range, snap->states, snap->n_states,
                                  &w, err);
  free(path);
  if (rc < 0)
    return rc;
  rc = sc_groups_write(h->groups, snap->ranks, w, err);
  if (rc < 0) {
    sc_keyed_writer_abandon(w);
    return rc;
  }
  rc = sc_keyed_writer_finish(w, handle, err);
  if (rc >= 0 && handle->length > 0) {
    free(handle->file);
    handle->file = sc_strdup(file);
  }
  return rc;
}

static void free_cut(sc_keyed_snapshot_t *cut) {
  free(cut->states);
  free(cut->ranks);
  free(cut);
}

/* Take a cut out of the order. What it held back may go on. */
static void drop_cut(heap_t *h, sc_keyed_snapshot_t *cut) {
  sc_keyed_snapshot_t **at = &h->cuts;
  while (*at != cut)
    at = &(*at)->next;
  *at = cut->next;
  free_cut(cut);
  settle(h);
}

static void heap_snapshot_done(sc_keyed_t *k, sc_keyed_snapshot_t *snap) {
  sc_assert(snap->writing);
  drop_cut(heap_of(k), snap);
}

static void heap_abort(sc_keyed_t *k, uint64_t checkpoint) {
  heap_t *h = heap_of(k);
  sc_keyed_snapshot_t *cut = h->cuts;
  while (cut && cut->id != checkpoint)
    cut = cut->next;
  if (cut && !cut->writing) /* what the pool reads stays until the pool is done */
    drop_cut(h, cut);
}

static uint64_t heap_snapshot_id(const sc_keyed_snapshot_t *snap) { return snap->id; }

static bool heap_step(sc_keyed_t *k, int budget) {
  heap_t *h = heap_of(k);
  budget = sc_groups_sweep(h->groups, budget);
  if (budget > 0 && h->n_deltas > 0 && !base_locked(h))
    for (sc_map_iterator_t *it = h->iterators; it; it = it->next)
      copy_rest(it);
  sc_delta_sink_t sink = sc_groups_sink(h->groups);
  settle(h);
  while (budget > 0 && h->n_deltas > 0 && !base_locked(h)) {
    budget = sc_delta_fold(h->deltas[0], budget, &sink);
    settle(h);
  }
  return (h->n_deltas > 0 && !base_locked(h)) || !sc_groups_swept(h->groups);
}

/* --- loading --- */

/* Index in the window of each state of a file; restored ones that nobody declared are added. */
static int map_states(heap_t *h, sc_keyed_reader_t *r, int *indices, sc_error_t *err) {
  const sc_keyed_file_state_t *states;
  uint32_t n = sc_keyed_reader_states(r, &states);
  for (uint32_t i = 0; i < n; i++) {
    int at = find_state(h, states[i].name);
    if (at < 0)
      at = add_state(h, states[i].name, states[i].kind, false, err);
    else if (h->states[at].kind != states[i].kind)
      at = sc_fail(err, SC_ESTATE,
                   "state \"%s\" of operator \"%s\" is %s in the snapshot, but is %s %s",
                   states[i].name, h->uid, kind_name(states[i].kind),
                   h->states[at].declared ? "declared as" : "in another part of it",
                   kind_name(h->states[at].kind));
    if (at < 0)
      return at;
    indices[i] = at;
  }
  return 0;
}

static int load_row(heap_t *h, const sc_keyed_row_t *row, int state, const char *file,
                    sc_error_t *err) {
  if (row->has_map_key != is_map_kind(h->states[state].kind))
    return sc_fail(err, SC_ECORRUPT, "a row of state \"%s\" in \"%s\" does not fit its kind, %s",
                   h->states[state].name, file, kind_name(h->states[state].kind));
  sc_address_t at = {.state = state, .group = row->group, .key = row->key,
                     .name_space = row->name_space};
  uint32_t hash = sc_table_hash(&at);
  if (row->has_map_key)
    sc_groups_map_put(h->groups, &at, hash, row->map_key, row->value);
  else
    sc_groups_put(h->groups, &at, hash, row->value);
  return 0;
}

static int load_rows(heap_t *h, sc_keyed_reader_t *r, const char *file, sc_error_t *err) {
  const sc_keyed_file_state_t *states;
  int *indices = sc_calloc(sc_keyed_reader_states(r, &states), sizeof *indices);
  sc_keyed_row_t row;
  int rc = map_states(h, r, indices, err);
  while (rc >= 0 && (rc = sc_keyed_reader_next(r, &row, err)) == 1)
    rc = load_row(h, &row, indices[row.state], file, err);
  free(indices);
  return rc;
}

static int heap_load(sc_keyed_t *k, sc_storage_t *s, const char *dir,
                     const sc_restore_keyed_t *part, sc_error_t *err) {
  heap_t *h = heap_of(k);
  sc_assert(h->n_deltas == 0 && !h->cuts);
  sc_key_range_t range = part->range;
  if (range.first < k->range.first)
    range.first = k->range.first;
  if (range.last > k->range.last)
    range.last = k->range.last;
  if (part->handle->length == 0 || range.first > range.last)
    return 0;
  sc_keyed_reader_t *r;
  int rc = sc_keyed_reader_open(s, dir, part->handle, &r, err);
  if (rc < 0)
    return rc;
  sc_keyed_reader_select(r, range);
  rc = load_rows(h, r, part->handle->file, err);
  sc_keyed_reader_close(r);
  return rc;
}

/* --- the window --- */

static void heap_usage(sc_keyed_t *k, uint64_t *entries, uint64_t *bytes) {
  heap_t *h = heap_of(k);
  sc_groups_usage(h->groups, entries, bytes);
  for (uint32_t i = 0; i < h->n_deltas; i++) {
    *entries += sc_delta_items(h->deltas[i]);
    *bytes += sc_delta_bytes(h->deltas[i]);
  }
}

static void heap_destroy(sc_keyed_t *k) {
  heap_t *h = heap_of(k);
  while (h->iterators)
    heap_map_done(h->iterators);
  for (sc_keyed_snapshot_t *cut = h->cuts, *next; cut; cut = next) {
    next = cut->next;
    free_cut(cut);
  }
  for (uint32_t i = 0; i < h->n_deltas; i++)
    sc_delta_destroy(h->deltas[i]);
  free(h->deltas);
  sc_groups_destroy(h->groups);
  for (uint32_t i = 0; i < h->n_states; i++)
    free(h->states[i].name);
  free(h->states);
  free(h->uid);
  free(h);
}

static const sc_keyed_ops_t heap_ops = {
  .name = "heap",
  .declare = heap_declare,
  .get = heap_get,
  .put = heap_put,
  .clear = heap_clear,
  .map_get = heap_map_get,
  .map_put = heap_map_put,
  .map_remove = heap_map_remove,
  .map_iterate = heap_map_iterate,
  .map_next = heap_map_next,
  .map_done = heap_map_done,
  .map_first = heap_map_first,
  .freeze = heap_freeze,
  .ready = heap_ready,
  .snapshot_write = heap_snapshot_write,
  .snapshot_done = heap_snapshot_done,
  .abort = heap_abort,
  .snapshot_id = heap_snapshot_id,
  .step = heap_step,
  .load = heap_load,
  .usage = heap_usage,
  .destroy = heap_destroy,
};

sc_keyed_t *sc_heap_create(const char *uid, sc_key_range_t range) {
  heap_t *h = sc_calloc(1, sizeof *h);
  h->keyed.ops = &heap_ops;
  h->keyed.range = range;
  h->uid = sc_strdup(uid);
  h->groups = sc_groups_create(range);
  return &h->keyed;
}
