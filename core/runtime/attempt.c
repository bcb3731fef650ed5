#include "attempt.h"

#include <stdlib.h>
#include <string.h>

#include "../base/mem.h"

/* ---- reports and references ---- */

void sc_report_free(sc_report_t *r) {
  sc_task_snapshot_destroy(r->snapshot);
  sc_error_clear(&r->error);
  sc_buf_free(&r->bytes);
  free(r);
}

static void drop_report(sc_mail_t *mail) {
  sc_report_free((sc_report_t *)mail);
}

sc_report_t *sc_report_new(sc_attempt_t *a, sc_report_kind_t kind, uint32_t task) {
  sc_report_t *r = sc_calloc(1, sizeof *r);
  r->mail.drop = drop_report;
  r->kind = kind;
  r->attempt = a->config.number;
  r->task = task;
  return r;
}

void sc_report_post(sc_attempt_t *a, sc_report_t *r) {
  a->config.post(a->config.post_arg, r);
}

void sc_attempt_ref(sc_attempt_t *a) {
  atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed); /* the caller holds one */
}

void sc_attempt_unref(sc_attempt_t *a) {
  /* Acquire and release: whoever drops the last one sees all that the others did. The report is
   * made before, since the attempt may be destroyed as soon as it is read. */
  sc_report_t *r = sc_report_new(a, SC_REPORT_RELEASED, 0);
  void (*post)(void *, sc_report_t *) = a->config.post;
  void *arg = a->config.post_arg;
  if (atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) == 1)
    post(arg, r);
  else
    sc_report_free(r);
}

/* ---- wiring ---- */

static bool is_here(const sc_attempt_t *a, uint32_t task) {
  return a->config.regions->of_task[task] == a->config.region;
}

static sc_task_t *task_of(sc_attempt_t *a, uint32_t node, uint32_t subtask) {
  const sc_graph_t *g = a->config.graph;
  return &a->tasks[g->chains[g->nodes[node].chain].first_task + subtask];
}

static void wake_task(void *arg) {
  sc_task_t *t = arg;
  sc_world_wake(t->attempt->config.world, &t->slot->actor);
}

static void init_task(sc_attempt_t *a, uint32_t index) {
  sc_task_t *t = &a->tasks[index];
  const sc_graph_t *g = a->config.graph;
  t->attempt = a;
  t->index = index;
  t->plan = sc_graph_task(g, index, &t->subtask);
  t->slot = &a->slots[t->subtask % a->config.n_slots];
  t->is_source = g->nodes[t->plan->nodes[0]].type->is_source;
  t->deferred_tail = &t->deferred;
  t->wake_at_ms = INT64_MAX;
  atomic_init(&t->poked, false);
  atomic_init(&t->pending_records, -1);
  atomic_init(&t->pending_bytes, -1);
  t->stride = 1;
  char *chain = sc_graph_chain_name(g, t->plan);
  t->name = sc_format("%s %u/%u", chain, t->subtask + 1, t->plan->parallelism);
  t->chain_name = chain;
  sc_chain_init(&t->chain, g, t->plan, t);
  t->chain.overdraft = a->config.overdraft_buffers;
  sc_slot_t *s = t->slot;
  s->tasks = sc_realloc(s->tasks, (s->n_tasks + 1) * sizeof *s->tasks);
  s->tasks[s->n_tasks++] = t;
}

typedef struct wiring {
  sc_channel_t ***channels; /* for each task: its inputs */
  uint32_t **ports;
  uint32_t *n;
} wiring_t;

