#include "sim_final.h"

#include <inttypes.h>
#include <stdlib.h>

#include "../../core/base/mem.h"
#include "../../core/snapshot/keyed_file.h"
#include "../../core/snapshot/redistribute.h"
#include "sim_check.h"

typedef struct final_state {
  uint32_t counted, seen, windows; /* rows, or records by the counts */
  sim_list_t waiting, fired;       /* processing-time timers */
} final_state_t;

static void pair_of(sc_bytes_t bytes, int64_t out[2]) {
  sc_cursor_t cursor = sc_cursor(bytes);
  sc_token_t t[3] = {{0}};
  for (int i = 0; i < 3; i++)
    sc_cursor_next(&cursor, &t[i]);
  out[0] = t[1].i;
  out[1] = t[2].i;
}

static int64_t key_of(const sc_keyed_row_t *row) {
  sc_cursor_t cursor = sc_cursor(row->key);
  sc_token_t key = {.i = -1};
  sc_cursor_next(&cursor, &key);
  return key.i;
}

static void read_acc(const sim_final_t *c, uint32_t node, const sc_keyed_row_t *row,
                     final_state_t *f) {
  int64_t got[2], want[2] = {0, 0}, key = key_of(row);
  pair_of(row->value, got);
  const sim_list_t *in = &c->model->in[node];
  bool of_windows = false; /* which may have counted a record twice before they fired */
  for (uint32_t i = 0; i < in->n; i++)
    if (in->list[i].k == key) {
      sim_window_add(want, &in->list[i]);
      of_windows |= in->list[i].t == 1;
    }
  bool again = c->shared->loose && (got[0] > want[0] || (of_windows && got[0] == want[0]));
  if (!again && (got[0] != want[0] || got[1] != want[1]))
    sim_wrong(c->shared, "%s: the state of key %" PRId64 " counts %" PRId64 ", the model %" PRId64,
              c->shared->plan->nodes[node].uid, key, got[0], want[0]);
  f->counted += (uint32_t)got[0];
}

static void add_timer(const sc_keyed_row_t *row, sim_list_t *list) {
  int64_t id[2];
  pair_of(row->map_key, id);
  sim_list_add(list, &(sim_record_t){.k = key_of(row), .l = id[0], .s = id[1]});
}

static void read_row(const sim_final_t *c, uint32_t node, const char *state,
                     const sc_keyed_row_t *row, final_state_t *f) {
  if (strcmp(state, "acc") == 0) {
    read_acc(c, node, row, f);
  } else if (strcmp(state, "windows") == 0) {
    f->windows++;
  } else if (strcmp(state, "seen") == 0) {
    f->seen++;
  } else if (strcmp(state, "pt") == 0) {
    add_timer(row, &f->waiting);
  } else if (strcmp(state, "fired") == 0) {
    add_timer(row, &f->fired);
  }
}

static void read_handle(const sim_final_t *c, uint32_t node, const char *dir, const sc_handle_t *h,
                        final_state_t *f) {
  sc_keyed_reader_t *reader;
  sc_error_t err = SC_ERROR_INIT;
  int rc = sc_keyed_reader_open(c->storage, dir, h, &reader, &err);
  if (rc < 0) {
    sim_wrong(c->shared, "the final state cannot be read: %s", err.message);
    sc_error_clear(&err);
    return;
  }
  const sc_keyed_file_state_t *states;
  sc_keyed_reader_states(reader, &states);
  sc_keyed_row_t row;
  while ((rc = sc_keyed_reader_next(reader, &row, &err)) > 0)
    read_row(c, node, states[row.state].name, &row, f);
  if (rc < 0)
    sim_wrong(c->shared, "the final state is damaged: %s", err.message);
  sc_error_clear(&err);
  sc_keyed_reader_close(reader);
}

/* Where records may come again, so may the timers that they set. */
static uint32_t either(const final_state_t *f) {
  uint32_t n = f->fired.n;
  for (uint32_t i = 0; i < f->waiting.n; i++)
    n += !sim_list_find(&f->fired, &f->waiting.list[i]);
  return n;
}

static bool within(const sim_final_t *c, uint32_t n, uint32_t least, uint32_t most) {
  return n >= least && (c->shared->loose ? n <= most : n == least);
}

