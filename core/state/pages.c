#include "pages.h"

#include <stdlib.h>
#include <string.h>

#include "../base/error.h"
#include "../base/mem.h"

#define CHUNK_BYTES (256 * 1024)
#define ALIGNMENT 64 /* of arrays */

typedef struct block {
  sc_chunk_t *chunk; /* that it is of */
  union {
    struct block *next;          /* of the chunk's free ones */
    uint8_t data[SC_PAGE_BYTES]; /* the page, while it is in use */
  } u;
} block_t;

struct sc_chunk {
  sc_chunk_t *next, *before;   /* in pages->open */
  block_t *free;               /* blocks that were given back */
  uint32_t used;               /* blocks that were ever taken: those behind have never been */
  uint32_t live;               /* blocks in use */
  uint32_t count;              /* of blocks */
  bool array;                  /* it was an array, and becomes one again */
  size_t size;                 /* bytes of the chunk */
  block_t blocks[];
};

struct sc_spread {
  sc_spread_t *next; /* older */
  size_t size;       /* bytes of it, this head included */
  size_t at;         /* where it is still unused */
};

void sc_pages_init(sc_pages_t *p) { *p = (sc_pages_t){.open = NULL}; }

void sc_pages_fini(sc_pages_t *p) {
  sc_assert(p->in_use == 0 && !p->open);
  free(p->spare);
  for (sc_spread_t *s = p->spreads, *next; s; s = next) {
    next = s->next;
    free(s);
  }
}

/* Memory for at least `need` bytes, in chunks that grow with what there is. */
static void *more(sc_pages_t *p, size_t need, size_t *size) {
  bool huge = need > CHUNK_BYTES || p->bytes + p->array_bytes >= SC_PAGES_HUGE_FROM;
  size_t unit = huge ? SC_HUGE_BYTES : CHUNK_BYTES;
  *size = (need + unit - 1) / unit * unit;
  return huge ? sc_huge_alloc(*size) : sc_malloc(*size);
}

static void open_chunk(sc_pages_t *p, sc_chunk_t *c) {
  c->before = NULL;
  c->next = p->open;
  if (p->open)
    p->open->before = c;
  p->open = c;
}

static void close_chunk(sc_pages_t *p, sc_chunk_t *c) {
  if (c->before)
    c->before->next = c->next;
  else
    p->open = c->next;
  if (c->next)
    c->next->before = c->before;
}

static void *pop_array(sc_pages_t *p, unsigned k) {
  void *array = p->arrays[k];
  memcpy(&p->arrays[k], array, sizeof(void *));
  return array;
}

static bool full(const sc_chunk_t *c) { return c->live == c->count; }

static sc_chunk_t *make_chunk(sc_pages_t *p) {
  size_t size = 0;
  sc_chunk_t *c = NULL;
  for (unsigned k = 0; !c && k < SC_ARRAY_SIZES; k++)
    if (p->arrays[k]) {
      c = pop_array(p, k);
      size = (size_t)SC_ARRAY_BYTES_MIN << k;
      p->array_bytes -= size;
    }
  bool array = c != NULL;
  if (!c)
    c = more(p, sizeof *c + sizeof(block_t), &size);
  p->bytes += size;
  *c = (sc_chunk_t){.size = size, .array = array,
                    .count = (uint32_t)((size - sizeof *c) / sizeof(block_t))};
  return c;
}

static sc_chunk_t *chunk_with_room(sc_pages_t *p) {
  if (p->open)
    return p->open;
  sc_chunk_t *c = p->spare;
  p->spare = NULL;
  if (!c)
    c = make_chunk(p);
  open_chunk(p, c);
  return c;
}

void *sc_pages_take(sc_pages_t *p) {
  sc_chunk_t *c = chunk_with_room(p);
  block_t *b = c->free;
  if (b)
    c->free = b->u.next;
  else
    b = &c->blocks[c->used++];
  b->chunk = c;
  c->live++;
  p->in_use++;
  if (full(c))
    close_chunk(p, c);
  memset(b->u.data, 0, sizeof b->u.data);
  return b->u.data;
}

void sc_pages_give(sc_pages_t *p, void *page) {
  block_t *b = (block_t *)((uint8_t *)page - offsetof(block_t, u));
  sc_chunk_t *c = b->chunk;
  if (full(c))
    open_chunk(p, c);
  b->u.next = c->free;
  c->free = b;
  c->live--;
  p->in_use--;
  if (c->live > 0)
    return;
  close_chunk(p, c);
  if (c->array) {
    p->bytes -= c->size;
    p->array_bytes += c->size;
    sc_pages_array_give(p, c, c->size);
  } else if (p->spare) {
    p->bytes -= c->size;
    free(c);
  } else {
    p->spare = c;
  }
}

/* --- arrays --- */

_Static_assert(SC_ARRAY_BYTES_MIN << (SC_ARRAY_SIZES - 1) == SC_ARRAY_BYTES_MAX, "one of each");

static unsigned place_of(size_t bytes) {
  sc_assert(sc_pages_for_array(bytes) && (bytes & (bytes - 1)) == 0);
  return (unsigned)__builtin_ctzll(bytes / SC_ARRAY_BYTES_MIN);
}

void *sc_pages_array(sc_pages_t *p, size_t bytes) {
  unsigned k = place_of(bytes);
  if (p->arrays[k])
    return memset(pop_array(p, k), 0, bytes);
  sc_spread_t *s = p->spreads;
  if (!s || s->size - s->at < bytes) {
    size_t size, head = sizeof *s + ALIGNMENT;
    s = more(p, head + bytes, &size);
    p->array_bytes += size;
    *s = (sc_spread_t){.next = p->spreads, .size = size};
    uintptr_t first = ((uintptr_t)s + head) / ALIGNMENT * ALIGNMENT;
    s->at = first - (uintptr_t)s;
    p->spreads = s;
  }
  void *array = (uint8_t *)s + s->at;
  s->at += bytes;
  return memset(array, 0, bytes);
}

void sc_pages_array_give(sc_pages_t *p, void *array, size_t bytes) {
  unsigned k = place_of(bytes);
  memcpy(array, &p->arrays[k], sizeof(void *));
  p->arrays[k] = array;
}
