#include "regions.h"

#include <stdlib.h>

#include "../base/mem.h"

#define NAMES_MAX 4 /* operators that stand for a region in a line of the log */

/* The representative of a node's component; halves the way there (Tarjan, van Leeuwen 1984). */
static uint32_t find(uint32_t *parent, uint32_t node) {
  while (parent[node] != node) {
    parent[node] = parent[parent[node]];
    node = parent[node];
  }
  return node;
}

/* The smaller number represents both: it comes first in the graph. */
static void join(uint32_t *parent, uint32_t a, uint32_t b) {
  a = find(parent, a);
  b = find(parent, b);
  parent[a < b ? b : a] = a < b ? a : b;
}

static void number_nodes(sc_regions_t *r, const sc_graph_t *g) {
  uint32_t *parent = sc_calloc(g->n_nodes, sizeof *parent);
  for (uint32_t i = 0; i < g->n_nodes; i++)
    parent[i] = i;
  for (uint32_t i = 0; i < g->n_edges; i++)
    join(parent, g->edges[i].from, g->edges[i].to);
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    uint32_t first = find(parent, i); /* at most i, so numbered already where it is another one */
    r->of_node[i] = first == i ? r->n++ : r->of_node[first];
  }
  free(parent);
}

sc_regions_t *sc_regions_create(const sc_graph_t *g) {
  sc_regions_t *r = sc_calloc(1, sizeof *r);
  r->of_node = sc_calloc(g->n_nodes, sizeof *r->of_node);
  r->of_task = sc_calloc(g->n_tasks, sizeof *r->of_task);
  number_nodes(r, g);
  r->n_tasks = sc_calloc(r->n, sizeof *r->n_tasks);
  r->parallelism = sc_calloc(r->n, sizeof *r->parallelism);
  for (uint32_t i = 0; i < g->n_chains; i++) {
    const sc_chain_plan_t *c = &g->chains[i];
    uint32_t region = r->of_node[c->nodes[0]];
    r->n_tasks[region] += c->parallelism;
    if (c->parallelism > r->parallelism[region])
      r->parallelism[region] = c->parallelism;
    for (uint32_t s = 0; s < c->parallelism; s++)
      r->of_task[c->first_task + s] = region;
  }
  return r;
}

void sc_regions_destroy(sc_regions_t *r) {
  if (!r)
    return;
  free(r->of_node);
  free(r->of_task);
  free(r->n_tasks);
  free(r->parallelism);
  free(r);
}

char *sc_region_name(const sc_regions_t *r, const sc_graph_t *g, uint32_t region) {
  sc_buf_t text = SC_BUF_INIT;
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->n_nodes; i++)
    if (r->of_node[i] == region && ++n <= NAMES_MAX)
      sc_buf_printf(&text, "%s%s", n > 1 ? ", " : "", g->nodes[i].name);
  if (n > NAMES_MAX)
    sc_buf_printf(&text, " and %u more", n - NAMES_MAX);
  sc_buf_put_u8(&text, 0);
  return (char *)text.data;
}
