/*
 * file_source: the lines of files, each file one split.
 *
 * Options: paths (array of strings, required; none is an input without records), position (bool).
 * A line is what lies before "\n", without one trailing "\r"; bytes are passed on as they are. What
 * follows the last "\n" is a line, too, unless it is empty; empty lines before that are lines. A
 * line becomes a str or, with position, a map {file = path, line = number from 1, text = line}.
 * A file ends where it ends when the reader gets there: what is appended later is not read.
 *
 * State: list "splits" (split), {line, offset, path} for each split that is not finished: `line`
 * lines were emitted, and the next one begins at byte `offset`.
 *
 * Files are read through the world's storage, so prepare (at a fresh start) is where a path is
 * checked, before anything runs: a path that is missing or a folder is refused there by name.
 *
 * Threads: the slot's; list_splits and prepare run in the pool.
 * Failure: SC_EINVAL for options; SC_ENOTFOUND, SC_EINVAL, SC_EACCESS, SC_EIO with the path;
 * SC_ESTATE where a file to go on with is gone or too short; SC_ELIMIT for a line of more
 * than 64 MiB, with path and line.
 */
#ifndef SC_OPERATOR_FILE_SOURCE_H
#define SC_OPERATOR_FILE_SOURCE_H

#include "../runtime/operator.h"

#define SC_LINE_MAX (64u << 20) /* bytes of a line without its end */

extern const sc_operator_type_t sc_file_source_type;

#endif
