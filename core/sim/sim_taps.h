/*
 * sim_taps: a hand on every operator of a job that is simulated, whatever the operators are.
 *
 * sc_sim_taps_put wraps the operator types of a finished graph. From then on each call that gives
 * an operator something to do is counted (a record, a timer, an item that a source emits), and at a
 * count that was told it fails its task, or the process dies there. What the sinks of the graph are
 * given is told, with the key under which it was emitted where that is known: where the sink runs
 * in one chain with a keyed operator.
 *
 * Threads: one, that of the simulated world. Ownership: create/destroy; outlives the jobs whose
 * graphs it was put on, also those that died. Counts go on over all of them.
 */
#ifndef SC_SIM_SIM_TAPS_H
#define SC_SIM_SIM_TAPS_H

#include "../runtime/graph.h"

typedef struct sc_sim_taps sc_sim_taps_t;

typedef struct sc_sim_taps_ops {
  /* Call number `count`, from 1 on, of a source (it has given a record, which has not gone anywhere
   * yet) or of another operator. 0, or a code with err filled in: the task fails. May let time
   * pass, and crash the world. `label` names the operator. */
  int (*called)(void *arg, uint64_t count, bool source, const char *label, sc_error_t *err);
  /* A source is asked, whatever comes of it. May crash the world. */
  void (*asked)(void *arg);
  /* A sink, node `node` of the graph, gets a value; key is NULL where none is known. Borrowed. */
  void (*given)(void *arg, uint32_t node, const sc_bytes_t *key, sc_bytes_t value);
  /* An operator is told that a checkpoint is complete; told for each id once, ids grow. */
  void (*completed)(void *arg, uint64_t id);
} sc_sim_taps_ops_t;

sc_sim_taps_t *sc_sim_taps_create(const sc_sim_taps_ops_t *ops, void *arg);
void sc_sim_taps_destroy(sc_sim_taps_t *t);
void sc_sim_taps_put(sc_sim_taps_t *t, sc_graph_t *graph);
uint64_t sc_sim_taps_calls(const sc_sim_taps_t *t); /* so far */

#endif
