/* Drives core/checkpoint, and of core/runtime the enumerator and the restart strategies. Tasks are
 * numbered from 0 as in C. */
#include <stdlib.h>

#include "../../core/base/mem.h"
#include "../../core/checkpoint/coordinator.h"
#include "../../core/checkpoint/failures.h"
#include "../../core/checkpoint/schedule.h"
#include "../../core/checkpoint/statistics.h"
#include "../../core/runtime/enumerator.h"
#include "../../core/runtime/restart.h"
#include "probe.h"

static const char *const reasons[] = {"none", "expired", "declined", "async_failed", "io",
                                      "finalize", "subsumed", "task_failed", "task_closing",
                                      "superseded", "not_running", "too_many_requests", "stopped",
                                      "stopping", NULL};
static const char *const ends[] = {"running", "ended", "finished", NULL};
static const char *const starts[] = {"nothing", "manual", "final", "periodic", "stop"};
static const char *const kinds[] = {"reserve", "prepare", "trigger", "write", "complete", "abort",
                                    "delete", "discard", "finished", "answer", "fail_job",
                                    "refused", "drain"};

static sc_reason_t check_reason(lua_State *L, int arg) {
  return (sc_reason_t)luaL_checkoption(L, arg, NULL, reasons);
}

static int64_t opt_field(lua_State *L, int arg, const char *name, int64_t otherwise) {
  lua_getfield(L, arg, name);
  int64_t v = luaL_optinteger(L, -1, otherwise);
  lua_pop(L, 1);
  return v;
}

static void set_int(lua_State *L, const char *name, int64_t v) {
  lua_pushinteger(L, v);
  lua_setfield(L, -2, name);
}

