#include "retained.h"

#include <stdlib.h>
#include <string.h>

#include "../base/error.h"
#include "../base/mem.h"

void sc_retained_init(sc_retained_t *r, uint32_t limit) {
  *r = (sc_retained_t){.limit = limit ? limit : 1};
}

void sc_retained_fini(sc_retained_t *r) {
  free(r->ids);
  sc_retained_init(r, r->limit);
}

void sc_retained_add(sc_retained_t *r, uint64_t id) {
  sc_assert(id > sc_retained_latest(r));
  if (r->n == r->allocated) {
    r->allocated = r->allocated ? 2 * r->allocated : 4;
    r->ids = sc_realloc(r->ids, r->allocated * sizeof *r->ids);
  }
  r->ids[r->n++] = id;
}

uint64_t sc_retained_evict(sc_retained_t *r) {
  if (r->n <= r->limit)
    return 0;
  uint64_t oldest = r->ids[0];
  r->n--;
  memmove(r->ids, r->ids + 1, r->n * sizeof *r->ids);
  return oldest;
}

bool sc_retained_has(const sc_retained_t *r, uint64_t id) {
  for (size_t i = 0; i < r->n; i++)
    if (r->ids[i] == id)
      return true;
  return false;
}

uint64_t sc_retained_latest(const sc_retained_t *r) {
  return r->n ? r->ids[r->n - 1] : 0;
}
