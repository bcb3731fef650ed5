/*
 * job_holds: which files of in-flight data stay though their checkpoint is deleted: those that a
 * task still reads, and those of which a pending checkpoint may keep a rest, from its trigger on
 * (snapshot/holds.h). Only files in the job's own folder: others are never deleted.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "../base/mem.h"
#include "../base/planted.h"
#include "job_parts.h"

static void hold_channel(sc_region_t *r, uint32_t task, const sc_virtual_channel_t *v) {
  for (uint32_t i = 0; i < v->n_parts; i++) {
    const sc_handle_t *h = v->parts[i];
    char *name = h->directory
                     ? sc_path_join(h->directory, h->file)
                     : sc_format("chk-%" PRIu64 "/%s", r->origin->metadata->id, h->file);
    sc_holds_add(sc_job_dir_holds(r->job->dir), SC_HOLDER_TASK, task, name);
    free(name);
  }
}

void sc__region_hold(sc_region_t *r) {
  const sc_graph_t *g = r->job->graph;
  const sc_origin_t *o = r->origin;
  for (uint32_t e = 0; o && o->inflight && o->owned && e < g->n_edges; e++) {
    const sc_node_t *to = &g->nodes[g->edges[e].to];
    uint32_t first = g->chains[to->chain].first_task;
    if (g->edges[e].chained || r->job->layout->of_task[first] != r->index)
      continue;
    for (uint32_t i = 0; i < to->parallelism; i++) {
      uint32_t n;
      const sc_virtual_channel_t *list = sc_inflight_plan_of(o->inflight, e, i, &n);
      for (uint32_t k = 0; k < n; k++)
        hold_channel(r, first + i, &list[k]);
    }
  }
}

void sc__job_hold_pending(sc_job_t *job, uint64_t checkpoint) {
  if (job->dir && !SC_PLANTED(REST_NOT_HELD))
    sc_holds_share(sc_job_dir_holds(job->dir), checkpoint);
}

static int run_release(sc_job_t *job, void *arg, sc_error_t *err) {
  return sc_job_dir_release(job->dir, arg, err);
}

static void done_release(sc_job_t *job, void *arg, int rc, sc_error_t *err) {
  if (rc < 0)
    sc__job_log(job, SC_LOG_WARN, 0, NULL, "files of in-flight data could not be deleted: %s",
                err->message);
  sc_names_free(arg);
  free(arg);
}

/* Behind all file work before it: what a _metadata that is being written lists is not deleted. */
static void release(sc_job_t *job, const sc_names_t *gone) {
  if (gone->n == 0)
    return;
  sc_names_t *files = sc_malloc(sizeof *files);
  *files = *gone;
  sc__job_file_work(job, run_release, done_release, files);
}

static void drop(sc_job_t *job, sc_holder_t holder, uint64_t number) {
  sc_names_t gone = {NULL, 0};
  if (!job->dir)
    return;
  sc_holds_drop(sc_job_dir_holds(job->dir), holder, number, &gone);
  release(job, &gone);
}

void sc__job_drained(sc_job_t *job, uint32_t task) {
  drop(job, SC_HOLDER_TASK, task);
}

void sc__job_unhold(sc_job_t *job, uint64_t checkpoint) {
  drop(job, SC_HOLDER_CHECKPOINT, checkpoint);
}

void sc__region_unhold(sc_region_t *r) {
  for (uint32_t i = 0; i < r->job->graph->n_tasks; i++)
    if (r->job->layout->of_task[i] == r->index)
      drop(r->job, SC_HOLDER_TASK, i);
}
