#include "timers.h"

#include <stdlib.h>

#include "../base/mem.h"
#include "../base/planted.h"
#include "../base/ordered_map.h"

#define N_DOMAINS 2
#define NOWHERE UINT32_MAX
#define TIMER_HEAD 12 /* i64 time, u32 key length */

/* The earliest timer of one key group that may fire in this advance. */
typedef struct head {
  int64_t time;   /* of it */
  uint16_t group; /* key group */
  sc_buf_t bytes; /* its map key */
} head_t;

typedef struct domain {
  int state;            /* of its timers in the window */
  head_t **heap;        /* groups that have a head, least (time, group) first */
  uint32_t n;           /* of them */
  uint32_t *places;     /* of each group of the range: where it is in heap, or NOWHERE */
  head_t *heads;        /* of each group of the range; its buffer is kept for reuse */
  sc_omap_t *put_off;   /* timers that wait for the next advance: map key, then u16 group */
  bool advancing;       /* between begin_advance and the pop that gave 0 */
  int64_t fired;        /* advancing: time of the last timer popped */
  uint64_t count;       /* timers registered */
} domain_t;

struct sc_timers {
  sc_keyed_t *keyed;           /* the window, borrowed */
  domain_t domains[N_DOMAINS]; /* by sc_time_domain_t */
  sc_buf_t popped;             /* map key of the last timer popped */
  sc_buf_t deleted;            /* map key of the timer that is being deleted */
  sc_buf_t scratch;            /* map key that is being made, or searched from */
  sc_buf_t put_off_key;        /* likewise, of put_off */
};

/* --- bytes --- */

static void put_big_endian(sc_buf_t *out, uint64_t v, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
    sc_buf_put_u8(out, (uint8_t)(v >> shift));
}

static uint64_t load_big_endian(const uint8_t *at, int bytes) {
  uint64_t v = 0;
  for (int i = 0; i < bytes; i++)
    v = v << 8 | at[i];
  return v;
}

/* The sign bit is flipped, so that bytewise order is the order of times. */
static void encode(sc_buf_t *out, const sc_timer_t *timer) {
  sc_buf_clear(out);
  put_big_endian(out, (uint64_t)timer->time ^ (uint64_t)1 << 63, 8);
  put_big_endian(out, timer->key.len, 4);
  sc_buf_put_bytes(out, timer->key);
  sc_buf_put_bytes(out, timer->name_space);
}

static int64_t time_of(sc_bytes_t map_key) {
  return (int64_t)(load_big_endian(map_key.data, 8) ^ (uint64_t)1 << 63);
}

static int decode(sc_bytes_t map_key, sc_timer_t *out, sc_error_t *err) {
  size_t key_len = map_key.len < TIMER_HEAD ? 0 : load_big_endian(map_key.data + 8, 4);
  if (map_key.len < TIMER_HEAD || key_len > map_key.len - TIMER_HEAD)
    return sc_fail(err, SC_ECORRUPT, "a restored timer of key group %u is damaged", out->group);
  out->time = time_of(map_key);
  out->key = sc_bytes(map_key.data + TIMER_HEAD, key_len);
  out->name_space = sc_bytes(map_key.data + TIMER_HEAD + key_len,
                             map_key.len - TIMER_HEAD - key_len);
  return 0;
}

static sc_bytes_t put_off_key(sc_timers_t *t, sc_bytes_t map_key, uint16_t group) {
  sc_buf_clear(&t->put_off_key);
  sc_buf_put_bytes(&t->put_off_key, map_key);
  put_big_endian(&t->put_off_key, group, 2);
  return sc_buf_bytes(&t->put_off_key);
}

/* --- the heap of heads --- */

static uint32_t index_of(const sc_timers_t *t, uint16_t group) {
  sc_assert(group >= t->keyed->range.first && group <= t->keyed->range.last);
  return (uint32_t)(group - t->keyed->range.first);
}

static bool before(const head_t *a, const head_t *b) {
  return a->time != b->time ? a->time < b->time : a->group < b->group;
}

static void place(sc_timers_t *t, domain_t *d, head_t *head, uint32_t at) {
  d->heap[at] = head;
  d->places[index_of(t, head->group)] = at;
}

static void sift(sc_timers_t *t, domain_t *d, uint32_t at) {
  head_t *head = d->heap[at];
  while (at > 0 && before(head, d->heap[(at - 1) / 2])) {
    place(t, d, d->heap[(at - 1) / 2], at);
    at = (at - 1) / 2;
  }
  for (;;) {
    uint32_t child = 2 * at + 1;
    if (child + 1 < d->n && before(d->heap[child + 1], d->heap[child]))
      child++;
    if (child >= d->n || !before(d->heap[child], head))
      break;
    place(t, d, d->heap[child], at);
    at = child;
  }
  place(t, d, head, at);
}

