#include "heap.h"

#include <stdlib.h>

#include "../base/mem.h"
#include "../base/planted.h"

#define STATES_MAX 65535
#define LENGTH_MAX (UINT32_MAX - 65536) /* of a key or a value */

/* --- states --- */

bool sc__heap_is_map(sc_state_kind_t kind) {
  return kind == SC_STATE_MAP || kind == SC_STATE_TIMERS;
}

const char *sc__heap_kind_name(sc_state_kind_t kind) {
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

int sc__heap_find_state(const sc_heap_t *h, const char *name) {
  for (uint32_t i = 0; i < h->n_states; i++)
    if (strcmp(h->states[i].name, name) == 0)
      return (int)i;
  return -1;
}

int sc__heap_add_state(sc_heap_t *h, const char *name, sc_state_kind_t kind, bool declared,
                     sc_error_t *err) {
  if (h->n_states == STATES_MAX)
    return sc_fail(err, SC_ELIMIT, "operator \"%s\" has more than %d states", h->uid, STATES_MAX);
  if (h->n_states == h->cap_states) {
    h->cap_states = h->cap_states ? h->cap_states * 2 : 4;
    h->states = sc_realloc(h->states, h->cap_states * sizeof *h->states);
  }
  h->states[h->n_states] =
      (sc_heap_state_t){sc_strdup(name), kind, sc__heap_is_map(kind), declared};
  /* The first that users can declare: with more each record would pay for what only some need. */
  if (h->expected_state < 0 && kind != SC_STATE_TIMERS)
    h->expected_state = (int)h->n_states;
  return (int)h->n_states++;
}

static int heap_declare(sc_keyed_t *k, const sc_state_descriptor_t *d, sc_error_t *err) {
  sc_heap_t *h = sc__heap_of(k);
  int i = sc__heap_find_state(h, d->name);
  if (i < 0)
    return sc__heap_add_state(h, d->name, d->kind, true, err);
  sc_heap_state_t *s = &h->states[i];
  if (s->kind != d->kind && s->declared)
    return sc_fail(err, SC_ESTATE,
                   "operator \"%s\" declares state \"%s\" twice, as %s and as %s", h->uid, d->name,
                   sc__heap_kind_name(s->kind), sc__heap_kind_name(d->kind));
  if (s->kind != d->kind)
    return sc_fail(err, SC_ESTATE,
                   "state \"%s\" of operator \"%s\" is %s in the snapshot, but is declared as %s",
                   d->name, h->uid, sc__heap_kind_name(s->kind), sc__heap_kind_name(d->kind));
  s->declared = true;
  return i;
}

static int refuse(const sc_heap_t *h, const sc_heap_state_t *s, bool map, sc_error_t *err) {
  if (s->is_map != map)
    return sc_fail(err, SC_ESTATE, "state \"%s\" of operator \"%s\" is %s and is used as a %s",
                   s->name, h->uid, sc__heap_kind_name(s->kind), map ? "map" : "value");
  return sc_fail(err, SC_ELIMIT,
                 "state \"%s\" of operator \"%s\" cannot hold a key or value of 4 GiB", s->name,
                 h->uid);
}

/* Is the address of a state of this sort? Also guards what is about to be stored. */
static inline int check(const sc_heap_t *h, const sc_address_t *at, bool map, size_t longest,
                        sc_error_t *err) {
  sc_assert(at->state >= 0 && (uint32_t)at->state < h->n_states);
  sc_assert(at->group >= h->keyed.range.first && at->group <= h->keyed.range.last);
  const sc_heap_state_t *s = &h->states[at->state];
  if (s->is_map == map && longest <= LENGTH_MAX && at->key.len <= LENGTH_MAX &&
      at->name_space.len <= LENGTH_MAX)
    return 0;
  return refuse(h, s, map, err);
}

/* --- values --- */

/* What a change of a value of this group has to heed (I6). */
static sc_cells_guard_t guard_of(const sc_heap_t *h, uint16_t group) {
  sc_cells_guard_t guard = {.epoch = h->epoch};
  uint32_t done;
  const sc_keyed_snapshot_t *unread = sc__heap_unread(h, &done);
  if (!unread || SC_PLANTED(OVERLAY_LEAKS))
    return guard;
  bool read = (uint32_t)(group - h->keyed.range.first) < done;
  guard.walked = unread->writing && !read;
  if (!read || unread != h->last_cut)
    guard.keep = h->last_cut->epoch;
  guard.kept = &h->last_cut->kept;
  return guard;
}

/* How many addresses later each step of a fetch follows the one before: a bulk of records, so that
 * it has come when the next bulk is read, and the record's turn is then still to come. */
#define FETCH_AFTER 8
_Static_assert(2 * FETCH_AFTER < SC_HEAP_EXPECTED, "the ring holds what is still to be fetched");

/* The next step for an address that is expected. */
static inline void fetch(const sc_heap_t *h, const sc_expected_t *e, bool is_map,
                         sc_fetch_t what) {
  if (!is_map) {
    if (e->cells)
      sc_cells_fetch(e->cells, e->hash, what);
    return;
  }
  if (h->n_deltas)
    sc_delta_fetch(sc__heap_active(h), e->hash, what);
  sc_groups_fetch_map(h->groups, e->group, e->hash, what);
}

static inline const sc_expected_t *expected_before(const sc_heap_t *h, uint32_t ago) {
  return &h->expected[(h->n_expected - ago) % SC_HEAP_EXPECTED];
}

static void heap_expect(sc_keyed_t *k, const sc_record_t *records, uint32_t n) {
  sc_heap_t *h = sc__heap_of(k);
  if (h->expected_state < 0)
    return;
  bool is_map = h->states[h->expected_state].is_map;
  for (const sc_record_t *r = records; r < records + n; r++) {
    if (!(r->flags & SC_RECORD_HAS_KEY) || r->key_group < k->range.first ||
        r->key_group > k->range.last)
      continue; /* one of a group that is not here is refused when its turn comes */
    sc_address_t at = {.state = h->expected_state, .group = r->key_group, .key_hash = r->key_hash};
    sc_expected_t *e = &h->expected[h->n_expected % SC_HEAP_EXPECTED];
    *e = (sc_expected_t){.hash = sc_table_hash(&at), .group = r->key_group,
                         .cells = is_map ? NULL : sc_groups_cells(h->groups, r->key_group)};
    fetch(h, e, is_map, SC_FETCH_BUCKET);
    if (h->n_expected >= FETCH_AFTER)
      fetch(h, expected_before(h, FETCH_AFTER), is_map, SC_FETCH_FIRST);
    if (is_map && h->n_expected >= 2 * FETCH_AFTER)
      fetch(h, expected_before(h, 2 * FETCH_AFTER), is_map, SC_FETCH_SECOND);
    h->n_expected++;
  }
}

static int heap_find(sc_keyed_t *k, const sc_address_t *at, sc_place_t *place, sc_error_t *err) {
  sc_heap_t *h = sc__heap_of(k);
  int rc = check(h, at, false, 0, err);
  if (rc < 0)
    return rc;
  place->at = at;
  place->hash = sc_table_hash(at);
  const sc_cell_t *e = sc_groups_find(h->groups, at, place->hash);
  place->found = e;
  place->value = e ? sc_cell_value(e) : sc_bytes(NULL, 0);
  return e != NULL;
}

static int heap_replace(sc_keyed_t *k, const sc_place_t *place, sc_bytes_t value,
                        sc_error_t *err) {
  sc_heap_t *h = sc__heap_of(k);
  if (value.len > LENGTH_MAX)
    return refuse(h, &h->states[place->at->state], false, err);
  sc_cells_guard_t guard = guard_of(h, place->at->group);
  if (!place->found || !sc_cells_overwrite(place->found, value, &guard))
    sc_groups_renew(h->groups, place->found, place->at, place->hash, value, &guard);
  return 0;
}

static int heap_get(sc_keyed_t *k, const sc_address_t *at, sc_bytes_t *value, sc_error_t *err) {
  sc_place_t place;
  int rc = heap_find(k, at, &place, err);
  if (rc > 0)
    *value = place.value;
  return rc;
}

static int heap_put(sc_keyed_t *k, const sc_address_t *at, sc_bytes_t value, sc_error_t *err) {
  sc_heap_t *h = sc__heap_of(k);
  int rc = check(h, at, false, value.len, err);
  if (rc < 0)
    return rc;
  sc_cells_guard_t guard = guard_of(h, at->group);
  sc_groups_put(h->groups, at, sc_table_hash(at), value, &guard);
  return 0;
}

/* --- iterators --- */

static void put_length_and_bytes(sc_buf_t *out, sc_bytes_t b) {
  sc_buf_put_u32(out, (uint32_t)b.len);
  sc_buf_put_bytes(out, b);
}

void sc__heap_copy_rest(sc_map_iterator_t *it) {
  if (it->copied)
    return;
  it->copied = true;
  const sc_omap_entry_t *e;
  while ((e = sc_map_merge_next(&it->merge))) {
    put_length_and_bytes(&it->rest, sc_omap_key(e));
    put_length_and_bytes(&it->rest, sc_omap_value(e));
  }
}

static void before_map_write(sc_heap_t *h, int state, uint32_t hash) {
  for (sc_map_iterator_t *it = h->iterators; it; it = it->next)
    if (it->state == state && it->hash == hash)
      sc__heap_copy_rest(it);
}

static void merge_layers(sc_heap_t *h, const sc_address_t *at, const sc_bytes_t *from,
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
  sc_heap_t *h = sc__heap_of(k);
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

/* The delta that a write goes to, or NULL: bring the key home and write to the base (I4). */
static sc_delta_t *delta_for_write(const sc_heap_t *h, uint16_t group) {
  return h->n_deltas > 1 || sc__heap_locked(h, group) ? sc__heap_active(h) : NULL;
}

static int heap_map_first(sc_keyed_t *k, const sc_address_t *at, const sc_bytes_t *from,
                          sc_bytes_t *map_key, sc_bytes_t *value) {
  sc_heap_t *h = sc__heap_of(k);
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
  sc_heap_t *h = sc__heap_of(k);
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
  sc_heap_t *h = sc__heap_of(k);
  int rc = check(h, at, true, map_key.len > value.len ? map_key.len : value.len, err);
  if (rc < 0)
    return rc;
  uint32_t hash = sc_table_hash(at);
  before_map_write(h, at->state, hash);
  sc_delta_t *d = delta_for_write(h, at->group);
  if (d) {
    sc_delta_map_put(d, at, hash, map_key, value);
    return 0;
  }
  sc_delta_sink_t sink = sc_groups_sink(h->groups);
  if (sc__heap_active(h))
    sc_delta_bring_clear(sc__heap_active(h), at, hash, &sink);
  sc_groups_map_put(h->groups, at, hash, map_key, value);
  if (sc__heap_active(h))
    sc_delta_forget_map_key(sc__heap_active(h), at, hash, map_key);
  return 0;
}

static int heap_map_remove(sc_keyed_t *k, const sc_address_t *at, sc_bytes_t map_key,
                           sc_error_t *err) {
  sc_heap_t *h = sc__heap_of(k);
  int rc = check(h, at, true, map_key.len, err);
  if (rc < 0)
    return rc;
  uint32_t hash = sc_table_hash(at);
  before_map_write(h, at->state, hash);
  sc_delta_t *d = delta_for_write(h, at->group);
  if (d) {
    sc_delta_map_remove(d, at, hash, map_key);
    return 0;
  }
  /* The key given may be an entry's own: it is gone from the last place at last. */
  if (sc__heap_active(h)) {
    sc_delta_sink_t sink = sc_groups_sink(h->groups);
    sc_bytes_t key = sc_bytes_copy(map_key);
    sc_delta_bring_clear(sc__heap_active(h), at, hash, &sink);
    sc_delta_forget_map_key(sc__heap_active(h), at, hash, key);
    sc_groups_map_remove(h->groups, at, hash, key);
    free((void *)(uintptr_t)key.data);
    return 0;
  }
  sc_groups_map_remove(h->groups, at, hash, map_key);
  return 0;
}

static int heap_clear(sc_keyed_t *k, const sc_address_t *at, sc_error_t *err) {
  sc_heap_t *h = sc__heap_of(k);
  sc_assert(at->state >= 0 && (uint32_t)at->state < h->n_states);
  bool map = sc__heap_is_map(h->states[at->state].kind);
  int rc = check(h, at, map, 0, err);
  if (rc < 0)
    return rc;
  uint32_t hash = sc_table_hash(at);
  if (!map) {
    sc_cells_guard_t guard = guard_of(h, at->group);
    sc_groups_remove(h->groups, at, hash, &guard);
    return 0;
  }
  before_map_write(h, at->state, hash);
  sc_delta_t *d = delta_for_write(h, at->group);
  if (d) {
    sc_delta_map_clear(d, at, hash);
    return 0;
  }
  if (sc__heap_active(h))
    sc_delta_forget(sc__heap_active(h), at, hash);
  sc_groups_map_clear(h->groups, at, hash);
  return 0;
}

/* --- the window --- */

static void heap_usage(sc_keyed_t *k, uint64_t *entries, uint64_t *bytes) {
  sc_heap_t *h = sc__heap_of(k);
  sc_groups_usage(h->groups, entries, bytes);
  for (uint32_t i = 0; i < h->n_deltas; i++) {
    *entries += sc_delta_items(h->deltas[i]);
    *bytes += sc_delta_bytes(h->deltas[i]);
  }
}

static void heap_destroy(sc_keyed_t *k) {
  sc_heap_t *h = sc__heap_of(k);
  while (h->iterators)
    heap_map_done(h->iterators);
  for (sc_keyed_snapshot_t *cut = h->cuts, *next; cut; cut = next) {
    next = cut->next;
    sc__heap_free_cut(cut);
  }
  for (uint32_t i = 0; i < h->n_deltas; i++)
    sc_delta_destroy(h->deltas[i]);
  free(h->deltas);
  sc_cell_list_fini(&h->garbage);
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
  .expect = heap_expect,
  .get = heap_get,
  .find = heap_find,
  .replace = heap_replace,
  .put = heap_put,
  .clear = heap_clear,
  .map_get = heap_map_get,
  .map_put = heap_map_put,
  .map_remove = heap_map_remove,
  .map_iterate = heap_map_iterate,
  .map_next = heap_map_next,
  .map_done = heap_map_done,
  .map_first = heap_map_first,
  .freeze = sc__heap_freeze,
  .ready = sc__heap_ready,
  .snapshot_write = sc__heap_snapshot_write,
  .snapshot_done = sc__heap_snapshot_done,
  .abort = sc__heap_abort,
  .snapshot_id = sc__heap_snapshot_id,
  .step = sc__heap_step,
  .load = sc__heap_load,
  .usage = heap_usage,
  .destroy = heap_destroy,
};

sc_keyed_t *sc_heap_create(const char *uid, sc_key_range_t range) {
  sc_heap_t *h = sc_calloc(1, sizeof *h);
  h->keyed.ops = &heap_ops;
  h->keyed.range = range;
  h->uid = sc_strdup(uid);
  h->groups = sc_groups_create(range);
  h->expected_state = -1;
  h->epoch = 1;
  return &h->keyed;
}
