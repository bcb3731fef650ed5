#include "sim_lives.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../base/mem.h"
#include "../base/random.h"

#define START_NS 1000000000 /* monotonic time of the first start */
#define GAP_NS 1000000      /* from the end of a process to the next */
#define CALM_NS 1000        /* latency of the storage when nothing goes wrong any more */
#define LOOK_EVERY 8        /* turns between two looks at the job */

typedef struct past {
  struct past *next;
  sc_job_t *job;     /* of a life that has ended */
  uint64_t restored; /* what that life had begun from */
  bool died;         /* in the middle of it: the job can be looked at, not taken apart */
} past_t;

typedef enum { GOES_ON, CRASHED, ENDED } state_t;

struct sc_sim_lives {
  sc_sim_lives_config_t config;
  sc_sim_lives_result_t result;
  sc_storage_t *storage;
  sc_sim_taps_t *taps;
  sc_world_t *world; /* of this life */
  past_t *past;      /* the newest first */
  uint64_t turns;    /* of the lives before */
  uint64_t steps;    /* calls of operators, and questions to sources */
  int64_t now_ns;    /* at the end of the life before */
  bool calm;         /* nothing goes wrong any more */
  bool troubled;     /* something was made to go wrong in this life */
  bool canceled;     /* by us, in this life */
  char *job_id;      /* of this life; what its log lines begin with */
  sc_random_t pace;
  sc_buf_t story;
};

/* ---- the story ---- */