static void set_head(sc_timers_t *t, domain_t *d, uint16_t group, sc_bytes_t map_key) {
  uint32_t i = index_of(t, group);
  head_t *head = &d->heads[i];
  head->time = time_of(map_key);
  head->group = group;
  sc_buf_clear(&head->bytes);
  sc_buf_put_bytes(&head->bytes, map_key);
  if (d->places[i] == NOWHERE)
    place(t, d, head, d->n++);
  sift(t, d, d->places[i]);
}

static void drop_head(sc_timers_t *t, domain_t *d, uint16_t group) {
  uint32_t i = index_of(t, group);
  uint32_t at = d->places[i];
  if (at == NOWHERE)
    return;
  d->places[i] = NOWHERE;
  head_t *last = d->heap[--d->n];
  if (at == d->n)
    return;
  place(t, d, last, at);
  sift(t, d, at);
}

/* The group's head, if `map_key` comes before it, becomes map_key. */
static void lower_head(sc_timers_t *t, domain_t *d, uint16_t group, sc_bytes_t map_key) {
  uint32_t i = index_of(t, group);
  if (d->places[i] == NOWHERE ||
      sc_bytes_compare(map_key, sc_buf_bytes(&d->heads[i].bytes)) < 0)
    set_head(t, d, group, map_key);
}

static sc_address_t address(const domain_t *d, uint16_t group) {
  return (sc_address_t){.state = d->state, .group = group};
}

/* Find the group's head anew. Nothing that may fire in this advance comes before `from`: so the
 * search need not step over the tombstones of all that fired while a snapshot is written. */
static void seek_head(sc_timers_t *t, domain_t *d, uint16_t group, sc_bytes_t from) {
  sc_address_t at = address(d, group);
  sc_bytes_t map_key, value;
  sc_buf_clear(&t->scratch);
  sc_buf_put_bytes(&t->scratch, from);
  sc_bytes_t start = sc_buf_bytes(&t->scratch);
  while (t->keyed->ops->map_first(t->keyed, &at, &start, &map_key, &value)) {
    if (sc_omap_count(d->put_off) == 0 ||
        !sc_omap_find(d->put_off, put_off_key(t, map_key, group))) {
      set_head(t, d, group, map_key);
      return;
    }
    sc_buf_clear(&t->scratch); /* what follows map_key begins with map_key and a zero byte */
    sc_buf_put_bytes(&t->scratch, map_key);
    sc_buf_put_u8(&t->scratch, 0);
    start = sc_buf_bytes(&t->scratch);
  }
  drop_head(t, d, group);
}

/* --- public --- */

int sc_timers_create(sc_keyed_t *k, sc_timers_t **out, sc_error_t *err) {
  static const char *const names[N_DOMAINS] = {"_timers/event", "_timers/processing"};
  sc_timers_t *t = sc_calloc(1, sizeof *t);
  t->keyed = k;
  size_t groups = (size_t)k->range.last - k->range.first + 1;
  int rc = 0;
  for (int i = 0; i < N_DOMAINS && rc >= 0; i++) {
    domain_t *d = &t->domains[i];
    sc_state_descriptor_t descriptor = {names[i], SC_STATE_TIMERS};
    rc = sc_keyed_declare(k, &descriptor, err);
    d->state = rc;
    d->heap = sc_calloc(groups, sizeof *d->heap);
    d->heads = sc_calloc(groups, sizeof *d->heads);
    d->places = sc_malloc(groups * sizeof *d->places);
    memset(d->places, 0xff, groups * sizeof *d->places);
    d->put_off = sc_omap_create();
  }
  if (rc < 0) {
    sc_timers_destroy(t);
    return rc;
  }
  *out = t;
  return 0;
}

void sc_timers_destroy(sc_timers_t *t) {
  if (!t)
    return;
  size_t groups = (size_t)t->keyed->range.last - t->keyed->range.first + 1;
  for (int i = 0; i < N_DOMAINS; i++) {
    domain_t *d = &t->domains[i];
    for (size_t g = 0; d->heads && g < groups; g++)
      sc_buf_free(&d->heads[g].bytes);
    free(d->heap);
    free(d->heads);
    free(d->places);
    sc_omap_destroy(d->put_off);
  }
  sc_buf_free(&t->popped);
  sc_buf_free(&t->deleted);
  sc_buf_free(&t->scratch);
  sc_buf_free(&t->put_off_key);
  free(t);
}

static int rebuild_group(sc_timers_t *t, domain_t *d, uint16_t group, sc_error_t *err) {
  sc_address_t at = address(d, group);
  sc_map_iterator_t *it = t->keyed->ops->map_iterate(t->keyed, &at, NULL);
  sc_bytes_t map_key, value;
  sc_timer_t timer = {.group = group};
  int rc = 0;
  while (rc == 0 && t->keyed->ops->map_next(it, &map_key, &value)) {
    rc = decode(map_key, &timer, err);
    if (rc == 0) {
      lower_head(t, d, group, map_key);
      d->count++;
    }
  }
  t->keyed->ops->map_done(it);
  return rc;
}

