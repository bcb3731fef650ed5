#include "inflight_plan.h"

#include <inttypes.h>
#include <stdlib.h>

#include "../base/mem.h"
#include "../base/planted.h"

typedef struct receiver { /* of one edge */
  sc_virtual_channel_t *channels;
  uint32_t n;
} receiver_t;

struct sc_inflight_plan {
  uint32_t generation;
  uint32_t n_edges;
  uint32_t *first;        /* of each edge: where its receivers begin; n_edges + 1 */
  receiver_t *receivers;  /* of all edges */
};

/* ---- edges ---- */

static bool same_edge(const sc_metadata_edge_t *a, const sc_inflight_edge_t *b) {
  return !strcmp(a->from_uid, b->from_uid) && !strcmp(a->output, b->output) &&
         !strcmp(a->to_uid, b->to_uid) && !strcmp(a->partitioner, b->partitioner) &&
         a->port == b->port && a->ordinal == b->ordinal;
}

/* n_edges where it has no equal. */
static uint32_t find_edge(const sc_metadata_edge_t *old, const sc_inflight_edge_t *edges,
                          uint32_t n_edges) {
  uint32_t i = 0;
  while (i < n_edges && !same_edge(old, &edges[i]))
    i++;
  return i;
}

static int refuse_edge(const sc_metadata_t *m, const sc_metadata_edge_t *old, bool chained,
                       sc_error_t *err) {
  if (chained)
    return sc_fail(err, SC_ESTATE,
                   "checkpoint %" PRIu64 " holds data in flight from \"%s\" to \"%s\", which this "
                   "run of the job has chained: end it, and start it from that checkpoint",
                   m->id, old->from_uid, old->to_uid);
  bool main = !*old->output || !strcmp(old->output, "main");
  return sc_fail(err, SC_ESTATE,
                 "checkpoint %" PRIu64 " holds data in flight from \"%s\"%s%s%s to \"%s\" (%s, "
                 "input %" PRIu32 "), an exchange that this job does not have: restore the job as "
                 "it was and take a savepoint, which holds none", m->id, old->from_uid,
                 main ? "" : " (output \"", main ? "" : old->output, main ? "" : "\")", old->to_uid,
                 old->partitioner, old->port);
}

/* Key groups were computed by the sender, with the receiver's max_parallelism of then. */
static int check_groups(const sc_metadata_t *m, const sc_inflight_edge_t *edge, sc_error_t *err) {
  const sc_metadata_operator_t *op = sc_metadata_find(m, edge->to_uid);
  if (!op || op->max_parallelism == edge->max_parallelism)
    return 0;
  return sc_fail(err, SC_ESTATE, "checkpoint %" PRIu64 " holds data in flight to \"%s\" whose key "
                 "groups were computed with max_parallelism %" PRIu32 "; it is %" PRIu32 " now",
                 m->id, edge->to_uid, op->max_parallelism, edge->max_parallelism);
}

/* ---- channels ---- */

/* The two sides of one old channel; a side that kept nothing is NULL. */
typedef struct old_channel {
  const sc_handle_t *sides[2];
  uint32_t edge; /* of the new graph */
} old_channel_t;

static const sc_handle_t *any_side(const old_channel_t *c) {
  return c->sides[0] ? c->sides[0] : c->sides[1];
}

static int compare_u32(uint32_t a, uint32_t b) {
  return a < b ? -1 : a > b;
}

/* Which channel; older generations first, since that is the order in which they are read. */
static int compare_handles(const sc_handle_t *x, const sc_handle_t *y) {
  const sc_handle_inflight_t *a = &x->inflight, *b = &y->inflight;
  int by = SC_PLANTED(NO_GENERATIONS) ? compare_u32(b->generation, a->generation)
                                      : compare_u32(a->generation, b->generation);
  by = by ? by : compare_u32(a->edge, b->edge);
  by = by ? by : compare_u32(a->sender, b->sender);
  by = by ? by : compare_u32(a->receiver, b->receiver);
  by = by ? by : compare_u32(a->origin, b->origin);
  by = by ? by : compare_u32(x->range.first, y->range.first);
  return by ? by : compare_u32(x->range.last, y->range.last);
}

