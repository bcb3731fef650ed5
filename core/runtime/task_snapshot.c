/*
 * task_snapshot: a task's part in a checkpoint.
 *
 * Synchronous part, on the slot, between two records: the barrier goes out on every output, in
 * front of what it overtakes; what is half read of the inputs is kept and captures are opened where
 * the checkpoint overtakes; every operator adds its list state and pool work, the keyed window is
 * frozen (a pointer swap).
 * Asynchronous part: two halves, and the acknowledgement straight to the coordinator by whoever
 * ends the second one; the slot is told afterwards.
 *   state      in the pool as soon as a keyed window that is still busy with an older snapshot is
 *              ready: operators' work (sync a file), the keyed file
 *   in flight  when nothing is held by the cut any more (exchange/cut.h): captures that are open,
 *              barriers that may yet be moved. Whoever ends the last of these, on whatever thread,
 *              hands over what was kept
 *
 *   sc_task_snapshot --> OPEN --both halves--> told --> gone
 *                         |--abort, superseded, the task leaves--> its cut is dropped: gone, or
 *                            told when the pool is done with the state
 *
 * A work is in its task's list from the first to the last; only the slot touches the list.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../base/mem.h"
#include "../base/planted.h"
#include "../snapshot/timed_storage.h"
#include "attempt.h"

/* When the pool had what to do with one of the halves; monotonic. */
typedef struct half {
  int64_t submitted_ns, begun_ns, ended_ns;
  int64_t storage_ns;           /* of that, in calls of the storage */
  int64_t others_ns;            /* in flight: until when it waited for who shares the file */
} half_t;

typedef struct snapshot_work {
  sc_work_t work;               /* the state */
  sc_work_t share_work;         /* what was in flight */
  sc_mail_t mail;
  struct snapshot_work *next;   /* in task->works */
  sc_attempt_t *attempt;
  sc_task_t *task;
  uint64_t id;
  sc_cut_t *cut;                /* a reference */
  sc_inflight_share_t share;    /* of the checkpoint's files of in-flight data */
  bool shares;                  /* it has one: nothing was said of it yet, or it was handed over */
  atomic_uint halves;           /* that are not done */
  int rc, share_rc;             /* what came of each */
  sc_error_t error, share_error;
  int64_t overtake_at_ms;       /* when queued barriers move to the head; INT64_MAX: none */
  uint64_t taken_before;        /* sc_input_taken when it began */
  bool starting;                /* the start's hold of the cut is not released */
  bool submitted;               /* the state went to the pool */
  bool at_once;                 /* the pool's part is run here and now */
  sc_task_snapshot_t *snapshot; /* goes with the acknowledgement */
  sc_snapshot_parts_t **parts;  /* one for each link */
  uint32_t n_parts;
  sc_keyed_snapshot_t *keyed;   /* or NULL */
  sc_keyed_t *window;
  char *dir;                    /* chk-N */
  int64_t created_ns;
  int64_t released_ns;          /* when its cut was complete */
  half_t state, in_flight;
  int64_t first_barrier_ns;     /* 0: there was none */
  bool captures;                /* it overtook its inputs */
  bool open;                    /* some of its captures were still open then */
} snapshot_work_t;

static void free_work(snapshot_work_t *w) {
  for (uint32_t i = 0; i < w->n_parts; i++)
    sc_parts_destroy(w->parts[i]);
  free(w->parts);
  sc_task_snapshot_destroy(w->snapshot);
  sc_cut_unref(w->cut);
  sc_inflight_share_fini(&w->share);
  sc_error_clear(&w->error);
  sc_error_clear(&w->share_error);
  free(w->dir);
  free(w);
}

static snapshot_work_t *of_mail(sc_mail_t *mail) {
  return (snapshot_work_t *)((char *)mail - offsetof(snapshot_work_t, mail));
}

