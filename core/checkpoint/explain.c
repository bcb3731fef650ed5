#include "explain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../base/error.h"
#include "../base/mem.h"

const char *sc_cause_name(sc_cause_t cause) {
  static const char *const names[] = {
      "none",           "queued_behind_another", "skewed_key",   "library_call", "slow_sink",
      "slow_function",  "in_flight_data",        "slow_snapshot", "slow_storage", "large_state",
      "unknown"};
  return names[cause];
}

void sc_explanation_fini(sc_explanation_t *e) {
  free(e->text);
  free(e->path);
  *e = (sc_explanation_t){0};
}

/* Less than this before a barrier is no queue: a few records are always on their way. */
#define QUEUE_BYTES 16384
/* A storage that writes less a second is slow, however little it was given. */
#define SLOW_BYTES_PER_S (256 * 1024)
/* Who gets through more a second is not slow, however much there is. */
#define FAST_BYTES_PER_S (4 * 1024 * 1024)

/* ---- words ---- */

#define WORD 32

static const char *span(char out[WORD], int64_t ns) {
  if (ns < 1000000000)
    snprintf(out, WORD, "%" PRId64 " ms", ns / 1000000);
  else
    snprintf(out, WORD, "%.1f s", (double)ns / 1e9);
  return out;
}

static const char *size(char out[WORD], uint64_t bytes) {
  if (bytes < 1024)
    snprintf(out, WORD, "%" PRIu64 " B", bytes);
  else if (bytes < 1024 * 1024)
    snprintf(out, WORD, "%.1f kB", (double)bytes / 1024);
  else
    snprintf(out, WORD, "%.1f MB", (double)bytes / (1024 * 1024));
  return out;
}

static char *head_of(const sc_explain_input_t *in) {
  static const char *const verbs[] = {"has been under way for", "took", "failed after"};
  char took[WORD];
  return sc_format("checkpoint %" PRIu64 " %s %s", in->id, verbs[in->end],
                   span(took, in->took_ns));
}

/* ---- the critical path ---- */

static int64_t barrier_ns(const sc_explain_subtask_t *t) {
  return t->start_delay_ns + t->alignment_ns;
}

/* How long its last barrier stood before it: from when its sender passed it on. */
static int64_t edge_ns(const sc_explain_input_t *in, uint32_t i) {
  const sc_explain_subtask_t *t = &in->subtasks[i];
  const sc_explain_subtask_t *from =
      t->last_from < in->n && in->subtasks[t->last_from].acknowledged
          ? &in->subtasks[t->last_from]
          : NULL;
  int64_t sent_ns = from ? barrier_ns(from) : in->prepare_ns;
  return barrier_ns(t) > sent_ns ? barrier_ns(t) - sent_ns : 0;
}

/* What its asynchronous part took once it could begin. */
static int64_t work_ns(const sc_explain_subtask_t *t) {
  int64_t ns = t->async_ns - t->held_ns;
  return ns > 0 ? ns : 0;
}

/* ... and once there was a thread for it. */
static int64_t own_ns(const sc_explain_subtask_t *t) {
  int64_t ns = work_ns(t) - t->pool_ns;
  return ns > 0 ? ns : 0;
}

/* Where it ended, or is stuck: whoever was seen at work goes before who only waits. */
static uint32_t last_subtask(const sc_explain_input_t *in) {
  uint32_t last = SC_EXPLAIN_NOBODY;
  uint32_t most = 0;
  for (uint32_t i = 0; i < in->n; i++)
    if (!in->subtasks[i].acknowledged && in->subtasks[i].seen > most) {
      most = in->subtasks[i].seen;
      last = i;
    }
  if (most > 0)
    return last;
  for (uint32_t i = 0; i < in->n; i++)
    if (!in->subtasks[i].acknowledged)
      return i;
  for (uint32_t i = 0; i < in->n; i++)
    if (last == SC_EXPLAIN_NOBODY || in->subtasks[i].ack_ns > in->subtasks[last].ack_ns)
      last = i;
  return last;
}

