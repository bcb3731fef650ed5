#include "sim_model.h"

#include <stdlib.h>

#include "../../core/base/mem.h"

void sim_list_add(sim_list_t *list, const sim_record_t *r) {
  list->list = sc_realloc(list->list, (list->n + 1) * sizeof *list->list);
  list->list[list->n++] = *r;
}

static int compare(const void *a, const void *b) {
  const sim_record_t *x = a, *y = b;
  if (x->l != y->l)
    return x->l < y->l ? -1 : 1;
  if (x->s != y->s)
    return x->s < y->s ? -1 : 1;
  return x->k < y->k ? -1 : x->k > y->k;
}

void sim_list_sort(sim_list_t *list) {
  if (list->n)
    qsort(list->list, list->n, sizeof *list->list, compare);
}

const sim_record_t *sim_list_find(const sim_list_t *list, const sim_record_t *r) {
  for (uint32_t i = 0; i < list->n; i++)
    if (compare(&list->list[i], r) == 0)
      return &list->list[i];
  return NULL;
}

/* Results of windows: all records of one key and window together, whatever their order. */
static void add_windows(const sim_node_t *n, const sim_list_t *in, sim_list_t *out) {
  for (uint32_t i = 0; i < in->n; i++) {
    int64_t key = in->list[i].k, end = sim_window_end(n, &in->list[i]), digest[2] = {0, 0};
    bool first = true;
    for (uint32_t x = 0; x < in->n; x++) {
      if (in->list[x].k != key || sim_window_end(n, &in->list[x]) != end)
        continue;
      first &= x >= i;
      sim_window_add(digest, &in->list[x]);
    }
    if (!first)
      continue;
    sim_record_t r = sim_window_record(n, key, end, digest);
    sim_list_add(out, &r);
  }
}

static void run_source(const sim_node_t *n, const uint32_t *read, sim_list_t *out) {
  for (uint32_t split = 0; split < n->splits; split++)
    for (uint32_t seq = 0; seq < (read ? read[split] : n->records); seq++) {
      sim_record_t r;
      sim_source_record(n, split, seq, &r);
      sim_list_add(out, &r);
    }
}

static void run_node(sim_model_t *m, const sim_plan_t *p, const sim_ends_t *ends, uint32_t at) {
  const sim_node_t *n = &p->nodes[at];
  sim_list_t *in = &m->in[at], *out = &m->out[at];
  if (n->kind == SIM_SOURCE)
    run_source(n, ends ? ends->read[at] : NULL, out);
  for (uint32_t k = 0; k < n->n_inputs; k++) {
    const sim_list_t *from = n->inputs[k].side ? &m->pt[n->inputs[k].from]
                                               : &m->out[n->inputs[k].from];
    for (uint32_t i = 0; i < from->n; i++)
      sim_list_add(in, &from->list[i]);
  }
  sim_list_sort(in);
  for (uint32_t i = 0; i < in->n && n->kind != SIM_SINK; i++) {
    sim_record_t made[2] = {sim_pass_record(n, &in->list[i])}, pt = sim_pt_record(n, &in->list[i]);
    uint32_t many = n->kind == SIM_MAP ? sim_map_record(n, &in->list[i], made) : 1;
    for (uint32_t x = 0; x < many; x++)
      sim_list_add(out, &made[x]);
    if (n->kind == SIM_KEYED && sim_has_pt(n, &in->list[i]))
      sim_list_add(&m->pt[at], &pt);
  }
  if (n->kind == SIM_KEYED)
    add_windows(n, in, out);
}

sim_model_t *sim_model_create(const sim_plan_t *p, const sim_ends_t *ends) {
  sim_model_t *m = sc_calloc(1, sizeof *m);
  for (uint32_t i = 0; i < p->n_nodes; i++) /* a node reads from earlier ones only */
    if (!p->nodes[i].left_out)
      run_node(m, p, ends, i);
  return m;
}

void sim_model_destroy(sim_model_t *m) {
  if (!m)
    return;
  for (uint32_t i = 0; i < SIM_NODES; i++) {
    free(m->in[i].list);
    free(m->out[i].list);
    free(m->pt[i].list);
  }
  free(m);
}
