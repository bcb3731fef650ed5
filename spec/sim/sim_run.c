#include "sim_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/base/mem.h"
#include "../../core/operator/file_sink.h"
#include "../../core/operator/watermarks.h"
#include "../../core/runtime/job.h"
#include "../../core/sim/sim_world.h"
#include "../../core/snapshot/job_dir.h"
#include "sim_check.h"

#define CALM_NS 1000          /* latency of the storage when nothing goes wrong any more */
#define JUMP_ONE_IN 400       /* turns: time passes though somebody is ready */
#define CLOCK_SET_ONE_IN 200  /* turns */
#define LIVES_MAX 14          /* then calm comes */
#define SIM_FOR_EVER_MS 600000
#define TURNS_OF_A_LIFE 10000 /* then the process is killed: it may be slower than its timeouts */
#define TURNS_OF_CALM 60000   /* a job that has emitted no record meanwhile never will */
#define CALMS_MAX 50          /* of them: it may emit the same ones again and again */

typedef enum { ENDED, CRASHED, REFUSED } end_t;

typedef struct run {
  sim_plan_t plan;
  sim_shared_t shared;
  sim_place_t places[SIM_NODES];
  sc_storage_t *storage;
  sim_model_t *model;
  sim_check_t *check;
  sc_buf_t *story;
  sc_world_t *world; /* of this life */
  uint32_t life;
  uint64_t turns;    /* of the lives before */
  int64_t now_ns;    /* at the end of the life before */
  uint32_t troubles; /* told failures in this life */
  uint64_t completed, last_completed; /* checkpoints that were told complete, and the last one */
  uint64_t dies_at;  /* turn; 0: not because of one of those */
  bool canceled;     /* by us, in this life */
  char *from;        /* where this life begins, as its options say; or NULL */
} run_t;

/* ---- the story ---- */

static void tell(void *arg, const char *text) {
  run_t *r = arg;
  int64_t now = r->world ? sc_sim_now_ns(r->world) : r->now_ns;
  uint64_t turns = r->turns + (r->world ? sc_sim_turns(r->world) : 0);
  sc_buf_printf(r->story, "%6" PRIu64 " %9.3f  %.150s\n", turns, (double)now / 1e6, text);
}

/* A job's line without its date and its name. */
static void log_line(void *arg, const char *line) {
  const char *text = strstr(line, "[" SIM_JOB_ID);
  tell(arg, text ? text + strlen(SIM_JOB_ID) + 2 : line);
  /* Ten minutes are never needed: whoever expires then waits for what does not come. */
  run_t *r = arg;
  if ((r->shared.calm || r->plan.timeout_ms >= SIM_FOR_EVER_MS) && strstr(line, "expired"))
    sim_wrong(&r->shared, "a checkpoint waits in vain: %s", line);
}

static void raised(void *arg, const char *text) {
  ((run_t *)arg)->troubles++;
  tell(arg, text);
}

static void op_failed(void *arg, const sc_sim_op_t *op, int code) {
  run_t *r = arg;
  char *text = sc_format("! %s %s fails: %s", sc_sim_op_name(op->kind), op->path,
                         sc_error_name(code));
  r->troubles++;
  r->shared.all_may_restart = true;
  tell(r, text);
  free(text);
}

static void op_done(void *arg, const sc_sim_op_t *op) {
  run_t *r = arg;
  sim_check_change(r->check, op, r->world, r->plan.latency_ns);
}

static sim_disturbance_t *next_of(run_t *r, sim_disturbance_kind_t kind);

static void told_completed(void *arg, uint64_t id) {
  run_t *r = arg;
  sim_check_told_complete(r->check, id);
  if (id == r->last_completed)
    return;
  r->last_completed = id;
  r->completed++;
  const sim_disturbance_t *d = next_of(r, SIM_CRASH_DONE);
  if (d && d->at <= r->completed && !r->dies_at)
    r->dies_at = r->turns + sc_sim_turns(r->world) + d->times + 1;
}

/* ---- the graph ---- */

/* The operator that makes a source's watermarks goes between it and all its readers. Splits may be
 * read in any order, so a record may be as late as all of them are long. */