/* A userdata that holds a pointer, NULL until it is set; its type ends it by `gc`. */
static void **push_box(lua_State *L, const char *type, lua_CFunction gc) {
  void **box = lua_newuserdatauv(L, sizeof *box, 0);
  *box = NULL;
  if (luaL_newmetatable(L, type)) {
    lua_pushcfunction(L, gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  return box;
}

static void *check_box(lua_State *L, const char *type) {
  return *(void **)luaL_checkudata(L, 1, type);
}

/* ---- coordinator ---- */

#define COORDINATOR "sc.probe.coordinator"

static sc_coordinator_t *check_coordinator(lua_State *L) { return check_box(L, COORDINATOR); }

static int coordinator_gc(lua_State *L) {
  sc_coordinator_destroy(check_coordinator(L));
  return 0;
}

static bool flag_field(lua_State *L, int arg, const char *name) {
  lua_getfield(L, arg, name);
  bool v = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return v;
}

static int coordinator_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  sc_coordinator_config_t config = {
      .interval_ms = opt_field(L, 1, "interval", 0),
      .timeout_ms = opt_field(L, 1, "timeout", 600000),
      .min_pause_ms = opt_field(L, 1, "min_pause", 0),
      .failure_pause_ms = opt_field(L, 1, "failure_pause", 0),
      .max_concurrent = (uint32_t)opt_field(L, 1, "max_concurrent", 1),
      .tolerable_failures = opt_field(L, 1, "tolerable", -1),
      .retain = (uint32_t)opt_field(L, 1, "retain", 1),
      .unaligned = flag_field(L, 1, "unaligned"),
      .aligned_timeout_ms = opt_field(L, 1, "aligned_timeout", 0),
      .all_or_none = flag_field(L, 1, "all_or_none"),
  };
  *push_box(L, COORDINATOR, coordinator_gc) = sc_coordinator_create(&config);
  return 1;
}

/* Of the fields keyed (a file's length), list (a text), inflight (bytes of blocks). */
static void add_handles(lua_State *L, int arg, sc_operator_snapshot_t *op) {
  int64_t keyed = opt_field(L, arg, "keyed", 0), inflight = opt_field(L, arg, "inflight", 0);
  if (keyed) {
    sc_handle_t *h = sc_operator_snapshot_add(op, SC_HANDLE_KEYED);
    h->file = sc_strdup("f.keys");
    h->length = (uint64_t)keyed;
  }
  if (inflight) {
    sc_handle_t *h = sc_operator_snapshot_add(op, SC_HANDLE_INFLIGHT);
    h->file = sc_strdup("f.inflight");
    h->length = 1 << 20; /* of many tasks */
    h->inflight.bytes = (uint64_t)inflight;
  }
  if (lua_getfield(L, arg, "list") == LUA_TSTRING)
    sc_buf_puts(&sc_operator_snapshot_add(op, SC_HANDLE_LIST)->inlined, lua_tostring(L, -1));
  lua_pop(L, 1);
}

/* A snapshot as { task =, subtask =, bytes =, end = }. */
static sc_task_snapshot_t *check_snapshot(lua_State *L, int arg) {
  luaL_checktype(L, arg, LUA_TTABLE);
  sc_task_snapshot_t *snap = sc_task_snapshot_create((uint32_t)opt_field(L, arg, "task", 0),
                                                     (uint32_t)opt_field(L, arg, "subtask", 0), 1);
  snap->operators[0].uid = sc_strdup("op");
  snap->bytes = (uint64_t)opt_field(L, arg, "bytes", 0);
  snap->last_from = (uint32_t)opt_field(L, arg, "last_from", UINT32_MAX);
  snap->queued_bytes = (uint64_t)opt_field(L, arg, "queued_bytes", 0);
  snap->storage_ns = opt_field(L, arg, "storage_ns", 0);
  snap->alignment_bytes = (uint64_t)opt_field(L, arg, "alignment_bytes", 0);
  snap->persisted_bytes = (uint64_t)opt_field(L, arg, "persisted_bytes", 0);
  lua_getfield(L, arg, "unaligned");
  snap->unaligned = lua_toboolean(L, -1);
  lua_pop(L, 1);
  add_handles(L, arg, &snap->operators[0]);
  snap->sync_ns = opt_field(L, arg, "sync_ns", 0);
  snap->async_ns = opt_field(L, arg, "async_ns", 0);
  snap->alignment_ns = opt_field(L, arg, "alignment_ns", 0);
  snap->start_delay_ns = opt_field(L, arg, "start_delay_ns", 0);
  lua_getfield(L, arg, "end");
  if (lua_isstring(L, -1))
    snap->end = (sc_task_end_t)luaL_checkoption(L, -1, "running", ends);
  lua_pop(L, 1);
  return snap;
}

static void push_snapshots(lua_State *L, const sc_action_t *a, uint32_t n) {
  lua_createtable(L, (int)n, 0);
  for (uint32_t i = 0; i < n; i++) {
    const sc_task_snapshot_t *snap = a->snapshots[i];
    lua_createtable(L, 0, 4);
    set_int(L, "task", snap->task);
    set_int(L, "bytes", (int64_t)snap->bytes);
    lua_pushstring(L, ends[snap->end]);
    lua_setfield(L, -2, "end");
    lua_pushstring(L, snap->operators[0].uid);
    lua_setfield(L, -2, "uid");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

static void push_tasks(lua_State *L, const sc_action_t *a) {
  lua_createtable(L, (int)a->n_tasks, 0);
  for (uint32_t i = 0; i < a->n_tasks; i++) {
    lua_pushinteger(L, a->tasks[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

static void push_action(lua_State *L, const sc_action_t *a) {
  lua_createtable(L, 0, 8);
  lua_pushstring(L, kinds[a->kind]);
  lua_setfield(L, -2, "kind");
  set_int(L, "id", (int64_t)a->id);
  set_int(L, "timestamp", a->timestamp_ms);
  set_int(L, "overtake_at", a->overtake_at_ms);
  set_int(L, "waited", a->waited_ms);
  set_int(L, "retry", a->retry_ms);
  set_int(L, "timeout", a->timeout_ms);
  set_int(L, "request", (int64_t)a->request);
  lua_pushstring(L, reasons[a->reason]);
  lua_setfield(L, -2, "reason");
  if (a->task != UINT32_MAX)
    set_int(L, "task", a->task);
  lua_pushstring(L, a->text);
  lua_setfield(L, -2, "text");
  lua_pushboolean(L, a->final);
  lua_setfield(L, -2, "final");
  lua_pushboolean(L, a->stop);
  lua_setfield(L, -2, "stop");
  if (a->tasks) {
    push_tasks(L, a);
    lua_setfield(L, -2, "tasks");
  }
  if (a->snapshots) {
    push_snapshots(L, a, a->kind == SC_ACT_DISCARD ? 1 : a->n_tasks);
    lua_setfield(L, -2, "snapshots");
  }
}

static int coordinator_action(lua_State *L) {
  sc_action_t a;
  if (!sc_coordinator_action(check_coordinator(L), &a))
    return 0;
  push_action(L, &a);
  return 1;
}

static int coordinator_begin_ids(lua_State *L) {
  sc_coordinator_begin_ids(check_coordinator(L), (uint64_t)luaL_checkinteger(L, 2));
  return 0;
}

static int coordinator_reserved(lua_State *L) {
  sc_coordinator_reserved(check_coordinator(L), (uint64_t)luaL_checkinteger(L, 2),
                          lua_toboolean(L, 3));
  return 0;
}

static int coordinator_add_completed(lua_State *L) {
  sc_coordinator_add_completed(check_coordinator(L), (uint64_t)luaL_checkinteger(L, 2));
  return 0;
}

static int coordinator_trim(lua_State *L) {
  sc_coordinator_trim(check_coordinator(L));
  return 0;
}

/* The graph as a list: for each task the list of tasks that feed it. */
static void start(lua_State *L, sc_coordinator_t *c) {
  uint32_t n = (uint32_t)lua_rawlen(L, 4);
  uint32_t *n_senders = sc_calloc(n, sizeof *n_senders);
  uint32_t **senders = sc_calloc(n, sizeof *senders);
  for (uint32_t i = 0; i < n; i++) {
    lua_rawgeti(L, 4, (lua_Integer)i + 1);
    n_senders[i] = (uint32_t)lua_rawlen(L, -1);
    senders[i] = sc_calloc(n_senders[i], sizeof **senders);
    for (uint32_t k = 0; k < n_senders[i]; k++) {
      lua_rawgeti(L, -1, (lua_Integer)k + 1);
      senders[i][k] = (uint32_t)lua_tointeger(L, -1);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  sc_topology_t t = {n, (const uint32_t *const *)senders, n_senders};
  sc_coordinator_start(c, lua_tointeger(L, 2), lua_tointeger(L, 3), &t);
  for (uint32_t i = 0; i < n; i++)
    free(senders[i]);
  free(senders);
  free(n_senders);
}

static int coordinator_start(lua_State *L) {
  luaL_checktype(L, 4, LUA_TTABLE);
  start(L, check_coordinator(L));
  return 0;
}

static int coordinator_restored_finished(lua_State *L) {
  sc_task_snapshot_t *snap = check_snapshot(L, 2);
  sc_coordinator_restored_finished(check_coordinator(L), snap->task, snap);
  return 0;
}

#define NOW luaL_checkinteger(L, 2), luaL_checkinteger(L, 3)

static int coordinator_stop(lua_State *L) {
  sc_coordinator_stop(check_coordinator(L), NOW, check_reason(L, 4),
                      (uint32_t)luaL_optinteger(L, 5, UINT32_MAX));
  return 0;
}

static int coordinator_suspend(lua_State *L) {
  sc_coordinator_suspend(check_coordinator(L), NOW, check_reason(L, 4),
                         (uint32_t)luaL_optinteger(L, 5, UINT32_MAX));
  return 0;
}

/* coordinator_resume(c, now, mono, for each task whether it was restarted) */
static int coordinator_resume(lua_State *L) {
  uint32_t n = (uint32_t)lua_rawlen(L, 4);
  bool *restarted = sc_calloc(n, sizeof *restarted);
  for (uint32_t i = 0; i < n; i++) {
    lua_rawgeti(L, 4, (lua_Integer)i + 1);
    restarted[i] = lua_toboolean(L, -1);
    lua_pop(L, 1);
  }
  sc_coordinator_resume(check_coordinator(L), NOW, restarted);
  free(restarted);
  return 0;
}

static int coordinator_writing(lua_State *L) {
  lua_pushboolean(L, sc_coordinator_writing(check_coordinator(L)));
  return 1;
}

static int coordinator_tick(lua_State *L) {
  sc_coordinator_tick(check_coordinator(L), NOW);
  return 0;
}

static int coordinator_deadline(lua_State *L) {
  lua_pushinteger(L, sc_coordinator_deadline(check_coordinator(L)));
  return 1;
}

static int coordinator_request(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)sc_coordinator_request(check_coordinator(L), NOW));
  return 1;
}

static int coordinator_request_stop(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)sc_coordinator_request_stop(check_coordinator(L), NOW,
                                                              lua_toboolean(L, 4)));
  return 1;
}

static int coordinator_prepared(lua_State *L) {
  sc_coordinator_prepared(check_coordinator(L), NOW, (uint64_t)luaL_checkinteger(L, 4),
                          lua_toboolean(L, 5));
  return 0;
}

static int coordinator_ack(lua_State *L) {
  uint64_t id = (uint64_t)luaL_checkinteger(L, 4);
  sc_coordinator_ack(check_coordinator(L), NOW, id, check_snapshot(L, 5));
  return 0;
}

static int coordinator_decline(lua_State *L) {
  sc_coordinator_decline(check_coordinator(L), NOW, (uint64_t)luaL_checkinteger(L, 4),
                         (uint32_t)luaL_checkinteger(L, 5), check_reason(L, 6),
                         luaL_optstring(L, 7, NULL));
  return 0;
}

static int coordinator_written(lua_State *L) {
  sc_coordinator_written(check_coordinator(L), NOW, (uint64_t)luaL_checkinteger(L, 4),
                         lua_toboolean(L, 5));
  return 0;
}

static int coordinator_deleted(lua_State *L) {
  sc_coordinator_deleted(check_coordinator(L), NOW, (uint64_t)luaL_checkinteger(L, 4));
  return 0;
}

static int coordinator_end_of_data(lua_State *L) {
  sc_coordinator_end_of_data(check_coordinator(L), NOW, (uint32_t)luaL_checkinteger(L, 4));
  return 0;
}

static int coordinator_finish_request(lua_State *L) {
  sc_coordinator_finish_request(check_coordinator(L), NOW, (uint32_t)luaL_checkinteger(L, 4));
  return 0;
}

static int coordinator_latest(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)sc_coordinator_latest(check_coordinator(L)));
  return 1;
}

static int coordinator_failures(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)sc_coordinator_failures(check_coordinator(L)));
  return 1;
}

static int reason_text(lua_State *L) {
  lua_pushstring(L, sc_reason_text(check_reason(L, 1)));
  return 1;
}

/* ---- failures ---- */

#define FAILURES "sc.probe.failures"

static int failures_gc(lua_State *L) {
  sc_failures_t *f = check_box(L, FAILURES);
  sc_failures_fini(f);
  free(f);
  return 0;
}

static int failures_new(lua_State *L) {
  int64_t tolerable = luaL_checkinteger(L, 1);
  sc_failures_t *f = sc_malloc(sizeof *f);
  sc_failures_init(f, tolerable);
  *push_box(L, FAILURES, failures_gc) = f;
  return 1;
}

static int failures_add(lua_State *L) {
  lua_pushboolean(L, sc_failures_add(check_box(L, FAILURES), check_reason(L, 2),
                                     (uint64_t)luaL_checkinteger(L, 3)));
  return 1;
}

static int failures_success(lua_State *L) {
  sc_failures_success(check_box(L, FAILURES), (uint64_t)luaL_checkinteger(L, 2));
  return 0;
}

static int failures_count(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)((sc_failures_t *)check_box(L, FAILURES))->count);
  return 1;
}