static sc_channel_t *connect_tasks(sc_attempt_t *a, wiring_t *w, sc_task_t *from, sc_task_t *to,
                                   const sc_edge_t *e, sc_floating_t *floating) {
  bool same = from->slot == to->slot; /* one thread: it looks at all its tasks before it sleeps */
  sc_channel_ends_t ends = {
      .wake = same ? NULL : wake_task, .producer_arg = from, .consumer_arg = to};
  sc_channel_t *ch = sc_channel_create(a->config.exclusive_buffers, floating, &ends);
  if (a->config.debloat.enabled)
    sc_channel_set_buffer_size(ch, sc_debloat_start_size(sc_pool_segment_size(a->pool)));
  sc_channel_set_name(ch, &(sc_channel_name_t){
                              .edge = (uint32_t)(e - a->config.graph->edges),
                              .sender = from->subtask,
                              .receiver = to->subtask,
                              .rigid = sc_partitioner_rigid(e->partitioner)});
  a->channels = sc_realloc(a->channels, (a->n_channels + 1) * sizeof *a->channels);
  a->channels[a->n_channels++] = ch;
  uint32_t i = to->index, n = w->n[i]++;
  w->channels[i] = sc_realloc(w->channels[i], (n + 1) * sizeof **w->channels);
  w->ports[i] = sc_realloc(w->ports[i], (n + 1) * sizeof **w->ports);
  w->channels[i][n] = ch;
  w->ports[i][n] = e->port;
  return ch;
}

static void add_output(sc_attempt_t *a, sc_task_t *from, const sc_edge_t *e,
                       sc_channel_t **channels, uint32_t n) {
  const sc_graph_t *g = a->config.graph;
  sc_partitioner_t p;
  sc_partitioner_init(&p, e->partitioner, n, g->nodes[e->to].max_parallelism, from->subtask);
  sc_output_t *o = sc_output_create(&p, channels, a->pool);
  a->outputs = sc_realloc(a->outputs, (a->n_outputs + 1) * sizeof *a->outputs);
  a->outputs[a->n_outputs++] = o;
  sc_chain_add_exit(&from->chain, g->nodes[e->from].position, e->output, o, e);
}

static void wire_edge(sc_attempt_t *a, wiring_t *w, const sc_edge_t *e) {
  const sc_graph_t *g = a->config.graph;
  uint32_t senders = g->nodes[e->from].parallelism, receivers = g->nodes[e->to].parallelism;
  sc_floating_t **floating = sc_calloc(receivers, sizeof *floating); /* a gate's: of one receiver */
  for (uint32_t r = 0; r < receivers; r++)
    floating[r] = sc_floating_create(a->config.floating_buffers);
  sc_channel_t **channels = sc_calloc(receivers, sizeof *channels);
  for (uint32_t s = 0; s < senders; s++) {
    bool one = e->partitioner == SC_FORWARD;
    uint32_t n = one ? 1 : receivers;
    for (uint32_t r = 0; r < n; r++) {
      uint32_t to = one ? s : r;
      channels[r] = connect_tasks(a, w, task_of(a, e->from, s), task_of(a, e->to, to), e,
                                  floating[to]);
    }
    add_output(a, task_of(a, e->from, s), e, channels, n);
  }
  for (uint32_t r = 0; r < receivers; r++)
    sc_floating_unref(floating[r]);
  free(floating);
  free(channels);
}

static void wire(sc_attempt_t *a) {
  const sc_graph_t *g = a->config.graph;
  wiring_t w = {sc_calloc(g->n_tasks, sizeof *w.channels), sc_calloc(g->n_tasks, sizeof *w.ports),
                sc_calloc(g->n_tasks, sizeof *w.n)};
  for (uint32_t i = 0; i < g->n_edges; i++)
    if (!g->edges[i].chained && a->config.regions->of_node[g->edges[i].to] == a->config.region)
      wire_edge(a, &w, &g->edges[i]);
  for (uint32_t i = 0; i < g->n_tasks; i++) {
    if (!is_here(a, i))
      continue;
    a->tasks[i].input = sc_input_create(w.channels[i], w.ports[i], w.n[i]);
    if (a->config.at_least_once)
      sc_input_count_only(a->tasks[i].input);
    sc_input_set_alarm(a->tasks[i].input, &a->tasks[i].slot->alarm);
    a->tasks[i].n_channels = w.n[i];
    a->tasks[i].flow = sc_flow_create(sc_task_n_counters(&a->tasks[i]));
    if (a->config.debloat.enabled && w.n[i])
      a->tasks[i].debloater = sc_debloater_create(&a->config.debloat,
                                                  sc_pool_segment_size(a->pool),
                                                  sc_input_n_gates(a->tasks[i].input));
    free(w.channels[i]);
    free(w.ports[i]);
  }
  free(w.channels);
  free(w.ports);
  free(w.n);
}

