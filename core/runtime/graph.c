#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "../base/mem.h"
#include "../data/key.h"

sc_graph_t *sc_graph_create(void) {
  return sc_calloc(1, sizeof(sc_graph_t));
}

static void free_names(char **names, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    free(names[i]);
  free(names);
}

static void free_chains(sc_graph_t *g) {
  for (uint32_t i = 0; i < g->n_chains; i++)
    free(g->chains[i].nodes);
  free(g->chains);
  g->chains = NULL;
  g->n_chains = 0;
}

void sc_graph_destroy(sc_graph_t *g) {
  if (!g)
    return;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    sc_node_t *n = &g->nodes[i];
    free(n->uid);
    free(n->name);
    sc_buf_free(&n->options);
    free_names(n->outputs, n->n_outputs);
  }
  for (uint32_t i = 0; i < g->n_edges; i++)
    free_names(g->edges[i].key, g->edges[i].n_key);
  free_chains(g);
  free(g->nodes);
  free(g->edges);
  free(g);
}

static char **copy_names(const char *const *names, uint32_t n) {
  char **copy = sc_calloc(n, sizeof *copy);
  for (uint32_t i = 0; i < n; i++)
    copy[i] = sc_strdup(names[i]);
  return copy;
}

int sc_graph_add(sc_graph_t *g, const sc_node_spec_t *spec, sc_error_t *err) {
  for (uint32_t i = 0; i < g->n_nodes; i++)
    if (strcmp(g->nodes[i].uid, spec->uid) == 0)
      return sc_fail(err, SC_EINVAL, "two operators have the uid \"%s\": %s and %s", spec->uid,
                     g->nodes[i].name, spec->name);
  uint32_t max = spec->max_parallelism;
  if (max == 0 && spec->parallelism >= 1 && spec->parallelism <= SC_MAX_PARALLELISM_LIMIT)
    max = sc_default_max_parallelism(spec->parallelism);
  int rc = sc_parallelism_check(spec->name, spec->parallelism, max, err);
  if (rc < 0)
    return rc;
  g->nodes = sc_realloc(g->nodes, (g->n_nodes + 1) * sizeof *g->nodes);
  sc_node_t *n = &g->nodes[g->n_nodes];
  *n = (sc_node_t){.uid = sc_strdup(spec->uid), .name = sc_strdup(spec->name), .type = spec->type,
                   .data = spec->data, .options = SC_BUF_INIT, .parallelism = spec->parallelism,
                   .max_parallelism = max, .keyed = spec->keyed,
                   .start_new_chain = spec->start_new_chain,
                   .disable_chaining = spec->disable_chaining};
  sc_buf_put_bytes(&n->options, spec->options);
  static const char *const only_main[] = {"main"};
  const char *const *outputs = spec->outputs ? spec->outputs : only_main;
  n->n_outputs = spec->outputs ? spec->n_outputs : 1;
  n->outputs = copy_names(outputs, n->n_outputs);
  if (spec->parallelism > g->max_parallelism_seen)
    g->max_parallelism_seen = spec->parallelism;
  return (int)g->n_nodes++;
}

/* Index of the sender's output, or SC_EINVAL. */
static int find_output(const sc_graph_t *g, uint32_t from, const char *output, uint32_t to,
                       sc_error_t *err) {
  if (from >= g->n_nodes || to >= g->n_nodes)
    return sc_fail(err, SC_EINVAL, "an edge leads from or to an operator that does not exist");
  const sc_node_t *sender = &g->nodes[from];
  for (uint32_t o = 0; o < sender->n_outputs; o++)
    if (strcmp(sender->outputs[o], output) == 0)
      return (int)o;
  return sc_fail(err, SC_EINVAL, "%s (%s) has no output \"%s\"", sender->name, sender->uid, output);
}

/* All but the key and the ordinal are set. */
static sc_edge_t *add_edge(sc_graph_t *g, const sc_edge_t *edge) {
  uint32_t ordinal = 0;
  for (uint32_t i = 0; i < g->n_edges; i++) {
    const sc_edge_t *e = &g->edges[i];
    ordinal += e->from == edge->from && e->to == edge->to && e->output == edge->output &&
               e->port == edge->port && e->known_as == edge->known_as;
  }
  g->edges = sc_realloc(g->edges, (g->n_edges + 1) * sizeof *g->edges);
  sc_edge_t *e = &g->edges[g->n_edges++];
  *e = *edge;
  e->ordinal = ordinal;
  g->nodes[e->to].n_inputs++;
  return e;
}

