/*
 * job_regions: the attempts of a job's regions: how each begins, fails, goes back and ends while
 * the others run on, and what that makes of the job (job_parts.h has the states of a region).
 *
 *   STARTING --all its tasks ready--> RUNNING --all finished--> ENDING --released--> DONE
 *   STARTING, RUNNING --a task fails--> ENDING --released--> DOWN
 *   DOWN --nothing decided is being written, the strategy grants it--> WAITING --delay-->
 *     REOPENING --what to go back to is known--> STARTING
 *   DOWN --the strategy denies it--> the job fails: all are taken down
 *
 * Checkpoints are of the whole job. So the coordinator runs only while every region does: the
 * first failure suspends it, what was pending is aborted, and it resumes when all run again
 * (reference 2.5). What is complete stays so, also for the regions that run on: their sinks commit
 * what was decided before the failure, and keep what is pending for the next checkpoint.
 *
 * The restart strategy is the job's (reference 19.1): each failure of a region counts; what fails
 * several regions at once, such as a checkpoint that cannot be read, counts once.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../base/mem.h"
#include "../base/planted.h"
#include "job_parts.h"

#define INTERRUPT_AFTER_MS 300 /* for functions that end by themselves, whatever they do */
#define INTERRUPT_AGAIN_MS 50

void sc__regions_init(sc_job_t *job) {
  job->layout = sc_regions_create(job->graph);
  job->regions = sc_calloc(job->layout->n, sizeof *job->regions);
  for (uint32_t i = 0; i < job->layout->n; i++)
    job->regions[i] = (sc_region_t){
        .job = job, .index = i, .name = sc_region_name(job->layout, job->graph, i)};
}

void sc__regions_fini(sc_job_t *job) {
  for (uint32_t i = 0; i < job->layout->n; i++) {
    sc__origin_unref(job->regions[i].origin);
    sc_error_clear(&job->regions[i].failure);
    free(job->regions[i].name);
    free(job->regions[i].why);
  }
  free(job->regions);
  sc_regions_destroy(job->layout);
}

sc_attempt_t *sc__job_told(sc_job_t *job, uint32_t task) {
  sc_region_t *r = sc__job_region_of(job, task);
  return r->state == SC_REGION_STARTING || r->state == SC_REGION_RUNNING ? r->attempt : NULL;
}

static bool is_ending(const sc_job_t *job) {
  return job->canceling || job->failing;
}

/* What the regions make of the job. */
static sc_job_state_t state_of(const sc_job_t *job) {
  sc_job_state_t state = SC_JOB_RUNNING;
  for (uint32_t i = 0; i < job->layout->n; i++) {
    const sc_region_t *r = &job->regions[i];
    if (r->state == SC_REGION_STARTING)
      state = SC_JOB_STARTING;
    else if (r->state != SC_REGION_RUNNING && r->state != SC_REGION_DONE && r->failure.code)
      return SC_JOB_RESTARTING;
  }
  return state;
}

/* Which region, for a line of the log; nothing where there is but one. malloc'ed. */
static char *who(const sc_region_t *r) {
  return r->job->layout->n > 1 ? sc_format("region (%s) ", r->name) : sc_strdup("");
}

/* ---- an attempt begins ---- */

static int make_enumerators(sc_region_t *r, sc_error_t *err) {
  sc_job_t *job = r->job;
  for (uint32_t i = 0; i < job->graph->n_nodes; i++) {
    const sc_node_t *n = &job->graph->nodes[i];
    bool mine = job->layout->of_node[i] == r->index || SC_PLANTED(REGION_SPLITS);
    if (!n->type->is_source || !mine)
      continue;
    sc_enumerator_destroy(job->enumerators[i]);
    job->enumerators[i] = sc_enumerator_create(n->parallelism);
    const sc_metadata_operator_t *old =
        r->origin ? sc_metadata_find(r->origin->metadata, n->uid) : NULL;
    if (old && old->has_enumerator) {
      int rc = sc_enumerator_restore(job->enumerators[i], sc_buf_bytes(&old->enumerator), err);
      if (rc < 0)
        return rc;
    }
  }
  return 0;
}

static void list_splits(sc_region_t *r) {
  sc_job_t *job = r->job;
  for (uint32_t i = 0; i < job->graph->n_nodes; i++)
    if (job->layout->of_node[i] == r->index && job->enumerators[i] &&
        sc_enumerator_finding(job->enumerators[i]))
      sc_attempt_list_splits(r->attempt, i);
}