static void follow(const sc_explain_input_t *in, uint32_t last, sc_explanation_t *out) {
  out->path = sc_calloc(in->n, sizeof *out->path);
  /* Graphs have no cycles, but numbers that were reported are not trusted to say so. */
  for (uint32_t i = last; i < in->n && out->n_path < in->n; i = in->subtasks[i].last_from)
    out->path[out->n_path++] = i;
  for (uint32_t i = 0; i < out->n_path / 2; i++) {
    uint32_t other = out->path[i];
    out->path[i] = out->path[out->n_path - 1 - i];
    out->path[out->n_path - 1 - i] = other;
  }
}

/* Of the slow edges of the path the last one: a queue before it is full because its is. */
static uint32_t slowest_edge(const sc_explain_input_t *in, const sc_explanation_t *e) {
  int64_t longest = 0;
  uint32_t at = SC_EXPLAIN_NOBODY;
  for (uint32_t i = 0; i < e->n_path; i++)
    if (in->subtasks[e->path[i]].acknowledged && edge_ns(in, e->path[i]) > longest)
      longest = edge_ns(in, e->path[i]);
  for (uint32_t i = 0; i < e->n_path; i++)
    if (in->subtasks[e->path[i]].acknowledged && edge_ns(in, e->path[i]) * 2 >= longest)
      at = e->path[i];
  return at;
}

static uint32_t most_seen(const sc_explain_input_t *in) {
  uint32_t most = 0;
  for (uint32_t i = 1; i < in->n; i++)
    if (in->subtasks[i].seen > in->subtasks[most].seen)
      most = i;
  return most;
}

/* Whose fault a late barrier is. Who waits only for the thread, which another task keeps, was not
 * seen, or seldom: when it had its turn at last; that other one was. */
static uint32_t culprit(const sc_explain_input_t *in, const sc_explanation_t *e) {
  uint32_t at = slowest_edge(in, e), seen = most_seen(in);
  uint32_t often = in->subtasks[seen].seen / 2 + in->subtasks[seen].seen % 2;
  if (often == 0)
    return at;
  if (at < in->n && (in->subtasks[at].seen >= often || in->subtasks[at].queued >= QUEUE_BYTES))
    return at;
  for (uint32_t i = 0; i < e->n_path; i++)
    if (in->subtasks[e->path[i]].seen >= often)
      seen = e->path[i];
  return seen;
}

/* ---- a barrier that came late ---- */

/* One subtask has the queue, and that because at least twice as much was sent to it as to any
 * sibling: where it is only slower, they get no less. *most: what came to one of them. */
static bool skewed(const sc_explain_input_t *in, uint32_t at, uint64_t *most) {
  const sc_explain_subtask_t *t = &in->subtasks[at];
  bool any = false;
  *most = 0;
  for (uint32_t i = 0; i < in->n; i++) {
    const sc_explain_subtask_t *other = &in->subtasks[i];
    if (i == at || other->task != t->task || !other->acknowledged)
      continue;
    any = true;
    *most = other->received > *most ? other->received : *most;
  }
  return any && t->acknowledged && t->queued >= QUEUE_BYTES && t->received > 0 &&
         t->received / 2 >= *most;
}

static sc_cause_t cause_of_wait(const sc_explain_input_t *in, uint32_t at, uint64_t *most) {
  const sc_explain_subtask_t *t = &in->subtasks[at];
  if (t->blocked)
    return SC_CAUSE_BLOCKED;
  if (t->snapshots && !t->acknowledged)
    return SC_CAUSE_SYNC;
  if (skewed(in, at, most))
    return SC_CAUSE_SKEW;
  if (t->acknowledged && t->queued >= QUEUE_BYTES &&
      (double)t->queued * 1e9 >= (double)FAST_BYTES_PER_S * (double)barrier_ns(t))
    return SC_CAUSE_IN_FLIGHT;
  if (t->sink && (t->place || t->queued || t->seen))
    return SC_CAUSE_SINK;
  if (t->place)
    return SC_CAUSE_FUNCTION;
  return t->queued >= QUEUE_BYTES ? SC_CAUSE_IN_FLIGHT : SC_CAUSE_UNKNOWN;
}

