#include "barrier.h"

#include "../base/error.h"
#include "../base/mem.h"

typedef struct channel {
  bool closed;    /* its sender has left */
  bool delivered; /* its barrier of the pending checkpoint has come */
  bool held;      /* and it is held back since (B3) */
} channel_t;

struct sc_aligner {
  uint64_t newest;   /* highest checkpoint seen (B1) */
  bool pending;      /* newest is being aligned */
  uint32_t missing;  /* B2 */
  uint32_t n;        /* channels */
  uint32_t n_open;   /* of these, not closed */
  uint32_t n_held;   /* of these, held back */
  channel_t channels[];
};

sc_aligner_t *sc_aligner_create(uint32_t channels) {
  sc_aligner_t *a = sc_calloc(1, sizeof *a + channels * sizeof(channel_t));
  a->n = a->n_open = channels;
  return a;
}

void sc_aligner_destroy(sc_aligner_t *a) {
  free(a);
}

bool sc_aligner_held(const sc_aligner_t *a, uint32_t channel) {
  sc_assert(channel < a->n);
  return a->channels[channel].held;
}

uint64_t sc_aligner_pending(const sc_aligner_t *a) {
  return a->pending ? a->newest : 0;
}

uint32_t sc_aligner_missing(const sc_aligner_t *a) {
  return a->missing;
}

/* Nothing is pending any more; true if that released a channel. */
static bool leave(sc_aligner_t *a) {
  bool released = a->n_held > 0;
  for (uint32_t i = 0; i < a->n; i++)
    a->channels[i].delivered = a->channels[i].held = false;
  a->n_held = a->missing = 0;
  a->pending = false;
  return released;
}

static bool obsolete(const sc_aligner_t *a, uint64_t id) {
  return id < a->newest || (id == a->newest && !a->pending);
}

/* Make id the pending one, giving up an older one. */
static void enter(sc_aligner_t *a, uint64_t id, sc_aligner_actions_t *act) {
  if (a->pending && a->newest == id)
    return;
  if (a->pending) {
    act->abort_id = a->newest;
    act->superseded_by = id;
    act->release_all = leave(a);
  }
  a->newest = id;
  a->pending = true;
  a->missing = a->n_open;
}

static void start_if_complete(sc_aligner_t *a, sc_aligner_actions_t *act) {
  if (a->missing > 0)
    return;
  act->start_id = a->newest;
  act->release_all |= leave(a);
}

sc_aligner_actions_t sc_aligner_barrier(sc_aligner_t *a, uint32_t channel, uint64_t id) {
  sc_assert(channel < a->n);
  sc_aligner_actions_t act = {0};
  channel_t *ch = &a->channels[channel];
  if (ch->closed || obsolete(a, id))
    return act;
  enter(a, id, &act);
  if (ch->delivered)
    return act;
  ch->delivered = true;
  a->missing--;
  start_if_complete(a, &act);
  if (!act.start_id) {
    act.hold = ch->held = true;
    a->n_held++;
  }
  return act;
}

sc_aligner_actions_t sc_aligner_trigger(sc_aligner_t *a, uint64_t id) {
  sc_aligner_actions_t act = {0};
  if (!obsolete(a, id)) {
    enter(a, id, &act);
    start_if_complete(a, &act);
  }
  return act;
}

sc_aligner_actions_t sc_aligner_close(sc_aligner_t *a, uint32_t channel) {
  sc_assert(channel < a->n);
  sc_aligner_actions_t act = {0};
  channel_t *ch = &a->channels[channel];
  if (ch->closed)
    return act;
  ch->closed = true;
  a->n_open--;
  a->n_held -= ch->held;
  ch->held = false;
  if (a->pending && !ch->delivered) {
    a->missing--;
    start_if_complete(a, &act);
  }
  return act;
}

sc_aligner_actions_t sc_aligner_abort(sc_aligner_t *a, uint64_t id) {
  sc_aligner_actions_t act = {0};
  if (obsolete(a, id))
    return act;
  a->newest = id;
  act.abort_id = id;
  act.release_all = leave(a);
  return act;
}
