#include "sim_plan.h"

#include <inttypes.h>
#include <stdio.h>

#include "../../core/base/error.h"
#include "../../core/base/random.h"
#include "../../core/sim/sim_storage.h"
#include "sim_draw.h"

int64_t sim_mix(int64_t a, int64_t b) {
  sc_random_t r;
  sc_random_init(&r, (uint64_t)a * 0x9E3779B97F4A7C15u ^ (uint64_t)b * 0xC2B2AE3D27D4EB4Fu);
  return (int64_t)(sc_random_next(&r) >> 33);
}

int64_t sim_timestamp(const sim_node_t *source, int64_t split, int64_t seq) {
  return split * SIM_SPLIT_MS + seq * SIM_SPLIT_MS / (source->records + 1) / 10 * 10;
}

/* ---- cutting ---- */

static void leave_out(sim_plan_t *p) {
  const sim_cut_t *c = &p->cut;
  for (uint32_t i = 0; i < p->n_disturbances; i++)
    p->disturbances[i].left_out = c->no_disturbance >> i & 1;
  for (uint32_t i = 0; i < p->n_nodes; i++) {
    sim_node_t *n = &p->nodes[i];
    n->left_out = c->no_node >> i & 1;
    if (c->max_splits && n->splits > c->max_splits)
      n->splits = c->max_splits;
    if (c->max_records && n->records > c->max_records)
      n->records = c->max_records;
  }
}

/* Whoever read from an operator that is left out reads from what that one read first. */
static void reconnect(sim_plan_t *p) {
  for (uint32_t i = 0; i < p->n_nodes; i++) {
    sim_node_t *n = &p->nodes[i];
    uint32_t kept = 0;
    for (uint32_t k = 0; k < n->n_inputs; k++) {
      sim_input_t in = n->inputs[k];
      while (p->nodes[in.from].left_out && p->nodes[in.from].n_inputs && !in.side) {
        in.side = p->nodes[in.from].inputs[0].side;
        in.from = p->nodes[in.from].inputs[0].from;
      }
      bool twice = false;
      for (uint32_t x = 0; x < kept; x++)
        twice |= n->inputs[x].from == in.from && n->inputs[x].side == in.side;
      if (!twice && !p->nodes[in.from].left_out)
        n->inputs[kept++] = in;
    }
    n->n_inputs = kept;
    n->left_out |= n->kind != SIM_SOURCE && kept == 0;
  }
  for (uint32_t i = p->n_nodes; i-- > 0;) /* what has lost its readers is of no use */
    if (p->nodes[i].kind != SIM_SINK && !p->nodes[i].left_out) {
      bool used = false;
      for (uint32_t k = i + 1; k < p->n_nodes; k++)
        for (uint32_t x = 0; x < p->nodes[k].n_inputs && !p->nodes[k].left_out; x++)
          used |= p->nodes[k].inputs[x].from == (int)i;
      p->nodes[i].left_out = !used;
    }
}

/* Both ends of an edge are of one region; an edge may join two that were told apart before. */
static void find_regions(sim_plan_t *p) {
  for (uint32_t i = 0; i < p->n_nodes; i++)
    p->nodes[i].region = (int)i;
  for (uint32_t round = 0; round < p->n_nodes; round++)
    for (uint32_t i = 0; i < p->n_nodes; i++)
      for (uint32_t k = 0; k < p->nodes[i].n_inputs && !p->nodes[i].left_out; k++) {
        int *a = &p->nodes[i].region, *b = &p->nodes[p->nodes[i].inputs[k].from].region;
        *a = *b = *a < *b ? *a : *b;
      }
}

/* Forward edges need equal parallelism; who leaves in order follows from who comes in order. */
static void finish(sim_plan_t *p) {
  for (uint32_t i = 0; i < p->n_nodes; i++) {
    sim_node_t *n = &p->nodes[i];
    n->ordered = n->kind != SIM_BUFFER && n->kind != SIM_SHARE;
    for (uint32_t k = 0; k < n->n_inputs; k++) {
      sim_input_t *in = &n->inputs[k];
      if (in->edge == SC_FORWARD && p->nodes[in->from].class != n->class)
        in->edge = SC_REBALANCE;
      n->ordered &= p->nodes[in->from].ordered && in->edge != SC_REBALANCE && !in->side;
    }
  }
}

