/*
 * metrics: what a task shows of itself, as msgpack (the names are the field's). The counters are
 * written by the slot and read here by any thread; what lies in queues is looked at under each
 * channel's lock.
 */
#include <string.h>

#include "../base/mem.h"
#include "attempt.h"

/* A map whose pairs are counted while they are written. */
typedef struct map {
  sc_buf_t pairs;
  uint32_t n;
} map_t;

static sc_buf_t *key(map_t *m, const char *name) {
  sc_pack_cstr(&m->pairs, name);
  m->n++;
  return &m->pairs;
}

static void put_text(map_t *m, const char *name, const char *v) { sc_pack_cstr(key(m, name), v); }
static void put_int(map_t *m, const char *name, int64_t v) { sc_pack_int(key(m, name), v); }
static void put_float(map_t *m, const char *name, double v) { sc_pack_float(key(m, name), v); }
static void put_bool(map_t *m, const char *name, bool v) { sc_pack_bool(key(m, name), v); }

static void end_map(map_t *m, sc_buf_t *out) {
  sc_pack_map(out, m->n);
  sc_buf_put_bytes(out, sc_buf_bytes(&m->pairs));
  sc_buf_free(&m->pairs);
}

/* ---- the counters that rates are shown of ---- */

/* For each link records in and out; for each output buffers and bytes; what came in likewise. */
static uint32_t of_output(const sc_task_t *t, uint32_t output) {
  return 2 * t->chain.n_links + 2 * output;
}

static uint32_t of_input(const sc_task_t *t) { return of_output(t, t->chain.n_outputs); }

uint32_t sc_task_n_counters(const sc_task_t *t) { return of_input(t) + 2; }

static void count_queues(const sc_usage_t *u, bool taken, uint64_t *counters) {
  counters[0] = u->passed_buffers - (taken ? u->buffers : 0);
  counters[1] = u->passed_bytes - (taken ? u->bytes : 0);
}

void sc_task_counters(const sc_task_t *t, uint64_t *counters) {
  for (uint32_t i = 0; i < t->chain.n_links; i++) {
    /* Relaxed: counters that are shown, nothing hangs on their order. */
    const sc_link_t *link = &t->chain.links[i];
    counters[2 * i] = atomic_load_explicit(&link->records_in, memory_order_relaxed);
    counters[2 * i + 1] = atomic_load_explicit(&link->records_out, memory_order_relaxed);
  }
  for (uint32_t i = 0; i < t->chain.n_outputs; i++) {
    sc_usage_t u = {0};
    sc_output_usage(t->chain.outputs[i], &u);
    count_queues(&u, false, &counters[of_output(t, i)]);
  }
  sc_usage_t in = {0};
  sc_input_usage(t->input, &in);
  count_queues(&in, true, &counters[of_input(t)]);
}

void sc_task_show_pending(sc_task_t *t) {
  sc_operator_t *op = t->chain.links[0].op;
  sc_pending_input_t left = {-1, -1};
  if (!op || !op->ops->pending)
    return;
  op->ops->pending(op, &left);
  atomic_store_explicit(&t->pending_records, left.records, memory_order_relaxed); /* shown only */
  atomic_store_explicit(&t->pending_bytes, left.bytes, memory_order_relaxed);
}

/* ---- encoding ---- */

/* What is the same for all operators of a task, taken once. */
typedef struct look {
  const sc_task_t *task;
  sc_attempt_t *attempt;
  int64_t now_ms;
  uint64_t *counters; /* as they are */
  uint64_t *grown;    /* in flow.rate_ns */
  sc_flow_shown_t flow;
  sc_usage_t in;
} look_t;

static double per_second(const look_t *l, uint32_t counter) {
  return l->flow.rate_ns > 0 ? (double)l->grown[counter] * 1e9 / (double)l->flow.rate_ns : 0.0;
}

static int64_t per_mille(int64_t part, int64_t whole) {
  return whole > 0 ? (part * 1000 + whole / 2) / whole : 0;
}