int sc_graph_connect(sc_graph_t *g, uint32_t from, const char *output, uint32_t to, uint32_t port,
                     sc_partitioner_kind_t partitioner, const char *const *key, uint32_t n_key,
                     sc_error_t *err) {
  int o = find_output(g, from, output, to, err);
  if (o < 0)
    return o;
  sc_edge_t *e = add_edge(g, &(sc_edge_t){.from = from, .to = to, .output = (uint32_t)o,
                                          .port = port, .partitioner = partitioner,
                                          .known_as = partitioner});
  e->key = n_key ? copy_names(key, n_key) : NULL;
  e->n_key = n_key;
  return 0;
}

int sc_graph_connect_unnamed(sc_graph_t *g, uint32_t from, const char *output, uint32_t to,
                             uint32_t port, sc_error_t *err) {
  int o = find_output(g, from, output, to, err);
  if (o < 0)
    return o;
  bool even = g->nodes[from].parallelism == g->nodes[to].parallelism;
  add_edge(g, &(sc_edge_t){.from = from, .to = to, .output = (uint32_t)o, .port = port,
                           .partitioner = even ? SC_FORWARD : SC_REBALANCE,
                           .known_as = SC_REBALANCE});
  return 0;
}

static int check_edge(const sc_graph_t *g, const sc_edge_t *e, sc_error_t *err) {
  const sc_node_t *from = &g->nodes[e->from], *to = &g->nodes[e->to];
  if (to->type->is_source)
    return sc_fail(err, SC_EINVAL, "%s (%s) is a source and takes no input", to->name, to->uid);
  if (e->partitioner == SC_FORWARD && from->parallelism != to->parallelism)
    return sc_fail(err, SC_EINVAL,
                   "forward from %s (parallelism %u) to %s (parallelism %u): both must be equal; "
                   "use rebalance", from->name, from->parallelism, to->name, to->parallelism);
  if (to->keyed && e->partitioner != SC_HASH)
    return sc_fail(err, SC_EINVAL, "%s (%s) keeps keyed state: its input must come from key_by",
                   to->name, to->uid);
  return 0;
}

static int check_nodes(const sc_graph_t *g, sc_error_t *err) {
  if (g->n_nodes == 0)
    return sc_fail(err, SC_EINVAL, "the job has no operators");
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const sc_node_t *n = &g->nodes[i];
    if (!n->type->is_source && n->n_inputs == 0)
      return sc_fail(err, SC_EINVAL, "%s (%s) has no input", n->name, n->uid);
  }
  for (uint32_t i = 0; i < g->n_edges; i++) {
    int rc = check_edge(g, &g->edges[i], err);
    if (rc < 0)
      return rc;
  }
  return 0;
}

/* Nodes in topological order into `order` (Kahn 1962); the number reached. */
static uint32_t topological_order(const sc_graph_t *g, uint32_t *order) {
  uint32_t *waiting = sc_calloc(g->n_nodes, sizeof *waiting), n = 0;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    waiting[i] = g->nodes[i].n_inputs;
    if (!waiting[i])
      order[n++] = i;
  }
  for (uint32_t at = 0; at < n; at++)
    for (uint32_t i = 0; i < g->n_edges; i++)
      if (g->edges[i].from == order[at] && --waiting[g->edges[i].to] == 0)
        order[n++] = g->edges[i].to;
  free(waiting);
  return n;
}

static bool chainable(const sc_graph_t *g, const sc_edge_t *e) {
  const sc_node_t *from = &g->nodes[e->from], *to = &g->nodes[e->to];
  return e->partitioner == SC_FORWARD && from->parallelism == to->parallelism && !e->unchained &&
         to->n_inputs == 1 && !from->disable_chaining && !to->disable_chaining &&
         !to->start_new_chain;
}

