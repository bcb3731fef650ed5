/*
 * regions: the parts of a graph that fail over alone.
 *
 * A region is closed over exchanges, shared stores and enumerators (DESIGN section 2): restarting
 * it takes nothing away from the rest and adds nothing. Exchanges join the operators at their two
 * ends, and a store, or an enumerator, all subtasks of its operator; so the regions are the
 * connected components of the graph of operators. (Apache Flink cuts finer where edges are all
 * pointwise: there, subtask i of a pipeline is a region of its own. Here its operators share a
 * store and its source an enumerator, which such a region would have to be cut out of.)
 *
 * Regions are numbered in the order of their first node.
 *
 * Pure; read only once made, so any thread. Ownership: create/destroy; knows the graph during
 * create only. Failure: none.
 */
#ifndef SC_RUNTIME_REGIONS_H
#define SC_RUNTIME_REGIONS_H

#include "graph.h"

typedef struct sc_regions {
  uint32_t n;               /* at least 1, where the graph has a node */
  uint32_t *of_node;        /* region of each node */
  uint32_t *of_task;        /* region of each task */
  uint32_t *n_tasks;        /* of each region */
  uint32_t *parallelism;    /* greatest one in each region */
} sc_regions_t;

/* Of a finished graph. */
sc_regions_t *sc_regions_create(const sc_graph_t *g);
void sc_regions_destroy(sc_regions_t *r); /* NULL is fine */
/* The names of its first operators in the graph's order, "a, b, c, d and 3 more"; malloc'ed. */
char *sc_region_name(const sc_regions_t *r, const sc_graph_t *g, uint32_t region);

#endif