static void compare(const sim_final_t *c, uint32_t node, const final_state_t *f) {
  const char *uid = c->shared->plan->nodes[node].uid;
  uint32_t want = c->model->in[node].n, pt = c->model->pt[node].n;
  if (!within(c, f->counted, want, UINT32_MAX) || !within(c, f->seen, want, c->full->in[node].n))
    sim_wrong(c->shared, "%s: its state has counted %u and seen %u records, the model %u", uid,
              f->counted, f->seen, want);
  if (f->windows)
    sim_wrong(c->shared, "%s: %u windows are still open", uid, f->windows);
  uint32_t timers = c->shared->loose ? either(f) : f->waiting.n + f->fired.n;
  if (!within(c, timers, pt, c->full->pt[node].n))
    sim_wrong(c->shared, "%s: %u processing-time timers wait and %u fired, the model has %u", uid,
              f->waiting.n, f->fired.n, pt);
}

/* "/ckpt/job/chk-42", or the older folder in which the files of a finished task lie. malloc'ed. */
static char *folder_of(const sim_final_t *c, const sc_metadata_subtask_t *s) {
  const char *dir = sim_job_dir(c->shared);
  return s->directory ? sc_format("%s/%s", dir, s->directory)
                      : sc_format("%s/chk-%" PRIu64, dir, c->metadata->id);
}

uint32_t sim_final_state(const sim_final_t *c, uint32_t node) {
  const sc_metadata_operator_t *op =
      sc_metadata_find(c->metadata, c->shared->plan->nodes[node].uid);
  final_state_t f = {0};
  for (uint32_t s = 0; op && s < op->parallelism; s++) {
    char *dir = folder_of(c, &op->subtasks[s]);
    for (uint32_t h = 0; h < op->subtasks[s].state.n_handles; h++)
      if (op->subtasks[s].state.handles[h].kind == SC_HANDLE_KEYED)
        read_handle(c, node, dir, &op->subtasks[s].state.handles[h], &f);
    free(dir);
  }
  compare(c, node, &f);
  uint32_t fired = f.fired.n;
  free(f.fired.list);
  free(f.waiting.list);
  return fired;
}

/* ---- how far sources have read ---- */

static void note_positions(const sc_handle_t *h, uint32_t read[SIM_SPLITS]) {
  sc_bytes_t items = {0}, item;
  uint32_t n = 0;
  sc_lists_find(sc_buf_bytes(&h->inlined), "splits", &items, &n);
  sc_cursor_t c = sc_cursor(items);
  for (uint32_t i = 0; i < n && sc_cursor_value(&c, &item) > 0; i++) {
    int64_t split = sc_value_field_int(item, "split", -1);
    if (split >= 0 && split < SIM_SPLITS)
      read[split] = (uint32_t)sc_value_field_int(item, "seq", 0);
  }
}

/* What is left with the enumerator was dealt to nobody; one that had found nothing yet has all. */
static void note_undealt(const sc_metadata_operator_t *op, uint32_t read[SIM_SPLITS]) {
  sc_bytes_t state = sc_buf_bytes(&op->enumerator), splits, item;
  if (!op->has_enumerator)
    return;
  if (!sc_value_field_bool(state, "found", false))
    memset(read, 0, SIM_SPLITS * sizeof *read);
  if (sc_value_field(state, sc_bytes_str("splits"), &splits) != 1)
    return;
  sc_cursor_t c = sc_cursor(splits);
  sc_token_t array;
  sc_cursor_next(&c, &array);
  while (sc_cursor_value(&c, &item) > 0) {
    int64_t split = sc_value_field_int(item, "split", -1);
    if (split >= 0 && split < SIM_SPLITS)
      read[split] = 0;
  }
}

void sim_final_ends(const sim_plan_t *p, const sc_metadata_t *m, sim_ends_t *out) {
  *out = (sim_ends_t){{{0}}};
  for (uint32_t i = 0; i < p->n_nodes; i++) {
    const sim_node_t *n = &p->nodes[i];
    const sc_metadata_operator_t *op = n->left_out ? NULL : sc_metadata_find(m, n->uid);
    if (n->kind != SIM_SOURCE || !op)
      continue;
    for (uint32_t split = 0; split < n->splits; split++)
      out->read[i][split] = n->records;
    for (uint32_t s = 0; s < op->parallelism; s++)
      for (uint32_t h = 0; h < op->subtasks[s].state.n_handles; h++)
        if (op->subtasks[s].state.handles[h].kind == SC_HANDLE_LIST)
          note_positions(&op->subtasks[s].state.handles[h], out->read[i]);
    note_undealt(op, out->read[i]);
  }
}