/* The three add up to 1000 in whole numbers, too: busy is what the others leave. */
static void put_time(map_t *m, const sc_flow_shown_t *f) {
  int64_t idle = per_mille(f->sampled_ns[SC_FLOW_IDLE], f->window_ns);
  int64_t waits = per_mille(f->sampled_ns[SC_FLOW_BACK_PRESSURED], f->window_ns);
  if (f->window_ns == 0)
    idle = 1000;
  waits = idle + waits > 1000 ? 1000 - idle : waits;
  put_int(m, "busyTimeMsPerSecond", 1000 - idle - waits);
  put_int(m, "idleTimeMsPerSecond", idle);
  put_int(m, "backPressuredTimeMsPerSecond", waits);
  put_int(m, "slotWaitTimeMsPerSecond", per_mille(f->sampled_ns[SC_FLOW_READY], f->window_ns));
  put_bool(m, "isBackPressured", f->state == SC_FLOW_BACK_PRESSURED);
  put_float(m, "accumulateBusyTimeMs",
            (double)(f->total_ns[SC_FLOW_BUSY] + f->total_ns[SC_FLOW_READY]) / 1e6);
  put_float(m, "accumulateIdleTimeMs", (double)f->total_ns[SC_FLOW_IDLE] / 1e6);
  put_float(m, "accumulateBackPressuredTimeMs",
            (double)f->total_ns[SC_FLOW_BACK_PRESSURED] / 1e6);
}

/* Time that was not idle: what is queued is read at the pace of that, which is also what the
 * debloater goes by. */
static double active_ns(const int64_t ns[SC_FLOW_STATES]) {
  return (double)(ns[SC_FLOW_BUSY] + ns[SC_FLOW_READY] + ns[SC_FLOW_BACK_PRESSURED]);
}

/* At the pace in the window, else ever. */
static void put_drain_time(map_t *m, const look_t *l) {
  uint32_t at = of_input(l->task) + 1;
  double ns = active_ns(l->flow.sampled_ns), bytes = (double)l->grown[at];
  if (bytes == 0 || ns == 0) {
    ns = active_ns(l->flow.total_ns);
    bytes = (double)l->counters[at];
  }
  if (l->in.bytes == 0)
    put_float(m, "estimatedTimeToConsumeBuffersMs", 0.0);
  else if (bytes > 0 && ns > 0)
    put_float(m, "estimatedTimeToConsumeBuffersMs", (double)l->in.bytes * ns / bytes / 1e6);
}

static void put_input(map_t *m, const look_t *l) {
  uint32_t at = of_input(l->task);
  put_int(m, "numBuffersIn", (int64_t)l->counters[at]);
  put_int(m, "numBytesIn", (int64_t)l->counters[at + 1]);
  put_float(m, "numBuffersInPerSecond", per_second(l, at));
  put_float(m, "numBytesInPerSecond", per_second(l, at + 1));
  put_float(m, "inPoolUsage", sc_usage_in_pool(&l->in));
  put_float(m, "inputExclusiveBuffersUsage", sc_usage_exclusive(&l->in));
  put_float(m, "inputFloatingBuffersUsage", sc_usage_floating(&l->in));
  put_int(m, "inputQueueLength", (int64_t)l->in.buffers);
  put_int(m, "inputQueueSize", (int64_t)l->in.bytes);
  put_int(m, "debloatedBufferSize",
          l->in.buffer_size ? l->in.buffer_size : sc_pool_segment_size(l->attempt->pool));
  put_drain_time(m, l);
}

static void put_pending(map_t *m, const sc_task_t *t) {
  int64_t records = atomic_load_explicit(&t->pending_records, memory_order_relaxed);
  int64_t bytes = atomic_load_explicit(&t->pending_bytes, memory_order_relaxed);
  if (records >= 0)
    put_int(m, "pendingRecords", records);
  if (bytes >= 0)
    put_int(m, "pendingBytes", bytes);
}

/* What is queued at an output, or at several, and what went there. */
typedef struct sent {
  sc_usage_t usage;
  double buffers_rate, bytes_rate;
} sent_t;

static void add_sent(const look_t *l, const sc_output_t *o, sent_t *s) {
  const sc_chain_t *c = &l->task->chain;
  for (uint32_t i = 0; i < c->n_outputs; i++)
    if (c->outputs[i] == o) {
      s->buffers_rate += per_second(l, of_output(l->task, i));
      s->bytes_rate += per_second(l, of_output(l->task, i) + 1);
    }
  sc_output_usage(o, &s->usage);
}

