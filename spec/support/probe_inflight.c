/* What was in flight: its files, how tasks share them, who gets what of it, and its way back. */
#include <stdlib.h>

#include "../../core/base/mem.h"
#include "../../core/base/world.h"
#include "../../core/exchange/replay.h"
#include "../../core/runtime/inflight_files.h"
#include "../../core/snapshot/inflight_file.h"
#include "probe_graph.h"
#include "probe_metadata.h"
#include "probe_storage.h"

#define FILES_TYPE "streamckpt.probe.inflight_files"

static sc_handle_t check_handle(lua_State *L, int table) {
  sc_handle_t h = {.inlined = SC_BUF_INIT};
  luaL_checktype(L, table, LUA_TTABLE);
  probe_to_handle(L, table, &h);
  return h;
}

/* ---- files ---- */

/* inflight_write(s, path, checkpoint, attempt, {block or {dir, handle}, ...}) -> length, checksum,
 * {offset of each} */
static int inflight_write(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_inflight_writer_t *w = sc_inflight_writer_create(
      probe_check_storage(L, 1), luaL_checkstring(L, 2), (uint64_t)luaL_checkinteger(L, 3),
      (uint64_t)luaL_checkinteger(L, 4));
  int rc = 0;
  lua_newtable(L);
  for (lua_Integer i = 1; rc == 0 && i <= luaL_len(L, 5); i++) {
    lua_pushinteger(L, (lua_Integer)sc_inflight_writer_offset(w));
    lua_rawseti(L, -2, i);
    lua_geti(L, 5, i);
    if (lua_istable(L, -1)) {
      lua_geti(L, -1, 1);
      lua_geti(L, -2, 2);
      sc_handle_t h = check_handle(L, lua_gettop(L));
      rc = sc_inflight_writer_copy(w, lua_tostring(L, -2), &h, &err);
      sc_handle_fini(&h);
      lua_pop(L, 2);
    } else {
      rc = sc_inflight_writer_put(w, probe_bytes(L, -1), &err);
    }
    lua_pop(L, 1);
  }
  if (rc < 0) {
    sc_inflight_writer_abandon(w);
    return probe_fail(L, rc, &err);
  }
  uint64_t length, checksum;
  rc = sc_inflight_writer_finish(w, &length, &checksum, &err);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  lua_pushinteger(L, (lua_Integer)length);
  lua_pushinteger(L, (lua_Integer)checksum);
  lua_pushvalue(L, -3);
  return 3;
}

/* inflight_read(s, dir, handle, at, want) -> bytes of whole blocks; "" at the end */
static int inflight_read(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_buf_t out = SC_BUF_INIT;
  sc_handle_t h = check_handle(L, 3);
  int64_t rc = sc_inflight_read(probe_check_storage(L, 1), luaL_checkstring(L, 2), &h,
                                (uint64_t)luaL_checkinteger(L, 4), (size_t)luaL_checkinteger(L, 5),
                                &out, &err);
  sc_handle_fini(&h);
  int n = 1;
  if (rc < 0) {
    n = probe_fail(L, (int)rc, &err);
  } else {
    luaL_argcheck(L, (size_t)rc == out.len, 1, "it says another number than it reads");
    probe_push_bytes(L, sc_buf_bytes(&out));
  }
  sc_buf_free(&out);
  return n;
}

/* ---- sharing ---- */

/* A world whose pool runs when the spec says so. */
typedef struct files {
  sc_world_t world;
  sc_work_t *works, **works_tail;
  int64_t looks;             /* at its clock */
  sc_graph_t *graph;
  sc_pool_t *pool;
  char *dir;
  sc_inflight_files_t *files;
  lua_State *told;           /* its stack: a table {member, checkpoint, code or snapshot} each */
} files_t;

static void submit(sc_world_t *world, sc_work_t *work) {
  files_t *f = (files_t *)world;
  work->next = NULL;
  *f->works_tail = work;
  f->works_tail = &work->next;
}

/* Each look at the clock takes a ns. */
static int64_t mono_ns(sc_world_t *world) {
  return ++((files_t *)world)->looks;
}

static const sc_world_ops_t files_world_ops = {.mono_ns = mono_ns, .submit = submit};

