/*
 * module: `require "streamckpt.core"`, the C half of the library; users see the Lua half.
 *
 * start(plan) -> job | nil, "ECODE: message", "ECODE"
 * simulate(spec) -> result | nil, "ECODE: message", "ECODE": simulate.h.
 * copy_descriptor(fd) -> fd | nil, message.
 * null: what stands for nil inside containers. array(t): marks t as an array (nil: a new one),
 * returns it.
 *
 * One engine serves the process; the first start makes it. One shutdown, idempotent, hangs on a
 * sentinel's __gc (the state is closed) and on atexit (os.exit without closing): it stops what runs
 * and joins it within 2 s. It does nothing in a forked child, which has none of the threads, nor
 * where a slot called os.exit (leave.h). The module stays loaded for ever (-z nodelete), since
 * threads may still be in it. Standard descriptors that are closed when it is loaded are held from
 * then on, so that nothing that is opened later stands where the script prints.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lua.h>

#include "../../core/runtime/engine.h"
#include "../../core/runtime/world_real.h"
#include "codec.h"
#include "host.h"
#include "job_handle.h"
#include "leave.h"
#include "plan.h"
#include "simulate.h"

#define LSC_SENTINEL "streamckpt.core.sentinel"

static struct {
  pthread_mutex_t lock;
  sc_engine_t *engine;  /* NULL before the first start and after the shutdown */
  _Atomic pid_t owner;  /* the process that made it */
  bool registered;      /* atexit */
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A forked child has none of the threads, and perhaps a lock that one of them held. */
static void shut_down(void) {
  if (atomic_load(&process.owner) != getpid() || !lsc_leave_begin())
    return;
  pthread_mutex_lock(&process.lock);
  sc_engine_t *engine = process.engine;
  process.engine = NULL;
  pthread_mutex_unlock(&process.lock);
  sc_engine_destroy(engine);
  lsc_leave_end();
}

static sc_engine_t *engine_of_process(sc_error_t *err) {
  pthread_mutex_lock(&process.lock);
  if (!process.engine || process.owner != getpid()) {
    process.engine = sc_engine_create(sc_world_real_create(true, 0), err);
    process.owner = getpid();
  }
  if (!process.registered)
    process.registered = atexit(shut_down) == 0;
  sc_engine_t *engine = process.engine;
  pthread_mutex_unlock(&process.lock);
  return engine;
}

bool lsc_engine_runs(void) {
  pthread_mutex_lock(&process.lock);
  bool runs = process.engine && process.owner == getpid();
  pthread_mutex_unlock(&process.lock);
  return runs;
}

static int sentinel_gc(lua_State *L) {
  shut_down();
  return 0;
}

/* The sentinel of this state is made with its first job: a slot's state has none. */
static void add_sentinel(lua_State *L) {
  if (luaL_newmetatable(L, LSC_SENTINEL)) {
    lua_pushcfunction(L, sentinel_gc);
    lua_setfield(L, -2, "__gc");
    lua_newuserdatauv(L, 0, 0);
    lua_pushvalue(L, -2);
    lua_setmetatable(L, -2);
    lua_setfield(L, -2, "sentinel"); /* lives in its own metatable, so as long as the state */
  }
  lua_pop(L, 1);
}

__attribute__((visibility("default"))) int luaopen_streamckpt_core(lua_State *L);

/* The thread of a slot cannot wait for the engine that it is a part of, least of all at its end. */
static int refuse_slot(lua_State *L, const char *what) {
  sc_error_t err = SC_ERROR_INIT;
  int rc = sc_fail(&err, SC_EINVAL, "a function of a job cannot %s: that is for the script", what);
  return lsc_push_failure(L, rc, &err);
}

static int core_start(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  if (lsc_host_is(L))
    return refuse_slot(L, "start another one");
  sc_error_t err = SC_ERROR_INIT;
  sc_engine_t *engine = engine_of_process(&err);
  if (!engine)
    return lsc_push_failure(L, err.code, &err);
  add_sentinel(L);
  sc_job_t **box = lsc_job_box(L);
  lsc_plan_t *plan;
  int rc = lsc_plan_read(L, 1, luaopen_streamckpt_core, &plan, &err);
  if (rc < 0)
    return lsc_push_failure(L, rc, &err);
  sc_graph_t *graph = plan->graph;
  plan->graph = NULL; /* the job's from here on, whatever happens */
  plan->host = NULL;
  rc = sc_job_start(engine, graph, &plan->options, box, &err);
  if (rc < 0)
    return lsc_push_failure(L, rc, &err);
  lua_settop(L, 2);
  return 1;
}

static int core_simulate(lua_State *L) {
  if (lsc_host_is(L))
    return refuse_slot(L, "simulate another one");
  return lsc_simulate(L, luaopen_streamckpt_core);
}

/* copy_descriptor(fd): another one for the same open file, close-on-exec; or nil, message. luv has
 * nothing like it, and closes what it is given. */
static int core_copy_descriptor(lua_State *L) {
  int fd = fcntl((int)luaL_checkinteger(L, 1), F_DUPFD_CLOEXEC, 3);
  if (fd < 0)
    return luaL_fileresult(L, 0, NULL);
  lua_pushinteger(L, fd);
  return 1;
}

static int core_array(lua_State *L) {
  lua_settop(L, 1);
  if (lua_isnil(L, 1)) {
    lua_newtable(L);
    lua_replace(L, 1);
  }
  luaL_checktype(L, 1, LUA_TTABLE);
  lsc_array_metatable(L);
  lua_setmetatable(L, 1);
  return 1;
}

/* A process that was started with a closed standard descriptor gives its number to whatever is
 * opened next: the engine's eventfd, a lock, a checkpoint; and what the script prints would go
 * there. So the numbers are taken, the wrong way round: reading 0 and writing 1 and 2 fail with
 * EBADF as before. */
static void hold_standard_descriptors(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
      continue;
    int held = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (held >= 0 && held != fd) /* another thread has the number by now */
      close(held);
  }
}

int luaopen_streamckpt_core(lua_State *L) {
  static const luaL_Reg functions[] = {{"start", core_start},
                                       {"simulate", core_simulate},
                                       {"array", core_array},
                                       {"copy_descriptor", core_copy_descriptor},
                                       {NULL, NULL}};
  hold_standard_descriptors();
  lsc_codec_open(L);
  lsc_job_open(L);
  lsc_plan_open(L);
  luaL_newlib(L, functions);
  lsc_push_null(L);
  lua_setfield(L, -2, "null");
  return 1;
}
