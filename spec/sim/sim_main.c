/*
 * The simulator's program. Each seed runs in a process of its own: what a crashed engine leaves
 * behind goes with it, and an assertion or a wild pointer is one more thing that a seed can find.
 *
 *   sim --seeds N --first M    seeds M .. M+N-1; stops at the first that fails, shrinks it, and
 *                              tells its story (--keep-going: goes on; --count: tells in how many
 *                              of them each kind of trouble really happened)
 *   sim --seed S [--cut ...]   one seed, with its story (--lines N: so much of it)
 *   sim --all-faults           (a build with SC_PLANT) for each planted fault the first seed that
 *                              finds it; --fault NAME switches one on for the calls above
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../core/base/mem.h"
#include "../../core/base/planted.h"
#include "../../core/sim/sim_world.h"
#include "sim_run.h"

#define STORY_LINES 48       /* a screen */
#define TRIES 10             /* schedules for each smaller run */
#define SECONDS_OF_A_SEED 60 /* of processor time; only a program that loops takes so long */

/* All fibers are one thread: whoever holds an ordinary mutex across an operation of the storage
 * would block them all, here and where users simulate their jobs. base/io_lock.h is for that. */
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m) {
  int rc = pthread_mutex_trylock(m);
  if (rc == EBUSY) {
    fprintf(stderr, "a mutex is held while files are worked on; it has to be an sc_io_lock_t\n");
    abort();
  }
  return rc;
}

/* ---- planted faults ---- */

#ifdef SC_PLANT
int sc__planted;

#define NAME(name, text) #name,
#define TEXT(name, text) text,
static const char *const plant_names[] = {"", SC_PLANT_MAP(NAME) NULL};
static const char *const plant_texts[] = {"", SC_PLANT_MAP(TEXT) NULL};

static bool plant(const char *name) {
  for (int i = 1; plant_names[i]; i++)
    if (strcmp(plant_names[i], name) == 0)
      sc__planted = i;
  return sc__planted != 0;
}
#else
static bool plant(const char *name) {
  fprintf(stderr, "this build has no planted faults; make sim-faults has\n");
  return false;
}
#endif

/* ---- one seed in a process of its own ---- */

typedef struct outcome {
  bool failed;
  sc_buf_t text;
  sim_totals_t totals;
} outcome_t;

static void run_child(const sim_plan_t *plan, int fd) {
  sc_buf_t story = SC_BUF_INIT;
  sim_totals_t totals = {0};
  dup2(fd, 2); /* what an assertion says belongs to the story */
  alarm(SECONDS_OF_A_SEED * 5);
  int failed = sim_run(plan, &story, &totals);
  sc_buf_t all = SC_BUF_INIT;
  sc_buf_put(&all, story.data, story.len);
  sc_buf_put(&all, &totals, sizeof totals); /* last: others may have written to stderr before */
  for (size_t at = 0; at < all.len;) {
    ssize_t n = write(fd, all.data + at, all.len - at);
    if (n <= 0)
      break;
    at += (size_t)n;
  }
  _exit(failed);
}

static void read_all(int fd, sc_buf_t *out) {
  ssize_t n;
  while ((n = read(fd, sc_buf_reserve(out, 65536), 65536)) > 0 || (n < 0 && errno == EINTR))
    out->len += n > 0 ? (size_t)n : 0;
}

static void run_plan(const sim_plan_t *plan, outcome_t *out) {
  int ends[2], status = 0;
  sc_buf_t all = SC_BUF_INIT;
  *out = (outcome_t){0};
  if (pipe(ends) < 0) {
    perror("pipe");
    exit(2);
  }
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    run_child(plan, ends[1]);
  }
  close(ends[1]);
  read_all(ends[0], &all);
  close(ends[0]);
  waitpid(pid, &status, 0);
  bool regular = WIFEXITED(status) && WEXITSTATUS(status) <= 1 && all.len >= sizeof out->totals;
  out->failed = !regular || WEXITSTATUS(status) == 1;
  size_t tail = regular ? sizeof out->totals : 0;
  sc_buf_put(&out->text, all.data, all.len - tail);
  if (regular)
    memcpy(&out->totals, all.data + all.len - tail, tail);
  if (!regular)
    sc_buf_printf(&out->text, "\nWRONG: the process ended by %s %d\n",
                  WIFSIGNALED(status) ? "signal" : "exit code",
                  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  sc_buf_free(&all);
}

#define SHAPE 24 /* letters of what was wrong that tell one fault from another */

/* What was wrong, without numbers: a smaller run must fail in the same way. */
static void shape_of(const sc_buf_t *text, char shape[SHAPE + 1]) {
  const char *mark = memmem(text->data, text->len, "WRONG: ", 7),
             *end = (char *)text->data + text->len;
  int n = 0;
  for (const char *at = mark ? mark + 7 : end; at < end && n < SHAPE && *at != '\n'; at++)
    if (*at < '0' || *at > '9')
      shape[n++] = *at;
  shape[n] = 0;
}

