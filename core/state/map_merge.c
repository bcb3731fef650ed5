#include "map_merge.h"

#include <stdlib.h>

#include "../base/mem.h"

void sc_map_merge_init(sc_map_merge_t *m) {
  m->at = m->few;
  m->n = 0;
  m->cap = SC_MAP_MERGE_FEW;
}

void sc_map_merge_fini(sc_map_merge_t *m) {
  if (m->at != m->few)
    free(m->at);
  sc_map_merge_init(m);
}

static void grow(sc_map_merge_t *m) {
  bool few = m->at == m->few;
  m->cap *= 2;
  m->at = sc_realloc(few ? NULL : m->at, m->cap * sizeof *m->at);
  if (few)
    memcpy(m->at, m->few, sizeof m->few);
}

bool sc_map_merge_add(sc_map_merge_t *m, const sc_table_entry_t *layer, const sc_bytes_t *from) {
  if (!layer)
    return true;
  const sc_omap_entry_t *first = from ? sc_omap_seek(layer->map, *from) : sc_omap_first(layer->map);
  if (first) {
    if (m->n == m->cap)
      grow(m);
    m->at[m->n++] = first;
  }
  return !(layer->flags & SC_ENTRY_CLEARED);
}

/* Step over `key` in every layer; layers at their end leave, the others keep their order. */
static void step_over(sc_map_merge_t *m, sc_bytes_t key) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < m->n; i++) {
    const sc_omap_entry_t *e = m->at[i];
    if (sc_bytes_equal(sc_omap_key(e), key))
      e = e->next;
    if (e)
      m->at[kept++] = e;
  }
  m->n = kept;
}

const sc_omap_entry_t *sc_map_merge_next(sc_map_merge_t *m) {
  while (m->n > 0) {
    const sc_omap_entry_t *least = m->at[0];
    for (uint32_t i = 1; i < m->n; i++) /* strictly less: of equals the newest stays */
      if (sc_bytes_compare(sc_omap_key(m->at[i]), sc_omap_key(least)) < 0)
        least = m->at[i];
    step_over(m, sc_omap_key(least));
    if (!(least->flags & SC_ENTRY_TOMBSTONE))
      return least;
  }
  return NULL;
}
