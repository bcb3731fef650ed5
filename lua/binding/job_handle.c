#include "job_handle.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <lauxlib.h>

#include "codec.h"
#include "signals.h"

int lsc_push_failure(lua_State *L, int rc, sc_error_t *err) {
  char *text = sc_error_format(err);
  bool named = err->operator_name && err->code;
  lua_pushnil(L);
  if (named)
    lua_pushfstring(L, "%s [%s]", text, err->operator_name);
  else
    lua_pushstring(L, err->code ? text : sc_error_name(rc));
  lua_pushstring(L, sc_error_name(rc));
  free(text);
  sc_error_clear(err);
  return 3;
}

typedef struct handle {
  sc_job_t *job;   /* first: the box */
  pid_t owner;     /* the process that started it */
} handle_t;

sc_job_t **lsc_job_box(lua_State *L) {
  handle_t *h = lua_newuserdatauv(L, sizeof *h, 0);
  *h = (handle_t){NULL, getpid()};
  luaL_setmetatable(L, LSC_JOB);
  return &h->job;
}

static sc_job_t *check(lua_State *L) {
  handle_t *h = luaL_checkudata(L, 1, LSC_JOB);
  if (!h->job)
    luaL_error(L, "attempt to use a closed job");
  if (h->owner != getpid())
    luaL_error(L, "the job %s belongs to process %d, which forked this one", sc_job_id(h->job),
               (int)h->owner);
  return h->job;
}

static int job_gc(lua_State *L) {
  handle_t *h = luaL_checkudata(L, 1, LSC_JOB);
  if (h->owner == getpid()) /* a forked child has a copy of the memory, and none of the threads */
    sc_job_unref(h->job);
  h->job = NULL;
  return 0;
}

static int job_id(lua_State *L) {
  lua_pushstring(L, sc_job_id(check(L)));
  return 1;
}

static void set_str(lua_State *L, const char *name, const char *value) {
  if (!value)
    return;
  lua_pushstring(L, value);
  lua_setfield(L, -2, name);
}

static void set_int(lua_State *L, const char *name, uint64_t value) {
  lua_pushinteger(L, (lua_Integer)value);
  lua_setfield(L, -2, name);
}

/* Where there is but one region it says nothing that the job does not. */
static void set_regions(lua_State *L, const sc_job_status_t *s) {
  if (s->n_regions < 2)
    return;
  lua_createtable(L, (int)s->n_regions, 0);
  for (uint32_t i = 0; i < s->n_regions; i++) {
    const sc_region_status_t *r = &s->regions[i];
    lua_createtable(L, 0, 4);
    set_str(L, "state", r->state);
    set_int(L, "attempt", r->attempt);
    set_int(L, "restarts", r->restarts);
    lua_createtable(L, (int)r->n_uids, 0);
    for (uint32_t k = 0; k < r->n_uids; k++) {
      lua_pushstring(L, r->uids[k]);
      lua_rawseti(L, -2, (lua_Integer)k + 1);
    }
    lua_setfield(L, -2, "operators");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "regions");
}

/* The strings of a status are the C side's: they are copied before anything can raise but
 * memory. */
static int job_status(lua_State *L) {
  sc_job_status_t s;
  sc_job_t *job = check(L);
  lua_createtable(L, 0, 11);
  sc_job_status(job, &s);
  set_str(L, "state", sc_job_state_name(s.state));
  set_int(L, "attempt", s.attempt);
  set_int(L, "restarts", s.restarts);
  set_str(L, "error", s.error);
  if (s.error)
    set_str(L, "error_code", sc_error_name(s.error_code));
  if (s.last_checkpoint)
    set_int(L, "last_checkpoint", s.last_checkpoint);
  set_str(L, "last_checkpoint_path", s.last_checkpoint_path);
  set_str(L, "restored_from", s.restored_path);
  if (s.was_complete) {
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, "was_complete");
  }
  if (s.stopped) {
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, "stopped");
  }
  set_regions(L, &s);
  sc_job_status_fini(&s);
  return 1;
}

static int64_t mono_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool ended(sc_job_t *job) {
  sc_job_status_t s;
  sc_job_status(job, &s);
  bool yes = sc_job_state_ended(s.state);
  sc_job_status_fini(&s);
  return yes;
}

/* Wait for news until `until_ms` (< 0: for ever); false when time is over. */
static bool news(lua_State *L, sc_job_t *job, int64_t until_ms) {
  int64_t left = until_ms < 0 ? -1 : until_ms - mono_ms();
  if (until_ms >= 0 && left <= 0)
    return false;
  sigset_t before;
  bool calm = lsc_signals_block(L, &before);
  if (calm)
    sc_job_wait_news(job, left, &before);
  if (!lsc_signals_unblock(L, &before, calm))
    lua_error(L);
  return true;
}

