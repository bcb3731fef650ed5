/*
 * job_open: what sc_job_start does on the caller's thread, so that whatever can be known at once is
 * said at once: the folder is locked and scanned, what to restore is chosen, the graph laid out
 * and fitted to it, sinks look at their folders, orphans are swept, numbers are reserved.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- fitting it to the graph ---- */

static bool has_state(const sc_metadata_operator_t *op) {
  for (uint32_t s = 0; s < op->parallelism; s++)
    for (uint32_t i = 0; i < op->subtasks[s].state.n_handles; i++)
      if (op->subtasks[s].state.handles[i].kind != SC_HANDLE_INFLIGHT) /* of an edge */
        return true;
  return op->has_enumerator;
}

static const sc_node_t *find_node(const sc_graph_t *g, const char *uid) {
  for (uint32_t i = 0; i < g->n_nodes; i++)
    if (strcmp(g->nodes[i].uid, uid) == 0)
      return &g->nodes[i];
  return NULL;
}

static void list_uids(const sc_job_t *job, sc_buf_t *out) {
  sc_buf_puts(out, "the snapshot has");
  for (uint32_t i = 0; i < job->origin->metadata->n_operators; i++)
    sc_buf_printf(out, "%s %s", i ? "," : "", job->origin->metadata->operators[i].uid);
  sc_buf_puts(out, "; the job has");
  for (uint32_t i = 0; i < job->graph->n_nodes; i++)
    sc_buf_printf(out, "%s %s", i ? "," : "", job->graph->nodes[i].uid);
}

/* State that no operator takes is refused, unless told otherwise: it would be lost. */
static int check_uids(sc_job_t *job, sc_error_t *err) {
  for (uint32_t i = 0; i < job->origin->metadata->n_operators; i++) {
    const sc_metadata_operator_t *op = &job->origin->metadata->operators[i];
    if (find_node(job->graph, op->uid) || !has_state(op))
      continue;
    sc_buf_t uids = SC_BUF_INIT;
    list_uids(job, &uids);
    if (job->options.allow_non_restored_state) {
      sc__job_log(job, SC_LOG_WARN, job->origin->metadata->id, NULL,
                  "the state of operator \"%s\" is left behind", op->uid);
      sc_buf_free(&uids);
      continue;
    }
    sc_fail(err, SC_ESTATE,
            "%s holds state of operator \"%s\", which the job does not have (%.*s); "
            "allow_non_restored_state = true leaves it behind",
            job->origin->dir, op->uid, (int)uids.len, (char *)uids.data);
    sc_buf_free(&uids);
    return SC_ESTATE;
  }
  return 0;
}

/* The graph's edges as snapshots know them; malloc'ed. */
static sc_inflight_edge_t *known_edges(const sc_graph_t *g) {
  sc_inflight_edge_t *edges = sc_calloc(g->n_edges, sizeof *edges);
  for (uint32_t i = 0; i < g->n_edges; i++) {
    const sc_edge_t *e = &g->edges[i];
    const sc_node_t *from = &g->nodes[e->from], *to = &g->nodes[e->to];
    edges[i] = (sc_inflight_edge_t){
        .from_uid = from->uid, .output = from->outputs[e->output], .to_uid = to->uid,
        .partitioner = sc_partitioner_name(e->known_as), .chained = e->chained, .port = e->port,
        .ordinal = e->ordinal, .parallelism = to->parallelism,
        .max_parallelism = to->max_parallelism};
  }
  return edges;
}

static int plan_inflight(const sc_graph_t *g, sc_origin_t *o, sc_error_t *err) {
  sc_inflight_edge_t *edges = known_edges(g);
  int rc = sc_inflight_plan(o->metadata, edges, g->n_edges, &o->inflight, err);
  free(edges);
  return rc;
}

void sc__job_note_inflight(sc_job_t *job, const sc_metadata_t *m) {
  const sc_graph_t *g = job->graph;
  sc_inflight_edge_t *edges = known_edges(g);
  if (!job->in_flight)
    job->in_flight = sc_calloc(g->n_edges, sizeof *job->in_flight);
  sc_inflight_edges(m, edges, g->n_edges, job->in_flight);
  free(edges);
}

