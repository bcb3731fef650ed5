#include "buffer.h"

#include <pthread.h>

#include "../base/error.h"
#include "../base/mem.h"

struct sc_pool {
  pthread_mutex_t lock;    /* guards `free` */
  sc_buffer_t *free;       /* buffers of the normal size, ready for use */
  uint32_t segment_size;   /* cap of a normal buffer */
  atomic_uint outstanding; /* taken and not given back */
};

sc_pool_t *sc_pool_create(uint32_t segment_size) {
  sc_pool_t *pool = sc_calloc(1, sizeof *pool);
  pthread_mutex_init(&pool->lock, NULL);
  pool->segment_size = segment_size ? segment_size : SC_SEGMENT_SIZE_DEFAULT;
  return pool;
}

void sc_pool_destroy(sc_pool_t *pool) {
  if (!pool)
    return;
  sc_assert(sc_pool_outstanding(pool) == 0);
  while (pool->free) {
    sc_buffer_t *b = pool->free;
    pool->free = b->next;
    free(b);
  }
  pthread_mutex_destroy(&pool->lock);
  free(pool);
}

uint32_t sc_pool_segment_size(const sc_pool_t *pool) {
  return pool->segment_size;
}

uint32_t sc_pool_outstanding(sc_pool_t *pool) {
  /* Acquire: whoever reads 0 (to destroy the pool) is behind the last use of every buffer. */
  return atomic_load_explicit(&pool->outstanding, memory_order_acquire);
}

static sc_buffer_t *reuse(sc_pool_t *pool) {
  pthread_mutex_lock(&pool->lock);
  sc_buffer_t *b = pool->free;
  if (b)
    pool->free = b->next;
  pthread_mutex_unlock(&pool->lock);
  return b;
}

sc_buffer_t *sc_pool_take(sc_pool_t *pool, size_t need) {
  sc_assert(need <= UINT32_MAX);
  bool normal = need <= pool->segment_size;
  uint32_t cap = normal ? pool->segment_size : (uint32_t)need;
  sc_buffer_t *b = normal ? reuse(pool) : NULL;
  if (!b) {
    b = sc_malloc(sizeof *b + cap);
    b->pool = pool;
    b->cap = cap;
  }
  b->len = b->records = 0;
  b->limit = cap;
  b->units = normal ? 1 : (uint32_t)(((uint64_t)cap - 1) / pool->segment_size + 1);
  b->next = NULL;
  atomic_init(&b->refs, 1);
  /* Relaxed: only a count; the buffer's bytes are published by the lock of a channel. */
  atomic_fetch_add_explicit(&pool->outstanding, 1, memory_order_relaxed);
  return b;
}

static void give_back(sc_pool_t *pool, sc_buffer_t *b) {
  if (b->cap != pool->segment_size) {
    free(b);
  } else {
    pthread_mutex_lock(&pool->lock);
    b->next = pool->free;
    pool->free = b;
    pthread_mutex_unlock(&pool->lock);
  }
  /* Release, and last: pairs with the acquire in sc_pool_outstanding. */
  atomic_fetch_sub_explicit(&pool->outstanding, 1, memory_order_release);
}

void sc_buffer_unref(sc_buffer_t *b) {
  if (!b)
    return;
  /* Acquire and release: what each holder read or wrote lies before the reuse by the last one. */
  uint32_t before = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
  sc_assert(before > 0);
  if (before == 1)
    give_back(b->pool, b);
}
