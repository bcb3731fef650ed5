#include "sim_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/base/mem.h"
#include "../../core/sim/sim_world.h"
#include "sim_check.h"
#include "sim_from.h"
#include "sim_job.h"

#define CALM_NS 1000          /* latency of the storage when nothing goes wrong any more */
#define JUMP_ONE_IN 400       /* turns: time passes though somebody is ready */
#define CLOCK_SET_ONE_IN 200  /* turns */
#define LIVES_MAX 14          /* then calm comes */
#define SIM_FOR_EVER_MS 600000
#define TURNS_OF_A_LIFE 10000 /* then the process is killed: it may be slower than its timeouts */
#define TURNS_OF_CALM 60000   /* a job that has emitted no record meanwhile never will */
#define CALMS_MAX 50          /* of them: it may emit the same ones again and again */

typedef enum { ENDED, CRASHED, REFUSED } end_t;

typedef struct wish {
  sim_disturbance_kind_t kind; /* ASK, STOP or DRAIN */
  uint64_t ticket;
} wish_t;

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
  uint64_t written;  /* checkpoints of which _metadata was begun */
  bool canceled;     /* by us, in this life */
  sim_from_t from;   /* where this life begins */
  bool moved;        /* another job has begun */
  bool left;         /* the life before had gone back, and has come to no checkpoint */
  uint32_t finished; /* lives that ended with a complete job of this history */
  wish_t wishes[SIM_DISTURBANCES]; /* of this life's user */
  uint32_t n_wishes;
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
  run_t *r = arg;
  const char *text = strchr(line, '[');
  bool its = text && strncmp(text + 1, sim_job_id(&r->shared), strlen(SIM_JOB_ID)) == 0;
  tell(arg, its ? text + strlen(SIM_JOB_ID) + 2 : line);
  /* Ten minutes are never needed: whoever expires then waits for what does not come. */
  sim_tally_log(&r->shared.tally, line);
  if ((r->shared.calm || r->plan.timeout_ms >= SIM_FOR_EVER_MS) && strstr(line, "expired"))
    sim_wrong(&r->shared, "a checkpoint waits in vain: %s", line);
}

static void raised(void *arg, const char *text) {
  run_t *r = arg;
  r->troubles++;
  sim_tally_add(&r->shared.tally, SIM_TALLY_OPERATOR_FAILED);
  tell(arg, text);
}

static void op_failed(void *arg, const sc_sim_op_t *op, int code) {
  run_t *r = arg;
  char *text = sc_format("! %s %s fails: %s", sc_sim_op_name(op->kind), op->path,
                         sc_error_name(code));
  r->troubles++;
  sim_tally_add(&r->shared.tally, SIM_TALLY_STORAGE_FAILED);
  r->shared.all_may_restart = true;
  r->shared.undeleted |= op->kind == SC_SIM_REMOVE && strstr(op->path, "_metadata");
  tell(r, text);
  free(text);
}

/* What waited for a checkpoint counts from now on. */
static void arm(run_t *r, bool writing, uint64_t reached) {
  for (uint32_t i = 0; i < r->plan.n_disturbances; i++) {
    sim_disturbance_t *d = &r->plan.disturbances[i];
    if (!d->after || d->writing != writing || d->after > reached)
      continue;
    d->after = 0;
    d->at += d->kind == SIM_RAISE ? r->shared.calls : r->turns + sc_sim_turns(r->world);
    d->at += d->at == 0;
  }
}

static void op_done(void *arg, const sc_sim_op_t *op) {
  run_t *r = arg;
  sim_check_change(r->check, op, r->world, r->plan.latency_ns);
  if (op->kind == SC_SIM_CREATE && strstr(op->path, "_metadata"))
    arm(r, true, ++r->written);
}

static void told_completed(void *arg, uint64_t id) {
  run_t *r = arg;
  sim_check_told_complete(r->check, id);
  if (id == r->last_completed)
    return;
  r->last_completed = id;
  arm(r, false, ++r->completed);
}

/* ---- a life ---- */

