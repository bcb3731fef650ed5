#include "cut.h"

#include <pthread.h>

#include "../base/error.h"
#include "../base/mem.h"

struct sc_cut {
  atomic_uint refs;
  uint64_t checkpoint;
  atomic_bool overtook;   /* only shown */
  pthread_mutex_t lock;   /* guards what follows */
  uint32_t holds;
  bool dropped;
  sc_inflight_t inflight;
  void (*done)(void *arg);
  void *arg;
};

sc_cut_t *sc_cut_create(uint64_t checkpoint, void (*done)(void *arg), void *arg) {
  sc_cut_t *cut = sc_calloc(1, sizeof *cut);
  atomic_init(&cut->refs, 2);
  atomic_init(&cut->overtook, false);
  cut->checkpoint = checkpoint;
  pthread_mutex_init(&cut->lock, NULL);
  cut->holds = 1;
  cut->done = done;
  cut->arg = arg;
  return cut;
}

void sc_cut_note_overtaking(sc_cut_t *cut) {
  atomic_store_explicit(&cut->overtook, true, memory_order_relaxed); /* nothing hangs on it */
}

bool sc_cut_overtook(const sc_cut_t *cut) {
  return atomic_load_explicit(&cut->overtook, memory_order_relaxed);
}

uint64_t sc_cut_checkpoint(const sc_cut_t *cut) {
  return cut->checkpoint;
}

void sc_cut_unref(sc_cut_t *cut) {
  /* Acquire and release: every use by others lies before the free. */
  if (!cut || atomic_fetch_sub_explicit(&cut->refs, 1, memory_order_acq_rel) != 1)
    return;
  sc_inflight_fini(&cut->inflight);
  pthread_mutex_destroy(&cut->lock);
  free(cut);
}

void sc_cut_hold(sc_cut_t *cut) {
  /* Relaxed: the caller's own hold keeps it alive. */
  atomic_fetch_add_explicit(&cut->refs, 1, memory_order_relaxed);
  pthread_mutex_lock(&cut->lock);
  sc_assert(cut->holds > 0);
  cut->holds++;
  pthread_mutex_unlock(&cut->lock);
}

void sc_cut_add(sc_cut_t *cut, sc_inflight_part_t *part) {
  sc_inflight_t rejected = {0};
  pthread_mutex_lock(&cut->lock);
  *sc_inflight_add(cut->dropped ? &rejected : &cut->inflight) = *part;
  pthread_mutex_unlock(&cut->lock);
  part->buffers = NULL;
  part->n_buffers = 0;
  sc_inflight_fini(&rejected);
}

void sc_cut_release(sc_cut_t *cut) {
  pthread_mutex_lock(&cut->lock);
  sc_assert(cut->holds > 0);
  bool complete = --cut->holds == 0 && !cut->dropped;
  pthread_mutex_unlock(&cut->lock);
  if (complete)
    cut->done(cut->arg);
  sc_cut_unref(cut);
}

bool sc_cut_drop(sc_cut_t *cut) {
  sc_inflight_t rejected = {0};
  pthread_mutex_lock(&cut->lock);
  bool open = cut->holds > 0 && !cut->dropped;
  if (open) {
    cut->dropped = true;
    rejected = cut->inflight;
    cut->inflight = (sc_inflight_t){0};
  }
  pthread_mutex_unlock(&cut->lock);
  sc_inflight_fini(&rejected);
  return open;
}

uint32_t sc_cut_holds(sc_cut_t *cut) {
  pthread_mutex_lock(&cut->lock);
  uint32_t holds = cut->holds;
  pthread_mutex_unlock(&cut->lock);
  return holds;
}

bool sc_cut_last_capture(sc_cut_t *cut, uint32_t *edge, uint32_t *sender) {
  const sc_inflight_part_t *last = NULL;
  pthread_mutex_lock(&cut->lock);
  for (uint32_t i = 0; i < cut->inflight.n_parts; i++)
    if (cut->inflight.parts[i].side == SC_INFLIGHT_RECEIVER)
      last = &cut->inflight.parts[i]; /* each is added when its capture ends */
  if (last) {
    *edge = last->edge;
    *sender = last->sender;
  }
  pthread_mutex_unlock(&cut->lock);
  return last != NULL;
}

void sc_cut_take(sc_cut_t *cut, sc_inflight_t *out) {
  pthread_mutex_lock(&cut->lock);
  *out = cut->inflight;
  cut->inflight = (sc_inflight_t){0};
  pthread_mutex_unlock(&cut->lock);
}