static void put_sent(map_t *m, const sent_t *s) {
  put_int(m, "numBuffersOut", (int64_t)s->usage.passed_buffers);
  put_int(m, "numBytesOut", (int64_t)s->usage.passed_bytes);
  put_float(m, "numBuffersOutPerSecond", s->buffers_rate);
  put_float(m, "numBytesOutPerSecond", s->bytes_rate);
  put_float(m, "outPoolUsage", sc_usage_out_pool(&s->usage));
  put_int(m, "outputQueueLength", (int64_t)s->usage.buffers);
  put_int(m, "outputQueueSize", (int64_t)s->usage.bytes);
}

static void put_exchange(const look_t *l, const sc_exit_t *exit, sc_buf_t *out) {
  const sc_graph_t *g = l->attempt->config.graph;
  map_t m = {SC_BUF_INIT, 0};
  sent_t sent = {0};
  add_sent(l, exit->output, &sent);
  put_text(&m, "to", g->nodes[exit->edge->to].uid);
  put_sent(&m, &sent);
  end_map(&m, out);
}

static void put_outputs(map_t *m, const look_t *l, const sc_link_t *link) {
  uint32_t n = 0;
  sent_t all = {0};
  for (uint32_t r = 0; r < link->node->n_outputs; r++)
    for (uint32_t i = 0; i < link->routes[r].n_exits; i++, n++)
      add_sent(l, link->routes[r].exits[i].output, &all);
  if (n == 0)
    return;
  put_sent(m, &all);
  sc_pack_array(key(m, "exchanges"), n);
  for (uint32_t r = 0; r < link->node->n_outputs; r++)
    for (uint32_t i = 0; i < link->routes[r].n_exits; i++)
      put_exchange(l, &link->routes[r].exits[i], &m->pairs);
}

static void put_watermark(map_t *m, const look_t *l, const sc_link_t *link) {
  int64_t w = atomic_load_explicit(&link->watermark_shown, memory_order_relaxed);
  if (w == SC_WATERMARK_MIN) /* absent before the first */
    return;
  put_int(m, "currentWatermark", w);
  if (w != SC_WATERMARK_MAX)
    put_int(m, "watermarkLag", l->now_ms > w ? l->now_ms - w : 0);
}

static void encode_link(const look_t *l, uint32_t index, sc_buf_t *out) {
  const sc_link_t *link = &l->task->chain.links[index];
  map_t m = {SC_BUF_INIT, 0};
  put_text(&m, "uid", link->node->uid);
  put_text(&m, "name", link->node->name);
  put_text(&m, "task", l->task->chain_name);
  put_int(&m, "subtask", l->task->subtask);
  put_int(&m, "attempt", (int64_t)l->attempt->config.number);
  put_int(&m, "numRecordsIn", (int64_t)l->counters[2 * index]);
  put_int(&m, "numRecordsOut", (int64_t)l->counters[2 * index + 1]);
  put_float(&m, "numRecordsInPerSecond", per_second(l, 2 * index));
  put_float(&m, "numRecordsOutPerSecond", per_second(l, 2 * index + 1));
  put_watermark(&m, l, link);
  put_time(&m, &l->flow);
  if (index == 0 && l->task->n_channels)
    put_input(&m, l);
  if (index == 0 && l->task->is_source)
    put_pending(&m, l->task);
  put_outputs(&m, l, link);
  for (sc_named_counter_t *c = l->attempt->counters; c; c = c->next)
    if (c->link == link)
      put_int(&m, c->name, c->value);
  end_map(&m, out);
}

uint32_t sc_attempt_metrics(sc_attempt_t *a, uint32_t task, sc_buf_t *out) {
  const sc_task_t *t = &a->tasks[task];
  uint32_t n = sc_task_n_counters(t);
  look_t l = {.task = t, .attempt = a, .now_ms = sc_world_now_ms(a->config.world)};
  l.counters = sc_calloc(2 * n, sizeof *l.counters);
  l.grown = l.counters + n;
  sc_task_counters(t, l.counters);
  memcpy(l.grown, l.counters, n * sizeof *l.grown);
  sc_flow_read(t->flow, sc_world_mono_ns(a->config.world), l.grown, &l.flow);
  sc_input_usage(t->input, &l.in);
  pthread_mutex_lock(&a->counters_lock);
  for (uint32_t i = 0; i < t->chain.n_links; i++)
    encode_link(&l, i, out);
  pthread_mutex_unlock(&a->counters_lock);
  free(l.counters);
  return t->chain.n_links;
}