static int add_time(run_t *r, sc_graph_t *g, const sim_node_t *n, const sc_node_spec_t *source,
                    int index, sc_error_t *err) {
  sc_buf_t options = SC_BUF_INIT;
  char *uid = sc_format("time-%s", n->uid);
  sc_pack_map(&options, 1);
  sc_pack_cstr(&options, "out_of_orderness");
  sc_pack_int(&options, (int64_t)n->splits * SIM_SPLIT_MS);
  sc_node_spec_t spec = {.uid = uid,
                         .name = uid,
                         .type = &sc_watermarks_type,
                         .options = sc_buf_bytes(&options),
                         .parallelism = source->parallelism,
                         .max_parallelism = source->max_parallelism,
                         .start_new_chain = n->salt % 3 == 0};
  int time = sc_graph_add(g, &spec, err), rc = time;
  if (time >= 0)
    rc = sc_graph_connect(g, (uint32_t)index, "main", (uint32_t)time, 0, SC_FORWARD, NULL, 0, err);
  sc_buf_free(&options);
  free(uid);
  return rc < 0 ? rc : time;
}

static int add_node(run_t *r, sc_graph_t *g, uint32_t i, int *index, sc_error_t *err) {
  const sim_node_t *n = &r->plan.nodes[i];
  static const char *const outputs[] = {"main", "pt"};
  r->places[i] = (sim_place_t){&r->shared, n};
  bool sink = n->kind == SIM_SINK, keyed = n->kind == SIM_KEYED;
  sc_buf_t options = SC_BUF_INIT;
  sc_pack_map(&options, 1);
  sc_pack_cstr(&options, "dir");
  sc_pack_cstr(&options, SIM_OUT);
  sc_node_spec_t spec = {.uid = n->uid,
                         .name = n->uid,
                         .data = &r->places[i],
                         .keyed = keyed,
                         .type = sink ? &sc_file_sink_type : sim_operator_type(n),
                         .options = sc_buf_bytes(&options),
                         .parallelism = sim_plan_parallelism(&r->plan, n->class, r->life),
                         .max_parallelism = r->plan.max_parallelism,
                         .start_new_chain = n->new_chain,
                         .outputs = outputs,
                         .n_outputs = keyed ? 2 : 1};
  int rc = sc_graph_add(g, &spec, err);
  if (rc >= 0 && n->timed)
    rc = add_time(r, g, n, &spec, rc, err);
  index[i] = rc;
  sc_buf_free(&options);
  return rc < 0 ? rc : 0;
}

static int connect(run_t *r, sc_graph_t *g, uint32_t i, const int *index, sc_error_t *err) {
  static const char *const key[] = {"k"};
  int rc = 0;
  for (uint32_t k = 0; rc == 0 && k < r->plan.nodes[i].n_inputs; k++) {
    const sim_input_t *in = &r->plan.nodes[i].inputs[k];
    bool hash = in->edge == SC_HASH;
    rc = sc_graph_connect(g, (uint32_t)index[in->from], in->side ? "pt" : "main",
                          (uint32_t)index[i], 0, in->edge, hash ? key : NULL, hash ? 1 : 0, err);
  }
  return rc < 0 ? rc : 0;
}

static sc_graph_t *build(run_t *r) {
  sc_graph_t *g = sc_graph_create();
  sc_error_t err = SC_ERROR_INIT;
  int index[SIM_NODES], rc = 0;
  for (uint32_t i = 0; rc == 0 && i < r->plan.n_nodes; i++)
    if (!r->plan.nodes[i].left_out)
      rc = add_node(r, g, i, index, &err);
  for (uint32_t i = 0; rc == 0 && i < r->plan.n_nodes; i++)
    if (!r->plan.nodes[i].left_out)
      rc = connect(r, g, i, index, &err);
  if (rc == 0)
    rc = sc_graph_finish(g, &err);
  if (rc < 0)
    sim_wrong(&r->shared, "the graph is refused: %s", err.message);
  return g;
}

/* ---- a life ---- */

static sim_disturbance_t *next_of(run_t *r, sim_disturbance_kind_t kind) {
  sim_disturbance_t *first = NULL;
  for (uint32_t i = 0; i < r->plan.n_disturbances && !r->shared.calm; i++) {
    sim_disturbance_t *d = &r->plan.disturbances[i];
    if (d->kind == kind && !d->left_out && (!first || d->at < first->at))
      first = d;
  }
  return first;
}

static void begin_world(run_t *r) {
  const sim_disturbance_t *d = next_of(r, SIM_CRASH_TURN), *op = next_of(r, SIM_CRASH_OP);
  uint64_t at = !d ? 0 : d->at > r->turns ? d->at - r->turns : 1;
  sc_sim_world_config_t c = {
      .seed = (uint64_t)sim_mix((int64_t)r->plan.seed + 1000003 * r->plan.cut.schedule, r->life),
      .start_ns = r->now_ns,
      .pool_threads = r->plan.pool_threads,
      .look_ns = r->plan.look_ns,
      .jump_one_in = JUMP_ONE_IN,
      .clock_set_one_in = r->plan.clock_set_ms && !r->shared.calm ? CLOCK_SET_ONE_IN : 0,
      .clock_set_ms = r->plan.clock_set_ms,
      .crash_at_turn = at,
      .log_line = log_line,
      .log_arg = r};
  r->world = sc_sim_world_create(&c, r->storage);
  sc_sim_storage_attach(r->storage, r->world, r->shared.calm ? CALM_NS : r->plan.latency_ns);
  if (r->shared.calm)
    sc_sim_storage_calm(r->storage);
  else if (op)
    sc_sim_storage_crash_at(r->storage, op->mask, op->at);
}