static files_t *check_files(lua_State *L) {
  return luaL_checkudata(L, 1, FILES_TYPE);
}

static int files_gc(lua_State *L) {
  files_t *f = check_files(L);
  sc_inflight_files_destroy(f->files);
  f->files = NULL;
  sc_pool_destroy(f->pool);
  f->pool = NULL;
  sc_graph_destroy(f->graph);
  f->graph = NULL;
  free(f->dir);
  f->dir = NULL;
  return 0;
}

/* inflight_files(s, job_dir, graph, {attempt, generation, per_file, members}) */
static int files_new(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_storage_t *s = probe_check_storage(L, 1);
  const char *dir = luaL_checkstring(L, 2);
  lua_settop(L, 4);
  lua_pushvalue(L, 3);
  sc_graph_t *g = probe_read_graph(L, &err);
  lua_pop(L, 1);
  if (!g)
    return probe_raise(L, &err);
  files_t *f = lua_newuserdatauv(L, sizeof *f, 1);
  *f = (files_t){.world = {.ops = &files_world_ops}, .graph = g,
                 .pool = sc_pool_create(256), .dir = sc_strdup(dir)};
  f->works_tail = &f->works;
  if (luaL_newmetatable(L, FILES_TYPE)) {
    lua_pushcfunction(L, files_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1); /* the storage lives as long */
  lua_pushvalue(L, 4);
  f->files = sc_inflight_files_create(&(sc_inflight_files_config_t){
      .world = &f->world, .storage = s, .graph = g, .job_dir = f->dir,
      .attempt = (uint64_t)probe_opt_int(L, "attempt", 1),
      .generation = (uint32_t)probe_opt_int(L, "generation", 1),
      .per_file = (uint32_t)probe_opt_int(L, "per_file", 5)});
  for (lua_Integer i = probe_opt_int(L, "members", 1); i > 0; i--)
    sc_inflight_files_join(f->files);
  lua_pop(L, 1);
  return 1;
}

typedef struct told_share {
  sc_inflight_share_t share;
  files_t *files;
} told_share_t;

static void share_done(sc_inflight_share_t *share, int rc, sc_error_t *err) {
  files_t *f = ((told_share_t *)share)->files;
  lua_State *L = f->told;
  lua_newtable(L);
  lua_pushinteger(L, share->member);
  lua_setfield(L, -2, "member");
  lua_pushinteger(L, (lua_Integer)share->checkpoint);
  lua_setfield(L, -2, "checkpoint");
  if (rc < 0) {
    lua_pushstring(L, sc_error_name(rc));
    lua_setfield(L, -2, "failed");
    lua_pushstring(L, err->message);
    lua_setfield(L, -2, "message");
  } else {
    sc_task_snapshot_t *snap = sc_task_snapshot_create(0, 0, 4);
    sc_inflight_share_move(f->files, share, snap);
    lua_pushinteger(L, (lua_Integer)snap->persisted_bytes);
    lua_setfield(L, -2, "bytes");
    lua_newtable(L); /* handles, each with its operator's position in the chain */
    for (uint32_t i = 0, n = 0; i < snap->n_operators; i++)
      for (uint32_t k = 0; k < snap->operators[i].n_handles; k++) {
        probe_push_handle(L, &snap->operators[i].handles[k]);
        lua_pushinteger(L, i);
        lua_setfield(L, -2, "position");
        lua_rawseti(L, -2, ++n);
      }
    lua_setfield(L, -2, "handles");
    sc_task_snapshot_destroy(snap);
  }
  lua_rawseti(L, 2, (lua_Integer)lua_rawlen(L, 2) + 1);
  sc_inflight_share_fini(share);
  free(share);
}

static void read_part(lua_State *L, files_t *f, sc_inflight_part_t *p) {
  p->edge = (uint32_t)probe_opt_int(L, "edge", 0);
  p->sender = (uint32_t)probe_opt_int(L, "sender", 0);
  p->receiver = (uint32_t)probe_opt_int(L, "receiver", 0);
  p->side = (sc_inflight_side_t)probe_opt_int(L, "side", 0);
  p->watermark = probe_opt_int(L, "watermark", INT64_MIN);
  p->idle = probe_opt_bool(L, "idle");
  p->skip = (uint32_t)probe_opt_int(L, "skip", 0);
  lua_getfield(L, -1, "buffers");
  for (lua_Integer i = 1; !lua_isnil(L, -1) && i <= luaL_len(L, -1); i++) {
    lua_geti(L, -1, i);
    sc_bytes_t bytes = probe_bytes(L, -1);
    sc_buffer_t *b = sc_pool_take(f->pool, bytes.len);
    memcpy(b->data, bytes.data, bytes.len);
    b->len = (uint32_t)bytes.len;
    sc_inflight_keep(p, b);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static void read_rests(lua_State *L, sc_inflight_share_t *share) {
  lua_getfield(L, -1, "rests");
  share->n_rests = lua_isnil(L, -1) ? 0 : (uint32_t)luaL_len(L, -1);
  share->rests = sc_calloc(share->n_rests, sizeof *share->rests);
  for (uint32_t i = 0; i < share->n_rests; i++) {
    lua_geti(L, -1, i + 1);
    share->rests[i].copy_from = sc_strdup(probe_opt_str(L, "copy_from", NULL));
    share->rests[i].handle = check_handle(L, lua_gettop(L));
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* inflight_files_add(f, out, member, checkpoint, {parts..., rests = {handle...}}): out, a list,
 * gets what is told */
static int files_add(lua_State *L) {
  files_t *f = check_files(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 5, LUA_TTABLE);
  told_share_t *t = sc_calloc(1, sizeof *t);
  t->files = f;
  t->share = (sc_inflight_share_t){.member = (uint32_t)luaL_checkinteger(L, 3),
                                   .checkpoint = (uint64_t)luaL_checkinteger(L, 4),
                                   .done = share_done};
  for (lua_Integer i = 1; i <= luaL_len(L, 5); i++) {
    lua_geti(L, 5, i);
    read_part(L, f, sc_inflight_add(&t->share.data));
    lua_pop(L, 1);
  }
  read_rests(L, &t->share);
  lua_settop(L, 2);
  f->told = L;
  sc_inflight_files_add(f->files, &t->share);
  return 0;
}

/* inflight_files_run(f, out): the pool, until it has nothing to do -> how many works */
static int files_run(lua_State *L) {
  files_t *f = check_files(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  f->told = L;
  int n = 0;
  for (; f->works; n++) {
    sc_work_t *work = f->works;
    f->works = work->next;
    if (!f->works)
      f->works_tail = &f->works;
    work->run(work);
  }
  lua_pushinteger(L, n);
  return 1;
}

/* inflight_files_tell(f, "begin"/"withdraw"/"abort"/"leave"/"close", member, checkpoint) */
static int files_tell(lua_State *L) {
  static const char *const names[] = {"begin", "withdraw", "abort", "leave", "close", NULL};
  sc_inflight_files_t *f = check_files(L)->files;
  uint32_t member = (uint32_t)luaL_optinteger(L, 3, 0);
  uint64_t id = (uint64_t)luaL_optinteger(L, 4, 0);
  switch (luaL_checkoption(L, 2, NULL, names)) {
    case 0: sc_inflight_files_begin(f, member, id); break;
    case 1: sc_inflight_files_withdraw(f, member, id); break;
    case 2: sc_inflight_files_abort(f, member, id); break;
    case 3: sc_inflight_files_leave(f, member); break;
    default: sc_inflight_files_close(f);
  }
  return 0;
}

/* inflight_files_buffers(f) -> buffers that are held */
static int files_buffers(lua_State *L) {
  lua_pushinteger(L, sc_pool_outstanding(check_files(L)->pool));
  return 1;
}

/* ---- the plan, and giving out ---- */

#define PLAN_TYPE "streamckpt.probe.inflight_plan"
#define EDGES_MAX 16

typedef struct plan {
  sc_metadata_t *metadata;
  sc_inflight_plan_t *plan;
} plan_t;

static int plan_gc(lua_State *L) {
  plan_t *p = luaL_checkudata(L, 1, PLAN_TYPE);
  sc_inflight_plan_destroy(p->plan);
  sc_metadata_destroy(p->metadata);
  *p = (plan_t){0};
  return 0;
}

/* Edges as in metadata, with parallelism, max_parallelism, chained: the array at 2. */
static uint32_t read_edges(lua_State *L, sc_inflight_edge_t *edges) {
  uint32_t n = (uint32_t)luaL_len(L, 2);
  luaL_argcheck(L, n <= EDGES_MAX, 2, "too many edges");
  for (uint32_t i = 0; i < n; i++) {
    lua_geti(L, 2, i + 1);
    edges[i] = (sc_inflight_edge_t){
        .from_uid = probe_opt_str(L, "from", ""), .output = probe_opt_str(L, "output", "main"),
        .to_uid = probe_opt_str(L, "to", ""), .partitioner = probe_opt_str(L, "partitioner", ""),
        .chained = probe_opt_bool(L, "chained"), .port = (uint32_t)probe_opt_int(L, "port", 0),
        .ordinal = (uint32_t)probe_opt_int(L, "ordinal", 0),
        .parallelism = (uint32_t)probe_opt_int(L, "parallelism", 1),
        .max_parallelism = (uint32_t)probe_opt_int(L, "max_parallelism", 128)};
    lua_pop(L, 1); /* the strings live as long as the table */
  }
  return n;
}

/* inflight_edges(metadata, edges) -> {whether something is in flight on each} */
static int inflight_edges(lua_State *L) {
  sc_inflight_edge_t edges[EDGES_MAX];
  bool flags[EDGES_MAX] = {false};
  uint32_t n = read_edges(L, edges);
  sc_metadata_t *m = probe_to_metadata(L, 1);
  sc_inflight_edges(m, edges, n, flags);
  sc_metadata_destroy(m);
  lua_newtable(L);
  for (uint32_t i = 0; i < n; i++) {
    lua_pushboolean(L, flags[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* inflight_plan(metadata, edges) */
static int inflight_plan(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_inflight_edge_t edges[EDGES_MAX];
  uint32_t n = read_edges(L, edges);
  plan_t *p = lua_newuserdatauv(L, sizeof *p, 0);
  *p = (plan_t){probe_to_metadata(L, 1), NULL};
  if (luaL_newmetatable(L, PLAN_TYPE)) {
    lua_pushcfunction(L, plan_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  int rc = sc_inflight_plan(p->metadata, edges, n, &p->plan, &err);
  return rc < 0 ? probe_fail(L, rc, &err) : 1;
}

static void set_int(lua_State *L, const char *key, int64_t v) {
  lua_pushinteger(L, v);
  lua_setfield(L, -2, key);
}

/* inflight_plan_of(plan, edge, receiver) -> channels {edge, sender, origin, generation, watermark,
 * idle, first, last, [1..] = handle} */
static int inflight_plan_of(lua_State *L) {
  plan_t *p = luaL_checkudata(L, 1, PLAN_TYPE);
  uint32_t n;
  const sc_virtual_channel_t *list = sc_inflight_plan_of(
      p->plan, (uint32_t)luaL_checkinteger(L, 2), (uint32_t)luaL_checkinteger(L, 3), &n);
  lua_newtable(L);
  for (uint32_t i = 0; i < n; i++) {
    const sc_virtual_channel_t *v = &list[i];
    lua_newtable(L);
    set_int(L, "edge", v->edge);
    set_int(L, "sender", v->sender);
    set_int(L, "origin", v->origin);
    set_int(L, "generation", v->generation);
    set_int(L, "watermark", v->watermark);
    lua_pushboolean(L, v->idle);
    lua_setfield(L, -2, "idle");
    if (v->tagged) {
      set_int(L, "first", v->range.first);
      set_int(L, "last", v->range.last);
    }
    for (uint32_t k = 0; k < v->n_parts; k++) {
      probe_push_handle(L, v->parts[k]);
      lua_rawseti(L, -2, k + 1);
    }
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int inflight_plan_generation(lua_State *L) {
  plan_t *p = luaL_checkudata(L, 1, PLAN_TYPE);
  lua_pushinteger(L, sc_inflight_plan_generation(p->plan));
  return 1;
}

#define REPLAY_TYPE "streamckpt.probe.replay"

typedef struct replay {
  sc_replay_t *replay;
  sc_replay_read_t read;
} replay_t;

static replay_t *check_replay(lua_State *L) {
  return luaL_checkudata(L, 1, REPLAY_TYPE);
}

static int replay_gc(lua_State *L) {
  replay_t *r = check_replay(L);
  sc_replay_destroy(r->replay);
  r->replay = NULL;
  return 0;
}

/* replay_new(plan, {edge...}, receiver): a gate for each edge; records come to port 10 + edge */
static int replay_new(lua_State *L) {
  plan_t *p = luaL_checkudata(L, 1, PLAN_TYPE);
  replay_t *r = lua_newuserdatauv(L, sizeof *r, 1);
  r->replay = sc_replay_create();
  if (luaL_newmetatable(L, REPLAY_TYPE)) {
    lua_pushcfunction(L, replay_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1); /* the plan lives as long */
  for (lua_Integer i = 1; i <= luaL_len(L, 2); i++) {
    lua_geti(L, 2, i);
    uint32_t n, edge = (uint32_t)lua_tointeger(L, -1);
    lua_pop(L, 1);
    const sc_virtual_channel_t *list =
        sc_inflight_plan_of(p->plan, edge, (uint32_t)luaL_checkinteger(L, 3), &n);
    for (uint32_t k = 0; k < n; k++)
      sc_replay_add(r->replay, &list[k], edge, 10 + edge);
  }
  return 1;
}

/* replay_want(r) -> handle, at; or nil */
static int replay_want(lua_State *L) {
  replay_t *r = check_replay(L);
  if (!sc_replay_want(r->replay, &r->read))
    return 0;
  probe_push_handle(L, r->read.handle);
  lua_pushinteger(L, (lua_Integer)r->read.at);
  return 2;
}

static int replay_feed(lua_State *L) {
  sc_buf_t blocks = SC_BUF_INIT;
  sc_buf_put_bytes(&blocks, probe_bytes(L, 2));
  sc_replay_feed(check_replay(L)->replay, &blocks);
  return 0;
}

/* replay_next(r) -> value, port; or nil */
static int replay_next(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_record_t record;
  uint32_t port;
  int rc = sc_replay_next(check_replay(L)->replay, &record, &port, &err);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  if (rc == 0)
    return 0;
  probe_push_bytes(L, record.value);
  lua_pushinteger(L, port);
  return 2;
}

/* replay_is(r, gate) -> ready, drained, behind */
static int replay_is(lua_State *L) {
  const sc_replay_t *r = check_replay(L)->replay;
  uint32_t gate = (uint32_t)luaL_optinteger(L, 2, 0);
  lua_pushboolean(L, sc_replay_ready(r));
  lua_pushboolean(L, sc_replay_drained(r));
  lua_pushboolean(L, sc_replay_behind(r, gate));
  return 3;
}

/* replay_rest(r, receiver, own) -> handles */
static int replay_rest(lua_State *L) {
  sc_handle_t *list;
  uint32_t n = sc_replay_rest(check_replay(L)->replay, (uint32_t)luaL_checkinteger(L, 2),
                              luaL_checkstring(L, 3), &list);
  lua_newtable(L);
  for (uint32_t i = 0; i < n; i++) {
    probe_push_handle(L, &list[i]);
    lua_rawseti(L, -2, i + 1);
    sc_handle_fini(&list[i]);
  }
  free(list);
  return 1;
}

void probe_inflight(lua_State *L) {
  static const luaL_Reg functions[] = {{"inflight_write", inflight_write},
                                       {"inflight_read", inflight_read},
                                       {"inflight_files", files_new},
                                       {"inflight_files_add", files_add},
                                       {"inflight_files_run", files_run},
                                       {"inflight_files_tell", files_tell},
                                       {"inflight_files_buffers", files_buffers},
                                       {"inflight_edges", inflight_edges},
                                       {"inflight_plan", inflight_plan},
                                       {"inflight_plan_of", inflight_plan_of},
                                       {"inflight_plan_generation", inflight_plan_generation},
                                       {"replay_new", replay_new},
                                       {"replay_want", replay_want},
                                       {"replay_feed", replay_feed},
                                       {"replay_next", replay_next},
                                       {"replay_is", replay_is},
                                       {"replay_rest", replay_rest},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