int sc_timers_rebuild(sc_timers_t *t, sc_error_t *err) {
  for (int i = 0; i < N_DOMAINS; i++) {
    domain_t *d = &t->domains[i];
    d->count = 0;
    d->advancing = false;
    sc_omap_clear(d->put_off);
    for (uint32_t group = t->keyed->range.first; group <= t->keyed->range.last; group++) {
      drop_head(t, d, (uint16_t)group);
      if (SC_PLANTED(TIMERS_LOST) && group % 3 == 2)
        continue;
      int rc = rebuild_group(t, d, (uint16_t)group, err);
      if (rc < 0)
        return rc;
    }
  }
  return 0;
}

int sc_timers_register(sc_timers_t *t, const sc_timer_t *timer, sc_error_t *err) {
  domain_t *d = &t->domains[timer->domain];
  sc_address_t at = address(d, timer->group);
  sc_bytes_t value;
  encode(&t->scratch, timer);
  sc_bytes_t map_key = sc_buf_bytes(&t->scratch);
  int rc = t->keyed->ops->map_get(t->keyed, &at, map_key, &value, err);
  if (rc != 0)
    return rc < 0 ? rc : 0;
  rc = t->keyed->ops->map_put(t->keyed, &at, map_key, sc_bytes(NULL, 0), err);
  if (rc < 0)
    return rc;
  d->count++;
  if (d->advancing && timer->time <= d->fired)
    sc_omap_put(d->put_off, put_off_key(t, map_key, timer->group), sc_bytes(NULL, 0));
  else
    lower_head(t, d, timer->group, map_key);
  return 0;
}

/* Remove a timer that is there, and find its group's next head if it was that. */
static int take(sc_timers_t *t, domain_t *d, uint16_t group, sc_bytes_t map_key, sc_error_t *err) {
  sc_address_t at = address(d, group);
  int rc = t->keyed->ops->map_remove(t->keyed, &at, map_key, err);
  if (rc < 0)
    return rc;
  d->count--;
  uint32_t i = index_of(t, group);
  if (d->places[i] != NOWHERE && sc_bytes_equal(map_key, sc_buf_bytes(&d->heads[i].bytes)))
    seek_head(t, d, group, map_key);
  return 0;
}

int sc_timers_delete(sc_timers_t *t, const sc_timer_t *timer, sc_error_t *err) {
  domain_t *d = &t->domains[timer->domain];
  sc_address_t at = address(d, timer->group);
  sc_bytes_t value;
  encode(&t->deleted, timer); /* a buffer of its own: the key may be the popped timer's */
  sc_bytes_t map_key = sc_buf_bytes(&t->deleted);
  int rc = t->keyed->ops->map_get(t->keyed, &at, map_key, &value, err);
  if (rc <= 0)
    return rc;
  sc_omap_remove(d->put_off, put_off_key(t, map_key, timer->group));
  return take(t, d, timer->group, map_key, err);
}

bool sc_timers_next(sc_timers_t *t, sc_time_domain_t domain, int64_t *time) {
  const domain_t *d = &t->domains[domain];
  const sc_omap_entry_t *off = sc_omap_first(d->put_off);
  if (d->n > 0)
    *time = d->heap[0]->time;
  if (off && (d->n == 0 || time_of(sc_omap_key(off)) < *time))
    *time = time_of(sc_omap_key(off));
  return d->n > 0 || off;
}

/* What was put off is due like any other from here on. */
static void end_advance(sc_timers_t *t, domain_t *d) {
  for (const sc_omap_entry_t *e = sc_omap_first(d->put_off); e; e = e->next) {
    sc_bytes_t key = sc_omap_key(e);
    uint16_t group = (uint16_t)load_big_endian(key.data + key.len - 2, 2);
    lower_head(t, d, group, sc_bytes(key.data, key.len - 2));
  }
  sc_omap_clear(d->put_off);
  d->advancing = false;
}

void sc_timers_begin_advance(sc_timers_t *t, sc_time_domain_t domain) {
  domain_t *d = &t->domains[domain];
  end_advance(t, d);
  d->advancing = true;
  d->fired = INT64_MIN;
}

int sc_timers_pop(sc_timers_t *t, sc_time_domain_t domain, int64_t upto, sc_timer_t *out,
                  sc_error_t *err) {
  domain_t *d = &t->domains[domain];
  if (d->n == 0 || d->heap[0]->time > upto) {
    end_advance(t, d);
    return 0;
  }
  uint16_t group = d->heap[0]->group;
  sc_buf_clear(&t->popped);
  sc_buf_put_bytes(&t->popped, sc_buf_bytes(&d->heap[0]->bytes));
  *out = (sc_timer_t){.domain = domain, .group = group};
  int rc = decode(sc_buf_bytes(&t->popped), out, err);
  if (rc == 0)
    rc = take(t, d, group, sc_buf_bytes(&t->popped), err);
  if (rc < 0)
    return rc;
  d->fired = out->time;
  return 1;
}

uint64_t sc_timers_count(sc_timers_t *t, sc_time_domain_t domain) {
  return t->domains[domain].count;
}
