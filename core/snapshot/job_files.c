#include "job_files.h"

#include <inttypes.h>
#include <stdlib.h>

#include "../base/mem.h"
#include "../base/planted.h"

struct sc_kept {
  sc_names_t files;    /* relative to the job's folder, sorted: "chk-3/a" */
  uint64_t *standing;  /* ids of chk-N with a _metadata, readable or not; n_standing */
  uint32_t n_standing;
  bool unreadable;     /* some _metadata cannot be read ... */
  uint64_t up_to;      /* ... the newest of them is this: chk-N up to it are left alone */
};

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What a handle's file is called relative to the job's folder (malloc'ed). */
static char *relative_name(uint64_t id, const char *directory, const char *file) {
  return directory ? sc_path_join(directory, file) : sc_format("chk-%" PRIu64 "/%s", id, file);
}

typedef struct keeping { sc_kept_t *kept; uint64_t id; } keeping_t;

static int keep_file(void *arg, const sc_metadata_operator_t *op, uint32_t subtask,
                     const sc_handle_t *h) {
  keeping_t *k = arg;
  if (SC_PLANTED(REST_NOT_HELD) && h->directory)
    return 0;
  sc_names_t *files = &k->kept->files;
  files->list = sc_realloc(files->list, (files->n + 1) * sizeof *files->list);
  files->list[files->n++] = relative_name(k->id, sc_metadata_directory(op, subtask, h), h->file);
  return 0;
}

static void keep_found(sc_kept_t *kept, const sc_found_t *f) {
  if (f->state == SC_FOUND_NOTHING)
    return;
  kept->standing[kept->n_standing++] = f->id;
  keeping_t arg = {kept, f->id};
  if (f->metadata) {
    sc_metadata_each_file(f->metadata, keep_file, &arg);
  } else {
    kept->unreadable = true;
    kept->up_to = f->id; /* found in order of ids */
  }
}

int sc__kept_create(sc_storage_t *s, const char *path, sc_kept_t **out, sc_error_t *err) {
  sc_job_scan_t *scan;
  *out = NULL;
  int rc = sc_job_scan(s, path, SC_LOOK_METADATA, &scan, err);
  if (rc < 0)
    return rc;
  sc_kept_t *kept = sc_calloc(1, sizeof *kept);
  kept->standing = sc_calloc(scan->n, sizeof *kept->standing);
  for (uint32_t i = 0; i < scan->n; i++)
    keep_found(kept, &scan->list[i]);
  if (kept->files.n)
    qsort(kept->files.list, kept->files.n, sizeof *kept->files.list, by_text);
  sc_job_scan_destroy(scan);
  *out = kept;
  return 0;
}

void sc__kept_destroy(sc_kept_t *kept) {
  if (!kept)
    return;
  sc_names_free(&kept->files);
  free(kept->standing);
  free(kept);
}

static bool is_kept(const sc_kept_t *kept, const char *name) {
  return !SC_PLANTED(LISTED_DELETED) && kept->files.n &&
         bsearch(&name, kept->files.list, kept->files.n, sizeof *kept->files.list, by_text);
}

static bool stands(const sc_kept_t *kept, uint64_t id) {
  for (uint32_t i = 0; i < kept->n_standing; i++)
    if (kept->standing[i] == id)
      return true;
  return false;
}

static bool left_alone(const sc_kept_t *kept, uint64_t id) {
  return kept->unreadable && id <= kept->up_to;
}

/* The id of the chk-N that a relative name lies in; false where it lies elsewhere. */
static bool folder_id(const char *name, uint64_t *id) {
  char *folder = sc_strndup(name, strcspn(name, "/"));
  bool ok = sc__job_parse_name(folder, id);
  free(folder);
  return ok;
}

int sc__job_remove_empty(sc_storage_t *s, const char *path, sc_error_t *err) {
  int kind = s->ops->kind(s, path, err);
  if (kind != 2)
    return kind < 0 ? kind : 0;
  sc_names_t names;
  int rc = sc_storage_names(s, path, &names, err);
  bool empty = names.n == 0;
  sc_names_free(&names);
  return rc == 0 && empty ? s->ops->remove_dir(s, path, err) : rc;
}

/* A walk through one chk-N folder. */
typedef struct walk {
  sc_storage_t *storage;
  const char *root;        /* the job's folder */
  const sc_kept_t *kept;
  bool temps_only;         /* remove temporary files only */
  uint64_t removed;        /* files */
  sc_error_t *err;
} walk_t;

static int walk_folder(walk_t *w, const char *relative);

static int walk_entry(walk_t *w, const char *relative, const char *name) {
  char *path = sc_path_join(w->root, relative);
  int kind = w->storage->ops->kind(w->storage, path, w->err);
  int rc = kind < 0 ? kind : 0;
  bool goes = w->temps_only ? sc_publish_is_temp(name) : true;
  if (kind == 2) {
    rc = walk_folder(w, relative);
    if (rc == 0 && !w->temps_only)
      rc = sc__job_remove_empty(w->storage, path, w->err);
  } else if (kind == 1 && goes && !is_kept(w->kept, relative)) {
    rc = w->storage->ops->remove(w->storage, path, w->err);
    w->removed += rc == 0;
  }
  free(path);
  return rc;
}

static int walk_folder(walk_t *w, const char *relative) {
  char *path = sc_path_join(w->root, relative);
  sc_names_t names;
  int rc = sc_storage_names(w->storage, path, &names, w->err);
  for (size_t i = 0; rc == 0 && i < names.n; i++) {
    char *child = sc_path_join(relative, names.list[i]);
    rc = walk_entry(w, child, names.list[i]);
    free(child);
  }
  sc_names_free(&names);
  free(path);
  return rc;
}

int sc__job_remove_folder(sc_storage_t *s, const char *path, uint64_t id, const sc_kept_t *kept,
                          uint64_t *removed, sc_error_t *err) {
  char *relative = sc_format("chk-%" PRIu64, id);
  char *folder = sc_path_join(path, relative);
  walk_t w = {s, path, kept, false, 0, err};
  int kind = s->ops->kind(s, folder, err);
  int rc = kind < 0 ? kind : 0;
  if (kind == 2 && !left_alone(kept, id))
    rc = walk_folder(&w, relative);
  if (rc == 0 && kind == 2)
    rc = sc__job_remove_empty(s, folder, err);
  if (removed)
    *removed += w.removed;
  free(folder);
  free(relative);
  return rc;
}

static int remove_listed(void *arg, const sc_metadata_operator_t *op, uint32_t subtask,
                         const sc_handle_t *h) {
  walk_t *w = arg;
  const char *directory = sc_metadata_directory(op, subtask, h);
  uint64_t id;
  /* Without a directory it lay in the snapshot's own folder, which has been seen to. */
  if (!directory)
    return 0;
  char *name = sc_path_join(directory, h->file);
  int rc = 0;
  if (folder_id(name, &id) && !left_alone(w->kept, id) && !is_kept(w->kept, name)) {
    char *path = sc_path_join(w->root, name);
    rc = w->storage->ops->remove(w->storage, path, w->err);
    free(path);
    path = sc_path_join(w->root, directory);
    if (rc == 0)
      rc = sc__job_remove_empty(w->storage, path, w->err);
    free(path);
  }
  free(name);
  return rc;
}

int sc__job_remove_listed(sc_storage_t *s, const char *path, const sc_metadata_t *m,
                          const sc_kept_t *kept, sc_error_t *err) {
  walk_t w = {s, path, kept, false, 0, err};
  return sc_metadata_each_file(m, remove_listed, &w);
}

static int sweep_entry(walk_t *w, const char *name) {
  uint64_t id;
  if (sc__job_parse_name(name, &id)) {
    if (!stands(w->kept, id))
      return sc__job_remove_folder(w->storage, w->root, id, w->kept, &w->removed, w->err);
    char *path = sc_path_join(w->root, name);
    int kind = w->storage->ops->kind(w->storage, path, w->err);
    free(path);
    return kind == 2 && !left_alone(w->kept, id) ? walk_folder(w, name) : kind < 0 ? kind : 0;
  }
  return sc_publish_is_temp(name) ? walk_entry(w, name, name) : 0;
}

int sc__job_sweep(sc_storage_t *s, const char *path, const sc_kept_t *kept, uint64_t *removed,
                  sc_error_t *err) {
  walk_t w = {s, path, kept, true, 0, err};
  sc_names_t names;
  int rc = sc_storage_names(s, path, &names, err);
  for (size_t i = 0; rc == 0 && i < names.n; i++)
    rc = sweep_entry(&w, names.list[i]);
  sc_names_free(&names);
  if (rc == 0)
    rc = s->ops->sync_dir(s, path, err);
  *removed = w.removed;
  return rc;
}