static void fill_attempt_config(sc_region_t *r, sc_attempt_config_t *c) {
  sc_job_t *job = r->job;
  const sc_job_options_t *o = &job->options;
  const sc_origin_t *from = r->origin;
  *c = (sc_attempt_config_t){.world = job->world,
                             .storage = job->storage,
                             .log = job->log,
                             .graph = job->graph,
                             .regions = job->layout,
                             .region = r->index,
                             .job_id = job->id,
                             .job_dir = job->path ? job->path : "",
                             .number = r->number,
                             .n_slots = o->n_slots,
                             .host = o->host,
                             .checkpointing = sc_coordinator_ends_with_one(&o->checkpoint),
                             .all_finished = from && from->all_finished,
                             .synchronous = o->synchronous,
                             .at_least_once = o->at_least_once,
                             .segment_size = o->segment_size,
                             .exclusive_buffers = o->exclusive_buffers,
                             .floating_buffers = o->floating_buffers,
                             .overdraft_buffers = o->overdraft_buffers,
                             .debloat = o->debloat,
                             .subtasks_per_file = o->subtasks_per_file ? o->subtasks_per_file : 1,
                             .buffer_timeout_ms = o->buffer_timeout_ms,
                             .restore = from ? from->plans : NULL,
                             .restored_id = from ? from->metadata->id : 0,
                             .restored_dir = from ? from->dir : NULL,
                             .inflight = from ? from->inflight : NULL,
                             .owns_restored = from && (from->owned || SC_PLANTED(NOT_COPIED)),
                             .post = sc__region_post_report,
                             .post_arg = r};
}

/* Nothing is left of its last attempt. */
static void forget(sc_region_t *r) {
  sc_job_t *job = r->job;
  for (uint32_t i = 0; i < job->graph->n_tasks; i++)
    if (job->layout->of_task[i] == r->index)
      job->ended[i] = job->asked[i] = job->finished[i] = false;
  r->n_ready = r->n_finished = 0;
  r->cause = 0;
  r->granted = r->suspect = r->hopeless = false;
  sc_error_clear(&r->failure);
  sc__origin_unref(r->origin);
}

static void begin(sc_region_t *r) {
  sc_error_t err = SC_ERROR_INIT;
  int rc = make_enumerators(r, &err);
  if (rc >= 0) {
    sc_attempt_config_t config;
    fill_attempt_config(r, &config);
    r->attempt = sc_attempt_create(&config);
    sc__view_attempt(r, r->attempt);
    rc = sc_attempt_deploy(r->attempt, &err);
  }
  if (rc < 0)
    sc__region_fail(r, UINT32_MAX, &err);
  else
    list_splits(r);
  sc_error_clear(&err);
}

void sc__regions_begin(sc_job_t *job, const bool *which) {
  for (uint32_t i = 0; i < job->layout->n; i++) {
    sc_region_t *r = &job->regions[i];
    if (which && !which[i])
      continue;
    forget(r);
    r->origin = sc__origin_ref(job->origin);
    r->number = job->attempt_number;
    r->restarted = true;
    r->state = SC_REGION_STARTING;
    sc__view_region(r);
  }
  if (state_of(job) == SC_JOB_STARTING) /* else one waits for its restart still */
    sc__view_state(job, SC_JOB_STARTING);
  for (uint32_t i = 0; i < job->layout->n; i++)
    if (!which || which[i])
      begin(&job->regions[i]);
}

/* ---- it runs ---- */

static void start_coordinator(sc_job_t *job) {
  const sc_graph_t *g = job->graph;
  uint32_t **senders = sc_calloc(g->n_tasks, sizeof *senders),
           *n = sc_calloc(g->n_tasks, sizeof *n);
  for (uint32_t i = 0; i < g->n_tasks; i++)
    n[i] = sc_graph_senders(g, i, &senders[i]);
  sc_topology_t topology = {
      .n_tasks = g->n_tasks, .senders = (const uint32_t *const *)senders, .n_senders = n};
  sc_coordinator_start(job->coordinator, sc__job_now(job), sc__job_mono(job), &topology);
  for (uint32_t i = 0; i < g->n_tasks; i++)
    free(senders[i]);
  free(senders);
  free(n);
}

static void resume_coordinator(sc_job_t *job) {
  bool *restarted = sc_calloc(job->graph->n_tasks, sizeof *restarted);
  for (uint32_t i = 0; i < job->graph->n_tasks; i++)
    restarted[i] = sc__job_region_of(job, i)->restarted;
  sc_coordinator_resume(job->coordinator, sc__job_now(job), sc__job_mono(job), restarted);
  free(restarted);
}