/* It is through, or was dropped: on the slot, or when nothing runs any more. */
static void end_work(sc_task_t *t, snapshot_work_t *w) {
  snapshot_work_t **at = &t->works;
  while (*at != w)
    at = &(*at)->next;
  *at = w->next;
  if (w->shares)
    sc_inflight_files_withdraw(t->attempt->files, t->member, w->id);
  if (w->keyed)
    w->window->ops->snapshot_done(w->window, w->keyed);
  free_work(w);
}

static void told(sc_mail_t *mail, void *owner) {
  snapshot_work_t *w = of_mail(mail);
  sc_task_t *t = w->task;
  end_work(t, w);
  sc_task_submit_ready(t);
}

/* The slot has gone: the work stays in the list until the attempt is destroyed. */
static void told_dropped(sc_mail_t *mail) {}

/* File name of an operator's keyed state: its uid made safe, subtask and attempt. */
static char *keyed_file_name(const sc_task_t *t) {
  const char *uid = t->chain.links[0].node->uid;
  char *safe = sc_strdup(uid);
  for (char *p = safe; *p; p++)
    if (!isalnum((unsigned char)*p) && *p != '-' && *p != '_')
      *p = '_';
  if (strlen(safe) > 64)
    safe[64] = 0;
  /* The node's number keeps two uids apart that look alike once made safe. */
  char *name = sc_format("%s-n%u-%u-a%" PRIu64 ".keys", safe, t->plan->nodes[0], t->subtask,
                         t->attempt->config.number);
  free(safe);
  return name;
}

static int write_keyed(snapshot_work_t *w, sc_error_t *err) {
  if (!w->keyed)
    return 0;
  sc_handle_t *h = sc_operator_snapshot_add(&w->snapshot->operators[0], SC_HANDLE_KEYED);
  char *name = keyed_file_name(w->task);
  sc_timed_storage_t timed;
  sc_timed_storage_init(&timed, w->attempt->config.storage, w->attempt->config.world);
  int rc = w->window->ops->snapshot_write(w->keyed, &timed.base, w->dir, name, h, err);
  w->state.storage_ns += timed.spent_ns;
  free(name);
  if (rc >= 0)
    w->snapshot->bytes += h->length;
  if (rc < 0 || h->length == 0) { /* nothing was written: no handle */
    sc_handle_fini(h);
    w->snapshot->operators[0].n_handles--;
  }
  return rc;
}

static int run_parts(snapshot_work_t *w, sc_error_t *err) {
  for (uint32_t i = 0; i < w->n_parts; i++) {
    int rc = sc_parts_run(w->parts[i], err);
    if (rc < 0) {
      sc_error_set_operator(err, w->task->chain.links[i].label);
      return rc;
    }
    sc_buf_t lists = SC_BUF_INIT;
    if (sc_parts_encode(w->parts[i], &lists)) {
      sc_handle_t *h = sc_operator_snapshot_add(&w->snapshot->operators[i], SC_HANDLE_LIST);
      w->snapshot->bytes += lists.len;
      h->inlined = lists;
    }
  }
  return 0;
}

static int64_t at_least_0(int64_t ns) {
  return ns > 0 ? ns : 0;
}

/* Where the time of the asynchronous part went: of the half that ended last. */
static void measure_async(snapshot_work_t *w) {
  const half_t *last = w->in_flight.ended_ns > w->state.ended_ns ? &w->in_flight : &w->state;
  sc_task_snapshot_t *s = w->snapshot;
  s->async_ns = sc_world_mono_ns(w->attempt->config.world) - w->created_ns;
  if (last == &w->in_flight) {
    bool others = last->others_ns > w->released_ns;
    s->held_ns = at_least_0((others ? last->others_ns : w->released_ns) - w->created_ns);
  }
  if (last->submitted_ns)
    s->pool_ns = at_least_0(last->begun_ns - last->submitted_ns);
  /* A file that tasks share was begun before this one's share was there. */
  int64_t own_ns = at_least_0(s->async_ns - s->held_ns - s->pool_ns);
  s->storage_ns = last->storage_ns < own_ns ? last->storage_ns : own_ns;
}

