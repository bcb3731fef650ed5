#include "sink_part.h"

#include <inttypes.h>
#include <stdatomic.h>

#include "../base/io_lock.h"
#include "../base/mem.h"
#include "../base/planted.h"

typedef enum { OPEN, SEALED, DURABLE, BROKEN } part_state_t;

struct sc_sink_part {
  atomic_uint refs;
  sc_storage_t *storage; /* lives as long as the world */
  char *dir;
  char *inprogress;      /* name in dir; NULL in a restored part */
  char *pending, *final; /* names in dir, from seal on */
  uint64_t id;           /* checkpoint, from seal on; 0 without checkpoints */
  sc_file_t *file;       /* open until it is synced */
  sc_io_lock_t lock;     /* guards state, failure, file from seal on */
  part_state_t state;
  sc_error_t failure;    /* of a BROKEN part */
};

static sc_sink_part_t *part_new(sc_storage_t *s, const char *dir, part_state_t state) {
  sc_sink_part_t *part = sc_calloc(1, sizeof *part);
  atomic_init(&part->refs, 1);
  part->storage = s;
  part->dir = sc_strdup(dir);
  part->state = state;
  sc_io_lock_init(&part->lock);
  return part;
}

int sc_sink_part_open(sc_storage_t *s, const char *dir, const char *inprogress,
                      sc_sink_part_t **out, sc_error_t *err) {
  char *path = sc_path_join(dir, inprogress);
  sc_file_t *file;
  int rc = s->ops->create(s, path, &file, err);
  free(path);
  if (rc < 0)
    return rc;
  sc_sink_part_t *part = part_new(s, dir, OPEN);
  part->inprogress = sc_strdup(inprogress);
  part->file = file;
  *out = part;
  return 0;
}

sc_sink_part_t *sc_sink_part_restored(sc_storage_t *s, const char *dir, uint64_t id,
                                      const char *pending, const char *final) {
  sc_sink_part_t *part = part_new(s, dir, DURABLE);
  part->id = id;
  part->pending = sc_strdup(pending);
  part->final = sc_strdup(final);
  return part;
}

sc_sink_part_t *sc_sink_part_ref(sc_sink_part_t *part) {
  atomic_fetch_add_explicit(&part->refs, 1, memory_order_relaxed); /* the caller holds one */
  return part;
}

void sc_sink_part_unref(sc_sink_part_t *part) {
  /* Acquire and release: whoever frees sees what the others did to the part. */
  if (!part || atomic_fetch_sub_explicit(&part->refs, 1, memory_order_acq_rel) > 1)
    return;
  if (part->file)
    part->storage->ops->close(part->file);
  if (part->state == OPEN || part->state == SEALED) {
    char *path = sc_path_join(part->dir, part->inprogress);
    part->storage->ops->remove(part->storage, path, NULL); /* else the next start sweeps it */
    free(path);
  }
  sc_io_lock_fini(&part->lock);
  sc_error_clear(&part->failure);
  free(part->dir);
  free(part->inprogress);
  free(part->pending);
  free(part->final);
  free(part);
}

int sc_sink_part_write(sc_sink_part_t *part, sc_bytes_t bytes, sc_error_t *err) {
  sc_assert(part->state == OPEN);
  return part->storage->ops->write(part->file, bytes.data, bytes.len, err);
}

void sc_sink_part_seal(sc_sink_part_t *part, uint64_t id, const char *pending, const char *final) {
  sc_assert(part->state == OPEN);
  part->id = id;
  part->pending = sc_strdup(pending);
  part->final = sc_strdup(final);
  part->state = SEALED;
}

static int rename_in(sc_sink_part_t *part, const char *from, const char *to, sc_error_t *err) {
  char *old = sc_path_join(part->dir, from), *new = sc_path_join(part->dir, to);
  int rc = part->storage->ops->rename(part->storage, old, new, err);
  free(old);
  free(new);
  return rc;
}

static int sync_and_rename(sc_sink_part_t *part, sc_error_t *err) {
  int rc = SC_PLANTED(PART_UNSYNCED) ? 0 : part->storage->ops->sync(part->file, err);
  part->storage->ops->close(part->file);
  part->file = NULL;
  if (rc == 0)
    rc = rename_in(part, part->inprogress, part->pending, err);
  if (rc == 0)
    rc = part->storage->ops->sync_dir(part->storage, part->dir, err);
  return rc;
}

int sc_sink_part_make_durable(sc_sink_part_t *part, sc_error_t *err) {
  int rc = 0;
  sc_io_lock(&part->lock);
  sc_assert(part->state != OPEN);
  if (part->state == SEALED) {
    rc = sync_and_rename(part, &part->failure);
    part->state = rc == 0 ? DURABLE : BROKEN;
    if (rc < 0)
      sc_fail_cause(&part->failure, rc,
                    "part %s of the sink in folder %s could not be made durable", part->pending,
                    part->dir);
  }
  if (part->state == BROKEN) {
    rc = part->failure.code;
    if (err)
      sc_error_copy(err, &part->failure);
  }
  sc_io_unlock(&part->lock);
  return rc;
}

int sc_sink_part_check(sc_sink_part_t *part, sc_error_t *err) {
  int rc = 0;
  sc_io_lock(&part->lock);
  if (part->state == BROKEN) {
    rc = part->failure.code;
    if (err)
      sc_error_copy(err, &part->failure);
  }
  sc_io_unlock(&part->lock);
  return rc;
}

static int kind_in(sc_sink_part_t *part, const char *name, sc_error_t *err) {
  char *path = sc_path_join(part->dir, name);
  int kind = part->storage->ops->kind(part->storage, path, err);
  free(path);
  return kind;
}

/* The committed file is there and the pending one is not: an earlier commit did it (P4). */
static int already_committed(sc_sink_part_t *part, sc_error_t *err) {
  int kind = kind_in(part, part->final, err);
  if (kind != 0)
    return kind < 0 ? kind : 0;
  sc_fail(err, SC_ESTATE,
          "data was lost: folder %s has neither %s, which belongs to checkpoint %" PRIu64
          " and was to be committed, nor %s",
          part->dir, part->pending, part->id, part->final);
  sc_error_set_file(err, part->pending);
  return SC_ESTATE;
}

int sc_sink_part_commit(sc_sink_part_t *part, sc_error_t *err) {
  /* A work of a dead attempt may be committing the same part. It turns "pending" into "final" in
   * one step, so looking at final first never shows both where only one ever was. */
  int final = kind_in(part, part->final, err);
  int pending = final < 0 ? final : kind_in(part, part->pending, err);
  if (pending < 0)
    return pending;
  if (pending == 0)
    return already_committed(part, err);
  if (final > 0) {
    /* rename would replace what somebody else committed. */
    sc_fail(err, SC_EEXIST, "part %s cannot be committed: folder %s has another file %s",
            part->pending, part->dir, part->final);
    sc_error_set_file(err, part->final);
    return SC_EEXIST;
  }
  int rc = rename_in(part, part->pending, part->final, err);
  return rc == SC_ENOTFOUND ? already_committed(part, err) : rc;
}

uint64_t sc_sink_part_id(const sc_sink_part_t *part) {
  return part->id;
}

const char *sc_sink_part_pending(const sc_sink_part_t *part) {
  return part->pending;
}

const char *sc_sink_part_final(const sc_sink_part_t *part) {
  return part->final;
}
