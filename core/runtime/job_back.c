/*
 * job_back: what a job goes back to, at its start and after a failure (DESIGN section 6, "Going
 * back is safe or refused"), and the way to the next attempt.
 *
 * At a start the lengths of the files are looked at, no more: each is read and checked when it is
 * restored. Where that finds damage, everything is read before anything is chosen again.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../base/mem.h"
#include "../base/planted.h"
#include "job_parts.h"

/* ---- what to go back to ---- */

/* A snapshot, before it is the job's. */
typedef struct back {
  sc_metadata_t *metadata;
  char *dir;               /* its folder */
  bool owned;              /* it is one of the job's own checkpoints */
} back_t;

static void back_fini(back_t *b) {
  sc_metadata_destroy(b->metadata);
  free(b->dir);
  *b = (back_t){0};
}

sc_origin_t *sc__origin_ref(sc_origin_t *o) {
  if (o)
    o->refs++;
  return o;
}

void sc__origin_unref(sc_origin_t *o) {
  if (!o || --o->refs)
    return;
  for (uint32_t i = 0; i < o->n_plans; i++)
    sc_restore_operator_destroy(o->plans[i]);
  free(o->plans);
  sc_inflight_plan_destroy(o->inflight);
  sc_metadata_destroy(o->metadata);
  free(o->dir);
  free(o);
}

/* From here on attempts begin from it; those that run keep what they began from. */
static void adopt(sc_job_t *job, back_t *b) {
  sc__origin_unref(job->origin);
  job->origin = sc_calloc(1, sizeof *job->origin);
  *job->origin = (sc_origin_t){.refs = 1, .metadata = b->metadata, .dir = b->dir,
                                .owned = b->owned};
  *b = (back_t){0};
}

/* The newest checkpoint of which a sink has committed something: one of the regions that go back
 * (NULL: of all), since what the others have committed they do not emit again. */
static int highest_committed(sc_job_t *job, const bool *regions, uint64_t *highest,
                             sc_error_t *err) {
  *highest = SC_COMMITTED_NOTHING;
  for (uint32_t i = 0; i < job->graph->n_nodes; i++) {
    const sc_node_t *n = &job->graph->nodes[i];
    if (!n->type->highest_committed || (regions && !regions[job->layout->of_node[i]]))
      continue;
    int64_t id = n->type->highest_committed(n->data, sc_buf_bytes(&n->options), job->id, n->uid,
                                            job->world->storage, err);
    if (id < 0)
      return (int)id;
    if ((uint64_t)id > *highest)
      *highest = (uint64_t)id;
  }
  return 0;
}

static void log_scan(sc_job_t *job, const sc_job_scan_t *scan) {
  for (uint32_t i = 0; i < scan->n; i++)
    if (scan->list[i].state == SC_FOUND_DAMAGED)
      sc__job_log(job, SC_LOG_WARN, scan->list[i].id, NULL, "is damaged: %s",
                  scan->list[i].error.message ? scan->list[i].error.message : "unreadable");
}

static void log_emitted_again(sc_job_t *job, uint64_t id, uint64_t highest) {
  if (highest > id)
    sc__job_log(job, SC_LOG_WARN, id, NULL, "a sink has committed checkpoint %" PRIu64
                ": what was committed since will be emitted again", highest);
}

static void take_found(sc_job_t *job, sc_job_scan_t *scan, const sc_found_t *found,
                       uint64_t highest, back_t *out) {
  const sc_found_t *newest = &scan->list[scan->n - 1];
  for (; newest->state == SC_FOUND_NOTHING; newest--) {
    /* found itself ends this at the latest */
  }
  if (newest != found)
    sc__job_log(job, SC_LOG_WARN, found->id, NULL,
                "is taken instead of the damaged checkpoint %" PRIu64, newest->id);
  log_emitted_again(job, found->id, highest);
  sc_found_t *mine = &scan->list[found - scan->list];
  out->metadata = mine->metadata;
  mine->metadata = NULL;
  out->dir = sc_job_dir_checkpoint(job->dir, mine->id);
  out->owned = true;
}

/* The newest safe one in the job's folder: 1 and *out, 0 where there is none, or a refusal. With
 * `owned`, all valid ones up to it count for `retain`: the job goes on as their owner. */
static int choose_newest(sc_job_t *job, const bool *regions, sc_job_look_t look, bool owned,
                         back_t *out, sc_error_t *err) {
  sc_job_scan_t *scan;
  uint64_t highest;
  const sc_found_t *found = NULL;
  int rc = sc_job_scan(job->storage, job->path, look, &scan, err);
  if (rc < 0)
    return rc;
  log_scan(job, scan);
  rc = highest_committed(job, regions, &highest, err);
  if (rc >= 0)
    rc = sc_job_scan_choose(scan, job->options.fallback_older, highest, &found, err);
  for (uint32_t i = 0; rc > 0 && owned && i < scan->n; i++)
    if (scan->list[i].state == SC_FOUND_VALID && scan->list[i].id <= found->id) {
      sc_coordinator_add_completed(job->coordinator, scan->list[i].id);
      sc__job_note_inflight(job, scan->list[i].metadata);
    }
  if (rc > 0)
    take_found(job, scan, found, highest, out);
  sc_job_scan_destroy(scan);
  return rc;
}

