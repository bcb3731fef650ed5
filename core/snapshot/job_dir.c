#include "job_dir.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../base/io_lock.h"
#include "../base/mem.h"
#include "../base/planted.h"
#include "job_files.h"

struct sc_job_dir {
  sc_storage_t *storage; /* borrowed */
  char *path;            /* DIR/JOB-ID */
  char *ids_path;        /* of the file ids */
  void *lock;            /* the storage's */
  sc_io_lock_t ids;      /* guards the three below, and the file; held while it is written, since
                            two writers could otherwise lose each other's number */
  uint64_t reserved;     /* highest id in the file */
  uint64_t attempt;      /* highest attempt in the file */
  uint64_t found;        /* highest chk-N when the folder was opened */
};

/* ---- ids ---- */

static bool parse_ids(const char *text, uint64_t *reserved, uint64_t *attempt) {
  int end = 0;
  return sscanf(text, "checkpoint %20" SCNu64 "\nattempt %20" SCNu64 "%n", reserved, attempt,
                &end) == 2 && !strcmp(text + end, "\n") && *reserved < INT64_MAX &&
         *attempt < INT64_MAX;
}

static int read_ids(sc_job_dir_t *d, sc_error_t *err) {
  int kind = d->storage->ops->kind(d->storage, d->ids_path, err);
  if (kind <= 0)
    return kind;
  sc_buf_t text = SC_BUF_INIT;
  int rc = sc_storage_read_all(d->storage, d->ids_path, 256, &text, err);
  sc_buf_put_u8(&text, 0);
  if (rc == SC_ELIMIT || (rc == 0 && !parse_ids((char *)text.data, &d->reserved, &d->attempt))) {
    rc = SC_ECORRUPT;
    sc_fail(err, rc, "%s is damaged; write \"checkpoint N\" and \"attempt M\" into it, each on a "
            "line of its own and above all that were used", d->ids_path);
    sc_error_set_file(err, d->ids_path);
  }
  sc_buf_free(&text);
  return rc;
}

static int write_ids(sc_job_dir_t *d, uint64_t reserved, uint64_t attempt, sc_error_t *err) {
  sc_publish_t *file;
  int rc = sc_publish_begin(d->storage, d->ids_path, &file, err);
  if (rc < 0)
    return rc;
  char *text = sc_format("checkpoint %" PRIu64 "\nattempt %" PRIu64 "\n", reserved, attempt);
  rc = sc_publish_write(file, text, strlen(text), err);
  free(text);
  if (rc < 0)
    sc_publish_abandon(file);
  else
    rc = sc_publish_commit(file, NULL, NULL, err);
  if (rc == 0) {
    d->reserved = reserved;
    d->attempt = attempt;
  }
  return rc;
}

uint64_t sc_job_dir_highest_id(sc_job_dir_t *d) {
  sc_io_lock(&d->ids);
  uint64_t highest = d->reserved > d->found && !SC_PLANTED(ID_AGAIN) ? d->reserved : d->found;
  sc_io_unlock(&d->ids);
  return highest;
}

int sc_job_dir_reserve(sc_job_dir_t *d, uint64_t up_to, sc_error_t *err) {
  sc_io_lock(&d->ids);
  int rc = up_to > d->reserved ? write_ids(d, up_to, d->attempt, err) : 0;
  sc_io_unlock(&d->ids);
  return rc;
}

int sc_job_dir_next_attempt(sc_job_dir_t *d, uint64_t *attempt, sc_error_t *err) {
  sc_io_lock(&d->ids);
  int rc = write_ids(d, d->reserved, d->attempt + 1, err);
  *attempt = d->attempt;
  sc_io_unlock(&d->ids);
  return rc;
}

/* ---- open and close ---- */

static int find_highest(sc_job_dir_t *d, sc_error_t *err) {
  sc_names_t names;
  int rc = sc_storage_names(d->storage, d->path, &names, err);
  for (size_t i = 0; i < names.n; i++) {
    uint64_t id;
    if (sc__job_parse_name(names.list[i], &id) && id > d->found)
      d->found = id;
  }
  sc_names_free(&names);
  return rc;
}

static int open_parts(sc_job_dir_t *d, sc_error_t *err) {
  int rc = sc_storage_make_lasting(d->storage, d->path, err);
  if (rc < 0)
    return rc;
  char *lock = sc_path_join(d->path, "lock");
  rc = d->storage->ops->lock(d->storage, lock, &d->lock, err);
  free(lock);
  if (rc == 0)
    rc = read_ids(d, err);
  return rc == 0 ? find_highest(d, err) : rc;
}

