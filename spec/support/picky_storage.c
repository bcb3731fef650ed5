#include "picky_storage.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../core/base/mem.h"

typedef struct picky {
  sc_storage_t base;
  sc_storage_t *inner;
  pthread_mutex_t lock; /* guards what follows */
  char operation[16];
  char text[64];
  uint64_t times, failed;
  int code;
  bool holds;           /* calls of the operation below wait */
  char held_operation[16];
  char held_text[64];
  uint32_t held;
  pthread_cond_t released;
} picky_t;

struct sc_file {
  picky_t *storage;
  sc_file_t *inner;
  char *path;
};

static bool is_held(const picky_t *p, const char *operation, const char *path) {
  return p->holds && strcmp(operation, p->held_operation) == 0 && strstr(path, p->held_text);
}

static int check(picky_t *p, const char *operation, const char *path, sc_error_t *err) {
  pthread_mutex_lock(&p->lock);
  if (is_held(p, operation, path)) {
    p->held++;
    while (is_held(p, operation, path))
      pthread_cond_wait(&p->released, &p->lock);
    p->held--;
  }
  bool fails = p->times && strcmp(operation, p->operation) == 0 && strstr(path, p->text);
  p->times -= fails;
  p->failed += fails;
  int code = p->code;
  pthread_mutex_unlock(&p->lock);
  return fails ? sc_fail(err, code, "cannot %s %s: the storage is picky", operation, path) : 0;
}

/* Fail, or ask the file system. */
#define ASK(storage, operation, path, call) \
  do { \
    int ask_rc = check((picky_t *)(storage), operation, path, err); \
    return ask_rc < 0 ? ask_rc : (call); \
  } while (0)
#define INNER(s) (((picky_t *)(s))->inner)

static int p_make_dir(sc_storage_t *s, const char *path, sc_error_t *err) {
  ASK(s, "make_dir", path, INNER(s)->ops->make_dir(INNER(s), path, err));
}

static int wrap(sc_storage_t *s, const char *path, sc_file_t *inner, sc_file_t **out) {
  *out = sc_malloc(sizeof **out);
  **out = (sc_file_t){(picky_t *)s, inner, sc_strdup(path)};
  return 0;
}

static int p_create(sc_storage_t *s, const char *path, sc_file_t **out, sc_error_t *err) {
  sc_file_t *inner;
  int rc = check((picky_t *)s, "create", path, err);
  if (rc >= 0)
    rc = INNER(s)->ops->create(INNER(s), path, &inner, err);
  return rc < 0 ? rc : wrap(s, path, inner, out);
}

static int p_open(sc_storage_t *s, const char *path, sc_file_t **out, sc_error_t *err) {
  sc_file_t *inner;
  int rc = check((picky_t *)s, "open", path, err);
  if (rc >= 0)
    rc = INNER(s)->ops->open(INNER(s), path, &inner, err);
  return rc < 0 ? rc : wrap(s, path, inner, out);
}

static int p_write(sc_file_t *f, const void *data, size_t len, sc_error_t *err) {
  ASK(f->storage, "write", f->path, INNER(f->storage)->ops->write(f->inner, data, len, err));
}

static int64_t p_read(sc_file_t *f, uint64_t offset, void *data, size_t len, sc_error_t *err) {
  ASK(f->storage, "read", f->path, INNER(f->storage)->ops->read(f->inner, offset, data, len, err));
}

static int64_t p_size(sc_file_t *f, sc_error_t *err) {
  return INNER(f->storage)->ops->size(f->inner, err);
}

static int p_sync(sc_file_t *f, sc_error_t *err) {
  ASK(f->storage, "sync", f->path, INNER(f->storage)->ops->sync(f->inner, err));
}

static void p_close(sc_file_t *f) {
  if (!f)
    return;
  INNER(f->storage)->ops->close(f->inner);
  free(f->path);
  free(f);
}

static int p_rename(sc_storage_t *s, const char *from, const char *to, sc_error_t *err) {
  ASK(s, "rename", to, INNER(s)->ops->rename(INNER(s), from, to, err));
}

