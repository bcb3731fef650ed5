/* job_explain: what becomes of a checkpoint that takes long: a look at where the tasks are that it
 * waits for, and a line in the log (checkpoint/explain.h has the sentences). */
#include <inttypes.h>
#include <stdlib.h>

#include "../base/mem.h"
#include "job_parts.h"

/* So long a call of C may take, at least, before it counts as one that does not return. */
#define LOOK_AGAIN_MS 50

static void is_blocked(void *arg, uint32_t task) {
  sc_job_t *job = arg;
  sc__view_lock(job);
  sc_statistics_seen(job->view.statistics, task, NULL, 0);
  sc__view_unlock(job);
}

static void look(sc_job_t *job) {
  bool *waits = sc_calloc(job->graph->n_tasks, sizeof *waits);
  sc__view_lock(job);
  sc_statistics_waits(job->view.statistics, waits);
  sc__view_unlock(job);
  for (uint32_t i = 0; i < job->layout->n; i++)
    if (job->regions[i].attempt && job->regions[i].state == SC_REGION_RUNNING)
      sc_attempt_sample(job->regions[i].attempt, waits, is_blocked, job);
  free(waits);
}

int64_t sc__job_look(sc_job_t *job, int64_t mono_ms) {
  int64_t after_ms = job->options.explain_after_ms;
  sc__view_lock(job);
  int64_t trigger_ms = sc_statistics_oldest_trigger(job->view.statistics);
  sc__view_unlock(job);
  if (trigger_ms == INT64_MAX)
    return INT64_MAX;
  if (mono_ms < job->look_at_ms)
    return job->look_at_ms;
  int64_t age_ms = sc__job_now(job) - trigger_ms;
  bool due = age_ms >= after_ms;
  if (due) {
    look(job);
    after_ms = after_ms > LOOK_AGAIN_MS ? after_ms : LOOK_AGAIN_MS;
  }
  /* A wall clock that was set back puts it off by no more than once the time. */
  int64_t in_ms = due || age_ms < 0 ? after_ms : after_ms - age_ms;
  job->look_at_ms = mono_ms + in_ms;
  return job->look_at_ms;
}

void sc__job_seen(sc_job_t *job, const sc_report_t *r) {
  sc__view_lock(job);
  sc_statistics_seen(job->view.statistics, r->task, (const char *)r->bytes.data,
                     (uint32_t)r->id);
  sc__view_unlock(job);
}

void sc__job_explain(sc_job_t *job, uint64_t id) {
  sc_explanation_t x;
  sc__view_lock(job);
  bool known = sc_statistics_explain(job->view.statistics, id, sc__job_now(job), &x);
  sc__view_unlock(job);
  if (!known)
    return;
  if (x.cause != SC_CAUSE_NONE && x.cause != SC_CAUSE_UNKNOWN)
    sc__job_log(job, SC_LOG_WARN, id, NULL, "%s", x.text);
  sc_explanation_fini(&x);
}
