/* probe_world: the world of threads at work. Each function runs a whole experiment and returns what
 * came of it. Waiting is on conditions, with a limit that only a lost wake-up reaches. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "../../core/base/mailbox.h"
#include "../../core/base/mem.h"
#include "../../core/runtime/world_real.h"
#include "lost_after.h"
#include "probe.h"

/* ---- a condition to wait on ---- */

typedef struct monitor {
  pthread_mutex_t lock;
  pthread_cond_t changed;
} monitor_t;

static void monitor_init(monitor_t *m) {
  pthread_mutex_init(&m->lock, NULL);
  pthread_cond_init(&m->changed, NULL);
}

static void monitor_fini(monitor_t *m) {
  pthread_mutex_destroy(&m->lock);
  pthread_cond_destroy(&m->changed);
}

/* Add to a counter that the monitor guards. */
static void monitor_add(monitor_t *m, uint64_t *counter, uint64_t by) {
  pthread_mutex_lock(&m->lock);
  *counter += by;
  pthread_cond_broadcast(&m->changed);
  pthread_mutex_unlock(&m->lock);
}

/* Wait until it is `least` at least; false if that never comes. */
static bool monitor_wait(monitor_t *m, const uint64_t *counter, uint64_t least) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += LOST_AFTER_S;
  int rc = 0;
  pthread_mutex_lock(&m->lock);
  while (*counter < least && rc != ETIMEDOUT)
    rc = pthread_cond_timedwait(&m->changed, &m->lock, &until);
  bool there = *counter >= least;
  pthread_mutex_unlock(&m->lock);
  return there;
}

/* ---- no wake-up is lost ---- */

typedef struct hammer {
  sc_world_t *world;
  sc_actor_t actor;
  atomic_uint_fast64_t tokens; /* given and not yet taken */
  monitor_t monitor;
  uint64_t taken;              /* guarded by the monitor */
  int sleeps;                  /* its own thread's */
} hammer_t;

static int64_t take_tokens(void *arg) {
  hammer_t *h = arg;
  uint64_t n = atomic_exchange(&h->tokens, 0);
  if (n)
    monitor_add(&h->monitor, &h->taken, n);
  return SC_STEP_ON_WAKE; /* a wake that is lost leaves its token for ever */
}

/* Not from the beginning: a slot's script may load its event loop at any time. */
static bool waits_by_now(void *arg) {
  return ++((hammer_t *)arg)->sleeps > 3;
}

static void wait_in_poll(void *arg, int fd, int64_t deadline_ns) {
  struct pollfd p = {.fd = fd, .events = POLLIN};
  poll(&p, 1, -1);
}

static const sc_actor_ops_t hammered = {.step = take_tokens};
static const sc_actor_ops_t hooked = {
    .step = take_tokens, .waits = waits_by_now, .wait = wait_in_poll};

typedef struct giver {
  pthread_t thread;
  hammer_t *hammers;
  uint64_t n, times, seed;
} giver_t;

static void *give(void *arg) {
  giver_t *g = arg;
  for (uint64_t i = 0; i < g->times; i++) {
    hammer_t *h = &g->hammers[(g->seed + i) % g->n];
    atomic_fetch_add(&h->tokens, 1);
    sc_world_wake(h->world, &h->actor);
    if (i % 16 == 0)
      sched_yield();
  }
  return NULL;
}

#define GIVERS_MAX 8

/* world_hammer(actors, givers, times, hook): every giver wakes the actors in turn, `times` in all;
 * how many of the tokens were taken. */