/* The end of the pool's part, on the thread that did the last of it. */
static void acknowledge(snapshot_work_t *w, int rc, sc_error_t *err) {
  sc_attempt_t *a = w->attempt;
  sc_report_t *r = sc_report_new(a, SC_REPORT_ACK, w->task->index);
  r->id = w->id;
  w->snapshot->unaligned = sc_cut_overtook(w->cut);
  measure_async(w);
  if (rc < 0 && !SC_PLANTED(LOST_PART)) {
    r->kind = SC_REPORT_DECLINE;
    sc_error_move(&r->error, err);
  }
  if (rc >= 0) {
    sc_inflight_share_move(a->files, &w->share, w->snapshot);
    w->snapshot->bytes += w->share.written;
  }
  r->snapshot = w->snapshot;
  w->snapshot = NULL;
  sc_report_post(a, r);
  sc_mailbox_post(&w->task->slot->mailbox, &w->mail);
}

/* The other one may be freed by now: w is gone behind this. */
static void half_done(snapshot_work_t *w) {
  /* Acquire and release: whoever comes last sees what the other half has written. */
  if (atomic_fetch_sub_explicit(&w->halves, 1, memory_order_acq_rel) > 1)
    return;
  acknowledge(w, w->rc < 0 ? w->rc : w->share_rc, w->rc < 0 ? &w->error : &w->share_error);
}

static void share_done(sc_inflight_share_t *share, int rc, sc_error_t *err) {
  snapshot_work_t *w = share->arg;
  sc_attempt_t *a = w->attempt;
  w->share_rc = rc;
  sc_error_move(&w->share_error, err);
  w->in_flight.storage_ns = share->storage_ns;
  w->in_flight.others_ns = share->waited_ns;
  w->in_flight.ended_ns = sc_world_mono_ns(a->config.world);
  half_done(w);
  sc_attempt_unref(a);
}

static snapshot_work_t *of_share(sc_work_t *work) {
  return (snapshot_work_t *)((char *)work - offsetof(snapshot_work_t, share_work));
}

static void run_share(sc_work_t *work) {
  snapshot_work_t *w = of_share(work);
  w->in_flight.begun_ns = sc_world_mono_ns(w->attempt->config.world);
  sc_cut_take(w->cut, &w->share.data);
  sc_inflight_files_add(w->attempt->files, &w->share);
}

static void run_work(sc_work_t *work) {
  snapshot_work_t *w = (snapshot_work_t *)work;
  sc_attempt_t *a = w->attempt;
  w->state.begun_ns = sc_world_mono_ns(a->config.world);
  w->rc = run_parts(w, &w->error);
  w->state.storage_ns = sc_world_mono_ns(a->config.world) - w->state.begun_ns; /* it syncs files */
  if (w->rc >= 0)
    w->rc = write_keyed(w, &w->error);
  w->state.ended_ns = sc_world_mono_ns(a->config.world);
  if (w->rc < 0 && w->share.done) /* the checkpoint is lost: nobody waits for others' shares */
    sc_inflight_files_abort(a->files, w->share.member, w->id);
  half_done(w);
  sc_attempt_unref(a);
}

/* To the pool, or here and now; the attempt is kept until it is done. */
static void submit(snapshot_work_t *w, sc_work_t *work, half_t *half) {
  sc_attempt_ref(w->attempt); /* whoever calls has one */
  half->submitted_ns = sc_world_mono_ns(w->attempt->config.world);
  if (w->at_once)
    work->run(work);
  else
    sc_world_submit(w->attempt->config.world, work);
}

static uint32_t sender_task(const sc_graph_t *g, uint32_t edge, uint32_t sender) {
  return g->chains[g->nodes[g->edges[edge].from].chain].first_task + sender;
}

/* All that an overtaking start held open were captures: the last barrier is in. */
static void end_alignment(snapshot_work_t *w) {
  sc_task_snapshot_t *s = w->snapshot;
  uint32_t edge, sender;
  s->alignment_bytes = sc_input_taken(w->task->input) - w->taken_before;
  if (w->first_barrier_ns)
    s->alignment_ns = w->released_ns - w->first_barrier_ns;
  if (w->open && sc_cut_last_capture(w->cut, &edge, &sender)) {
    s->last_from = sender_task(w->attempt->config.graph, edge, sender);
    s->queued_bytes = 0; /* what stood there did not keep it */
  }
}

