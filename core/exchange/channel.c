#include "channel_parts.h"

#include "../base/error.h"
#include "../base/mem.h"

struct sc_floating {
  atomic_uint refs;      /* holders: the creator and the channels */
  atomic_uint available; /* units not borrowed */
  uint32_t units;        /* of them all; constant */
};

/* ---- floating share ---- */

sc_floating_t *sc_floating_create(uint32_t units) {
  sc_floating_t *f = sc_malloc(sizeof *f);
  atomic_init(&f->refs, 1);
  atomic_init(&f->available, units);
  f->units = units;
  return f;
}

void sc_floating_unref(sc_floating_t *f) {
  /* Acquire and release: every use by others lies before the free. */
  if (f && atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) == 1)
    free(f);
}

uint32_t sc_floating_units(const sc_floating_t *f) {
  return f->units;
}

uint32_t sc_floating_available(sc_floating_t *f) {
  /* Sequentially consistent: the "second look" of (W2). */
  return atomic_load(&f->available);
}

/* Borrow up to `want` units; how many it got. */
static uint32_t borrow(sc_floating_t *f, uint32_t want) {
  if (!f || !want)
    return 0;
  /* Relaxed: the units are only a count; no memory is handed over with them. */
  uint32_t have = atomic_load_explicit(&f->available, memory_order_relaxed);
  uint32_t got;
  do {
    got = have < want ? have : want;
  } while (got && !atomic_compare_exchange_weak_explicit(&f->available, &have, have - got,
                                                         memory_order_relaxed,
                                                         memory_order_relaxed));
  return got;
}

/* ---- under the lock ---- */

static void grow(sc_channel_t *ch) {
  uint32_t cap = ch->cap ? ch->cap * 2 : 16;
  sc_element_t *ring = sc_malloc(cap * sizeof *ring);
  for (uint32_t i = 0; i < ch->count; i++)
    ring[i] = ch->ring[(ch->head + i) & (ch->cap - 1)];
  free(ch->ring);
  ch->ring = ring;
  ch->cap = cap;
  ch->head = 0;
}

void sc__channel_settle(sc_channel_t *ch) {
  /* Sequentially consistent: the "gives the units back" of (W2). */
  atomic_store(&ch->charged, ch->units - ch->borrowed);
  /* Relaxed: a sleeper that missed it is woken by (W1), and the wake synchronizes. */
  atomic_store_explicit(&ch->any, ch->count > 0, memory_order_relaxed);
}

static void charge(sc_channel_t *ch, const sc_buffer_t *b) {
  ch->units += b->units;
  ch->buffers++;
  ch->bytes += b->len;
  ch->passed_buffers++;
  ch->passed_bytes += b->len;
  uint32_t above = ch->units > ch->exclusive ? ch->units - ch->exclusive : 0;
  if (above > ch->borrowed)
    ch->borrowed += borrow(ch->floating, above - ch->borrowed);
}

static void discharge(sc_channel_t *ch, const sc_buffer_t *b) {
  ch->units -= b->units;
  ch->buffers--;
  ch->bytes -= b->len;
  uint32_t above = ch->units > ch->exclusive ? ch->units - ch->exclusive : 0;
  if (ch->borrowed > above) {
    /* Sequentially consistent: the "gives the units back" of (W2). */
    atomic_fetch_add(&ch->floating->available, ch->borrowed - above);
    ch->borrowed = above;
  }
}

void sc__channel_insert(sc_channel_t *ch, uint32_t place, const sc_element_t *e) {
  if (ch->count == ch->cap)
    grow(ch);
  ch->count++;
  for (uint32_t i = ch->count - 1; i > place; i--)
    *sc__channel_at(ch, i) = *sc__channel_at(ch, i - 1);
  *sc__channel_at(ch, place) = *e;
  if (e->kind == SC_ELEMENT_BARRIER && !e->head)
    sc__channel_at(ch, place)->ahead = ch->bytes;
  if (e->kind == SC_ELEMENT_DATA)
    charge(ch, e->buffer);
}

