#include "metadata.h"

#include <inttypes.h>
#include <stdlib.h>

#include "../base/mem.h"

sc_metadata_t *sc_metadata_create(void) {
  return sc_calloc(1, sizeof(sc_metadata_t));
}

static void free_operator(sc_metadata_operator_t *op) {
  for (uint32_t i = 0; op->subtasks && i < op->parallelism; i++) {
    sc_operator_snapshot_fini(&op->subtasks[i].state);
    free(op->subtasks[i].directory);
  }
  free(op->subtasks);
  free(op->uid);
  free(op->name);
  sc_buf_free(&op->enumerator);
}

void sc_metadata_destroy(sc_metadata_t *m) {
  if (!m)
    return;
  for (uint32_t i = 0; i < m->n_operators; i++)
    free_operator(&m->operators[i]);
  for (uint32_t i = 0; i < m->n_edges; i++) {
    free(m->edges[i].from_uid);
    free(m->edges[i].output);
    free(m->edges[i].to_uid);
    free(m->edges[i].partitioner);
  }
  free(m->operators);
  free(m->edges);
  free(m->job_id);
  free(m->job_name);
  free(m);
}

sc_metadata_operator_t *sc_metadata_add_operator(sc_metadata_t *m, const char *uid,
                                                 const char *name, uint32_t parallelism,
                                                 uint32_t max_parallelism) {
  m->operators = sc_realloc(m->operators, (m->n_operators + 1) * sizeof *m->operators);
  sc_metadata_operator_t *op = &m->operators[m->n_operators++];
  *op = (sc_metadata_operator_t){
    .uid = sc_strdup(uid),
    .name = sc_strdup(name),
    .parallelism = parallelism,
    .max_parallelism = max_parallelism,
    .subtasks = sc_calloc(parallelism, sizeof *op->subtasks),
  };
  for (uint32_t i = 0; i < parallelism; i++) {
    op->subtasks[i].state.uid = sc_strdup(uid);
    op->subtasks[i].state.watermark = INT64_MIN;
    op->subtasks[i].state.forwarded = INT64_MIN;
  }
  return op;
}

sc_metadata_edge_t *sc_metadata_add_edge(sc_metadata_t *m) {
  m->edges = sc_realloc(m->edges, (m->n_edges + 1) * sizeof *m->edges);
  sc_metadata_edge_t *edge = &m->edges[m->n_edges++];
  *edge = (sc_metadata_edge_t){0};
  return edge;
}

const sc_metadata_operator_t *sc_metadata_find(const sc_metadata_t *m, const char *uid) {
  for (uint32_t i = 0; i < m->n_operators; i++)
    if (!strcmp(m->operators[i].uid, uid))
      return &m->operators[i];
  return NULL;
}

const char *sc_metadata_directory(const sc_metadata_operator_t *op, uint32_t subtask,
                                  const sc_handle_t *h) {
  /* In-flight data says for itself: a finished task has none, so nothing of it lies elsewhere. */
  return h->kind == SC_HANDLE_INFLIGHT ? h->directory : op->subtasks[subtask].directory;
}

static int each_of_operator(const sc_metadata_operator_t *op, sc_metadata_file_cb each, void *arg) {
  for (uint32_t i = 0; i < op->parallelism; i++) {
    const sc_operator_snapshot_t *state = &op->subtasks[i].state;
    for (uint32_t k = 0; k < state->n_handles; k++) {
      int rc = state->handles[k].file ? each(arg, op, i, &state->handles[k]) : 0;
      if (rc)
        return rc;
    }
  }
  return 0;
}

int sc_metadata_each_file(const sc_metadata_t *m, sc_metadata_file_cb each, void *arg) {
  for (uint32_t i = 0; i < m->n_operators; i++) {
    int rc = each_of_operator(&m->operators[i], each, arg);
    if (rc)
      return rc;
  }
  return 0;
}

int sc_metadata_write(sc_storage_t *s, const char *dir, const sc_metadata_t *m, sc_error_t *err) {
  char *path = sc_path_join(dir, SC_METADATA_NAME);
  sc_buf_t bytes = SC_BUF_INIT;
  sc_metadata_encode(m, &bytes);
  sc_publish_t *file;
  int rc = sc_publish_begin(s, path, &file, err);
  if (rc == 0) {
    rc = sc_publish_write(file, bytes.data, bytes.len, err);
    if (rc == 0)
      rc = sc_publish_commit(file, NULL, NULL, err);
    else
      sc_publish_abandon(file);
  }
  sc_buf_free(&bytes);
  free(path);
  return rc;
}