/* The folder of a snapshot that is called by it or by its _metadata. malloc'ed. */
static char *snapshot_folder(const char *path) {
  size_t n = strlen(path), tail = strlen(SC_METADATA_NAME);
  while (n > 1 && path[n - 1] == '/')
    n--;
  if (n == tail && strncmp(path, SC_METADATA_NAME, tail) == 0)
    return sc_strdup(".");
  if (n > tail && strncmp(path + n - tail, SC_METADATA_NAME, tail) == 0 &&
      path[n - tail - 1] == '/')
    n -= tail;
  while (n > 1 && path[n - 1] == '/')
    n--;
  return sc_strndup(path, n);
}

static int verify(sc_job_t *job, const char *dir, const sc_metadata_t *m, bool full,
                  sc_error_t *err) {
  char *parent = sc_path_join(dir, ".."); /* where the files of finished tasks lie beside it */
  int rc = sc_metadata_verify(job->storage, dir, parent, m, full, err);
  free(parent);
  return rc;
}

/* A path is the user's word, but not for emitting twice what a sink has committed. */
static int check_committed(sc_job_t *job, const bool *regions, uint64_t id, sc_error_t *err) {
  uint64_t highest;
  int rc = highest_committed(job, regions, &highest, err);
  if (rc < 0 || highest <= id)
    return rc;
  if (!job->options.fallback_older)
    return sc_fail(err, SC_EEXIST, "a sink has committed checkpoint %" PRIu64 "; going back to "
                   "checkpoint %" PRIu64 " would emit again what was committed since "
                   "(fallback = \"older\" allows it)", highest, id);
  log_emitted_again(job, id, highest);
  return 0;
}

static int choose_path(sc_job_t *job, const char *path, back_t *out, sc_error_t *err) {
  out->dir = snapshot_folder(path);
  int rc = sc_metadata_read(job->storage, out->dir, &out->metadata, err);
  if (rc == SC_ENOTFOUND)
    return sc_fail_cause(err, rc, "%s is no checkpoint: from takes a folder such as "
                         "DIR/JOB-ID/chk-7, or \"latest\" for the newest", path);
  if (rc >= 0)
    rc = verify(job, out->dir, out->metadata, false, err);
  return rc < 0 ? rc : check_committed(job, NULL, out->metadata->id, err);
}

/* Its _metadata may have been renamed by a process that died before it synced the folder: what is
 * committed outside on the strength of it must not outlive it. A folder of somebody else's, which
 * may only be read, is not ours to make safe. */
static int make_safe(sc_job_t *job, const back_t *b, sc_error_t *err) {
  int rc = job->storage->ops->sync_dir(job->storage, b->dir, err);
  if (rc != SC_EACCESS)
    return rc;
  sc_error_clear(err);
  return 0;
}

int sc__job_choose(sc_job_t *job, sc_error_t *err) {
  const char *from = job->options.from;
  back_t b = {0};
  if (!from)
    return 0;
  if (strcmp(from, "latest") == 0 && !job->dir)
    return sc_fail(
        err, SC_EINVAL,
        "from = \"latest\" needs checkpoint.dir: without it there is nothing to begin from");
  int rc = strcmp(from, "latest") == 0 ? choose_newest(job, NULL, SC_LOOK_LENGTHS, true, &b, err)
                                       : choose_path(job, from, &b, err);
  if (rc >= 0 && b.metadata)
    rc = make_safe(job, &b, err);
  if (rc >= 0 && b.metadata) {
    adopt(job, &b);
    const sc_metadata_t *m = job->origin->metadata;
    sc__job_note_inflight(job, m);
    sc__job_log(job, SC_LOG_INFO, m->id, NULL, "restoring from %s (attempt %" PRIu64 " of job %s)",
                job->origin->dir, m->attempt, m->job_id);
  }
  back_fini(&b);
  return rc < 0 ? rc : 0;
}

/* ---- the next attempt ---- */

typedef struct reopen {
  bool *regions;    /* that go back; layout->n */
  uint64_t id;      /* completed since `origin` was chosen: go back to it; 0: to `origin` again */
  uint64_t latest;  /* newest completed */
  bool owned;       /* there are checkpoints of the job's folder to choose from */
  bool suspect;     /* restoring from `origin` has failed as if it was damaged */
  uint64_t attempt;
  back_t back;      /* out; empty: `origin` */
  bool damaged;     /* out, of a failure: no later try can do better */
} reopen_t;

static bool is_damage(int rc) {
  return rc == SC_ECORRUPT || rc == SC_ENOTFOUND || rc == SC_EVERSION;
}

/* To `origin` again, which does not change while the job reopens. Where it is an older one that
 * another region has had to take, the sinks of these may have committed more since. */