/* Checkpoints may begin. The coordinator hears what tasks have said while it did not run. */
static void coordinate(sc_job_t *job) {
  if (job->coordinated)
    resume_coordinator(job);
  else
    start_coordinator(job);
  job->coordinating = job->coordinated = true;
  for (uint32_t i = 0; i < job->layout->n; i++)
    job->regions[i].restarted = false;
  for (uint32_t i = 0; i < job->graph->n_tasks; i++) {
    if (job->ended[i])
      sc_coordinator_end_of_data(job->coordinator, sc__job_now(job), sc__job_mono(job), i);
    if (job->asked[i] && !job->finished[i])
      sc_coordinator_finish_request(job->coordinator, sc__job_now(job), sc__job_mono(job), i);
  }
  sc__ask_waiting(job);
}

/* It goes on from the last checkpoint of a finished run: nothing changes any more, no checkpoint
 * can add to it, and nothing waits for a task that asks to leave. */
static void let_all_leave(sc_job_t *job) {
  sc_coordinator_trim(job->coordinator);
  for (uint32_t i = 0; i < job->graph->n_tasks; i++)
    if (job->asked[i] && !job->finished[i])
      sc__job_task_finished(job, i);
}

void sc__job_task_finished(sc_job_t *job, uint32_t task) {
  sc_attempt_t *a = sc__job_told(job, task);
  job->finished[task] = true;
  sc__job_region_of(job, task)->n_finished++;
  if (a)
    sc_attempt_finished(a, task);
}

static void log_recovered(sc_region_t *r) {
  char *name = who(r);
  sc__job_log(r->job, SC_LOG_WARN, r->origin ? r->origin->metadata->id : 0, NULL,
              "%srecovered in %" PRId64 " ms from %s, after %s", name,
              sc__job_mono(r->job) - r->failed_at_ms, r->origin ? r->origin->dir : "the beginning",
              r->why);
  free(name);
  r->failed_at_ms = 0;
}

void sc__region_task_ready(sc_region_t *r) {
  sc_job_t *job = r->job;
  if (++r->n_ready < job->layout->n_tasks[r->index] || r->state != SC_REGION_STARTING)
    return;
  r->state = SC_REGION_RUNNING;
  sc__view_region(r);
  if (r->failed_at_ms)
    log_recovered(r);
  if (state_of(job) != SC_JOB_RUNNING)
    return;
  sc_restart_running(job->restart, sc__job_mono(job));
  sc__view_state(job, SC_JOB_RUNNING);
  if (job->origin && job->origin->all_finished)
    let_all_leave(job);
  else
    coordinate(job);
}

/* ---- it ends ---- */

static void cancel(sc_region_t *r) {
  r->state = SC_REGION_ENDING;
  sc_attempt_cancel(r->attempt);
  r->interrupt_at_ms = sc__job_mono(r->job) + INTERRUPT_AFTER_MS;
  sc__view_region(r);
}

static void stop_coordinating(sc_job_t *job, sc_reason_t reason) {
  if (job->coordinating)
    sc_coordinator_stop(job->coordinator, sc__job_now(job), sc__job_mono(job), reason, UINT32_MAX);
  job->coordinating = false;
}

void sc__regions_cancel(sc_job_t *job, sc_reason_t reason) {
  stop_coordinating(job, reason);
  for (uint32_t i = 0; i < job->layout->n; i++) {
    sc_region_t *r = &job->regions[i];
    if (r->state == SC_REGION_STARTING || r->state == SC_REGION_RUNNING)
      cancel(r);
  }
}

void sc__region_released(sc_region_t *r) {
  sc__view_attempt(r, NULL);
  sc_attempt_destroy(r->attempt);
  r->attempt = NULL;
  r->interrupt_at_ms = 0;
  r->state = r->failure.code ? SC_REGION_DOWN : SC_REGION_DONE;
  sc__view_region(r);
}

/* ---- it fails ---- */

/* For the line that tells of its recovery. */
static void remember(sc_region_t *r) {
  free(r->why);
  r->why = sc_error_format(&r->failure);
  r->why[strcspn(r->why, "\n")] = 0;
  r->failed_at_ms = sc__job_mono(r->job);
}

/* What it restored from may be what is wrong: state is read before all are ready, what was in
 * flight while they run. Once a checkpoint of its own is complete it goes back to that instead. */
