#include "heap.h"

#include <stdlib.h>

#include "../base/mem.h"

#define CELLS_AN_ENTRY 8 /* cells that are given back while one entry is folded, roughly */

/* --- layers --- */

static void push_delta(sc_heap_t *h) {
  if (h->n_deltas == h->cap_deltas) {
    h->cap_deltas = h->cap_deltas ? h->cap_deltas * 2 : 4;
    h->deltas = sc_realloc(h->deltas, h->cap_deltas * sizeof *h->deltas);
  }
  h->deltas[h->n_deltas++] = sc_delta_create();
}

/* Drop what has been folded. A cut that ended with it is now the base, which locks it. */
static void settle(sc_heap_t *h) {
  while (!sc__heap_base_locked(h) && h->n_deltas > 0 && sc_delta_empty(h->deltas[0])) {
    for (sc_keyed_snapshot_t *c = h->cuts; c; c = c->next)
      if (c->newest == h->deltas[0])
        c->newest = NULL;
    sc_delta_destroy(h->deltas[0]);
    h->n_deltas--;
    memmove(h->deltas, h->deltas + 1, h->n_deltas * sizeof *h->deltas);
  }
}

/* --- snapshots --- */

sc_keyed_snapshot_t *sc__heap_freeze(sc_keyed_t *k, uint64_t checkpoint) {
  sc_heap_t *h = sc__heap_of(k);
  settle(h);
  sc_keyed_snapshot_t *cut = sc_calloc(1, sizeof *cut);
  cut->heap = h;
  cut->id = checkpoint;
  cut->epoch = h->epoch++;
  cut->newest = sc__heap_active(h);
  cut->n_states = h->n_states;
  atomic_init(&cut->written, 0);
  if (h->last_cut)
    h->last_cut->next = cut;
  else
    h->cuts = cut;
  h->last_cut = cut;
  push_delta(h);
  return cut;
}

static int compare_states(const void *a, const void *b) {
  const sc_keyed_file_state_t *x = a, *y = b;
  return strcmp(x->name, y->name);
}

/* States are written by name: equal state makes equal bytes, in whatever order it was declared. */
static void list_states(sc_keyed_snapshot_t *cut) {
  const sc_heap_t *h = cut->heap;
  cut->states = sc_calloc(cut->n_states, sizeof *cut->states);
  cut->ranks = sc_calloc(cut->n_states, sizeof *cut->ranks);
  for (uint32_t i = 0; i < cut->n_states; i++)
    cut->states[i] = (sc_keyed_file_state_t){h->states[i].name, h->states[i].kind};
  qsort(cut->states, cut->n_states, sizeof *cut->states, compare_states);
  for (uint32_t i = 0; i < cut->n_states; i++)
    cut->ranks[sc__heap_find_state(h, cut->states[i].name)] = (uint16_t)i;
}

sc_keyed_snapshot_t *sc__heap_ready(sc_keyed_t *k) {
  sc_heap_t *h = sc__heap_of(k);
  settle(h);
  if (!h->cuts || h->cuts->newest || h->cuts->writing || h->garbage.first)
    return NULL;
  h->cuts->writing = true;
  list_states(h->cuts);
  return h->cuts;
}

