#include "faulty_storage.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../core/base/mem.h"

/* A file that was created since the start: what of it is safe. */
typedef struct tracked {
  char *path;
  uint64_t written, synced;
} tracked_t;

/* A change of names that no sync of a folder has made durable. */
typedef struct change {
  char *from, *to; /* from NULL: `to` was created */
} change_t;

typedef struct faulty {
  sc_storage_t base;
  sc_storage_t *inner;
  char fail_op[16]; /* "" = none */
  int fail_nth, fail_code;
  int die_nth;      /* 0 = never */
  bool dead;
  sc_buf_t log;
  tracked_t *files;
  uint32_t n_files;
  change_t *changes;
  uint32_t n_changes;
} faulty_t;

struct sc_file {
  faulty_t *storage;
  sc_file_t *inner;
  char *path;
};

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* 0, or the failure that is due. */
static int before(faulty_t *f, const char *operation, const char *path, sc_error_t *err) {
  sc_buf_printf(&f->log, "%s %s\n", operation, base_name(path));
  if (f->die_nth > 0 && --f->die_nth == 0)
    f->dead = true;
  if (f->dead)
    return sc_fail(err, SC_EIO, "the machine is off");
  if (strcmp(f->fail_op, operation) == 0 && --f->fail_nth == 0) {
    f->fail_op[0] = 0;
    return sc_fail(err, f->fail_code, "cannot %s %s: injected", operation, path);
  }
  return 0;
}

static tracked_t *tracked_of(faulty_t *f, const char *path) {
  for (uint32_t i = 0; i < f->n_files; i++)
    if (strcmp(f->files[i].path, path) == 0)
      return &f->files[i];
  return NULL;
}

static void note_change(faulty_t *f, const char *from, const char *to) {
  f->changes = sc_realloc(f->changes, (f->n_changes + 1) * sizeof *f->changes);
  f->changes[f->n_changes++] = (change_t){sc_strdup(from), sc_strdup(to)};
}

static void forget_changes(faulty_t *f) {
  for (uint32_t i = 0; i < f->n_changes; i++) {
    free(f->changes[i].from);
    free(f->changes[i].to);
  }
  f->n_changes = 0;
}

static int make_dir(sc_storage_t *s, const char *path, sc_error_t *err) {
  faulty_t *f = (faulty_t *)s;
  int rc = before(f, "make_dir", path, err);
  return rc ? rc : f->inner->ops->make_dir(f->inner, path, err);
}

static sc_file_t *wrap(faulty_t *f, sc_file_t *inner, const char *path) {
  sc_file_t *file = sc_malloc(sizeof *file);
  *file = (sc_file_t){f, inner, sc_strdup(path)};
  return file;
}

static int create(sc_storage_t *s, const char *path, sc_file_t **out, sc_error_t *err) {
  faulty_t *f = (faulty_t *)s;
  sc_file_t *inner;
  int rc = before(f, "create", path, err);
  if (rc == 0)
    rc = f->inner->ops->create(f->inner, path, &inner, err);
  if (rc < 0)
    return rc;
  note_change(f, NULL, path);
  f->files = sc_realloc(f->files, (f->n_files + 1) * sizeof *f->files);
  f->files[f->n_files++] = (tracked_t){sc_strdup(path), 0, 0};
  *out = wrap(f, inner, path);
  return 0;
}

static int open_read(sc_storage_t *s, const char *path, sc_file_t **out, sc_error_t *err) {
  faulty_t *f = (faulty_t *)s;
  sc_file_t *inner;
  int rc = f->dead ? sc_fail(err, SC_EIO, "the machine is off")
                   : f->inner->ops->open(f->inner, path, &inner, err);
  if (rc == 0)
    *out = wrap(f, inner, path);
  return rc;
}

static int write_file(sc_file_t *file, const void *data, size_t len, sc_error_t *err) {
  faulty_t *f = file->storage;
  bool lived = !f->dead;
  int rc = before(f, "write", file->path, err);
  if (rc < 0 && lived) /* what fails half-way leaves its half */
    f->inner->ops->write(file->inner, data, len / 2, NULL);
  if (rc < 0)
    return rc;
  tracked_t *t = tracked_of(f, file->path);
  if (t)
    t->written += len;
  return f->inner->ops->write(file->inner, data, len, err);
}

static int64_t read_file(sc_file_t *file, uint64_t offset, void *data, size_t len,
                         sc_error_t *err) {
  return file->storage->inner->ops->read(file->inner, offset, data, len, err);
}

static int64_t size_of(sc_file_t *file, sc_error_t *err) {
  return file->storage->inner->ops->size(file->inner, err);
}

static int sync_file(sc_file_t *file, sc_error_t *err) {
  faulty_t *f = file->storage;
  int rc = before(f, "sync", file->path, err);
  tracked_t *t = tracked_of(f, file->path);
  if (rc == 0 && t)
    t->synced = t->written;
  return rc;
}

