#include "rows.h"

#include <stdlib.h>

#include "../base/error.h"
#include "../base/mem.h"

#define FEW 24          /* rows that are sorted by insertion */
#define DEAL_BITS 11    /* of a prefix, by which rows are dealt at once */
#define AGREED_MAX 32   /* bits of prefixes that may be the same in all rows */
#define WRITTEN_AHEAD 8 /* rows that are fetched from memory before their turn to be written */

void sc_rows_init(sc_rows_t *r, const uint16_t *ranks, uint32_t n_ranks) {
  *r = (sc_rows_t){.ranks = ranks, .n_ranks = n_ranks};
}

void sc_rows_fini(sc_rows_t *r) { free(r->rows); }

/* --- one row --- */

/* What the row is of: one of the two is NULL. */
static const sc_cell_t *cell_of(const sc_row_t *row) {
  return row->entry & 1 ? NULL : (const sc_cell_t *)row->entry;
}

static const sc_table_entry_t *map_of(const sc_row_t *row) {
  return row->entry & 1 ? (const sc_table_entry_t *)(row->entry - 1) : NULL;
}

static sc_bytes_t key_of(const sc_row_t *row) {
  return cell_of(row) ? sc_cell_key(cell_of(row)) : sc_table_key(map_of(row));
}

static sc_bytes_t space_of(const sc_row_t *row) {
  return cell_of(row) ? sc_cell_space(cell_of(row)) : sc_table_space(map_of(row));
}

static uint16_t rank_of(const sc_rows_t *r, const sc_row_t *row) {
  return r->ranks[cell_of(row) ? cell_of(row)->state : map_of(row)->state];
}

/* Shorter ones are filled with zeros; keys of one prefix are compared whole. */
static uint64_t prefix_of(sc_bytes_t key, size_t from) {
  uint64_t prefix = 0;
  size_t len = key.len - from;
  if (len >= 8)
    prefix = sc_load_u64(key.data + from);
  else if (len)
    memcpy(&prefix, key.data + from, len);
  return __builtin_bswap64(prefix);
}

/* --- collecting --- */

static void add(sc_rows_t *r, const void *entry, bool is_map) {
  if (r->n == r->cap) {
    r->cap = r->cap ? r->cap * 2 : 1024;
    r->rows = sc_realloc(r->rows, 2 * r->cap * sizeof *r->rows);
  }
  sc_row_t *row = &r->rows[r->n++];
  row->entry = (uintptr_t)entry + is_map;
  row->prefix = prefix_of(key_of(row), 0);
}

void sc_rows_add_values(sc_rows_t *r, const sc_slab_t *slab, uint64_t epoch) {
  sc_slab_walk_t walk = sc_slab_walk(slab, epoch);
  for (const sc_slot_t *slot; (slot = sc_slab_next(&walk)) != NULL;)
    add(r, slot, false);
}

void sc_rows_add_maps(sc_rows_t *r, const sc_table_t *maps) {
  size_t cursor = 0;
  for (const sc_table_entry_t *e; (e = sc_table_scan(maps, &cursor, SIZE_MAX)); cursor++)
    for (; e; e = e->next)
      add(r, e, true);
}

/* --- sorting --- */

/* How many leading bits all rows agree in; 64: in all. */
static int agreed_bits(const sc_row_t *rows, size_t n) {
  uint64_t differ = 0;
  for (size_t i = 1; i < n; i++)
    differ |= rows[i].prefix ^ rows[0].prefix;
  return differ ? __builtin_clzll(differ) : 64;
}

static size_t common(sc_bytes_t a, sc_bytes_t b, size_t most) {
  most = a.len < most ? a.len : most;
  most = b.len < most ? b.len : most;
  size_t n = 0;
  while (n < most && a.data[n] == b.data[n])
    n++;
  return n;
}

/* Where keys have more in common than leaves them apart, prefixes begin behind that. */
static void set_prefixes(sc_rows_t *r) {
  if (agreed_bits(r->rows, r->n) < AGREED_MAX)
    return;
  sc_bytes_t first = key_of(&r->rows[0]);
  size_t shared = first.len;
  for (size_t i = 1; shared > 0 && i < r->n; i++)
    shared = common(first, key_of(&r->rows[i]), shared);
  for (size_t i = 0; i < r->n; i++)
    r->rows[i].prefix = prefix_of(key_of(&r->rows[i]), shared);
}