/* Empty: it does not fail. */
static void failure_of(uint64_t seed, const sim_cut_t *cut, char shape[SHAPE + 1]) {
  sim_plan_t plan;
  outcome_t o;
  sim_plan_make(&plan, seed, cut);
  run_plan(&plan, &o);
  shape[0] = 0;
  if (o.failed)
    shape_of(&o.text, shape);
  sc_buf_free(&o.text);
}

static bool fails(uint64_t seed, const sim_cut_t *cut) {
  char shape[SHAPE + 1];
  failure_of(seed, cut, shape);
  return shape[0] != 0;
}

/* ---- shrinking ---- */

typedef struct smallest {
  uint64_t seed;
  sim_cut_t cut;
  char shape[SHAPE + 1];
} smallest_t;

/* Another schedule may be needed to see the same fault in a smaller run. */
static bool still_fails(smallest_t *best, sim_cut_t cut) {
  uint32_t first = cut.schedule;
  for (uint32_t i = 0; i < TRIES; i++) {
    char shape[SHAPE + 1];
    cut.schedule = first + i;
    failure_of(best->seed, &cut, shape);
    if (strcmp(shape, best->shape))
      continue;
    best->cut = cut;
    return true;
  }
  return false;
}

static bool drop_bits(smallest_t *best, bool nodes) {
  bool smaller = false;
  for (uint32_t i = 0; i < (nodes ? SIM_NODES : SIM_DISTURBANCES); i++) {
    sim_cut_t cut = best->cut;
    uint32_t *bits = nodes ? &cut.no_node : &cut.no_disturbance;
    sim_plan_t plan;
    sim_plan_make(&plan, best->seed, &cut);
    bool there = nodes ? i < plan.n_nodes && !plan.nodes[i].left_out
                       : i < plan.n_disturbances && !plan.disturbances[i].left_out;
    *bits |= 1u << i;
    smaller |= there && still_fails(best, cut);
  }
  return smaller;
}

/* A limit of the cut, tried from 1 on; `from` is above all that a plan draws. */
static bool lower(smallest_t *best, size_t offset, uint32_t from) {
  uint32_t now;
  memcpy(&now, (char *)&best->cut + offset, sizeof now);
  for (uint32_t v = 1; v < (now ? now : from); v = v * 2) {
    sim_cut_t cut = best->cut;
    memcpy((char *)&cut + offset, &v, sizeof v);
    if (still_fails(best, cut))
      return true;
  }
  return false;
}

static sim_cut_t shrink(uint64_t seed) {
  smallest_t best = {.seed = seed};
  failure_of(seed, &best.cut, best.shape);
  for (bool smaller = true; smaller;) {
    smaller = drop_bits(&best, false);
    smaller |= drop_bits(&best, true);
    smaller |= lower(&best, offsetof(sim_cut_t, max_splits), 5);
    smaller |= lower(&best, offsetof(sim_cut_t, max_records), 41);
    smaller |= lower(&best, offsetof(sim_cut_t, max_parallelism), 3);
  }
  return best.cut;
}

/* ---- telling ---- */

static int story_lines = STORY_LINES;

static void print_tail(const sc_buf_t *text) {
  const char *begin = (const char *)text->data, *at = begin + text->len;
  int lines = 0;
  while (at > begin && lines <= story_lines)
    lines += *--at == '\n';
  if (at > begin)
    printf("  ... %zu bytes of story before\n", (size_t)(at - begin));
  fwrite(at + (at > begin), 1, (size_t)(begin + text->len - at) - (at > begin), stdout);
}

static void print_story(const char *program, uint64_t seed, const sim_cut_t *cut) {
  sim_plan_t plan;
  outcome_t o;
  sc_buf_t text = SC_BUF_INIT;
  sim_plan_make(&plan, seed, cut);
  run_plan(&plan, &o);
  sim_plan_print(&plan, &text);
  printf("seed %" PRIu64 "\n%.*s", seed, (int)text.len, (char *)text.data);
  printf("  turn  time (ms)\n");
  print_tail(&o.text);
  printf("again: %s --seed %" PRIu64 " --cut %x,%x,%u,%u,%u,%u\n", program, seed,
         cut->no_disturbance, cut->no_node, cut->max_splits, cut->max_records, cut->max_parallelism,
         cut->schedule);
  sc_buf_free(&text);
  sc_buf_free(&o.text);
}

/* ---- the program ---- */

typedef struct options {
  uint64_t seeds, first;
  bool one, keep_going, raw, all_faults, count;
  sim_cut_t cut;
} options_t;

