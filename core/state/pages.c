#include "pages.h"

#include <stdlib.h>
#include <string.h>

#include "../base/error.h"
#include "../base/mem.h"

#define CHUNK_PAGES 32

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
  block_t blocks[CHUNK_PAGES];
};

void sc_pages_init(sc_pages_t *p) { *p = (sc_pages_t){.open = NULL}; }

void sc_pages_fini(sc_pages_t *p) {
  sc_assert(p->in_use == 0 && !p->open);
  free(p->spare);
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

static bool full(const sc_chunk_t *c) { return c->live == CHUNK_PAGES; }

static sc_chunk_t *chunk_with_room(sc_pages_t *p) {
  if (p->open)
    return p->open;
  sc_chunk_t *c = p->spare;
  p->spare = NULL;
  if (!c) {
    c = sc_malloc(sizeof *c);
    c->free = NULL;
    c->used = 0;
    c->live = 0;
    p->bytes += sizeof *c;
  }
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
  if (p->spare) {
    free(c);
    p->bytes -= sizeof *c;
  } else {
    p->spare = c;
  }
}
