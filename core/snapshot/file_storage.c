/* The local file system behind storage.h. Calls that a signal interrupts are made again; short
 * reads and writes go on; every descriptor is close-on-exec. */
#include "storage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/mem.h"

typedef struct file_storage {
  sc_storage_t base; /* first: the interface */
  bool sync;         /* false: no sync reaches the disk */
} file_storage_t;

struct sc_file {
  int fd;
  bool sync;  /* the storage's */
  char *path; /* for messages */
};

static int fail(sc_error_t *err, int errno_value, const char *verb, const char *path) {
  int code = sc_error_from_errno(errno_value);
  sc_fail(err, code, "cannot %s %s: %s", verb, path, strerror(errno_value));
  sc_error_set_file(err, path);
  return code;
}

static int open_again(const char *path, int flags) {
  int fd;
  do
    fd = open(path, flags | O_CLOEXEC, 0666);
  while (fd < 0 && errno == EINTR);
  return fd;
}

static int fsync_again(int fd) {
  int rc;
  do
    rc = fsync(fd);
  while (rc < 0 && errno == EINTR);
  return rc;
}

static int sync_dir(sc_storage_t *s, const char *path, sc_error_t *err) {
  if (!((file_storage_t *)s)->sync)
    return 0;
  int fd = open_again(path, O_RDONLY | O_DIRECTORY);
  if (fd < 0)
    return fail(err, errno, "open folder", path);
  int rc = fsync_again(fd);
  int e = errno;
  close(fd);
  /* EINVAL: a file system without syncs of folders, where names need none. */
  return rc < 0 && e != EINVAL ? fail(err, e, "sync folder", path) : 0;
}

