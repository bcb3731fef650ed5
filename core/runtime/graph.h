/*
 * graph: the job as the user described it, checked, and cut into chains and tasks.
 *
 * Nodes are operators, edges carry records from one output of a node to an input port of another.
 * sc_graph_finish checks it and computes *chains*: operators that run as one task. An edge is
 * chained when it is forward, both ends have one parallelism, its receiver has no other input, and
 * neither end forbids it. A chain is a tree: its head takes the task's inputs. A keyed operator is
 * always a head, since its input is a hash edge. Tasks are numbered chain by chain (chains in
 * topological order), subtask by subtask; subtask i lives in slot i mod slots.
 *
 * An edge for which the user named no exchange (sc_graph_connect_unnamed) is forward between equal
 * parallelisms, else rebalance, and so it may change from one start of the job to the next.
 * Snapshots know it as rebalance, whatever it is just now: what was in flight on it belongs to it
 * at any parallelism. Where it has become forward and would be chained, there would be no exchange
 * to give that out again; so before the tasks are numbered for good, sc_graph_unchain cuts the
 * chain there, for one run of the job. It stays forward, which is what users are told of equal
 * parallelisms, and which no barrier overtakes: so the next start finds nothing in flight on it,
 * and chains it again. (As rebalance it would be captured, and cut, at each start anew.)
 *
 * Threads: built by one; after finish it is read only and may be shared. Ownership: owns copies of
 * all texts and options; types and data are borrowed for its life.
 */
#ifndef SC_RUNTIME_GRAPH_H
#define SC_RUNTIME_GRAPH_H

#include "../exchange/partitioner.h"
#include "operator.h"

typedef struct sc_node {
  char *uid, *name;
  const sc_operator_type_t *type;
  void *data;                 /* handed to the type */
  sc_buf_t options;           /* msgpack map */
  uint32_t parallelism, max_parallelism;
  bool keyed;
  bool start_new_chain, disable_chaining;
  char **outputs;             /* names; the first is "main" */
  uint32_t n_outputs;
  uint32_t n_inputs;          /* edges that lead here; by finish */
  uint32_t chain, position;   /* by finish */
} sc_node_t;

typedef struct sc_edge {
  uint32_t from, to;          /* nodes */
  uint32_t output;            /* index into the sender's outputs */
  uint32_t port;
  sc_partitioner_kind_t partitioner;
  sc_partitioner_kind_t known_as; /* in snapshots; REBALANCE where the user named none */
  char **key;                 /* HASH: field names, or NULL: the item brings its key */
  uint32_t n_key;
  uint32_t ordinal;           /* among edges that are known as equal otherwise (DESIGN section 4) */
  bool unchained;             /* by sc_graph_unchain */
  bool chained;               /* by finish */
} sc_edge_t;

typedef struct sc_chain_plan {
  uint32_t *nodes;            /* head first, each after the node that feeds it */
  uint32_t n_nodes;
  uint32_t parallelism;
  uint32_t first_task;        /* tasks first_task .. first_task + parallelism - 1 */
} sc_chain_plan_t;

typedef struct sc_graph {
  sc_node_t *nodes;
  uint32_t n_nodes;
  sc_edge_t *edges;
  uint32_t n_edges;
  sc_chain_plan_t *chains;
  uint32_t n_chains;
  uint32_t n_tasks;
  uint32_t max_parallelism_seen; /* the greatest parallelism of an operator: the default of slots */
} sc_graph_t;

typedef struct sc_node_spec {
  const char *uid, *name;
  const sc_operator_type_t *type;
  void *data;
  sc_bytes_t options;
  uint32_t parallelism;       /* >= 1 */
  uint32_t max_parallelism;   /* 0: the default for the parallelism */
  bool keyed, start_new_chain, disable_chaining;
  const char *const *outputs; /* NULL: {"main"} */
  uint32_t n_outputs;
} sc_node_spec_t;

sc_graph_t *sc_graph_create(void);
void sc_graph_destroy(sc_graph_t *g);
/* Index of the node, or SC_EINVAL: a parallelism out of range, a uid that is taken. */
int sc_graph_add(sc_graph_t *g, const sc_node_spec_t *spec, sc_error_t *err);
/* 0, or SC_EINVAL: unknown node or output. */
int sc_graph_connect(sc_graph_t *g, uint32_t from, const char *output, uint32_t to, uint32_t port,
                     sc_partitioner_kind_t partitioner, const char *const *key, uint32_t n_key,
                     sc_error_t *err);
/* An edge for which the user named no exchange. */
int sc_graph_connect_unnamed(sc_graph_t *g, uint32_t from, const char *output, uint32_t to,
                             uint32_t port, sc_error_t *err);
/* Check and compute chains and tasks: a cycle, a forward edge between unequal parallelisms, a keyed
 * operator without a hash edge, a source with inputs or another operator without are SC_EINVAL. */
int sc_graph_finish(sc_graph_t *g, sc_error_t *err);
/* Cut the chains of a finished graph at these edges (flags[n_edges]), too, and number its tasks
 * anew: before anything knows their numbers. */
void sc_graph_unchain(sc_graph_t *g, const bool *edges);

/* The chain and the subtask of a task. */
const sc_chain_plan_t *sc_graph_task(const sc_graph_t *g, uint32_t task, uint32_t *subtask);
/* Task numbers that feed a task, malloc'ed; the count is returned. */
uint32_t sc_graph_senders(const sc_graph_t *g, uint32_t task, uint32_t **out);
/* "name (uid)" of the chain's operators, joined with " -> "; malloc'ed. */
char *sc_graph_chain_name(const sc_graph_t *g, const sc_chain_plan_t *chain);

#endif
