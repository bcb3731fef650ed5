/* probe_job: whole jobs of native operators, on real threads and files, over a storage that fails
 * where it is told to. The graph: gate --hash k--> tally --rebalance--> file_sink, and with
 * `second` another such pipeline, not connected with the first: a region of its own. */
#include <stdlib.h>

#include "../../core/base/mem.h"
#include "../../core/runtime/attempt.h"
#include "../../core/runtime/job_parts.h"
#include "../../core/runtime/world_real.h"
#include "gated_operators.h"
#include "lost_after.h"
#include "picky_storage.h"
#include "probe.h"

#define ENGINE "probe.engine"
#define JOB "probe.job"

typedef struct engine {
  sc_engine_t *engine;
  sc_storage_t *storage; /* the world's */
  gate_t *gates[2];      /* one for each pipeline */
} engine_t;

/* ---- engine ---- */

/* job_engine(splits of the gate) */
static int engine_new(lua_State *L) {
  uint32_t splits = (uint32_t)luaL_checkinteger(L, 1);
  engine_t *e = lua_newuserdatauv(L, sizeof *e, 0);
  memset(e, 0, sizeof *e);
  luaL_setmetatable(L, ENGINE);
  sc_world_t *w = sc_world_real_create(false, 2);
  sc_storage_destroy(w->storage);
  w->storage = e->storage = picky_create();
  e->engine = sc_engine_create(w, NULL);
  for (int i = 0; i < 2; i++)
    e->gates[i] = gate_create(splits);
  return 1;
}

static engine_t *check_engine(lua_State *L) {
  engine_t *e = luaL_checkudata(L, 1, ENGINE);
  luaL_argcheck(L, e->engine, 1, "the engine is gone");
  return e;
}

static int engine_destroy(lua_State *L) {
  engine_t *e = luaL_checkudata(L, 1, ENGINE);
  if (!e->engine)
    return 0;
  picky_release(e->storage);
  for (int i = 0; i < 2; i++) {
    gate_plug(e->gates[i], -1);
    gate_stall(e->gates[i], false);
  }
  sc_engine_destroy(e->engine);
  for (int i = 0; i < 2; i++)
    gate_destroy(e->gates[i]);
  e->engine = NULL;
  return 0;
}

static int code_of(lua_State *L, const char *name) {
  for (int code = -1; code >= -SC__ERR_COUNT; code--)
    if (strcmp(sc_error_name(code), name) == 0)
      return code;
  return luaL_error(L, "no code %s", name);
}

/* engine:fail(operation, text in the path, times [, code]) */
static int engine_fail(lua_State *L) {
  picky_fail(check_engine(L)->storage, luaL_checkstring(L, 2), luaL_checkstring(L, 3),
             (uint64_t)luaL_checkinteger(L, 4), code_of(L, luaL_optstring(L, 5, "EIO")));
  return 0;
}

static int engine_failed(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)picky_failed(check_engine(L)->storage));
  return 1;
}

/* engine:hold(operation, text in the path): such calls wait, until engine:release() */
static int engine_hold(lua_State *L) {
  picky_hold(check_engine(L)->storage, luaL_checkstring(L, 2), luaL_checkstring(L, 3));
  return 0;
}

static int engine_held(lua_State *L) {
  lua_pushinteger(L, picky_held(check_engine(L)->storage));
  return 1;
}

static int engine_release(lua_State *L) {
  picky_release(check_engine(L)->storage);
  return 0;
}

/* Which pipeline's: 1 where nothing is said. */
static gate_t *check_gate(lua_State *L, int index) {
  lua_Integer i = luaL_optinteger(L, index, 1);
  luaL_argcheck(L, i == 1 || i == 2, index, "no such gate");
  return check_engine(L)->gates[i - 1];
}

static int engine_allow(lua_State *L) {
  gate_allow(check_gate(L, 3), luaL_checkinteger(L, 2));
  return 0;
}