static int world_hammer(lua_State *L) {
  uint64_t n = (uint64_t)luaL_checkinteger(L, 1), givers = (uint64_t)luaL_checkinteger(L, 2);
  uint64_t times = (uint64_t)luaL_checkinteger(L, 3), sum = 0;
  luaL_argcheck(L, givers <= GIVERS_MAX, 2, "too many");
  sc_world_t *w = sc_world_real_create(false, 1);
  hammer_t *hammers = sc_calloc(n, sizeof *hammers);
  for (uint64_t i = 0; i < n; i++) {
    hammer_t *h = &hammers[i];
    h->world = w;
    monitor_init(&h->monitor);
    h->actor = (sc_actor_t){
        .ops = lua_toboolean(L, 4) ? &hooked : &hammered, .arg = h, .name = "hammer"};
    sc_world_spawn(w, &h->actor, NULL);
  }
  giver_t g[GIVERS_MAX];
  for (uint64_t i = 0; i < givers; i++) {
    g[i] = (giver_t){.hammers = hammers, .n = n, .times = times, .seed = i};
    pthread_create(&g[i].thread, NULL, give, &g[i]);
  }
  uint64_t given[64] = {0};
  for (uint64_t i = 0; i < givers; i++) {
    pthread_join(g[i].thread, NULL);
    for (uint64_t k = 0; k < times; k++)
      given[(i + k) % n]++;
  }
  for (uint64_t i = 0; i < n; i++) {
    if (monitor_wait(&hammers[i].monitor, &hammers[i].taken, given[i]))
      sum += given[i];
    sc_world_retire(w, &hammers[i].actor, -1);
    monitor_fini(&hammers[i].monitor);
  }
  free(hammers);
  w->ops->destroy(w);
  lua_pushinteger(L, (lua_Integer)sum);
  return 1;
}

/* ---- an actor's life ---- */

typedef struct life {
  sc_world_t *world;
  sc_actor_t actor;
  monitor_t monitor;
  uint64_t steps;        /* guarded by the monitor */
  uint64_t wanted;       /* steps after which it waits to be woken */
  int64_t wait_ns;       /* from step to step; -1: at once */
  int64_t due_ns;        /* deadline of the last step */
  uint64_t early;        /* steps before their deadline though nobody woke it */
  pthread_t thread;
  bool started, stopped, in_order, same_thread, signals;
} life_t;

static void life_start(void *arg) {
  life_t *l = arg;
  l->thread = pthread_self();
  l->started = true;
  l->in_order = l->same_thread = true;
  sigset_t set;
  pthread_sigmask(SIG_SETMASK, NULL, &set);
  l->signals = !sigismember(&set, SIGINT) || !sigismember(&set, SIGTERM) ||
               !sigismember(&set, SIGALRM);
}

static int64_t life_step(void *arg) {
  life_t *l = arg;
  l->in_order &= l->started && !l->stopped;
  l->same_thread &= pthread_equal(l->thread, pthread_self()) != 0;
  int64_t now = sc_world_mono_ns(l->world);
  l->early += l->due_ns > now;
  monitor_add(&l->monitor, &l->steps, 1);
  if (l->steps >= l->wanted) {
    l->due_ns = 0;
    return SC_STEP_ON_WAKE;
  }
  if (l->wait_ns < 0)
    return SC_STEP_AGAIN;
  return l->due_ns = now + l->wait_ns;
}

static void life_stop(void *arg) {
  life_t *l = arg;
  l->in_order &= l->started && !l->stopped;
  l->same_thread &= pthread_equal(l->thread, pthread_self()) != 0;
  l->stopped = true;
}

static const sc_actor_ops_t life_ops = {.start = life_start, .step = life_step, .stop = life_stop};

/* world_life(steps, wait in ms (-1: at once)): what was seen of an actor that steps so often by its
 * own deadlines and is then retired. */
static int world_life(lua_State *L) {
  sc_world_t *w = sc_world_real_create(false, 1);
  int64_t wait_ms = luaL_checkinteger(L, 2);
  life_t l = {.world = w, .wanted = (uint64_t)luaL_checkinteger(L, 1),
              .wait_ns = wait_ms < 0 ? -1 : wait_ms * 1000000};
  l.actor = (sc_actor_t){.ops = &life_ops, .arg = &l, .name = "a name that is far too long"};
  monitor_init(&l.monitor);
  sc_world_spawn(w, &l.actor, NULL);
  bool came = monitor_wait(&l.monitor, &l.steps, l.wanted);
  bool gone = sc_world_retire(w, &l.actor, -1);
  uint64_t steps = l.steps; /* it is gone: nobody else writes */
  bool again = sc_world_retire(w, &l.actor, -1);
  monitor_fini(&l.monitor);
  w->ops->destroy(w);
  lua_newtable(L);
  const struct { const char *name; bool value; } flags[] = {
      {"came", came}, {"gone", gone}, {"gone_again", again}, {"stopped", l.stopped},
      {"in_order", l.in_order}, {"same_thread", l.same_thread}, {"signals", l.signals}};
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    lua_pushboolean(L, flags[i].value);
    lua_setfield(L, -2, flags[i].name);
  }
  lua_pushinteger(L, (lua_Integer)steps);
  lua_setfield(L, -2, "steps");
  lua_pushinteger(L, (lua_Integer)l.early);
  lua_setfield(L, -2, "early");
  return 1;
}

