/* job_view: what other threads see of a job, under one lock, and the eventfd that tells of news. */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../base/mem.h"
#include "job_parts.h"

#define HISTORY 10        /* checkpoints that are kept in detail */
#define EVENTS_MAX 10000 /* kept for a user who never looks */

const char *sc_job_state_name(sc_job_state_t s) {
  static const char *const names[] = {"starting", "running", "restarting", "canceling", "finished",
                                      "failed", "canceled"};
  return names[s];
}

static const char *region_state_name(sc_region_state_t s) {
  static const char *const names[] = {"starting", "running", "ending", "restarting", "restarting",
                                      "restarting", "ended"};
  return names[s];
}

/* One operator that nothing comes behind. */
static bool is_sink(const sc_graph_t *g, const sc_chain_plan_t *c) {
  for (uint32_t i = 0; i < g->n_edges; i++)
    if (g->edges[i].from == c->nodes[0])
      return false;
  return c->n_nodes == 1;
}

void sc__view_init(sc_job_t *job) {
  sc_view_t *v = &job->view;
  pthread_mutex_init(&v->lock, NULL);
  v->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  v->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  v->statistics = sc_statistics_create(HISTORY);
  sc_statistics_explain_after(v->statistics, job->options.explain_after_ms);
  v->rows_tail = &v->rows;
  v->regions = sc_calloc(job->layout->n, sizeof *v->regions);
  v->last_metrics = sc_calloc(job->graph->n_tasks, sizeof *v->last_metrics);
  for (uint32_t i = 0; i < job->layout->n; i++)
    v->regions[i].state = region_state_name(SC_REGION_STARTING);
  for (uint32_t i = 0; i < job->graph->n_chains; i++) {
    const sc_chain_plan_t *c = &job->graph->chains[i];
    char *chain = sc_graph_chain_name(job->graph, c);
    sc_statistics_add_task(v->statistics, chain, c->parallelism);
    if (is_sink(job->graph, c))
      sc_statistics_task_is_sink(v->statistics);
    free(chain);
  }
}

void sc__view_fini(sc_job_t *job) {
  sc_view_t *v = &job->view;
  while (v->rows) {
    sc_rows_t *r = v->rows;
    v->rows = r->next;
    sc_buf_free(&r->bytes);
    free(r);
  }
  while (v->answers) {
    sc_answer_t *a = v->answers;
    v->answers = a->next;
    sc_error_clear(&a->error);
    free(a);
  }
  sc_statistics_destroy(v->statistics);
  sc_buf_free(&v->events);
  for (uint32_t i = 0; i < job->graph->n_tasks; i++)
    sc_buf_free(&v->last_metrics[i].maps);
  free(v->last_metrics);
  free(v->regions);
  free(v->error);
  free(v->restored_path);
  if (v->fd >= 0)
    close(v->fd);
  if (v->news_fd >= 0)
    close(v->news_fd);
  pthread_mutex_destroy(&v->lock);
}

static void raise_fd(int fd) {
  uint64_t one = 1;
  ssize_t n = write(fd, &one, sizeof one);
  (void)n; /* a full counter is as good as one more */
}

static void lower_fd(int fd) {
  uint64_t n;
  ssize_t got = read(fd, &n, sizeof n);
  (void)got; /* nothing there is fine */
}

/* With the lock held: something is new. */
void sc__view_tell(sc_view_t *v) {
  if (v->n_events)
    raise_fd(v->fd);
  raise_fd(v->news_fd);
}

static void begin_event(sc_view_t *v, const char *type, uint32_t more) {
  if (v->n_events == EVENTS_MAX) { /* nobody looks: begin anew rather than grow for ever */
    v->n_events = 0;
    sc_buf_clear(&v->events);
  }
  v->n_events++;
  sc_pack_map(&v->events, 1 + more);
  sc_pack_cstr(&v->events, "type");
  sc_pack_cstr(&v->events, type);
}

void sc__view_state(sc_job_t *job, sc_job_state_t state) {
  sc_view_t *v = &job->view;
  job->state = state;
  sc__view_lock(job);
  v->state = state;
  v->restarts = sc_restart_count(job->restart);
  bool failed = v->error && (state == SC_JOB_RESTARTING || state == SC_JOB_FAILED);
  begin_event(v, sc_job_state_name(state), failed);
  if (failed) {
    sc_pack_cstr(&v->events, "error");
    sc_pack_cstr(&v->events, v->error);
  }
  sc__view_tell(v);
  sc__view_unlock(job);
}

void sc__view_error(sc_job_t *job, const sc_error_t *err) {
  char *text = sc_error_format(err);
  if (err->operator_name && !strstr(text, err->operator_name)) { /* user errors begin with it */
    char *named = sc_format("%s [%s]", text, err->operator_name);
    free(text);
    text = named;
  }
  sc__view_lock(job);
  free(job->view.error);
  job->view.error = text;
  job->view.error_code = err->code;
  sc__view_unlock(job);
}

