/* Senders and a receiver on threads of their own, and checkpoints one after another that overtake
 * at once, or when a sender or the receiver finds that their time has come, or are aborted. Each
 * complete one is compared with what its senders had sent (exchange_threads.h). */
#include "../../core/base/mem.h"
#include "../../core/base/random.h"
#include "../../core/exchange/input.h"
#include "../../core/exchange/output.h"
#include "exchange_threads.h"
#include "sleeper.h"

#define AT_MS 1000 /* when a checkpoint of the second kind may overtake; nobody has a real clock */

typedef struct checkpoint {
  struct storm *storm;
  atomic_uint parts;   /* cuts that are not complete */
  atomic_bool aborted;
  sc_cut_t **cuts;     /* of the senders, and last the receiver's */
  uint64_t *sent;      /* records before each sender's start */
  uint64_t *seen;      /* records of each before the receiver's */
  bool started, checked;
} checkpoint_t;

typedef struct lane {
  pthread_t thread;
  sleeper_t sleeper;
  struct storm *storm;
  uint32_t index;
  sc_output_t *output;
  sc_channel_t *channel;
  sc_random_t random;
  uint64_t sent, id; /* records, and the checkpoint it has started last */
  bool movable;      /* its barrier may still wait in the queue */
  bool lost;
} lane_t;

typedef struct storm {
  uint32_t n;
  uint64_t total, checkpoints; /* records of each sender; how many there may be */
  lane_t *lanes;
  checkpoint_t *list;          /* of `checkpoints`, from 1 on */
  pthread_mutex_t lock;        /* guards `go` and `leaving` together */
  atomic_uint_fast64_t go;     /* the checkpoint to start */
  bool leaving;                /* a sender is: no new checkpoint */
  sc_input_t *input;
  sleeper_t sleeper;
  sc_random_t random;
  uint64_t *seen;
  uint64_t complete, overtaken, kept, records;
  const char *fault;
} storm_t;

static void part_done(void *arg) {
  checkpoint_t *c = arg;
  /* Acquire and release: whoever sees 0 sees all the parts. */
  if (atomic_fetch_sub_explicit(&c->parts, 1, memory_order_acq_rel) == 1)
    sleeper_wake(&c->storm->sleeper);
}

/* ---- senders ---- */

static void start_sender(lane_t *l, uint64_t id) {
  checkpoint_t *c = &l->storm->list[id];
  int how = (int)sc_random_below(&l->random, 3);
  sc_cut_t *cut = sc_cut_create(id, part_done, c);
  sc_barrier_t b = {.id = id, .overtake_at_ms = id % 2 ? 1 : AT_MS};
  if (l->id && atomic_load(&l->storm->list[l->id].aborted))
    sc_cut_drop(l->storm->list[l->id].cuts[l->index]);
  c->cuts[l->index] = cut;
  c->sent[l->index] = l->sent;
  sc_output_barrier(l->output, &b, id % 2 || how == 0, cut);
  l->id = id;
  l->movable = id % 2 == 0 && how;
  sc_cut_release(cut);
}

static void look_at_checkpoints(lane_t *l) {
  uint64_t go = atomic_load(&l->storm->go);
  if (go > l->id)
    start_sender(l, go);
  if (l->movable && sc_random_below(&l->random, 16) == 0) {
    sc_output_overtake(l->output, l->id);
    l->movable = false;
  }
}

static bool wait_sender(lane_t *l) {
  l->lost |= !sleeper_wait(&l->sleeper);
  return !l->lost;
}

static void *run_sender(void *arg) {
  lane_t *l = arg;
  while (l->sent < l->storm->total) {
    look_at_checkpoints(l);
    if (!sc_output_has_room(l->output)) {
      if (!wait_sender(l))
        return NULL;
      continue;
    }
    l->sent++;
    sc_record_t r = {.kind = SC_RECORD_DATA, .value = sc_bytes(&l->sent, sizeof l->sent)};
    sc_output_emit(l->output, &r);
    if (sc_random_below(&l->random, 8) == 0)
      sc_output_flush(l->output);
  }
  pthread_mutex_lock(&l->storm->lock);
  l->storm->leaving = true;
  pthread_mutex_unlock(&l->storm->lock);
  look_at_checkpoints(l); /* the last one: no other follows */
  sc_output_end(l->output);
  while (!sc_output_drained(l->output)) {
    if (l->movable)
      sc_output_overtake(l->output, l->id);
    l->movable = false;
    if (!sc_output_drained(l->output) && !wait_sender(l))
      return NULL;
  }
  sc_output_close(l->output);
  return NULL;
}

/* ---- what was kept ---- */

