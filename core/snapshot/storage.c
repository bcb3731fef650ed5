#include "storage.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "../base/hash.h"
#include "../base/mem.h"
#include "../base/planted.h"

enum { BUFFER_BYTES = 64 * 1024 };

struct sc_publish {
  sc_storage_t *storage; /* borrowed */
  char *path;            /* final name */
  char *temp;            /* where it is written */
  sc_file_t *file;       /* open on temp */
  sc_checksum_t *sum;    /* of all bytes given so far */
  sc_buf_t buffer;       /* not written yet; at most BUFFER_BYTES */
  uint64_t length;       /* bytes given so far */
  int failed;            /* code of the first failed write, or 0: a hole must never be published */
};

char *sc_path_join(const char *dir, const char *name) {
  size_t n = strlen(dir);
  return sc_format(n == 0 || dir[n - 1] == '/' ? "%s%s" : "%s/%s", dir, name);
}

char *sc_path_parent(const char *path) {
  const char *slash = strrchr(path, '/');
  if (!slash)
    return sc_strdup(".");
  return slash == path ? sc_strdup("/") : sc_strndup(path, (size_t)(slash - path));
}

int sc_storage_make_lasting(sc_storage_t *s, const char *path, sc_error_t *err) {
  int rc = s->ops->make_dir(s, path, err);
  char *at = sc_strdup(path);
  while (rc == 0 && strcmp(at, "/") && strcmp(at, ".")) {
    char *parent = sc_path_parent(at);
    free(at);
    at = parent;
    rc = s->ops->sync_dir(s, at, err);
    if (rc == SC_EACCESS) { /* a folder that we may only pass through: not ours to make safe */
      sc_error_clear(err);
      rc = 0;
    }
  }
  free(at);
  return rc;
}

/* Two publishers in one process never share a temporary name. One left by an earlier process is
 * overwritten or swept; two processes never write into one folder (its lock). */
static char *temp_name(const char *path) {
  static atomic_uint_least64_t counter;
  /* Relaxed: only the numbers must differ. */
  uint64_t n = atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed);
  const char *slash = strrchr(path, '/');
  int dir = slash ? (int)(slash - path) + 1 : 0;
  return sc_format("%.*s.%s.tmp-%" PRIu64, dir, path, path + dir, n);
}

bool sc_publish_is_temp(const char *name) {
  const char *mark = NULL;
  for (const char *at = name; (at = strstr(at, ".tmp-")); at++)
    mark = at;
  if (name[0] != '.' || !mark || mark == name || !mark[5])
    return false;
  return strspn(mark + 5, "0123456789") == strlen(mark + 5);
}

int sc_publish_begin(sc_storage_t *s, const char *path, sc_publish_t **out, sc_error_t *err) {
  char *temp = temp_name(path);
  sc_file_t *file;
  int rc = s->ops->create(s, temp, &file, err);
  if (rc < 0) {
    free(temp);
    return rc;
  }
  sc_publish_t *p = sc_calloc(1, sizeof *p);
  p->storage = s;
  p->path = sc_strdup(path);
  p->temp = temp;
  p->file = file;
  p->sum = sc_checksum_create();
  *out = p;
  return 0;
}

static int flush(sc_publish_t *p, sc_error_t *err) {
  if (!p->buffer.len)
    return 0;
  int rc = p->storage->ops->write(p->file, p->buffer.data, p->buffer.len, err);
  sc_buf_clear(&p->buffer);
  return rc;
}

int sc_publish_write(sc_publish_t *p, const void *data, size_t len, sc_error_t *err) {
  if (p->failed)
    return sc_fail(err, p->failed, "an earlier write to %s failed", p->path);
  sc_checksum_update(p->sum, data, len);
  p->length += len;
  int rc = 0;
  if (p->buffer.len + len > BUFFER_BYTES)
    rc = flush(p, err);
  if (rc == 0 && len >= BUFFER_BYTES)
    rc = p->storage->ops->write(p->file, data, len, err);
  else if (rc == 0)
    sc_buf_put(&p->buffer, data, len);
  p->failed = rc;
  return rc;
}

uint64_t sc_publish_length(const sc_publish_t *p) {
  return p->length;
}

static void free_publish(sc_publish_t *p) {
  if (p->file)
    p->storage->ops->close(p->file);
  sc_checksum_destroy(p->sum);
  sc_buf_free(&p->buffer);
  free(p->path);
  free(p->temp);
  free(p);
}

static int commit(sc_publish_t *p, sc_error_t *err) {
  const sc_storage_ops_t *ops = p->storage->ops;
  if (p->failed)
    return sc_fail(err, p->failed, "an earlier write to %s failed", p->path);
  int rc = flush(p, err);
  if (rc == 0)
    rc = ops->sync(p->file, err);
  ops->close(p->file);
  p->file = NULL;
  return rc == 0 ? ops->rename(p->storage, p->temp, p->path, err) : rc;
}

