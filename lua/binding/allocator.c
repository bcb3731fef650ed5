#include "allocator.h"

#include <stdlib.h>
#include <string.h>

#include "../../core/base/mem.h"

#define UNIT 16               /* sizes are rounded up to it; also the alignment */
#define SMALL_MAX 512         /* larger blocks are the system's */
#define CHUNK_MIN (16 * 1024)
#define CHUNK_MAX (256 * 1024)

typedef struct block { struct block *next; } block_t;

typedef struct chunk {
  struct chunk *next;         /* made before */
  char padding[UNIT - sizeof(struct chunk *)];
} chunk_t;

_Static_assert(sizeof(chunk_t) == UNIT, "blocks behind the head are aligned");

struct lsc_allocator {
  block_t *free[SMALL_MAX / UNIT + 1]; /* by size in units */
  char *at, *end;                      /* what is left of the newest chunk */
  size_t chunk_size;                   /* of the next one */
  chunk_t *chunks;                     /* newest first */
};

lsc_allocator_t *lsc_allocator_create(void) {
  lsc_allocator_t *a = sc_calloc(1, sizeof *a);
  a->chunk_size = CHUNK_MIN;
  return a;
}

void lsc_allocator_destroy(lsc_allocator_t *a) {
  if (!a)
    return;
  for (chunk_t *c = a->chunks, *next; c; c = next) {
    next = c->next;
    free(c);
  }
  free(a);
}

#ifdef __SANITIZE_ADDRESS__

void *lsc_allocate(void *a, void *old, size_t old_size, size_t size) {
  if (size)
    return realloc(old, size);
  free(old);
  return NULL;
}

#else

static size_t units(size_t size) { return (size + UNIT - 1) / UNIT; }

/* What is left of the old chunk is at most one block of the largest size: it stays unused. */
static void *carve(lsc_allocator_t *a, size_t size) {
  if ((size_t)(a->end - a->at) < size) {
    chunk_t *c = malloc(a->chunk_size);
    if (!c)
      return NULL;
    c->next = a->chunks;
    a->chunks = c;
    a->at = (char *)(c + 1);
    a->end = (char *)c + a->chunk_size;
    if (a->chunk_size < CHUNK_MAX)
      a->chunk_size *= 2;
  }
  void *p = a->at;
  a->at += size;
  return p;
}

static void *take(lsc_allocator_t *a, size_t size) {
  if (size > SMALL_MAX)
    return malloc(size);
  size_t n = units(size);
  block_t *b = a->free[n];
  if (!b)
    return carve(a, n * UNIT);
  a->free[n] = b->next;
  return b;
}

static void give_back(lsc_allocator_t *a, void *p, size_t size) {
  if (size > SMALL_MAX) {
    free(p);
    return;
  }
  block_t *b = p;
  size_t n = units(size);
  b->next = a->free[n];
  a->free[n] = b;
}

void *lsc_allocate(void *arg, void *old, size_t old_size, size_t size) {
  lsc_allocator_t *a = arg;
  if (!old) /* then old_size says what kind of object it is to be */
    return size ? take(a, size) : NULL;
  if (size == 0) {
    give_back(a, old, old_size);
    return NULL;
  }
  if (old_size > SMALL_MAX && size > SMALL_MAX)
    return realloc(old, size);
  if (size <= SMALL_MAX && units(size) == units(old_size))
    return old;
  void *p = take(a, size);
  if (!p) /* Lua counts on it that making smaller does not fail: then the block stays as large */
    return size <= old_size ? old : NULL;
  memcpy(p, old, size < old_size ? size : old_size);
  give_back(a, old, old_size);
  return p;
}

#endif
