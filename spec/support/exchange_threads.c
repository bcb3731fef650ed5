#include "exchange_threads.h"

#include "../../core/base/mem.h"
#include "../../core/base/random.h"
#include "../../core/exchange/input.h"
#include "../../core/exchange/output.h"
#include "sleeper.h"

typedef struct sender {
  pthread_t thread;
  sleeper_t sleeper;
  sc_output_t *output;
  sc_random_t random;
  uint64_t total, every;  /* records to send; a barrier after each `every` */
  uint64_t waits;         /* times it slept */
  bool lost;              /* a wake-up was */
} sender_t;

static bool sender_wait(sender_t *s) {
  s->waits++;
  s->lost = !sleeper_wait(&s->sleeper);
  return !s->lost;
}

static void *send_all(void *arg) {
  sender_t *s = arg;
  for (uint64_t i = 1; i <= s->total; i++) {
    while (!sc_output_has_room(s->output))
      if (!sender_wait(s))
        return NULL;
    sc_record_t r = {.kind = SC_RECORD_DATA, .value = sc_bytes(&i, sizeof i)};
    sc_output_emit(s->output, &r);
    if (sc_random_below(&s->random, 8) == 0)
      sc_output_flush(s->output);
    if (i % s->every == 0)
      sc_output_barrier(s->output, &(sc_barrier_t){.id = i / s->every}, false, NULL);
  }
  sc_output_end(s->output);
  while (!sc_output_drained(s->output))
    if (!sender_wait(s))
      return NULL;
  sc_output_close(s->output);
  return NULL;
}

typedef struct hammer {
  uint32_t n;               /* senders, each with one channel to the one receiver */
  uint64_t leave_after;     /* the receiver leaves after so many records; 0: never */
  sender_t *senders;
  sc_channel_t **channels;
  uint64_t *seen;           /* last record of each channel */
  uint64_t records, snapshots, waits;
  sc_input_t *input;
  sleeper_t sleeper;
} hammer_t;

static const char *check_event(hammer_t *h, const sc_input_event_t *e) {
  if (e->kind == SC_INPUT_RECORD) {
    uint64_t i = sc_load_u64(e->record.value.data);
    if (i != ++h->seen[e->channel])
      return "a record was lost, doubled, or overtaken";
    h->records++;
  }
  if (e->kind == SC_INPUT_SNAPSHOT) {
    h->snapshots++;
    for (uint32_t i = 0; i < h->n; i++)
      if (h->seen[i] != e->barrier.id * h->senders[i].every)
        return "a snapshot is not at the barriers";
  }
  return NULL;
}

static const char *receive_all(hammer_t *h) {
  sc_input_event_t e = {0};
  while (e.kind != SC_INPUT_CLOSED) {
    if (h->leave_after && h->records >= h->leave_after) {
      sc_input_receiver_gone(h->input);
      return NULL;
    }
    if (sc_input_next(h->input, &e, NULL) < 0)
      return "a buffer is damaged";
    if (e.kind == SC_INPUT_NONE && !sc_input_ready(h->input)) {
      h->waits++;
      if (!sleeper_wait(&h->sleeper))
        return "a wake-up of the consumer was lost";
    }
    const char *fault = check_event(h, &e);
    if (fault)
      return fault;
  }
  return NULL;
}

static void hammer_start(hammer_t *h, sc_floating_t *floating, uint32_t exclusive, sc_pool_t *pool,
                         uint64_t seed) {
  sleeper_init(&h->sleeper);
  uint32_t *ports = sc_calloc(h->n, sizeof *ports);
  for (uint32_t i = 0; i < h->n; i++) {
    sender_t *s = &h->senders[i];
    sleeper_init(&s->sleeper);
    sc_channel_ends_t ends = {sleeper_wake, &s->sleeper, &h->sleeper};
    h->channels[i] = sc_channel_create(exclusive, floating, &ends);
    sc_partitioner_t p;
    sc_partitioner_init(&p, SC_FORWARD, 1, 128, 0);
    s->output = sc_output_create(&p, &h->channels[i], pool);
    sc_random_init(&s->random, seed + i);
  }
  h->input = sc_input_create(h->channels, ports, h->n);
  free(ports);
  for (uint32_t i = 0; i < h->n; i++)
    pthread_create(&h->senders[i].thread, NULL, send_all, &h->senders[i]);
}

static const char *hammer_finish(hammer_t *h, const char *fault) {
  sc_input_receiver_gone(h->input); /* after a fault, too, so that the senders end */
  for (uint32_t i = 0; i < h->n; i++) {
    pthread_join(h->senders[i].thread, NULL);
    h->waits += h->senders[i].waits;
    if (h->senders[i].lost)
      fault = "a wake-up of a producer was lost";
    sc_output_destroy(h->senders[i].output);
  }
  sc_input_destroy(h->input);
  for (uint32_t i = 0; i < h->n; i++)
    sc_channel_destroy(h->channels[i]);
  return fault;
}

int probe_channel_hammer(lua_State *L) {
  int64_t v[8];
  static const char *const names[] = {"senders",  "total",   "every", "exclusive",
                                      "floating", "segment", "seed",  "leave_after"};
  for (int i = 0; i < 8; i++) {
    lua_getfield(L, 1, names[i]);
    v[i] = luaL_optinteger(L, -1, 0);
  }
  hammer_t h = {.n = (uint32_t)v[0], .leave_after = (uint64_t)v[7]};
  h.senders = sc_calloc(h.n, sizeof *h.senders);
  h.channels = sc_calloc(h.n, sizeof(sc_channel_t *));
  h.seen = sc_calloc(h.n, sizeof *h.seen);
  for (uint32_t i = 0; i < h.n; i++) {
    h.senders[i].total = (uint64_t)v[1];
    h.senders[i].every = (uint64_t)v[2];
  }
  sc_pool_t *pool = sc_pool_create((uint32_t)v[5]);
  sc_floating_t *floating = sc_floating_create((uint32_t)v[4]);
  hammer_start(&h, floating, (uint32_t)v[3], pool, (uint64_t)v[6]);
  const char *fault = hammer_finish(&h, receive_all(&h));
  lua_pushstring(L, fault);
  lua_pushinteger(L, (lua_Integer)h.records);
  lua_pushinteger(L, (lua_Integer)h.snapshots);
  lua_pushinteger(L, sc_floating_available(floating));
  lua_pushinteger(L, (lua_Integer)h.waits);
  sc_floating_unref(floating);
  sc_pool_destroy(pool); /* asserts that nothing is outstanding */
  free(h.senders);
  free(h.channels);
  free(h.seen);
  return 5;
}
