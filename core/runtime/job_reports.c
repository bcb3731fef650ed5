/*
 * job_reports: what tasks tell the coordinator's thread, and the splits that their enumerators deal
 * (attempt.h has the kinds of reports).
 */
#include <inttypes.h>
#include <stdlib.h>

#include "job_parts.h"

static void deal_splits(sc_region_t *r, uint32_t node) {
  const sc_graph_t *g = r->job->graph;
  sc_assignment_t a;
  uint32_t first = g->chains[g->nodes[node].chain].first_task;
  while (sc_enumerator_next(r->job->enumerators[node], &a) > 0)
    sc_attempt_split(r->attempt, first + a.reader, a.no_more ? NULL : &a.split);
}

static void splits_found(sc_region_t *r, sc_report_t *report) {
  uint32_t node = report->task;
  sc_bytes_t splits = sc_buf_bytes(&report->bytes);
  if (sc_enumerator_found(r->job->enumerators[node], splits, &report->error) < 0) {
    sc_error_set_operator(&report->error, r->job->graph->nodes[node].name);
    sc__region_fail(r, UINT32_MAX, &report->error);
    return;
  }
  deal_splits(r, node);
}

static void ask_split(sc_region_t *r, uint32_t task, bool more) {
  uint32_t subtask;
  uint32_t node = sc_graph_task(r->job->graph, task, &subtask)->nodes[0];
  sc_enumerator_ask(r->job->enumerators[node], subtask, more);
  deal_splits(r, node);
}

static void acknowledged(sc_job_t *job, sc_report_t *r) {
  sc__view_lock(job);
  sc_statistics_ack(job->view.statistics, r->id, sc__job_now(job), r->snapshot);
  sc__view_unlock(job);
  sc_coordinator_ack(job->coordinator, sc__job_now(job), sc__job_mono(job), r->id, r->snapshot);
  r->snapshot = NULL;
}

static void declined(sc_job_t *job, sc_report_t *r) {
  char *text = sc_error_format(&r->error);
  sc_coordinator_decline(job->coordinator, sc__job_now(job), sc__job_mono(job), r->id, r->task,
                         SC_REASON_ASYNC_FAILED, text);
  free(text);
}

static void superseded(sc_region_t *r, const sc_report_t *report) {
  sc_job_t *job = r->job;
  sc__job_log(job, SC_LOG_WARN, report->id, r->attempt->tasks[report->task].name,
              "given up: the barrier of checkpoint %" PRIu64 " came first", report->other);
  sc_coordinator_decline(job->coordinator, sc__job_now(job), sc__job_mono(job), report->id,
                         report->task, SC_REASON_SUPERSEDED, NULL);
}

/* What is said while the coordinator does not run it hears when it does. */
static void end_of_data(sc_job_t *job, uint32_t task) {
  job->ended[task] = true;
  if (job->coordinating)
    sc_coordinator_end_of_data(job->coordinator, sc__job_now(job), sc__job_mono(job), task);
}

static void finish(sc_job_t *job, uint32_t task) {
  job->asked[task] = true;
  if (job->origin && job->origin->all_finished)
    sc__job_task_finished(job, task);
  else if (job->coordinating)
    sc_coordinator_finish_request(job->coordinator, sc__job_now(job), sc__job_mono(job), task);
}

static void of_this_attempt(sc_region_t *r, sc_report_t *report) {
  switch (report->kind) {
    case SC_REPORT_READY: sc__region_task_ready(r); break;
    case SC_REPORT_ACK: acknowledged(r->job, report); break;
    case SC_REPORT_DECLINE: declined(r->job, report); break;
    case SC_REPORT_FAILED: sc__region_fail(r, report->task, &report->error); break;
    case SC_REPORT_ASK_SPLIT: ask_split(r, report->task, report->id != 0); break;
    case SC_REPORT_SPLITS: splits_found(r, report); break;
    case SC_REPORT_END_OF_DATA: end_of_data(r->job, report->task); break;
    case SC_REPORT_FINISH: finish(r->job, report->task); break;
    case SC_REPORT_ROWS: sc__view_rows(r->job, report); break;
    case SC_REPORT_SUPERSEDED: superseded(r, report); break;
    case SC_REPORT_SEEN: sc__job_seen(r->job, report); break;
    case SC_REPORT_SLOT_GONE: break;
    case SC_REPORT_RELEASED: sc__region_released(r); break;
  }
}

static void run_report(sc_mail_t *mail, void *owner) {
  sc_report_t *report = (sc_report_t *)mail;
  sc_region_t *r = report->receiver;
  sc_job_t *job = r->job;
  if (r->attempt && r->number == report->attempt) {
    of_this_attempt(r, report);
    sc__job_actions(job);
  }
  sc_report_free(report);
  sc_job_unref(job);
}

static void drop_report(sc_mail_t *mail) {
  sc_region_t *r = ((sc_report_t *)mail)->receiver;
  sc_report_free((sc_report_t *)mail);
  sc_job_unref(r->job);
}

void sc__region_post_report(void *arg, sc_report_t *report) {
  sc_region_t *r = arg;
  sc_job_ref(r->job);
  report->receiver = r;
  report->mail.run = run_report;
  report->mail.drop = drop_report;
  sc_engine_post(r->job->engine, &report->mail);
}