static int by_channel_and_side(const void *a, const void *b) {
  const sc_handle_t *x = *(sc_handle_t *const *)a, *y = *(sc_handle_t *const *)b;
  int by = compare_handles(x, y);
  return by ? by : compare_u32(x->inflight.side, y->inflight.side);
}

static void add(receiver_t *r, const old_channel_t *old, bool tagged, sc_key_range_t range) {
  const sc_handle_t *h = any_side(old);
  r->channels = sc_realloc(r->channels, (r->n + 1) * sizeof *r->channels);
  sc_virtual_channel_t *v = &r->channels[r->n++];
  *v = (sc_virtual_channel_t){
      .edge = old->edge, .sender = h->inflight.sender, .origin = h->inflight.origin,
      .generation = h->inflight.generation, .tagged = tagged, .idle = h->inflight.idle,
      .watermark = h->inflight.watermark, .range = range};
  for (uint32_t i = 0; i < 2; i++) {
    const sc_handle_t *side = old->sides[SC_PLANTED(SENDER_FIRST) ? 1 - i : i];
    if (side && side->inflight.bytes)
      v->parts[v->n_parts++] = side;
  }
}

static void give(sc_inflight_plan_t *plan, const sc_inflight_edge_t *edge,
                 const old_channel_t *old) {
  const sc_handle_t *h = any_side(old);
  receiver_t *receivers = &plan->receivers[plan->first[old->edge]];
  if (!h->inflight.tagged) {
    add(&receivers[h->inflight.receiver % edge->parallelism], old, false, (sc_key_range_t){0, 0});
    return;
  }
  for (uint32_t i = 0; i < edge->parallelism; i++) {
    sc_key_range_t own = sc_key_range(edge->max_parallelism, edge->parallelism, i);
    sc_key_range_t both = {own.first > h->range.first ? own.first : h->range.first,
                           own.last < h->range.last ? own.last : h->range.last};
    if (both.first <= both.last)
      add(&receivers[i], old, true, both);
  }
}

/* ---- the plan ---- */

typedef struct handles { const sc_handle_t **list; uint32_t n; } handles_t;

static handles_t collect(const sc_metadata_t *m) {
  handles_t all = {NULL, 0};
  for (uint32_t i = 0; i < m->n_operators; i++)
    for (uint32_t s = 0; s < m->operators[i].parallelism; s++) {
      const sc_operator_snapshot_t *state = &m->operators[i].subtasks[s].state;
      for (uint32_t k = 0; k < state->n_handles; k++) {
        if (state->handles[k].kind != SC_HANDLE_INFLIGHT)
          continue;
        all.list = sc_realloc(all.list, (all.n + 1) * sizeof *all.list);
        all.list[all.n++] = &state->handles[k];
      }
    }
  if (all.n)
    qsort(all.list, all.n, sizeof *all.list, by_channel_and_side);
  return all;
}

static sc_inflight_plan_t *new_plan(const sc_inflight_edge_t *edges, uint32_t n_edges) {
  sc_inflight_plan_t *plan = sc_calloc(1, sizeof *plan);
  plan->n_edges = n_edges;
  plan->first = sc_calloc(n_edges + 1, sizeof *plan->first);
  for (uint32_t i = 0; i < n_edges; i++)
    plan->first[i + 1] = plan->first[i] + edges[i].parallelism;
  plan->receivers = sc_calloc(plan->first[n_edges], sizeof *plan->receivers);
  return plan;
}

static int check_kind(const sc_metadata_t *m, const sc_metadata_edge_t *edge, const sc_handle_t *h,
                      sc_error_t *err) {
  bool hash = !strcmp(edge->partitioner, "hash");
  bool whole = !strcmp(edge->partitioner, "rebalance") || !strcmp(edge->partitioner, "shuffle");
  if (h->inflight.tagged ? hash : whole)
    return 0;
  return sc_fail(err, SC_ECORRUPT, "checkpoint %" PRIu64 " lists in-flight data from \"%s\" to "
                 "\"%s\" (%s), of which none is ever kept in this way", m->id, edge->from_uid,
                 edge->to_uid, edge->partitioner);
}

