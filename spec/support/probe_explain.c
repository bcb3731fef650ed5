/* probe_explain: what a checkpoint's numbers are explained with (core/checkpoint/explain). */
#include <lauxlib.h>
#include <stdio.h>

#include "../../core/checkpoint/explain.h"
#include "probe.h"

#define MOST 8
#define NS_PER_MS 1000000

/* The string stays in the table, which is on the stack. */
static const char *text(lua_State *L, int t, const char *name) {
  lua_getfield(L, t, name);
  const char *s = luaL_optstring(L, -1, NULL);
  lua_pop(L, 1);
  return s;
}

/* Times are ms; `from` is the number of another, from 1; without `ack` it has not acknowledged. */
static sc_explain_subtask_t subtask(lua_State *L, int t) {
  return (sc_explain_subtask_t){
      .name = text(L, t, "name"),
      .task = (uint32_t)probe_get_int(L, t, "task", 0),
      .sink = probe_get_bool(L, t, "sink"),
      .acknowledged = probe_get_int(L, t, "ack", -1) >= 0,
      .ack_ns = probe_get_int(L, t, "ack", 0) * NS_PER_MS,
      .start_delay_ns = probe_get_int(L, t, "delay", 0) * NS_PER_MS,
      .alignment_ns = probe_get_int(L, t, "alignment", 0) * NS_PER_MS,
      .sync_ns = probe_get_int(L, t, "sync", 0) * NS_PER_MS,
      .async_ns = probe_get_int(L, t, "async", 0) * NS_PER_MS,
      .held_ns = probe_get_int(L, t, "held", 0) * NS_PER_MS,
      .pool_ns = probe_get_int(L, t, "pool", 0) * NS_PER_MS,
      .storage_ns = probe_get_int(L, t, "storage", 0) * NS_PER_MS,
      .written = (uint64_t)probe_get_int(L, t, "written", 0),
      .persisted = (uint64_t)probe_get_int(L, t, "persisted", 0),
      .last_from = (uint32_t)(probe_get_int(L, t, "from", 0) - 1), /* 0: nobody */
      .queued = (uint64_t)probe_get_int(L, t, "queued", 0),
      .received = (uint64_t)probe_get_int(L, t, "received", probe_get_int(L, t, "queued", 0)),
      .place = text(L, t, "place"),
      .seen = (uint32_t)probe_get_int(L, t, "seen", 0),
      .blocked = probe_get_bool(L, t, "blocked"),
      .snapshots = probe_get_bool(L, t, "snapshots")};
}

/* explain { id =, status =, slow =, took =, waited =, prepare =, finish =, subtasks... }
 * -> cause, text, number of the subtask or nil, path as "1 2 3" */
static int explain(lua_State *L) {
  static const char *const ends[] = {"in_progress", "completed", "failed", NULL};
  sc_explain_subtask_t subtasks[MOST];
  luaL_checktype(L, 1, LUA_TTABLE);
  uint32_t n = (uint32_t)luaL_len(L, 1);
  luaL_argcheck(L, n <= MOST, 1, "too many subtasks");
  for (uint32_t i = 0; i < n; i++) {
    lua_rawgeti(L, 1, i + 1);
    subtasks[i] = subtask(L, lua_gettop(L));
    lua_pop(L, 1);
  }
  lua_getfield(L, 1, "status");
  sc_explain_input_t in = {
      .id = (uint64_t)probe_get_int(L, 1, "id", 7),
      .end = (sc_explain_end_t)luaL_checkoption(L, -1, "completed", ends),
      .slow_ns = probe_get_int(L, 1, "slow", 1000) * NS_PER_MS,
      .took_ns = probe_get_int(L, 1, "took", 0) * NS_PER_MS,
      .waited_ns = probe_get_int(L, 1, "waited", 0) * NS_PER_MS,
      .prepare_ns = probe_get_int(L, 1, "prepare", 0) * NS_PER_MS,
      .finish_ns = probe_get_int(L, 1, "finish", 0) * NS_PER_MS,
      .subtasks = subtasks,
      .n = n};
  sc_explanation_t e;
  sc_explain(&in, &e);
  lua_pushstring(L, sc_cause_name(e.cause));
  lua_pushstring(L, e.text);
  lua_pushnil(L);
  if (e.subtask != SC_EXPLAIN_NOBODY) {
    lua_pop(L, 1);
    lua_pushinteger(L, e.subtask + 1);
  }
  luaL_Buffer path;
  luaL_buffinit(L, &path);
  for (uint32_t i = 0; i < e.n_path; i++) {
    char one[16];
    snprintf(one, sizeof one, "%s%u", i ? " " : "", e.path[i] + 1);
    luaL_addstring(&path, one);
  }
  luaL_pushresult(&path);
  sc_explanation_fini(&e);
  return 4;
}

void probe_explain(lua_State *L) {
  static const luaL_Reg functions[] = {{"explain", explain}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