/* ---- one that hangs ---- */

typedef struct hang {
  sc_actor_t actor;
  monitor_t monitor;
  uint64_t entered, released; /* guarded by the monitor */
} hang_t;

static int64_t hang_step(void *arg) {
  hang_t *h = arg;
  monitor_add(&h->monitor, &h->entered, 1);
  monitor_wait(&h->monitor, &h->released, 1);
  monitor_add(&h->monitor, &h->entered, 1);
  return SC_STEP_ON_WAKE;
}

static const sc_actor_ops_t hang_ops = {.step = hang_step};

/* world_hang(): is an actor that hangs in its step said to be gone; is one that does not? */
static int world_hang(lua_State *L) {
  sc_world_t *w = sc_world_real_create(false, 1);
  hang_t h = {.entered = 0};
  h.actor = (sc_actor_t){.ops = &hang_ops, .arg = &h, .name = "hangs"};
  monitor_init(&h.monitor);
  sc_world_spawn(w, &h.actor, NULL);
  bool entered = monitor_wait(&h.monitor, &h.entered, 1);
  bool gone = sc_world_retire(w, &h.actor, 1);
  monitor_add(&h.monitor, &h.released, 1);
  bool left = monitor_wait(&h.monitor, &h.entered, 2);
  lua_pushboolean(L, entered && left);
  lua_pushboolean(L, gone);
  bool later = sc_world_retire(w, &h.actor, LOST_AFTER_S * 1000);
  lua_pushboolean(L, later);
  w->ops->destroy(w);
  monitor_fini(&h.monitor);
  return 3;
}

/* ---- the pool ---- */

typedef struct piece {
  sc_work_t work;
  struct pieces *all;
  uint64_t number;
} piece_t;

typedef struct pieces {
  monitor_t monitor;
  uint64_t done;      /* guarded by the monitor */
  uint64_t out_of_order;
  uint64_t last;
  uint64_t partners;  /* works that have come to the meeting */
  bool meets;         /* each waits for all others */
  uint64_t n;
  bool lonely;        /* one waited in vain */
} pieces_t;

static void run_piece(sc_work_t *work) {
  piece_t *p = (piece_t *)work;
  pieces_t *all = p->all;
  if (all->meets) {
    monitor_add(&all->monitor, &all->partners, 1);
    if (!monitor_wait(&all->monitor, &all->partners, all->n))
      all->lonely = true;
  }
  pthread_mutex_lock(&all->monitor.lock);
  all->out_of_order += p->number != all->last + 1;
  all->last = p->number;
  all->done++;
  pthread_cond_broadcast(&all->monitor.changed);
  pthread_mutex_unlock(&all->monitor.lock);
  free(p); /* a work may free itself as its last act */
}

/* world_pool(threads, works, meet, wait): submit works; with `meet` each waits for all others; with
 * `wait` wait for all before the world ends. Returns how many were done, how many not in order, and
 * whether one waited in vain. */
static int world_pool(lua_State *L) {
  sc_world_t *w = sc_world_real_create(false, (int)luaL_checkinteger(L, 1));
  pieces_t all = {.n = (uint64_t)luaL_checkinteger(L, 2), .meets = lua_toboolean(L, 3)};
  bool wait = lua_toboolean(L, 4);
  monitor_init(&all.monitor);
  for (uint64_t i = 1; i <= all.n; i++) {
    piece_t *p = sc_calloc(1, sizeof *p);
    *p = (piece_t){.work = {.run = run_piece}, .all = &all, .number = i};
    sc_world_submit(w, &p->work);
  }
  if (wait)
    monitor_wait(&all.monitor, &all.done, all.n);
  w->ops->destroy(w); /* what was submitted is done first */
  monitor_fini(&all.monitor);
  lua_pushinteger(L, (lua_Integer)all.done);
  lua_pushinteger(L, (lua_Integer)all.out_of_order);
  lua_pushboolean(L, all.lonely);
  return 3;
}

/* ---- mail between threads ---- */

typedef struct reader {
  sc_world_t *world;
  sc_actor_t actor;
  sc_mailbox_t box;
  monitor_t monitor;
  uint64_t read, dropped;       /* guarded by the monitor */
  uint64_t last[GIVERS_MAX];    /* number of each sender's last mail */
  uint64_t out_of_order;
} reader_t;