static void append_node(sc_graph_t *g, uint32_t chain, uint32_t node) {
  sc_chain_plan_t *c = &g->chains[chain];
  c->nodes = sc_realloc(c->nodes, (c->n_nodes + 1) * sizeof *c->nodes);
  g->nodes[node].chain = chain;
  g->nodes[node].position = c->n_nodes;
  c->nodes[c->n_nodes++] = node;
}

static void cut_chains(sc_graph_t *g, const uint32_t *order) {
  for (uint32_t i = 0; i < g->n_edges; i++)
    g->edges[i].chained = chainable(g, &g->edges[i]);
  for (uint32_t at = 0; at < g->n_nodes; at++) {
    uint32_t node = order[at];
    const sc_edge_t *feeding = NULL;
    for (uint32_t i = 0; i < g->n_edges; i++)
      if (g->edges[i].to == node && g->edges[i].chained)
        feeding = &g->edges[i];
    if (feeding) {
      append_node(g, g->nodes[feeding->from].chain, node);
      continue;
    }
    g->chains = sc_realloc(g->chains, (g->n_chains + 1) * sizeof *g->chains);
    g->chains[g->n_chains] = (sc_chain_plan_t){.parallelism = g->nodes[node].parallelism};
    append_node(g, g->n_chains++, node);
  }
}

static void number_tasks(sc_graph_t *g) {
  g->n_tasks = 0;
  for (uint32_t i = 0; i < g->n_chains; i++) {
    g->chains[i].first_task = g->n_tasks;
    g->n_tasks += g->chains[i].parallelism;
  }
}

/* False: the graph has a cycle. */
static bool lay_out(sc_graph_t *g) {
  uint32_t *order = sc_calloc(g->n_nodes, sizeof *order);
  bool whole = topological_order(g, order) == g->n_nodes;
  if (whole) {
    cut_chains(g, order);
    number_tasks(g);
  }
  free(order);
  return whole;
}

int sc_graph_finish(sc_graph_t *g, sc_error_t *err) {
  int rc = check_nodes(g, err);
  if (rc < 0)
    return rc;
  return lay_out(g) ? 0 : sc_fail(err, SC_EINVAL, "the graph has a cycle");
}

void sc_graph_unchain(sc_graph_t *g, const bool *edges) {
  for (uint32_t i = 0; i < g->n_edges; i++)
    g->edges[i].unchained |= edges[i];
  free_chains(g);
  bool whole = lay_out(g);
  sc_assert(whole);
}

const sc_chain_plan_t *sc_graph_task(const sc_graph_t *g, uint32_t task, uint32_t *subtask) {
  uint32_t i = 0;
  while (task >= g->chains[i].first_task + g->chains[i].parallelism)
    i++;
  *subtask = task - g->chains[i].first_task;
  return &g->chains[i];
}

uint32_t sc_graph_senders(const sc_graph_t *g, uint32_t task, uint32_t **out) {
  uint32_t subtask, n = 0, head = sc_graph_task(g, task, &subtask)->nodes[0];
  *out = NULL;
  for (uint32_t i = 0; i < g->n_edges; i++) {
    const sc_edge_t *e = &g->edges[i];
    if (e->to != head || e->chained)
      continue;
    const sc_chain_plan_t *from = &g->chains[g->nodes[e->from].chain];
    bool one = e->partitioner == SC_FORWARD;
    uint32_t count = one ? 1 : from->parallelism;
    *out = sc_realloc(*out, (n + count) * sizeof **out);
    for (uint32_t s = 0; s < count; s++)
      (*out)[n++] = from->first_task + (one ? subtask : s);
  }
  return n;
}

char *sc_graph_chain_name(const sc_graph_t *g, const sc_chain_plan_t *chain) {
  sc_buf_t text = SC_BUF_INIT;
  for (uint32_t i = 0; i < chain->n_nodes; i++) {
    const sc_node_t *n = &g->nodes[chain->nodes[i]];
    sc_buf_printf(&text, "%s%s", i ? " -> " : "", n->name);
    if (strcmp(n->name, n->uid) != 0)
      sc_buf_printf(&text, " (%s)", n->uid);
  }
  sc_buf_put_u8(&text, 0);
  return (char *)text.data;
}