static int job_wait(lua_State *L) {
  sc_job_t *job = check(L);
  int64_t until = lua_isnoneornil(L, 2) ? -1 : mono_ms() + luaL_checkinteger(L, 2);
  while (!ended(job))
    if (!news(L, job, until)) {
      if (ended(job))
        break;
      lua_pushnil(L);
      lua_pushliteral(L, "ETIMEOUT: the job still runs");
      lua_pushliteral(L, "ETIMEOUT");
      return 3;
    }
  lua_pushboolean(L, 1);
  return 1;
}

static int job_cancel(lua_State *L) {
  sc_job_t *job = check(L);
  if (lsc_engine_runs()) /* else the shutdown has cancelled it */
    sc_job_cancel(job);
  lua_pushboolean(L, 1);
  return 1;
}

static int job_checkpoint(lua_State *L) {
  sc_job_t *job = check(L);
  sc_error_t err = SC_ERROR_INIT;
  if (!lsc_engine_runs())
    return lsc_push_failure(L, sc_fail(&err, SC_ECLOSED, "the process is leaving"), &err);
  uint64_t ticket = sc_job_checkpoint(job), id = 0;
  int rc;
  while ((rc = sc_job_ticket(job, ticket, &id, &err)) == 0)
    news(L, job, -1);
  if (rc < 0)
    return lsc_push_failure(L, rc, &err);
  lua_pushinteger(L, (lua_Integer)id);
  return 1;
}

/* It has ended after its checkpoint was complete: push the path, or what became of its commits. */
static int stopped(lua_State *L, sc_job_t *job) {
  sc_job_status_t s;
  sc_error_t err = SC_ERROR_INIT;
  sc_job_status(job, &s);
  const char *path = s.last_checkpoint_path ? s.last_checkpoint_path : "";
  int rc = 0;
  if (s.state == SC_JOB_FAILED)
    rc = sc_fail(&err, SC_EFAILED, "%s is complete, but the job failed before all sinks had "
                 "committed what it holds (a start from it does that): %s", path,
                 s.error ? s.error : "the cause is not known");
  else if (s.state != SC_JOB_FINISHED)
    rc = sc_fail(&err, SC_ECANCELED, "%s is complete, but the job was canceled before all sinks "
                 "had committed what it holds (a start from it does that)", path);
  lua_pushstring(L, path);
  sc_job_status_fini(&s);
  return rc < 0 ? lsc_push_failure(L, rc, &err) : 1;
}

/* job:stop(drain) */
static int job_stop(lua_State *L) {
  sc_job_t *job = check(L);
  sc_error_t err = SC_ERROR_INIT;
  bool drain = lua_toboolean(L, 2);
  if (!lsc_engine_runs())
    return lsc_push_failure(L, sc_fail(&err, SC_ECLOSED, "the process is leaving"), &err);
  uint64_t ticket = sc_job_stop(job, drain), id = 0;
  int rc;
  while ((rc = sc_job_ticket(job, ticket, &id, &err)) == 0)
    news(L, job, -1);
  if (rc < 0)
    return lsc_push_failure(L, rc, &err);
  while (!ended(job))
    news(L, job, -1);
  return stopped(L, job);
}

/* Push what `fill` wrote as a Lua value. A buffer is freed before anything may raise. */
static int push_value(lua_State *L, sc_buf_t *bytes) {
  sc_error_t err = SC_ERROR_INIT;
  int rc = lsc_decode(L, sc_buf_bytes(bytes), &err);
  sc_buf_free(bytes);
  return rc < 0 ? lsc_push_failure(L, rc, &err) : 1;
}

static int job_statistics(lua_State *L) {
  sc_buf_t bytes = SC_BUF_INIT;
  sc_job_statistics(check(L), &bytes);
  return push_value(L, &bytes);
}

static int job_metrics(lua_State *L) {
  sc_buf_t bytes = SC_BUF_INIT;
  sc_job_metrics(check(L), &bytes);
  return push_value(L, &bytes);
}

static int job_rows(lua_State *L) {
  sc_buf_t bytes = SC_BUF_INIT;
  sc_error_t err = SC_ERROR_INIT;
  int rc = sc_job_rows(check(L), luaL_checkstring(L, 2), &bytes, &err);
  return rc < 0 ? lsc_push_failure(L, rc, &err) : push_value(L, &bytes);
}

static int job_events(lua_State *L) {
  sc_buf_t bytes = SC_BUF_INIT;
  sc_job_events(check(L), &bytes);
  return push_value(L, &bytes);
}

static int job_fd(lua_State *L) {
  lua_pushinteger(L, sc_job_fd(check(L)));
  return 1;
}

void lsc_job_open(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"id", job_id}, {"status", job_status}, {"wait", job_wait}, {"cancel", job_cancel},
      {"checkpoint", job_checkpoint}, {"stop", job_stop}, {"statistics", job_statistics},
      {"metrics", job_metrics},
      {"rows", job_rows}, {"poll_events", job_events}, {"fd", job_fd}, {"__gc", job_gc},
      {NULL, NULL}};
  luaL_newmetatable(L, LSC_JOB);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