/* The cut is complete. Any slot's thread: a neighbour's barrier may have been the last. */
static void cut_done(void *arg) {
  snapshot_work_t *w = arg;
  w->released_ns = sc_world_mono_ns(w->attempt->config.world);
  if (w->captures)
    end_alignment(w);
  if (!w->shares) {
    w->in_flight.ended_ns = w->released_ns;
    half_done(w);
    return;
  }
  w->shares = false;
  submit(w, &w->share_work, &w->in_flight);
}

static void submit_state(snapshot_work_t *w) {
  w->submitted = true;
  submit(w, &w->work, &w->state);
}

static snapshot_work_t *find_work(sc_task_t *t, uint64_t id) {
  snapshot_work_t *w = t->works;
  while (w && w->id != id)
    w = w->next;
  return w;
}

void sc_task_submit_ready(sc_task_t *t) {
  if (!t->works)
    return;
  sc_keyed_snapshot_t *ready;
  while (t->keyed && (ready = t->keyed->ops->ready(t->keyed)) != NULL) {
    snapshot_work_t *w = find_work(t, t->keyed->ops->snapshot_id(ready));
    sc_assert(w && !w->submitted); /* freeze and the list go together */
    w->keyed = ready;
    submit_state(w);
  }
}

/* One that may still wait for its channels is given up, with what it keeps. */
static void drop_open(sc_task_t *t, snapshot_work_t *w) {
  bool dropped = sc_cut_drop(w->cut);
  if (dropped)
    sc_input_drop_captures(t->input, w->id);
  if (w->starting)
    sc_cut_release(w->cut);
  w->starting = false;
  if (w->submitted && !dropped)
    return; /* both halves are on their way */
  if (!w->submitted && dropped) {
    end_work(t, w);
    return;
  }
  /* One half is on its way, and the other one will never be. */
  if (dropped && w->shares)
    sc_inflight_files_withdraw(t->attempt->files, t->member, w->id);
  if (dropped)
    w->shares = false;
  sc_error_t *err = dropped ? &w->share_error : &w->error;
  int rc = sc_fail(err, SC_ESTALE, "checkpoint %" PRIu64 " was aborted", w->id);
  *(dropped ? &w->share_rc : &w->rc) = rc;
  w->submitted = true;
  half_done(w);
}

void sc_task_leave_files(sc_task_t *t) {
  if (t->member != UINT32_MAX)
    sc_inflight_files_leave(t->attempt->files, t->member);
}

void sc_task_drop_open(sc_task_t *t) {
  for (snapshot_work_t *w = t->works, *next; w; w = next) {
    next = w->next;
    if (t->keyed)
      t->keyed->ops->abort(t->keyed, w->id);
    drop_open(t, w);
  }
}

/* Monotonic time at which barriers that wait are to be moved, or INT64_MAX. */
int64_t sc_task_overtake_at_ms(const sc_task_t *t) {
  if (t->phase == SC_PHASE_LOADING || t->phase >= SC_PHASE_FINISHED)
    return INT64_MAX; /* it looks at no clock */
  int64_t at = sc_input_overtake_at_ms(t->input);
  for (const snapshot_work_t *w = t->works; w; w = w->next)
    at = w->overtake_at_ms < at ? w->overtake_at_ms : at;
  return at;
}

void sc_task_look_at_clock(sc_task_t *t, int64_t mono_ms) {
  for (snapshot_work_t *w = t->works; w; w = w->next) {
    if (w->overtake_at_ms > mono_ms)
      continue;
    w->overtake_at_ms = INT64_MAX;
    for (uint32_t i = 0; i < t->chain.n_outputs; i++)
      sc_output_overtake(t->chain.outputs[i], w->id);
  }
  sc_input_look_at_clock(t->input, mono_ms);
}

