#include "barrier.h"

#include "../base/error.h"
#include "../base/mem.h"
#include "../base/planted.h"

/* Ids that were given up are remembered until a newer one starts; so many at most, which is more
 * than can still have barriers on their way. */
#define DEAD_MAX 64
/* At least once: so many checkpoints are counted side by side, as in the reference. */
#define TRACKED_MAX 50

typedef struct pending {
  struct pending *next; /* newer */
  uint64_t id;
  sc_align_mode_t mode;
  bool brought[]; /* its barrier, for each channel */
} pending_t;

typedef struct channel {
  bool closed; /* its sender has left */
  bool rigid;  /* it cannot be captured */
  bool open;   /* it is captured for `capturing` */
} channel_t;

struct sc_aligner {
  bool at_least_once;
  bool recovering;
  pending_t *pending;        /* oldest first */
  uint64_t started;          /* the highest that started: what is not newer is obsolete */
  uint64_t seen;             /* the highest that a channel brought: what is older and not pending
                                would have come before it */
  uint64_t dead[DEAD_MAX];   /* given up and newer than `started`, in no order */
  uint32_t n_dead;
  uint64_t capturing;        /* started, with `n_open` captures, or 0 */
  uint32_t n_open;
  sc_align_action_t *todo;   /* actions that nobody has asked for yet */
  uint32_t todo_first, todo_end, todo_cap;
  uint32_t n;
  channel_t channels[];
};

sc_aligner_t *sc_aligner_create(uint32_t channels, bool at_least_once) {
  sc_aligner_t *a = sc_calloc(1, sizeof *a + channels * sizeof(channel_t));
  a->n = channels;
  a->at_least_once = at_least_once;
  return a;
}

void sc_aligner_destroy(sc_aligner_t *a) {
  if (!a)
    return;
  while (a->pending) {
    pending_t *p = a->pending;
    a->pending = p->next;
    free(p);
  }
  free(a->todo);
  free(a);
}

void sc_aligner_rigid(sc_aligner_t *a, uint32_t channel) {
  sc_assert(channel < a->n);
  a->channels[channel].rigid = true;
}

/* ---- actions ---- */

static void act(sc_aligner_t *a, sc_align_action_t action) {
  if (a->todo_end == a->todo_cap) {
    a->todo_cap = a->todo_cap ? a->todo_cap * 2 : 4;
    a->todo = sc_realloc(a->todo, a->todo_cap * sizeof *a->todo);
  }
  a->todo[a->todo_end++] = action;
}

bool sc_aligner_next(sc_aligner_t *a, sc_align_action_t *action) {
  if (a->todo_first == a->todo_end)
    return false;
  *action = a->todo[a->todo_first++];
  if (a->todo_first == a->todo_end)
    a->todo_first = a->todo_end = 0;
  return true;
}

/* ---- what is over ---- */

static bool is_dead(const sc_aligner_t *a, uint64_t id) {
  for (uint32_t i = 0; i < a->n_dead; i++)
    if (a->dead[i] == id)
      return true;
  return false;
}

static bool is_pending(const sc_aligner_t *a, uint64_t id) {
  const pending_t *p = a->pending;
  while (p && p->id < id)
    p = p->next;
  return p && p->id == id;
}

static bool obsolete(const sc_aligner_t *a, uint64_t id) {
  return id <= a->started || is_dead(a, id) || (id < a->seen && !is_pending(a, id));
}

/* Everything up to id is over. */
static void pass(sc_aligner_t *a, uint64_t id) {
  if (id > a->started)
    a->started = id;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < a->n_dead; i++)
    if (a->dead[i] > a->started)
      a->dead[kept++] = a->dead[i];
  a->n_dead = kept;
}

static void bury(sc_aligner_t *a, uint64_t id) {
  if (a->n_dead == DEAD_MAX) {
    uint64_t least = a->dead[0];
    for (uint32_t i = 1; i < a->n_dead; i++)
      least = a->dead[i] < least ? a->dead[i] : least;
    pass(a, least);
  }
  if (id > a->started)
    a->dead[a->n_dead++] = id;
}

/* ---- pending ones ---- */

static pending_t **find(sc_aligner_t *a, uint64_t id) {
  pending_t **at = &a->pending;
  while (*at && (*at)->id < id)
    at = &(*at)->next;
  return at;
}

static void drop(pending_t **at) {
  pending_t *p = *at;
  *at = p->next;
  free(p);
}