/* ---- schedule ---- */

#define SCHEDULE "sc.probe.schedule"

static int schedule_gc(lua_State *L) {
  sc_schedule_t *s = check_box(L, SCHEDULE);
  sc_schedule_fini(s);
  free(s);
  return 0;
}

static int schedule_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  sc_schedule_t *s = sc_malloc(sizeof *s);
  sc_schedule_init(s, opt_field(L, 1, "interval", 0), opt_field(L, 1, "min_pause", 0),
                   (uint32_t)opt_field(L, 1, "max_concurrent", 1),
                   (size_t)opt_field(L, 1, "capacity", 1000));
  *push_box(L, SCHEDULE, schedule_gc) = s;
  return 1;
}

static int schedule_start(lua_State *L) {
  sc_schedule_start(check_box(L, SCHEDULE), luaL_checkinteger(L, 2));
  return 0;
}

static int schedule_stop(lua_State *L) {
  sc_schedule_stop(check_box(L, SCHEDULE));
  return 0;
}

static int schedule_tick(lua_State *L) {
  sc_schedule_tick(check_box(L, SCHEDULE), luaL_checkinteger(L, 2));
  return 0;
}

static int schedule_deadline(lua_State *L) {
  lua_pushinteger(L, sc_schedule_deadline(check_box(L, SCHEDULE)));
  return 1;
}