/* The handles of one old channel, one or two of them. */
static int plan_channel(sc_inflight_plan_t *plan, const sc_metadata_t *m,
                        const sc_inflight_edge_t *edges, const old_channel_t *found,
                        sc_error_t *err) {
  const sc_handle_t *h = any_side(found);
  old_channel_t old = *found;
  bool data = false;
  for (uint32_t i = 0; i < 2; i++)
    data |= old.sides[i] && old.sides[i]->inflight.bytes > 0;
  if (!data)
    return 0; /* its watermark alone binds nobody: the real channel begins with it */
  const sc_metadata_edge_t *edge = &m->edges[h->inflight.edge];
  int rc = check_kind(m, edge, h, err);
  old.edge = find_edge(edge, edges, plan->n_edges);
  bool chained = old.edge < plan->n_edges && edges[old.edge].chained;
  if (rc == 0 && (old.edge == plan->n_edges || chained))
    rc = refuse_edge(m, edge, chained, err);
  if (rc == 0 && h->inflight.tagged)
    rc = check_groups(m, &edges[old.edge], err);
  if (rc < 0)
    return rc;
  if (h->inflight.generation >= plan->generation)
    plan->generation = h->inflight.generation + 1;
  give(plan, &edges[old.edge], &old);
  return 0;
}

void sc_inflight_edges(const sc_metadata_t *m, const sc_inflight_edge_t *edges, uint32_t n_edges,
                       bool *flags) {
  handles_t all = collect(m);
  for (uint32_t i = 0; i < all.n; i++) {
    const sc_handle_inflight_t *f = &all.list[i]->inflight;
    uint32_t edge = find_edge(&m->edges[f->edge], edges, n_edges);
    if (f->bytes && edge < n_edges)
      flags[edge] = true;
  }
  free(all.list);
}

int sc_inflight_plan(const sc_metadata_t *m, const sc_inflight_edge_t *edges, uint32_t n_edges,
                     sc_inflight_plan_t **out, sc_error_t *err) {
  handles_t all = collect(m);
  sc_inflight_plan_t *plan = new_plan(edges, n_edges);
  int rc = 0;
  *out = NULL;
  for (uint32_t i = 0, next; rc == 0 && i < all.n; i = next) {
    old_channel_t old = {{NULL, NULL}, 0};
    for (next = i; next < all.n && compare_handles(all.list[i], all.list[next]) == 0; next++) {
      const sc_handle_t **side = &old.sides[all.list[next]->inflight.side];
      if (*side)
        rc = sc_fail(err, SC_ECORRUPT, "checkpoint %" PRIu64 " lists the in-flight data of one "
                     "channel twice", m->id);
      *side = all.list[next];
    }
    if (rc == 0)
      rc = plan_channel(plan, m, edges, &old, err);
  }
  free(all.list);
  if (rc < 0 || plan->generation == 0) {
    sc_inflight_plan_destroy(plan);
    return rc;
  }
  *out = plan;
  return 0;
}

void sc_inflight_plan_destroy(sc_inflight_plan_t *plan) {
  if (!plan)
    return;
  for (uint32_t i = 0; i < plan->first[plan->n_edges]; i++)
    free(plan->receivers[i].channels);
  free(plan->receivers);
  free(plan->first);
  free(plan);
}

const sc_virtual_channel_t *sc_inflight_plan_of(const sc_inflight_plan_t *plan, uint32_t edge,
                                                uint32_t receiver, uint32_t *n) {
  *n = 0;
  if (!plan)
    return NULL;
  sc_assert(edge < plan->n_edges && receiver < plan->first[edge + 1] - plan->first[edge]);
  const receiver_t *r = &plan->receivers[plan->first[edge] + receiver];
  *n = r->n;
  return r->channels;
}

uint32_t sc_inflight_plan_generation(const sc_inflight_plan_t *plan) {
  return plan ? plan->generation : 1;
}