static void tell(sc_sim_lives_t *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void tell(sc_sim_lives_t *l, const char *format, ...) {
  int64_t now = l->world ? sc_sim_now_ns(l->world) : l->now_ns;
  sc_error_t text = SC_ERROR_INIT;
  va_list args;
  va_start(args, format);
  sc_vfail(&text, SC_EINTERNAL, format, args); /* only for its formatting */
  va_end(args);
  sc_buf_printf(&l->story, "%10.3f  %s\n", (double)(now - START_NS) / 1e6, text.message);
  sc_error_clear(&text);
}

/* A job's line without its date, and without the job, of which there is one. */
static void log_line(void *arg, const char *line) {
  sc_sim_lives_t *l = arg;
  const char *at = strstr(line, " [");
  size_t n = strlen(l->job_id);
  bool ours = at && strncmp(at + 2, l->job_id, n) == 0;
  tell(l, "%s%s", ours ? "[" : "", ours ? at + 2 + n + (at[2 + n] == ' ') : line);
}

static void wrong(sc_sim_lives_t *l, int code, const char *text) {
  if (!l->result.error.code)
    sc_fail(&l->result.error, code, "%s", text);
}

/* ---- events ---- */

static sc_sim_event_t *next_of(sc_sim_lives_t *l, sc_sim_event_kind_t kind) {
  sc_sim_event_t *first = NULL;
  for (uint32_t i = 0; i < l->config.n_events && !l->calm; i++) {
    sc_sim_event_t *e = &l->config.events[i];
    if (e->kind == kind && !e->done && (!first || e->at < first->at))
      first = e;
  }
  return first;
}

static bool due(const sc_sim_event_t *e, uint64_t count) { return e && e->at <= count; }

static void count_step(sc_sim_lives_t *l) {
  if (++l->steps <= l->config.steps_max)
    return;
  wrong(l, SC_ETIMEOUT, "the job does not come to its end");
  sc_sim_crash(l->world);
}

static void asked(void *arg) { count_step(arg); }

/* Whoever reads slowly gives checkpoints their time though there are few records, and slow
 * operators let records pile up before them. The slot stops here, as a thread may that waits. */
static void take_time(sc_sim_lives_t *l, bool source) {
  uint32_t one_in = source ? l->config.stall_one_in : 0;
  bool stalls = one_in && sc_random_below(&l->pace, one_in) == 0;
  int64_t most = stalls ? l->config.stall_ns
                        : 2 * (source ? l->config.pace_ns : l->config.slow_ns);
  if (most)
    sc_sim_io(l->world, (int64_t)sc_random_below(&l->pace, (uint64_t)most));
}

static int called(void *arg, uint64_t count, bool source, const char *label, sc_error_t *err) {
  sc_sim_lives_t *l = arg;
  count_step(l);
  l->result.records += source;
  take_time(l, source);
  sc_sim_event_t *fails = next_of(l, SC_SIM_TASK_FAILS);
  if (due(next_of(l, SC_SIM_DIES_AT_CALL), count))
    sc_sim_crash(l->world);
  if (!due(fails, count))
    return 0;
  fails->done = l->troubled = true;
  l->result.task_failures++;
  tell(l, "! %s is made to fail", label);
  return sc_fail(err, SC_EIO, "%s: this failure is simulated", label);
}

static void given(void *arg, uint32_t node, const sc_bytes_t *key, sc_bytes_t value) {
  sc_sim_lives_t *l = arg;
  if (l->config.given)
    l->config.given(l->config.arg, node, key, value);
}

static void completed(void *arg, uint64_t id) { ((sc_sim_lives_t *)arg)->result.checkpoints++; }

static void op_failed(void *arg, const sc_sim_op_t *op, int code) {
  sc_sim_lives_t *l = arg;
  l->troubled = true;
  l->result.storage_failures++;
  tell(l, "! %s %s is made to fail: %s", sc_sim_op_name(op->kind), op->path, sc_error_text(code));
}

/* Storage failures are the storage's from the beginning; it counts for itself. */
static void set_faults(sc_sim_lives_t *l) {
  for (uint32_t i = 0; i < l->config.n_events; i++) {
    const sc_sim_event_t *e = &l->config.events[i];
    if (e->kind == SC_SIM_STORAGE_FAILS)
      sc_sim_storage_fail(l->storage, e->mask, e->at, e->times, e->code);
  }
}

/* What killed the process; NULL where it took too long. */
static sc_sim_event_t *cause_of_death(sc_sim_lives_t *l) {
  sc_sim_event_t *e = next_of(l, SC_SIM_DIES_AT_TURN);
  if (due(e, l->turns + sc_sim_turns(l->world) + 1))
    return e;
  e = next_of(l, SC_SIM_DIES_AT_CALL);
  if (due(e, sc_sim_taps_calls(l->taps)))
    return e;
  e = next_of(l, SC_SIM_DIES_AT_OP);
  return due(e, sc_sim_storage_ops(l->storage)) ? e : NULL;
}

/* ---- a life ---- */

static uint64_t seed_of_life(const sc_sim_lives_t *l) {
  sc_random_t r;
  sc_random_init(&r, l->config.seed + 0x632BE59BD9B4E019u * (l->result.lives + 1));
  return sc_random_next(&r);
}

static void begin_world(sc_sim_lives_t *l) {
  const sc_sim_event_t *turn = next_of(l, SC_SIM_DIES_AT_TURN);
  const sc_sim_event_t *op = next_of(l, SC_SIM_DIES_AT_OP);
  sc_sim_world_config_t c = {
      .seed = seed_of_life(l),
      .start_ns = l->now_ns,
      .pool_threads = l->config.pool_threads,
      .look_ns = l->config.look_ns,
      .jump_one_in = l->config.jump_one_in,
      .crash_at_turn = !turn ? 0 : turn->at > l->turns ? turn->at - l->turns : 1,
      .log_line = log_line,
      .log_arg = l};
  l->world = sc_sim_world_create(&c, l->storage);
  sc_sim_storage_attach(l->storage, l->world, l->calm ? CALM_NS : l->config.latency_ns);
  if (l->calm)
    sc_sim_storage_calm(l->storage);
  else
    sc_sim_storage_crash_at(l->storage, op ? op->mask : 0, op ? op->at : 0);
}

static void died(sc_sim_lives_t *l) {
  sc_sim_event_t *e = cause_of_death(l);
  bool power = e && e->power;
  tell(l, power ? "*** the process dies, and what was not synced is lost" : "*** the process dies");
  if (e)
    e->done = true;
  l->result.crashes++;
  sc_sim_storage_attach(l->storage, NULL, 0);
  sc_sim_storage_crashed(l->storage, power);
}

static void leave_world(sc_sim_lives_t *l) {
  l->now_ns = sc_sim_now_ns(l->world) + GAP_NS;
  l->turns += sc_sim_turns(l->world);
}

/* The job's end, and the engine's, in which nothing dies any more. */
static void take_down(sc_sim_lives_t *l, sc_engine_t *engine) {
  sc_sim_storage_crash_at(l->storage, 0, 0);
  sc_sim_never_crash(l->world);
  leave_world(l);
  sc_engine_destroy(engine);
  l->world = NULL;
  sc_sim_storage_attach(l->storage, NULL, 0);
}

static void crash_down(sc_sim_lives_t *l) {
  died(l);
  leave_world(l);
  sc_sim_world_abandon(l->world);
  l->world = NULL;
}

static void keep(sc_sim_lives_t *l, sc_job_t *job, uint64_t restored) {
  past_t *p = sc_malloc(sizeof *p);
  *p = (past_t){l->past, job, restored, true};
  l->past = p;
}

/* "/a/b/chk-42" -> 42. */
static uint64_t id_of(const char *path) {
  const char *at = path ? strrchr(path, '/') : NULL;
  return at && strncmp(at, "/chk-", 5) == 0 ? strtoull(at + 5, NULL, 10) : 0;
}

/* An error of the job's own functions or values is no consequence that anybody wanted. */
static bool is_users(int code) {
  return code == SC_EUSER || code == SC_EKEY || code == SC_EVALUE;
}

/* The job as it is now, with the events that are by turns. */
static state_t look(sc_sim_lives_t *l, sc_job_t *job, sc_job_status_t *s) {
  sc_sim_event_t *cancel = next_of(l, SC_SIM_CANCELS);
  if (due(cancel, l->turns + sc_sim_turns(l->world))) {
    cancel->done = l->canceled = true;
    l->result.cancels++;
    tell(l, "! the job is canceled");
    sc_job_cancel(job);
  }
  sc_job_status_fini(s);
  sc_job_status(job, s);
  if (s->error && is_users(s->error_code)) {
    wrong(l, s->error_code, s->error);
    return ENDED;
  }
  return sc_job_state_ended(s->state) ? ENDED : GOES_ON;
}

static state_t live(sc_sim_lives_t *l, sc_job_t *job, sc_job_status_t *s) {
  for (;;) {
    sc_sim_turn_t turn = sc_sim_turn(l->world);
    if (turn == SC_SIM_CRASHED)
      return CRASHED;
    bool stuck = turn == SC_SIM_STUCK;
    if ((stuck || sc_sim_turns(l->world) % LOOK_EVERY == 0) && look(l, job, s) == ENDED)
      return ENDED;
    if (!stuck && sc_sim_turns(l->world) < l->config.turns_max)
      continue;
    if (stuck || l->calm)
      wrong(l, SC_ETIMEOUT, stuck ? "the job stands still: nothing in it can go on any more"
                                  : "the job does not come to its end");
    tell(l, "the process is killed: it takes too long");
    return CRASHED;
  }
}

/* A job that ended: is it the end of all, or does another life follow? */
static void judge(sc_sim_lives_t *l, const sc_job_status_t *s) {
  l->result.finished = s->state == SC_JOB_FINISHED && !l->result.error.code;
  if (s->state == SC_JOB_FAILED && (l->calm || !l->troubled))
    wrong(l, s->error_code ? s->error_code : SC_EFAILED, s->error ? s->error : "the job failed");
  if (s->state == SC_JOB_CANCELED && !l->canceled)
    wrong(l, SC_EINTERNAL, "the job was canceled, and nobody had done so");
}

static void not_started(sc_sim_lives_t *l, sc_engine_t *engine, sc_error_t *err) {
  char *text = sc_error_format(err);
  tell(l, "the start is refused: %s", text);
  if (l->calm || !l->troubled)
    wrong(l, err->code, text);
  free(text);
  take_down(l, engine);
}

static int start(sc_sim_lives_t *l, sc_engine_t *engine, sc_job_t **job, sc_error_t *err) {
  sc_job_options_t options = {0};
  sc_graph_t *graph = NULL;
  int rc = l->config.begin(l->config.arg, l->result.lives, &graph, &options, err);
  if (rc < 0)
    return rc;
  sc_sim_taps_put(l->taps, graph);
  options.from = l->result.lives && options.dir ? "latest" : NULL;
  free(l->job_id);
  l->job_id = sc_strdup(options.id);
  return sc_job_start(engine, graph, &options, job, err);
}

static void one_life(sc_sim_lives_t *l) {
  sc_error_t err = SC_ERROR_INIT;
  sc_job_status_t s = {0};
  sc_job_t *job = NULL;
  l->troubled = l->canceled = false;
  begin_world(l);
  sc_engine_t *engine = sc_engine_create(l->world, &err);
  int rc = start(l, engine, &job, &err);
  if (sc_sim_crashed(l->world)) {
    crash_down(l);
    sc_error_clear(&err);
    return;
  }
  if (rc < 0) {
    not_started(l, engine, &err);
    sc_error_clear(&err);
    return;
  }
  sc_job_status(job, &s);
  keep(l, job, id_of(s.restored_path));
  l->result.restores += s.restored_path != NULL;
  state_t end = live(l, job, &s);
  l->result.restores += (uint32_t)s.restarts;
  if (end == ENDED && !l->result.error.code)
    judge(l, &s);
  sc_job_status_fini(&s);
  if (end == ENDED) {
    take_down(l, engine);
    l->past->died = false;
  } else {
    crash_down(l);
  }
}

static bool all_done(const sc_sim_lives_t *l) {
  for (uint32_t i = 0; i < l->config.n_events; i++)
    if (!l->config.events[i].done && l->config.events[i].kind != SC_SIM_STORAGE_FAILS)
      return false;
  return l->config.n_events == 0;
}

const sc_sim_lives_result_t *sc_sim_lives_run(sc_sim_lives_t *l) {
  set_faults(l);
  while (!l->result.finished && !l->result.error.code) {
    l->calm = l->result.lives >= l->config.lives_max || all_done(l);
    bool last = l->calm && l->result.lives;
    tell(l, "== start %u%s", l->result.lives + 1, last ? ", undisturbed" : "");
    one_life(l);
    l->result.lives++;
    if (!l->result.finished && l->result.lives > l->config.lives_max + 3)
      wrong(l, SC_ETIMEOUT, "the job does not come to its end, however often it is started");
  }
  l->result.turns = l->turns;
  l->result.calls = sc_sim_taps_calls(l->taps);
  l->result.steps = l->steps;
  l->result.ops = sc_sim_storage_ops(l->storage);
  l->result.time_ns = l->now_ns - START_NS;
  return &l->result;
}

/* ---- afterwards ---- */

sc_bytes_t sc_sim_lives_story(const sc_sim_lives_t *l) { return sc_buf_bytes(&l->story); }

static int add_rows(sc_job_t *job, const char *uid, uint64_t until, sc_buf_t *out,
                    sc_error_t *err) {
  sc_buf_t array = SC_BUF_INIT;
  sc_token_t head;
  int rc = sc_job_rows_until(job, uid, until, &array, err);
  sc_cursor_t c = sc_cursor(sc_buf_bytes(&array));
  if (rc >= 0 && sc_cursor_next(&c, &head) == 1)
    sc_buf_put(out, c.at, (size_t)(c.end - c.at));
  sc_buf_free(&array);
  return rc;
}

/* The newest life first, so from the end: each one's rows count up to what the next began from. */
static int rows_of(const past_t *p, const char *uid, uint64_t until, sc_buf_t *out,
                   sc_error_t *err) {
  if (!p)
    return 0;
  int rc = rows_of(p->next, uid, p->restored, out, err);
  return rc < 0 ? rc : add_rows(p->job, uid, until, out, err);
}

int sc_sim_lives_rows(sc_sim_lives_t *l, const char *uid, sc_buf_t *out, sc_error_t *err) {
  return rows_of(l->past, uid, 0, out, err);
}

sc_sim_lives_t *sc_sim_lives_create(const sc_sim_lives_config_t *config, sc_storage_t *storage) {
  static const sc_sim_taps_ops_t taps = {called, asked, given, completed};
  sc_sim_lives_t *l = sc_calloc(1, sizeof *l);
  sc_assert(config->n_events <= SC_SIM_EVENTS_MAX);
  l->config = *config;
  l->storage = storage;
  l->now_ns = START_NS;
  sc_random_init(&l->pace, config->seed + 1);
  l->taps = sc_sim_taps_create(&taps, l);
  sc_sim_storage_observe(storage, NULL, op_failed, l);
  return l;
}

void sc_sim_lives_destroy(sc_sim_lives_t *l) {
  if (!l)
    return;
  while (l->past) {
    past_t *p = l->past;
    l->past = p->next;
    if (!p->died)
      sc_job_unref(p->job);
    free(p);
  }
  sc_sim_taps_destroy(l->taps);
  sc_error_clear(&l->result.error);
  sc_buf_free(&l->story);
  free(l->job_id);
  free(l);
}