static void init_slot(sc_attempt_t *a, uint32_t i) {
  sc_slot_t *s = &a->slots[i];
  s->attempt = a;
  s->index = i;
  atomic_init(&s->down, false);
  atomic_init(&s->alarm, false);
  atomic_init(&s->running, NULL);
  atomic_init(&s->turns, 0);
  s->watch.canceled = &a->canceled;
  atomic_init(&s->watch.asked, false);
  atomic_init(&s->watch.reached, false);
  s->watch.seen = sc__slot_seen;
  s->watch.arg = s;
  sc_buf_t name = SC_BUF_INIT;
  sc_buf_printf(&name, "sc-slot-%u", i);
  sc_buf_put_u8(&name, 0);
  memcpy(s->name, name.data, name.len < sizeof s->name ? name.len : sizeof s->name - 1);
  sc_buf_free(&name);
  s->actor = (sc_actor_t){.ops = &sc_slot_actor_ops, .arg = s, .name = s->name};
  sc_mailbox_init(&s->mailbox, a->config.world, &s->actor);
}

/* A chain is restored as finished where all its operators were and nothing will feed it again: a
 * new operator upstream may have something to say. Chains are in topological order. */
static void find_finished(sc_attempt_t *a) {
  const sc_graph_t *g = a->config.graph;
  a->chain_finished = sc_calloc(g->n_chains, sizeof *a->chain_finished);
  for (uint32_t i = 0; a->config.restore && i < g->n_chains; i++) {
    const sc_chain_plan_t *c = &g->chains[i];
    bool finished = true;
    for (uint32_t n = 0; n < c->n_nodes; n++) {
      const sc_restore_operator_t *plan = a->config.restore[c->nodes[n]];
      finished &= plan && plan->finished;
    }
    for (uint32_t e = 0; e < g->n_edges; e++)
      if (g->edges[e].to == c->nodes[0])
        finished &= a->chain_finished[g->nodes[g->edges[e].from].chain];
    a->chain_finished[i] = finished;
  }
}

static bool is_captured(const sc_graph_t *g, const sc_chain_plan_t *chain) {
  for (uint32_t e = 0; e < g->n_edges; e++) {
    const sc_edge_t *edge = &g->edges[e];
    bool touches = edge->to == chain->nodes[0] || &g->chains[g->nodes[edge->from].chain] == chain;
    if (!edge->chained && touches && !sc_partitioner_rigid(edge->partitioner))
      return true;
  }
  return false;
}

/* Tasks of one slot do things in the same round: they share files first. */
static void share_files(sc_attempt_t *a) {
  const sc_attempt_config_t *c = &a->config;
  a->files = sc_inflight_files_create(&(sc_inflight_files_config_t){
      .world = c->world, .storage = c->storage, .graph = c->graph, .job_dir = c->job_dir,
      .attempt = c->number, .region = c->region, .per_file = c->subtasks_per_file,
      .generation = sc_inflight_plan_generation(c->inflight)});
  for (uint32_t s = 0; s < c->n_slots; s++)
    for (uint32_t i = 0; i < a->slots[s].n_tasks; i++) {
      sc_task_t *t = a->slots[s].tasks[i];
      t->member = is_captured(c->graph, t->plan) ? sc_inflight_files_join(a->files) : UINT32_MAX;
    }
}

sc_attempt_t *sc_attempt_create(const sc_attempt_config_t *config) {
  sc_attempt_t *a = sc_calloc(1, sizeof *a);
  a->config = *config;
  uint32_t useful = config->regions->parallelism[config->region];
  if (useful < config->n_slots)
    a->config.n_slots = useful;
  a->pool = sc_pool_create(config->segment_size);
  pthread_mutex_init(&a->counters_lock, NULL);
  a->slots = sc_calloc(a->config.n_slots, sizeof *a->slots);
  for (uint32_t i = 0; i < a->config.n_slots; i++)
    init_slot(a, i);
  a->tasks = sc_calloc(config->graph->n_tasks, sizeof *a->tasks);
  for (uint32_t i = 0; i < config->graph->n_tasks; i++)
    if (is_here(a, i))
      init_task(a, i);
  wire(a);
  share_files(a);
  find_finished(a);
  atomic_init(&a->deployed, false);
  atomic_init(&a->drained, false);
  atomic_init(&a->canceled, false);
  atomic_init(&a->refs, a->config.n_slots);
  return a;
}