static const char *check_part(storm_t *s, const sc_inflight_part_t *p, uint64_t *next) {
  for (uint32_t i = 0; i < p->n_buffers; i++) {
    uint32_t skip = i == 0 ? p->skip : 0;
    sc_bytes_t rest = sc_bytes(p->buffers[i]->data + skip, p->buffers[i]->len - skip);
    sc_record_t r;
    int got;
    while ((got = sc_record_read(&rest, &r)) > 0) {
      if (sc_load_u64(r.value.data) != ++*next)
        return "what was kept is not what was in flight";
      s->kept++;
    }
    if (got < 0)
      return "what was kept is damaged";
  }
  return NULL;
}

static const char *check_side(storm_t *s, sc_inflight_t *all, uint32_t n, sc_inflight_side_t side,
                              uint64_t *next) {
  for (uint32_t f = 0; f < n; f++)
    for (uint32_t i = 0; i < all[f].n_parts; i++) {
      const sc_inflight_part_t *p = &all[f].parts[i];
      const char *fault = p->side == side ? check_part(s, p, &next[p->sender]) : NULL;
      if (fault)
        return fault;
    }
  return NULL;
}

static const char *check_complete(storm_t *s, uint64_t id) {
  checkpoint_t *c = &s->list[id];
  sc_inflight_t *all = sc_calloc(s->n + 1, sizeof *all);
  uint64_t *next = sc_calloc(s->n, sizeof *next);
  memcpy(next, c->seen, s->n * sizeof *next);
  for (uint32_t i = 0; i <= s->n; i++)
    sc_cut_take(c->cuts[i], &all[i]);
  const char *fault = check_side(s, all, s->n + 1, SC_INFLIGHT_RECEIVER, next);
  if (!fault)
    fault = check_side(s, all, s->n + 1, SC_INFLIGHT_SENDER, next);
  for (uint32_t i = 0; i < s->n; i++)
    if (next[i] != c->sent[i])
      fault = "a cut lost a record, or has one too many";
  for (uint32_t i = 0; i <= s->n; i++)
    sc_inflight_fini(&all[i]);
  free(all);
  free(next);
  s->complete++;
  c->checked = true;
  return fault;
}

/* ---- the receiver ---- */

static void next_checkpoint(storm_t *s) {
  uint64_t id = atomic_load(&s->go);
  pthread_mutex_lock(&s->lock);
  if (!s->leaving && id + 1 < s->checkpoints)
    atomic_store(&s->go, id + 1);
  pthread_mutex_unlock(&s->lock);
  for (uint32_t i = 0; i < s->n; i++)
    sleeper_wake(&s->lanes[i].sleeper);
}

static void start_receiver(storm_t *s, const sc_input_event_t *e) {
  checkpoint_t *c = &s->list[e->barrier.id];
  sc_cut_t *cut = sc_cut_create(e->barrier.id, part_done, c);
  c->cuts[s->n] = cut;
  c->started = true;
  memcpy(c->seen, s->seen, s->n * sizeof *c->seen);
  if (e->overtakes)
    sc_input_capture(s->input, cut);
  s->overtaken += e->overtakes;
  sc_cut_release(cut);
}

static void drop(storm_t *s, uint64_t id) {
  checkpoint_t *c = &s->list[id];
  if (c->started && sc_cut_drop(c->cuts[s->n]))
    sc_input_drop_captures(s->input, id);
}

/* Looks after the current checkpoint between two events. */
static const char *tend(storm_t *s) {
  uint64_t id = atomic_load(&s->go);
  checkpoint_t *c = &s->list[id];
  const char *fault = NULL;
  if (sc_random_below(&s->random, 50) == 0)
    sc_input_look_at_clock(s->input, AT_MS);
  if (id && !c->checked && atomic_load_explicit(&c->parts, memory_order_acquire) == 0) {
    fault = check_complete(s, id);
    next_checkpoint(s);
  } else if (id && !c->checked && sc_random_below(&s->random, 3000) == 0) {
    atomic_store(&c->aborted, true);
    c->checked = true;
    sc_input_abort(s->input, id);
    drop(s, id);
    next_checkpoint(s);
  }
  return fault;
}

static const char *take(storm_t *s, const sc_input_event_t *e) {
  switch (e->kind) {
    case SC_INPUT_RECORD:
      s->records++;
      if (sc_load_u64(e->record.value.data) != ++s->seen[e->channel])
        return "a record was lost, doubled, or overtaken";
      return NULL;
    case SC_INPUT_SNAPSHOT: start_receiver(s, e); return NULL;
    case SC_INPUT_ABORTED: drop(s, e->aborted); return NULL;
    default: return NULL;
  }
}