/* What is known of the barrier: "the barrier from parse 1/2 came last, behind 64.0 kB, after 3.1 s,
 * at count 2/4". malloc'ed. */
static char *of_barrier(const sc_explain_input_t *in, uint32_t at) {
  const sc_explain_subtask_t *t = &in->subtasks[at];
  char waited[WORD], queued[WORD];
  if (!t->acknowledged)
    return sc_format("%s has not acknowledged it", t->name);
  if (t->last_from >= in->n)
    return sc_format("%s began its part only after %s", t->name, span(waited, barrier_ns(t)));
  char *behind = t->queued ? sc_format(" behind %s of records", size(queued, t->queued))
                           : sc_strdup("");
  char *text = sc_format("the barrier from %s reached %s last, after %s%s",
                         in->subtasks[t->last_from].name, t->name, span(waited, barrier_ns(t)),
                         behind);
  free(behind);
  return text;
}

static char *advice_for_wait(const sc_explain_input_t *in, uint32_t at, sc_cause_t cause,
                             uint64_t most) {
  const sc_explain_subtask_t *t = &in->subtasks[at];
  char others[WORD], own[WORD];
  char *place = t->place ? sc_format(", which was seen in %s", t->place) : sc_strdup("");
  char *text = NULL;
  switch (cause) {
  case SC_CAUSE_BLOCKED:
    text = sc_format("it was in a library call that did not return%s: no barrier can pass "
                     "meanwhile, so give the call a timeout", place);
    break;
  case SC_CAUSE_SKEW:
    text = sc_format("it got %s since the checkpoint before, no other subtask of it more than "
                     "%s%s%s: one key, or few, have most of the records, so spread them over more "
                     "keys", size(own, t->received), size(others, most),
                     t->place ? ", and was seen in " : "", t->place ? t->place : "");
    break;
  case SC_CAUSE_SINK:
    text = sc_format("this sink is slower than what comes before it%s: write in larger batches, or "
                     "raise its parallelism", place);
    break;
  case SC_CAUSE_SYNC:
    text = sc_format("it is in the synchronous part of its snapshot%s, in which it reads no "
                     "records", place);
    break;
  case SC_CAUSE_FUNCTION:
    text = sc_format("its user function is slow: it was seen in %s; make it faster, or raise the "
                     "operator's parallelism", t->place);
    break;
  case SC_CAUSE_IN_FLIGHT:
    text = sc_strdup("so much data was in flight: let barriers overtake it with "
                     "checkpoint.unaligned = true, or keep less of it with network.debloat");
    break;
  default:
    text = sc_strdup("what it did meanwhile is not known");
  }
  free(place);
  return text;
}

static void explain_wait(const sc_explain_input_t *in, uint32_t at, sc_explanation_t *out) {
  uint64_t most = 0;
  out->subtask = at;
  out->cause = cause_of_wait(in, at, &most);
  char *head = head_of(in), *barrier = of_barrier(in, at);
  char *advice = advice_for_wait(in, at, out->cause, most);
  out->text = sc_format("%s: %s; %s", head, barrier, advice);
  free(head);
  free(barrier);
  free(advice);
}

/* ---- the other parts ---- */

static void explain_queue(const sc_explain_input_t *in, sc_explanation_t *out) {
  char waited[WORD], took[WORD];
  out->cause = SC_CAUSE_QUEUED;
  out->text = sc_format(
      "checkpoint %" PRIu64 " waited %s for the one before it to end, and then took %s; make that "
      "one faster, take checkpoints less often, or raise checkpoint.max_concurrent",
      in->id, span(waited, in->waited_ns), span(took, in->took_ns));
}