static int look_at_origin(sc_job_t *job, reopen_t *r, sc_error_t *err) {
  const sc_origin_t *o = job->origin;
  if (o && r->owned && o->metadata->id < r->latest) {
    int rc = check_committed(job, r->regions, o->metadata->id, err);
    if (rc < 0)
      return rc;
  }
  return r->suspect ? verify(job, o->dir, o->metadata, true, err) : 0;
}

/* Is the one to go back to, the newest, as it was written? */
static int look_at_newest(sc_job_t *job, reopen_t *r, sc_error_t *err) {
  if (!r->id)
    return look_at_origin(job, r, err);
  r->back.dir = sc_job_dir_checkpoint(job->dir, r->id);
  r->back.owned = true;
  int rc = sc_metadata_read(job->storage, r->back.dir, &r->back.metadata, err);
  return rc < 0 ? rc : verify(job, r->back.dir, r->back.metadata, false, err);
}

/* It is damaged: an older one, if that is safe. None at all is no reason to begin anew. */
static int choose_again(sc_job_t *job, reopen_t *r, sc_error_t *err) {
  sc_error_t why = SC_ERROR_INIT;
  back_fini(&r->back);
  int rc = choose_newest(job, r->regions, SC_LOOK_CHECKSUMS, false, &r->back, &why);
  if (rc > 0)
    sc_error_clear(err);
  else if (rc < 0 && err)
    sc_error_move(err, &why);
  sc_error_clear(&why);
  return rc > 0 ? 0 : rc < 0 ? rc : SC_ENOTFOUND;
}

static int run_reopen(sc_job_t *job, void *arg, sc_error_t *err) {
  reopen_t *r = arg;
  const sc_metadata_t *origin = job->origin ? job->origin->metadata : NULL;
  int rc = job->dir ? sc_job_dir_next_attempt(job->dir, &r->attempt, err) : 0;
  if (rc < 0)
    return rc;
  rc = look_at_newest(job, r, err);
  if (is_damage(rc) && r->owned)
    rc = choose_again(job, r, err);
  if (rc >= 0 && r->back.metadata)
    rc = make_safe(job, &r->back, err);
  r->damaged = is_damage(rc);
  if (rc < 0 || (r->suspect && !r->back.metadata))
    return rc;
  return sc__job_prepare(job, SC_PLANTED(REGION_SWEEPS) ? NULL : r->regions,
                         r->back.metadata ? r->back.metadata : origin, err);
}

/* What they restored from is not what is wrong: it was read from the first to the last byte. */
static void found_sound(sc_job_t *job, const reopen_t *r) {
  for (uint32_t i = 0; i < job->layout->n; i++)
    if (r->regions[i]) {
      job->regions[i].suspect = false;
      job->regions[i].state = SC_REGION_DOWN; /* so the strategy decides */
    }
}

static void reopened(sc_job_t *job, const reopen_t *r) {
  for (uint32_t i = 0; i < job->layout->n; i++)
    if (r->regions[i])
      sc__view_rewind(&job->regions[i], job->origin ? job->origin->metadata->id : 0);
  job->restored_latest = sc_coordinator_latest(job->coordinator);
  sc__regions_begin(job, r->regions);
}

static void done_reopen(sc_job_t *job, void *arg, int rc, sc_error_t *err) {
  reopen_t *r = arg;
  job->reopening = false;
  job->attempt_number = r->attempt;
  bool hopeless = r->damaged ||
                  !(rc == SC_EIO || rc == SC_ENOSPACE || rc == SC_EACCESS || rc == SC_ENOTFOUND);
  bool sound = r->suspect && rc >= 0 && !r->back.metadata;
  if (rc >= 0 && r->back.metadata) {
    adopt(job, &r->back);
    rc = sc__job_plan(job, err);
  }
  bool ending = job->canceling || job->failing; /* nothing begins any more */
  if (!ending && sound)
    found_sound(job, r);
  else if (!ending && rc >= 0)
    reopened(job, r);
  else if (!ending)
    sc__regions_fail(job, r->regions, hopeless, err);
  back_fini(&r->back);
  free(r->regions);
  free(r);
}

void sc__job_reopen(sc_job_t *job) {
  reopen_t *r = sc_calloc(1, sizeof *r);
  job->reopening = true;
  r->regions = sc_calloc(job->layout->n, sizeof *r->regions);
  for (uint32_t i = 0; i < job->layout->n; i++) {
    const sc_region_t *region = &job->regions[i];
    r->regions[i] = region->state == SC_REGION_REOPENING;
    r->suspect |= r->regions[i] && region->suspect;
  }
  r->latest = sc_coordinator_latest(job->coordinator);
  /* What it began from stays the point to go back to until a checkpoint of its own completes. */
  r->id = r->latest == job->restored_latest ? 0 : r->latest;
  r->owned = r->latest != 0;
  r->attempt = job->attempt_number + 1;
  sc__job_file_work(job, run_reopen, done_reopen, r);
}
