#include "sim_draw.h"

#include <stdio.h>

#include "../../core/base/error.h"
#include "../../core/base/random.h"
#include "../../core/sim/sim_storage.h"

#define TROUBLES (SIM_DISTURBANCES - 2) /* the rest is for the drains */

static uint32_t below(sc_random_t *r, uint32_t n) { return (uint32_t)sc_random_below(r, n); }
static bool one_in(sc_random_t *r, uint32_t n) { return below(r, n) == 0; }

static int64_t one_of(sc_random_t *r, const int64_t *list, uint32_t n) { return list[below(r, n)]; }
#define ONE_OF(r, ...)                                                                             \
  one_of(r, (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* A third of all moments lies near the beginning, where a job opens its folders; the others lie
 * anywhere in a run of the usual length, or beyond it. */
static uint64_t some_time(sc_random_t *r, uint64_t most) {
  uint64_t top = 8;
  if (!one_in(r, 3))
    return 1 + sc_random_below(r, one_in(r, 2) ? most : most / 5);
  while (top < most && !one_in(r, 6))
    top *= 2;
  return 1 + sc_random_below(r, top < most ? top : most);
}

static sim_node_t *add_node(sim_plan_t *p, sc_random_t *r, sim_kind_t kind) {
  static const char *const names[] = {"src", "map", "buf", "share", "keyed", "sink"};
  sim_node_t *n = &p->nodes[p->n_nodes];
  *n = (sim_node_t){.kind = kind, .class = below(r, SIM_CLASSES), .new_chain = one_in(r, 5)};
  n->salt = sim_mix((int64_t)p->seed, p->n_nodes + 1);
  snprintf(n->uid, sizeof n->uid, "%s%u", names[kind], p->n_nodes);
  p->n_nodes++;
  return n;
}

static void draw_source(sim_plan_t *p, sc_random_t *r) {
  sim_node_t *n = add_node(p, r, SIM_SOURCE);
  n->splits = below(r, SIM_SPLITS) + (one_in(r, 10) ? 0 : 1);
  n->records = 1 + below(r, one_in(r, 3) ? 40 : 12);
  n->keys = 1 + below(r, 8);
  n->pause_ms = ONE_OF(r, 0, 1, 5, 20, 100);
}

static sc_partitioner_kind_t draw_edge(sc_random_t *r, const sim_node_t *to) {
  if (to->kind == SIM_KEYED)
    return SC_HASH;
  if (to->kind == SIM_SHARE)
    return SC_BROADCAST;
  return (sc_partitioner_kind_t)ONE_OF(r, SC_FORWARD, SC_FORWARD, SC_HASH, SC_REBALANCE);
}

static void add_input(sc_random_t *r, sim_plan_t *p, sim_node_t *to, int from, bool side) {
  for (uint32_t i = 0; i < to->n_inputs; i++)
    if (to->inputs[i].from == from && to->inputs[i].side == side)
      return;
  if (to->n_inputs == SIM_INPUTS)
    return;
  sim_input_t *in = &to->inputs[to->n_inputs++];
  *in = (sim_input_t){from, side, draw_edge(r, to), false};
  if (in->edge == SC_FORWARD && to->n_inputs == 1)
    to->class = p->nodes[from].class;
}

/* Reads from operators that were drawn from `first` on. */
static void draw_operator(sim_plan_t *p, sc_random_t *r, int first) {
  static const int64_t kinds[] = {SIM_MAP, SIM_BUFFER, SIM_SHARE, SIM_KEYED, SIM_KEYED};
  int before = (int)p->n_nodes;
  sim_node_t *n = add_node(p, r, (sim_kind_t)one_of(r, kinds, 5));
  n->map = (sim_map_t)below(r, 4);
  n->hold = 1 + below(r, 6);
  n->window_ms = ONE_OF(r, 50, 200, 700, 3000);
  n->pt = one_in(r, 2);
  uint32_t inputs = one_in(r, 3) ? 2 : 1;
  for (uint32_t i = 0; i < inputs; i++)
    add_input(r, p, n,
              one_in(r, 2) ? before - 1 : first + (int)below(r, (uint32_t)(before - first)), false);
}

static bool is_used(const sim_plan_t *p, int node, bool side) {
  for (uint32_t i = 0; i < p->n_nodes; i++)
    for (uint32_t k = 0; k < p->nodes[i].n_inputs; k++)
      if (p->nodes[i].inputs[k].from == node && p->nodes[i].inputs[k].side == side)
        return true;
  return false;
}

/* What nobody reads goes to a sink. */
static void draw_sinks(sim_plan_t *p, sc_random_t *r, int first) {
  int n = (int)p->n_nodes;
  sim_node_t *sink = NULL;
  for (int i = first; i < n; i++) {
    bool side = p->nodes[i].kind == SIM_KEYED && p->nodes[i].pt && !one_in(r, 3);
    for (int s = 0; s <= side; s++) {
      if (is_used(p, i, s))
        continue;
      if (!sink || sink->n_inputs == SIM_INPUTS || (one_in(r, 3) && p->n_nodes < SIM_NODES))
        sink = add_node(p, r, SIM_SINK);
      add_input(r, p, sink, i, s);
    }
  }
}

static void draw_part(sim_plan_t *p, sc_random_t *r, uint32_t sources, uint32_t operators) {
  int first = (int)p->n_nodes;
  for (uint32_t i = 0; i < sources; i++)
    draw_source(p, r);
  for (uint32_t i = 0; i < operators; i++)
    draw_operator(p, r, first);
  draw_sinks(p, r, first);
}

static void draw_job(sim_plan_t *p, sc_random_t *r) {
  p->max_parallelism = (uint32_t)ONE_OF(r, 3, 4, 7, 128);
  p->interval_ms = ONE_OF(r, 2, 5, 20, 50, 200);
  p->timeout_ms = ONE_OF(r, 10, 50, 500, 10000, 600000, 600000);
  p->min_pause_ms = ONE_OF(r, 0, 0, 1, 10);
  p->first.max_concurrent = (uint32_t)ONE_OF(r, 1, 1, 2, 3);
  p->retain = (uint32_t)ONE_OF(r, 1, 1, 2, 3);
  p->restart_ms = ONE_OF(r, 0, 1, 10, 1000);
  p->restarts = ONE_OF(r, -1, -1, -1, 0, 1);
  p->tolerable = ONE_OF(r, -1, -1, -1, 0, 2);
  p->first.segment_size = (uint32_t)ONE_OF(r, 64, 200, 1000, 32768);
  p->first.exclusive = (uint32_t)ONE_OF(r, 1, 1, 2, 4);
  p->first.floating = (uint32_t)ONE_OF(r, 0, 0, 1, 8);
  p->first.buffer_timeout_ms = ONE_OF(r, 0, 1, 10, 100);
  p->look_ns = ONE_OF(r, 200, 5000, 50000, 300000);
  p->latency_ns = ONE_OF(r, 1000, 50000, 400000, 3000000);
  p->pool_threads = 1 + below(r, 4);
}

/* Drawn apart from the rest, which stays what it was. */
static void draw_barriers(sim_plan_t *p) {
  sc_random_t r;
  sc_random_init(&r, (uint64_t)sim_mix((int64_t)p->seed, 501));
  bool aligned = one_in(&r, 4);
  p->first.aligned_timeout_ms = ONE_OF(&r, 0, 0, 1, 5, 30, 200);
  p->first.overdraft = (uint32_t)ONE_OF(&r, 0, 1, 5, 5);
  p->first.mode = aligned ? SIM_ALIGNED : p->first.aligned_timeout_ms ? SIM_TIMED : SIM_OVERTAKING;
  if (one_in(&r, 3))
    return;
  /* A flood: much comes at once, and takes its time; whoever keeps what is in flight, or counts
   * barriers only, has something to keep, or to read twice. */
  p->interval_ms = ONE_OF(&r, 1, 2, 5, 5, 20, 50);
  p->first.segment_size = (uint32_t)ONE_OF(&r, 64, 64, 200, 200, 1000);
  for (uint32_t i = 0; i < p->n_nodes; i++) {
    sim_node_t *n = &p->nodes[i];
    if (n->kind != SIM_SOURCE) {
      n->slow_ns = ONE_OF(&r, 0, 0, 100000, 500000, 3000000, 20000000);
      continue;
    }
    n->records = 40 + below(&r, 80);
    n->pause_ms = ONE_OF(&r, 0, 0, 1);
  }
}

/* The smallest segments cannot change their size. Drawn apart from the rest. */
static void draw_debloat(sim_plan_t *p) {
  sim_settings_t *s = &p->first;
  sc_random_t r;
  sc_random_init(&r, (uint64_t)sim_mix((int64_t)p->seed, 520));
  s->debloat = (sc_debloat_t){.enabled = one_in(&r, 3),
                              .target_ms = ONE_OF(&r, 1, 10, 50, 200),
                              .period_ms = ONE_OF(&r, 1, 1, 5, 20),
                              .samples = (uint32_t)ONE_OF(&r, 1, 3, 20),
                              .threshold_percent = (uint32_t)ONE_OF(&r, 0, 25)};
  if (s->debloat.enabled && s->segment_size < 1000)
    s->segment_size = (uint32_t)ONE_OF(&r, s->segment_size, 500, 1000);
}

/* While a reader that was idle has a split already, but nobody has heard of it yet, the others may
 * run ahead, and then what it reads is late: where windows would fire again, nobody is idle. */
static bool may_idle(const sim_plan_t *p) {
  for (uint32_t i = 0; i < p->n_nodes; i++)
    if (p->nodes[i].kind == SIM_KEYED)
      return false;
  return true;
}

/* Apart, too. A job without checkpoints keeps its word only where nothing goes wrong. */
static void draw_starts(sim_plan_t *p) {
  sc_random_t r;
  sc_random_init(&r, (uint64_t)sim_mix((int64_t)p->seed, 502));
  p->clock_set_ms = ONE_OF(&r, 0, 0, 10, 200, 2000);
  p->from_path = one_in(&r, 3);
  for (uint32_t i = 0; i < p->n_nodes; i++)
    p->nodes[i].timed = p->nodes[i].kind == SIM_SOURCE && one_in(&r, 4);
  p->idles = may_idle(p) && one_in(&r, 2);
  p->no_checkpoints = one_in(&r, 20);
  p->no_dir = p->no_checkpoints && p->seed % 2;
  if (p->no_checkpoints)
    p->n_disturbances = 0;
}

static void draw_disturbance(sim_plan_t *p, sc_random_t *r) {
  static const int64_t kinds[] = {SIM_CRASH_TURN, SIM_CRASH_TURN, SIM_CRASH_OP, SIM_CRASH_OP,
                                  SIM_FAULT,      SIM_FAULT,      SIM_RAISE,    SIM_RAISE,
                                  SIM_CANCEL,     SIM_ASK};
  sim_disturbance_t *d = &p->disturbances[p->n_disturbances++];
  *d = (sim_disturbance_t){
      .kind = (sim_disturbance_kind_t)one_of(r, kinds, 10), .times = 1, .power = one_in(r, 2)};
  d->mask = (uint32_t)ONE_OF(r, SC_SIM_CHANGES, SC_SIM_CHANGES, SC_SIM_WRITE, SC_SIM_SYNC,
                             SC_SIM_RENAME, SC_SIM_REMOVE, SC_SIM_SYNC_DIR, SC_SIM_CREATE,
                             SC_SIM_READ);
  d->code = one_in(r, 2) ? SC_EIO : SC_ENOSPACE;
  switch (d->kind) {
    case SIM_CRASH_OP:
      d->mask = d->mask == SC_SIM_READ ? SC_SIM_CHANGES : d->mask;
      d->at = some_time(r, 1200);
      break;
    case SIM_FAULT:
      d->times = (uint32_t)ONE_OF(r, 1, 1, 1, 3, 10);
      d->at = some_time(r, 1200);
      break;
    case SIM_RAISE: d->at = some_time(r, 2000); break;
    default: d->at = some_time(r, 6000); break;
  }
}

/* Drawn apart from the rest, too. */
static void draw_stops(sim_plan_t *p) {
  sc_random_t r;
  sc_random_init(&r, (uint64_t)sim_mix((int64_t)p->seed, 504));
  p->all_or_none = one_in(&r, 6);
  for (uint32_t n = one_in(&r, 2) ? 1 + below(&r, 2) : 0; n && p->n_disturbances < TROUBLES;
       n--)
    p->disturbances[p->n_disturbances++] =
        (sim_disturbance_t){.kind = SIM_STOP, .at = some_time(&r, 3000)};
}

/* Another part, connected with nothing, and operators that fail somewhere: its region should be all
 * that restarts. Half of these parts end early, while the others have much to do. */
static void draw_apart(sim_plan_t *p, sc_random_t *r) {
  uint32_t failures = 1 + below(r, 2), parts = one_in(r, 4) ? 2 : 1;
  for (uint32_t i = 0; i < parts; i++) {
    sim_node_t *source = &p->nodes[p->n_nodes];
    draw_part(p, r, 1, below(r, 3));
    if (one_in(r, 2)) {
      source->splits = source->splits ? 1 : 0;
      source->records = 1 + below(r, 4);
    }
  }
  for (uint32_t i = 0; i < failures && p->n_disturbances < TROUBLES; i++)
    p->disturbances[p->n_disturbances++] =
        (sim_disturbance_t){.kind = SIM_RAISE, .times = 1, .at = some_time(r, 2000)};
  /* Whoever fails while a checkpoint is written has to wait for that. */
  if (p->n_disturbances < TROUBLES)
    p->disturbances[p->n_disturbances++] = (sim_disturbance_t){
        .kind = SIM_RAISE, .writing = true, .after = 1 + below(r, 4), .at = below(r, 4)};
}

/* What a user turns between two starts. A restart may find in flight what the new settings would
 * never have left there. */
static void draw_changes(sim_plan_t *p) {
  sc_random_t r;
  sc_random_init(&r, (uint64_t)sim_mix((int64_t)p->seed, 506));
  p->modes = one_in(&r, 2);
  p->networks = one_in(&r, 2);
  p->at_least_once = one_in(&r, 4);
  if (p->at_least_once && !p->modes)
    p->first.mode = SIM_AT_LEAST_ONCE;
}

/* After a drain there is nothing more to do: in few runs, and not always late. Most of the drains
 * are disturbed. Where nobody takes checkpoints, a job that is drained has its only one. */
static void draw_drains(sim_plan_t *p) {
  static const int64_t kinds[] = {SIM_DRAIN, SIM_CRASH_DONE, SIM_CRASH_DONE, SIM_RAISE};
  sc_random_t r;
  sc_random_init(&r, (uint64_t)sim_mix((int64_t)p->seed, 507));
  if (p->no_dir || !one_in(&r, p->no_checkpoints ? 2 : 3))
    return;
  sim_disturbance_t d = {.kind = SIM_DRAIN,
                         .after = p->no_checkpoints ? 0 : below(&r, 6),
                         .at = some_time(&r, 300)};
  p->disturbances[p->n_disturbances++] = d;
  if (p->no_checkpoints) { /* there is nothing to go back to where it expires */
    p->timeout_ms = 600000;
    return;
  }
  if (one_in(&r, 3))
    return;
  d.kind = (sim_disturbance_kind_t)one_of(&r, kinds, 4);
  d.at += (uint64_t)ONE_OF(&r, 10, 50, 100, 200, 400);
  d.power = one_in(&r, 2);
  p->disturbances[p->n_disturbances++] = d;
}

/* A disk that stalls now and then, for longer than a checkpoint may take: whoever waits for it, say
 * a sink in the middle of its snapshot, wakes up to find the next checkpoint's barrier before its
 * own word that this one was aborted. */
static void draw_stalls(sim_plan_t *p) {
  sc_random_t r;
  sc_random_init(&r, (uint64_t)sim_mix((int64_t)p->seed, 509));
  if (!one_in(&r, 6) || p->no_checkpoints)
    return;
  p->stall_one_in = (uint32_t)ONE_OF(&r, 2, 3, 6);
  p->latency_ns = ONE_OF(&r, 400000, 1000000);
  p->interval_ms = ONE_OF(&r, 1, 2, 5);
  p->timeout_ms = ONE_OF(&r, 10, 20, 20, 40);
  p->pool_threads = 4;
  p->min_pause_ms = 0;
  p->tolerable = -1;
  for (uint32_t i = 0; i < p->n_nodes; i++)
    if (p->nodes[i].kind == SIM_SOURCE && p->nodes[i].records < 40) {
      p->nodes[i].records += 40;
      p->nodes[i].pause_ms = ONE_OF(&r, 1, 5, 20);
    }
  if (!one_in(&r, 3)) {
    p->first.mode = SIM_OVERTAKING;
    p->modes = false;
  }
}

/* What was in flight when one life took its checkpoint, another restores that only counts barriers:
 * much is, and the process dies when it has just been kept. */
static void draw_into_counting(sim_plan_t *p) {
  sc_random_t r;
  sc_random_init(&r, (uint64_t)sim_mix((int64_t)p->seed, 511));
  if (!one_in(&r, 12) || p->first.mode == SIM_ALIGNED || p->no_checkpoints)
    return;
  p->modes = p->at_least_once = p->alternates = true;
  p->first.mode = SIM_OVERTAKING;
  p->timeout_ms = 600000;
  for (uint32_t i = 0; i < p->n_nodes; i++)
    if (p->nodes[i].kind != SIM_SOURCE)
      p->nodes[i].slow_ns = ONE_OF(&r, 0, 500000, 3000000);
    else if (p->nodes[i].records < 40)
      p->nodes[i].records += 40;
  for (uint32_t i = 0; i < 3 && p->n_disturbances < TROUBLES; i++)
    p->disturbances[p->n_disturbances++] = (sim_disturbance_t){
        .kind = SIM_CRASH_DONE, .after = 1 + i, .at = below(&r, 100), .power = one_in(&r, 2)};
}

/* Of the edges that are dealt by turns most are so because nobody asked for anything, and become
 * straight, or chained, where a life has given both ends one parallelism. Apart, too; and not where
 * lives may count barriers only: there each end has to come through an exchange, or what may go
 * wrong with it is hardly ever seen. */
static void draw_unnamed(sim_plan_t *p) {
  sc_random_t r;
  sc_random_init(&r, (uint64_t)sim_mix((int64_t)p->seed, 510));
  if (p->at_least_once)
    return;
  for (uint32_t i = 0; i < p->n_nodes; i++)
    for (uint32_t k = 0; k < p->nodes[i].n_inputs; k++) {
      sim_input_t *in = &p->nodes[i].inputs[k];
      bool uneven = in->edge == SC_FORWARD && p->nodes[in->from].class != p->nodes[i].class;
      in->unnamed = (in->edge == SC_REBALANCE || uneven) && !one_in(&r, 3);
      if (in->unnamed)
        in->edge = SC_REBALANCE;
    }
}

/* Drawn apart from the rest, too. There has to be an older one. */
static void draw_older(sim_plan_t *p) {
  sc_random_t r;
  sc_random_init(&r, (uint64_t)sim_mix((int64_t)p->seed, 508));
  p->older = one_in(&r, 5) && !p->no_checkpoints;
  if (p->older)
    p->retain = (uint32_t)ONE_OF(&r, 2, 3, 3, 5);
  p->moves = one_in(&r, 5) && !p->no_checkpoints;
}

static sim_node_t *add_map(sim_plan_t *p, sc_random_t *r, int from, sc_partitioner_kind_t edge) {
  sim_node_t *n = add_node(p, r, SIM_MAP);
  n->map = SIM_FLAT;
  n->new_chain = true;
  n->inputs[n->n_inputs++] = (sim_input_t){from, false, edge, false};
  return n;
}

/* A knot: `first` feeds `last` both directly, over an edge that cannot be captured, and through
 * `middle`, which another source feeds, too. A checkpoint that comes through that one makes `last`
 * hold `middle` back until the barrier of `first` comes, who may be in the middle of a record that
 * it cannot send to `middle`: only overdraft unties it (DESIGN section 4). */
static bool draw_knot(sim_plan_t *p) {
  sc_random_t r;
  sc_random_init(&r, (uint64_t)sim_mix((int64_t)p->seed, 503));
  if (!one_in(&r, 4) || p->n_nodes + 6 > SIM_NODES)
    return false;
  int at = (int)p->n_nodes;
  draw_source(p, &r);
  draw_source(p, &r);
  sim_node_t *first = add_map(p, &r, at, SC_REBALANCE);
  sim_node_t *middle = add_map(p, &r, at + 2, SC_HASH);
  middle->inputs[middle->n_inputs++] = (sim_input_t){at + 1, false, SC_REBALANCE, false};
  sim_node_t *last = add_map(p, &r, at + 2, SC_FORWARD);
  last->inputs[last->n_inputs++] = (sim_input_t){at + 3, false, SC_REBALANCE, false};
  last->class = first->class;
  last->slow_ns = ONE_OF(&r, 0, 100000, 500000);
  add_node(p, &r, SIM_SINK)->inputs[0] = (sim_input_t){at + 4, false, SC_REBALANCE, false};
  p->nodes[at + 5].n_inputs = 1;
  if (one_in(&r, 2))
    return true;
  p->timeout_ms = 600000;
  p->modes = p->networks = p->at_least_once = false;
  p->first.mode = SIM_OVERTAKING;
  p->first.overdraft = p->first.floating = 0;
  p->first.exclusive = 1;
  p->first.segment_size = (uint32_t)ONE_OF(&r, 64, 200);
  return true;
}

/* Two operators in a row, with much in flight between them, that are now and then chained. */
static void draw_pair(sim_plan_t *p) {
  sc_random_t r;
  sc_random_init(&r, (uint64_t)sim_mix((int64_t)p->seed, 512));
  bool kept = p->first.mode != SIM_ALIGNED && !p->at_least_once;
  if (!kept || !one_in(&r, 3) || p->n_nodes + 3 > SIM_NODES)
    return;
  int at = (int)p->n_nodes;
  draw_source(p, &r);
  sim_node_t *map = add_map(p, &r, at, SC_REBALANCE);
  map->new_chain = false;
  map->inputs[0].unnamed = true;
  map->slow_ns = ONE_OF(&r, 100000, 500000, 3000000);
  p->nodes[at].records = 40 + below(&r, 80);
  p->nodes[at].pause_ms = 0;
  add_node(p, &r, SIM_SINK)->inputs[0] = (sim_input_t){at + 1, false, SC_REBALANCE,
                                                       one_in(&r, 2)};
  p->nodes[at + 2].n_inputs = 1;
}

/* What a checkpoint holds is best seen by who goes back to it: troubles soon after one is complete,
 * drawn apart from the rest, too. */
static void draw_followers(sim_plan_t *p) {
  static const int64_t kinds[] = {SIM_CRASH_DONE, SIM_CRASH_DONE, SIM_CRASH_DONE,
                                  SIM_RAISE,      SIM_CANCEL,     SIM_STOP};
  sc_random_t r;
  sc_random_init(&r, (uint64_t)sim_mix((int64_t)p->seed, 505));
  uint64_t after = 0;
  while (p->n_disturbances && p->n_disturbances < TROUBLES && !one_in(&r, 6)) {
    after += 1 + below(&r, 3);
    p->disturbances[p->n_disturbances++] =
        (sim_disturbance_t){.kind = (sim_disturbance_kind_t)one_of(&r, kinds, 6),
                            .after = after,
                            .at = (uint64_t)ONE_OF(&r, 0, 3, 20, 100, 300),
                            .power = one_in(&r, 2)};
  }
}

/* Two inputs of windows, of which one ends early: its tasks wait for their last checkpoint while
 * the other one still reads. */
static void draw_early_end(sim_plan_t *p, sc_random_t *r) {
  int at = (int)p->n_nodes;
  draw_source(p, r);
  draw_source(p, r);
  p->nodes[at].records = 1 + below(r, 4);
  p->nodes[at + 1].records = 20 + below(r, 40);
  p->nodes[at].splits = p->nodes[at + 1].splits = 2;
  p->nodes[at].pause_ms = p->nodes[at + 1].pause_ms = ONE_OF(r, 0, 0, 1);
  sim_node_t *keyed = add_node(p, r, SIM_KEYED);
  keyed->window_ms = 3000;
  keyed->inputs[0] = (sim_input_t){at, false, SC_HASH, false};
  keyed->inputs[1] = (sim_input_t){at + 1, false, SC_HASH, false};
  keyed->n_inputs = 2;
  add_node(p, r, SIM_SINK)->inputs[0] = (sim_input_t){at + 2, false, SC_REBALANCE, false};
  p->nodes[at + 3].n_inputs = 1;
}

/* Inputs that end one after another, and a process that dies whenever a checkpoint is complete: an
 * end comes right behind a barrier, and tasks leave beside others that still send. Where barriers
 * are counted only, or turn into overtaking ones, that is where it goes wrong. */
static void draw_ends(sim_plan_t *p) {
  sc_random_t r;
  sc_random_init(&r, (uint64_t)sim_mix((int64_t)p->seed, 513));
  if (!one_in(&r, 5) || p->no_checkpoints)
    return;
  p->modes = p->alternates = false;
  p->at_least_once = one_in(&r, 2);
  p->first.mode = p->at_least_once ? SIM_AT_LEAST_ONCE : SIM_TIMED;
  p->first.aligned_timeout_ms = p->at_least_once ? 0 : ONE_OF(&r, 1, 1, 5);
  p->interval_ms = ONE_OF(&r, 1, 2, 5);
  p->min_pause_ms = 0;
  for (uint32_t i = 0; i < p->n_nodes; i++)
    if (p->nodes[i].kind == SIM_SOURCE)
      p->nodes[i].records = 1 + below(&r, 20);
  if (p->n_nodes + 4 <= SIM_NODES)
    draw_early_end(p, &r);
  p->n_disturbances = 0;
  while (p->n_disturbances < TROUBLES) {
    uint32_t after = p->n_disturbances + 1;
    p->disturbances[p->n_disturbances++] = (sim_disturbance_t){
        .kind = SIM_CRASH_DONE, .after = after, .at = below(&r, 8), .power = one_in(&r, 2)};
  }
}

void sim_draw(sim_plan_t *p) {
  sc_random_t r;
  sc_random_init(&r, p->seed * 0xD1B54A32D192ED03u + 1);
  draw_job(p, &r);
  uint32_t sources = 1 + below(&r, 2) + one_in(&r, 4), operators = below(&r, 5);
  draw_part(p, &r, sources, operators);
  draw_barriers(p);
  draw_debloat(p);
  draw_stops(p);
  uint32_t disturbances = one_in(&r, 10) ? 0 : 1 + below(&r, one_in(&r, 2) ? 3 : TROUBLES - 2);
  for (uint32_t i = 0; i < disturbances; i++)
    draw_disturbance(p, &r);
  if (one_in(&r, 3)) /* last, so that what else a seed decides does not hang on it */
    draw_apart(p, &r);
  draw_starts(p);
  draw_changes(p);
  draw_unnamed(p);
  if (!draw_knot(p))
    draw_pair(p);
  draw_followers(p);
  draw_drains(p);
  draw_older(p);
  draw_stalls(p);
  draw_into_counting(p);
  draw_ends(p);
}