static bool is_dir(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Make one folder whose parent exists, and its name durable. */
static int make_one(sc_storage_t *s, const char *path, sc_error_t *err) {
  if (mkdir(path, 0777) < 0) {
    int e = errno;
    return e == EEXIST && is_dir(path) ? 0 : fail(err, e, "make folder", path);
  }
  char *parent = sc_path_parent(path);
  int rc = sync_dir(s, parent, err);
  free(parent);
  return rc;
}

static int make_dir(sc_storage_t *s, const char *path, sc_error_t *err) {
  if (is_dir(path))
    return 0;
  size_t n = strlen(path);
  char *part = sc_strdup(path);
  int rc = 0;
  for (size_t i = 1; rc == 0 && i <= n; i++) {
    if (path[i] != '/' && path[i] != '\0')
      continue;
    part[i] = '\0';
    if (path[i - 1] != '/' && !is_dir(part))
      rc = make_one(s, part, err);
    part[i] = path[i];
  }
  free(part);
  return rc;
}

static int open_file(sc_storage_t *s, const char *path, int flags, const char *verb,
                     sc_file_t **out, sc_error_t *err) {
  int fd = open_again(path, flags);
  if (fd < 0)
    return fail(err, errno, verb, path);
  sc_file_t *f = sc_malloc(sizeof *f);
  *f = (sc_file_t){fd, ((file_storage_t *)s)->sync, sc_strdup(path)};
  *out = f;
  return 0;
}

static int create(sc_storage_t *s, const char *path, sc_file_t **out, sc_error_t *err) {
  return open_file(s, path, O_WRONLY | O_CREAT | O_TRUNC, "create", out, err);
}

static int open_read(sc_storage_t *s, const char *path, sc_file_t **out, sc_error_t *err) {
  return open_file(s, path, O_RDONLY, "open", out, err);
}

static int write_all(sc_file_t *f, const void *data, size_t len, sc_error_t *err) {
  const uint8_t *at = data;
  while (len) {
    ssize_t n = write(f->fd, at, len);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return fail(err, errno, "write", f->path);
    at += n;
    len -= (size_t)n;
  }
  return 0;
}

static int64_t read_at(sc_file_t *f, uint64_t offset, void *data, size_t len, sc_error_t *err) {
  ssize_t n;
  do
    n = pread(f->fd, data, len, (off_t)offset);
  while (n < 0 && errno == EINTR);
  return n < 0 ? fail(err, errno, "read", f->path) : (int64_t)n;
}

static int64_t size(sc_file_t *f, sc_error_t *err) {
  struct stat st;
  return fstat(f->fd, &st) < 0 ? fail(err, errno, "look at", f->path) : (int64_t)st.st_size;
}

static int sync_file(sc_file_t *f, sc_error_t *err) {
  /* A failed sync may have dropped pages for good: it is not tried again, the file is given up. */
  return f->sync && fsync_again(f->fd) < 0 ? fail(err, errno, "sync", f->path) : 0;
}

static void close_file(sc_file_t *f) {
  if (!f)
    return;
  close(f->fd); /* not made again after EINTR: Linux has closed it */
  free(f->path);
  free(f);
}

static int rename_file(sc_storage_t *s, const char *from, const char *to, sc_error_t *err) {
  if (rename(from, to) == 0)
    return 0;
  int e = errno;
  int code = sc_error_from_errno(e);
  sc_fail(err, code, "cannot rename %s to %s: %s", from, to, strerror(e));
  sc_error_set_file(err, to);
  return code;
}

static int remove_file(sc_storage_t *s, const char *path, sc_error_t *err) {
  return unlink(path) < 0 && errno != ENOENT ? fail(err, errno, "remove", path) : 0;
}

static int remove_dir(sc_storage_t *s, const char *path, sc_error_t *err) {
  return rmdir(path) < 0 && errno != ENOENT ? fail(err, errno, "remove folder", path) : 0;
}

static int kind(sc_storage_t *s, const char *path, sc_error_t *err) {
  struct stat st;
  if (lstat(path, &st) == 0)
    return S_ISDIR(st.st_mode) ? 2 : 1;
  return errno == ENOENT || errno == ENOTDIR ? 0 : fail(err, errno, "look at", path);
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static int read_names(DIR *dir, const char *path, sc_names_t *names, sc_error_t *err) {
  for (;;) {
    errno = 0;
    struct dirent *entry = readdir(dir);
    if (!entry)
      return errno ? fail(err, errno, "list", path) : 0;
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
      continue;
    names->list = sc_realloc(names->list, (names->n + 1) * sizeof *names->list);
    names->list[names->n++] = sc_strdup(entry->d_name);
  }
}

static int list(sc_storage_t *s, const char *path, int (*each)(void *arg, const char *name),
                void *arg, sc_error_t *err) {
  DIR *dir = opendir(path); /* close-on-exec by glibc and musl */
  if (!dir)
    return fail(err, errno, "list", path);
  sc_names_t names = {NULL, 0};
  int rc = read_names(dir, path, &names, err);
  closedir(dir);
  if (names.n)
    qsort(names.list, names.n, sizeof *names.list, by_name);
  for (size_t i = 0; rc == 0 && i < names.n; i++)
    rc = each(arg, names.list[i]);
  sc_names_free(&names);
  return rc;
}

static int fail_locked(sc_file_t *f, sc_error_t *err) {
  char text[32] = "";
  int64_t n = read_at(f, 0, text, sizeof text - 1, NULL);
  text[n > 0 ? strspn(text, "0123456789") : 0] = '\0';
  sc_fail(err, SC_ELOCKED, "%s is in use by %s%s", f->path,
          text[0] ? "process " : "another process", text);
  sc_error_set_file(err, f->path);
  return SC_ELOCKED;
}

static int lock(sc_storage_t *s, const char *path, void **out, sc_error_t *err) {
  sc_file_t *f;
  int rc = open_file(s, path, O_RDWR | O_CREAT, "open", &f, err);
  if (rc < 0)
    return rc;
  do
    rc = flock(f->fd, LOCK_EX | LOCK_NB);
  while (rc < 0 && errno == EINTR);
  if (rc < 0) {
    rc = errno == EWOULDBLOCK ? fail_locked(f, err) : fail(err, errno, "lock", path);
    close_file(f);
    return rc;
  }
  char text[32];
  int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
  rc = ftruncate(f->fd, 0) < 0 ? fail(err, errno, "write", path)
                               : write_all(f, text, (size_t)n, err);
  if (rc < 0) {
    close_file(f);
    return rc;
  }
  *out = f;
  return 0;
}

static void unlock(sc_storage_t *s, void *held) {
  sc_file_t *f = held;
  if (!f)
    return;
  /* The file stays: removing it would let two processes lock two files of one name. Its text too:
   * it is read only where the lock is held. The lock goes explicitly, since a forked child may
   * share it. */
  flock(f->fd, LOCK_UN);
  close_file(f);
}

static void destroy(sc_storage_t *s) {
  free(s);
}

static const sc_storage_ops_t file_ops = {
  .make_dir = make_dir, .create = create, .open = open_read, .write = write_all, .read = read_at,
  .size = size, .sync = sync_file, .close = close_file, .rename = rename_file,
  .remove = remove_file, .remove_dir = remove_dir, .sync_dir = sync_dir, .kind = kind,
  .list = list, .lock = lock, .unlock = unlock, .destroy = destroy,
};

sc_storage_t *sc_file_storage_create(bool sync) {
  file_storage_t *s = sc_calloc(1, sizeof *s);
  s->base.ops = &file_ops;
  s->sync = sync;
  return &s->base;
}
