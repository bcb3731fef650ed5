/*
 * job_open: what sc_job_start does on the caller's thread, so that whatever can be known at once is
 * said at once: the folder is locked and scanned, what to restore is chosen, the graph laid out
 * and fitted to it, sinks look at their folders, orphans are swept, numbers are reserved.
 */
#include <stdlib.h>

#include "../base/mem.h"
#include "../base/planted.h"
#include "job_parts.h"

static int64_t log_clock(void *arg) {
  return sc_world_now_ms(arg);
}

static void log_to_world(void *arg, const char *line) {
  sc_world_t *world = arg;
  world->ops->log_line(world, line);
}

static int open_log(sc_job_t *job, sc_error_t *err) {
  if (job->world->ops->log_line) {
    job->log = sc_log_create(log_clock, job->world, SC_LOG_OFF);
    sc_log_tap(job->log, log_to_world, job->world, SC_LOG_INFO);
    return 0;
  }
  job->log = sc_log_create(log_clock, job->world, job->options.log_level);
  char *path = job->options.log_file ? sc_strdup(job->options.log_file)
               : job->path           ? sc_path_join(job->path, "log")
                                     : NULL;
  int rc = path ? sc_log_open_file(job->log, path, SC_LOG_INFO, 0, err) : 0;
  free(path);
  return rc;
}

static int open_dir(sc_job_t *job, sc_error_t *err) {
  if (!job->options.dir)
    return 0;
  int rc = sc_job_dir_open(job->storage, job->options.dir, job->id, &job->dir, err);
  if (rc >= 0)
    job->path = sc_strdup(sc_job_dir_path(job->dir));
  return rc;
}

/* ---- what is found outside ---- */

/* Adds all list states of an operator's old subtasks, which are borrowed from the metadata. */
static sc_bytes_t *add_lists(sc_bytes_t *lists, const sc_metadata_t *m, const char *uid,
                             uint32_t *n) {
  const sc_metadata_operator_t *op = m ? sc_metadata_find(m, uid) : NULL;
  for (uint32_t s = 0; op && s < op->parallelism; s++)
    for (uint32_t i = 0; i < op->subtasks[s].state.n_handles; i++) {
      const sc_handle_t *h = &op->subtasks[s].state.handles[i];
      if (h->kind != SC_HANDLE_LIST)
        continue;
      lists = sc_realloc(lists, (*n + 1) * sizeof *lists);
      lists[(*n)++] = sc_buf_bytes(&h->inlined);
    }
  return lists;
}

/* The checkpoints that stand: whoever goes back to an older one, or begins anew, may die before it
 * has one of its own, and then the next start takes the newest of these, with all that it promises.
 * *out is NULL where there is no folder. */
static int scan_standing(sc_job_t *job, const sc_metadata_t *restore, sc_job_scan_t **out,
                         sc_error_t *err) {
  *out = NULL;
  if (!job->path)
    return 0;
  int rc = sc_job_scan(job->storage, job->path, SC_LOOK_METADATA, out, err);
  if (rc < 0 || job->options.fallback_older)
    return rc;
  return sc_job_scan_unread(*out, restore ? restore->id : 0, err);
}

static int prepare_node(sc_job_t *job, const sc_node_t *n, const sc_metadata_t *restore,
                        const sc_job_scan_t *standing, sc_error_t *err) {
  sc_past_t past = {.fresh = restore == NULL};
  sc_bytes_t *lists = add_lists(NULL, restore, n->uid, &past.n_lists);
  for (uint32_t i = 0; standing && i < standing->n && !SC_PLANTED(PENDING_SWEPT); i++)
    lists = add_lists(lists, standing->list[i].metadata, n->uid, &past.n_lists);
  past.lists = lists;
  int rc = n->type->prepare(n->data, sc_buf_bytes(&n->options), job->id, n->uid, &past,
                            job->world->storage, err);
  free(lists);
  if (rc < 0)
    sc_error_set_operator(err, n->name);
  return rc;
}

