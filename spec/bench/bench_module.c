/*
 * bench_module: native operators of the benchmarks for graphs that are built in Lua.
 *
 * It is linked into a module of its own together with core and binding
 * (build/bench/streamckpt/core.so), whose look-up of native operators it widens by count_source,
 * count, count_sink (count_work.h), pressure_stage and pressure_sink (pressure_work.h).
 * spec/bench/native.lua opens it:
 *
 *   begin{events =, keys =, zipf =, pad =}   the work of the next job; one at a time
 *   result() -> line of JSON                 behind the job, when the sums of its sinks are whole
 *   records() -> integer                     how many the slow sinks have taken since begin
 *
 * Threads: begin and result where no job runs; records any; the types as operator.h says.
 */
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

#include <lauxlib.h>
#include <lua.h>

#include "count_work.h"
#include "pressure_work.h"

static sc_count_work_t work = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- types whose data is the one work: a graph built in Lua gives native ones none ---- */

static int create_source(void *data, sc_bytes_t options, sc_op_context_t *context,
                         sc_operator_t **out, sc_error_t *err) {
  return sc_count_source_type.create(&work, options, context, out, err);
}

static int list_splits(void *data, sc_bytes_t options, uint32_t parallelism, void *host,
                       sc_buf_t *out, sc_error_t *err) {
  return sc_count_source_type.list_splits(&work, options, parallelism, host, out, err);
}

static int create_count(void *data, sc_bytes_t options, sc_op_context_t *context,
                        sc_operator_t **out, sc_error_t *err) {
  return sc_count_type.create(&work, options, context, out, err);
}

static int create_sink(void *data, sc_bytes_t options, sc_op_context_t *context,
                       sc_operator_t **out, sc_error_t *err) {
  return sc_count_sink_type.create(&work, options, context, out, err);
}

static const sc_operator_type_t source_type = {
    .kind = "count_source", .is_source = true, .replayable = true, .exactly_once = true,
    .create = create_source, .list_splits = list_splits, .in_pool = true};
static const sc_operator_type_t count_type = {
    .kind = "count", .replayable = true, .exactly_once = true, .create = create_count};
static const sc_operator_type_t sink_type = {
    .kind = "count_sink", .replayable = true, .exactly_once = true, .create = create_sink};

/* The linker sends every look-up of core's registry here (--wrap, see Makefile). */
const sc_operator_type_t *__wrap_sc_operator_type_find(const char *kind);
const sc_operator_type_t *__real_sc_operator_type_find(const char *kind);

const sc_operator_type_t *__wrap_sc_operator_type_find(const char *kind) {
  const sc_operator_type_t *own[] = {&source_type, &count_type, &sink_type,
                                     &sc_pressure_stage_type, &sc_pressure_sink_type};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (strcmp(kind, own[i]->kind) == 0)
      return own[i];
  return __real_sc_operator_type_find(kind);
}

/* ---- what Lua calls ---- */

static uint64_t field(lua_State *L, const char *name, lua_Integer otherwise) {
  lua_getfield(L, 1, name);
  lua_Integer v = luaL_optinteger(L, -1, otherwise);
  lua_pop(L, 1);
  return (uint64_t)v;
}

static int begin(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  uint64_t events = field(L, "events", 5000000), keys = field(L, "keys", 1000000);
  uint64_t pad = field(L, "pad", 40);
  luaL_argcheck(L, pad <= 256 && keys > 0, 1, "pad is at most 256, keys at least 1");
  lua_getfield(L, 1, "zipf");
  work = (sc_count_work_t){.events = events, .keys = keys, .pad = pad,
                           .zipf = lua_toboolean(L, -1), .lock = PTHREAD_MUTEX_INITIALIZER};
  atomic_store(&sc_pressure_records, 0);
  return 0;
}

static int result(lua_State *L) {
  double end_s = sc_count_now(), end_cpu = sc_count_cpu();
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  char text[500];
  pthread_mutex_lock(&work.lock);
  snprintf(text, sizeof text,
           "{\"engine\":\"streamckpt\",\"events\":%" PRIu64 ",\"keys\":%" PRIu64
           ",\"skew\":\"%s\",\"wall_s\":%.3f,\"cpu_s\":%.3f,\"made_s\":%.3f,\"made_cpu_s\":%.3f,"
           "\"max_rss_mb\":%.1f,\"n\":%" PRIu64 ",\"total\":%" PRIu64 ",\"check\":\"%" PRIu64 "\"}",
           work.events, work.keys, work.zipf ? "zipf" : "uniform", end_s - work.begin_s,
           end_cpu - work.cpu_s, work.made_s - work.begin_s, work.made_cpu_s - work.cpu_s,
           (double)r.ru_maxrss / 1024, work.sums.n, work.sums.total, work.sums.check);
  pthread_mutex_unlock(&work.lock);
  lua_pushstring(L, text);
  return 1;
}

static int records(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)atomic_load(&sc_pressure_records));
  return 1;
}

__attribute__((visibility("default"))) int luaopen_streamckpt_bench(lua_State *L);

int luaopen_streamckpt_bench(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"begin", begin}, {"result", result}, {"records", records}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
