/*
 * The simulator's program. Each seed runs in a process of its own: what a crashed engine leaves
 * behind goes with it, and an assertion or a wild pointer is one more thing that a seed can find.
 *
 *   sim --seeds N --first M    seeds M .. M+N-1; stops at the first that fails, shrinks it, and
 *                              tells its story (--keep-going: goes on)
 *   sim --seed S [--cut ...]   one seed, with its story
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
#include "../../core/sim/sim_world.h"
#include "sim_run.h"

#define STORY_LINES 48       /* a screen */
#define SECONDS_OF_A_SEED 60 /* of processor time; only a program that loops takes so long */

/* All fibers are one thread: a lock that another fiber holds is waited for by letting it go on. */
int __real_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m) {
  int rc;
  while ((rc = pthread_mutex_trylock(m)) == EBUSY)
    sc_sim_yield();
  return rc;
}

/* ---- one seed in a process of its own ---- */

typedef struct outcome { bool failed; sc_buf_t text; sim_totals_t totals; } outcome_t;

static void run_child(const sim_plan_t *plan, int fd) {
  sc_buf_t story = SC_BUF_INIT;
  sim_totals_t totals = {0};
  dup2(fd, 2); /* what an assertion says belongs to the story */
  alarm(SECONDS_OF_A_SEED * 5);
  int failed = sim_run(plan, &story, &totals);
  sc_buf_t all = SC_BUF_INIT;
  sc_buf_put(&all, &totals, sizeof totals);
  sc_buf_put(&all, story.data, story.len);
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
  size_t skip = regular ? sizeof out->totals : 0;
  if (regular)
    memcpy(&out->totals, all.data, skip);
  sc_buf_put(&out->text, all.data + skip, all.len - skip);
  if (!regular)
    sc_buf_printf(&out->text, "\nWRONG: the process ended by %s %d\n",
                  WIFSIGNALED(status) ? "signal" : "exit code",
                  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  sc_buf_free(&all);
}

static bool fails(uint64_t seed, const sim_cut_t *cut) {
  sim_plan_t plan;
  outcome_t o;
  sim_plan_make(&plan, seed, cut);
  run_plan(&plan, &o);
  sc_buf_free(&o.text);
  return o.failed;
}

/* ---- shrinking ---- */

/* Another schedule may be needed to see the same fault in a smaller run. */
static bool still_fails(uint64_t seed, sim_cut_t cut, sim_cut_t *best) {
  uint32_t first = cut.schedule;
  for (uint32_t i = 0; i < 12; i++) {
    cut.schedule = first + i;
    if (!fails(seed, &cut))
      continue;
    *best = cut;
    return true;
  }
  return false;
}

static bool drop_bits(uint64_t seed, sim_cut_t *best, bool nodes) {
  bool smaller = false;
  for (uint32_t i = 0; i < (nodes ? SIM_NODES : SIM_DISTURBANCES); i++) {
    sim_cut_t cut = *best;
    uint32_t *bits = nodes ? &cut.no_node : &cut.no_disturbance;
    sim_plan_t plan;
    sim_plan_make(&plan, seed, &cut);
    bool there = nodes ? i < plan.n_nodes && !plan.nodes[i].left_out
                       : i < plan.n_disturbances && !plan.disturbances[i].left_out;
    *bits |= 1u << i;
    smaller |= there && still_fails(seed, cut, best);
  }
  return smaller;
}

static bool lower(uint64_t seed, sim_cut_t *best, size_t offset, uint32_t from) {
  uint32_t now;
  memcpy(&now, (char *)best + offset, sizeof now);
  for (uint32_t v = 1; v < (now ? now : from); v = v * 2) {
    sim_cut_t cut = *best;
    memcpy((char *)&cut + offset, &v, sizeof v);
    if (still_fails(seed, cut, best))
      return true;
  }
  return false;
}

static void shrink(uint64_t seed, sim_cut_t *best) {
  for (bool smaller = true; smaller;) {
    smaller = drop_bits(seed, best, false);
    smaller |= drop_bits(seed, best, true);
    smaller |= lower(seed, best, offsetof(sim_cut_t, max_splits), 5);
    smaller |= lower(seed, best, offsetof(sim_cut_t, max_records), 41);
    smaller |= lower(seed, best, offsetof(sim_cut_t, max_parallelism), 3);
  }
}

/* ---- telling ---- */

static void print_tail(const sc_buf_t *text) {
  const char *begin = (const char *)text->data, *at = begin + text->len;
  int lines = 0;
  while (at > begin && lines <= STORY_LINES)
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
  printf("again: %s --seed %" PRIu64 " --cut %x,%x,%u,%u,%u,%u\n", program, seed, cut->no_disturbance,
         cut->no_node, cut->max_splits, cut->max_records, cut->max_parallelism, cut->schedule);
  sc_buf_free(&text);
  sc_buf_free(&o.text);
}

/* ---- the program ---- */

typedef struct options {
  uint64_t seeds, first;
  bool one, keep_going, raw;
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
    } else if (strcmp(argv[i], "--seeds") == 0 && ++i < argc) {
      o->seeds = strtoull(value, NULL, 10);
    } else if (strcmp(argv[i], "--first") == 0 && ++i < argc) {
      o->first = strtoull(value, NULL, 10);
    } else if (strcmp(argv[i], "--seed") == 0 && ++i < argc) {
      o->one = true;
      o->first = strtoull(value, NULL, 10);
    } else if (strcmp(argv[i], "--cut") == 0 && ++i < argc) {
      if (sscanf(value, "%x,%x,%u,%u,%u,%u", &o->cut.no_disturbance, &o->cut.no_node, &o->cut.max_splits,
                 &o->cut.max_records, &o->cut.max_parallelism, &o->cut.schedule) != 6)
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

static int run_seeds(const char *program, const options_t *o) {
  uint64_t failed = 0, done = 0;
  sim_totals_t sum = {0};
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
    if (out.failed) {
      sim_cut_t cut = {0};
      failed++;
      if (!o->raw)
        shrink(seed, &cut);
      print_story(program, seed, &cut);
      if (!o->keep_going) {
        done++;
        break;
      }
    }
    if ((done + 1) % 500 == 0) {
      printf("%" PRIu64 " seeds, %.0f a second\n", done + 1, (double)(done + 1) / (seconds() - begin));
      fflush(stdout);
    }
  }
  printf("%" PRIu64 " seeds from %" PRIu64 " on, %" PRIu64 " failed; %" PRIu64 " lives, %" PRIu64
         " turns; %.1f s\n", done, o->first, failed, sum.lives, sum.turns, seconds() - begin);
  return failed > 0;
}

int main(int argc, char **argv) {
  options_t o;
  if (!parse(argc, argv, &o)) {
    fprintf(stderr, "usage: %s [--seeds N] [--first M] [--keep-going] [--raw]\n"
            "       %s --seed S [--cut D,N,S,R,P,O]\n", argv[0], argv[0]);
    return 2;
  }
  if (!o.one)
    return run_seeds(argv[0], &o);
  print_story(argv[0], o.first, &o.cut);
  return fails(o.first, &o.cut);
}