int sc__job_prepare(sc_job_t *job, const bool *regions, const sc_metadata_t *restore,
                    sc_error_t *err) {
  sc_job_scan_t *standing;
  int rc = scan_standing(job, restore, &standing, err);
  for (uint32_t i = 0; rc >= 0 && i < job->graph->n_nodes; i++) {
    const sc_node_t *n = &job->graph->nodes[i];
    if (n->type->prepare && (!regions || regions[job->layout->of_node[i]]))
      rc = prepare_node(job, n, restore, standing, err);
  }
  sc_job_scan_destroy(standing);
  return rc < 0 ? rc : 0;
}

static int reserve_numbers(sc_job_t *job, sc_error_t *err) {
  uint64_t highest = job->dir ? sc_job_dir_highest_id(job->dir) : 0;
  if (job->origin && job->origin->metadata->id > highest)
    highest = job->origin->metadata->id;
  sc_coordinator_begin_ids(job->coordinator, highest);
  job->attempt_number = 1;
  return job->dir ? sc_job_dir_next_attempt(job->dir, &job->attempt_number, err) : 0;
}

/* Connectors that promise less than the job: one sentence each at start (DESIGN section 6). */
static void name_weak_connectors(sc_job_t *job) {
  for (uint32_t i = 0; i < job->options.n_warnings; i++)
    sc__job_log(job, SC_LOG_WARN, 0, NULL, "%s", job->options.warnings[i]);
  job->options.n_warnings = 0;
  if (!sc_coordinator_ends_with_one(&job->options.checkpoint))
    return;
  for (uint32_t i = 0; i < job->graph->n_nodes; i++) {
    const sc_node_t *n = &job->graph->nodes[i];
    if (n->type->is_source && !(n->type->replayable &&
                                sc_value_field_bool(sc_buf_bytes(&n->options), "replayable", true)))
      sc__job_log(job, SC_LOG_WARN, 0, n->name,
                  "cannot be read again: after a failure records of it are lost");
    if (!n->type->is_source && !n->type->exactly_once)
      sc__job_log(job, SC_LOG_WARN, 0, n->name,
                  "writes at once: after a failure some of its output comes twice");
  }
}

static void show_restored(sc_job_t *job) {
  const sc_origin_t *o = job->origin;
  sc_view_t *v = &job->view;
  if (!o)
    return;
  sc__view_lock(job);
  v->restored_path = sc_strdup(o->dir);
  v->was_complete = o->all_finished;
  sc_statistics_restored(v->statistics, o->metadata->id, sc__job_now(job), o->dir);
  if (sc_coordinator_latest(job->coordinator) == o->metadata->id)
    v->last_checkpoint = o->metadata->id;
  sc__view_unlock(job);
  if (o->all_finished)
    sc__job_log(job, SC_LOG_WARN, o->metadata->id, NULL,
                "the job is complete: nothing is left to do. To run it anew, start without "
                "from = \"latest\"");
}

int sc__job_open(sc_job_t *job, sc_error_t *err) {
  job->coordinator = sc_coordinator_create(&job->options.checkpoint);
  int rc = open_dir(job, err);
  if (rc >= 0)
    rc = open_log(job, err);
  if (rc >= 0)
    rc = sc__job_choose(job, err);
  sc__job_unchain(job);
  sc__job_lay_out(job);
  if (rc >= 0)
    rc = sc__job_plan(job, err);
  if (rc >= 0)
    rc = sc__job_prepare(job, NULL, job->origin ? job->origin->metadata : NULL, err);
  if (rc >= 0 && job->dir)
    rc = sc_job_dir_sweep(job->dir, NULL, err);
  if (rc >= 0)
    rc = reserve_numbers(job, err);
  if (rc < 0)
    return rc;
  job->restored_latest = sc_coordinator_latest(job->coordinator);
  name_weak_connectors(job);
  show_restored(job);
  return 0;
}
