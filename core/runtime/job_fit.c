/*
 * job_fit: a snapshot and the graph that is to go on from it, fitted together: state by uid, what
 * was in flight by edge. Before the graph is laid out, it is cut where something in flight needs an
 * exchange; afterwards each snapshot that an attempt begins from is planned.
 */
#include <stdlib.h>
#include <string.h>

#include "../base/mem.h"
#include "../base/planted.h"
#include "job_parts.h"

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

void sc__job_unchain(sc_job_t *job) {
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
