#include "sink_folder.h"

#include <inttypes.h>

#include "../base/hash.h"
#include "../base/mem.h"

#define SLUG_MAX 64

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

char *sc_sink_slug(const char *text) {
  size_t n = strlen(text);
  bool changed = n == 0 || n > SLUG_MAX;
  char *slug = sc_strndup(text, n > SLUG_MAX ? SLUG_MAX : n);
  for (char *p = slug; *p; p++)
    if (!is_digit(*p) && !(*p >= 'a' && *p <= 'z') && !(*p >= 'A' && *p <= 'Z') && *p != '_' &&
        *p != '-') {
      *p = '_';
      changed = true;
    }
  if (!changed)
    return slug;
  char *marked = sc_format("%s-%08" PRIx32, slug, (uint32_t)sc_checksum(sc_bytes_str(text)));
  free(slug);
  return marked;
}

char *sc_sink_prefix(const char *job_id, const char *uid) {
  char *job = sc_sink_slug(job_id), *op = sc_sink_slug(uid);
  char *prefix = sc_format("%s.%s.", job, op);
  free(job);
  free(op);
  return prefix;
}

char *sc_sink_inprogress_name(const char *prefix, uint32_t subtask, uint64_t attempt,
                              uint64_t seq) {
  return sc_format(".%s%" PRIu32 ".%" PRIu64 ".%" PRIu64 ".inprogress", prefix, subtask, attempt,
                   seq);
}

char *sc_sink_pending_name(const char *prefix, uint64_t id, uint32_t subtask) {
  return sc_format(".%s%010" PRIu64 ".%" PRIu32 ".pending", prefix, id, subtask);
}

int sc_sink_final_name(sc_storage_t *s, const char *dir, const char *prefix, uint64_t id,
                       uint32_t subtask, const char *ext, char **out, sc_error_t *err) {
  for (uint32_t copy = 1;; copy++) {
    char *name = copy == 1
        ? sc_format("%s%010" PRIu64 ".%" PRIu32 ".%s", prefix, id, subtask, ext)
        : sc_format("%s%010" PRIu64 ".%" PRIu32 "-%" PRIu32 ".%s", prefix, id, subtask, copy, ext);
    char *path = sc_path_join(dir, name);
    int kind = s->ops->kind(s, path, err);
    free(path);
    if (kind == 0) {
      *out = name;
      return 0;
    }
    free(name);
    if (kind < 0)
      return kind;
  }
}

/* ---- what a name in the folder is ---- */

typedef enum { OTHER, IN_PROGRESS, PENDING, COMMITTED } part_kind_t;

static const char *skip_digits(const char *p, size_t least) {
  const char *start = p;
  while (is_digit(*p))
    p++;
  return (size_t)(p - start) >= least ? p : NULL;
}

/* "0000000042.3" and what follows it; NULL where the text does not begin so. */
static const char *read_place(const char *p, uint64_t *id) {
  *id = strtoull(p, NULL, 10);
  p = skip_digits(p, 10);
  return p && *p == '.' ? skip_digits(p + 1, 1) : NULL;
}

static part_kind_t kind_of_hidden(const char *rest, uint64_t *id) {
  const char *p = read_place(rest, id);
  if (p && strcmp(p, ".pending") == 0)
    return PENDING;
  p = skip_digits(rest, 1);
  for (int i = 0; i < 2 && p; i++)
    p = *p == '.' ? skip_digits(p + 1, 1) : NULL;
  return p && strcmp(p, ".inprogress") == 0 ? IN_PROGRESS : OTHER;
}

static part_kind_t kind_of(const char *prefix, const char *name, uint64_t *id) {
  size_t n = strlen(prefix);
  if (name[0] == '.')
    return strncmp(name + 1, prefix, n) == 0 ? kind_of_hidden(name + 1 + n, id) : OTHER;
  if (strncmp(name, prefix, n) != 0)
    return OTHER;
  const char *p = read_place(name + n, id);
  if (p && *p == '-')
    p = skip_digits(p + 1, 1);
  return p && (strcmp(p, ".json") == 0 || strcmp(p, ".txt") == 0) ? COMMITTED : OTHER;
}

/* ---- names ---- */

void sc_sink_names_add(sc_sink_names_t *names, char *name) {
  if (!name)
    return;
  names->names = sc_realloc(names->names, (names->n + 1) * sizeof *names->names);
  names->names[names->n++] = name;
}