void sim_plan_make(sim_plan_t *p, uint64_t seed, const sim_cut_t *cut) {
  *p = (sim_plan_t){.seed = seed};
  if (cut)
    p->cut = *cut;
  sim_draw(p);
  leave_out(p);
  reconnect(p);
  finish(p);
  find_regions(p);
}

uint32_t sim_plan_parallelism(const sim_plan_t *p, uint32_t class, uint32_t life) {
  /* In a third of the lives nothing changes. */
  int64_t when = sim_mix((int64_t)p->seed, life) % 3 ? life : 0;
  uint32_t n = 1 + (uint32_t)sim_mix((int64_t)p->seed + 7 * when, class) % 3;
  return p->cut.max_parallelism && n > p->cut.max_parallelism ? p->cut.max_parallelism : n;
}

/* ---- what differs between lives ---- */

static int64_t one_of(int64_t lot, const int64_t *list, uint32_t n) { return list[lot % n]; }
#define ONE_OF(lot, ...)                                                                           \
  one_of(lot, (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static void change_mode(const sim_plan_t *p, uint32_t life, sim_settings_t *s) {
  int64_t lot = sim_mix((int64_t)p->seed, 3000 + life);
  s->mode = (sim_mode_t)ONE_OF(lot / 4, SIM_ALIGNED, SIM_OVERTAKING, SIM_TIMED);
  if (p->at_least_once && lot % 2)
    s->mode = SIM_AT_LEAST_ONCE;
  if (p->alternates)
    s->mode = life % 2 ? SIM_AT_LEAST_ONCE : p->first.mode;
  s->aligned_timeout_ms = ONE_OF(lot / 16, 1, 5, 30, 200);
}

static void change_network(int64_t lot, sim_settings_t *s) {
  s->segment_size = (uint32_t)ONE_OF(lot, 64, 200, 1000, 32768);
  s->exclusive = (uint32_t)ONE_OF(lot / 4, 1, 1, 2, 4);
  s->floating = (uint32_t)ONE_OF(lot / 16, 0, 0, 1, 8);
  s->overdraft = (uint32_t)ONE_OF(lot / 64, 0, 1, 5, 5);
  s->buffer_timeout_ms = ONE_OF(lot / 256, 0, 1, 10, 100);
  s->debloat.enabled = s->debloat.period_ms && lot / 1024 % 3 == 0;
}

void sim_plan_settings(const sim_plan_t *p, uint32_t life, sim_settings_t *out) {
  *out = p->first;
  if (p->modes && life)
    change_mode(p, life, out);
  if (p->networks && life)
    change_network(sim_mix((int64_t)p->seed, 4000 + life), out);
  if (out->mode == SIM_OVERTAKING || out->mode == SIM_TIMED)
    out->max_concurrent = 1;
}

const char *sim_mode_name(sim_mode_t mode) {
  static const char *const names[] = {"aligned", "overtaking", "overtaking after a time",
                                      "at least once"};
  return names[mode];
}

uint32_t sim_plan_slots(const sim_plan_t *p, uint32_t life) {
  return 1 + (uint32_t)sim_mix((int64_t)p->seed, 1000 + life) % 4;
}

/* ---- printing ---- */

static void print_node(const sim_node_t *n, const sim_plan_t *p, sc_buf_t *out) {
  static const char *const maps[] = {"same", "filter", "flat", "rekey"};
  sc_buf_printf(out, "  %-7s x%u ", n->uid, sim_plan_parallelism(p, n->class, 0));
  for (uint32_t i = 0; i < n->n_inputs; i++)
    sc_buf_printf(out, " <-%s- %s%s",
                  n->inputs[i].unnamed ? "unnamed" : sc_partitioner_name(n->inputs[i].edge),
                  p->nodes[n->inputs[i].from].uid, n->inputs[i].side ? ".pt" : "");
  switch (n->kind) {
    case SIM_SOURCE:
      sc_buf_printf(out, " %u splits of %u records, %u keys, pauses of %" PRId64 " ms", n->splits,
                    n->records, n->keys, n->pause_ms);
      sc_buf_printf(out, "%s%s", n->timed ? ", native watermarks" : "", p->idles ? ", idles" : "");
      break;
    case SIM_MAP: sc_buf_printf(out, " (%s)", maps[n->map]); break;
    case SIM_BUFFER: sc_buf_printf(out, " (holds %u)", n->hold); break;
    case SIM_KEYED:
      sc_buf_printf(out, " (windows of %" PRId64 " ms%s)", n->window_ms,
                    n->pt ? ", pt timers" : "");
      break;
    default: break;
  }
  if (n->slow_ns)
    sc_buf_printf(out, ", a record takes %" PRId64 " us", n->slow_ns / 1000);
  sc_buf_puts(out, "\n");
}

static void print_disturbance(const sim_disturbance_t *d, sc_buf_t *out) {
  const char *what = d->mask == SC_SIM_CHANGES ? "any change" : sc_sim_op_name(d->mask);
  switch (d->kind) {
    case SIM_CRASH_TURN:
    case SIM_CRASH_DONE:
    case SIM_CRASH_OP:
      sc_buf_printf(out, "  the process dies at %s %" PRIu64 " (%s)%s",
                    d->kind == SIM_CRASH_OP ? "operation" : "turn", d->at,
                    d->kind == SIM_CRASH_OP ? what : "scheduler",
                    d->power ? ", with loss of what is not synced" : "");
      break;
    case SIM_FAULT:
      sc_buf_printf(out, "  %u times %s fails from operation %" PRIu64 " on: %s", d->times, what,
                    d->at, sc_error_name(d->code));
      break;
    case SIM_RAISE:
      sc_buf_printf(out, "  an operator fails at its call %" PRIu64 "", d->at);
      break;
    case SIM_CANCEL: sc_buf_printf(out, "  the user cancels at turn %" PRIu64 "", d->at); break;
    case SIM_ASK:
      sc_buf_printf(out, "  the user asks for a checkpoint at turn %" PRIu64 "", d->at);
      break;
    case SIM_STOP: sc_buf_printf(out, "  the user stops at turn %" PRIu64 "", d->at); break;
    case SIM_DRAIN: sc_buf_printf(out, "  the user drains at turn %" PRIu64 "", d->at); break;
  }
  if (d->after)
    sc_buf_printf(out, ", counted from %s checkpoint %" PRIu64 " on",
                  d->writing ? "the writing of" : "completed", d->after);
  sc_buf_puts(out, "\n");
}

static void print_settings(const sim_plan_t *p, sc_buf_t *out) {
  sim_settings_t s;
  sim_plan_settings(p, 0, &s);
  sc_buf_printf(out,
                "  checkpoints every %" PRId64 " ms, timeout %" PRId64 ", %u at once, %u kept; "
                "buffers of %u bytes, %u + %u, overdraft %u; max parallelism %u\n",
                p->interval_ms, p->timeout_ms, s.max_concurrent, p->retain, s.segment_size,
                s.exclusive, s.floating, s.overdraft, p->max_parallelism);
  sc_buf_printf(out, "  barriers: %s", sim_mode_name(s.mode));
  if (s.mode == SIM_TIMED)
    sc_buf_printf(out, ", %" PRId64 " ms", s.aligned_timeout_ms);
  if (s.debloat.enabled)
    sc_buf_printf(out, "; buffers follow throughput: %" PRId64 " ms of work, every %" PRId64 " ms",
                  s.debloat.target_ms, s.debloat.period_ms);
  sc_buf_printf(out, "%s%s\n", p->modes ? "; another mode in each life" : "",
                p->networks ? "; other buffers in each life" : "");
}

void sim_plan_print(const sim_plan_t *p, sc_buf_t *out) {
  for (uint32_t i = 0; i < p->n_nodes; i++)
    if (!p->nodes[i].left_out)
      print_node(&p->nodes[i], p, out);
  print_settings(p, out);
  if (p->clock_set_ms)
    sc_buf_printf(out, "  the clock is set now and then, by up to %" PRId64 " ms\n",
                  p->clock_set_ms);
  if (p->moves)
    sc_buf_puts(out, "  a start goes on as another job, with a folder of its own\n");
  if (p->stall_one_in)
    sc_buf_printf(out, "  each %uth write of a file takes 50 times as long\n",
                  p->stall_one_in);
  if (p->no_checkpoints)
    sc_buf_puts(out, "  no checkpoints are taken\n");
  if (p->older)
    sc_buf_puts(out, "  some starts go back to a checkpoint that is not the newest\n");
  for (uint32_t i = 0; i < p->n_disturbances; i++)
    if (!p->disturbances[i].left_out)
      print_disturbance(&p->disturbances[i], out);
}