static int schedule_completed(lua_State *L) {
  sc_schedule_completed(check_box(L, SCHEDULE), luaL_checkinteger(L, 2));
  return 0;
}

static int schedule_failed(lua_State *L) {
  sc_schedule_failed(check_box(L, SCHEDULE), luaL_checkinteger(L, 2), luaL_checkinteger(L, 3));
  return 0;
}

static int schedule_request(lua_State *L) {
  lua_pushboolean(L,
                  sc_schedule_request(check_box(L, SCHEDULE), (uint64_t)luaL_checkinteger(L, 2)));
  return 1;
}

/* schedule, mono_ms, { pending =, deleting =, preparing =, final = } -> kind */
static int schedule_choose(lua_State *L) {
  luaL_checktype(L, 3, LUA_TTABLE);
  sc_schedule_load_t load = {.pending = (uint32_t)opt_field(L, 3, "pending", 0),
                             .deleting = (uint32_t)opt_field(L, 3, "deleting", 0)};
  lua_getfield(L, 3, "preparing");
  load.preparing = lua_toboolean(L, -1);
  lua_getfield(L, 3, "final");
  load.final_wanted = lua_toboolean(L, -1);
  lua_pushstring(L, starts[sc_schedule_choose(check_box(L, SCHEDULE), luaL_checkinteger(L, 2),
                                              &load)]);
  return 1;
}