static int engine_finish(lua_State *L) {
  gate_finish(check_gate(L, 2));
  return 0;
}

/* engine:press(yes): values take the count a while */
static int engine_press(lua_State *L) {
  gate_press(check_engine(L)->gates[0], lua_toboolean(L, 2));
  return 0;
}

/* engine:plug([subtask]): hold up that reader, and its slot; nothing: none */
static int engine_plug(lua_State *L) {
  gate_plug(check_engine(L)->gates[0], luaL_optinteger(L, 2, -1));
  return 0;
}

static int engine_plugged(lua_State *L) {
  lua_pushboolean(L, gate_plugged(check_engine(L)->gates[0]));
  return 1;
}

/* engine:stall(yes): snapshots of the readers wait */
static int engine_stall(lua_State *L) {
  gate_stall(check_engine(L)->gates[0], lua_toboolean(L, 2));
  return 0;
}

static int engine_stalled(lua_State *L) {
  lua_pushboolean(L, gate_stalled(check_engine(L)->gates[0]));
  return 1;
}

static int engine_break(lua_State *L) {
  gate_fail(check_gate(L, 2));
  return 0;
}

/* ---- a job ---- */

static lua_Integer opt_int(lua_State *L, const char *name, lua_Integer otherwise) {
  lua_getfield(L, 2, name);
  lua_Integer v = luaL_optinteger(L, -1, otherwise);
  lua_pop(L, 1);
  return v;
}

/* Lives as long as the table of options. */
static const char *opt_str(lua_State *L, const char *name) {
  lua_getfield(L, 2, name);
  const char *v = luaL_optstring(L, -1, NULL);
  lua_pop(L, 1);
  return v;
}

static void put_options(sc_buf_t *out, const char *name, const char *value) {
  sc_buf_clear(out);
  sc_pack_map(out, 1);
  sc_pack_cstr(out, name);
  sc_pack_cstr(out, value);
}

/* A second branch that ends at once: values "early" --rebalance--> farewell --rebalance--> sink. */
static int add_early(lua_State *L, sc_graph_t *g, const char *dir, sc_error_t *err) {
  sc_buf_t values = SC_BUF_INIT, sink = SC_BUF_INIT;
  sc_pack_map(&values, 1);
  sc_pack_cstr(&values, "values");
  sc_pack_array(&values, 1);
  sc_pack_cstr(&values, "early");
  put_options(&sink, "dir", dir);
  uint32_t p = (uint32_t)opt_int(L, "parallelism", 1);
  const sc_node_spec_t specs[] = {
      {.uid = "values", .name = "values", .type = sc_operator_type_find("values_source"),
       .parallelism = 1, .options = sc_buf_bytes(&values)},
      {.uid = "farewell", .name = "farewell", .type = &farewell_type, .parallelism = 1},
      {.uid = "early", .name = "early", .type = sc_operator_type_find("file_sink"),
       .parallelism = p, .options = sc_buf_bytes(&sink)},
  };
  int rc = 0;
  for (int i = 0; rc >= 0 && i < 3; i++)
    rc = sc_graph_add(g, &specs[i], err);
  sc_buf_free(&values);
  sc_buf_free(&sink);
  for (uint32_t i = 3; rc >= 0 && i < 5; i++)
    rc = sc_graph_connect(g, i, "main", i + 1, 0, SC_REBALANCE, NULL, 0, err);
  return rc;
}