static void explain_storage(const sc_explain_input_t *in, int64_t ns, const char *what,
                            sc_explanation_t *out) {
  char *head = head_of(in), time[WORD];
  out->cause = SC_CAUSE_STORAGE;
  out->text = sc_format("%s, of which the storage took %s to %s; put checkpoint.dir on a faster "
                        "disk", head, span(time, ns), what);
  free(head);
}

static void explain_sync(const sc_explain_input_t *in, uint32_t at, sc_explanation_t *out) {
  const sc_explain_subtask_t *t = &in->subtasks[at];
  char *head = head_of(in), sync[WORD];
  char *place = t->snapshots && t->place ? sc_format("; it was seen in %s", t->place)
                                         : sc_strdup("");
  out->cause = SC_CAUSE_SYNC;
  out->subtask = at;
  out->text = sc_format("%s: the synchronous part of the snapshot of %s took %s, in which it reads "
                        "no records%s; keep less in its operators' list state", head, t->name,
                        span(sync, t->sync_ns), place);
  free(place);
  free(head);
}

/* Whose writing kept the pool while this one waited for a thread. */
static uint32_t busiest(const sc_explain_input_t *in, uint32_t at) {
  for (uint32_t i = 0; i < in->n; i++)
    if (in->subtasks[i].acknowledged && own_ns(&in->subtasks[i]) > own_ns(&in->subtasks[at]))
      at = i;
  return at;
}

/* Mostly data that was in flight, and so much of it that the storage is not to blame. */
static bool kept_much(const sc_explain_subtask_t *t) {
  if (t->persisted == 0 || t->persisted * 2 < t->written)
    return false;
  return t->storage_ns * 2 < own_ns(t) ||
         (double)t->written * 1e9 >= (double)SLOW_BYTES_PER_S * (double)t->storage_ns;
}

static void explain_async(const sc_explain_input_t *in, uint32_t at, sc_explanation_t *out) {
  char async[WORD], bytes[WORD];
  if (in->subtasks[at].pool_ns * 2 > work_ns(&in->subtasks[at]))
    at = busiest(in, at);
  const sc_explain_subtask_t *t = &in->subtasks[at];
  out->subtask = at;
  if (!kept_much(t) && t->storage_ns * 2 >= own_ns(t)) {
    char *what = sc_format("write the %s of %s", size(bytes, t->written), t->name);
    explain_storage(in, t->storage_ns, what, out);
    free(what);
    return;
  }
  char *head = head_of(in);
  out->cause = kept_much(t) ? SC_CAUSE_IN_FLIGHT : SC_CAUSE_STATE;
  out->text = kept_much(t)
      ? sc_format("%s: %s kept %s of data that was in flight, for which its asynchronous part took "
                  "%s; keep less in flight with network.debloat, or set "
                  "checkpoint.aligned_timeout", head, t->name, size(bytes, t->persisted),
                  span(async, own_ns(t)))
      : sc_format("%s: the asynchronous part of %s, which writes %s of state, took %s; keep less "
                  "state, or raise the operator's parallelism", head, t->name,
                  size(bytes, t->written), span(async, own_ns(t)));
  free(head);
}

/* ---- which part it was ---- */

typedef struct parts {
  int64_t barrier_ns, sync_ns, held_ns, work_ns; /* of the last subtask */
  int64_t longest_ns;                            /* of these and the checkpoint's own */
} parts_t;

static parts_t parts_of(const sc_explain_input_t *in, uint32_t at) {
  const sc_explain_subtask_t *t = &in->subtasks[at];
  int64_t late = barrier_ns(t) - in->prepare_ns;
  parts_t p = {late > 0 ? late : 0, t->sync_ns, t->held_ns, work_ns(t), in->waited_ns};
  const int64_t parts[] = {p.barrier_ns, p.sync_ns, p.held_ns, p.work_ns, in->prepare_ns,
                           in->finish_ns};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    p.longest_ns = parts[i] > p.longest_ns ? parts[i] : p.longest_ns;
  return p;
}

