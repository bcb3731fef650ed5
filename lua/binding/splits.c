#include "splits.h"

#include <stdlib.h>

#include "../../core/base/mem.h"

#define LIST_NAME "splits"

lsc_split_t *lsc__splits_add(lsc_splits_t *s, sc_bytes_t split, sc_bytes_t position) {
  if (s->n == s->cap) {
    s->cap = s->cap ? 2 * s->cap : 4;
    s->items = sc_realloc(s->items, s->cap * sizeof *s->items);
  }
  lsc_split_t *added = &s->items[s->n++];
  *added = (lsc_split_t){0};
  sc_buf_put_bytes(&added->split, split);
  sc_buf_put_bytes(&added->position, position);
  return added;
}

void lsc__splits_remove(lsc_splits_t *s, uint32_t i) {
  sc_buf_free(&s->items[i].split);
  sc_buf_free(&s->items[i].position);
  s->n--;
  memmove(&s->items[i], &s->items[i + 1], (s->n - i) * sizeof *s->items);
}

int64_t lsc__splits_wake(const lsc_splits_t *s) {
  int64_t wake = INT64_MAX;
  for (uint32_t i = 0; i < s->n; i++)
    if (s->items[i].wake_at_ms < wake)
      wake = s->items[i].wake_at_ms;
  return wake;
}

int lsc__splits_restore(lsc_splits_t *s, sc_bytes_t lists, sc_error_t *err) {
  sc_bytes_t items, item, split;
  uint32_t n;
  int rc = sc_lists_find(lists, LIST_NAME, &items, &n);
  if (rc <= 0)
    return rc < 0 ? sc_fail(err, rc, "the list of splits is damaged") : 0;
  sc_cursor_t c = sc_cursor(items);
  for (uint32_t i = 0; i < n; i++) {
    if (sc_cursor_value(&c, &item) != 1 ||
        sc_value_field(item, sc_bytes_str("split"), &split) != 1)
      return sc_fail(err, SC_ECORRUPT, "split %u of the restored ones is damaged", i);
    sc_bytes_t position = {NULL, 0};
    sc_value_field(item, sc_bytes_str("position"), &position);
    lsc__splits_add(s, split, position);
  }
  return 0;
}

void lsc__splits_snapshot(const lsc_splits_t *s, sc_snapshot_parts_t *parts) {
  sc_buf_t item = SC_BUF_INIT;
  sc_parts_declare(parts, LIST_NAME, SC_LIST_SPLIT);
  for (uint32_t i = 0; i < s->n; i++) {
    const lsc_split_t *split = &s->items[i];
    sc_buf_clear(&item);
    sc_pack_map(&item, split->position.len ? 2 : 1);
    sc_pack_cstr(&item, "split"); /* the shorter key is the first in byte order */
    sc_buf_put_bytes(&item, sc_buf_bytes(&split->split));
    if (split->position.len) {
      sc_pack_cstr(&item, "position");
      sc_buf_put_bytes(&item, sc_buf_bytes(&split->position));
    }
    sc_parts_list(parts, LIST_NAME, SC_LIST_SPLIT, sc_buf_bytes(&item));
  }
  sc_buf_free(&item);
}

void lsc__splits_free(lsc_splits_t *s) {
  while (s->n)
    lsc__splits_remove(s, s->n - 1);
  free(s->items);
  *s = (lsc_splits_t){0};
}
