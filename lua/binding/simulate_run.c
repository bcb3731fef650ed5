#include "simulate_run.h"

#include <inttypes.h>
#include <stdlib.h>

#include <lauxlib.h>

#include "../../core/base/mem.h"
#include "../../core/operator/json.h"
#include "../../core/operator/sink_folder.h"
#include "../../core/sim/sim_lives.h"
#include "../../core/snapshot/job_dir.h"
#include "../../core/snapshot/keyed_file.h"
#include "fields.h"
#include "host.h"
#include "plan.h"

#define LINE_FILE_MAX ((size_t)1 << 30) /* bytes of a part that is read back */

typedef struct sink {
  uint32_t node;   /* from 0 */
  const char *uid, *kind, *dir; /* the spec's */
  bool lines;
  sc_buf_t rows, keys; /* msgpack strings, one after another */
  uint32_t n_rows, n_keys;
} sink_t;

typedef struct run {
  lua_State *L;
  int spec; /* on its stack */
  lua_CFunction open_core;
  sc_storage_t *storage, *files;
  sink_t *sinks;
  uint32_t n_sinks;
  bool keys;
  const char *job_id, *dir; /* the plans' */
} run_t;

/* ---- reading the spec: the table is on top ---- */

/* Push the named array of the spec; its length. */
static uint32_t push_list(run_t *r, const char *name) {
  lua_getfield(r->L, r->spec, name);
  return lua_istable(r->L, -1) ? (uint32_t)lua_rawlen(r->L, -1) : 0;
}

static sc_sim_event_kind_t kind_of(const char *name) {
  static const char *const names[] = {"turn", "call", "op", "task", "storage", "cancel"};
  uint32_t i = 0;
  while (i < 5 && strcmp(names[i], name))
    i++;
  return (sc_sim_event_kind_t)i;
}

