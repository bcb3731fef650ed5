#include "timed_storage.h"

#include <stdlib.h>

#include "../base/mem.h"

struct sc_file {
  sc_timed_storage_t *storage;
  sc_file_t *inner;
};

/* What a call returns, its time added to the sum. */
#define TIMED(type, t, call) \
  do { \
    sc_timed_storage_t *timed_t = (t); \
    int64_t timed_begin_ns = sc_world_mono_ns(timed_t->world); \
    type timed_rc = (call); \
    timed_t->spent_ns += sc_world_mono_ns(timed_t->world) - timed_begin_ns; \
    return timed_rc; \
  } while (0)
#define OF(s) ((sc_timed_storage_t *)(s))
#define INNER(s) (OF(s)->inner)
#define OPS(s) (INNER(s)->ops)

static int t_make_dir(sc_storage_t *s, const char *path, sc_error_t *err) {
  TIMED(int, OF(s), OPS(s)->make_dir(INNER(s), path, err));
}

static int wrap(sc_storage_t *s, sc_file_t *inner, sc_file_t **out) {
  *out = sc_malloc(sizeof **out);
  **out = (sc_file_t){OF(s), inner};
  return 0;
}

static int timed_create(sc_storage_t *s, const char *path, sc_file_t **out, sc_error_t *err) {
  TIMED(int, OF(s), OPS(s)->create(INNER(s), path, out, err));
}

static int t_create(sc_storage_t *s, const char *path, sc_file_t **out, sc_error_t *err) {
  sc_file_t *inner;
  int rc = timed_create(s, path, &inner, err);
  return rc < 0 ? rc : wrap(s, inner, out);
}

static int timed_open(sc_storage_t *s, const char *path, sc_file_t **out, sc_error_t *err) {
  TIMED(int, OF(s), OPS(s)->open(INNER(s), path, out, err));
}

static int t_open(sc_storage_t *s, const char *path, sc_file_t **out, sc_error_t *err) {
  sc_file_t *inner;
  int rc = timed_open(s, path, &inner, err);
  return rc < 0 ? rc : wrap(s, inner, out);
}

static int t_write(sc_file_t *f, const void *data, size_t len, sc_error_t *err) {
  TIMED(int, f->storage, OPS(f->storage)->write(f->inner, data, len, err));
}

static int64_t t_read(sc_file_t *f, uint64_t offset, void *data, size_t len, sc_error_t *err) {
  TIMED(int64_t, f->storage, OPS(f->storage)->read(f->inner, offset, data, len, err));
}

static int64_t t_size(sc_file_t *f, sc_error_t *err) {
  TIMED(int64_t, f->storage, OPS(f->storage)->size(f->inner, err));
}

static int t_sync(sc_file_t *f, sc_error_t *err) {
  TIMED(int, f->storage, OPS(f->storage)->sync(f->inner, err));
}

static int timed_close(sc_file_t *f) {
  TIMED(int, f->storage, (OPS(f->storage)->close(f->inner), 0));
}

static void t_close(sc_file_t *f) {
  if (!f)
    return;
  timed_close(f);
  free(f);
}

static int t_rename(sc_storage_t *s, const char *from, const char *to, sc_error_t *err) {
  TIMED(int, OF(s), OPS(s)->rename(INNER(s), from, to, err));
}

static int t_remove(sc_storage_t *s, const char *path, sc_error_t *err) {
  TIMED(int, OF(s), OPS(s)->remove(INNER(s), path, err));
}

static int t_remove_dir(sc_storage_t *s, const char *path, sc_error_t *err) {
  TIMED(int, OF(s), OPS(s)->remove_dir(INNER(s), path, err));
}

static int t_sync_dir(sc_storage_t *s, const char *path, sc_error_t *err) {
  TIMED(int, OF(s), OPS(s)->sync_dir(INNER(s), path, err));
}

static int t_kind(sc_storage_t *s, const char *path, sc_error_t *err) {
  TIMED(int, OF(s), OPS(s)->kind(INNER(s), path, err));
}

static int t_list(sc_storage_t *s, const char *path, int (*each)(void *arg, const char *name),
                  void *arg, sc_error_t *err) {
  TIMED(int, OF(s), OPS(s)->list(INNER(s), path, each, arg, err));
}

static int t_lock(sc_storage_t *s, const char *path, void **out, sc_error_t *err) {
  TIMED(int, OF(s), OPS(s)->lock(INNER(s), path, out, err));
}

static void t_unlock(sc_storage_t *s, void *lock) {
  OPS(s)->unlock(INNER(s), lock);
}

static void t_destroy(sc_storage_t *s) {}

static const sc_storage_ops_t ops = {
    .make_dir = t_make_dir, .create = t_create, .open = t_open, .write = t_write, .read = t_read,
    .size = t_size, .sync = t_sync, .close = t_close, .rename = t_rename, .remove = t_remove,
    .remove_dir = t_remove_dir, .sync_dir = t_sync_dir, .kind = t_kind, .list = t_list,
    .lock = t_lock, .unlock = t_unlock, .destroy = t_destroy,
};

void sc_timed_storage_init(sc_timed_storage_t *t, sc_storage_t *inner, sc_world_t *world) {
  *t = (sc_timed_storage_t){.base = {&ops}, .inner = inner, .world = world};
}
