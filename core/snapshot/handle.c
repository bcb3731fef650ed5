#include "handle.h"

#include <stdlib.h>

#include "../base/mem.h"

sc_task_snapshot_t *sc_task_snapshot_create(uint32_t task, uint32_t subtask, uint32_t n_operators) {
  sc_task_snapshot_t *snap = sc_calloc(1, sizeof *snap);
  snap->task = task;
  snap->subtask = subtask;
  snap->last_from = UINT32_MAX;
  snap->operators = sc_calloc(n_operators, sizeof *snap->operators);
  snap->n_operators = n_operators;
  for (uint32_t i = 0; i < n_operators; i++) {
    snap->operators[i].watermark = INT64_MIN;
    snap->operators[i].forwarded = INT64_MIN;
  }
  return snap;
}

void sc_task_snapshot_destroy(sc_task_snapshot_t *snap) {
  if (!snap)
    return;
  for (uint32_t i = 0; i < snap->n_operators; i++)
    sc_operator_snapshot_fini(&snap->operators[i]);
  free(snap->operators);
  free(snap);
}

sc_task_snapshot_t *sc_task_snapshot_copy(const sc_task_snapshot_t *snap) {
  sc_task_snapshot_t *copy = sc_malloc(sizeof *copy);
  *copy = *snap;
  copy->operators = sc_calloc(snap->n_operators, sizeof *copy->operators);
  for (uint32_t i = 0; i < snap->n_operators; i++)
    sc_operator_snapshot_copy(&copy->operators[i], &snap->operators[i]);
  return copy;
}

static uint64_t handle_size(const sc_handle_t *h) {
  if (h->kind == SC_HANDLE_INFLIGHT) /* its share of a file that belongs to others, too */
    return h->inflight.bytes;
  return h->file ? h->length : h->inlined.len;
}

uint64_t sc_task_snapshot_size(const sc_task_snapshot_t *snap) {
  uint64_t size = 0;
  for (uint32_t i = 0; i < snap->n_operators; i++)
    for (uint32_t k = 0; k < snap->operators[i].n_handles; k++)
      size += handle_size(&snap->operators[i].handles[k]);
  return size;
}

void sc_task_snapshot_drop_inflight(sc_task_snapshot_t *snap) {
  for (uint32_t i = 0; i < snap->n_operators; i++) {
    sc_operator_snapshot_t *op = &snap->operators[i];
    uint32_t n = 0;
    for (uint32_t k = 0; k < op->n_handles; k++)
      if (op->handles[k].kind == SC_HANDLE_INFLIGHT)
        sc_handle_fini(&op->handles[k]);
      else
        op->handles[n++] = op->handles[k];
    op->n_handles = n;
  }
}

sc_handle_t *sc_operator_snapshot_add(sc_operator_snapshot_t *op, sc_handle_kind_t kind) {
  op->handles = sc_realloc(op->handles, (op->n_handles + 1) * sizeof *op->handles);
  sc_handle_t *h = &op->handles[op->n_handles++];
  *h = (sc_handle_t){.kind = kind, .inlined = SC_BUF_INIT};
  return h;
}

void sc_operator_snapshot_fini(sc_operator_snapshot_t *op) {
  for (uint32_t i = 0; i < op->n_handles; i++)
    sc_handle_fini(&op->handles[i]);
  free(op->handles);
  free(op->uid);
  *op = (sc_operator_snapshot_t){0};
}

void sc_operator_snapshot_copy(sc_operator_snapshot_t *to, const sc_operator_snapshot_t *from) {
  *to = *from;
  to->uid = sc_strdup(from->uid);
  to->handles = from->n_handles ? sc_calloc(from->n_handles, sizeof *to->handles) : NULL;
  for (uint32_t i = 0; i < from->n_handles; i++)
    sc_handle_copy(&to->handles[i], &from->handles[i]);
}

void sc_handle_fini(sc_handle_t *h) {
  for (uint32_t i = 0; i < h->n_states; i++)
    free(h->states[i]);
  free(h->states);
  free(h->offsets);
  free(h->file);
  free(h->directory);
  sc_buf_free(&h->inlined);
  *h = (sc_handle_t){0};
}

void sc_handle_copy(sc_handle_t *to, const sc_handle_t *from) {
  *to = *from;
  to->file = sc_strdup(from->file);
  to->directory = sc_strdup(from->directory);
  to->inlined = (sc_buf_t)SC_BUF_INIT;
  sc_buf_put_bytes(&to->inlined, sc_buf_bytes(&from->inlined));
  if (from->offsets) {
    size_t bytes = sc_key_range_count(from->range) * sizeof *to->offsets;
    to->offsets = sc_malloc(bytes);
    memcpy(to->offsets, from->offsets, bytes);
  }
  to->states = from->n_states ? sc_calloc(from->n_states, sizeof *to->states) : NULL;
  for (uint32_t i = 0; i < from->n_states; i++)
    to->states[i] = sc_strdup(from->states[i]);
}