static int p_remove(sc_storage_t *s, const char *path, sc_error_t *err) {
  ASK(s, "remove", path, INNER(s)->ops->remove(INNER(s), path, err));
}

static int p_remove_dir(sc_storage_t *s, const char *path, sc_error_t *err) {
  ASK(s, "remove_dir", path, INNER(s)->ops->remove_dir(INNER(s), path, err));
}

static int p_sync_dir(sc_storage_t *s, const char *path, sc_error_t *err) {
  ASK(s, "sync_dir", path, INNER(s)->ops->sync_dir(INNER(s), path, err));
}

static int p_kind(sc_storage_t *s, const char *path, sc_error_t *err) {
  ASK(s, "kind", path, INNER(s)->ops->kind(INNER(s), path, err));
}

static int p_list(sc_storage_t *s, const char *path, int (*each)(void *arg, const char *name),
                  void *arg, sc_error_t *err) {
  ASK(s, "list", path, INNER(s)->ops->list(INNER(s), path, each, arg, err));
}

static int p_lock(sc_storage_t *s, const char *path, void **out, sc_error_t *err) {
  ASK(s, "lock", path, INNER(s)->ops->lock(INNER(s), path, out, err));
}

static void p_unlock(sc_storage_t *s, void *lock) {
  INNER(s)->ops->unlock(INNER(s), lock);
}

static void p_destroy(sc_storage_t *s) {
  sc_storage_destroy(INNER(s));
  pthread_cond_destroy(&((picky_t *)s)->released);
  pthread_mutex_destroy(&((picky_t *)s)->lock);
  free(s);
}

static const sc_storage_ops_t ops = {
    .make_dir = p_make_dir, .create = p_create, .open = p_open, .write = p_write, .read = p_read,
    .size = p_size, .sync = p_sync, .close = p_close, .rename = p_rename, .remove = p_remove,
    .remove_dir = p_remove_dir, .sync_dir = p_sync_dir, .kind = p_kind, .list = p_list,
    .lock = p_lock, .unlock = p_unlock, .destroy = p_destroy,
};

sc_storage_t *picky_create(void) {
  picky_t *p = sc_calloc(1, sizeof *p);
  p->base.ops = &ops;
  p->inner = sc_file_storage_create(false);
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->released, NULL);
  return &p->base;
}

void picky_fail(sc_storage_t *s, const char *operation, const char *text, uint64_t times,
                int code) {
  picky_t *p = (picky_t *)s;
  pthread_mutex_lock(&p->lock);
  snprintf(p->operation, sizeof p->operation, "%s", operation);
  snprintf(p->text, sizeof p->text, "%s", text);
  p->times = times;
  p->code = code;
  p->failed = 0;
  pthread_mutex_unlock(&p->lock);
}

uint64_t picky_failed(sc_storage_t *s) {
  picky_t *p = (picky_t *)s;
  pthread_mutex_lock(&p->lock);
  uint64_t n = p->failed;
  pthread_mutex_unlock(&p->lock);
  return n;
}

void picky_hold(sc_storage_t *s, const char *operation, const char *text) {
  picky_t *p = (picky_t *)s;
  pthread_mutex_lock(&p->lock);
  snprintf(p->held_operation, sizeof p->held_operation, "%s", operation);
  snprintf(p->held_text, sizeof p->held_text, "%s", text);
  p->holds = true;
  pthread_mutex_unlock(&p->lock);
}

uint32_t picky_held(sc_storage_t *s) {
  picky_t *p = (picky_t *)s;
  pthread_mutex_lock(&p->lock);
  uint32_t n = p->held;
  pthread_mutex_unlock(&p->lock);
  return n;
}

void picky_release(sc_storage_t *s) {
  picky_t *p = (picky_t *)s;
  pthread_mutex_lock(&p->lock);
  p->holds = false;
  pthread_cond_broadcast(&p->released);
  pthread_mutex_unlock(&p->lock);
}