static void wake_slots(sc_attempt_t *a) {
  for (uint32_t i = 0; i < a->config.n_slots; i++)
    if (a->slots[i].actor.impl)
      sc_world_wake(a->config.world, &a->slots[i].actor);
}

int sc_attempt_deploy(sc_attempt_t *a, sc_error_t *err) {
  for (uint32_t i = 0; i < a->config.n_slots; i++) {
    int rc = sc_world_spawn(a->config.world, &a->slots[i].actor, err);
    if (rc < 0) { /* the ones that run take themselves down; the others never came */
      for (uint32_t k = i; k < a->config.n_slots; k++) {
        atomic_store(&a->slots[k].down, true);
        sc_attempt_unref(a);
      }
      sc_attempt_cancel(a);
      return rc;
    }
  }
  atomic_store(&a->deployed, true);
  wake_slots(a);
  return 0;
}

void sc_attempt_cancel(sc_attempt_t *a) {
  atomic_store(&a->canceled, true);
  wake_slots(a);
}

void sc_attempt_interrupt(sc_attempt_t *a) {
  for (uint32_t i = 0; i < a->config.n_slots; i++)
    if (a->slots[i].actor.impl && !atomic_load(&a->slots[i].down))
      sc_world_interrupt(a->config.world, &a->slots[i].actor);
}

void sc_attempt_sample(sc_attempt_t *a, const bool *waits,
                       void (*blocked)(void *arg, uint32_t task), void *arg) {
  for (uint32_t i = 0; a->config.host.create && i < a->config.n_slots; i++) {
    sc_slot_t *s = &a->slots[i];
    const char *running = atomic_load(&s->running);
    uint64_t turn = atomic_load(&s->turns);
    const sc_task_t *t = sc__slot_runs(s, running);
    if (!s->actor.impl || atomic_load(&s->down) || !t || !waits[t->index])
      continue;
    bool same = s->sampled.running == running && s->sampled.turn == turn;
    /* Not to have answered says something only of a thread that had a processor meanwhile. */
    bool ran = atomic_load(&s->watch.reached);
    if (same && ran && atomic_load(&s->watch.asked)) {
      blocked(arg, t->index);
      continue;
    }
    s->sampled.running = running;
    s->sampled.turn = turn;
    atomic_store(&s->watch.reached, false);
    atomic_store(&s->watch.asked, true);
    sc_world_sample(a->config.world, &s->actor);
  }
}

static void destroy_task(sc_task_t *t) {
  sc_task_drop_works(t);
  sc_task_replay_end(t);
  sc_chain_fini(&t->chain);
  sc_input_destroy(t->input);
  sc_timers_destroy(t->timers);
  sc_keyed_destroy(t->keyed);
  sc_error_clear(&t->error);
  sc_flow_destroy(t->flow);
  sc_debloater_destroy(t->debloater);
  free(t->chain_name);
  free(t->name);
}

void sc_attempt_destroy(sc_attempt_t *a) {
  if (!a)
    return;
  for (uint32_t i = 0; i < a->config.n_slots; i++) {
    sc_world_retire(a->config.world, &a->slots[i].actor, -1);
    sc_mailbox_fini(&a->slots[i].mailbox);
    free(a->slots[i].tasks);
  }
  for (uint32_t i = 0; i < a->config.graph->n_tasks; i++)
    if (is_here(a, i))
      destroy_task(&a->tasks[i]);
  for (uint32_t i = 0; i < a->n_outputs; i++)
    sc_output_destroy(a->outputs[i]);
  for (uint32_t i = 0; i < a->n_channels; i++)
    sc_channel_destroy(a->channels[i]);
  sc_inflight_files_destroy(a->files);
  while (a->counters) {
    sc_named_counter_t *c = a->counters;
    a->counters = c->next;
    free(c->name);
    free(c);
  }
  sc_pool_destroy(a->pool);
  pthread_mutex_destroy(&a->counters_lock);
  free(a->chain_finished);
  free(a->outputs);
  free(a->channels);
  free(a->tasks);
  free(a->slots);
  free(a);
}
