/*
 * count: runs the work of count_work.h in the engine, or without one, and prints one line of JSON.
 *
 *   count [engine=job|plain] [events=N] [keys=K] [skew=uniform|zipf] [pad=BYTES] [parallelism=P]
 *         [slots=N] [checkpoint=MS] [dir=FOLDER] [unaligned=1]
 *
 * wall_s and cpu_s (of the whole process) are from the first event to the end of the job, made_s
 * and made_cpu_s to the last event: a job with checkpoints goes on to wait for its last one.
 * slots_cpu_s is the part of made_cpu_s that was spent in slots and not in the pool.
 * Checkpoints go to `dir`, which stays.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "../../core/base/mem.h"
#include "../../core/runtime/job.h"
#include "../../core/runtime/world_real.h"
#include "count_work.h"

typedef struct args {
  sc_count_work_t work;
  uint64_t parallelism, slots, checkpoint_ms, unaligned;
  const char *dir;
  bool plain;
} args_t;

static void die(const char *what, const char *why) {
  fprintf(stderr, "count: %s: %s\n", what, why);
  exit(2);
}

static void read_args(args_t *a, int argc, char **argv) {
  *a = (args_t){.work = {.events = 5000000, .keys = 1000000, .pad = 40}, .parallelism = 1};
  pthread_mutex_init(&a->work.lock, NULL);
  struct { const char *name; uint64_t *to; } numbers[] = {
      {"events", &a->work.events}, {"keys", &a->work.keys}, {"pad", &a->work.pad},
      {"parallelism", &a->parallelism}, {"slots", &a->slots}, {"checkpoint", &a->checkpoint_ms},
      {"unaligned", &a->unaligned}};
  for (int i = 1; i < argc; i++) {
    char *value = strchr(argv[i], '=');
    bool known = false;
    if (!value)
      die(argv[i], "expected name=value");
    *value++ = 0;
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
      if (strcmp(argv[i], numbers[k].name) == 0) {
        *numbers[k].to = strtoull(value, NULL, 10);
        known = true;
      }
    if (strcmp(argv[i], "skew") == 0)
      known = true, a->work.zipf = strcmp(value, "zipf") == 0;
    if (strcmp(argv[i], "engine") == 0)
      known = true, a->plain = strcmp(value, "plain") == 0;
    if (strcmp(argv[i], "dir") == 0)
      known = true, a->dir = value;
    if (!known)
      die(argv[i], "unknown argument");
  }
  if (a->work.pad > 256 || !a->work.keys || !a->parallelism)
    die("arguments", "pad is at most 256, keys and parallelism are at least 1");
  if (!a->slots)
    a->slots = a->parallelism;
}

static uint32_t add_node(sc_graph_t *g, const char *uid, const sc_operator_type_t *type,
                         args_t *a, bool keyed) {
  static const uint8_t empty_map = 0x80;
  sc_error_t err = SC_ERROR_INIT;
  sc_node_spec_t spec = {.uid = uid, .name = uid, .type = type, .data = &a->work, .keyed = keyed,
                         .options = sc_bytes(&empty_map, 1),
                         .parallelism = (uint32_t)a->parallelism};
  int rc = sc_graph_add(g, &spec, &err);
  if (rc < 0)
    die(uid, err.message);
  return (uint32_t)rc;
}

static sc_graph_t *make_graph(args_t *a) {
  sc_error_t err = SC_ERROR_INIT;
  sc_graph_t *g = sc_graph_create();
  uint32_t source = add_node(g, "events", &sc_count_source_type, a, false);
  uint32_t counter = add_node(g, "counter", &sc_count_type, a, true);
  uint32_t sink = add_node(g, "sums", &sc_count_sink_type, a, false);
  if (sc_graph_connect(g, source, "main", counter, 0, SC_HASH, NULL, 0, &err) < 0 ||
      sc_graph_connect(g, counter, "main", sink, 0, SC_FORWARD, NULL, 0, &err) < 0 ||
      sc_graph_finish(g, &err) < 0)
    die("graph", err.message);
  return g;
}

static double max_sync(sc_bytes_t task) {
  sc_bytes_t subtasks = {0}, subtask;
  double max = 0;
  sc_value_field(task, sc_bytes_str("subtasks"), &subtasks);
  sc_cursor_t c = sc_cursor(subtasks);
  sc_token_t t;
  sc_cursor_next(&c, &t);
  while (sc_cursor_value(&c, &subtask) == 1) {
    double d = sc_value_field_float(subtask, "sync_duration", 0);
    max = d > max ? d : max;
  }
  return max;
}

/* Checkpoints of the history: how many, their greatest synchronous part, their size. */
static void print_checkpoints(sc_job_t *job) {
  sc_buf_t all = SC_BUF_INIT;
  sc_job_statistics(job, &all);
  sc_bytes_t counts = {0}, history = {0}, entry;
  sc_value_field(sc_buf_bytes(&all), sc_bytes_str("counts"), &counts);
  sc_value_field(sc_buf_bytes(&all), sc_bytes_str("history"), &history);
  double sync = 0, whole = 0;
  int64_t size = 0;
  sc_cursor_t c = sc_cursor(history);
  sc_token_t t;
  sc_cursor_next(&c, &t);
  while (sc_cursor_value(&c, &entry) == 1) {
    sc_bytes_t tasks = {0}, task;
    double duration = sc_value_field_float(entry, "end_to_end_duration", 0);
    int64_t bytes = sc_value_field_int(entry, "state_size", 0);
    whole = duration > whole ? duration : whole;
    size = bytes > size ? bytes : size;
    sc_value_field(entry, sc_bytes_str("tasks"), &tasks);
    sc_cursor_t ct = sc_cursor(tasks);
    sc_cursor_next(&ct, &t);
    while (sc_cursor_value(&ct, &task) == 1) {
      double d = max_sync(task);
      sync = d > sync ? d : sync;
    }
  }
  printf(",\"checkpoints\":{\"n\":%" PRId64 ",\"max_sync_ms\":%.3f,\"max_ms\":%.0f,"
         "\"bytes_max\":%" PRId64 "}",
         sc_value_field_int(counts, "completed", 0), sync, whole, size);
  sc_buf_free(&all);
}

