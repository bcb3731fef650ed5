#include "holds.h"

#include <pthread.h>
#include <stdlib.h>

#include "../base/mem.h"

typedef struct hold {
  char *file;
  sc_holder_t holder;
  uint64_t number; /* of the task or the checkpoint */
} hold_t;

struct sc_holds {
  pthread_mutex_t lock;
  hold_t *list;    /* n of them, in no order */
  uint32_t n, cap;
};

sc_holds_t *sc_holds_create(void) {
  sc_holds_t *h = sc_calloc(1, sizeof *h);
  pthread_mutex_init(&h->lock, NULL);
  return h;
}

void sc_holds_destroy(sc_holds_t *h) {
  if (!h)
    return;
  for (uint32_t i = 0; i < h->n; i++)
    free(h->list[i].file);
  free(h->list);
  pthread_mutex_destroy(&h->lock);
  free(h);
}

/* ---- under the lock ---- */

static bool is_held(const sc_holds_t *h, const char *file) {
  for (uint32_t i = 0; i < h->n; i++)
    if (!strcmp(h->list[i].file, file))
      return true;
  return false;
}

static void add(sc_holds_t *h, sc_holder_t holder, uint64_t number, const char *file) {
  for (uint32_t i = 0; i < h->n; i++)
    if (h->list[i].holder == holder && h->list[i].number == number &&
        !strcmp(h->list[i].file, file))
      return;
  if (h->n == h->cap) {
    h->cap = h->cap ? h->cap * 2 : 16;
    h->list = sc_realloc(h->list, h->cap * sizeof *h->list);
  }
  h->list[h->n++] = (hold_t){sc_strdup(file), holder, number};
}

/* ---- the holds ---- */

void sc_holds_add(sc_holds_t *h, sc_holder_t holder, uint64_t number, const char *file) {
  pthread_mutex_lock(&h->lock);
  add(h, holder, number, file);
  pthread_mutex_unlock(&h->lock);
}

void sc_holds_share(sc_holds_t *h, uint64_t checkpoint) {
  pthread_mutex_lock(&h->lock);
  for (uint32_t i = 0, n = h->n; i < n; i++)
    if (h->list[i].holder == SC_HOLDER_TASK)
      add(h, SC_HOLDER_CHECKPOINT, checkpoint, h->list[i].file);
  pthread_mutex_unlock(&h->lock);
}

void sc_holds_drop(sc_holds_t *h, sc_holder_t holder, uint64_t number, sc_names_t *gone) {
  pthread_mutex_lock(&h->lock);
  size_t first = gone->n, n = first;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < h->n; i++) {
    if (h->list[i].holder != holder || h->list[i].number != number) {
      h->list[kept++] = h->list[i];
      continue;
    }
    gone->list = sc_realloc(gone->list, (gone->n + 1) * sizeof *gone->list);
    gone->list[gone->n++] = h->list[i].file; /* one holder holds a file once */
  }
  h->n = kept;
  for (size_t i = first; i < gone->n; i++)
    if (is_held(h, gone->list[i]))
      free(gone->list[i]);
    else
      gone->list[n++] = gone->list[i];
  gone->n = n;
  pthread_mutex_unlock(&h->lock);
}

bool sc_holds_has(sc_holds_t *h, const char *file) {
  if (!h)
    return false;
  pthread_mutex_lock(&h->lock);
  bool held = is_held(h, file);
  pthread_mutex_unlock(&h->lock);
  return held;
}
