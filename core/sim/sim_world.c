#include "sim_world.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "../base/io_lock.h"
#include "../base/mem.h"
#include "../base/random.h"
#include "../snapshot/storage.h"

#define STACK_BYTES (8u << 20)        /* reserved; only what is touched is ever there */
#define GUARD_BYTES (64u << 10)       /* of it, below: whoever goes too deep ends there */
#define WALL_MS_AT_ZERO 1800000000000 /* wall clock when the monotonic one is 0 */
#define JUMP_MOST_NS 60000000000 /* while somebody is ready: nobody stands still for minutes */
#define WEIGHTS_LAST 300              /* turns between two drawings of weights, on average */
#define TURN_NS 20000                 /* a turn takes up to so much */

typedef struct sim_world sim_world_t;

typedef struct fiber {
  struct fiber *next;
  sim_world_t *world;
  sc_actor_t *actor; /* NULL: a thread of the pool */
  ucontext_t context;
  void *stack;
  void *shadow;    /* what a sanitizer knows of it */
  bool finished;   /* it will have none any more */
  bool retiring;   /* actors: stop after this step */
  bool awake;      /* woken since the last step began */
  bool in_io;      /* only time helps */
  int64_t due_ns;  /* when to go on though nobody wakes it */
  uint32_t weight; /* of its lot */
} fiber_t;

struct sim_world {
  sc_world_t base; /* first: it is one */
  sc_sim_world_config_t config;
  sc_random_t schedule, given; /* who goes next; what sc_world_random gives */
  int64_t now_ns;
  int64_t clock_off_ms; /* how far the wall clock has been set */
  uint64_t turns;
  fiber_t *fibers, **fibers_tail;
  sc_work_t *works, **works_tail; /* for the pool */
  bool crashed, leaving;
  ucontext_t scheduler;
  void *shadow;            /* of the scheduler's stack, while a fiber runs */
  const void *stack_below; /* that stack, as AddressSanitizer has it */
  size_t stack_size;
};

static fiber_t *running; /* or NULL: outside of fibers. One thread, so one for the program. */

static sim_world_t *world_of(sc_world_t *w) { return (sim_world_t *)w; }

static int64_t drawn_up_to(sc_random_t *r, int64_t most) {
  return (int64_t)sc_random_below(r, (uint64_t)most) + 1;
}

/* ---- clock and randomness ---- */

static int64_t mono_ns(sc_world_t *base) {
  sim_world_t *w = world_of(base);
  w->now_ns += drawn_up_to(&w->schedule, w->config.look_ns);
  return w->now_ns;
}

static int64_t now_ms(sc_world_t *base) {
  const sim_world_t *w = world_of(base);
  return WALL_MS_AT_ZERO + w->clock_off_ms + w->now_ns / 1000000;
}

static uint64_t random_bits(sc_world_t *base) { return sc_random_next(&world_of(base)->given); }

int64_t sc_sim_now_ns(const sc_world_t *w) { return ((const sim_world_t *)w)->now_ns; }

/* ---- sanitizers, which have to be told of other stacks ---- */

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define TELL_TO_FIBER(w, f) \
  __sanitizer_start_switch_fiber(&(w)->shadow, (f)->stack, STACK_BYTES)
#define TELL_IN_FIBER(w, f) \
  __sanitizer_finish_switch_fiber((f)->shadow, &(w)->stack_below, &(w)->stack_size)
#define TELL_TO_SCHEDULER(w, f)                                                       \
  __sanitizer_start_switch_fiber((f)->finished ? NULL : &(f)->shadow, (w)->stack_below, \
                                 (w)->stack_size)
#define TELL_IN_SCHEDULER(w) __sanitizer_finish_switch_fiber((w)->shadow, NULL, NULL)
#define TELL_MADE(f) ((void)0)
/* What a fiber left that crashed must not be found again where the next stack comes to lie. */
#define TELL_GONE(f) __asan_unpoison_memory_region((f)->stack, STACK_BYTES)
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define TELL_TO_FIBER(w, f) \
  ((w)->shadow = __tsan_get_current_fiber(), __tsan_switch_to_fiber((f)->shadow, 0))