int sc_publish_commit(sc_publish_t *p, uint64_t *length, uint64_t *checksum, sc_error_t *err) {
  int rc = commit(p, err);
  if (rc < 0) {
    sc_publish_abandon(p);
    return rc;
  }
  char *dir = sc_path_parent(p->path);
  rc = SC_PLANTED(UNSAFE_METADATA) ? 0 : p->storage->ops->sync_dir(p->storage, dir, err);
  free(dir);
  if (length)
    *length = p->length;
  if (checksum)
    *checksum = sc_checksum_value(p->sum);
  free_publish(p);
  return rc;
}

void sc_publish_abandon(sc_publish_t *p) {
  if (!p)
    return;
  if (p->file)
    p->storage->ops->close(p->file);
  p->file = NULL;
  p->storage->ops->remove(p->storage, p->temp, NULL); /* what stays is swept at the next start */
  free_publish(p);
}

int sc_storage_read_exactly(sc_storage_t *s, sc_file_t *f, const char *path, uint64_t offset,
                            void *data, size_t len, sc_error_t *err) {
  size_t done = 0;
  while (done < len) {
    int64_t n = s->ops->read(f, offset + done, (uint8_t *)data + done, len - done, err);
    if (n < 0)
      return (int)n;
    if (n == 0) {
      sc_fail(err, SC_ECORRUPT, "%s ends at byte %" PRIu64 ", where more is expected", path,
              offset + done);
      sc_error_set_file(err, path);
      return SC_ECORRUPT;
    }
    done += (size_t)n;
  }
  return 0;
}

static int read_open(sc_storage_t *s, sc_file_t *f, const char *path, size_t max, sc_buf_t *out,
                     sc_error_t *err) {
  int64_t size = s->ops->size(f, err);
  if (size < 0)
    return (int)size;
  if ((uint64_t)size > max) {
    sc_fail(err, SC_ELIMIT, "%s has %" PRId64 " bytes, more than the %zu allowed", path, size, max);
    sc_error_set_file(err, path);
    return SC_ELIMIT;
  }
  uint8_t *at = sc_buf_reserve(out, (size_t)size);
  int rc = sc_storage_read_exactly(s, f, path, 0, at, (size_t)size, err);
  if (rc == 0)
    out->len += (size_t)size;
  return rc;
}

int sc_storage_read_all(sc_storage_t *s, const char *path, size_t max, sc_buf_t *out,
                        sc_error_t *err) {
  sc_file_t *f;
  int rc = s->ops->open(s, path, &f, err);
  if (rc < 0)
    return rc;
  rc = read_open(s, f, path, max, out, err);
  s->ops->close(f);
  return rc;
}

int sc_storage_checksum(sc_storage_t *s, sc_file_t *f, const char *path, uint64_t length,
                        uint64_t *checksum, sc_error_t *err) {
  sc_checksum_t *sum = sc_checksum_create();
  uint8_t *buffer = sc_malloc(BUFFER_BYTES);
  int rc = 0;
  for (uint64_t at = 0; rc == 0 && at < length;) {
    size_t n = length - at < BUFFER_BYTES ? (size_t)(length - at) : BUFFER_BYTES;
    rc = sc_storage_read_exactly(s, f, path, at, buffer, n, err);
    if (rc == 0)
      sc_checksum_update(sum, buffer, n);
    at += n;
  }
  *checksum = sc_checksum_value(sum);
  free(buffer);
  sc_checksum_destroy(sum);
  return rc;
}

static int add_name(void *arg, const char *name) {
  sc_names_t *names = arg;
  names->list = sc_realloc(names->list, (names->n + 1) * sizeof *names->list);
  names->list[names->n++] = sc_strdup(name);
  return 0;
}

int sc_storage_names(sc_storage_t *s, const char *path, sc_names_t *names, sc_error_t *err) {
  *names = (sc_names_t){NULL, 0};
  return s->ops->list(s, path, add_name, names, err);
}

void sc_names_free(sc_names_t *names) {
  for (size_t i = 0; i < names->n; i++)
    free(names->list[i]);
  free(names->list);
  *names = (sc_names_t){NULL, 0};
}

int sc_storage_remove_tree(sc_storage_t *s, const char *path, sc_error_t *err) {
  int kind = s->ops->kind(s, path, err);
  if (kind <= 0)
    return kind;
  if (kind == 1)
    return s->ops->remove(s, path, err);
  sc_names_t names;
  int rc = sc_storage_names(s, path, &names, err);
  for (size_t i = 0; rc == 0 && i < names.n; i++) {
    char *child = sc_path_join(path, names.list[i]);
    rc = sc_storage_remove_tree(s, child, err);
    free(child);
  }
  sc_names_free(&names);
  return rc == 0 ? s->ops->remove_dir(s, path, err) : rc;
}