static void give_up(sc_aligner_t *a, pending_t **at, uint64_t by) {
  uint64_t id = (*at)->id;
  drop(at);
  bury(a, id);
  act(a, (sc_align_action_t){.kind = SC_ALIGN_ABORT, .id = id, .superseded_by = by});
}

static pending_t *enter(sc_aligner_t *a, uint64_t id, sc_align_mode_t mode) {
  pending_t **at = find(a, id);
  if (!*at || (*at)->id != id) {
    pending_t *p = sc_calloc(1, sizeof *p + a->n * sizeof(bool));
    *p = (pending_t){.next = *at, .id = id};
    *at = p;
  }
  pending_t *p = *at;
  p->mode = mode > p->mode ? mode : p->mode;
  uint32_t count = 0;
  for (pending_t *k = a->pending; k; k = k->next)
    count++;
  if (a->at_least_once && count > TRACKED_MAX) { /* never the one that has just come */
    pending_t **oldest = a->pending == p ? &a->pending->next : &a->pending;
    bury(a, (*oldest)->id);
    drop(oldest);
  }
  return p;
}

static bool overtakes(const sc_aligner_t *a, const pending_t *p) {
  return p->mode == SC_ALIGN_NOW && !a->at_least_once;
}

static bool ready(const sc_aligner_t *a, const pending_t *p) {
  bool now = overtakes(a, p);
  if (SC_PLANTED(COUNTED_EARLY) && a->at_least_once)
    return true;
  for (uint32_t i = 0; i < a->n; i++) {
    const channel_t *c = &a->channels[i];
    if (!c->closed && !p->brought[i] && (c->rigid || !now))
      return false;
  }
  return now || a->at_least_once || !a->recovering;
}

/* ---- captures ---- */

static void close_capture(sc_aligner_t *a, uint32_t channel) {
  if (!a->channels[channel].open)
    return;
  a->channels[channel].open = false;
  if (--a->n_open == 0)
    a->capturing = 0;
}

static void end_captures(sc_aligner_t *a, uint64_t by) {
  if (!a->capturing)
    return;
  act(a, (sc_align_action_t){.kind = SC_ALIGN_ABORT, .id = a->capturing, .superseded_by = by});
  for (uint32_t i = 0; i < a->n; i++)
    a->channels[i].open = false;
  a->n_open = 0;
  a->capturing = 0;
}

static void begin_captures(sc_aligner_t *a, const pending_t *p) {
  for (uint32_t i = 0; i < a->n; i++) {
    channel_t *c = &a->channels[i];
    c->open = !c->closed && !c->rigid && !p->brought[i];
    a->n_open += c->open;
  }
  a->capturing = a->n_open ? p->id : 0;
}

/* ---- starts ---- */

static void start(sc_aligner_t *a, pending_t **at) {
  pending_t *p = *at;
  if (overtakes(a, p)) {
    end_captures(a, p->id);
    begin_captures(a, p);
  }
  act(a, (sc_align_action_t){
             .kind = SC_ALIGN_START, .id = p->id, .overtakes = overtakes(a, p)});
  pass(a, p->id);
  drop(at);
}

/* In the order of ids: an older one that still waits goes first. */
static void start_ready(sc_aligner_t *a) {
  while (!a->at_least_once && a->pending && ready(a, a->pending))
    start(a, &a->pending);
  if (!a->at_least_once)
    return;
  pending_t **newest = NULL; /* one that is counted to its end takes the older ones along */
  for (pending_t **at = &a->pending; *at; at = &(*at)->next)
    if (ready(a, *at))
      newest = at;
  if (!newest)
    return;
  uint64_t id = (*newest)->id;
  while (a->pending->id < id)
    drop(&a->pending);
  start(a, &a->pending);
}

/* (B3): a barrier of id has come on a channel that owes one of what is older. */
static void supersede(sc_aligner_t *a, uint32_t channel, uint64_t id, sc_align_mode_t mode) {
  if (a->at_least_once)
    return;
  if (a->capturing && a->capturing < id && a->channels[channel].open)
    end_captures(a, id);
  for (pending_t **at = &a->pending; *at && (*at)->id < id;) {
    if (!(*at)->brought[channel] || mode == SC_ALIGN_NOW)
      give_up(a, at, id);
    else
      at = &(*at)->next;
  }
}

/* ---- events ---- */