static bool is_suspect(const sc_region_t *r, int code) {
  const sc_job_t *job = r->job;
  if (!r->origin || r->origin != job->origin)
    return false;
  if (r->state == SC_REGION_STARTING)
    return code == SC_ECORRUPT || code == SC_ENOTFOUND;
  return r->state == SC_REGION_RUNNING && code == SC_ECORRUPT &&
         sc_coordinator_latest(job->coordinator) == job->restored_latest;
}

static void fail(sc_region_t *r, uint64_t cause, uint32_t task, const sc_error_t *err) {
  sc_job_t *job = r->job;
  bool reopening = r->state == SC_REGION_REOPENING;
  sc_error_copy(&r->failure, err);
  sc__view_error(job, &r->failure);
  r->cause = cause;
  r->granted = false;
  if (!reopening)
    remember(r);
  r->suspect = is_suspect(r, err->code);
  if (job->coordinating)
    sc_coordinator_suspend(job->coordinator, sc__job_now(job), sc__job_mono(job),
                           SC_REASON_TASK_FAILED, task);
  job->coordinating = false;
  if (r->attempt)
    cancel(r);
  else
    r->state = SC_REGION_DOWN;
  sc__view_region(r);
}

static bool may_fail(const sc_region_t *r) {
  return !is_ending(r->job) && (r->state == SC_REGION_STARTING || r->state == SC_REGION_RUNNING ||
                                r->state == SC_REGION_REOPENING);
}

void sc__region_fail(sc_region_t *r, uint32_t task, sc_error_t *err) {
  sc_job_t *job = r->job;
  if (SC_PLANTED(REGION_TOGETHER)) {
    sc__regions_fail(job, NULL, false, err);
    return;
  }
  if (!may_fail(r)) /* it has failed already: the first one is the cause */
    return;
  bool draining = job->draining != 0;
  uint64_t cause = ++job->causes;
  fail(r, cause, task, err);
  /* The stop fails with it. The others have ended their input by command, which none of their
   * checkpoints may say: they go back, too. */
  for (uint32_t i = 0; draining && i < job->layout->n; i++)
    if (may_fail(&job->regions[i]))
      fail(&job->regions[i], cause, UINT32_MAX, err);
}

void sc__regions_fail(sc_job_t *job, const bool *which, bool hopeless, const sc_error_t *err) {
  uint64_t cause = ++job->causes;
  for (uint32_t i = 0; i < job->layout->n; i++) {
    sc_region_t *r = &job->regions[i];
    if ((which && !which[i]) || !may_fail(r))
      continue;
    fail(r, cause, UINT32_MAX, err);
    r->hopeless = hopeless;
  }
}

/* ---- what comes then ---- */

/* What comes from the script or what it was given, and would come again. */
static bool is_mistake(int code) {
  return code == SC_EUSER || code == SC_EKEY || code == SC_EVALUE || code == SC_EINVAL ||
         code == SC_EUNSUPPORTED || code == SC_ELIMIT || code == SC_ENOTFOUND;
}

/* A mistake before the first completed checkpoint ends the job: a typo must not loop. Nor must
 * what no attempt can get over: the checkpoint and what lies outside of it no longer fit. */
static bool may_restart(sc_region_t *r, int64_t *delay_ms) {
  sc_job_t *job = r->job;
  if (r->hopeless || r->failure.code == SC_ESTATE || job->suspended)
    return false;
  if (is_mistake(r->failure.code) && sc_coordinator_latest(job->coordinator) == 0 && !job->origin)
    return false;
  double uniform = (double)(sc_world_random(job->world) >> 11) * 0x1p-53;
  sc_restart_decision_t d = sc_restart_failed(job->restart, sc__job_mono(job), uniform);
  *delay_ms = d.delay_ms;
  return d.restart;
}

/* The strategy's answer is for all that failed by the same cause, whenever they are down. */
static void grant(sc_region_t *r, int64_t delay_ms) {
  sc_job_t *job = r->job;
  bool rest = false;
  for (uint32_t i = 0; i < job->layout->n; i++) {
    sc_region_t *other = &job->regions[i];
    rest |= other->state == SC_REGION_STARTING || other->state == SC_REGION_RUNNING;
    if (other->cause != r->cause)
      continue;
    other->granted = true;
    other->restarts++;
    other->restart_at_ms = sc__job_mono(job) + delay_ms;
  }
  if (delay_ms > 0)
    sc__ask_refuse_waiting(job, delay_ms);
  char *name = who(r), *text = sc_error_format(&r->failure);
  sc__job_log(job, SC_LOG_WARN, 0, sc__job_failed_operator(&r->failure, text),
              "%sfailed, restarts in %" PRId64 " ms%s: %s", name, delay_ms,
              rest ? ", the rest runs on" : "", text);
  free(text);
  free(name);
}