void sc_task_aborted(sc_task_t *t, uint64_t id) {
  if (t->stopped_at == id)
    t->stopped_at = 0;
  if (t->n_channels)
    sc_input_abort(t->input, id);
  else
    sc_input_pass(t->input, id); /* a source: nobody would read what the input has to say of it */
  if (t->trigger.id == id)
    t->trigger.id = 0;
  for (uint32_t i = 0; i < t->chain.n_links; i++) {
    sc_operator_t *op = t->chain.links[i].op;
    if (op->ops->aborted)
      op->ops->aborted(op, id);
  }
  if (t->keyed)
    t->keyed->ops->abort(t->keyed, id);
  snapshot_work_t *w = find_work(t, id);
  if (w)
    drop_open(t, w);
  if (t->member != UINT32_MAX)
    sc_inflight_files_abort(t->attempt->files, t->member, id);
  if (sc_input_pending(t->input) == 0)
    t->first_barrier_ns = 0;
}

void sc_task_drop_works(sc_task_t *t) {
  while (t->works) {
    sc_cut_drop(t->works->cut);
    if (t->works->starting)
      sc_cut_release(t->works->cut);
    end_work(t, t->works);
  }
}

/* Every operator's synchronous part, tail to head as the reference does. */
static int snapshot_operators(sc_task_t *t, snapshot_work_t *w) {
  for (uint32_t i = t->chain.n_links; i > 0; i--) {
    sc_link_t *link = &t->chain.links[i - 1];
    sc_operator_snapshot_t *s = &w->snapshot->operators[i - 1];
    s->uid = sc_strdup(link->node->uid);
    s->watermark = link->context.watermark;
    s->forwarded = link->forwarded;
    s->idle = link->idle;
    w->parts[i - 1] = sc_parts_create();
    sc_operator_t *op = link->op;
    if (!op->ops->snapshot)
      continue;
    int rc = op->ops->snapshot(op, w->id, w->parts[i - 1], &t->error);
    if (rc < 0) {
      sc_error_set_operator(&t->error, link->label);
      return rc;
    }
  }
  return 0;
}

static snapshot_work_t *new_work(sc_task_t *t, uint64_t id) {
  snapshot_work_t *w = sc_calloc(1, sizeof *w);
  w->work.run = run_work;
  w->share_work.run = run_share;
  atomic_init(&w->halves, 2);
  w->starting = true;
  w->at_once = t->attempt->config.synchronous;
  w->mail = (sc_mail_t){.run = told, .drop = told_dropped};
  w->attempt = t->attempt;
  w->task = t;
  w->id = id;
  w->n_parts = t->chain.n_links;
  w->parts = sc_calloc(w->n_parts, sizeof *w->parts);
  w->window = t->keyed;
  w->snapshot = sc_task_snapshot_create(t->index, t->subtask, t->chain.n_links);
  w->snapshot->checkpoint = id;
  char *name = sc_format("chk-%" PRIu64, id);
  w->dir = sc_path_join(t->attempt->config.job_dir, name);
  free(name);
  w->cut = sc_cut_create(id, cut_done, w);
  w->overtake_at_ms = INT64_MAX;
  snapshot_work_t **tail = &t->works;
  while (*tail)
    tail = &(*tail)->next;
  *tail = w;
  return w;
}

/* Every member of a group has a share in each checkpoint that may overtake, if only an empty one:
 * the others wait for it. */
static void share_inflight(sc_task_t *t, snapshot_work_t *w, bool may) {
  if (t->replay && !may)
    sc_task_replay_step(t); /* the last record may have been read in this very turn */
  sc_assert(!t->replay || may); /* the others wait until it is drained */
  if (!may || t->member == UINT32_MAX)
    return;
  w->shares = true;
  w->share = (sc_inflight_share_t){
      .member = t->member, .checkpoint = w->id, .done = share_done, .arg = w};
  if (t->replay)
    w->share.n_rests = sc_task_replay_rest(t, &w->share.rests);
  sc_inflight_files_begin(t->attempt->files, t->member, w->id);
}