static void read_events(run_t *r, sc_sim_lives_config_t *c) {
  lua_State *L = r->L;
  uint32_t n = push_list(r, "events");
  c->n_events = n < SC_SIM_EVENTS_MAX ? n : SC_SIM_EVENTS_MAX;
  for (uint32_t i = 0; i < c->n_events; i++) {
    lua_rawgeti(L, -1, i + 1);
    c->events[i] = (sc_sim_event_t){.kind = kind_of(lsc_field_str(L, "kind", "")),
                                    .at = (uint64_t)lsc_field_int(L, "at", 1),
                                    .mask = (uint32_t)lsc_field_int(L, "mask", SC_SIM_CHANGES),
                                    .times = (uint32_t)lsc_field_int(L, "times", 1),
                                    .code = lsc_field_bool(L, "space") ? SC_ENOSPACE : SC_EIO,
                                    .power = lsc_field_bool(L, "power")};
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static void read_sinks(run_t *r) {
  lua_State *L = r->L;
  r->n_sinks = push_list(r, "sinks");
  r->sinks = sc_calloc(r->n_sinks + 1, sizeof *r->sinks);
  for (uint32_t i = 0; i < r->n_sinks; i++) {
    lua_rawgeti(L, -1, i + 1);
    r->sinks[i] = (sink_t){.node = (uint32_t)lsc_field_int(L, "node", 1) - 1,
                           .uid = lsc_field_str(L, "uid", ""),
                           .kind = lsc_field_str(L, "kind", ""),
                           .dir = lsc_field_str(L, "dir", ""),
                           .lines = lsc_field_bool(L, "lines")};
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static void show_files(run_t *r) {
  lua_State *L = r->L;
  uint32_t n = push_list(r, "files");
  r->files = sc_file_storage_create(true);
  for (uint32_t i = 0; i < n; i++) {
    lua_rawgeti(L, -1, i + 1);
    sc_sim_storage_show(r->storage, lua_tostring(L, -1), r->files);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static void read_config(run_t *r, sc_sim_lives_config_t *c) {
  lua_State *L = r->L;
  lua_pushvalue(L, r->spec);
  c->seed = (uint64_t)lsc_field_int(L, "seed", 1);
  c->look_ns = lsc_field_int(L, "look_ns", 1000);
  c->latency_ns = lsc_field_int(L, "latency_ns", 1000);
  c->pool_threads = (uint32_t)lsc_field_int(L, "pool_threads", 1);
  c->pace_ns = lsc_field_int(L, "pace_ns", 0);
  c->slow_ns = lsc_field_int(L, "slow_ns", 0);
  c->stall_one_in = (uint32_t)lsc_field_int(L, "stall_one_in", 0);
  c->stall_ns = lsc_field_int(L, "stall_ns", 0);
  c->jump_one_in = (uint32_t)lsc_field_int(L, "jump_one_in", 0);
  c->lives_max = (uint32_t)lsc_field_int(L, "lives_max", 1);
  c->turns_max = (uint64_t)lsc_field_int(L, "turns_max", INT64_MAX);
  c->steps_max = (uint64_t)lsc_field_int(L, "steps_max", INT64_MAX);
  r->keys = lsc_field_bool(L, "keys");
  lua_pop(L, 1);
  read_events(r, c);
  read_sinks(r);
  show_files(r);
}

/* ---- a life ---- */

static int begin(void *arg, uint32_t life, sc_graph_t **graph, sc_job_options_t *options,
                 sc_error_t *err) {
  run_t *r = arg;
  lua_State *L = r->L;
  lsc_plan_t *plan;
  uint32_t n = push_list(r, "lives");
  lua_rawgeti(L, -1, life < n ? life + 1 : n);
  lua_Integer number = lua_tointeger(L, -1);
  push_list(r, "plans");
  lua_rawgeti(L, -1, number);
  int rc = lsc_plan_read(L, lua_gettop(L), r->open_core, &plan, err);
  if (rc < 0)
    return rc;
  *graph = plan->graph;
  *options = plan->options; /* its strings are the spec's, which stays where it is */
  plan->graph = NULL;
  plan->host = NULL;
  r->job_id = options->id;
  r->dir = options->dir;
  return 0;
}

/* ---- rows ---- */

static void row_text(const sink_t *sink, sc_bytes_t value, sc_buf_t *out) {
  sc_cursor_t c = sc_cursor(value);
  sc_token_t t = {0};
  if (sink->lines && sc_cursor_next(&c, &t) == 1 && t.type == SC_STR)
    sc_buf_put_bytes(out, t.s);
  else
    sc_json_append(out, value, NULL);
}

static void add_row(sink_t *sink, sc_bytes_t text) {
  sc_pack_str(&sink->rows, text);
  sink->n_rows++;
}

static void given(void *arg, uint32_t node, const sc_bytes_t *key, sc_bytes_t value) {
  run_t *r = arg;
  sink_t *sink = r->sinks;
  while (sink < r->sinks + r->n_sinks && sink->node != node)
    sink++;
  bool calls = sink < r->sinks + r->n_sinks && strcmp(sink->kind, "calls") == 0;
  if (sink == r->sinks + r->n_sinks || (!calls && !(key && r->keys)))
    return;
  sc_buf_t text = SC_BUF_INIT;
  row_text(sink, value, &text);
  if (calls)
    add_row(sink, sc_buf_bytes(&text));
  if (key && r->keys) {
    sc_pack_str(&sink->keys, *key);
    sc_pack_str(&sink->keys, sc_buf_bytes(&text));
    sink->n_keys += 2;
  }
  sc_buf_free(&text);
}

static void collect_rows(sc_sim_lives_t *lives, sink_t *sink) {
  sc_buf_t all = SC_BUF_INIT, text = SC_BUF_INIT;
  sc_bytes_t value;
  sc_sim_lives_rows(lives, sink->uid, &all, NULL);
  sc_cursor_t c = sc_cursor(sc_buf_bytes(&all));
  while (sc_cursor_value(&c, &value) == 1) {
    sc_buf_clear(&text);
    row_text(sink, value, &text);
    add_row(sink, sc_buf_bytes(&text));
  }
  sc_buf_free(&text);
  sc_buf_free(&all);
}

static void file_lines(run_t *r, sink_t *sink, const char *name) {
  char *path = sc_path_join(sink->dir, name);
  sc_buf_t text = SC_BUF_INIT;
  sc_storage_read_all(r->storage, path, LINE_FILE_MAX, &text, NULL);
  const uint8_t *at = text.data, *end = at + text.len;
  while (at < end) {
    const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
    stop = stop ? stop : end;
    add_row(sink, sc_bytes(at, (size_t)(stop - at)));
    at = stop + 1;
  }
  sc_buf_free(&text);
  free(path);
}

/* Committed parts sort as they were written. */
static void file_rows(run_t *r, sink_t *sink) {
  sc_names_t names;
  char *prefix = sc_sink_prefix(r->job_id, sink->uid);
  sc_storage_names(r->storage, sink->dir, &names, NULL);
  for (size_t i = 0; i < names.n; i++)
    if (strncmp(names.list[i], prefix, strlen(prefix)) == 0)
      file_lines(r, sink, names.list[i]);
  sc_names_free(&names);
  free(prefix);
}

static void put_strings(sc_buf_t *out, const char *name, uint32_t n, const sc_buf_t *strings) {
  sc_pack_cstr(out, name);
  sc_pack_array(out, n);
  sc_buf_put_bytes(out, sc_buf_bytes(strings));
}

static void put_sinks(run_t *r, sc_sim_lives_t *lives, sc_buf_t *out) {
  sc_pack_cstr(out, "sinks");
  sc_pack_array(out, r->n_sinks);
  for (uint32_t i = 0; i < r->n_sinks; i++) {
    sink_t *sink = &r->sinks[i];
    if (strcmp(sink->kind, "collect") == 0)
      collect_rows(lives, sink);
    else if (strcmp(sink->kind, "file") == 0 && r->job_id)
      file_rows(r, sink);
    sc_pack_map(out, 2);
    put_strings(out, "rows", sink->n_rows, &sink->rows);
    put_strings(out, "keys", sink->n_keys, &sink->keys);
  }
}

/* ---- state ---- */

static void put_json(sc_buf_t *out, const char *name, sc_bytes_t value) {
  sc_buf_t text = SC_BUF_INIT;
  sc_json_append(&text, value, NULL);
  sc_pack_cstr(out, name);
  sc_pack_str(out, sc_buf_bytes(&text));
  sc_buf_free(&text);
}

/* Rows of states that the library keeps for itself (timers) have no values to be compared. */
static uint32_t put_rows(sc_keyed_reader_t *reader, const char *uid, sc_buf_t *out) {
  const sc_keyed_file_state_t *states;
  sc_keyed_row_t row;
  uint32_t n = 0;
  sc_keyed_reader_states(reader, &states);
  while (sc_keyed_reader_next(reader, &row, NULL) > 0) {
    if (states[row.state].kind == SC_STATE_TIMERS)
      continue;
    sc_pack_map(out, row.has_map_key ? 5 : 4);
    sc_pack_cstr(out, "uid");
    sc_pack_cstr(out, uid);
    sc_pack_cstr(out, "state");
    sc_pack_cstr(out, states[row.state].name);
    put_json(out, "key", row.key);
    put_json(out, "value", row.value);
    if (row.has_map_key)
      put_json(out, "map_key", row.map_key);
    n++;
  }
  return n;
}

static uint32_t put_handle(run_t *r, uint64_t id, const sc_metadata_operator_t *op,
                           uint32_t subtask, const sc_handle_t *h, sc_buf_t *out) {
  const char *elsewhere = op->subtasks[subtask].directory;
  char *dir = elsewhere ? sc_format("%s/%s/%s", r->dir, r->job_id, elsewhere)
                        : sc_format("%s/%s/chk-%" PRIu64, r->dir, r->job_id, id);
  sc_keyed_reader_t *reader;
  uint32_t n = 0;
  if (sc_keyed_reader_open(r->storage, dir, h, &reader, NULL) == 0) {
    n = put_rows(reader, op->uid, out);
    sc_keyed_reader_close(reader);
  }
  free(dir);
  return n;
}

static uint32_t put_operator(run_t *r, uint64_t id, const sc_metadata_operator_t *op,
                             sc_buf_t *out) {
  uint32_t n = 0;
  for (uint32_t s = 0; s < op->parallelism; s++)
    for (uint32_t h = 0; h < op->subtasks[s].state.n_handles; h++)
      if (op->subtasks[s].state.handles[h].kind == SC_HANDLE_KEYED)
        n += put_handle(r, id, op, s, &op->subtasks[s].state.handles[h], out);
  return n;
}

static void put_states(run_t *r, sc_buf_t *out) {
  sc_job_scan_t *scan = NULL;
  sc_buf_t rows = SC_BUF_INIT;
  uint32_t n = 0;
  char *path = r->dir ? sc_path_join(r->dir, r->job_id) : NULL;
  if (path && sc_job_scan(r->storage, path, SC_LOOK_METADATA, &scan, NULL) == 0 && scan->n &&
      scan->list[scan->n - 1].state == SC_FOUND_VALID) {
    const sc_metadata_t *m = scan->list[scan->n - 1].metadata;
    for (uint32_t i = 0; i < m->n_operators; i++)
      n += put_operator(r, m->id, &m->operators[i], &rows);
  }
  sc_job_scan_destroy(scan);
  free(path);
  put_strings(out, "states", n, &rows);
  sc_buf_free(&rows);
}

/* ---- the result ---- */

static void put_int(sc_buf_t *out, const char *name, int64_t v) {
  sc_pack_cstr(out, name);
  sc_pack_int(out, v);
}

static void put_result(run_t *r, sc_sim_lives_t *lives, const sc_sim_lives_result_t *x,
                       sc_buf_t *out) {
  bool failed = x->error.code != 0;
  sc_pack_map(out, failed ? 19 : 17);
  sc_pack_cstr(out, "finished");
  sc_pack_bool(out, x->finished);
  put_int(out, "lives", x->lives);
  put_int(out, "crashes", x->crashes);
  put_int(out, "task_failures", x->task_failures);
  put_int(out, "storage_failures", x->storage_failures);
  put_int(out, "cancels", x->cancels);
  put_int(out, "restores", x->restores);
  put_int(out, "checkpoints", (int64_t)x->checkpoints);
  put_int(out, "turns", (int64_t)x->turns);
  put_int(out, "calls", (int64_t)x->calls);
  put_int(out, "steps", (int64_t)x->steps);
  put_int(out, "records", (int64_t)x->records);
  put_int(out, "ops", (int64_t)x->ops);
  put_int(out, "time_ns", x->time_ns);
  sc_pack_cstr(out, "story");
  sc_pack_str(out, sc_sim_lives_story(lives));
  if (failed) {
    sc_pack_cstr(out, "error");
    sc_pack_cstr(out, x->error.message);
    sc_pack_cstr(out, "code");
    sc_pack_cstr(out, sc_error_name(x->error.code));
  }
  put_sinks(r, lives, out);
  put_states(r, out);
}

void lsc_simulate_run(lua_State *L, int index, lua_CFunction open_core, sc_buf_t *out) {
  run_t r = {.L = L, .spec = lua_absindex(L, index), .open_core = open_core};
  sc_sim_lives_config_t config = {.begin = begin, .given = given, .arg = &r};
  lua_pushvalue(L, r.spec);
  lsc_host_seed_random((uint64_t)lsc_field_int(L, "random", 1));
  r.storage = sc_sim_storage_create((uint64_t)lsc_field_int(L, "seed", 1) ^ 0x5DEECE66Du);
  lua_pop(L, 1);
  read_config(&r, &config);
  sc_sim_lives_t *lives = sc_sim_lives_create(&config, r.storage);
  put_result(&r, lives, sc_sim_lives_run(lives), out);
}