static int add_pipeline(lua_State *L, sc_graph_t *g, gate_t *gate, const char *const uids[3],
                        const char *out, sc_error_t *err) {
  static const char *const key[] = {"k"};
  uint32_t p = (uint32_t)opt_int(L, "parallelism", 1), first = g->n_nodes;
  sc_buf_t options = SC_BUF_INIT;
  put_options(&options, "dir", out);
  const sc_node_spec_t specs[] = {
      {.uid = uids[0], .name = uids[0], .type = &gate_source_type, .data = gate, .parallelism = p},
      {.uid = uids[1], .name = uids[1], .type = &tally_type, .data = gate, .parallelism = p,
       .keyed = true},
      {.uid = uids[2], .name = uids[2], .type = sc_operator_type_find("file_sink"),
       .parallelism = p, .options = sc_buf_bytes(&options)},
  };
  int rc = 0;
  for (size_t i = 0; rc >= 0 && i < 3; i++)
    rc = sc_graph_add(g, &specs[i], err);
  sc_buf_free(&options);
  if (rc >= 0)
    rc = sc_graph_connect(g, first, "main", first + 1, 0, SC_HASH, key, 1, err);
  if (rc >= 0)
    rc = sc_graph_connect(g, first + 1, "main", first + 2, 0, SC_REBALANCE, NULL, 0, err);
  return rc;
}

static sc_graph_t *make_graph(lua_State *L, engine_t *e, sc_error_t *err) {
  static const char *const uids[2][3] = {{"gate", "tally", "out"}, {"gate2", "tally2", "out2"}};
  sc_graph_t *g = sc_graph_create();
  int rc = add_pipeline(L, g, e->gates[0], uids[0], opt_str(L, "out"), err);
  if (rc >= 0 && opt_str(L, "early"))
    rc = add_early(L, g, opt_str(L, "early"), err);
  if (rc >= 0 && opt_str(L, "second"))
    rc = add_pipeline(L, g, e->gates[1], uids[1], opt_str(L, "second"), err);
  if (rc >= 0)
    rc = sc_graph_finish(g, err);
  if (rc >= 0)
    return g;
  sc_graph_destroy(g);
  return NULL;
}

/* engine:start{dir =, out =, early =, second =, parallelism =, slots =, interval_ms =, retain =,
 * attempts =, delay_ms =, from =, tolerable =, unsynced =, unaligned = 1, timeout_ms =,
 * aligned_timeout =, floating =, segment =, per_file =, explain_after =}: a job, or nil, error */
static int engine_start(lua_State *L) {
  engine_t *e = check_engine(L);
  sc_error_t err = SC_ERROR_INIT;
  sc_graph_t *g = make_graph(L, e, &err);
  if (!g)
    return probe_fail(L, err.code, &err);
  int64_t interval_ms = opt_int(L, "interval_ms", 3600000);
  sc_job_options_t o = {
      .id = "job", .name = "job", .dir = opt_str(L, "dir"), .unsynced = opt_int(L, "unsynced", 0),
      .from = opt_str(L, "from"),
      .checkpoint = {.interval_ms = interval_ms, .timeout_ms = opt_int(L, "timeout_ms", 600000),
                     .max_concurrent = 1, .unaligned = opt_int(L, "unaligned", 0),
                     .aligned_timeout_ms = opt_int(L, "aligned_timeout", 0),
                     .tolerable_failures = opt_int(L, "tolerable", -1),
                     .retain = (uint32_t)opt_int(L, "retain", 1)},
      .restart = {.kind = SC_RESTART_FIXED_DELAY, .attempts = opt_int(L, "attempts", 0),
                  .delay_ms = opt_int(L, "delay_ms", 0)},
      .n_slots = (uint32_t)opt_int(L, "slots", opt_int(L, "parallelism", 1)),
      .explain_after_ms = opt_int(L, "explain_after", 0),
      .segment_size = (uint32_t)opt_int(L, "segment", 256), .exclusive_buffers = 2,
      .buffer_timeout_ms = 100,
      .floating_buffers = (uint32_t)opt_int(L, "floating", 4),
      .subtasks_per_file = (uint32_t)opt_int(L, "per_file", 5),
      .log_level = SC_LOG_OFF};
  sc_job_t **box = lua_newuserdatauv(L, sizeof *box, 1);
  *box = NULL;
  luaL_setmetatable(L, JOB);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1); /* the engine outlives its jobs */
  int rc = sc_job_start(e->engine, g, &o, box, &err);
  return rc < 0 ? probe_fail(L, rc, &err) : 1;
}