#define TELL_IN_FIBER(w, f) ((void)0)
#define TELL_TO_SCHEDULER(w, f) __tsan_switch_to_fiber((w)->shadow, 0)
#define TELL_IN_SCHEDULER(w) ((void)0)
#define TELL_MADE(f) ((f)->shadow = __tsan_create_fiber(0))
#define TELL_GONE(f) __tsan_destroy_fiber((f)->shadow)
#else
#define TELL_TO_FIBER(w, f) ((void)0)
#define TELL_IN_FIBER(w, f) ((void)0)
#define TELL_TO_SCHEDULER(w, f) ((void)0)
#define TELL_IN_SCHEDULER(w) ((void)0)
#define TELL_MADE(f) ((void)0)
#define TELL_GONE(f) ((void)0)
#endif

/* ---- fibers ---- */

static void leave_to_scheduler(fiber_t *f) {
  TELL_TO_SCHEDULER(f->world, f);
  swapcontext(&f->context, &f->world->scheduler);
  TELL_IN_FIBER(f->world, f);
}

void sc_sim_yield(void) {
  sc_assert(running); /* outside of fibers nobody could ever let it go on */
  running->in_io = true;
  running->due_ns = running->world->now_ns;
  leave_to_scheduler(running);
}

void sc_sim_io(sc_world_t *base, int64_t ns) {
  sim_world_t *w = world_of(base);
  if (!running) {
    w->now_ns += ns;
    return;
  }
  running->in_io = true;
  running->due_ns = w->now_ns + ns;
  leave_to_scheduler(running);
}

void sc_sim_crash(sc_world_t *base) {
  sim_world_t *w = world_of(base);
  w->crashed = true;
  if (running)
    leave_to_scheduler(running); /* which never comes back */
}

static void run_actor(fiber_t *f) {
  const sc_actor_ops_t *ops = f->actor->ops;
  if (ops->start)
    ops->start(f->actor->arg);
  while (!f->retiring) {
    f->awake = false;
    int64_t due = ops->step(f->actor->arg);
    f->due_ns = due == SC_STEP_AGAIN ? f->world->now_ns : due;
    f->in_io = false;
    leave_to_scheduler(f);
  }
  if (ops->stop)
    ops->stop(f->actor->arg);
}

/* A thread of the pool takes works in their order, but begins when it gets its turn. */
static void run_pool(fiber_t *f) {
  sim_world_t *w = f->world;
  while (!w->leaving || w->works) {
    sc_work_t *work = w->works;
    if (work) {
      w->works = work->next;
      if (!w->works)
        w->works_tail = &w->works;
      sc_sim_io(&w->base, drawn_up_to(&w->schedule, 1000000));
      work->run(work);
    } else {
      f->awake = false;
      f->due_ns = INT64_MAX;
      f->in_io = false;
      leave_to_scheduler(f);
    }
  }
}

static void fiber_main(void) {
  fiber_t *f = running;
  TELL_IN_FIBER(f->world, f);
  if (f->actor)
    run_actor(f);
  else
    run_pool(f);
  f->finished = true;
  leave_to_scheduler(f);
}

static fiber_t *add_fiber(sim_world_t *w, sc_actor_t *actor) {
  fiber_t *f = sc_calloc(1, sizeof *f);
  f->world = w;
  f->actor = actor;
  f->weight = 1;
  f->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  sc_assert(f->stack != MAP_FAILED && mprotect(f->stack, GUARD_BYTES, PROT_NONE) == 0);
  TELL_MADE(f);
  getcontext(&f->context);
  f->context.uc_stack.ss_sp = f->stack;
  f->context.uc_stack.ss_size = STACK_BYTES;
  makecontext(&f->context, fiber_main, 0);
  *w->fibers_tail = f;
  w->fibers_tail = &f->next;
  return f;
}