static void decide(sc_region_t *r) {
  sc_job_t *job = r->job;
  int64_t delay = 0;
  if (r->suspect) { /* no strategy helps against damage: look for it at once */
    r->restart_at_ms = sc__job_mono(job);
  } else if (!r->granted) {
    if (!may_restart(r, &delay)) {
      job->failing = true;
      sc_error_move(&job->failure, &r->failure);
      sc__regions_cancel(job, SC_REASON_STOPPED);
      return;
    }
    grant(r, delay);
  }
  r->state = SC_REGION_WAITING;
  sc__view_region(r);
  sc__view_state(job, SC_JOB_RESTARTING);
}

/* Those that failed by one cause go back together, in one attempt. */
static bool waits_for_others(const sc_region_t *r) {
  for (uint32_t i = 0; i < r->job->layout->n; i++) {
    const sc_region_t *other = &r->job->regions[i];
    if (other->cause == r->cause && other->failure.code &&
        (other->state == SC_REGION_ENDING || other->state == SC_REGION_DOWN))
      return true;
  }
  return false;
}

static void reopen_due(sc_job_t *job, int64_t mono_ms) {
  bool any = false;
  for (uint32_t i = 0; !job->reopening && i < job->layout->n; i++) {
    sc_region_t *r = &job->regions[i];
    if (r->state != SC_REGION_WAITING || mono_ms < r->restart_at_ms || waits_for_others(r))
      continue;
    r->state = SC_REGION_REOPENING;
    any = true;
  }
  if (any)
    sc__job_reopen(job);
}

/* Every task of the job has left. Looked at in each step, since the last one may be let go by
 * whatever moves the coordinator: a report, file work that is done, a tick. */
static void stop_if_all_finished(sc_job_t *job) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < job->layout->n; i++)
    n += job->regions[i].n_finished;
  if (n == job->graph->n_tasks)
    stop_coordinating(job, SC_REASON_STOPPED);
}

static void step_region(sc_region_t *r, bool writing) {
  sc_job_t *job = r->job;
  bool runs = r->state == SC_REGION_STARTING || r->state == SC_REGION_RUNNING;
  if (runs && r->n_finished == job->layout->n_tasks[r->index])
    cancel(r);
  if (r->state == SC_REGION_DOWN && !writing && !is_ending(job))
    decide(r);
}

/* The job ends: nothing comes after what is down already. */
static void give_up_waiting(sc_job_t *job) {
  for (uint32_t i = 0; i < job->layout->n; i++) {
    sc_region_t *r = &job->regions[i];
    if (r->state == SC_REGION_DOWN || r->state == SC_REGION_WAITING ||
        (r->state == SC_REGION_REOPENING && !job->reopening)) {
      r->state = SC_REGION_DONE;
      sc__view_region(r);
    }
  }
}

static int64_t deadline_of(sc_region_t *r, int64_t mono_ms) {
  if (r->interrupt_at_ms && mono_ms >= r->interrupt_at_ms) {
    sc_attempt_interrupt(r->attempt);
    r->interrupt_at_ms = mono_ms + INTERRUPT_AGAIN_MS;
  }
  if (r->interrupt_at_ms)
    return r->interrupt_at_ms;
  bool due = r->state == SC_REGION_WAITING && !r->job->reopening && !waits_for_others(r);
  return due ? r->restart_at_ms : INT64_MAX;
}

int64_t sc__regions_step(sc_job_t *job, int64_t mono_ms, bool *over) {
  bool writing = sc_coordinator_writing(job->coordinator) && !SC_PLANTED(REGION_EARLY);
  int64_t deadline = INT64_MAX;
  stop_if_all_finished(job);
  for (uint32_t i = 0; i < job->layout->n; i++)
    step_region(&job->regions[i], writing);
  if (is_ending(job))
    give_up_waiting(job);
  else
    reopen_due(job, mono_ms);
  *over = !writing && !job->reopening;
  for (uint32_t i = 0; i < job->layout->n; i++) {
    int64_t due = deadline_of(&job->regions[i], mono_ms);
    deadline = due < deadline ? due : deadline;
    *over &= job->regions[i].state == SC_REGION_DONE;
  }
  return deadline;
}
