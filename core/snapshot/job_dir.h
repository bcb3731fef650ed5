/*
 * job_dir: what lies in a job's folder, DIR/JOB-ID/.
 *
 *   lock         held with flock while the job runs; the pid as text
 *   ids          "checkpoint N\nattempt M\n": the highest id that may have been used, and the
 *                highest attempt that was begun; published and synced before either is used
 *   chk-N/       a checkpoint: _metadata (last) and its private files
 *   shared/ taskowned/ log*     never touched here
 *
 * Promises: no id and no attempt number is used twice, whatever ends the process when. Nothing that
 * a _metadata lists is deleted while that _metadata stands, also where it lies in an older chk-N (a
 * finished task's files, a rest of in-flight data); where a _metadata cannot be read, its folder
 * and all older ones are left alone. A checkpoint goes _metadata first, so that what is half
 * deleted is no checkpoint.
 *
 * Threads: all calls block (I/O pool, start-up). sc_job_dir_reserve and next_attempt may be called
 * from any; the others one at a time. Ownership: open/close; a scan is a value of its own.
 * Failure: the storage's codes with the path; SC_ELOCKED names the process that runs the job.
 */
#ifndef SC_SNAPSHOT_JOB_DIR_H
#define SC_SNAPSHOT_JOB_DIR_H

#include "metadata.h"

#define SC_IDS_RESERVED 1000 /* ids reserved at a time */

typedef struct sc_job_dir sc_job_dir_t;

/* Make DIR/JOB-ID where it is missing, lock it, read `ids` and the names of the checkpoints. */
int sc_job_dir_open(sc_storage_t *s, const char *dir, const char *job_id, sc_job_dir_t **out,
                    sc_error_t *err);
void sc_job_dir_close(sc_job_dir_t *d); /* gives up the lock; NULL is fine */
const char *sc_job_dir_path(const sc_job_dir_t *d);

/* Highest id that was reserved or found: ids begin above it. */
uint64_t sc_job_dir_highest_id(sc_job_dir_t *d);
/* Make the reservation of ids up to `up_to` durable; one that is lower does nothing. */
int sc_job_dir_reserve(sc_job_dir_t *d, uint64_t up_to, sc_error_t *err);
/* The next attempt's number, durable when this returns; the first is 1. */
int sc_job_dir_next_attempt(sc_job_dir_t *d, uint64_t *attempt, sc_error_t *err);

/* The folder of a checkpoint: its path (malloc'ed), and made durably. SC_ENOTFOUND where the job's
 * folder itself is gone. */
char *sc_job_dir_checkpoint(const sc_job_dir_t *d, uint64_t id);
int sc_job_dir_prepare(sc_job_dir_t *d, uint64_t id, sc_error_t *err);

/* Delete a checkpoint, complete or not: _metadata first, its name durably gone; then what it listed
 * and all else in its folder, except what another _metadata lists; then folders that are empty.
 * Absent: 0. What stays for an error is swept at the next start. */
int sc_job_dir_delete(sc_job_dir_t *d, uint64_t id, sc_error_t *err);
/* Delete the files of a snapshot that came too late for checkpoint id. */
int sc_job_dir_discard(sc_job_dir_t *d, uint64_t id, const sc_task_snapshot_t *snap,
                       sc_error_t *err);

/* ---- what is there ---- */

typedef enum {
  SC_FOUND_NOTHING, /* no _metadata: not a checkpoint, only a folder of that name */
  SC_FOUND_DAMAGED, /* it, or a file that it lists, is damaged, too new, or cannot be read */
  SC_FOUND_VALID
} sc_found_state_t;

typedef struct sc_found {
  uint64_t id;               /* of chk-ID */
  sc_found_state_t state;
  sc_metadata_t *metadata;   /* VALID; also DAMAGED where only a file that it lists is */
  sc_error_t error;          /* DAMAGED: what is wrong */
} sc_found_t;

typedef struct sc_job_scan {
  sc_found_t *list;          /* n of them, by id */
  uint32_t n;
} sc_job_scan_t;

typedef enum {
  SC_LOOK_METADATA,  /* at _metadata only */
  SC_LOOK_LENGTHS,   /* the files that it lists must be there with their lengths, too */
  SC_LOOK_CHECKSUMS  /* and every byte of them be as it was written: reads everything */
} sc_job_look_t;

/* Look at all chk-N of a job's folder; needs no lock. An absent folder holds none. */
int sc_job_scan(sc_storage_t *s, const char *path, sc_job_look_t look, sc_job_scan_t **out,
                sc_error_t *err);
void sc_job_scan_destroy(sc_job_scan_t *scan); /* NULL is fine */

#define SC_COMMITTED_NOTHING 0          /* no sink has committed anything */
#define SC_COMMITTED_UNKNOWN UINT64_MAX /* nobody can say: a damaged checkpoint may not be passed */

/* Which checkpoint a start goes back to: 1 and *out (in the scan), 0 where there is none at all, or
 * a refusal that names both ids. The newest valid one; but one that is older than a damaged one, or
 * than one that a sink has committed, only where no sink has committed anything newer
 * (`highest_committed`), or when told so (`older`: the user's fallback = "older"). Where a newer
 * one cannot be read for another reason than damage (SC_EIO, SC_EACCESS ...), a start goes back
 * only when told so: it may be whole, and the next start would take it. */
int sc_job_scan_choose(const sc_job_scan_t *scan, bool older, uint64_t highest_committed,
                       const sc_found_t **out, sc_error_t *err);

/* 0, or a refusal that names a checkpoint above `above` which cannot be read now for another reason
 * than damage: nobody knows what it holds and promises. */
int sc_job_scan_unread(const sc_job_scan_t *scan, uint64_t above, sc_error_t *err);

/* Remove what no _metadata lists: files of chk-N folders without one, and temporary files of what
 * was being published. `removed` (may be NULL) counts files. */
int sc_job_dir_sweep(sc_job_dir_t *d, uint64_t *removed, sc_error_t *err);

#endif