static int schedule_take(lua_State *L) {
  static const char *const names[] = {"nothing", "manual", "final", "periodic", NULL};
  lua_pushinteger(L, (lua_Integer)sc_schedule_take(
                         check_box(L, SCHEDULE), (sc_start_t)luaL_checkoption(L, 2, NULL, names)));
  return 1;
}

/* ---- statistics ---- */

#define STATISTICS "sc.probe.statistics"

static int statistics_gc(lua_State *L) {
  sc_statistics_destroy(check_box(L, STATISTICS));
  return 0;
}

static int statistics_new(lua_State *L) {
  *push_box(L, STATISTICS, statistics_gc) =
      sc_statistics_create((uint32_t)luaL_checkinteger(L, 1));
  return 1;
}

/* statistics, name, subtasks */
static int statistics_add_task(lua_State *L) {
  sc_statistics_add_task(check_box(L, STATISTICS), luaL_checkstring(L, 2),
                         (uint32_t)luaL_checkinteger(L, 3));
  return 0;
}

#define STATISTICS_MAX_SUBTASKS 8

/* statistics, id, now_ms, { manual =, savepoint =, finished = { [1] = true, ... } } */
static int statistics_triggered(lua_State *L) {
  bool finished[STATISTICS_MAX_SUBTASKS] = {false};
  luaL_checktype(L, 4, LUA_TTABLE);
  lua_getfield(L, 4, "manual");
  lua_getfield(L, 4, "savepoint");
  lua_getfield(L, 4, "finished");
  for (int i = 0; lua_istable(L, -1) && i < STATISTICS_MAX_SUBTASKS; i++) {
    lua_rawgeti(L, -1, i + 1);
    finished[i] = lua_toboolean(L, -1);
    lua_pop(L, 1);
  }
  sc_statistics_triggered(check_box(L, STATISTICS),
                          &(sc_statistics_begin_t){.id = (uint64_t)luaL_checkinteger(L, 2),
                                                   .trigger_ms = luaL_checkinteger(L, 3),
                                                   .manual = lua_toboolean(L, -3),
                                                   .savepoint = lua_toboolean(L, -2),
                                                   .finished = finished});
  return 0;
}

