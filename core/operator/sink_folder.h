/*
 * sink_folder: the names of a file sink's parts, and what may be done to a folder before a start.
 *
 * A part goes through three names in the sink's folder; readers look at the last one only:
 *
 *   .JOB.UID.SUBTASK.ATTEMPT.SEQ.inprogress   being written
 *   .JOB.UID.CHECKPOINT.SUBTASK.pending       whole and safe, waits for its checkpoint
 *   JOB.UID.CHECKPOINT.SUBTASK.EXT            committed; the checkpoint has 10 digits at least, so
 *                                             that names sort as they were written
 *
 * Checkpoint 0 means "without checkpoints". Where a committed name is taken already (by an earlier
 * run whose ids began anew, in a folder that is appended to) "-2", "-3" ... follows SUBTASK.
 * JOB and UID are slugs: what is not a letter, digit, "_" or "-" becomes "_", and a text that had
 * to be changed, or is longer than 64 bytes, ends in "-" and 8 digits of its checksum, so that two
 * jobs never share a slug.
 *
 * Threads: calls on storage block: pool, or start-up. Ownership: names are the caller's (free).
 */
#ifndef SC_OPERATOR_SINK_FOLDER_H
#define SC_OPERATOR_SINK_FOLDER_H

#include "../base/buf.h"
#include "../base/error.h"
#include "../snapshot/storage.h"

/* What a fresh start does with parts that an earlier run of the same job and uid committed. */
typedef enum { SC_SINK_REFUSE, SC_SINK_OVERWRITE, SC_SINK_APPEND } sc_sink_existing_t;

char *sc_sink_slug(const char *text);
char *sc_sink_prefix(const char *job_id, const char *uid); /* "JOB.UID." */
char *sc_sink_inprogress_name(const char *prefix, uint32_t subtask, uint64_t attempt,
                              uint64_t seq);
char *sc_sink_pending_name(const char *prefix, uint64_t id, uint32_t subtask);
/* The committed name, made different from every file that is in the folder now. */
int sc_sink_final_name(sc_storage_t *s, const char *dir, const char *prefix, uint64_t id,
                       uint32_t subtask, const char *ext, char **out, sc_error_t *err);

/* Some names, in any order. */
typedef struct sc_sink_names {
  char **names;  /* owned; sorted by sc_sink_prepare */
  uint32_t n;
} sc_sink_names_t;
void sc_sink_names_add(sc_sink_names_t *names, char *name); /* takes it; NULL is ignored */
void sc_sink_names_fini(sc_sink_names_t *names);

/* Make the folder usable before anything runs: create it, see that it can be written to, and sweep
 * what is of no use any more: files in progress, and pending ones that no checkpoint which stands
 * has `promised`. A fresh start with committed parts there: SC_EEXIST, or all parts are removed, or
 * kept. */
int sc_sink_prepare(sc_storage_t *s, const char *dir, const char *prefix, bool fresh,
                    sc_sink_names_t *promised, sc_sink_existing_t existing, sc_error_t *err);
/* Highest checkpoint with a committed part: its id, 0 where there is none (nor a folder). */
int sc_sink_highest(sc_storage_t *s, const char *dir, const char *prefix, uint64_t *id,
                    sc_error_t *err);

#endif