static sc_element_t pop(sc_channel_t *ch) {
  sc_element_t e = ch->ring[ch->head];
  ch->head = (ch->head + 1) & (ch->cap - 1);
  ch->count--;
  if (e.kind == SC_ELEMENT_DATA)
    discharge(ch, e.buffer);
  return e;
}

/* ---- wakes, never under the lock ---- */

static void wake(sc_channel_t *ch, void *arg) {
  if (ch->ends.wake)
    ch->ends.wake(arg);
}

static bool room(sc_channel_t *ch, memory_order order) {
  uint32_t charged = atomic_load_explicit(&ch->charged, order);
  if (charged < ch->exclusive)
    return true;
  return ch->floating &&
         charged - ch->exclusive < atomic_load_explicit(&ch->floating->available, order);
}

/* The take's half of (W2). */
static void feed_producer(sc_channel_t *ch) {
  /* The look at the flag is sequentially consistent, behind the return of the units; the exchange
   * only sees to it that one wake answers one starving. */
  if (atomic_load(&ch->starved) && room(ch, memory_order_seq_cst) &&
      atomic_exchange(&ch->starved, false))
    wake(ch, ch->ends.producer_arg);
}

/* ---- life ---- */

sc_channel_t *sc_channel_create(uint32_t exclusive, sc_floating_t *floating,
                                const sc_channel_ends_t *ends) {
  sc_channel_t *ch = sc_calloc(1, sizeof *ch);
  pthread_mutex_init(&ch->lock, NULL);
  ch->exclusive = exclusive ? exclusive : 1;
  ch->floating = floating;
  if (floating) /* Relaxed: the caller holds a reference already. */
    atomic_fetch_add_explicit(&floating->refs, 1, memory_order_relaxed);
  if (ends)
    ch->ends = *ends;
  grow(ch);
  return ch;
}

void sc_channel_set_name(sc_channel_t *ch, const sc_channel_name_t *name) {
  ch->name = *name;
}

const sc_channel_name_t *sc_channel_name(const sc_channel_t *ch) {
  return &ch->name;
}

void sc_channel_listen(sc_channel_t *ch, sc_channel_word_cb told, void *arg) {
  ch->told = told;
  ch->told_arg = arg;
}

/* Empty the queue; buffers are given back one by one, without the lock. */
static void drop_all(sc_channel_t *ch) {
  sc_element_t e;
  while (sc_channel_take(ch, &e))
    if (e.kind == SC_ELEMENT_DATA)
      sc_buffer_unref(e.buffer);
}

void sc_channel_destroy(sc_channel_t *ch) {
  if (!ch)
    return;
  ch->ends.wake = NULL; /* whoever would be woken may be gone */
  sc__channel_forget(ch);
  drop_all(ch);
  sc_floating_unref(ch->floating);
  pthread_mutex_destroy(&ch->lock);
  free(ch->ring);
  free(ch);
}

/* ---- producer ---- */

bool sc_channel_has_room(sc_channel_t *ch) {
  /* Relaxed: "yes" may be stale by what siblings borrow in this instant, which is overdraft. */
  if (room(ch, memory_order_relaxed))
    return true;
  atomic_store(&ch->starved, true); /* (W2): raised before the second look */
  return room(ch, memory_order_seq_cst);
}

static void push(sc_channel_t *ch, const sc_element_t *e) {
  pthread_mutex_lock(&ch->lock);
  sc_assert(!ch->closed);
  bool drop = ch->gone, was_empty = ch->count == 0;
  ch->ended |= e->kind == SC_ELEMENT_END;
  ch->closed |= e->kind == SC_ELEMENT_CLOSE;
  if (!drop) {
    sc__channel_insert(ch, ch->count, e);
    sc__channel_settle(ch);
  }
  pthread_mutex_unlock(&ch->lock);
  if (drop)
    sc_buffer_unref(e->buffer);
  else if (was_empty)
    wake(ch, ch->ends.consumer_arg);
}

