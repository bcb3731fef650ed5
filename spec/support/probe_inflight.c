/* What was in flight: its files, and how tasks share them. */
#include <stdlib.h>

#include "../../core/base/mem.h"
#include "../../core/base/world.h"
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

static const sc_world_ops_t files_world_ops = {.submit = submit};

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
  *f = (files_t){.world = {.ops = &files_world_ops, .storage = s}, .graph = g,
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
      .world = &f->world, .graph = g, .job_dir = f->dir,
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

void probe_inflight(lua_State *L) {
  static const luaL_Reg functions[] = {{"inflight_write", inflight_write},
                                       {"inflight_read", inflight_read},
                                       {"inflight_files", files_new},
                                       {"inflight_files_add", files_add},
                                       {"inflight_files_run", files_run},
                                       {"inflight_files_tell", files_tell},
                                       {"inflight_files_buffers", files_buffers},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