static void free_fiber(fiber_t *f) {
  TELL_GONE(f);
  munmap(f->stack, STACK_BYTES);
  free(f);
}

/* ---- the scheduler ---- */

static bool ready(const sim_world_t *w, const fiber_t *f) {
  return !f->finished && (f->due_ns <= w->now_ns || (f->awake && !f->in_io));
}

static void draw_weights(sim_world_t *w) {
  static const uint32_t weights[] = {1, 4, 4, 4, 30};
  for (fiber_t *f = w->fibers; f; f = f->next)
    f->weight = weights[sc_random_below(&w->schedule, 5)];
}

static int64_t next_due(const sim_world_t *w) {
  int64_t due = INT64_MAX;
  for (const fiber_t *f = w->fibers; f; f = f->next)
    if (!f->finished && f->due_ns > w->now_ns && f->due_ns < due)
      due = f->due_ns;
  return due;
}

static uint64_t weight_of_ready(const sim_world_t *w) {
  uint64_t sum = 0;
  for (const fiber_t *f = w->fibers; f; f = f->next)
    sum += ready(w, f) ? f->weight : 0;
  return sum;
}

/* The fiber that goes next; NULL where none ever will. */
static fiber_t *choose(sim_world_t *w) {
  uint64_t sum = weight_of_ready(w);
  uint32_t one_in = w->config.jump_one_in;
  if (sum == 0 || (one_in && sc_random_below(&w->schedule, one_in) == 0)) {
    int64_t due = next_due(w);
    if (due != INT64_MAX && (sum == 0 || due - w->now_ns < JUMP_MOST_NS))
      w->now_ns = due;
    sum = weight_of_ready(w);
  }
  if (sum == 0)
    return NULL;
  uint64_t lot = sc_random_below(&w->schedule, sum);
  for (fiber_t *f = w->fibers; f; f = f->next) {
    if (!ready(w, f))
      continue;
    if (lot < f->weight)
      return f;
    lot -= f->weight;
  }
  return NULL;
}

/* Between two turns: within one, time goes forward. */
static void set_clock(sim_world_t *w) {
  uint32_t one_in = w->config.clock_set_one_in;
  if (one_in && sc_random_below(&w->schedule, one_in) == 0)
    w->clock_off_ms += drawn_up_to(&w->schedule, 2 * w->config.clock_set_ms) -
                       w->config.clock_set_ms;
}

static void give_turn(sim_world_t *w, fiber_t *f) {
  running = f;
  TELL_TO_FIBER(w, f);
  swapcontext(&w->scheduler, &f->context);
  TELL_IN_SCHEDULER(w);
  running = NULL;
}

sc_sim_turn_t sc_sim_turn(sc_world_t *base) {
  sim_world_t *w = world_of(base);
  sc_assert(!running);
  if (w->config.crash_at_turn && w->turns + 1 >= w->config.crash_at_turn)
    w->crashed = true;
  if (w->crashed)
    return SC_SIM_CRASHED;
  if (sc_random_below(&w->schedule, WEIGHTS_LAST) == 0)
    draw_weights(w);
  set_clock(w);
  fiber_t *f = choose(w);
  if (!f)
    return SC_SIM_STUCK;
  w->turns++;
  w->now_ns += drawn_up_to(&w->schedule, TURN_NS);
  give_turn(w, f);
  return w->crashed ? SC_SIM_CRASHED : SC_SIM_RAN;
}

uint64_t sc_sim_turns(const sc_world_t *w) { return ((const sim_world_t *)w)->turns; }

bool sc_sim_crashed(const sc_world_t *w) { return ((const sim_world_t *)w)->crashed; }

void sc_sim_never_crash(sc_world_t *w) { world_of(w)->config.crash_at_turn = 0; }