static int statistics_discarded(lua_State *L) {
  sc_statistics_discarded(check_box(L, STATISTICS), (uint64_t)luaL_checkinteger(L, 2));
  return 0;
}

static int statistics_ack(lua_State *L) {
  sc_task_snapshot_t *snap = check_snapshot(L, 4);
  sc_statistics_ack(check_box(L, STATISTICS), (uint64_t)luaL_checkinteger(L, 2),
                    luaL_checkinteger(L, 3), snap);
  sc_task_snapshot_destroy(snap);
  return 0;
}

static int statistics_completed(lua_State *L) {
  sc_statistics_completed(check_box(L, STATISTICS), (uint64_t)luaL_checkinteger(L, 2),
                          luaL_checkinteger(L, 3), luaL_checkstring(L, 4));
  return 0;
}

static int statistics_failed(lua_State *L) {
  sc_statistics_failed(check_box(L, STATISTICS), (uint64_t)luaL_checkinteger(L, 2),
                       luaL_checkinteger(L, 3), luaL_checkstring(L, 4));
  return 0;
}

static int statistics_restored(lua_State *L) {
  sc_statistics_restored(check_box(L, STATISTICS), (uint64_t)luaL_checkinteger(L, 2),
                         luaL_checkinteger(L, 3), luaL_optstring(L, 4, NULL));
  return 0;
}

static int statistics_encode(lua_State *L) {
  sc_buf_t out = SC_BUF_INIT;
  sc_statistics_encode(check_box(L, STATISTICS), luaL_optinteger(L, 2, 0), &out);
  probe_push_bytes(L, sc_buf_bytes(&out));
  sc_buf_free(&out);
  return 1;
}

/* ---- enumerator ---- */

#define ENUMERATOR "sc.probe.enumerator"

static int enumerator_gc(lua_State *L) {
  sc_enumerator_destroy(check_box(L, ENUMERATOR));
  return 0;
}

static int enumerator_new(lua_State *L) {
  uint32_t readers = (uint32_t)luaL_checkinteger(L, 1);
  *push_box(L, ENUMERATOR, enumerator_gc) = sc_enumerator_create(readers);
  return 1;
}

static int enumerator_found(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  int rc = sc_enumerator_found(check_box(L, ENUMERATOR), probe_bytes(L, 2), &err);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  lua_pushboolean(L, true);
  return 1;
}

static int enumerator_restore(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  int rc = sc_enumerator_restore(check_box(L, ENUMERATOR), probe_bytes(L, 2), &err);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  lua_pushboolean(L, true);
  return 1;
}

static int enumerator_ask(lua_State *L) {
  sc_enumerator_ask(check_box(L, ENUMERATOR), (uint32_t)luaL_checkinteger(L, 2),
                    lua_toboolean(L, 3));
  return 0;
}

/* -> reader, split's bytes or nil for no more; nothing where there is no answer to give. */
static int enumerator_next(lua_State *L) {
  sc_assignment_t a;
  if (!sc_enumerator_next(check_box(L, ENUMERATOR), &a))
    return 0;
  lua_pushinteger(L, a.reader);
  if (a.no_more)
    lua_pushnil(L);
  else
    probe_push_bytes(L, a.split);
  return 2;
}

static int enumerator_snapshot(lua_State *L) {
  sc_buf_t out = SC_BUF_INIT;
  sc_enumerator_snapshot(check_box(L, ENUMERATOR), &out);
  probe_push_bytes(L, sc_buf_bytes(&out));
  sc_buf_free(&out);
  return 1;
}

