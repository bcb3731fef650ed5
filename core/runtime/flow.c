#include "flow.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "../base/error.h"
#include "../base/mem.h"

#define NEVER INT64_MIN

/* The totals at one time. */
typedef struct point {
  atomic_int_fast64_t at_ns;
  atomic_int_fast64_t ns[SC_FLOW_STATES];
  atomic_uint_fast64_t *counters;
} point_t;

/* (F1) What a reader sees together is written between two steps of `sequence`, which is odd there.
 * The fields are atomic so that reading them meanwhile is defined; release stores and acquire loads
 * keep them between the two looks at the sequence. (Fences would do, but thread sanitizers do not
 * know them.)
 * (F2) The newest mark is at most a window older than `since` is: each end that finds it older
 * marks anew. */
struct sc_flow {
  atomic_uint sequence;
  atomic_int state;              /* what it waits as */
  atomic_int_fast64_t since_ns;  /* from when on; NEVER: no turn yet */
  atomic_int_fast64_t begun_ns;  /* of the turn that lasts, or NEVER */
  atomic_int_fast64_t ns[SC_FLOW_STATES]; /* until since_ns */
  point_t marks[2];              /* older, newer */
  sc_flow_state_t before;        /* the writer's: what the turn that ended last interrupted */
  int64_t turn_ns;               /* and how long it was */
  uint32_t n;                    /* counters */
};

static int64_t get(const atomic_int_fast64_t *at) {
  return atomic_load_explicit(at, memory_order_acquire); /* (F1) */
}

static void set(atomic_int_fast64_t *at, int64_t value) {
  atomic_store_explicit(at, value, memory_order_release); /* (F1) */
}

static void write_begin(sc_flow_t *f) {
  unsigned s = atomic_load_explicit(&f->sequence, memory_order_relaxed); /* written here only */
  atomic_store_explicit(&f->sequence, s + 1, memory_order_relaxed);
}

static void write_end(sc_flow_t *f) {
  unsigned s = atomic_load_explicit(&f->sequence, memory_order_relaxed);
  atomic_store_explicit(&f->sequence, s + 1, memory_order_release);
}

sc_flow_t *sc_flow_create(uint32_t counters) {
  sc_flow_t *f = sc_calloc(1, sizeof *f);
  f->n = counters;
  atomic_init(&f->since_ns, NEVER);
  atomic_init(&f->begun_ns, NEVER);
  for (int i = 0; i < 2; i++)
    f->marks[i].counters = sc_calloc(counters ? counters : 1, sizeof *f->marks[i].counters);
  return f;
}

void sc_flow_destroy(sc_flow_t *f) {
  if (!f)
    return;
  free(f->marks[0].counters);
  free(f->marks[1].counters);
  free(f);
}

static void start(sc_flow_t *f, int64_t now_ns) {
  write_begin(f);
  set(&f->since_ns, now_ns);
  set(&f->marks[0].at_ns, now_ns);
  set(&f->marks[1].at_ns, now_ns);
  write_end(f);
}

void sc_flow_begin(sc_flow_t *f, int64_t now_ns) {
  if (atomic_load_explicit(&f->since_ns, memory_order_relaxed) == NEVER)
    start(f, now_ns);
  set(&f->begun_ns, now_ns);
}

/* `state` has lasted from since_ns until now_ns: how long. */
static int64_t pass(sc_flow_t *f, sc_flow_state_t state, int64_t now_ns) {
  int64_t since = get(&f->since_ns), elapsed = now_ns > since ? now_ns - since : 0;
  set(&f->ns[state], get(&f->ns[state]) + elapsed);
  set(&f->since_ns, since + elapsed);
  return elapsed;
}

bool sc_flow_end(sc_flow_t *f, int64_t now_ns, bool moved, sc_flow_state_t waits) {
  int64_t begun = get(&f->begun_ns);
  sc_flow_state_t before = (sc_flow_state_t)atomic_load_explicit(&f->state, memory_order_relaxed);
  sc_assert(begun != NEVER && waits != SC_FLOW_BUSY);
  if (!moved && before == waits) {
    set(&f->begun_ns, NEVER);
    return false;
  }
  write_begin(f);
  pass(f, before, moved ? begun : now_ns);
  f->before = before;
  f->turn_ns = moved ? pass(f, SC_FLOW_BUSY, now_ns) : 0;
  atomic_store_explicit(&f->state, (int)waits, memory_order_release);
  set(&f->begun_ns, NEVER);
  write_end(f);
  return get(&f->since_ns) - get(&f->marks[1].at_ns) >= SC_FLOW_WINDOW_NS;
}

/* The totals as they are. */
static void put_mark(sc_flow_t *f, point_t *p, const uint64_t *counters) {
  set(&p->at_ns, get(&f->since_ns));
  for (int i = 0; i < SC_FLOW_STATES; i++)
    set(&p->ns[i], get(&f->ns[i]));
  for (uint32_t i = 0; i < f->n; i++)
    atomic_store_explicit(&p->counters[i], counters[i], memory_order_release);
}