void sc_aligner_barrier(sc_aligner_t *a, uint32_t channel, uint64_t id, sc_align_mode_t mode) {
  sc_assert(channel < a->n);
  if (a->channels[channel].closed || id == 0)
    return;
  if (id == a->capturing)
    close_capture(a, channel);
  if (obsolete(a, id))
    return;
  a->seen = id > a->seen ? id : a->seen;
  supersede(a, channel, id, mode);
  enter(a, id, mode)->brought[channel] = true;
  start_ready(a);
}

void sc_aligner_trigger(sc_aligner_t *a, uint64_t id, sc_align_mode_t mode) {
  if (id == 0 || obsolete(a, id))
    return;
  enter(a, id, mode);
  start_ready(a);
}

void sc_aligner_overtake(sc_aligner_t *a, uint64_t id) {
  pending_t *p = *find(a, id);
  if (!p || p->id != id || p->mode != SC_ALIGN_LATER)
    return;
  p->mode = SC_ALIGN_NOW;
  start_ready(a);
}

void sc_aligner_close(sc_aligner_t *a, uint32_t channel) {
  sc_assert(channel < a->n);
  a->channels[channel].closed = true;
  close_capture(a, channel);
  start_ready(a);
}

void sc_aligner_abort(sc_aligner_t *a, uint64_t id) {
  if (id && id == a->capturing) {
    end_captures(a, 0);
    return;
  }
  if (id == 0 || obsolete(a, id))
    return;
  pending_t **at = find(a, id);
  if (*at && (*at)->id == id) {
    give_up(a, at, 0);
  } else {
    bury(a, id);
    act(a, (sc_align_action_t){.kind = SC_ALIGN_ABORT, .id = id});
  }
  start_ready(a); /* what waited behind it goes on */
}

void sc_aligner_cancel(sc_aligner_t *a, uint64_t id) {
  if (id && id == a->capturing) {
    end_captures(a, 0);
    return;
  }
  if (id == 0 || obsolete(a, id))
    return;
  end_captures(a, id);
  while (a->pending && a->pending->id <= id) {
    /* The tracker tells of the older ones; in the other tables they end silently. */
    if (a->at_least_once && a->pending->id < id)
      act(a, (sc_align_action_t){
                 .kind = SC_ALIGN_ABORT, .id = a->pending->id, .superseded_by = id});
    drop(&a->pending);
  }
  act(a, (sc_align_action_t){.kind = SC_ALIGN_ABORT, .id = id});
  pass(a, id);
  start_ready(a);
}

void sc_aligner_recovering(sc_aligner_t *a, bool yes) {
  a->recovering = yes;
  if (!yes)
    start_ready(a);
}

/* ---- states ---- */

static bool has_brought(const sc_aligner_t *a, uint32_t channel) {
  for (const pending_t *p = a->pending; p; p = p->next)
    if (p->brought[channel])
      return true;
  return false;
}

bool sc_aligner_held(const sc_aligner_t *a, uint32_t channel) {
  sc_assert(channel < a->n);
  return !a->at_least_once && !a->channels[channel].closed && has_brought(a, channel);
}

bool sc_aligner_counts(const sc_aligner_t *a, uint32_t channel) {
  sc_assert(channel < a->n);
  return a->at_least_once && has_brought(a, channel) && !SC_PLANTED(COUNTED_END);
}

bool sc_aligner_captured(const sc_aligner_t *a, uint32_t channel) {
  sc_assert(channel < a->n);
  return a->channels[channel].open;
}

uint64_t sc_aligner_pending(const sc_aligner_t *a) {
  return a->pending ? a->pending->id : 0;
}

uint64_t sc_aligner_capturing(const sc_aligner_t *a) {
  return a->capturing;
}

uint64_t sc_aligner_patient(const sc_aligner_t *a) {
  for (const pending_t *p = a->pending; p && !a->at_least_once; p = p->next)
    if (p->mode == SC_ALIGN_LATER)
      return p->id;
  return 0;
}

uint32_t sc_aligner_missing(const sc_aligner_t *a) {
  uint32_t missing = 0;
  for (uint32_t i = 0; a->pending && i < a->n; i++)
    missing += !a->channels[i].closed && !a->pending->brought[i];
  return missing;
}

bool sc_aligner_expects(const sc_aligner_t *a, uint64_t id) {
  return !obsolete(a, id);
}
