#include "outbox.h"

#include <stdlib.h>

#include "../base/mem.h"

void sc_outbox_init(sc_outbox_t *o) {
  *o = (sc_outbox_t){0};
}

static void destroy(sc_outgoing_t *out) {
  if (!out)
    return;
  free(out->text);
  free(out->tasks);
  sc_task_snapshot_destroy(out->discard);
  free(out);
}

void sc_outbox_fini(sc_outbox_t *o) {
  sc_outbox_release(o);
  while (o->oldest) {
    sc_outgoing_t *out = o->oldest;
    o->oldest = out->next;
    destroy(out);
  }
  o->youngest = NULL;
}

sc_outgoing_t *sc_outbox_add(sc_outbox_t *o, sc_action_kind_t kind) {
  sc_outgoing_t *out = sc_calloc(1, sizeof *out);
  out->action.kind = kind;
  out->action.task = UINT32_MAX;
  if (o->oldest)
    o->youngest->next = out;
  else
    o->oldest = out;
  o->youngest = out;
  return out;
}

void sc_outbox_release(sc_outbox_t *o) {
  destroy(o->taken);
  o->taken = NULL;
}

bool sc_outbox_take(sc_outbox_t *o, sc_action_t *out) {
  sc_outbox_release(o);
  sc_outgoing_t *first = o->oldest;
  if (!first)
    return false;
  o->oldest = first->next;
  o->taken = first;
  first->action.text = first->text;
  first->action.tasks = first->tasks;
  if (first->discard)
    first->action.snapshots = &first->discard;
  *out = first->action;
  return true;
}
