#include "probe_storage.h"

#include <inttypes.h>
#include <stdlib.h>

#include "../../core/base/mem.h"
#include "../../core/snapshot/timed_storage.h"

#define STORAGE_TYPE "streamckpt.probe.storage"

typedef struct faulty {
  sc_storage_t base;   /* first: the interface */
  sc_storage_t *below; /* the local file system; owned */
  const char *op;      /* kind that fails, static; NULL: none. "bytes" counts written bytes */
  uint64_t countdown;  /* operations (or bytes) that still succeed */
  bool dead;           /* after the failure everything fails */
  bool killed;         /* it has failed, and dead was asked for */
  sc_buf_t log;        /* "op path\n" */
} faulty_t;

struct sc_file {
  faulty_t *storage;
  sc_file_t *below;
  char *path;
};

static const char *const kinds[] = {"make_dir", "create", "open", "write", "read", "size", "sync",
                                    "rename", "remove", "remove_dir", "sync_dir", "kind", "list",
                                    "lock", "bytes", NULL};

static int injected(faulty_t *f, const char *op, const char *path, sc_error_t *err) {
  f->killed = f->dead;
  f->op = NULL;
  sc_fail(err, SC_EIO, "injected failure of %s %s", op, path);
  sc_error_set_file(err, path);
  return SC_EIO;
}

/* Note an operation; < 0 where it is to fail. */
static int step(faulty_t *f, const char *op, const char *path, sc_error_t *err) {
  if (f->killed)
    return sc_fail(err, SC_EIO, "the process is dead");
  sc_buf_printf(&f->log, "%s %s\n", op, path);
  if (f->op && !strcmp(f->op, op) && f->countdown-- == 0)
    return injected(f, op, path, err);
  return 0;
}

#define STEP(op, path) \
  do { \
    int step_rc = step((faulty_t *)s, op, path, err); \
    if (step_rc < 0) \
      return step_rc; \
  } while (0)
#define BELOW (((faulty_t *)s)->below)

static int f_make_dir(sc_storage_t *s, const char *path, sc_error_t *err) {
  STEP("make_dir", path);
  return BELOW->ops->make_dir(BELOW, path, err);
}

static int wrap(sc_storage_t *s, const char *path, sc_file_t *below, sc_file_t **out) {
  sc_file_t *f = sc_malloc(sizeof *f);
  *f = (sc_file_t){(faulty_t *)s, below, sc_strdup(path)};
  *out = f;
  return 0;
}

static int f_create(sc_storage_t *s, const char *path, sc_file_t **out, sc_error_t *err) {
  STEP("create", path);
  sc_file_t *below;
  int rc = BELOW->ops->create(BELOW, path, &below, err);
  return rc < 0 ? rc : wrap(s, path, below, out);
}

static int f_open(sc_storage_t *s, const char *path, sc_file_t **out, sc_error_t *err) {
  STEP("open", path);
  sc_file_t *below;
  int rc = BELOW->ops->open(BELOW, path, &below, err);
  return rc < 0 ? rc : wrap(s, path, below, out);
}

static int f_write(sc_file_t *f, const void *data, size_t len, sc_error_t *err) {
  int rc = step(f->storage, "write", f->path, err);
  if (rc < 0)
    return rc;
  faulty_t *st = f->storage;
  bool torn = st->op && !strcmp(st->op, "bytes") && len > st->countdown;
  size_t n = torn ? (size_t)st->countdown : len;
  rc = st->below->ops->write(f->below, data, n, err);
  if (st->op && !strcmp(st->op, "bytes"))
    st->countdown -= n;
  return rc == 0 && torn ? injected(st, "write", f->path, err) : rc;
}

static int64_t f_read(sc_file_t *f, uint64_t offset, void *data, size_t len, sc_error_t *err) {
  int rc = step(f->storage, "read", f->path, err);
  /* A short read now and then: whoever reads must go on. */
  size_t n = len > 7 ? len - len / 3 : len;
  return rc < 0 ? rc : f->storage->below->ops->read(f->below, offset, data, n, err);
}

static int64_t f_size(sc_file_t *f, sc_error_t *err) {
  int rc = step(f->storage, "size", f->path, err);
  return rc < 0 ? rc : f->storage->below->ops->size(f->below, err);
}

static int f_sync(sc_file_t *f, sc_error_t *err) {
  int rc = step(f->storage, "sync", f->path, err);
  return rc < 0 ? rc : f->storage->below->ops->sync(f->below, err);
}

static void f_close(sc_file_t *f) {
  if (!f)
    return;
  f->storage->below->ops->close(f->below);
  free(f->path);
  free(f);
}

static int f_rename(sc_storage_t *s, const char *from, const char *to, sc_error_t *err) {
  STEP("rename", to);
  return BELOW->ops->rename(BELOW, from, to, err);
}

static int f_remove(sc_storage_t *s, const char *path, sc_error_t *err) {
  STEP("remove", path);
  return BELOW->ops->remove(BELOW, path, err);
}

