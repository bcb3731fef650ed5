#include "slab.h"

#include <stdlib.h>

#include "../base/error.h"
#include "../base/mem.h"

#define FIRST_SLOTS 4   /* of a size's first page */
#define GROWTH 8        /* a new page has room for one in so many of its size's slots */
#define WALKED_AHEAD 512 /* bytes that are fetched from memory before a walk comes there */
#define SHARED_MAX 1024 /* larger slots have a page each */

typedef struct free_slot {
  sc_slot_t slot;         /* born never */
  struct free_slot *next; /* of the page, where something was stored */
} free_slot_t;

struct sc_page {
  sc_page_t *next;         /* in slab->pages; fixed while somebody may be walking */
  sc_page_t *before;       /* in slab->pages */
  sc_page_t *next_open;    /* in shelf->open */
  sc_page_t *before_open;  /* in shelf->open */
  sc_slab_t *slab;         /* that it belongs to */
  free_slot_t *free;       /* slots that were given back */
  size_t slot_size;        /* bytes of each slot */
  uint16_t slots;          /* of the page */
  uint16_t used;           /* slots that were ever taken: those behind have never been */
  uint16_t live;           /* slots that are taken */
  uint16_t shelf;          /* index in slab->shelves */
  bool whole;              /* of slab->source; others are malloc's */
};

struct sc_shelf {
  size_t size;      /* of its slots; 0: those larger than SHARED_MAX */
  sc_page_t *open;  /* pages with room */
  uint64_t live;    /* slots that are taken */
  uint64_t empty;   /* open pages without any, kept because somebody might have been walking */
};

_Static_assert(sizeof(sc_page_t) % 8 == 0, "slots are counted in units of 8 bytes");

void sc_slab_init(sc_slab_t *s, sc_pages_t *source) {
  s->source = source;
  atomic_init(&s->pages, NULL);
  s->shelves = NULL;
  s->n_shelves = 0;
  s->live = 0;
  s->bytes = 0;
}

static sc_page_t *newest(const sc_slab_t *s) {
  return atomic_load_explicit(&s->pages, memory_order_relaxed); /* its owner's question */
}

/* Sizes are rounded up, by at most an eighth, so that few different ones are left. */
static size_t round_size(size_t size) {
  size_t unit = 8;
  while (unit < 64 && size > 16 * unit)
    unit *= 2;
  if (size > SHARED_MAX) {
    unit = size / 16 / 8 * 8;
    unit = unit > 16384 ? 16384 : unit;
  }
  return (size + unit - 1) / unit * unit;
}

static uint16_t find_shelf(sc_slab_t *s, size_t size) {
  uint32_t i = 0;
  while (i < s->n_shelves && s->shelves[i].size != size)
    i++;
  if (i == s->n_shelves) {
    s->shelves = sc_realloc(s->shelves, (i + 1) * sizeof *s->shelves);
    s->shelves[s->n_shelves++] = (sc_shelf_t){.size = size};
  }
  return (uint16_t)i;
}

static void open_page(sc_shelf_t *shelf, sc_page_t *p) {
  p->before_open = NULL;
  p->next_open = shelf->open;
  if (shelf->open)
    shelf->open->before_open = p;
  shelf->open = p;
}

static void close_page(sc_shelf_t *shelf, sc_page_t *p) {
  if (p->before_open)
    p->before_open->next_open = p->next_open;
  else
    shelf->open = p->next_open;
  if (p->next_open)
    p->next_open->before_open = p->before_open;
}

static sc_slot_t *slot_at(const sc_page_t *p, uint32_t i) {
  return (sc_slot_t *)((uint8_t *)(uintptr_t)p + sizeof *p + (size_t)i * p->slot_size);
}

static sc_page_t *page_of(const sc_slot_t *slot) {
  uint64_t place = atomic_load_explicit(&slot->stamp, memory_order_relaxed) & UINT16_MAX;
  return (sc_page_t *)((uint8_t *)(uintptr_t)slot - place * 8);
}

static size_t page_bytes(const sc_page_t *p) {
  return p->whole ? SC_PAGE_BYTES : sizeof *p + (size_t)p->slots * p->slot_size;
}

/* Zeroed: a slot that was never taken is free to whoever walks. */
static sc_page_t *make_page(sc_slab_t *s, const sc_shelf_t *shelf, size_t slot_size) {
  size_t slots = 1, most = (SC_PAGE_BYTES - sizeof(sc_page_t)) / slot_size;
  if (shelf->size) {
    slots = shelf->live / GROWTH;
    slots = slots < FIRST_SLOTS ? FIRST_SLOTS : slots > most ? most : slots;
  }
  bool whole = shelf->size && slots == most;
  sc_page_t *p = whole ? sc_pages_take(s->source) : sc_calloc(1, sizeof *p + slots * slot_size);
  p->slots = (uint16_t)slots;
  p->whole = whole;
  return p;
}

static sc_page_t *new_page(sc_slab_t *s, uint16_t shelf, size_t slot_size) {
  sc_page_t *p = make_page(s, &s->shelves[shelf], slot_size);
  p->slab = s;
  p->slot_size = (uint32_t)slot_size;
  p->shelf = shelf;
  p->next = newest(s);
  if (p->next)
    p->next->before = p;
  s->bytes += page_bytes(p);
  /* Release: who finds the page finds it made. */
  atomic_store_explicit(&s->pages, p, memory_order_release);
  return p;
}