void sc_channel_push_buffer(sc_channel_t *ch, sc_buffer_t *b) {
  sc_assert(!ch->ended); /* written by this thread only */
  push(ch, &(sc_element_t){.kind = SC_ELEMENT_DATA, .buffer = b});
}

void sc_channel_push_barrier(sc_channel_t *ch, const sc_barrier_t *b) {
  push(ch, &(sc_element_t){.kind = SC_ELEMENT_BARRIER, .barrier = *b});
}

void sc_channel_push_end(sc_channel_t *ch) {
  if (!ch->ended && !ch->closed)
    push(ch, &(sc_element_t){.kind = SC_ELEMENT_END});
}

void sc_channel_push_close(sc_channel_t *ch) {
  if (!ch->closed)
    push(ch, &(sc_element_t){.kind = SC_ELEMENT_CLOSE});
}

/* ---- consumer ---- */

bool sc_channel_empty(sc_channel_t *ch) {
  /* Relaxed: see settle. */
  return !atomic_load_explicit(&ch->any, memory_order_relaxed);
}

static int take(sc_channel_t *ch, sc_element_t *out, bool head_only) {
  sc__after_t after = {0};
  pthread_mutex_lock(&ch->lock);
  bool got = ch->count > 0 && (!head_only || sc__channel_at(ch, 0)->head), drained = false;
  if (got) {
    *out = pop(ch);
    sc__channel_settle(ch);
    drained = ch->count == 0 && (ch->ended || ch->closed);
    if (ch->capture || out->kind == SC_ELEMENT_BARRIER)
      sc__channel_taken(ch, out, &after);
  }
  pthread_mutex_unlock(&ch->lock);
  if (after.settled || after.closed)
    sc__channel_after(ch, &after);
  if (drained)
    wake(ch, ch->ends.producer_arg); /* (W4) */
  else if (got && out->kind == SC_ELEMENT_DATA)
    feed_producer(ch);
  return got;
}

int sc_channel_take(sc_channel_t *ch, sc_element_t *out) {
  return take(ch, out, false);
}

int sc_channel_take_head(sc_channel_t *ch, sc_element_t *out) {
  return take(ch, out, true);
}

int sc_channel_peek(sc_channel_t *ch) {
  pthread_mutex_lock(&ch->lock); /* a push may be moving the ring */
  int kind = ch->count ? (int)ch->ring[ch->head].kind : -1;
  pthread_mutex_unlock(&ch->lock);
  return kind;
}

void sc_channel_receiver_gone(sc_channel_t *ch) {
  pthread_mutex_lock(&ch->lock);
  ch->gone = true; /* from here on nothing is added, so the drop below ends */
  pthread_mutex_unlock(&ch->lock);
  sc_channel_drop_capture(ch, UINT64_MAX);
  drop_all(ch); /* settles barriers, too */
  wake(ch, ch->ends.producer_arg); /* (W5) */
}

void sc_channel_set_buffer_size(sc_channel_t *ch, uint32_t bytes) {
  /* Relaxed, as is the look: a wish, which holds from whichever buffer is begun next. */
  atomic_store_explicit(&ch->buffer_size, bytes, memory_order_relaxed);
}

uint32_t sc_channel_buffer_size(sc_channel_t *ch) {
  return atomic_load_explicit(&ch->buffer_size, memory_order_relaxed);
}

void sc_channel_usage(sc_channel_t *ch, uint32_t *buffers, uint64_t *bytes) {
  pthread_mutex_lock(&ch->lock);
  if (buffers)
    *buffers = ch->buffers;
  if (bytes)
    *bytes = ch->bytes;
  pthread_mutex_unlock(&ch->lock);
}