static int f_remove_dir(sc_storage_t *s, const char *path, sc_error_t *err) {
  STEP("remove_dir", path);
  return BELOW->ops->remove_dir(BELOW, path, err);
}

static int f_sync_dir(sc_storage_t *s, const char *path, sc_error_t *err) {
  STEP("sync_dir", path);
  return BELOW->ops->sync_dir(BELOW, path, err);
}

static int f_kind(sc_storage_t *s, const char *path, sc_error_t *err) {
  STEP("kind", path);
  return BELOW->ops->kind(BELOW, path, err);
}

static int f_list(sc_storage_t *s, const char *path, int (*each)(void *arg, const char *name),
                  void *arg, sc_error_t *err) {
  STEP("list", path);
  return BELOW->ops->list(BELOW, path, each, arg, err);
}

static int f_lock(sc_storage_t *s, const char *path, void **out, sc_error_t *err) {
  STEP("lock", path);
  return BELOW->ops->lock(BELOW, path, out, err);
}

static void f_unlock(sc_storage_t *s, void *lock) {
  BELOW->ops->unlock(BELOW, lock);
}

static void f_destroy(sc_storage_t *s) {
  sc_storage_destroy(BELOW);
  sc_buf_free(&((faulty_t *)s)->log);
  free(s);
}

static const sc_storage_ops_t faulty_ops = {
  .make_dir = f_make_dir, .create = f_create, .open = f_open, .write = f_write, .read = f_read,
  .size = f_size, .sync = f_sync, .close = f_close, .rename = f_rename, .remove = f_remove,
  .remove_dir = f_remove_dir, .sync_dir = f_sync_dir, .kind = f_kind, .list = f_list,
  .lock = f_lock, .unlock = f_unlock, .destroy = f_destroy,
};

/* ---- for Lua ---- */

sc_storage_t *probe_check_storage(lua_State *L, int arg) {
  return *(sc_storage_t **)luaL_checkudata(L, arg, STORAGE_TYPE);
}

static int storage_gc(lua_State *L) {
  sc_storage_t **box = luaL_checkudata(L, 1, STORAGE_TYPE);
  sc_storage_destroy(*box);
  *box = NULL;
  return 0;
}

/* storage_new(sync) */
static int storage_new(lua_State *L) {
  sc_storage_t **box = lua_newuserdata(L, sizeof *box);
  *box = NULL;
  if (luaL_newmetatable(L, STORAGE_TYPE)) {
    lua_pushcfunction(L, storage_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  faulty_t *f = sc_calloc(1, sizeof *f);
  f->base.ops = &faulty_ops;
  f->below = sc_file_storage_create(lua_toboolean(L, 1));
  *box = &f->base;
  return 1;
}

/* Another storage whose calls are measured, by a clock that each look at it takes on by a ns. */
typedef struct timed {
  sc_storage_t *storage; /* first: as in every box */
  sc_timed_storage_t timed;
  sc_world_t world;
  int64_t looks;
} timed_t;

static int64_t timed_mono_ns(sc_world_t *world) {
  return ++((timed_t *)((char *)world - offsetof(timed_t, world)))->looks;
}

/* storage_timed(s): so each call that is measured takes 1 ns */
static int storage_timed(lua_State *L) {
  static const sc_world_ops_t world_ops = {.mono_ns = timed_mono_ns};
  sc_storage_t *below = probe_check_storage(L, 1);
  timed_t *t = lua_newuserdatauv(L, sizeof *t, 1);
  *t = (timed_t){.storage = &t->timed.base, .world = {.ops = &world_ops}};
  sc_timed_storage_init(&t->timed, below, &t->world);
  luaL_setmetatable(L, STORAGE_TYPE);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1); /* what is below lives as long */
  return 1;
}

/* storage_spent(s): what its calls took so far, ns */
static int storage_spent(lua_State *L) {
  lua_pushinteger(L, ((sc_timed_storage_t *)probe_check_storage(L, 1))->spent_ns);
  return 1;
}

/* storage_fault(s, kind or nil, countdown, dead); also brings a dead one to life */
static int storage_fault(lua_State *L) {
  faulty_t *f = (faulty_t *)probe_check_storage(L, 1);
  f->killed = false;
  f->op = lua_isnil(L, 2) ? NULL : kinds[luaL_checkoption(L, 2, NULL, kinds)];
  f->countdown = (uint64_t)luaL_optinteger(L, 3, 0);
  f->dead = lua_toboolean(L, 4);
  return 0;
}

/* storage_log(s): what was done since the last call */
static int storage_log(lua_State *L) {
  faulty_t *f = (faulty_t *)probe_check_storage(L, 1);
  probe_push_bytes(L, sc_buf_bytes(&f->log));
  sc_buf_clear(&f->log);
  return 1;
}

static int done(lua_State *L, int64_t rc, sc_error_t *err) {
  if (rc < 0)
    return probe_fail(L, (int)rc, err);
  lua_pushinteger(L, rc);
  return 1;
}

#define CALL1(name) \
  static int storage_##name(lua_State *L) { \
    sc_storage_t *s = probe_check_storage(L, 1); \
    sc_error_t err = SC_ERROR_INIT; \
    return done(L, s->ops->name(s, luaL_checkstring(L, 2), &err), &err); \
  }