static void close_file(sc_file_t *file) {
  if (!file)
    return;
  file->storage->inner->ops->close(file->inner);
  free(file->path);
  free(file);
}

static int rename_file(sc_storage_t *s, const char *from, const char *to, sc_error_t *err) {
  faulty_t *f = (faulty_t *)s;
  int rc = before(f, "rename", to, err);
  if (rc == 0)
    rc = f->inner->ops->rename(f->inner, from, to, err);
  if (rc < 0)
    return rc;
  note_change(f, from, to);
  tracked_t *t = tracked_of(f, from);
  if (t) {
    free(t->path);
    t->path = sc_strdup(to);
  }
  return 0;
}

static int remove_file(sc_storage_t *s, const char *path, sc_error_t *err) {
  faulty_t *f = (faulty_t *)s;
  int rc = before(f, "remove", path, err);
  return rc ? rc : f->inner->ops->remove(f->inner, path, err);
}

static int remove_dir(sc_storage_t *s, const char *path, sc_error_t *err) {
  faulty_t *f = (faulty_t *)s;
  return f->inner->ops->remove_dir(f->inner, path, err);
}

static int sync_dir(sc_storage_t *s, const char *path, sc_error_t *err) {
  faulty_t *f = (faulty_t *)s;
  int rc = before(f, "sync_dir", path, err);
  if (rc == 0)
    forget_changes(f);
  return rc;
}

static int kind(sc_storage_t *s, const char *path, sc_error_t *err) {
  faulty_t *f = (faulty_t *)s;
  return f->dead ? sc_fail(err, SC_EIO, "the machine is off")
                 : f->inner->ops->kind(f->inner, path, err);
}

static int list(sc_storage_t *s, const char *path, int (*each)(void *arg, const char *name),
                void *arg, sc_error_t *err) {
  faulty_t *f = (faulty_t *)s;
  return f->dead ? sc_fail(err, SC_EIO, "the machine is off")
                 : f->inner->ops->list(f->inner, path, each, arg, err);
}

static int lock(sc_storage_t *s, const char *path, void **out, sc_error_t *err) {
  faulty_t *f = (faulty_t *)s;
  return f->inner->ops->lock(f->inner, path, out, err);
}

static void unlock(sc_storage_t *s, void *held) {
  faulty_t *f = (faulty_t *)s;
  f->inner->ops->unlock(f->inner, held);
}

static void forget_files(faulty_t *f) {
  for (uint32_t i = 0; i < f->n_files; i++)
    free(f->files[i].path);
  f->n_files = 0;
}

static void destroy(sc_storage_t *s) {
  faulty_t *f = (faulty_t *)s;
  sc_storage_destroy(f->inner);
  forget_changes(f);
  forget_files(f);
  free(f->changes);
  free(f->files);
  sc_buf_free(&f->log);
  free(f);
}

static const sc_storage_ops_t ops = {
    .make_dir = make_dir,
    .create = create,
    .open = open_read,
    .write = write_file,
    .read = read_file,
    .size = size_of,
    .sync = sync_file,
    .close = close_file,
    .rename = rename_file,
    .remove = remove_file,
    .remove_dir = remove_dir,
    .sync_dir = sync_dir,
    .kind = kind,
    .list = list,
    .lock = lock,
    .unlock = unlock,
    .destroy = destroy,
};

sc_storage_t *faulty_create(void) {
  faulty_t *f = sc_calloc(1, sizeof *f);
  f->base.ops = &ops;
  f->inner = sc_file_storage_create(false);
  return &f->base;
}

void faulty_fail(sc_storage_t *s, const char *operation, int nth, int code) {
  faulty_t *f = (faulty_t *)s;
  snprintf(f->fail_op, sizeof f->fail_op, "%s", operation);
  f->fail_nth = nth;
  f->fail_code = code;
}

void faulty_die(sc_storage_t *s, int nth) {
  ((faulty_t *)s)->die_nth = nth;
}

bool faulty_dead(sc_storage_t *s) {
  return ((faulty_t *)s)->dead;
}

void faulty_power_cut(sc_storage_t *s) {
  faulty_t *f = (faulty_t *)s;
  for (uint32_t i = 0; i < f->n_files; i++)
    if (f->files[i].synced < f->files[i].written && access(f->files[i].path, F_OK) == 0 &&
        truncate(f->files[i].path, (off_t)f->files[i].synced) < 0)
      perror("truncate");
  for (uint32_t i = f->n_changes; i-- > 0;) {
    if (f->changes[i].from)
      rename(f->changes[i].to, f->changes[i].from);
    else
      unlink(f->changes[i].to);
  }
}

void faulty_reset(sc_storage_t *s) {
  faulty_t *f = (faulty_t *)s;
  forget_changes(f);
  forget_files(f);
  f->dead = false;
  f->die_nth = 0;
  f->fail_op[0] = 0;
  sc_buf_clear(&f->log);
}

sc_bytes_t faulty_log(sc_storage_t *s) {
  return sc_buf_bytes(&((faulty_t *)s)->log);
}