static const char *receive(storm_t *s) {
  sc_input_event_t e = {0};
  const char *fault = NULL;
  next_checkpoint(s);
  while (!fault && e.kind != SC_INPUT_CLOSED) {
    if (sc_input_next(s->input, &e, NULL) < 0)
      return "a buffer is damaged";
    fault = take(s, &e);
    if (!fault)
      fault = tend(s);
    if (!fault && e.kind == SC_INPUT_NONE && !sc_input_ready(s->input)) {
      sc_input_look_at_clock(s->input, AT_MS);
      if (!sc_input_ready(s->input) && !sleeper_wait(&s->sleeper))
        fault = "a wake-up of the receiver was lost";
    }
  }
  uint64_t id = atomic_load(&s->go);
  if (!fault && id && !s->list[id].checked && atomic_load(&s->list[id].parts))
    fault = "a checkpoint does not come to its end";
  return fault ? fault : tend(s);
}

/* ---- all of it ---- */

static void begin_storm(storm_t *s, sc_pool_t *pool, uint32_t exclusive, uint64_t seed) {
  pthread_mutex_init(&s->lock, NULL);
  sleeper_init(&s->sleeper);
  sc_random_init(&s->random, seed);
  s->list = sc_calloc(s->checkpoints + 1, sizeof *s->list);
  s->lanes = sc_calloc(s->n, sizeof *s->lanes);
  s->seen = sc_calloc(s->n, sizeof *s->seen);
  for (uint64_t i = 0; i <= s->checkpoints; i++) {
    checkpoint_t *c = &s->list[i];
    c->storm = s;
    atomic_init(&c->parts, s->n + 1);
    c->cuts = sc_calloc(s->n + 1, sizeof(sc_cut_t *));
    c->sent = sc_calloc(s->n, sizeof *c->sent);
    c->seen = sc_calloc(s->n, sizeof *c->seen);
  }
  sc_channel_t **channels = sc_calloc(s->n, sizeof(sc_channel_t *));
  uint32_t *ports = sc_calloc(s->n, sizeof *ports);
  for (uint32_t i = 0; i < s->n; i++) {
    lane_t *l = &s->lanes[i];
    l->storm = s;
    l->index = i;
    sleeper_init(&l->sleeper);
    sc_random_init(&l->random, seed + 1 + i);
    sc_channel_ends_t ends = {sleeper_wake, &l->sleeper, &s->sleeper};
    l->channel = channels[i] = sc_channel_create(exclusive, NULL, &ends);
    sc_channel_set_name(l->channel, &(sc_channel_name_t){.sender = i});
    sc_partitioner_t p;
    sc_partitioner_init(&p, SC_HASH, 1, 128, 0);
    l->output = sc_output_create(&p, &l->channel, pool);
  }
  s->input = sc_input_create(channels, ports, s->n);
  free(channels);
  free(ports);
  for (uint32_t i = 0; i < s->n; i++)
    pthread_create(&s->lanes[i].thread, NULL, run_sender, &s->lanes[i]);
}

static void end_storm(storm_t *s) {
  for (uint64_t i = 1; i <= s->checkpoints; i++)
    drop(s, i);
  sc_input_receiver_gone(s->input); /* after a fault, too, so that the senders end */
  for (uint32_t i = 0; i < s->n; i++) {
    pthread_join(s->lanes[i].thread, NULL);
    if (s->lanes[i].lost && !s->fault)
      s->fault = "a wake-up of a sender was lost";
    sc_output_destroy(s->lanes[i].output);
  }
  sc_input_destroy(s->input);
  for (uint32_t i = 0; i < s->n; i++)
    sc_channel_destroy(s->lanes[i].channel);
  for (uint64_t i = 0; i <= s->checkpoints; i++) {
    checkpoint_t *c = &s->list[i];
    for (uint32_t k = 0; k <= s->n; k++)
      sc_cut_unref(c->cuts[k]);
    free(c->cuts);
    free(c->sent);
    free(c->seen);
  }
  free(s->list);
  free(s->lanes);
  free(s->seen);
}

int probe_cut_hammer(lua_State *L) {
  int64_t v[6];
  static const char *const names[] = {"senders", "total", "checkpoints", "exclusive", "segment",
                                      "seed"};
  for (int i = 0; i < 6; i++) {
    lua_getfield(L, 1, names[i]);
    v[i] = luaL_optinteger(L, -1, 0);
  }
  storm_t s = {.n = (uint32_t)v[0], .total = (uint64_t)v[1], .checkpoints = (uint64_t)v[2]};
  sc_pool_t *pool = sc_pool_create((uint32_t)v[4]);
  begin_storm(&s, pool, (uint32_t)v[3], (uint64_t)v[5]);
  s.fault = receive(&s);
  end_storm(&s);
  lua_pushstring(L, s.fault);
  lua_pushinteger(L, (lua_Integer)s.records);
  lua_pushinteger(L, (lua_Integer)s.complete);
  lua_pushinteger(L, (lua_Integer)s.overtaken);
  lua_pushinteger(L, (lua_Integer)s.kept);
  sc_pool_destroy(pool); /* asserts that nothing is outstanding */
  return 5;
}