/* The path of the newest checkpoint that is whole; NULL where there is none. Nobody notices the
 * look. */
static char *newest_path(run_t *r) {
  sc_job_scan_t *scan;
  char *path = NULL;
  sc_sim_storage_attach(r->storage, NULL, 0);
  if (sc_job_scan(r->storage, SIM_JOB_DIR, SC_LOOK_CHECKSUMS, &scan, NULL) == 0) {
    for (uint32_t i = 0; i < scan->n; i++)
      if (scan->list[i].state == SC_FOUND_VALID) {
        free(path);
        path = sc_format(SIM_JOB_DIR "/chk-%" PRIu64, scan->list[i].id);
      }
    sc_job_scan_destroy(scan);
  }
  sc_sim_storage_attach(r->storage, r->world, r->shared.calm ? CALM_NS : r->plan.latency_ns);
  return path;
}

/* From the newest checkpoint, by its path or by looking for it; or anew. */
static void choose_from(run_t *r) {
  const sim_plan_t *p = &r->plan;
  free(r->from);
  r->from = NULL;
  if (p->no_checkpoints || (r->life == 0 && p->seed % 2))
    return;
  if (p->from_path && sim_mix((int64_t)p->seed, 2000 + r->life) % 2)
    r->from = newest_path(r);
  if (!r->from)
    r->from = sc_strdup("latest");
}

static void fill_options(const run_t *r, sc_job_options_t *o) {
  const sim_plan_t *p = &r->plan;
  bool calm = r->shared.calm;
  *o = (sc_job_options_t){.id = SIM_JOB_ID,
                          .name = SIM_JOB_ID,
                          .dir = p->no_checkpoints && p->seed % 2 ? NULL : SIM_CKPT,
                          .externalized = SC_EXTERNALIZED_RETAIN,
                          .checkpoint = {.interval_ms = p->no_checkpoints ? 0 : p->interval_ms,
                                         .timeout_ms = calm ? 600000 : p->timeout_ms,
                                         .min_pause_ms = p->min_pause_ms,
                                         .max_concurrent = p->max_concurrent,
                                         .unaligned = p->unaligned,
                                         .aligned_timeout_ms = p->aligned_timeout_ms,
                                         .tolerable_failures = calm ? -1 : p->tolerable,
                                         .all_or_none = p->all_or_none,
                                         .retain = p->retain},
                          .restart = {.kind = SC_RESTART_FIXED_DELAY,
                                      .attempts = p->restarts,
                                      .delay_ms = p->restart_ms},
                          .n_slots = sim_plan_slots(p, r->life),
                          .segment_size = p->segment_size,
                          .exclusive_buffers = p->exclusive,
                          .floating_buffers = p->floating,
                          .overdraft_buffers = p->overdraft,
                          .debloat = p->debloat,
                          .buffer_timeout_ms = p->buffer_timeout_ms,
                          .log_level = SC_LOG_OFF,
                          .from = r->from};
}

static void tell_begin(run_t *r) {
  sc_buf_t text = SC_BUF_INIT;
  sc_buf_printf(&text, "== life %u, %u slots,", r->life, sim_plan_slots(&r->plan, r->life));
  for (uint32_t i = 0; i < r->plan.n_nodes; i++)
    if (!r->plan.nodes[i].left_out)
      sc_buf_printf(&text, " %s x%u", r->plan.nodes[i].uid,
                    sim_plan_parallelism(&r->plan, r->plan.nodes[i].class, r->life));
  sc_buf_puts(&text, r->shared.calm ? ", calm" : "");
  sc_buf_put_u8(&text, 0);
  tell(r, (char *)text.data);
  sc_buf_free(&text);
}

static uint64_t restored_id(const sc_job_status_t *s) {
  const char *at = s->restored_path ? strstr(s->restored_path, "chk-") : NULL;
  return at ? strtoull(at + 4, NULL, 10) : 0;
}