/* Whom it waited for whose part began and was held: the one whose synchronous part ended last. */
static uint32_t holder(const sc_explain_input_t *in, uint32_t at) {
  const sc_explain_subtask_t *t = in->subtasks;
  for (uint32_t i = 0; i < in->n; i++)
    if (t[i].acknowledged &&
        barrier_ns(&t[i]) + t[i].sync_ns > barrier_ns(&t[at]) + t[at].sync_ns)
      at = i;
  return at;
}

/* Whose synchronous part kept the thread that others waited for, or nobody's. */
static uint32_t longest_sync(const sc_explain_input_t *in, int64_t waited_ns) {
  uint32_t at = SC_EXPLAIN_NOBODY;
  for (uint32_t i = 0; i < in->n; i++)
    if (in->subtasks[i].acknowledged && in->subtasks[i].sync_ns * 2 > waited_ns &&
        (at == SC_EXPLAIN_NOBODY || in->subtasks[i].sync_ns > in->subtasks[at].sync_ns))
      at = i;
  return at;
}

static void explain_part(const sc_explain_input_t *in, uint32_t last, const parts_t *p,
                         sc_explanation_t *out) {
  uint32_t sync = longest_sync(in, p->barrier_ns);
  if (p->longest_ns == in->waited_ns)
    explain_queue(in, out);
  else if (p->longest_ns == p->barrier_ns && sync != SC_EXPLAIN_NOBODY)
    explain_sync(in, sync, out);
  else if (p->longest_ns == p->barrier_ns)
    explain_wait(in, culprit(in, out), out);
  else if (p->longest_ns == p->sync_ns)
    explain_sync(in, last, out);
  else if (p->longest_ns == p->work_ns)
    explain_async(in, last, out);
  else if (p->longest_ns == in->prepare_ns)
    explain_storage(in, in->prepare_ns, "make its folder", out);
  else if (p->longest_ns == in->finish_ns)
    explain_storage(in, in->finish_ns, "write its _metadata", out);
  else /* held, and nobody was late for it */
    explain_wait(in, last, out);
}

static void explain_slow(const sc_explain_input_t *in, uint32_t last, sc_explanation_t *out) {
  if (!in->subtasks[last].acknowledged) {
    if (in->waited_ns > in->took_ns)
      explain_queue(in, out);
    else
      explain_wait(in, last, out);
    return;
  }
  parts_t p = parts_of(in, last);
  if (p.held_ns == p.longest_ns) {
    last = holder(in, last);
    free(out->path);
    out->path = NULL;
    out->n_path = 0;
    follow(in, last, out);
    p = parts_of(in, last);
  }
  explain_part(in, last, &p, out);
}

/* One that is not complete may still turn out slow: only who is missing can be said of it. */
static void explain_fast(const sc_explain_input_t *in, uint32_t last, sc_explanation_t *out) {
  char *head = head_of(in);
  bool waits = last != SC_EXPLAIN_NOBODY && !in->subtasks[last].acknowledged;
  out->text = waits ? sc_format("%s; %s has not acknowledged it", head, in->subtasks[last].name)
                    : sc_format("%s; nothing in it was slow", head);
  free(head);
}

void sc_explain(const sc_explain_input_t *in, sc_explanation_t *out) {
  *out = (sc_explanation_t){.cause = SC_CAUSE_NONE, .subtask = SC_EXPLAIN_NOBODY};
  uint32_t last = last_subtask(in);
  follow(in, last, out);
  if (in->took_ns + in->waited_ns < in->slow_ns || last == SC_EXPLAIN_NOBODY) {
    explain_fast(in, last, out);
    return;
  }
  explain_slow(in, last, out);
}