typedef struct letter {
  sc_mail_t mail;
  reader_t *reader;
  uint64_t sender, number;
} letter_t;

static void read_letter(sc_mail_t *mail, void *owner) {
  letter_t *m = (letter_t *)mail;
  reader_t *r = owner;
  r->out_of_order += m->number != r->last[m->sender] + 1;
  r->last[m->sender] = m->number;
  monitor_add(&r->monitor, &r->read, 1);
  free(m);
}

static void drop_letter(sc_mail_t *mail) {
  reader_t *r = ((letter_t *)mail)->reader;
  monitor_add(&r->monitor, &r->dropped, 1);
  free(mail);
}

static int64_t read_mail(void *arg) {
  reader_t *r = arg;
  sc_mailbox_run(&r->box, r);
  return SC_STEP_ON_WAKE;
}

static void close_mail(void *arg) {
  sc_mailbox_close(&((reader_t *)arg)->box);
}

static const sc_actor_ops_t reader_ops = {.step = read_mail, .stop = close_mail};

typedef struct writer {
  pthread_t thread;
  reader_t *reader;
  uint64_t number, times;
} writer_t;

static void *write_letters(void *arg) {
  writer_t *w = arg;
  for (uint64_t i = 1; i <= w->times; i++) {
    letter_t *m = sc_calloc(1, sizeof *m);
    *m = (letter_t){.mail = {.run = read_letter, .drop = drop_letter}, .reader = w->reader,
                    .sender = w->number, .number = i};
    sc_mailbox_post(&w->reader->box, &m->mail);
  }
  return NULL;
}

/* world_mail(writers, times, early): so many mails from each writer to one actor; with `early` it
 * retires in the middle. Returns how many were read, dropped, and read out of a sender's order. */
static int world_mail(lua_State *L) {
  uint64_t n = (uint64_t)luaL_checkinteger(L, 1), times = (uint64_t)luaL_checkinteger(L, 2);
  bool early = lua_toboolean(L, 3);
  luaL_argcheck(L, n <= GIVERS_MAX, 1, "too many");
  reader_t r = {.world = sc_world_real_create(false, 1)};
  r.actor = (sc_actor_t){.ops = &reader_ops, .arg = &r, .name = "reader"};
  monitor_init(&r.monitor);
  sc_mailbox_init(&r.box, r.world, early ? NULL : &r.actor); /* nobody wakes one that has gone */
  sc_world_spawn(r.world, &r.actor, NULL);
  writer_t w[GIVERS_MAX];
  for (uint64_t i = 0; i < n; i++) {
    w[i] = (writer_t){.reader = &r, .number = i, .times = times};
    pthread_create(&w[i].thread, NULL, write_letters, &w[i]);
  }
  if (early)
    sc_world_retire(r.world, &r.actor, -1);
  for (uint64_t i = 0; i < n; i++)
    pthread_join(w[i].thread, NULL);
  if (!early) {
    monitor_wait(&r.monitor, &r.read, n * times);
    sc_world_retire(r.world, &r.actor, -1);
  }
  sc_mailbox_fini(&r.box);
  r.world->ops->destroy(r.world);
  monitor_fini(&r.monitor);
  lua_pushinteger(L, (lua_Integer)r.read);
  lua_pushinteger(L, (lua_Integer)r.dropped);
  lua_pushinteger(L, (lua_Integer)r.out_of_order);
  return 3;
}

/* world_clocks(): two readings of the monotonic clock around a pause of 1 ms, the wall clock, and
 * two random numbers. */
static int world_clocks(lua_State *L) {
  sc_world_t *w = sc_world_real_create(false, 0);
  lua_pushinteger(L, sc_world_mono_ns(w));
  w->ops->pause(w, 1);
  lua_pushinteger(L, sc_world_mono_ns(w));
  lua_pushinteger(L, sc_world_now_ms(w));
  lua_pushinteger(L, (lua_Integer)sc_world_random(w));
  lua_pushinteger(L, (lua_Integer)sc_world_random(w));
  w->ops->destroy(w);
  return 5;
}

void probe_world(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"world_hammer", world_hammer}, {"world_life", world_life}, {"world_hang", world_hang},
      {"world_pool", world_pool},     {"world_mail", world_mail}, {"world_clocks", world_clocks},
      {NULL, NULL},
  };
  luaL_setfuncs(L, functions, 0);
}