static void run_job(args_t *a) {
  sc_error_t err = SC_ERROR_INIT;
  sc_engine_t *engine = sc_engine_create(sc_world_real_create(true, 0), &err);
  sc_job_options_t o = {
      .id = "count", .name = "count", .dir = a->checkpoint_ms ? a->dir : NULL,
      .checkpoint = {.interval_ms = (int64_t)a->checkpoint_ms, .timeout_ms = 600000,
                     .max_concurrent = 1, .tolerable_failures = -1, .retain = 1,
                     .unaligned = a->unaligned != 0},
      .n_slots = (uint32_t)a->slots, .segment_size = 32 * 1024, .exclusive_buffers = 2,
      .floating_buffers = 8, .overdraft_buffers = 5, .subtasks_per_file = 5,
      .buffer_timeout_ms = 100, .log_level = SC_LOG_WARN};
  sc_restart_config("none", &o.restart, &err);
  sc_job_t *job;
  if (!engine || sc_job_start(engine, make_graph(a), &o, &job, &err) < 0)
    die("job", err.message);
  sc_job_status_t status;
  sc_job_status(job, &status);
  while (!sc_job_state_ended(status.state)) {
    sc_job_status_fini(&status);
    sc_job_wait_news(job, -1, NULL);
    sc_job_status(job, &status);
  }
  double end_s = sc_count_now(), end_cpu = sc_count_cpu();
  if (status.state != SC_JOB_FINISHED)
    die("job", status.error ? status.error : "did not finish");
  sc_job_status_fini(&status);
  if (a->checkpoint_ms)
    print_checkpoints(job);
  sc_job_unref(job);
  sc_engine_destroy(engine); /* the operators are gone behind this: sums are whole */
  a->work.made_s -= a->work.begin_s;
  a->work.made_cpu_s -= a->work.cpu_s;
  a->work.begin_s = end_s - a->work.begin_s;
  a->work.cpu_s = end_cpu - a->work.cpu_s;
}

int main(int argc, char **argv) {
  args_t a;
  read_args(&a, argc, argv);
  sc_count_work_t *w = &a.work;
  printf("{\"engine\":\"%s\",\"events\":%" PRIu64 ",\"keys\":%" PRIu64 ",\"skew\":\"%s\","
         "\"parallelism\":%" PRIu64, a.plain ? "plain" : "streamckpt", w->events, w->keys,
         w->zipf ? "zipf" : "uniform", a.parallelism);
  if (a.plain) {
    double begin = sc_count_now(), cpu = sc_count_cpu();
    w->sums = sc_count_plain(w);
    w->begin_s = sc_count_now() - begin;
    w->cpu_s = sc_count_cpu() - cpu;
  } else {
    run_job(&a);
  }
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  printf(",\"slots\":%" PRIu64 ",\"wall_s\":%.3f,\"cpu_s\":%.3f,\"made_s\":%.3f,"
         "\"made_cpu_s\":%.3f,\"slots_cpu_s\":%.3f,\"max_rss_mb\":%.1f,\"entries\":%" PRIu64
         ",\"entry_bytes\":%" PRIu64,
         a.slots, w->begin_s, w->cpu_s, w->made_s, w->made_cpu_s,
         w->made_slots_s - w->slots_s, (double)r.ru_maxrss / 1024,
         w->usage_entries, w->usage_bytes);
  printf(",\"n\":%" PRIu64 ",\"total\":%" PRIu64 ",\"check\":\"%" PRIu64 "\"}\n", w->sums.n,
         w->sums.total, w->sums.check);
  return 0;
}
