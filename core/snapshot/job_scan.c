/* What checkpoints a job's folder holds, and which of them a start goes back to (job_dir.h). */
#include "job_dir.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "../base/mem.h"
#include "job_files.h"

bool sc__job_parse_name(const char *name, uint64_t *id) {
  if (strncmp(name, "chk-", 4))
    return false;
  const char *digits = name + 4;
  size_t n = strspn(digits, "0123456789");
  if (n == 0 || digits[n] || (n > 1 && digits[0] == '0'))
    return false;
  errno = 0;
  unsigned long long v = strtoull(digits, NULL, 10);
  *id = v;
  return errno == 0 && v <= INT64_MAX;
}

static int by_id(const void *a, const void *b) {
  const sc_found_t *x = a, *y = b;
  return x->id < y->id ? -1 : x->id > y->id;
}

static void look_at(sc_storage_t *s, const char *job, sc_job_look_t look, sc_found_t *f) {
  char *dir = sc_format("%s/chk-%" PRIu64, job, f->id);
  /* A file of that name holds nothing, as an empty folder would. */
  int rc = s->ops->kind(s, dir, NULL) == 1 ? SC_ENOTFOUND
                                           : sc_metadata_read(s, dir, &f->metadata, &f->error);
  if (rc == SC_ENOTFOUND) {
    f->state = SC_FOUND_NOTHING;
    sc_error_clear(&f->error);
  } else if (rc < 0) {
    f->state = SC_FOUND_DAMAGED;
  } else if (f->metadata->id != f->id) {
    f->state = SC_FOUND_DAMAGED;
    sc_fail(&f->error, SC_ECORRUPT, "%s holds the metadata of checkpoint %" PRIu64, dir,
            f->metadata->id);
    sc_error_set_file(&f->error, dir);
    /* What it lists lies in another folder, or nowhere; so it is treated as one that nobody can
     * read. */
    sc_metadata_destroy(f->metadata);
    f->metadata = NULL;
  } else {
    bool full = look == SC_LOOK_CHECKSUMS;
    rc = look == SC_LOOK_METADATA ? 0
                                  : sc_metadata_verify(s, dir, job, f->metadata, full, &f->error);
    f->state = rc < 0 ? SC_FOUND_DAMAGED : SC_FOUND_VALID;
  }
  free(dir);
}

int sc_job_scan(sc_storage_t *s, const char *path, sc_job_look_t look, sc_job_scan_t **out,
                sc_error_t *err) {
  sc_names_t names;
  int rc = sc_storage_names(s, path, &names, err);
  if (rc == SC_ENOTFOUND) {
    sc_error_clear(err);
    rc = 0;
  }
  if (rc < 0) {
    sc_names_free(&names);
    return rc;
  }
  sc_job_scan_t *scan = sc_calloc(1, sizeof *scan);
  scan->list = sc_calloc(names.n, sizeof *scan->list);
  for (size_t i = 0; i < names.n; i++) {
    sc_found_t *f = &scan->list[scan->n];
    if (sc__job_parse_name(names.list[i], &f->id)) {
      look_at(s, path, look, f);
      scan->n++;
    }
  }
  sc_names_free(&names);
  if (scan->n)
    qsort(scan->list, scan->n, sizeof *scan->list, by_id);
  *out = scan;
  return 0;
}

void sc_job_scan_destroy(sc_job_scan_t *scan) {
  if (!scan)
    return;
  for (uint32_t i = 0; i < scan->n; i++) {
    sc_metadata_destroy(scan->list[i].metadata);
    sc_error_clear(&scan->list[i].error);
  }
  free(scan->list);
  free(scan);
}

static int refuse_damaged(const sc_found_t *newest, const sc_found_t *valid, sc_error_t *err) {
  if (err)
    sc_error_copy(err, &newest->error);
  if (!valid)
    return sc_fail_cause(err, SC_ECORRUPT, "checkpoint %" PRIu64 ", the newest, is damaged, and "
                         "there is no older valid one to go back to", newest->id);
  return sc_fail_cause(err, SC_ECORRUPT, "checkpoint %" PRIu64 ", the newest, is damaged; going "
                       "back to checkpoint %" PRIu64 " would emit again what sinks have committed "
                       "since (fallback = \"older\" allows it)", newest->id, valid->id);
}

/* Wrong on disk, as opposed to a storage that does not answer now: what is to be read may be whole,
 * and would come back with parts that a start from an older one had swept. */
static bool is_damage(int code) {
  return code == SC_ECORRUPT || code == SC_ENOTFOUND || code == SC_EVERSION;
}

static int refuse_unread(const sc_found_t *f, sc_error_t *err) {
  int code = f->error.code;
  if (err)
    sc_error_copy(err, &f->error);
  return sc_fail_cause(err, code, "checkpoint %" PRIu64 " cannot be read now, and nothing says "
                       "that it is damaged: try again (fallback = \"older\" goes back to an "
                       "older one, and gives this one up)", f->id);
}

int sc_job_scan_unread(const sc_job_scan_t *scan, uint64_t above, sc_error_t *err) {
  for (uint32_t i = 0; i < scan->n; i++) {
    const sc_found_t *f = &scan->list[i];
    if (f->state == SC_FOUND_DAMAGED && !is_damage(f->error.code) && f->id > above)
      return refuse_unread(f, err);
  }
  return 0;
}

int sc_job_scan_choose(const sc_job_scan_t *scan, bool older, uint64_t highest_committed,
                       const sc_found_t **out, sc_error_t *err) {
  const sc_found_t *newest = NULL, *valid = NULL;
  for (uint32_t i = 0; i < scan->n; i++) {
    const sc_found_t *f = &scan->list[i];
    newest = f->state != SC_FOUND_NOTHING ? f : newest;
    valid = f->state == SC_FOUND_VALID ? f : valid;
  }
  *out = valid;
  if (!newest)
    return 0;
  int rc = older ? 0 : sc_job_scan_unread(scan, valid ? valid->id : 0, err);
  if (rc < 0)
    return rc;
  bool behind = !valid || highest_committed > valid->id;
  if (valid != newest)
    return valid && (older || !behind) ? 1 : refuse_damaged(newest, valid, err);
  if (behind && !older && highest_committed != SC_COMMITTED_UNKNOWN)
    return sc_fail(err, SC_ENOTFOUND, "a sink has committed checkpoint %" PRIu64 ", which is gone; "
                   "going back to checkpoint %" PRIu64 " would emit again what was committed since "
                   "(fallback = \"older\" allows it)", highest_committed, valid->id);
  return 1;
}