static void release_page(sc_page_t *p) {
  if (p->whole)
    sc_pages_give(p->slab->source, p);
  else
    free(p);
}

void sc_slab_fini(sc_slab_t *s) {
  for (sc_page_t *p = newest(s), *next; p; p = next) {
    next = p->next;
    release_page(p);
  }
  free(s->shelves);
}

static void free_page(sc_slab_t *s, sc_page_t *p) {
  if (p->before)
    p->before->next = p->next;
  else
    atomic_store_explicit(&s->pages, p->next, memory_order_relaxed); /* nobody is walking */
  if (p->next)
    p->next->before = p->before;
  s->bytes -= page_bytes(p);
  release_page(p);
}

/* A page with room. Those of large slots differ in size: one that is much too large is left. */
static sc_page_t *find_open(const sc_shelf_t *shelf, size_t size) {
  sc_page_t *p = shelf->open;
  while (p && (p->slot_size < size || p->slot_size > size + size / 4))
    p = p->next_open;
  return p;
}

sc_slot_t *sc_slab_take(sc_slab_t *s, size_t size, size_t *room) {
  size = round_size(size);
  uint16_t i = find_shelf(s, size > SHARED_MAX ? 0 : size);
  sc_shelf_t *shelf = &s->shelves[i];
  sc_page_t *p = find_open(shelf, size);
  if (!p) {
    p = new_page(s, i, size);
    open_page(shelf, p);
  } else if (p->live == 0) {
    shelf->empty--;
  }
  sc_slot_t *slot = (sc_slot_t *)p->free;
  if (slot) {
    p->free = p->free->next;
    if (p->free) /* it was given back long ago, and is wanted soon */
      __builtin_prefetch(p->free, 1);
  } else {
    slot = slot_at(p, p->used++);
    __builtin_prefetch((uint8_t *)slot + p->slot_size, 1); /* for whoever comes next */
    uint64_t place = (uint64_t)((uint8_t *)slot - (uint8_t *)p) / 8;
    /* Relaxed: still free, and no walk asks for more. */
    atomic_store_explicit(&slot->stamp, place, memory_order_relaxed);
  }
  p->live++;
  shelf->live++;
  s->live++;
  if (!p->free && p->used == p->slots)
    close_page(shelf, p);
  *room = p->slot_size;
  return slot;
}

void sc_slab_publish(sc_slot_t *slot, uint64_t epoch) {
  sc_assert(epoch > 0 && epoch <= SC_EPOCH_MAX);
  uint64_t place = atomic_load_explicit(&slot->stamp, memory_order_relaxed) & UINT16_MAX;
  /* Relaxed: a walk up to this epoch begins after its end, and the hand-over to the walking thread
   * orders what was stored; an earlier walk only sees that the slot is not its own. */
  atomic_store_explicit(&slot->stamp, epoch << 16 | place, memory_order_relaxed);
}

/* Nobody is walking: what became empty while somebody was may go. */
static void free_empty(sc_slab_t *s, sc_shelf_t *shelf) {
  for (sc_page_t *p = shelf->open, *next; p && shelf->empty > 0; p = next) {
    next = p->next_open;
    if (p->live > 0)
      continue;
    close_page(shelf, p);
    free_page(s, p);
    shelf->empty--;
  }
}

void sc_slab_give(sc_slot_t *slot, bool walked) {
  sc_page_t *p = page_of(slot);
  sc_slab_t *s = p->slab;
  sc_shelf_t *shelf = &s->shelves[p->shelf];
  uint64_t place = atomic_load_explicit(&slot->stamp, memory_order_relaxed) & UINT16_MAX;
  /* Relaxed: a walk that may be under way passes it by whether or not it sees this. */
  atomic_store_explicit(&slot->stamp, place, memory_order_relaxed);
  if (!p->free && p->used == p->slots)
    open_page(shelf, p);
  free_slot_t *given = (free_slot_t *)slot;
  given->next = p->free;
  p->free = given;
  p->live--;
  shelf->live--;
  s->live--;
  if (p->live == 0)
    shelf->empty++;
  if (!walked && shelf->empty > 0)
    free_empty(s, shelf);
}

sc_slab_walk_t sc_slab_walk(const sc_slab_t *s, uint64_t upto) {
  /* Acquire: pairs with the release of new_page, of pages made since the walk was ordered. */
  const sc_page_t *p = atomic_load_explicit(&s->pages, memory_order_acquire);
  return (sc_slab_walk_t){.page = p, .upto = upto};
}

const sc_slot_t *sc_slab_next(sc_slab_walk_t *w) {
  for (; w->page; w->page = w->page->next, w->at = 0)
    while (w->at < w->page->slots) {
      const sc_slot_t *slot = slot_at(w->page, w->at++);
      __builtin_prefetch((const uint8_t *)slot + WALKED_AHEAD);
      uint64_t born = sc_slab_born(slot); /* relaxed: see sc_slab_publish */
      if (born > 0 && born <= w->upto)
        return slot;
    }
  return NULL;
}