/* What the user does by turns: at most one thing of each kind at a time. */
static void disturb(run_t *r, sc_job_t *job) {
  uint64_t turn = r->turns + sc_sim_turns(r->world);
  sim_disturbance_t *ask = next_of(r, SIM_ASK), *cancel = next_of(r, SIM_CANCEL);
  sim_disturbance_t *stop = next_of(r, SIM_STOP);
  if (ask && ask->at <= turn) {
    ask->left_out = true;
    tell(r, "the user asks for a checkpoint");
    sc_job_checkpoint(job);
  }
  if (stop && stop->at <= turn) {
    stop->left_out = true;
    tell(r, "the user stops the job");
    sc_job_stop(job, false);
  }
  if (cancel && cancel->at <= turn) {
    cancel->left_out = r->canceled = true;
    tell(r, "the user cancels");
    sc_job_cancel(job);
  }
}

/* Until the job has ended, or the process. */
static end_t live(run_t *r, sc_job_t *job, sc_job_status_t *status) {
  uint64_t most = r->shared.calm ? TURNS_OF_CALM : TURNS_OF_A_LIFE, emitted = r->shared.emitted;
  while (!r->shared.failure[0]) {
    if (r->dies_at && r->turns + sc_sim_turns(r->world) >= r->dies_at)
      sc_sim_crash(r->world);
    sc_sim_turn_t turn = sc_sim_turn(r->world);
    if (turn == SC_SIM_CRASHED)
      return CRASHED;
    if (sc_sim_turns(r->world) % 8 == 0 || turn == SC_SIM_STUCK) {
      disturb(r, job);
      sc_job_status(job, status);
      if (sc_job_state_ended(status->state))
        return ENDED;
      sc_job_status_fini(status);
    }
    if (turn == SC_SIM_STUCK)
      sim_wrong(&r->shared, "nothing can go on any more, and nothing is waited for");
    if (sc_sim_turns(r->world) < most)
      continue;
    if (r->shared.calm && r->shared.emitted > emitted && most < CALMS_MAX * TURNS_OF_CALM) {
      emitted = r->shared.emitted; /* sources that pause for long beside checkpoints that do not */
      most += TURNS_OF_CALM;
      continue;
    }
    if (r->shared.calm)
      sim_wrong(&r->shared, "the job does not end, though nothing goes wrong");
    tell(r, "the process is killed: it takes too long");
    return CRASHED;
  }
  return CRASHED;
}

static void died(run_t *r) {
  sim_disturbance_t *turn = next_of(r, SIM_CRASH_TURN), *op = next_of(r, SIM_CRASH_OP), *d = NULL;
  if (r->dies_at && r->turns + sc_sim_turns(r->world) >= r->dies_at)
    d = next_of(r, SIM_CRASH_DONE);
  else if (turn && r->turns + sc_sim_turns(r->world) + 1 >= turn->at)
    d = turn;
  else if (op && sc_sim_storage_ops(r->storage) >= op->at)
    d = op;
  bool power = d && d->power;
  tell(r, power ? "*** the process dies, what was not synced is lost" : "*** the process dies");
  if (d)
    d->left_out = true;
  sc_sim_storage_attach(r->storage, NULL, 0);
  sc_sim_storage_crashed(r->storage, power);
}

static void leave_world(run_t *r, bool abandon) {
  r->now_ns = sc_sim_now_ns(r->world) + 1000000;
  r->turns += sc_sim_turns(r->world);
  if (abandon)
    sc_sim_world_abandon(r->world);
  r->world = NULL;
  sc_sim_storage_attach(r->storage, NULL, 0);
}

/* The job's end, and the engine's, in which nothing dies any more. */
static void take_down(run_t *r, sc_engine_t *engine, sc_job_t *job) {
  sc_sim_storage_crash_at(r->storage, 0, 0);
  sc_sim_never_crash(r->world);
  if (job)
    sc_job_unref(job);
  int64_t now = sc_sim_now_ns(r->world);
  uint64_t turns = sc_sim_turns(r->world);
  sc_engine_destroy(engine);
  r->world = NULL;
  r->now_ns = now + 2000000;
  r->turns += turns;
  sc_sim_storage_attach(r->storage, NULL, 0);
}

static void judge_end(run_t *r, const sc_job_status_t *s) {
  char *text = sc_format("-- %s%s%s", sc_job_state_name(s->state), s->error ? ": " : "",
                         s->error ? s->error : "");
  tell(r, text);
  bool told = r->troubles > 0 || s->error_code == SC_EFAILED;
  if (s->state == SC_JOB_FAILED && (r->shared.calm || !told))
    sim_wrong(&r->shared, "the job fails though nothing went wrong: %s", s->error ? s->error : "");
  if (s->state == SC_JOB_CANCELED && !r->canceled)
    sim_wrong(&r->shared, "the job is canceled, but nobody did so");
  free(text);
}