static sc_job_t *check_job(lua_State *L) {
  sc_job_t *job = *(sc_job_t **)luaL_checkudata(L, 1, JOB);
  luaL_argcheck(L, job, 1, "the job is gone");
  return job;
}

static int job_gc(lua_State *L) {
  sc_job_t **box = luaL_checkudata(L, 1, JOB);
  sc_job_unref(*box);
  *box = NULL;
  return 0;
}

/* Frees it. */
static int push_status(lua_State *L, sc_job_status_t s) {
  lua_newtable(L);
  lua_pushstring(L, sc_job_state_name(s.state));
  lua_setfield(L, -2, "state");
  lua_pushinteger(L, (lua_Integer)s.attempt);
  lua_setfield(L, -2, "attempt");
  lua_pushinteger(L, (lua_Integer)s.restarts);
  lua_setfield(L, -2, "restarts");
  lua_pushinteger(L, (lua_Integer)s.last_checkpoint);
  lua_setfield(L, -2, "last");
  lua_pushstring(L, s.error);
  lua_setfield(L, -2, "error");
  lua_pushboolean(L, s.stopped);
  lua_setfield(L, -2, "stopped");
  lua_newtable(L);
  for (uint32_t i = 0; i < s.n_regions; i++) {
    lua_newtable(L);
    lua_pushstring(L, s.regions[i].state);
    lua_setfield(L, -2, "state");
    lua_pushinteger(L, (lua_Integer)s.regions[i].attempt);
    lua_setfield(L, -2, "attempt");
    lua_pushinteger(L, (lua_Integer)s.regions[i].restarts);
    lua_setfield(L, -2, "restarts");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "regions");
  sc_job_status_fini(&s);
  return 1;
}

static int job_status(lua_State *L) {
  sc_job_status_t s;
  sc_job_status(check_job(L), &s);
  return push_status(L, s);
}

/* Wait for news; raises where a working job would have had some. */
static void news(lua_State *L, sc_job_t *job) {
  if (sc_job_wait_news(job, LOST_AFTER_S * 1000, NULL) == 0)
    luaL_error(L, "the job says nothing any more");
}

/* job:wait([state]): the status once it is in that state, or has ended. */
static int job_wait(lua_State *L) {
  sc_job_t *job = check_job(L);
  const char *wanted = luaL_optstring(L, 2, "");
  for (;;) {
    sc_job_status_t s;
    sc_job_status(job, &s);
    if (sc_job_state_ended(s.state) || strcmp(sc_job_state_name(s.state), wanted) == 0)
      return push_status(L, s); /* this one: the next may say something else already */
    sc_job_status_fini(&s);
    news(L, job);
  }
}

/* job:answer(ticket): the id of the checkpoint that was asked for, or nil, error */
static int job_answer(lua_State *L) {
  sc_job_t *job = check_job(L);
  uint64_t ticket = (uint64_t)luaL_checkinteger(L, 2), id = 0;
  sc_error_t err = SC_ERROR_INIT;
  int rc;
  while ((rc = sc_job_ticket(job, ticket, &id, &err)) == 0)
    news(L, job);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  lua_pushinteger(L, (lua_Integer)id);
  return 1;
}

/* job:ask(): the ticket of a checkpoint */
static int job_ask(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)sc_job_checkpoint(check_job(L)));
  return 1;
}

/* job:ask_stop(drain): the ticket of a stop, whose answer comes when the job has ended */
static int job_ask_stop(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)sc_job_stop(check_job(L), lua_toboolean(L, 2)));
  return 1;
}

/* job:checkpoint(), job:stop(drain): ask, and wait for the answer */
static int job_checkpoint(lua_State *L) {
  lua_settop(L, 1);
  job_ask(L);
  return job_answer(L);
}

static int job_stop(lua_State *L) {
  lua_settop(L, 2);
  job_ask_stop(L);
  lua_replace(L, 2);
  return job_answer(L);
}