void sc_sink_names_fini(sc_sink_names_t *names) {
  for (uint32_t i = 0; i < names->n; i++)
    free(names->names[i]);
  free(names->names);
  *names = (sc_sink_names_t){0};
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool has_name(const sc_sink_names_t *names, const char *name) {
  return names && names->n &&
         bsearch(&name, names->names, names->n, sizeof *names->names, by_name);
}

/* ---- looking through a folder ---- */

typedef struct scan {
  const char *prefix;
  const sc_sink_names_t *promised;
  uint64_t highest;      /* checkpoint of a committed part */
  char *committed;       /* name of the first committed part */
  sc_buf_t sweep, parts; /* names to sweep, committed names; each ends in a zero byte */
} scan_t;

static int see(void *arg, const char *name) {
  scan_t *scan = arg;
  uint64_t id = 0;
  switch (kind_of(scan->prefix, name, &id)) {
  case OTHER:
    break;
  case PENDING:
    if (has_name(scan->promised, name))
      break;
    sc_buf_put(&scan->sweep, name, strlen(name) + 1);
    break;
  case IN_PROGRESS:
    sc_buf_put(&scan->sweep, name, strlen(name) + 1);
    break;
  case COMMITTED:
    if (!scan->committed)
      scan->committed = sc_strdup(name);
    if (id > scan->highest)
      scan->highest = id;
    sc_buf_put(&scan->parts, name, strlen(name) + 1);
    break;
  }
  return 0;
}

static void scan_fini(scan_t *scan) {
  free(scan->committed);
  sc_buf_free(&scan->sweep);
  sc_buf_free(&scan->parts);
}

static int remove_all(sc_storage_t *s, const char *dir, const sc_buf_t *names, sc_error_t *err) {
  int rc = 0;
  for (size_t at = 0; rc == 0 && at < names->len;) {
    const char *name = (const char *)names->data + at;
    char *path = sc_path_join(dir, name);
    rc = s->ops->remove(s, path, err);
    free(path);
    at += strlen(name) + 1;
  }
  return rc;
}

static int refuse(const char *dir, const scan_t *scan, sc_error_t *err) {
  sc_fail(err, SC_EEXIST,
          "folder %s holds committed parts of an earlier run of this job and sink (%s is one): "
          "start from its last checkpoint, or give the sink existing = \"overwrite\" or \"append\"",
          dir, scan->committed);
  sc_error_set_file(err, dir);
  return SC_EEXIST;
}

/* Finds out now, not at the first record, that the folder cannot be written to. */
static int try_write(sc_storage_t *s, const char *dir, const char *prefix, sc_error_t *err) {
  char *name = sc_sink_inprogress_name(prefix, 0, 0, 0), *path = sc_path_join(dir, name);
  sc_file_t *file = NULL;
  int rc = s->ops->create(s, path, &file, err);
  if (rc == 0) {
    s->ops->close(file);
    rc = s->ops->remove(s, path, err);
  }
  if (rc < 0) {
    sc_fail_cause(err, rc, "folder %s cannot be written to", dir);
    sc_error_set_file(err, dir);
  }
  free(path);
  free(name);
  return rc;
}

static int make_folder(sc_storage_t *s, const char *dir, sc_error_t *err) {
  int kind = s->ops->kind(s, dir, err);
  if (kind == 1) {
    sc_fail(err, SC_EEXIST, "%s is a file, but file_sink needs a folder", dir);
    sc_error_set_file(err, dir);
    return SC_EEXIST;
  }
  int rc = kind < 0 ? kind : sc_storage_make_lasting(s, dir, err);
  if (rc < 0) {
    sc_fail_cause(err, rc, "folder %s cannot be made", dir);
    sc_error_set_file(err, dir);
  }
  return rc < 0 ? rc : 0;
}

int sc_sink_prepare(sc_storage_t *s, const char *dir, const char *prefix, bool fresh,
                    sc_sink_names_t *promised, sc_sink_existing_t existing, sc_error_t *err) {
  bool overwrite = fresh && existing == SC_SINK_OVERWRITE;
  scan_t scan = {.prefix = prefix, .promised = overwrite ? NULL : promised};
  if (promised->n)
    qsort(promised->names, promised->n, sizeof *promised->names, by_name);
  int rc = make_folder(s, dir, err);
  if (rc == 0)
    rc = s->ops->list(s, dir, see, &scan, err);
  if (rc == 0 && fresh && scan.committed && existing == SC_SINK_REFUSE)
    rc = refuse(dir, &scan, err);
  if (rc == 0)
    rc = try_write(s, dir, prefix, err);
  if (rc == 0)
    rc = remove_all(s, dir, &scan.sweep, err);
  if (rc == 0 && overwrite)
    rc = remove_all(s, dir, &scan.parts, err);
  if (rc == 0)
    rc = s->ops->sync_dir(s, dir, err);
  scan_fini(&scan);
  return rc;
}

int sc_sink_highest(sc_storage_t *s, const char *dir, const char *prefix, uint64_t *id,
                    sc_error_t *err) {
  scan_t scan = {.prefix = prefix};
  *id = 0;
  int rc = s->ops->kind(s, dir, err);
  if (rc > 0)
    rc = s->ops->list(s, dir, see, &scan, err);
  if (rc >= 0)
    *id = scan.highest;
  scan_fini(&scan);
  return rc < 0 ? rc : 0;
}