CALL1(make_dir)
CALL1(remove)
CALL1(remove_dir)
CALL1(sync_dir)
CALL1(kind)

static int storage_rename(lua_State *L) {
  sc_storage_t *s = probe_check_storage(L, 1);
  sc_error_t err = SC_ERROR_INIT;
  return done(L, s->ops->rename(s, luaL_checkstring(L, 2), luaL_checkstring(L, 3), &err), &err);
}

static int storage_remove_tree(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  int rc = sc_storage_remove_tree(probe_check_storage(L, 1), luaL_checkstring(L, 2), &err);
  return done(L, rc, &err);
}

static int storage_names(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_names_t names;
  int rc = sc_storage_names(probe_check_storage(L, 1), luaL_checkstring(L, 2), &names, &err);
  lua_newtable(L);
  for (size_t i = 0; i < names.n; i++) {
    lua_pushstring(L, names.list[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  sc_names_free(&names);
  return rc < 0 ? probe_fail(L, rc, &err) : 1;
}

static int storage_read(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_buf_t out = SC_BUF_INIT;
  int rc = sc_storage_read_all(probe_check_storage(L, 1), luaL_checkstring(L, 2),
                               (size_t)luaL_optinteger(L, 3, 1 << 30), &out, &err);
  if (rc == 0)
    probe_push_bytes(L, sc_buf_bytes(&out));
  sc_buf_free(&out);
  return rc < 0 ? probe_fail(L, rc, &err) : 1;
}

/* storage_lock(s, path) -> light userdata */
static int storage_lock(lua_State *L) {
  sc_storage_t *s = probe_check_storage(L, 1);
  sc_error_t err = SC_ERROR_INIT;
  void *lock;
  int rc = s->ops->lock(s, luaL_checkstring(L, 2), &lock, &err);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  lua_pushlightuserdata(L, lock);
  return 1;
}

static int storage_unlock(lua_State *L) {
  sc_storage_t *s = probe_check_storage(L, 1);
  s->ops->unlock(s, lua_touserdata(L, 2));
  return 0;
}

/* storage_publish(s, path, pieces, abandon) -> length, checksum; every piece is written even after
 * an error, as a careless caller would. */
static int publish(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_publish_t *p;
  int rc = sc_publish_begin(probe_check_storage(L, 1), luaL_checkstring(L, 2), &p, &err);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  for (lua_Integer i = 1; i <= (lua_Integer)lua_rawlen(L, 3); i++) {
    lua_rawgeti(L, 3, i);
    sc_bytes_t piece = probe_bytes(L, -1);
    sc_publish_write(p, piece.data, piece.len, NULL);
    lua_pop(L, 1);
  }
  if (lua_toboolean(L, 4)) {
    sc_publish_abandon(p);
    return 0;
  }
  uint64_t length, checksum;
  rc = sc_publish_commit(p, &length, &checksum, &err);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  lua_pushinteger(L, (lua_Integer)length);
  lua_pushinteger(L, (lua_Integer)checksum);
  return 2;
}

static int publish_is_temp(lua_State *L) {
  lua_pushboolean(L, sc_publish_is_temp(luaL_checkstring(L, 1)));
  return 1;
}

static int path_join(lua_State *L) {
  char *path = sc_path_join(luaL_checkstring(L, 1), luaL_checkstring(L, 2));
  lua_pushstring(L, path);
  free(path);
  return 1;
}

static int path_parent(lua_State *L) {
  char *path = sc_path_parent(luaL_checkstring(L, 1));
  lua_pushstring(L, path);
  free(path);
  return 1;
}

void probe_storage(lua_State *L) {
  static const luaL_Reg functions[] = {
    {"storage_new", storage_new}, {"storage_fault", storage_fault}, {"storage_log", storage_log},
    {"storage_make_dir", storage_make_dir}, {"storage_remove", storage_remove},
    {"storage_remove_dir", storage_remove_dir}, {"storage_sync_dir", storage_sync_dir},
    {"storage_kind", storage_kind}, {"storage_rename", storage_rename},
    {"storage_remove_tree", storage_remove_tree}, {"storage_names", storage_names},
    {"storage_read", storage_read}, {"storage_lock", storage_lock},
    {"storage_unlock", storage_unlock}, {"storage_publish", publish},
    {"storage_is_temp", publish_is_temp},
    {"storage_timed", storage_timed}, {"storage_spent", storage_spent},
    {"storage_join", path_join},
    {"storage_parent", path_parent}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