/* One life; *state is the job's where it ended. */
static end_t one_life(run_t *r, sc_job_state_t *state, bool *was_complete) {
  sc_error_t err = SC_ERROR_INIT;
  sc_job_options_t options;
  sc_job_status_t status;
  sc_job_t *job = NULL;
  r->troubles = 0;
  r->canceled = false;
  r->shared.first_attempt = 0;
  r->shared.all_may_restart = r->plan.tolerable >= 0; /* too many failed checkpoints fail all */
  memset(r->shared.may_restart, 0, sizeof r->shared.may_restart);
  r->dies_at = 0;
  begin_world(r);
  tell_begin(r);
  sc_engine_t *engine = sc_engine_create(r->world, &err);
  choose_from(r);
  fill_options(r, &options);
  int rc = sc_job_start(engine, build(r), &options, &job, &err);
  if (sc_sim_crashed(r->world)) {
    died(r);
    leave_world(r, true);
    return CRASHED;
  }
  if (rc < 0) {
    tell(r, err.message);
    if (!r->troubles)
      sim_wrong(&r->shared, "the start is refused: %s", err.message);
    sc_error_clear(&err);
    take_down(r, engine, NULL);
    return REFUSED;
  }
  sc_job_status(job, &status);
  sim_check_restored(r->check, restored_id(&status));
  sc_job_status_fini(&status);
  end_t end = live(r, job, &status);
  if (end == CRASHED) {
    died(r);
    leave_world(r, true);
    return CRASHED;
  }
  judge_end(r, &status);
  *state = status.stopped ? SC_JOB_CANCELED : status.state; /* it is not at its end */
  *was_complete = status.was_complete;
  bool stopped = status.stopped;
  sc_job_status_fini(&status);
  take_down(r, engine, job);
  if (stopped)
    sim_check_stopped(r->check);
  return ENDED;
}

/* ---- all lives ---- */

static void run_lives(run_t *r) {
  uint32_t finished = 0;
  while (!r->shared.failure[0]) {
    r->shared.calm = r->life >= LIVES_MAX || finished >= 2;
    sc_job_state_t state = SC_JOB_RUNNING;
    bool was_complete = false, calm = r->shared.calm;
    one_life(r, &state, &was_complete);
    finished += state == SC_JOB_FINISHED;
    r->life++;
    if (r->shared.failure[0])
      return;
    if (state == SC_JOB_FINISHED && finished > 1 && !was_complete)
      sim_wrong(&r->shared, "a job that had finished begins again");
    sim_check_outputs(r->check);
    if ((calm && finished >= 2) || (r->plan.no_checkpoints && finished))
      break;
    if (r->life > LIVES_MAX + 3)
      sim_wrong(&r->shared, "the job does not come to its end");
  }
  if (!r->shared.failure[0])
    sim_check_end(r->check);
}

static void set_faults(run_t *r) {
  for (uint32_t i = 0; i < r->plan.n_disturbances; i++) {
    const sim_disturbance_t *d = &r->plan.disturbances[i];
    if (d->kind == SIM_FAULT && !d->left_out)
      sc_sim_storage_fail(r->storage, d->mask, d->at, d->times, d->code);
  }
}

int sim_run(const sim_plan_t *plan, sc_buf_t *story, sim_totals_t *totals) {
  run_t *r = sc_calloc(1, sizeof *r);
  r->plan = *plan;
  r->story = story;
  r->now_ns = 1000000000;
  r->shared = (sim_shared_t){
      .plan = &r->plan, .run = r, .tell = raised, .completed = told_completed};
  r->model = sim_model_create(&r->plan);
  r->storage = sc_sim_storage_create((uint64_t)sim_mix((int64_t)plan->seed, 77));
  r->check = sim_check_create(&r->shared, r->storage, r->model);
  sc_sim_storage_observe(r->storage, op_done, op_failed, r);
  set_faults(r);
  run_lives(r);
  if (r->shared.failure[0])
    sc_buf_printf(story, "WRONG: %s\n", r->shared.failure);
  if (totals)
    *totals = (sim_totals_t){r->life, r->turns, sc_sim_storage_ops(r->storage), r->shared.calls,
                             sim_check_completed(r->check)};
  int wrong = r->shared.failure[0] != 0;
  sim_check_destroy(r->check);
  sim_model_destroy(r->model);
  free(r->from);
  if (!wrong) /* else a dead engine may still be somewhere in it */
    sc_storage_destroy(r->storage);
  free(r);
  return wrong;
}