/* Where something is in flight between two operators that would be chained, their edge has to be an
 * exchange in this run (graph.h). */
static void unchain(sc_job_t *job) {
  const sc_graph_t *g = job->graph;
  bool any = false;
  for (uint32_t i = 0; job->in_flight && i < g->n_edges; i++) {
    const sc_edge_t *e = &g->edges[i];
    if (!job->in_flight[i] || !e->chained)
      continue;
    any = true;
    sc__job_log(job, SC_LOG_INFO, 0, NULL,
                "%s and %s are not chained in this run: data is in flight between them",
                g->nodes[e->from].name, g->nodes[e->to].name);
  }
  if (any)
    sc_graph_unchain(job->graph, job->in_flight);
  free(job->in_flight);
  job->in_flight = NULL;
}

/* Has an edge become dealt that may have been straight? Between old tasks as many as these. */
static bool has_turned(const sc_graph_t *g, const sc_metadata_t *m, const sc_edge_t *e) {
  const sc_metadata_operator_t *from = sc_metadata_find(m, g->nodes[e->from].uid),
                               *to = sc_metadata_find(m, g->nodes[e->to].uid);
  return e->partitioner == SC_REBALANCE && from && to && from->parallelism == to->parallelism &&
         !SC_PLANTED(TURNED_AHEAD);
}

/* Task i behind a straight edge knows the watermark of its one sender. Where the edge is dealt now,
 * as it becomes when only its senders change their number, it is sent what all of them had still to
 * send; so such operators, and what they feed straight on, begin level. (Those that were dealt
 * before, too, are: each knew the least of all its senders.) malloc'ed flags of nodes. */
static bool *find_level(const sc_graph_t *g, const sc_metadata_t *m) {
  bool *level = sc_calloc(g->n_nodes, sizeof *level);
  for (uint32_t c = 0; c < g->n_chains; c++) /* in topological order */
    for (uint32_t i = 0; i < g->chains[c].n_nodes; i++) {
      uint32_t node = g->chains[c].nodes[i];
      for (uint32_t k = 0; k < g->n_edges; k++) {
        const sc_edge_t *e = &g->edges[k];
        if (e->to == node)
          level[node] |= has_turned(g, m, e) || (e->partitioner == SC_FORWARD && level[e->from]);
      }
    }
  return level;
}

static int plan_operators(const sc_graph_t *g, sc_origin_t *o, sc_error_t *err) {
  int rc = 0;
  bool *level = find_level(g, o->metadata);
  o->n_plans = g->n_nodes;
  o->plans = sc_calloc(o->n_plans, sizeof *o->plans);
  o->all_finished = o->metadata->finished;
  for (uint32_t i = 0; i < g->n_nodes && rc >= 0; i++) {
    const sc_node_t *n = &g->nodes[i];
    const sc_metadata_operator_t *old = sc_metadata_find(o->metadata, n->uid);
    if (!old) {
      o->all_finished = false;
      continue;
    }
    rc = sc_redistribute(old, n->parallelism, n->max_parallelism, level[i], &o->plans[i], err);
    if (rc < 0)
      sc_error_set_operator(err, n->name);
    else
      o->all_finished &= o->plans[i]->finished;
  }
  free(level);
  return rc;
}

int sc__job_plan(sc_job_t *job, sc_error_t *err) {
  sc_origin_t *o = job->origin;
  if (!o)
    return 0;
  int rc = check_uids(job, err);
  if (rc < 0)
    return rc;
  rc = plan_operators(job->graph, o, err);
  if (rc < 0)
    return rc;
  return (SC_PLANTED(MODE_FORGETS) && !job->options.checkpoint.unaligned)
             ? 0
             : plan_inflight(job->graph, o, err);
}

/* ---- the rest ---- */

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
  unchain(job);
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
