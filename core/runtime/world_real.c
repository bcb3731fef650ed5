#include "world_real.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "../base/mem.h"
#include "host_watch.h"
#include "../base/random.h"
#include "../snapshot/storage.h"

#define POOL_THREADS_DEFAULT 4

typedef struct real_world {
  sc_world_t base;
  pthread_mutex_t random_lock;
  sc_random_t random;
  pthread_mutex_t lock;      /* the pool's queue */
  pthread_cond_t work_ready;
  sc_work_t *head, *tail;
  bool stopping;             /* the pool ends when its queue is empty */
  int threads_wanted, threads_started;
  pthread_t *threads;
} real_world_t;

typedef struct real_actor {
  sc_actor_t *actor;
  real_world_t *world;
  pthread_t thread;
  pthread_mutex_t lock;      /* sleeping, gone */
  pthread_cond_t changed;
  atomic_bool awake;         /* woken since the last step began */
  atomic_bool retiring;
  bool gone;
  atomic_int fd;             /* eventfd for the wait hook, or -1: not asked for so far */
} real_actor_t;

static int64_t clock_ns(clockid_t id) {
  struct timespec t;
  clock_gettime(id, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t now_ms(sc_world_t *w) {
  return clock_ns(CLOCK_REALTIME) / 1000000;
}

static int64_t mono_ns(sc_world_t *w) {
  return clock_ns(CLOCK_MONOTONIC);
}

static uint64_t random_bits(sc_world_t *w) {
  real_world_t *real = (real_world_t *)w;
  pthread_mutex_lock(&real->random_lock);
  uint64_t v = sc_random_next(&real->random);
  pthread_mutex_unlock(&real->random_lock);
  return v;
}

static struct timespec to_timespec(int64_t ns) {
  return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

static void pause_for(sc_world_t *w, int64_t ms) {
  struct timespec t = to_timespec(ms * 1000000);
  nanosleep(&t, NULL);
}

/* ---- actors ---- */

static void wake_actor(sc_world_t *w, sc_actor_t *actor) {
  real_actor_t *a = actor->impl;
  /* Sequentially consistent: pairs with the looks in sleep_until, so that either the sleeper sees
   * the flag or we find its descriptor, or it inside the lock, and tell it. */
  if (atomic_exchange(&a->awake, true))
    return; /* already told; it has not begun a step since */
  int fd = atomic_load(&a->fd);
  if (fd >= 0) {
    uint64_t one = 1;
    ssize_t n = write(fd, &one, sizeof one);
    (void)n; /* a full counter is as good as a wake */
  }
  pthread_mutex_lock(&a->lock);
  pthread_cond_broadcast(&a->changed);
  pthread_mutex_unlock(&a->lock);
}

/* The actor's eventfd, made at the first call; -1 where there is none to be had. */
static int own_fd(real_actor_t *a) {
  if (atomic_load(&a->fd) < 0)
    atomic_store(&a->fd, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return atomic_load(&a->fd);
}

static bool wait_by_hook(real_actor_t *a, int64_t deadline) {
  const sc_actor_ops_t *hooks = a->actor->ops;
  if (!hooks->waits || !hooks->waits(a->actor->arg) || own_fd(a) < 0)
    return false;
  if (!atomic_load(&a->awake) && !atomic_load(&a->retiring))
    hooks->wait(a->actor->arg, a->fd, deadline);
  uint64_t drained;
  ssize_t n = read(a->fd, &drained, sizeof drained);
  (void)n; /* nothing in it: the deadline has passed, or the hook had a reason of its own */
  return true;
}

static void sleep_until(real_actor_t *a, int64_t deadline) {
  if (wait_by_hook(a, deadline))
    return;
  struct timespec until = to_timespec(deadline);
  pthread_mutex_lock(&a->lock);
  while (!atomic_load(&a->awake) && !atomic_load(&a->retiring)) {
    if (deadline == SC_STEP_ON_WAKE)
      pthread_cond_wait(&a->changed, &a->lock);
    else if (pthread_cond_timedwait(&a->changed, &a->lock, &until) == ETIMEDOUT)
      break;
  }
  pthread_mutex_unlock(&a->lock);
}

static void *actor_main(void *arg) {
  real_actor_t *a = arg;
  const sc_actor_ops_t *ops = a->actor->ops;
  char name[16];
  strncpy(name, a->actor->name ? a->actor->name : "sc", sizeof name - 1);
  name[sizeof name - 1] = 0;
  pthread_setname_np(pthread_self(), name);
  if (ops->start)
    ops->start(a->actor->arg);
  while (!atomic_load(&a->retiring)) {
    atomic_exchange(&a->awake, false);
    int64_t deadline = ops->step(a->actor->arg);
    if (deadline != SC_STEP_AGAIN)
      sleep_until(a, deadline);
  }
  if (ops->stop)
    ops->stop(a->actor->arg);
  pthread_mutex_lock(&a->lock);
  a->gone = true;
  pthread_cond_broadcast(&a->changed);
  pthread_mutex_unlock(&a->lock);
  return NULL;
}

static int start_thread(pthread_t *thread, void *(*main_fn)(void *), void *arg, sc_error_t *err) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int rc = pthread_create(thread, NULL, main_fn, arg);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return rc ? sc_fail(err, SC_EINTERNAL, "cannot start a thread: %s", strerror(rc)) : 0;
}

static void free_actor(real_actor_t *a) {
  if (a->fd >= 0)
    close(a->fd);
  pthread_mutex_destroy(&a->lock);
  pthread_cond_destroy(&a->changed);
  free(a);
}

static int spawn_actor(sc_world_t *w, sc_actor_t *actor, sc_error_t *err) {
  real_actor_t *a = sc_calloc(1, sizeof *a);
  a->actor = actor;
  a->world = (real_world_t *)w;
  atomic_init(&a->fd, -1);
  pthread_mutex_init(&a->lock, NULL);
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&a->changed, &attr);
  pthread_condattr_destroy(&attr);
  actor->impl = a; /* before the thread runs: a step may already wake its own actor */
  int rc = start_thread(&a->thread, actor_main, a, err);
  if (rc < 0) {
    actor->impl = NULL;
    free_actor(a);
  }
  return rc;
}

static bool retire_actor(sc_world_t *w, sc_actor_t *actor, int64_t wait_ms) {
  real_actor_t *a = actor->impl;
  if (!a)
    return true;
  atomic_store(&a->retiring, true);
  atomic_store(&a->awake, false); /* so that the wake below is not taken for an old one */
  wake_actor(w, actor);
  struct timespec until = to_timespec(clock_ns(CLOCK_MONOTONIC) +
                                      (wait_ms < 0 ? 0 : wait_ms) * 1000000);
  bool gone = true;
  pthread_mutex_lock(&a->lock);
  while (!a->gone && gone) {
    if (wait_ms < 0)
      pthread_cond_wait(&a->changed, &a->lock);
    else if (pthread_cond_timedwait(&a->changed, &a->lock, &until) == ETIMEDOUT)
      gone = a->gone;
  }
  pthread_mutex_unlock(&a->lock);
  if (!gone)
    return false; /* it hangs in its step: what it uses must stay; it may be retired again */
  pthread_join(a->thread, NULL);
  actor->impl = NULL;
  free_actor(a);
  return true;
}

/* SIGURG: ignored by default, and blocked but where a slot's host lets it through. */
static void interrupt_actor(sc_world_t *w, sc_actor_t *actor) {
  real_actor_t *a = actor->impl;
  pthread_kill(a->thread, SIGURG);
}

static void sample_actor(sc_world_t *w, sc_actor_t *actor) {
  real_actor_t *a = actor->impl;
  pthread_kill(a->thread, SC_SIGNAL_SAMPLE);
}

/* ---- the I/O pool ---- */

static sc_work_t *next_work(real_world_t *w) {
  pthread_mutex_lock(&w->lock);
  while (!w->head && !w->stopping)
    pthread_cond_wait(&w->work_ready, &w->lock);
  sc_work_t *work = w->head;
  if (work) {
    w->head = work->next;
    if (!w->head)
      w->tail = NULL;
  }
  pthread_mutex_unlock(&w->lock);
  return work;
}

static void *pool_main(void *arg) {
  real_world_t *w = arg;
  pthread_setname_np(pthread_self(), "sc-io");
  for (sc_work_t *work; (work = next_work(w)) != NULL;)
    work->run(work);
  return NULL;
}

static void submit_work(sc_world_t *world, sc_work_t *work) {
  real_world_t *w = (real_world_t *)world;
  work->next = NULL;
  pthread_mutex_lock(&w->lock);
  if (w->tail)
    w->tail->next = work;
  else
    w->head = work;
  w->tail = work;
  if (w->threads_started < w->threads_wanted &&
      start_thread(&w->threads[w->threads_started], pool_main, w, NULL) == 0)
    w->threads_started++;
  sc_assert(w->threads_started > 0); /* without a single thread nothing can be written any more */
  pthread_cond_signal(&w->work_ready);
  pthread_mutex_unlock(&w->lock);
}

static void destroy_world(sc_world_t *world) {
  real_world_t *w = (real_world_t *)world;
  pthread_mutex_lock(&w->lock);
  w->stopping = true;
  pthread_cond_broadcast(&w->work_ready);
  pthread_mutex_unlock(&w->lock);
  for (int i = 0; i < w->threads_started; i++)
    pthread_join(w->threads[i], NULL);
  sc_storage_destroy(world->storage);
  sc_storage_destroy(world->unsynced);
  pthread_mutex_destroy(&w->lock);
  pthread_mutex_destroy(&w->random_lock);
  pthread_cond_destroy(&w->work_ready);
  free(w->threads);
  free(w);
}

static const sc_world_ops_t ops = {
    .now_ms = now_ms,
    .mono_ns = mono_ns,
    .random = random_bits,
    .spawn = spawn_actor,
    .wake = wake_actor,
    .retire = retire_actor,
    .interrupt = interrupt_actor,
    .sample = sample_actor,
    .submit = submit_work,
    .pause = pause_for,
    .destroy = destroy_world,
};

sc_world_t *sc_world_real_create(bool sync, int pool_threads) {
  real_world_t *w = sc_calloc(1, sizeof *w);
  w->base.ops = &ops;
  w->base.storage = sc_file_storage_create(sync);
  w->base.unsynced = sc_file_storage_create(false);
  w->threads_wanted = pool_threads > 0 ? pool_threads : POOL_THREADS_DEFAULT;
  w->threads = sc_calloc((size_t)w->threads_wanted, sizeof *w->threads);
  pthread_mutex_init(&w->lock, NULL);
  pthread_mutex_init(&w->random_lock, NULL);
  pthread_cond_init(&w->work_ready, NULL);
  uint64_t seed;
  if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
    seed = (uint64_t)clock_ns(CLOCK_MONOTONIC);
  sc_random_init(&w->random, seed);
  return &w->base;
}
