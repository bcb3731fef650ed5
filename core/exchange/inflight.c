#include "inflight.h"

#include "../base/mem.h"

sc_inflight_part_t *sc_inflight_add(sc_inflight_t *f) {
  if (f->n_parts == f->cap) {
    f->cap = f->cap ? f->cap * 2 : 8;
    f->parts = sc_realloc(f->parts, f->cap * sizeof *f->parts);
  }
  sc_inflight_part_t *p = &f->parts[f->n_parts++];
  *p = (sc_inflight_part_t){0};
  return p;
}

/* Room grows by doubling: it is full whenever the count is a power of two. */
void sc_inflight_keep(sc_inflight_part_t *p, sc_buffer_t *b) {
  if ((p->n_buffers & (p->n_buffers - 1)) == 0)
    p->buffers = sc_realloc(p->buffers, (p->n_buffers ? p->n_buffers * 2 : 1) * sizeof *p->buffers);
  p->buffers[p->n_buffers++] = b;
}

uint64_t sc_inflight_bytes(const sc_inflight_t *f) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < f->n_parts; i++) {
    const sc_inflight_part_t *p = &f->parts[i];
    for (uint32_t k = 0; k < p->n_buffers; k++)
      bytes += p->buffers[k]->len;
    bytes -= p->skip;
  }
  return bytes;
}

void sc_inflight_fini(sc_inflight_t *f) {
  for (uint32_t i = 0; i < f->n_parts; i++) {
    for (uint32_t k = 0; k < f->parts[i].n_buffers; k++)
      sc_buffer_unref(f->parts[i].buffers[k]);
    free(f->parts[i].buffers);
  }
  free(f->parts);
  *f = (sc_inflight_t){0};
}