static sim_disturbance_t *next_of(run_t *r, sim_disturbance_kind_t kind) {
  sim_disturbance_t *first = NULL;
  for (uint32_t i = 0; i < r->plan.n_disturbances && !r->shared.calm; i++) {
    sim_disturbance_t *d = &r->plan.disturbances[i];
    if (d->kind == kind && !d->left_out && !d->after && (!first || d->at < first->at))
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

static void tell_begin(run_t *r) {
  sc_buf_t text = SC_BUF_INIT;
  sc_buf_printf(&text, "== life %u, %u slots,", r->life, sim_plan_slots(&r->plan, r->life));
  for (uint32_t i = 0; i < r->plan.n_nodes; i++)
    if (!r->plan.nodes[i].left_out)
      sc_buf_printf(&text, " %s x%u", r->plan.nodes[i].uid,
                    sim_plan_parallelism(&r->plan, r->plan.nodes[i].class, r->life));
  sim_settings_t s;
  sim_plan_settings(&r->plan, r->life, &s);
  sc_buf_printf(&text, ", %s%s", sim_mode_name(s.mode), r->shared.calm ? ", calm" : "");
  sc_buf_put_u8(&text, 0);
  tell(r, (char *)text.data);
  sc_buf_free(&text);
}

static uint64_t restored_id(const sc_job_status_t *s) {
  const char *at = s->restored_path ? strstr(s->restored_path, "chk-") : NULL;
  return at ? strtoull(at + 4, NULL, 10) : 0;
}

static bool is_due(const run_t *r, const sim_disturbance_t *d) {
  return d && d->at <= r->turns + sc_sim_turns(r->world);
}

static void wish(run_t *r, sc_job_t *job, sim_disturbance_t *d) {
  static const char *const texts[] = {[SIM_ASK] = "the user asks for a checkpoint",
                                      [SIM_STOP] = "the user stops the job",
                                      [SIM_DRAIN] = "the user drains the job"};
  d->left_out = true;
  tell(r, texts[d->kind]);
  if (d->kind == SIM_DRAIN)
    r->shared.drained |= 1u << r->life;
  uint64_t ticket =
      d->kind == SIM_ASK ? sc_job_checkpoint(job) : sc_job_stop(job, d->kind == SIM_DRAIN);
  r->wishes[r->n_wishes++] = (wish_t){d->kind, ticket};
}

/* What the user does by turns: at most one thing of each kind at a time. */
static void disturb(run_t *r, sc_job_t *job) {
  static const sim_disturbance_kind_t wishes[] = {SIM_ASK, SIM_STOP, SIM_DRAIN};
  for (int i = 0; i < 3; i++) {
    sim_disturbance_t *d = next_of(r, wishes[i]);
    if (is_due(r, d))
      wish(r, job, d);
  }
  sim_disturbance_t *cancel = next_of(r, SIM_CANCEL);
  if (is_due(r, cancel)) {
    cancel->left_out = r->canceled = true;
    sim_tally_add(&r->shared.tally, SIM_TALLY_CANCELED);
    tell(r, "the user cancels");
    sc_job_cancel(job);
  }
}

/* Whoever looks at the storage from outside costs no time, and nobody notices. */
static void look(run_t *r, bool begin) {
  int64_t latency_ns = r->shared.calm ? CALM_NS : r->plan.latency_ns;
  sc_sim_storage_attach(r->storage, begin ? NULL : r->world, begin ? 0 : latency_ns);
}

/* Until the job has ended, or the process. */
static end_t live(run_t *r, sc_job_t *job, sc_job_status_t *status) {
  uint64_t most = r->shared.calm ? TURNS_OF_CALM : TURNS_OF_A_LIFE, emitted = r->shared.emitted;
  while (!r->shared.failure[0]) {
    if (is_due(r, next_of(r, SIM_CRASH_DONE)))
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
  if (is_due(r, next_of(r, SIM_CRASH_DONE)))
    d = next_of(r, SIM_CRASH_DONE);
  else if (turn && r->turns + sc_sim_turns(r->world) + 1 >= turn->at)
    d = turn;
  else if (op && sc_sim_storage_ops(r->storage) >= op->at)
    d = op;
  bool power = d && d->power;
  tell(r, power ? "*** the process dies, what was not synced is lost" : "*** the process dies");
  if (d)
    d->left_out = true;
  sim_tally_add(&r->shared.tally, power ? SIM_TALLY_POWER : SIM_TALLY_DIED);
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
  if (s->state == SC_JOB_FAILED)
    sim_tally_add(&r->shared.tally, SIM_TALLY_CLOSED);
  if (s->state == SC_JOB_FAILED && (r->shared.calm || !told))
    sim_wrong(&r->shared, "the job fails though nothing went wrong: %s", s->error ? s->error : "");
  if (s->state == SC_JOB_CANCELED && !r->canceled)
    sim_wrong(&r->shared, "the job is canceled, but nobody did so");
  free(text);
}

/* A user who asked for something has an answer when the job has ended; what is told complete is
 * there, and is the job's last where the job ended with it. */
static void judge_wishes(run_t *r, sc_job_t *job, const sc_job_status_t *s) {
  static const sim_tally_kind_t kinds[] = {[SIM_ASK] = SIM_TALLY_ASKED,
                                           [SIM_STOP] = SIM_TALLY_STOPPED_WITH,
                                           [SIM_DRAIN] = SIM_TALLY_DRAINED};
  for (uint32_t i = 0; i < r->n_wishes; i++) {
    const wish_t *w = &r->wishes[i];
    uint64_t id = 0;
    int rc = sc_job_ticket(job, w->ticket, &id, NULL);
    if (rc == 0)
      sim_wrong(&r->shared, "the job has ended, and who asked for a checkpoint has no answer");
    sim_tally_add(&r->shared.tally, rc == 1 ? kinds[w->kind] : SIM_TALLY_ASKED_IN_VAIN);
    if (rc == 1)
      sim_check_told_complete(r->check, id);
    bool ours = r->canceled || (s->state == SC_JOB_FAILED && r->troubles > 0); /* afterwards */
    bool ended = s->state == SC_JOB_FINISHED && !s->stopped;
    if (rc == 1 && w->kind == SIM_DRAIN && !ended && !ours)
      sim_wrong(&r->shared, "a job that was drained with checkpoint %" PRIu64 " is %s%s", id,
                s->stopped ? "stopped, and " : "", sc_job_state_name(s->state));
    if (rc == 1 && w->kind != SIM_ASK && s->last_checkpoint != id)
      sim_wrong(&r->shared, "the job was stopped with checkpoint %" PRIu64 ", its last is %" PRIu64,
                id, s->last_checkpoint);
  }
}

static void begin_life(run_t *r) {
  sim_shared_t *s = &r->shared;
  sim_settings_t settings;
  sim_plan_settings(&r->plan, r->life, &settings);
  r->troubles = r->n_wishes = 0;
  r->canceled = false;
  s->first_attempt = 0;
  s->all_may_restart = r->plan.tolerable >= 0; /* too many failed checkpoints fail all */
  s->finished_now = s->undeleted = false;
  s->life = r->life;
  s->at_least_once |= settings.mode == SIM_AT_LEAST_ONCE;
  memset(s->may_restart, 0, sizeof s->may_restart);
  memset(s->attempts, 0, sizeof s->attempts);
  memset(s->read, 0, sizeof s->read);
  sim_tally_life(&s->tally, r->life);
  sim_check_life(r->check);
}

/* Going back behind what sinks have committed is refused, unless told; then nothing has happened.
 * What else refuses a start is trouble that was told. */
static void judge_refusal(run_t *r, const sc_error_t *err) {
  look(r, true);
  bool right = r->from.older && !r->from.behind && err->code == SC_EEXIST &&
               sim_check_highest_committed(r->check) > r->from.id;
  look(r, false);
  if (right)
    sim_tally_add(&r->shared.tally, SIM_TALLY_OLDER_REFUSED);
  else if (!r->troubles)
    sim_wrong(&r->shared, "the start is refused: %s", err->message);
}

/* The job has begun from checkpoint `id`, and has not moved yet. */
static void judge_start(run_t *r, uint64_t id) {
  const sim_from_t *from = &r->from;
  look(r, true);
  if (from->id && from->id != id)
    sim_wrong(&r->shared, "the job begins from checkpoint %" PRIu64 " instead of %s", id,
              from->text);
  bool committed = sim_check_highest_committed(r->check) > id;
  if (!sim_check_restored(r->check, id, from))
    r->finished = 0;
  look(r, false);
  sim_tally_restored(&r->shared.tally, id);
  if (from->other)
    sim_tally_add(&r->shared.tally, r->moved ? SIM_TALLY_MOVED_AGAIN : SIM_TALLY_MOVED);
  r->moved |= from->other;
  if (from->older) {
    sim_tally_add(&r->shared.tally, SIM_TALLY_OLDER);
    if (committed)
      sim_tally_add(&r->shared.tally, SIM_TALLY_OLDER_COMMITTED);
  }
  if (r->left && !from->older)
    sim_tally_add(&r->shared.tally, SIM_TALLY_OLDER_LEFT);
}

static void choose_from(run_t *r) {
  look(r, true);
  sim_from_choose(&r->from, &r->shared, r->storage);
  look(r, false);
  if (!r->from.other || r->shared.moved_from)
    return;
  tell(r, "from here on another job goes on");
  r->shared.moved_from = r->from.id;
  sim_check_moved(r->check);
}

/* One life; *state is the job's where it ended. */
static end_t one_life(run_t *r, sc_job_state_t *state, bool *was_complete) {
  sc_error_t err = SC_ERROR_INIT;
  sc_job_options_t options;
  sc_job_status_t status;
  sc_job_t *job = NULL;
  bool before = r->shared.at_least_once; /* a life before this one */
  begin_life(r);
  begin_world(r);
  tell_begin(r);
  sc_engine_t *engine = sc_engine_create(r->world, &err);
  choose_from(r);
  sim_job_t plan = {&r->plan, &r->shared, r->places, r->life};
  sim_job_options(&plan, r->from.text, &options);
  options.fallback_older = r->from.behind;
  int rc = sc_job_start(engine, sim_job_graph(&plan), &options, &job, &err);
  if (sc_sim_crashed(r->world)) {
    died(r);
    leave_world(r, true);
    return CRASHED;
  }
  if (rc < 0) {
    tell(r, err.message);
    judge_refusal(r, &err);
    sc_error_clear(&err);
    take_down(r, engine, NULL);
    return REFUSED;
  }
  sc_job_status(job, &status);
  uint64_t restored = restored_id(&status);
  sc_job_status_fini(&status);
  judge_start(r, restored);
  uint64_t completed = sim_check_completed(r->check);
  r->shared.loose |= restored && before;
  end_t end = live(r, job, &status);
  r->left = r->from.older && sim_check_completed(r->check) == completed;
  if (end == CRASHED) {
    died(r);
    leave_world(r, true);
    return CRASHED;
  }
  judge_end(r, &status);
  judge_wishes(r, job, &status);
  r->shared.finished_now = status.state == SC_JOB_FINISHED && !status.was_complete;
  *state = status.stopped ? SC_JOB_CANCELED : status.state; /* it is not at its end */
  *was_complete = status.was_complete;
  bool stopped = status.stopped;
  sc_job_status_fini(&status);
  take_down(r, engine, job);
  if (stopped || *state == SC_JOB_FINISHED)
    sim_check_committed(r->check);
  return ENDED;
}

/* ---- all lives ---- */

static void run_lives(run_t *r) {
  /* What a history that was left had pending is swept by the start after the job that deleted the
   * last checkpoint of it. */
  uint32_t calm_ends = 0, enough = r->plan.older ? 2 : 1;
  while (!r->shared.failure[0]) {
    r->shared.calm = r->life >= LIVES_MAX || r->finished >= 2;
    sc_job_state_t state = SC_JOB_RUNNING;
    bool was_complete = false, calm = r->shared.calm;
    one_life(r, &state, &was_complete);
    r->finished += state == SC_JOB_FINISHED;
    calm_ends += calm && state == SC_JOB_FINISHED;
    r->life++;
    if (r->shared.failure[0])
      return;
    if (state == SC_JOB_FINISHED && r->finished > 1 && !was_complete)
      sim_wrong(&r->shared, "a job that had finished begins again");
    sim_check_outputs(r->check);
    if ((calm_ends >= enough && r->finished >= 2) || (r->plan.no_checkpoints && r->finished))
      break;
    if (r->life > LIVES_MAX + 3)
      sim_wrong(&r->shared, "the job does not come to its end");
  }
  if (!r->shared.failure[0])
    sim_check_end(r->check);
}

static void set_faults(run_t *r) {
  if (r->plan.stall_one_in)
    sc_sim_storage_stall(r->storage, SC_SIM_CREATE | SC_SIM_WRITE, r->plan.stall_one_in);
  for (uint32_t i = 0; i < r->plan.n_disturbances; i++) {
    const sim_disturbance_t *d = &r->plan.disturbances[i];
    if (d->kind == SIM_FAULT && !d->left_out)
      sc_sim_storage_fail(r->storage, d->mask, d->at, d->times, d->code);
  }
}

static void fill_totals(const run_t *r, sim_totals_t *out) {
  *out = (sim_totals_t){.lives = r->life,
                        .turns = r->turns,
                        .ops = sc_sim_storage_ops(r->storage),
                        .calls = r->shared.calls,
                        .checkpoints = sim_check_completed(r->check)};
  memcpy(out->happened, r->shared.tally.n, sizeof out->happened);
}

int sim_run(const sim_plan_t *plan, sc_buf_t *story, sim_totals_t *totals) {
  run_t *r = sc_calloc(1, sizeof *r);
  r->plan = *plan;
  r->story = story;
  r->now_ns = 1000000000;
  r->shared = (sim_shared_t){.plan = &r->plan,
                             .run = r,
                             .tell = raised,
                             .completed = told_completed,
                             .tally = {.plan = &r->plan}};
  r->model = sim_model_create(&r->plan, NULL);
  r->storage = sc_sim_storage_create((uint64_t)sim_mix((int64_t)plan->seed, 77));
  r->check = sim_check_create(&r->shared, r->storage, r->model);
  sc_sim_storage_observe(r->storage, op_done, op_failed, r);
  set_faults(r);
  run_lives(r);
  if (r->shared.failure[0])
    sc_buf_printf(story, "WRONG: %s\n", r->shared.failure);
  if (totals)
    fill_totals(r, totals);
  int wrong = r->shared.failure[0] != 0;
  sim_check_destroy(r->check);
  sim_model_destroy(r->model);
  sim_from_fini(&r->from);
  if (!wrong) /* else a dead engine may still be somewhere in it */
    sc_storage_destroy(r->storage);
  free(r);
  return wrong;
}