/* The barrier goes out, and what is in flight is kept (DESIGN section 4, 1 and 2). */
static void cut_channels(sc_task_t *t, snapshot_work_t *w, const sc_barrier_t *b, bool overtakes) {
  int64_t mono_ms = sc_world_mono_ns(t->attempt->config.world) / 1000000;
  bool may = b->overtake_at_ms != 0;
  bool now = may && (overtakes || b->overtake_at_ms == 1 || b->overtake_at_ms <= mono_ms);
  for (uint32_t i = 0; i < t->chain.n_outputs; i++)
    sc_output_barrier(t->chain.outputs[i], b, now, w->cut);
  if (may && !now)
    w->overtake_at_ms = b->overtake_at_ms;
  if (overtakes) {
    w->captures = true;
    sc_cut_note_overtaking(w->cut);
    sc_input_capture(t->input, w->cut);
    w->open = sc_cut_holds(w->cut) > 1; /* the start's own is one */
  }
  share_inflight(t, w, may);
  if (t->is_source)
    sc_input_pass(t->input, b->id);
}

/* Durations up to the end of the synchronous part, which began at `begin`. */
static void measure(sc_task_t *t, snapshot_work_t *w, const sc_barrier_t *b, int64_t begin) {
  sc_world_t *world = t->attempt->config.world;
  w->created_ns = sc_world_mono_ns(world);
  w->snapshot->sync_ns = w->created_ns - begin;
  /* Without a barrier it begins with the synchronous part, which is no delay. */
  int64_t begin_ms = sc_world_now_ms(world) - w->snapshot->sync_ns / 1000000;
  int64_t first_ms = t->first_barrier_ns ? t->first_barrier_ms : begin_ms;
  w->snapshot->start_delay_ns = first_ms > b->timestamp_ms ? (first_ms - b->timestamp_ms) * 1000000
                                                           : 0;
  w->snapshot->alignment_ns = t->first_barrier_ns ? begin - t->first_barrier_ns : 0;
  w->first_barrier_ns = t->first_barrier_ns;
  t->first_barrier_ns = 0;
}

/* What was sent to it, so that siblings can be compared: only keys make them differ. */
static void note_received(sc_task_t *t, sc_task_snapshot_t *snap) {
  sc_usage_t in = {0};
  if (!t->keyed)
    return;
  sc_input_usage(t->input, &in);
  snap->received_bytes = in.passed_bytes - t->received_before;
  t->received_before = in.passed_bytes;
}

/* Whose barrier was waited for last, and what stood before it. */
static void note_last(const sc_task_t *t, const sc_input_event_t *e, sc_task_snapshot_t *snap) {
  snap->alignment_bytes = e->alignment_bytes;
  if (!e->last)
    return;
  snap->last_from = sender_task(t->attempt->config.graph, e->last->edge, e->last->sender);
  snap->queued_bytes = e->last_ahead;
}

void sc_task_snapshot(sc_task_t *t, const sc_input_event_t *e) {
  const sc_barrier_t *b = &e->barrier;
  int64_t begin = sc_world_mono_ns(t->attempt->config.world);
  if (b->stop)
    t->stopped_at = b->id;
  snapshot_work_t *w = new_work(t, b->id);
  cut_channels(t, w, b, e->overtakes);
  t->in_snapshot = true;
  int rc = snapshot_operators(t, w);
  t->in_snapshot = false;
  if (rc < 0) {
    drop_open(t, w);
    sc_task_fail(t, &t->error);
    return;
  }
  if (t->phase == SC_PHASE_ENDED) {
    w->snapshot->end = SC_TASK_ENDED;
    if (!t->first_ended_snapshot)
      t->first_ended_snapshot = b->id;
  }
  note_last(t, e, w->snapshot);
  note_received(t, w->snapshot);
  w->taken_before = sc_input_taken(t->input) - e->alignment_bytes;
  if (t->keyed)
    t->keyed->ops->freeze(t->keyed, b->id);
  measure(t, w, b, begin);
  w->starting = false;
  sc_cut_release(w->cut);
  if (t->keyed)
    sc_task_submit_ready(t);
  else
    submit_state(w);
}