/* Lets the others go on once: from a fiber by yielding, from outside by giving a turn. */
static bool let_others(sim_world_t *w) {
  if (running) {
    sc_sim_yield();
    return true;
  }
  return sc_sim_turn(&w->base) == SC_SIM_RAN;
}

/* ---- the world's interface ---- */

static int spawn(sc_world_t *base, sc_actor_t *actor, sc_error_t *err) {
  sim_world_t *w = world_of(base);
  fiber_t *f = add_fiber(w, actor);
  f->due_ns = w->now_ns;
  actor->impl = f;
  return 0;
}

static void wake(sc_world_t *base, sc_actor_t *actor) {
  fiber_t *f = actor->impl;
  f->awake = true;
}

static bool retire(sc_world_t *base, sc_actor_t *actor, int64_t wait_ms) {
  sim_world_t *w = world_of(base);
  fiber_t *f = actor->impl;
  if (!f)
    return true;
  f->retiring = f->awake = true;
  int64_t until = wait_ms < 0 ? INT64_MAX : w->now_ns + wait_ms * 1000000;
  while (!f->finished && w->now_ns < until)
    if (!let_others(w))
      return false;
  if (!f->finished)
    return false;
  fiber_t **at = &w->fibers;
  while (*at != f)
    at = &(*at)->next;
  *at = f->next;
  if (!f->next)
    w->fibers_tail = at;
  actor->impl = NULL;
  free_fiber(f);
  return true;
}

static void submit(sc_world_t *base, sc_work_t *work) {
  sim_world_t *w = world_of(base);
  work->next = NULL;
  *w->works_tail = work;
  w->works_tail = &work->next;
  for (fiber_t *f = w->fibers; f; f = f->next)
    if (!f->actor)
      f->awake = true;
}

static void pause_for(sc_world_t *base, int64_t ms) {
  sim_world_t *w = world_of(base);
  int64_t until = w->now_ns + ms * 1000000;
  while (w->now_ns < until && let_others(w))
    ;
}

static void log_line(sc_world_t *base, const char *line) {
  sim_world_t *w = world_of(base);
  if (w->config.log_line)
    w->config.log_line(w->config.log_arg, line);
}

void sc_sim_world_abandon(sc_world_t *base) {
  sim_world_t *w = world_of(base);
  while (w->fibers) {
    fiber_t *f = w->fibers;
    w->fibers = f->next;
    free_fiber(f);
  }
  free(w);
}

/* The pool ends what it was given, as the real one does. */
static void destroy(sc_world_t *base) {
  sim_world_t *w = world_of(base);
  w->leaving = true;
  for (fiber_t *f = w->fibers; f; f = f->next) {
    f->awake = true;
    while (!f->finished && let_others(w))
      ;
  }
  sc_sim_world_abandon(base);
}

static const sc_world_ops_t ops = {
    .now_ms = now_ms,
    .mono_ns = mono_ns,
    .random = random_bits,
    .spawn = spawn,
    .wake = wake,
    .retire = retire,
    .submit = submit,
    .pause = pause_for,
    .log_line = log_line,
    .destroy = destroy,
};

sc_world_t *sc_sim_world_create(const sc_sim_world_config_t *config, struct sc_storage *storage) {
  sim_world_t *w = sc_calloc(1, sizeof *w);
  w->base.ops = &ops;
  w->base.storage = storage;
  w->base.unsynced = storage; /* no simulated job asks for the other */
  w->config = *config;
  w->now_ns = config->start_ns;
  w->fibers_tail = &w->fibers;
  w->works_tail = &w->works;
  sc_io_lock_wait_by(sc_sim_yield);
  sc_random_init(&w->schedule, config->seed);
  sc_random_init(&w->given, ~config->seed);
  for (uint32_t i = 0; i < config->pool_threads; i++)
    add_fiber(w, NULL);
  return &w->base;
}