void sc__view_stopped(sc_job_t *job) {
  sc__view_lock(job);
  job->view.stopped = true;
  sc__view_unlock(job);
}

void sc__view_region(sc_region_t *r) {
  sc_shown_region_t *shown = &r->job->view.regions[r->index];
  bool failed = r->state == SC_REGION_ENDING && r->failure.code;
  sc__view_lock(r->job);
  shown->state = region_state_name(failed ? SC_REGION_DOWN : r->state);
  shown->number = r->number;
  shown->restarts = r->restarts;
  sc__view_unlock(r->job);
}

/* Its tasks' metrics, as they are in the end. With the lock held. */
static void keep_metrics(sc_region_t *r, sc_attempt_t *a) {
  sc_job_t *job = r->job;
  for (uint32_t i = 0; i < job->graph->n_tasks; i++) {
    if (job->layout->of_task[i] != r->index)
      continue;
    sc_shown_metrics_t *m = &job->view.last_metrics[i];
    sc_buf_clear(&m->maps);
    m->n = sc_attempt_metrics(a, i, &m->maps);
  }
}

void sc__view_attempt(sc_region_t *r, sc_attempt_t *attempt) {
  sc_view_t *v = &r->job->view;
  sc_shown_region_t *shown = &v->regions[r->index];
  sc__view_lock(r->job);
  if (shown->attempt)
    keep_metrics(r, shown->attempt);
  shown->attempt = attempt;
  if (attempt)
    v->attempt = attempt->config.number;
  sc__view_unlock(r->job);
}

void sc__view_rows(sc_job_t *job, sc_report_t *r) {
  sc_view_t *v = &job->view;
  sc_rows_t *rows = sc_calloc(1, sizeof *rows);
  *rows = (sc_rows_t){.uid = r->uid, .id = r->id, .visible = r->id == 0, .bytes = r->bytes};
  r->bytes = (sc_buf_t)SC_BUF_INIT;
  sc__view_lock(job);
  rows->visible |= r->id && r->id <= v->last_checkpoint;
  *v->rows_tail = rows;
  v->rows_tail = &rows->next;
  sc__view_unlock(job);
}

static bool is_of_region(const sc_region_t *r, const char *uid) {
  const sc_graph_t *g = r->job->graph;
  for (uint32_t i = 0; i < g->n_nodes; i++)
    if (strcmp(g->nodes[i].uid, uid) == 0)
      return r->job->layout->of_node[i] == r->index;
  return false;
}

void sc__view_rewind(sc_region_t *region, uint64_t id) {
  sc_view_t *v = &region->job->view;
  sc__view_lock(region->job);
  sc_rows_t **at = &v->rows;
  while (*at) {
    sc_rows_t *r = *at;
    r->visible |= r->id <= id;
    if (r->visible || !is_of_region(region, r->uid)) {
      at = &r->next;
      continue;
    }
    *at = r->next;
    sc_buf_free(&r->bytes);
    free(r);
  }
  v->rows_tail = at;
  sc__view_unlock(region->job);
}

void sc__view_checkpoint(sc_job_t *job, uint64_t id, bool complete, const char *text) {
  sc_view_t *v = &job->view;
  sc__view_lock(job);
  if (complete) {
    v->last_checkpoint = id;
    for (sc_rows_t *r = v->rows; r; r = r->next)
      r->visible |= r->id <= id;
  }
  begin_event(v, complete ? "checkpoint" : "checkpoint_failed", (id != 0) + (text != NULL));
  if (id) {
    sc_pack_cstr(&v->events, "id");
    sc_pack_int(&v->events, (int64_t)id);
  }
  if (text) {
    sc_pack_cstr(&v->events, complete ? "path" : "reason");
    sc_pack_cstr(&v->events, text);
  }
  sc__view_tell(v);
  sc__view_unlock(job);
}

/* ---- looking ---- */

/* With the lock held. */
static void add_regions(const sc_job_t *job, sc_job_status_t *out) {
  out->n_regions = job->layout->n;
  out->regions = sc_calloc(out->n_regions, sizeof *out->regions);
  for (uint32_t i = 0; i < out->n_regions; i++) {
    const sc_shown_region_t *shown = &job->view.regions[i];
    out->regions[i] = (sc_region_status_t){shown->state, shown->number, shown->restarts,
                                           sc_calloc(job->graph->n_nodes, sizeof(char *)), 0};
  }
  for (uint32_t i = 0; i < job->graph->n_nodes; i++) {
    sc_region_status_t *r = &out->regions[job->layout->of_node[i]];
    r->uids[r->n_uids++] = job->graph->nodes[i].uid;
  }
}