static void copy_mark(const sc_flow_t *f, point_t *to, const point_t *from) {
  set(&to->at_ns, get(&from->at_ns));
  for (int i = 0; i < SC_FLOW_STATES; i++)
    set(&to->ns[i], get(&from->ns[i]));
  for (uint32_t i = 0; i < f->n; i++)
    atomic_store_explicit(&to->counters[i],
                          atomic_load_explicit(&from->counters[i], memory_order_relaxed),
                          memory_order_release);
}

/* As they were a window ago, all of which the last turn and what it waited as before it fill. */
static void move_back(const sc_flow_t *f, point_t *p) {
  int64_t turn = f->turn_ns < SC_FLOW_WINDOW_NS ? f->turn_ns : SC_FLOW_WINDOW_NS;
  set(&p->at_ns, get(&p->at_ns) - SC_FLOW_WINDOW_NS);
  set(&p->ns[SC_FLOW_BUSY], get(&p->ns[SC_FLOW_BUSY]) - turn);
  set(&p->ns[f->before], get(&p->ns[f->before]) - (SC_FLOW_WINDOW_NS - turn));
}

void sc_flow_mark(sc_flow_t *f, const uint64_t *counters) {
  bool slept = get(&f->since_ns) - get(&f->marks[1].at_ns) >= 2 * SC_FLOW_WINDOW_NS; /* (F2) */
  write_begin(f);
  if (slept) {
    put_mark(f, &f->marks[0], counters);
    move_back(f, &f->marks[0]);
  } else {
    copy_mark(f, &f->marks[0], &f->marks[1]);
  }
  put_mark(f, &f->marks[1], counters);
  write_end(f);
}

/* ---- reading ---- */

/* What of all this is, at now_ns. */
typedef struct seen {
  sc_flow_state_t state;
  int64_t since_ns, now_ns; /* of the state; and now, never before that */
  int64_t ns[SC_FLOW_STATES];
  int64_t base_at_ns;       /* of the mark that the window begins with */
  int64_t base_ns[SC_FLOW_STATES];
} seen_t;

static void look(const sc_flow_t *f, int64_t now_ns, uint64_t *base_counters, seen_t *out) {
  int64_t begun = get(&f->begun_ns), since = get(&f->since_ns);
  *out = (seen_t){.state = (sc_flow_state_t)atomic_load_explicit(&f->state, memory_order_acquire)};
  for (int i = 0; i < SC_FLOW_STATES; i++)
    out->ns[i] = get(&f->ns[i]);
  if (begun != NEVER && since != NEVER) { /* what it waited as is over */
    out->ns[out->state] += begun > since ? begun - since : 0;
    out->state = SC_FLOW_BUSY;
    since = begun > since ? begun : since;
  }
  out->since_ns = since;
  out->now_ns = now_ns > since ? now_ns : since;
  if (since != NEVER)
    out->ns[out->state] += out->now_ns - since;
  bool newer = out->now_ns - get(&f->marks[1].at_ns) >= SC_FLOW_WINDOW_NS;
  const point_t *base = &f->marks[newer];
  out->base_at_ns = get(&base->at_ns);
  for (int i = 0; i < SC_FLOW_STATES; i++)
    out->base_ns[i] = get(&base->ns[i]);
  for (uint32_t i = 0; base_counters && i < f->n; i++)
    base_counters[i] = atomic_load_explicit(&base->counters[i], memory_order_acquire);
}

/* Look until nothing was written meanwhile. */
static void look_at_rest(const sc_flow_t *f, int64_t now_ns, uint64_t *base_counters, seen_t *out) {
  for (;;) {
    unsigned s = atomic_load_explicit(&f->sequence, memory_order_acquire);
    look(f, now_ns, base_counters, out);
    if (s % 2 == 0 && atomic_load_explicit(&f->sequence, memory_order_relaxed) == s)
      return;
  }
}

static void grow(uint64_t *counters, const uint64_t *base, uint32_t n, bool still) {
  for (uint32_t i = 0; i < n; i++)
    counters[i] = still || counters[i] < base[i] ? 0 : counters[i] - base[i];
}

void sc_flow_read(const sc_flow_t *f, int64_t now_ns, uint64_t *counters, sc_flow_shown_t *out) {
  seen_t seen;
  uint64_t *base = counters ? sc_calloc(f->n ? f->n : 1, sizeof *base) : NULL;
  *out = (sc_flow_shown_t){0};
  look_at_rest(f, now_ns, base, &seen);
  if (seen.since_ns != NEVER) {
    /* One state for a window and more: that is all that the window holds. */
    bool constant = seen.now_ns - seen.since_ns >= SC_FLOW_WINDOW_NS;
    out->state = seen.state;
    out->window_ns = constant ? SC_FLOW_WINDOW_NS : seen.now_ns - seen.base_at_ns;
    for (int i = 0; i < SC_FLOW_STATES; i++) {
      out->total_ns[i] = seen.ns[i];
      out->sampled_ns[i] = seen.ns[i] - seen.base_ns[i];
      if (constant)
        out->sampled_ns[i] = i == (int)seen.state ? SC_FLOW_WINDOW_NS : 0;
    }
    if (constant && seen.state == SC_FLOW_BUSY) /* counters may grow in a long turn */
      out->rate_ns = seen.now_ns - seen.base_at_ns;
    else
      out->rate_ns = out->window_ns;
    if (counters)
      grow(counters, base, f->n, constant && seen.state != SC_FLOW_BUSY);
  }
  free(base);
}