static bool parse(int argc, char **argv, options_t *o) {
  *o = (options_t){.seeds = 300, .first = 1};
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(argv[i], "--keep-going") == 0) {
      o->keep_going = true;
    } else if (strcmp(argv[i], "--raw") == 0) { /* as it is, without shrinking */
      o->raw = true;
    } else if (strcmp(argv[i], "--count") == 0) {
      o->count = true;
    } else if (strcmp(argv[i], "--all-faults") == 0) {
      o->all_faults = true;
    } else if (strcmp(argv[i], "--fault") == 0 && ++i < argc) {
      if (!plant(value))
        return false;
    } else if (strcmp(argv[i], "--lines") == 0 && ++i < argc) {
      story_lines = atoi(value);
    } else if (strcmp(argv[i], "--seeds") == 0 && ++i < argc) {
      o->seeds = strtoull(value, NULL, 10);
    } else if (strcmp(argv[i], "--first") == 0 && ++i < argc) {
      o->first = strtoull(value, NULL, 10);
    } else if (strcmp(argv[i], "--seed") == 0 && ++i < argc) {
      o->one = true;
      o->first = strtoull(value, NULL, 10);
    } else if (strcmp(argv[i], "--cut") == 0 && ++i < argc) {
      if (sscanf(value, "%x,%x,%u,%u,%u,%u", &o->cut.no_disturbance, &o->cut.no_node,
                 &o->cut.max_splits, &o->cut.max_records, &o->cut.max_parallelism,
                 &o->cut.schedule) != 6)
        return false;
    } else {
      return false;
    }
  }
  return true;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

#ifdef SC_PLANT
/* For each planted fault the first seed that finds it. */
static int find_faults(const options_t *o) {
  int missed = 0;
  for (int i = 1; plant_names[i]; i++) {
    sim_cut_t none = {0};
    uint64_t seed = o->first, end = o->first + o->seeds;
    sc__planted = i;
    while (seed < end && !fails(seed, &none))
      seed++;
    missed += seed == end;
    if (seed < end)
      printf("%-18s found by seed %-5" PRIu64 " %s\n", plant_names[i], seed, plant_texts[i]);
    else
      printf("%-18s NOT FOUND         %s\n", plant_names[i], plant_texts[i]);
    fflush(stdout);
  }
  return missed > 0;
}
#else
static int find_faults(const options_t *o) { return !plant(""); }
#endif

typedef struct counts {
  uint64_t runs[SIM_TALLY_KINDS], times[SIM_TALLY_KINDS];
} counts_t;

static void count(counts_t *c, const sim_totals_t *t) {
  for (int i = 0; i < SIM_TALLY_KINDS; i++) {
    c->runs[i] += t->happened[i] > 0;
    c->times[i] += t->happened[i];
  }
}

static void print_counts(const counts_t *c) {
  printf("  runs   times\n");
  for (int i = 0; i < SIM_TALLY_KINDS; i++)
    printf("%6" PRIu64 " %7" PRIu64 "  %s\n", c->runs[i], c->times[i],
           sim_tally_text((sim_tally_kind_t)i));
}

static int run_seeds(const char *program, const options_t *o) {
  uint64_t failed = 0, done = 0;
  sim_totals_t sum = {0};
  counts_t counts = {0};
  double begin = seconds();
  for (; done < o->seeds; done++) {
    uint64_t seed = o->first + done;
    sim_plan_t plan;
    outcome_t out;
    sim_plan_make(&plan, seed, NULL);
    run_plan(&plan, &out);
    sc_buf_free(&out.text);
    sum.lives += out.totals.lives;
    sum.turns += out.totals.turns;
    sum.checkpoints += out.totals.checkpoints;
    count(&counts, &out.totals);
    if (out.failed) {
      sim_cut_t cut = {0};
      failed++;
      if (!o->raw)
        cut = shrink(seed);
      print_story(program, seed, &cut);
      if (!o->keep_going) {
        done++;
        break;
      }
    }
    if ((done + 1) % 500 == 0) {
      printf("%" PRIu64 " seeds, %.0f a second\n", done + 1,
             (double)(done + 1) / (seconds() - begin));
      fflush(stdout);
    }
  }
  if (o->count)
    print_counts(&counts);
  printf("%" PRIu64 " seeds from %" PRIu64 " on, %" PRIu64 " failed; %" PRIu64 " lives, %" PRIu64
         " checkpoints, %" PRIu64 " turns; %.1f s\n",
         done, o->first, failed, sum.lives, sum.checkpoints, sum.turns, seconds() - begin);
  return failed > 0;
}

int main(int argc, char **argv) {
  options_t o;
  if (!parse(argc, argv, &o)) {
    fprintf(stderr,
            "usage: %s [--seeds N] [--first M] [--keep-going] [--raw] [--count]\n"
            "       [--fault NAME]\n"
            "       %s --seed S [--cut D,N,S,R,P,O] [--lines N] [--fault NAME]\n"
            "       %s --all-faults\n",
            argv[0], argv[0], argv[0]);
    return 2;
  }
  if (o.all_faults)
    return find_faults(&o);
  if (!o.one)
    return run_seeds(argv[0], &o);
  print_story(argv[0], o.first, &o.cut);
  return fails(o.first, &o.cut);
}