static char *metadata_path(const char *path) {
  const char *slash = strrchr(path, '/');
  bool is_file = !strcmp(slash ? slash + 1 : path, SC_METADATA_NAME);
  return is_file ? sc_strdup(path) : sc_path_join(path, SC_METADATA_NAME);
}

int sc_metadata_read(sc_storage_t *s, const char *path, sc_metadata_t **out, sc_error_t *err) {
  char *file = metadata_path(path);
  sc_buf_t bytes = SC_BUF_INIT;
  int rc = sc_storage_read_all(s, file, SC_METADATA_BYTES_MAX, &bytes, err);
  if (rc == 0) {
    sc_error_t why = SC_ERROR_INIT;
    rc = sc_metadata_decode(sc_buf_bytes(&bytes), out, &why);
    if (rc < 0) {
      sc_fail(err, rc, rc == SC_ECORRUPT ? "%s is damaged: %s" : "%s cannot be read: %s", file,
              why.message);
      sc_error_set_file(err, file);
      sc_error_clear(&why);
    }
  }
  sc_buf_free(&bytes);
  free(file);
  return rc;
}

typedef struct verify {
  sc_storage_t *storage;
  const char *dir, *job_dir; /* of the snapshot, of its job */
  bool full;                 /* read every byte */
  sc_names_t shared;         /* of in-flight data, looked at: each has many handles */
  sc_error_t *err;
} verify_t;

static const char *what_is_in(const sc_handle_t *h) {
  return h->kind == SC_HANDLE_INFLIGHT ? "in-flight data" : "state";
}

/* Was this file of in-flight data looked at before? If not, it is from now on. */
static bool seen(verify_t *v, const sc_handle_t *h, const char *path) {
  if (h->kind != SC_HANDLE_INFLIGHT)
    return false;
  for (size_t i = v->shared.n; i > 0; i--) /* mostly the last one */
    if (!strcmp(v->shared.list[i - 1], path))
      return true;
  v->shared.list = sc_realloc(v->shared.list, (v->shared.n + 1) * sizeof *v->shared.list);
  v->shared.list[v->shared.n++] = sc_strdup(path);
  return false;
}

static int verify_open(const verify_t *v, sc_file_t *f, const char *path, const char *uid,
                       const sc_handle_t *h) {
  int64_t size = v->storage->ops->size(f, v->err);
  if (size < 0)
    return (int)size;
  if ((uint64_t)size != h->length)
    return sc_fail(v->err, SC_ECORRUPT, "%s, %s of %s, has %" PRId64 " bytes, %" PRIu64
                   " were written", path, what_is_in(h), uid, size, h->length);
  uint64_t sum = h->checksum;
  int rc = 0;
  if (v->full)
    rc = sc_storage_checksum(v->storage, f, path, h->length, &sum, v->err);
  if (rc == 0 && sum != h->checksum)
    rc = sc_fail(v->err, SC_ECORRUPT, "%s, %s of %s, is damaged: its checksum is %016" PRIx64
                 ", %016" PRIx64 " was written", path, what_is_in(h), uid, sum, h->checksum);
  return rc;
}

static int verify_file(void *arg, const sc_metadata_operator_t *op, uint32_t subtask,
                       const sc_handle_t *h) {
  verify_t *v = arg;
  const char *directory = sc_metadata_directory(op, subtask, h);
  char *dir = directory ? sc_path_join(v->job_dir, directory) : sc_strdup(v->dir);
  char *path = sc_path_join(dir, h->file);
  sc_file_t *f;
  bool again = seen(v, h, path);
  int rc = again ? 0 : v->storage->ops->open(v->storage, path, &f, v->err);
  if (rc == 0 && !again) {
    rc = verify_open(v, f, path, op->uid, h);
    v->storage->ops->close(f);
  } else if (rc == SC_ENOTFOUND) {
    sc_fail(v->err, rc, "%s, %s of %s, is missing", path, what_is_in(h), op->uid);
  }
  if (rc < 0)
    sc_error_set_file(v->err, path);
  free(path);
  free(dir);
  return rc;
}

int sc_metadata_verify(sc_storage_t *s, const char *dir, const char *job_dir,
                       const sc_metadata_t *m, bool full, sc_error_t *err) {
  verify_t v = {.storage = s, .dir = dir, .job_dir = job_dir, .full = full, .err = err};
  int rc = sc_metadata_each_file(m, verify_file, &v);
  sc_names_free(&v.shared);
  return rc;
}
