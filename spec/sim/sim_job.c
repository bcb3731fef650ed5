#include "sim_job.h"

#include <stdlib.h>

#include "../../core/base/mem.h"
#include "../../core/operator/file_sink.h"
#include "../../core/operator/watermarks.h"
#include "sim_check.h"

/* The operator that makes a source's watermarks goes between it and all its readers. Splits may be
 * read in any order, so a record may be as late as all of them are long. */
static int add_time(sc_graph_t *g, const sim_node_t *n, const sc_node_spec_t *source, int index,
                    sc_error_t *err) {
  sc_buf_t options = SC_BUF_INIT;
  char *uid = sc_format("time-%s", n->uid);
  sc_pack_map(&options, 1);
  sc_pack_cstr(&options, "out_of_orderness");
  sc_pack_int(&options, (int64_t)n->splits * SIM_SPLIT_MS);
  sc_node_spec_t spec = {.uid = uid,
                         .name = uid,
                         .type = &sc_watermarks_type,
                         .options = sc_buf_bytes(&options),
                         .parallelism = source->parallelism,
                         .max_parallelism = source->max_parallelism,
                         .start_new_chain = n->salt % 3 == 0};
  int time = sc_graph_add(g, &spec, err), rc = time;
  if (time >= 0)
    rc = sc_graph_connect(g, (uint32_t)index, "main", (uint32_t)time, 0, SC_FORWARD, NULL, 0, err);
  sc_buf_free(&options);
  free(uid);
  return rc < 0 ? rc : time;
}

static int add_node(sim_job_t *j, sc_graph_t *g, uint32_t i, int *index, sc_error_t *err) {
  const sim_node_t *n = &j->plan->nodes[i];
  static const char *const outputs[] = {"main", "pt"};
  j->places[i] = (sim_place_t){j->shared, n};
  bool sink = n->kind == SIM_SINK, keyed = n->kind == SIM_KEYED;
  sc_buf_t options = SC_BUF_INIT;
  sc_pack_map(&options, 1);
  sc_pack_cstr(&options, "dir");
  sc_pack_cstr(&options, SIM_OUT);
  sc_node_spec_t spec = {.uid = n->uid,
                         .name = n->uid,
                         .data = &j->places[i],
                         .keyed = keyed,
                         .type = sink ? &sc_file_sink_type : sim_operator_type(n),
                         .options = sc_buf_bytes(&options),
                         .parallelism = sim_plan_parallelism(j->plan, n->class, j->life),
                         .max_parallelism = j->plan->max_parallelism,
                         .start_new_chain = n->new_chain,
                         .outputs = outputs,
                         .n_outputs = keyed ? 2 : 1};
  int rc = sc_graph_add(g, &spec, err);
  if (rc >= 0 && n->timed)
    rc = add_time(g, n, &spec, rc, err);
  index[i] = rc;
  sc_buf_free(&options);
  return rc < 0 ? rc : 0;
}

static int connect(sim_job_t *j, sc_graph_t *g, uint32_t i, const int *index, sc_error_t *err) {
  static const char *const key[] = {"k"};
  int rc = 0;
  for (uint32_t k = 0; rc == 0 && k < j->plan->nodes[i].n_inputs; k++) {
    const sim_input_t *in = &j->plan->nodes[i].inputs[k];
    bool hash = in->edge == SC_HASH;
    const char *output = in->side ? "pt" : "main";
    uint32_t from = (uint32_t)index[in->from], to = (uint32_t)index[i];
    rc = in->unnamed ? sc_graph_connect_unnamed(g, from, output, to, 0, err)
                     : sc_graph_connect(g, from, output, to, 0, in->edge, hash ? key : NULL,
                                        hash ? 1 : 0, err);
  }
  return rc < 0 ? rc : 0;
}

sc_graph_t *sim_job_graph(sim_job_t *j) {
  sc_graph_t *g = sc_graph_create();
  sc_error_t err = SC_ERROR_INIT;
  int index[SIM_NODES], rc = 0;
  for (uint32_t i = 0; rc == 0 && i < j->plan->n_nodes; i++)
    if (!j->plan->nodes[i].left_out)
      rc = add_node(j, g, i, index, &err);
  for (uint32_t i = 0; rc == 0 && i < j->plan->n_nodes; i++)
    if (!j->plan->nodes[i].left_out)
      rc = connect(j, g, i, index, &err);
  if (rc == 0)
    rc = sc_graph_finish(g, &err);
  if (rc < 0)
    sim_wrong(j->shared, "the graph is refused: %s", err.message);
  return g;
}

void sim_job_options(const sim_job_t *j, const char *from, sc_job_options_t *o) {
  const sim_plan_t *p = j->plan;
  bool calm = j->shared->calm;
  sim_settings_t s;
  sim_plan_settings(p, j->life, &s);
  bool timed = s.mode == SIM_TIMED;
  *o = (sc_job_options_t){.id = sim_job_id(j->shared),
                          .name = sim_job_id(j->shared),
                          .dir = p->no_dir ? NULL : SIM_CKPT,
                          .externalized = SC_EXTERNALIZED_RETAIN,
                          .at_least_once = s.mode == SIM_AT_LEAST_ONCE,
                          .checkpoint = {.interval_ms = p->no_checkpoints ? 0 : p->interval_ms,
                                         .timeout_ms = calm ? 600000 : p->timeout_ms,
                                         .min_pause_ms = p->min_pause_ms,
                                         .max_concurrent = s.max_concurrent,
                                         .unaligned = timed || s.mode == SIM_OVERTAKING,
                                         .aligned_timeout_ms = timed ? s.aligned_timeout_ms : 0,
                                         .tolerable_failures = calm ? -1 : p->tolerable,
                                         .all_or_none = p->all_or_none,
                                         .retain = p->retain},
                          .restart = {.kind = SC_RESTART_FIXED_DELAY,
                                      .attempts = p->restarts,
                                      .delay_ms = p->restart_ms},
                          .n_slots = sim_plan_slots(p, j->life),
                          .segment_size = s.segment_size,
                          .exclusive_buffers = s.exclusive,
                          .floating_buffers = s.floating,
                          .overdraft_buffers = s.overdraft,
                          .debloat = s.debloat,
                          .buffer_timeout_ms = s.buffer_timeout_ms,
                          .log_level = SC_LOG_OFF,
                          .from = from};
}