/* job:wait_checkpoint(id): wait until one that is no older has completed; its id, or nil where the
 * job ended before. */
static int job_wait_checkpoint(lua_State *L) {
  sc_job_t *job = check_job(L);
  uint64_t wanted = (uint64_t)luaL_checkinteger(L, 2);
  for (;;) {
    sc_job_status_t s;
    sc_job_status(job, &s);
    uint64_t last = s.last_checkpoint;
    bool ended = sc_job_state_ended(s.state);
    sc_job_status_fini(&s);
    if (last >= wanted) {
      lua_pushinteger(L, (lua_Integer)last);
      return 1;
    }
    if (ended)
      return 0;
    news(L, job);
  }
}

static int64_t records_in(sc_job_t *job, const char *uid) {
  sc_buf_t metrics = SC_BUF_INIT;
  sc_token_t array;
  sc_bytes_t map;
  int64_t sum = 0;
  sc_job_metrics(job, &metrics);
  sc_cursor_t c = sc_cursor(sc_buf_bytes(&metrics));
  sc_cursor_next(&c, &array);
  while (sc_cursor_value(&c, &map) > 0) {
    char *of = sc_value_field_str(map, "uid");
    if (of && strcmp(of, uid) == 0)
      sum += sc_value_field_int(map, "numRecordsIn", 0);
    free(of);
  }
  sc_buf_free(&metrics);
  return sum;
}

/* job:records(uid): how many its subtasks have taken in, of the attempts that run or ran last */
static int job_records(lua_State *L) {
  lua_pushinteger(L, records_in(check_job(L), luaL_checkstring(L, 2)));
  return 1;
}

/* job:buffers(): how many are out of their pools, of the attempts that run */
static int job_buffers(lua_State *L) {
  sc_job_t *job = check_job(L);
  lua_Integer n = 0;
  pthread_mutex_lock(&job->view.lock);
  for (uint32_t i = 0; i < job->layout->n; i++)
    if (job->view.regions[i].attempt)
      n += sc_pool_outstanding(job->view.regions[i].attempt->pool);
  pthread_mutex_unlock(&job->view.lock);
  lua_pushinteger(L, n);
  return 1;
}

/* job:statistics(): as msgpack */
static int job_statistics(lua_State *L) {
  sc_buf_t out = SC_BUF_INIT;
  sc_job_statistics(check_job(L), &out);
  lua_pushlstring(L, (const char *)out.data, out.len);
  sc_buf_free(&out);
  return 1;
}

static int job_cancel(lua_State *L) {
  sc_job_cancel(check_job(L));
  return 0;
}

static const luaL_Reg engine_methods[] = {
    {"start", engine_start},   {"fail", engine_fail},   {"failed", engine_failed},
    {"allow", engine_allow},   {"finish", engine_finish}, {"break_gate", engine_break},
    {"press", engine_press},   {"plug", engine_plug},   {"plugged", engine_plugged},
    {"stall", engine_stall}, {"stalled", engine_stalled},
    {"hold", engine_hold},   {"held", engine_held},   {"release", engine_release},
    {"destroy", engine_destroy}, {"__gc", engine_destroy}, {NULL, NULL},
};

static const luaL_Reg job_methods[] = {
    {"status", job_status}, {"wait", job_wait}, {"checkpoint", job_checkpoint}, {"stop", job_stop},
    {"ask", job_ask}, {"ask_stop", job_ask_stop}, {"answer", job_answer}, {"buffers", job_buffers},
    {"statistics", job_statistics},
    {"wait_checkpoint", job_wait_checkpoint}, {"cancel", job_cancel}, {"records", job_records},
    {"__gc", job_gc}, {NULL, NULL},
};

static void make_class(lua_State *L, const char *name, const luaL_Reg *methods) {
  luaL_newmetatable(L, name);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

void probe_job(lua_State *L) {
  make_class(L, ENGINE, engine_methods);
  make_class(L, JOB, job_methods);
  static const luaL_Reg functions[] = {{"job_engine", engine_new}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
