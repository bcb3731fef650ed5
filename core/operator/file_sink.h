/*
 * file_sink: values as lines of files, each exactly once, by commits in two phases.
 *
 * Options: dir (string, required), format ("json", the default, or "lines": strings as they are,
 * anything else as JSON), existing ("refuse", the default, "overwrite", "append": what a fresh
 * start does with parts that an earlier run of this job and uid committed). Parts of "json" end in
 * ".json", of "lines" in ".txt"; each value is followed by "\n". For names see sink_folder.h.
 *
 * At snapshot n the part being written is sealed and joins the pending ones; before n is
 * acknowledged the pool makes all pending ones durable (sink_part.h). When n is complete, pending
 * parts up to n are committed in order, in the pool; a part leaves the list when that is done. An
 * aborted checkpoint changes nothing: its part is committed with the next one that completes. A
 * notice that comes late finds nothing to do. A part without records makes no file.
 *
 * State: list "pending" (split), {id, file, final} for each part that was not committed. Restored
 * ones are committed at open, before any newer one, by whichever subtask got them; committing what
 * is committed already is fine, so it does not matter where a crash came.
 *
 * Without checkpoints there is one part for each subtask, committed when the input ends.
 *
 * Disk full and other failures: at a write they fail the task, at a sync they decline the
 * checkpoint and fail the task at the next one; nothing is acknowledged that is not on disk.
 *
 * The folder is read at prepare only. A start that goes back to an older checkpoint sweeps pending
 * parts that a newer one promised, and a fresh start those of all retained ones: these cannot be
 * restored afterwards without the error that their part is lost.
 *
 * Threads: the slot's, but for the works. Failure: SC_EINVAL for options, SC_EEXIST for a used
 * folder, storage's own; SC_ESTATE where a part that was promised is gone.
 */
#ifndef SC_OPERATOR_FILE_SINK_H
#define SC_OPERATOR_FILE_SINK_H

#include "../runtime/operator.h"

extern const sc_operator_type_t sc_file_sink_type;

/* The highest checkpoint of which a part is committed in dir for this job and uid, 0 if none. A
 * start from an older checkpoint would emit again what came after it. Negative: an error. */
int64_t sc_file_sink_highest_committed(sc_storage_t *storage, const char *dir, const char *job_id,
                                       const char *uid, sc_error_t *err);

#endif