void sc_job_status(sc_job_t *job, sc_job_status_t *out) {
  sc_view_t *v = &job->view;
  sc__view_lock(job);
  *out = (sc_job_status_t){.state = v->state,
                           .attempt = v->attempt,
                           .restarts = v->restarts,
                           .last_checkpoint = v->last_checkpoint,
                           .error = sc_strdup(v->error),
                           .error_code = v->error_code,
                           .restored_path = sc_strdup(v->restored_path),
                           .was_complete = v->was_complete,
                           .stopped = v->stopped};
  if (v->last_checkpoint && job->path)
    out->last_checkpoint_path = sc_format("%s/chk-%" PRIu64, job->path, v->last_checkpoint);
  add_regions(job, out);
  sc__view_unlock(job);
}

void sc_job_status_fini(sc_job_status_t *s) {
  for (uint32_t i = 0; i < s->n_regions; i++)
    free(s->regions[i].uids);
  free(s->regions);
  free(s->last_checkpoint_path);
  free(s->error);
  free(s->restored_path);
}

const char *sc_job_id(const sc_job_t *job) { return job->id; }

void sc_job_statistics(sc_job_t *job, sc_buf_t *out) {
  int64_t now_ms = sc__job_now(job);
  sc__view_lock(job);
  sc_statistics_encode(job->view.statistics, now_ms, out);
  sc__view_unlock(job);
}

void sc_job_metrics(sc_job_t *job, sc_buf_t *out) {
  sc_buf_t maps = SC_BUF_INIT;
  uint32_t n = 0;
  sc__view_lock(job);
  for (uint32_t i = 0; i < job->graph->n_tasks; i++) {
    sc_attempt_t *a = job->view.regions[job->layout->of_task[i]].attempt;
    const sc_shown_metrics_t *last = &job->view.last_metrics[i];
    if (!a)
      sc_buf_put_bytes(&maps, sc_buf_bytes(&last->maps));
    n += a ? sc_attempt_metrics(a, i, &maps) : last->n;
  }
  sc__view_unlock(job);
  sc_pack_array(out, n);
  sc_buf_put_bytes(out, sc_buf_bytes(&maps));
  sc_buf_free(&maps);
}

static bool is_collect(const sc_job_t *job, const char *uid) {
  for (uint32_t i = 0; i < job->graph->n_nodes; i++)
    if (strcmp(job->graph->nodes[i].uid, uid) == 0)
      return job->graph->nodes[i].type->delivers;
  return false;
}

int sc_job_rows(sc_job_t *job, const char *uid, sc_buf_t *out, sc_error_t *err) {
  return sc_job_rows_until(job, uid, 0, out, err);
}

int sc_job_rows_until(sc_job_t *job, const char *uid, uint64_t id, sc_buf_t *out,
                      sc_error_t *err) {
  if (!is_collect(job, uid)) /* the graph does not change: no lock */
    return sc_fail(err, SC_ENOTFOUND, "no collect has the uid '%s'", uid);
  sc_buf_t rows = SC_BUF_INIT;
  uint32_t n = 0;
  sc__view_lock(job);
  for (sc_rows_t *r = job->view.rows; r; r = r->next) {
    if ((!r->visible && r->id > id) || strcmp(r->uid, uid) != 0)
      continue;
    sc_cursor_t c = sc_cursor(sc_buf_bytes(&r->bytes));
    sc_token_t array;
    if (sc_cursor_next(&c, &array) == 1 && array.type == SC_ARRAY) {
      n += array.n;
      sc_buf_put(&rows, c.at, (size_t)(c.end - c.at));
    }
  }
  sc__view_unlock(job);
  sc_pack_array(out, n);
  sc_buf_put_bytes(out, sc_buf_bytes(&rows));
  sc_buf_free(&rows);
  return 0;
}

void sc_job_events(sc_job_t *job, sc_buf_t *out) {
  sc__view_lock(job);
  sc_pack_array(out, job->view.n_events);
  sc_buf_put_bytes(out, sc_buf_bytes(&job->view.events));
  job->view.n_events = 0;
  sc_buf_clear(&job->view.events);
  lower_fd(job->view.fd);
  sc__view_unlock(job);
}

int sc_job_fd(sc_job_t *job) { return job->view.fd; }

int sc_job_wait_news(sc_job_t *job, int64_t timeout_ms, const sigset_t *signals) {
  struct pollfd p = {.fd = job->view.news_fd, .events = POLLIN};
  struct timespec t = {.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000};
  int rc = ppoll(&p, 1, timeout_ms < 0 ? NULL : &t, signals);
  if (rc < 0)
    return SC_ECANCELED;
  if (rc > 0)
    lower_fd(job->view.news_fd);
  return rc > 0;
}