static int enumerator_finding(lua_State *L) {
  lua_pushboolean(L, sc_enumerator_finding(check_box(L, ENUMERATOR)));
  return 1;
}

/* ---- restart ---- */

#define RESTART "sc.probe.restart"

static int restart_gc(lua_State *L) {
  sc_restart_destroy(check_box(L, RESTART));
  return 0;
}

/* name, { attempts =, delay = } */
static double opt_number(lua_State *L, int table, const char *name, double otherwise) {
  lua_getfield(L, table, name);
  double v = luaL_optnumber(L, -1, otherwise);
  lua_pop(L, 1);
  return v;
}

static int restart_new(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_restart_config_t config;
  luaL_checktype(L, 2, LUA_TTABLE);
  int rc = sc_restart_config(luaL_checkstring(L, 1), &config, &err);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  config.attempts = opt_field(L, 2, "attempts", config.attempts);
  config.delay_ms = opt_field(L, 2, "delay", config.delay_ms);
  config.max_failures = opt_field(L, 2, "max_failures", config.max_failures);
  config.interval_ms = opt_field(L, 2, "interval", config.interval_ms);
  config.initial_backoff_ms = opt_field(L, 2, "initial_backoff", config.initial_backoff_ms);
  config.max_backoff_ms = opt_field(L, 2, "max_backoff", config.max_backoff_ms);
  config.reset_threshold_ms = opt_field(L, 2, "reset_threshold", config.reset_threshold_ms);
  config.multiplier = opt_number(L, 2, "multiplier", config.multiplier);
  config.jitter = opt_number(L, 2, "jitter", config.jitter);
  sc_restart_t *r = NULL;
  rc = sc_restart_create(&config, &r, &err);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  *push_box(L, RESTART, restart_gc) = r;
  return 1;
}

/* restart_running(r, now) */
static int restart_running(lua_State *L) {
  sc_restart_running(check_box(L, RESTART), luaL_checkinteger(L, 2));
  return 0;
}

/* restart_failed(r, now [, uniform]) -> the delay, or false */
static int restart_failed(lua_State *L) {
  sc_restart_decision_t d =
      sc_restart_failed(check_box(L, RESTART), luaL_checkinteger(L, 2), luaL_optnumber(L, 3, 0.5));
  if (d.restart)
    lua_pushinteger(L, d.delay_ms);
  else
    lua_pushboolean(L, false);
  return 1;
}

static int restart_count(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)sc_restart_count(check_box(L, RESTART)));
  return 1;
}

#define F(name) {#name, name}
static const luaL_Reg functions[] = {
    F(coordinator_new), F(coordinator_action), F(coordinator_begin_ids), F(coordinator_reserved),
    F(coordinator_add_completed), F(coordinator_trim), F(coordinator_start),
    F(coordinator_restored_finished), F(coordinator_suspend), F(coordinator_resume),
    F(coordinator_stop), F(coordinator_writing), F(coordinator_tick), F(coordinator_deadline),
    F(coordinator_request), F(coordinator_request_stop), F(coordinator_prepared),
    F(coordinator_ack), F(coordinator_decline),
    F(coordinator_written), F(coordinator_deleted), F(coordinator_end_of_data),
    F(coordinator_finish_request), F(coordinator_latest), F(coordinator_failures), F(reason_text),
    F(failures_new), F(failures_add), F(failures_success), F(failures_count),
    F(schedule_new), F(schedule_start), F(schedule_stop), F(schedule_tick), F(schedule_deadline),
    F(schedule_completed), F(schedule_failed), F(schedule_request), F(schedule_choose),
    F(schedule_take),
    F(statistics_new), F(statistics_add_task), F(statistics_triggered), F(statistics_ack),
    F(statistics_completed), F(statistics_failed), F(statistics_restored), F(statistics_encode),
    F(statistics_discarded),
    F(enumerator_new), F(enumerator_found), F(enumerator_restore), F(enumerator_ask),
    F(enumerator_next), F(enumerator_snapshot), F(enumerator_finding),
    F(restart_new), F(restart_running), F(restart_failed), F(restart_count),
    {NULL, NULL}};

void probe_checkpoint(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
}