/* Of rows of one rank. */
static int compare(const void *a, const void *b) {
  const sc_row_t *x = a, *y = b;
  if (x->prefix != y->prefix)
    return x->prefix < y->prefix ? -1 : 1;
  int order = sc_bytes_compare(key_of(x), key_of(y));
  return order ? order : sc_bytes_compare(space_of(x), space_of(y));
}

static void sort_few(sc_row_t *rows, size_t n) {
  for (size_t i = 1; i < n; i++) {
    sc_row_t row = rows[i];
    size_t k = i;
    for (; k > 0 && compare(&row, &rows[k - 1]) < 0; k--)
      rows[k] = rows[k - 1];
    rows[k] = row;
  }
}

/* From how many there are of each to where they begin. */
static void begin_each(uint32_t *counts, size_t n) {
  uint32_t at = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t many = counts[i];
    counts[i] = at;
    at += many;
  }
}

/* Sort rows of one rank: deal them by the first bits in which they differ, about as many heaps as
 * rows, then sort each heap. Rows that agree in all bits are compared whole. */
static void sort(sc_row_t *rows, sc_row_t *spare, size_t n) {
  if (n <= FEW) {
    sort_few(rows, n);
    return;
  }
  int agreed = agreed_bits(rows, n);
  if (agreed == 64) {
    qsort(rows, n, sizeof *rows, compare);
    return;
  }
  uint32_t ends[1 << DEAL_BITS];
  int bits = 63 - __builtin_clzll(n);
  bits = bits > DEAL_BITS ? DEAL_BITS : bits;
  memset(ends, 0, sizeof *ends << bits);
  for (size_t i = 0; i < n; i++)
    ends[rows[i].prefix << agreed >> (64 - bits)]++;
  begin_each(ends, (size_t)1 << bits);
  memcpy(spare, rows, n * sizeof *rows);
  for (size_t i = 0; i < n; i++)
    rows[ends[spare[i].prefix << agreed >> (64 - bits)]++] = spare[i];
  for (uint32_t heap = 0, begin = 0; heap < (uint32_t)1 << bits; begin = ends[heap++])
    if (ends[heap] - begin > 1)
      sort(rows + begin, spare + begin, ends[heap] - begin);
}

static void sort_all(sc_rows_t *r) {
  sc_row_t *spare = r->rows + r->cap;
  if (r->n_ranks == 1) {
    sort(r->rows, spare, r->n);
    return;
  }
  uint32_t *ends = sc_calloc(r->n_ranks, sizeof *ends);
  for (size_t i = 0; i < r->n; i++)
    ends[rank_of(r, &r->rows[i])]++;
  begin_each(ends, r->n_ranks);
  memcpy(spare, r->rows, r->n * sizeof *spare);
  for (size_t i = 0; i < r->n; i++)
    r->rows[ends[rank_of(r, &spare[i])]++] = spare[i];
  for (uint32_t rank = 0, begin = 0; rank < r->n_ranks; begin = ends[rank++])
    sort(r->rows + begin, spare + begin, ends[rank] - begin);
  free(ends);
}

/* --- writing --- */

static int write_map(const sc_table_entry_t *e, sc_keyed_row_t *row, sc_keyed_writer_t *w,
                     sc_error_t *err) {
  row->has_map_key = true;
  for (const sc_omap_entry_t *m = sc_omap_first(e->map); m; m = m->next) {
    row->map_key = sc_omap_key(m);
    row->value = sc_omap_value(m);
    int rc = sc_keyed_writer_put(w, row, err);
    if (rc < 0)
      return rc;
  }
  return 0;
}

int sc_rows_write(sc_rows_t *r, uint16_t group, sc_keyed_writer_t *w, sc_error_t *err) {
  size_t n = r->n;
  int rc = 0;
  if (n == 0)
    return 0;
  sc_assert(n < UINT32_MAX);
  set_prefixes(r);
  sort_all(r);
  for (size_t i = 0; rc >= 0 && i < n; i++) {
    if (i + WRITTEN_AHEAD < n)
      __builtin_prefetch((const void *)r->rows[i + WRITTEN_AHEAD].entry);
    const sc_row_t *at = &r->rows[i];
    sc_keyed_row_t row = {.group = group, .state = rank_of(r, at), .key = key_of(at),
                          .name_space = space_of(at)};
    if (map_of(at)) {
      rc = write_map(map_of(at), &row, w, err);
    } else {
      row.value = sc_cell_value(cell_of(at));
      rc = sc_keyed_writer_put(w, &row, err);
    }
  }
  r->n = 0;
  return rc;
}
