/*
 * job_files: which files of a job's folder may go, and their going; inside this folder only.
 *
 * Kept is every file that a readable _metadata of the folder lists, and, where one cannot be read,
 * everything in its folder and in older ones: it may list files of those, and a newer program may
 * be able to read it.
 *
 * Nobody else has to be asked. The in-flight data that tasks read is listed by the snapshot which
 * they were restored from. It stands until a newer one is complete; and that one lists whatever a
 * task had not read when it started it, and so all that is still read. What a pending checkpoint
 * keeps a rest of, its predecessor lists, which stands until its own _metadata does: a newer one
 * that completes first aborts it. So the _metadata are the registry, and a crash finds it as it
 * was.
 *
 * Threads: one at a time; blocks. Ownership: kept is create/destroy. Failure: the storage's codes.
 */
#ifndef SC_SNAPSHOT_JOB_FILES_H
#define SC_SNAPSHOT_JOB_FILES_H

#include "job_dir.h"

typedef struct sc_kept sc_kept_t;

/* "chk-42" -> 42; false for every other name (leading zeros and ids of 2^63 or more too). */
bool sc__job_parse_name(const char *name, uint64_t *id);

/* `path` is the job's folder. *out is set in every case (NULL on failure). */
int sc__kept_create(sc_storage_t *s, const char *path, sc_kept_t **out, sc_error_t *err);
void sc__kept_destroy(sc_kept_t *kept); /* NULL is fine */

/* Remove what is not kept of chk-ID, and the folder if it is empty then. Adds the number of files
 * to *removed (may be NULL). */
int sc__job_remove_folder(sc_storage_t *s, const char *path, uint64_t id, const sc_kept_t *kept,
                          uint64_t *removed, sc_error_t *err);
/* Remove what is not kept of the files that m lists, and folders that are empty then. */
int sc__job_remove_listed(sc_storage_t *s, const char *path, const sc_metadata_t *m,
                          const sc_kept_t *kept, sc_error_t *err);
/* Remove a folder if it is there and empty. */
int sc__job_remove_empty(sc_storage_t *s, const char *path, sc_error_t *err);
/* sc_job_dir_sweep without the count's being optional. */
int sc__job_sweep(sc_storage_t *s, const char *path, const sc_kept_t *kept, uint64_t *removed,
                  sc_error_t *err);

#endif