int sc__heap_snapshot_write(sc_keyed_snapshot_t *snap, sc_storage_t *s, const char *dir,
                               const char *file, sc_handle_t *handle, sc_error_t *err) {
  const sc_heap_t *h = snap->heap;
  sc_assert(snap->writing && !snap->newest);
  sc_assert(atomic_load_explicit(&snap->written, memory_order_relaxed) == 0);
  char *path = sc_path_join(dir, file);
  sc_keyed_writer_t *w;
  int rc = sc_keyed_writer_create(s, path, h->uid, h->keyed.range, snap->states, snap->n_states,
                                  &w, err);
  free(path);
  if (rc < 0)
    return rc;
  rc = sc_groups_write(h->groups, snap->ranks, snap->n_states, snap->epoch, &snap->written, w,
                       err);
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

void sc__heap_free_cut(sc_keyed_snapshot_t *cut) {
  sc_cell_list_fini(&cut->kept);
  free(cut->states);
  free(cut->ranks);
  free(cut);
}

/* Take a cut out of the order. What it held back may go on. */
static void drop_cut(sc_heap_t *h, sc_keyed_snapshot_t *cut) {
  sc_keyed_snapshot_t **at = &h->cuts, *older = NULL;
  while (*at != cut) {
    older = *at;
    at = &older->next;
  }
  *at = cut->next;
  if (h->last_cut == cut)
    h->last_cut = older;
  sc_cell_list_join(older ? &older->kept : &h->garbage, &cut->kept); /* (I6) */
  sc__heap_free_cut(cut);
  settle(h);
}

void sc__heap_snapshot_done(sc_keyed_t *k, sc_keyed_snapshot_t *snap) {
  sc_assert(snap->writing);
  drop_cut(sc__heap_of(k), snap);
}

void sc__heap_abort(sc_keyed_t *k, uint64_t checkpoint) {
  sc_heap_t *h = sc__heap_of(k);
  sc_keyed_snapshot_t *cut = h->cuts;
  while (cut && cut->id != checkpoint)
    cut = cut->next;
  if (cut && !cut->writing) /* what the pool reads stays until the pool is done */
    drop_cut(h, cut);
}

uint64_t sc__heap_snapshot_id(const sc_keyed_snapshot_t *snap) { return snap->id; }

bool sc__heap_step(sc_keyed_t *k, int budget) {
  sc_heap_t *h = sc__heap_of(k);
  uint32_t done;
  if (h->cuts && sc__heap_unread(h, &done) != h->cuts) /* (I6): it has been read */
    sc_cell_list_join(&h->garbage, &h->cuts->kept);
  budget = sc_cell_list_give(&h->garbage, budget * CELLS_AN_ENTRY) / CELLS_AN_ENTRY;
  budget = sc_groups_sweep(h->groups, budget);
  if (budget > 0 && h->n_deltas > 0 && !sc__heap_base_locked(h))
    for (sc_map_iterator_t *it = h->iterators; it; it = it->next)
      sc__heap_copy_rest(it);
  sc_delta_sink_t sink = sc_groups_sink(h->groups);
  settle(h);
  while (budget > 0 && h->n_deltas > 0 && !sc__heap_base_locked(h)) {
    budget = sc_delta_fold(h->deltas[0], budget, &sink);
    settle(h);
  }
  return h->garbage.first || (h->n_deltas > 0 && !sc__heap_base_locked(h)) ||
         !sc_groups_swept(h->groups);
}

/* --- loading --- */

/* Index in the window of each state of a file; restored ones that nobody declared are added. */
static int map_states(sc_heap_t *h, sc_keyed_reader_t *r, int *indices, sc_error_t *err) {
  const sc_keyed_file_state_t *states;
  uint32_t n = sc_keyed_reader_states(r, &states);
  for (uint32_t i = 0; i < n; i++) {
    int at = sc__heap_find_state(h, states[i].name);
    if (at < 0)
      at = sc__heap_add_state(h, states[i].name, states[i].kind, false, err);
    else if (h->states[at].kind != states[i].kind)
      at = sc_fail(err, SC_ESTATE,
                   "state \"%s\" of operator \"%s\" is %s in the snapshot, but is %s %s",
                   states[i].name, h->uid, sc__heap_kind_name(states[i].kind),
                   h->states[at].declared ? "declared as" : "in another part of it",
                   sc__heap_kind_name(h->states[at].kind));
    if (at < 0)
      return at;
    indices[i] = at;
  }
  return 0;
}

static int load_row(sc_heap_t *h, const sc_keyed_row_t *row, int state, const char *file,
                    sc_error_t *err) {
  if (row->has_map_key != sc__heap_is_map(h->states[state].kind))
    return sc_fail(err, SC_ECORRUPT, "a row of state \"%s\" in \"%s\" does not fit its kind, %s",
                   h->states[state].name, file, sc__heap_kind_name(h->states[state].kind));
  sc_address_t at = {.state = state, .group = row->group, .key = row->key,
                     .name_space = row->name_space};
  uint32_t hash = sc_table_hash(&at);
  if (row->has_map_key)
    sc_groups_map_put(h->groups, &at, hash, row->map_key, row->value);
  else
    sc_groups_put(h->groups, &at, hash, row->value,
                  &(sc_cells_guard_t){.epoch = h->epoch});
  return 0;
}

static int load_rows(sc_heap_t *h, sc_keyed_reader_t *r, const char *file, sc_error_t *err) {
  const sc_keyed_file_state_t *states;
  int *indices = sc_calloc(sc_keyed_reader_states(r, &states), sizeof *indices);
  sc_keyed_row_t row;
  int rc = map_states(h, r, indices, err);
  while (rc >= 0 && (rc = sc_keyed_reader_next(r, &row, err)) == 1)
    rc = load_row(h, &row, indices[row.state], file, err);
  free(indices);
  return rc;
}

int sc__heap_load(sc_keyed_t *k, sc_storage_t *s, const char *dir,
                     const sc_restore_keyed_t *part, sc_error_t *err) {
  sc_heap_t *h = sc__heap_of(k);
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