int sc_job_dir_open(sc_storage_t *s, const char *dir, const char *job_id, sc_job_dir_t **out,
                    sc_error_t *err) {
  sc_job_dir_t *d = sc_calloc(1, sizeof *d);
  d->storage = s;
  d->path = sc_path_join(dir, job_id);
  d->ids_path = sc_path_join(d->path, "ids");
  sc_io_lock_init(&d->ids);
  int rc = open_parts(d, err);
  if (rc < 0) {
    sc_job_dir_close(d);
    return rc;
  }
  *out = d;
  return 0;
}

void sc_job_dir_close(sc_job_dir_t *d) {
  if (!d)
    return;
  if (d->lock)
    d->storage->ops->unlock(d->storage, d->lock);
  sc_io_lock_fini(&d->ids);
  free(d->path);
  free(d->ids_path);
  free(d);
}

const char *sc_job_dir_path(const sc_job_dir_t *d) {
  return d->path;
}

char *sc_job_dir_checkpoint(const sc_job_dir_t *d, uint64_t id) {
  return sc_format("%s/chk-%" PRIu64, d->path, id);
}

int sc_job_dir_prepare(sc_job_dir_t *d, uint64_t id, sc_error_t *err) {
  /* Where the job's folder is gone (a disk that is not there any more, say), another one in its
   * place would be without the lock and all else. */
  int kind = d->storage->ops->kind(d->storage, d->path, err);
  if (kind != 2) {
    if (kind >= 0) {
      kind = sc_fail(err, SC_ENOTFOUND, "the job's folder %s is gone", d->path);
      sc_error_set_file(err, d->path);
    }
    return kind;
  }
  char *path = sc_job_dir_checkpoint(d, id);
  int rc = d->storage->ops->make_dir(d->storage, path, err);
  free(path);
  return rc;
}

/* ---- deleting ---- */

/* The name _metadata is gone for good before the first file is. */
static int remove_metadata(sc_job_dir_t *d, const char *chk, sc_error_t *err) {
  char *path = sc_path_join(chk, SC_METADATA_NAME);
  int rc = d->storage->ops->remove(d->storage, path, err);
  free(path);
  return rc == 0 ? d->storage->ops->sync_dir(d->storage, chk, err) : rc;
}

int sc_job_dir_delete(sc_job_dir_t *d, uint64_t id, sc_error_t *err) {
  char *chk = sc_job_dir_checkpoint(d, id);
  int rc = d->storage->ops->kind(d->storage, chk, err);
  sc_metadata_t *m = NULL;
  if (rc > 0) {
    /* Damaged or absent: then only its own folder is known to be its own. */
    sc_metadata_read(d->storage, chk, &m, NULL);
    rc = remove_metadata(d, chk, err);
  }
  free(chk);
  sc_kept_t *kept = NULL;
  if (rc == 0)
    rc = sc__kept_create(d->storage, d->path, &kept, err);
  if (rc == 0)
    rc = sc__job_remove_folder(d->storage, d->path, id, kept, NULL, err);
  if (rc == 0 && m)
    rc = sc__job_remove_listed(d->storage, d->path, m, kept, err);
  if (rc == 0)
    rc = d->storage->ops->sync_dir(d->storage, d->path, err);
  sc__kept_destroy(kept);
  sc_metadata_destroy(m);
  return rc;
}

int sc_job_dir_discard(sc_job_dir_t *d, uint64_t id, const sc_task_snapshot_t *snap,
                       sc_error_t *err) {
  char *chk = sc_job_dir_checkpoint(d, id);
  int rc = 0;
  for (uint32_t i = 0; i < snap->n_operators; i++) {
    const sc_operator_snapshot_t *op = &snap->operators[i];
    for (uint32_t k = 0; rc == 0 && k < op->n_handles; k++) {
      if (!op->handles[k].file || op->handles[k].directory) /* in another one's folder: its */
        continue;
      char *path = sc_path_join(chk, op->handles[k].file);
      rc = d->storage->ops->remove(d->storage, path, err);
      free(path);
    }
  }
  if (rc == 0)
    rc = sc__job_remove_empty(d->storage, chk, err);
  free(chk);
  return rc;
}

int sc_job_dir_sweep(sc_job_dir_t *d, uint64_t *removed, sc_error_t *err) {
  sc_kept_t *kept;
  uint64_t count = 0;
  int rc = sc__kept_create(d->storage, d->path, &kept, err);
  if (rc == 0)
    rc = sc__job_sweep(d->storage, d->path, kept, &count, err);
  sc__kept_destroy(kept);
  if (removed)
    *removed = count;
  return rc;
}
