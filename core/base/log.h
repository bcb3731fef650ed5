/*
 * log: one line an event, with time, level, job, attempt, checkpoint, task.
 *
 * A log is a set of sinks (stderr from a level on; a file, rotated). Lines look like
 *   2026-11-30T03:15:45.123Z INFO  [visits #1 chk 42] visits (visits) 2/4: text
 * where absent parts are left out. Writing a line never blocks on anything but the write itself
 * and never fails the caller; a sink that cannot be written is dropped with one line on stderr.
 *
 * Threads: sc_log_write from any thread (one lock around the write). Ownership: create/destroy.
 */
#ifndef SC_BASE_LOG_H
#define SC_BASE_LOG_H

#include <stdarg.h>
#include <stdint.h>

#include "error.h"

typedef enum { SC_LOG_DEBUG, SC_LOG_INFO, SC_LOG_WARN, SC_LOG_ERROR, SC_LOG_OFF } sc_log_level_t;

typedef struct sc_log sc_log_t;

/* Where a line comes from; all fields optional (NULL or 0). Borrowed for the call. */
typedef struct sc_log_where {
  const char *job;
  uint64_t attempt;
  uint64_t checkpoint;
  const char *task;
} sc_log_where_t;

/* A log whose lines get their time from now_ms(arg). stderr gets `stderr_level` and above. */
sc_log_t *sc_log_create(int64_t (*now_ms)(void *arg), void *arg, sc_log_level_t stderr_level);
/* Also append lines from `level` on to the file (its folder must exist); at max_bytes (0 = 16 MiB)
 * it is renamed to PATH.1, PATH.1 to PATH.2, and a new one begun. */
int sc_log_open_file(sc_log_t *log, const char *path, sc_log_level_t level, uint64_t max_bytes,
                     sc_error_t *err);
/* Also give lines from `level` on to `line` (text without its line end, under the log's lock). */
void sc_log_tap(sc_log_t *log, void (*line)(void *arg, const char *text), void *arg,
                sc_log_level_t level);
void sc_log_destroy(sc_log_t *log);

/* log NULL is fine: nothing is written. where NULL: no names. */
void sc_log_write(sc_log_t *log, sc_log_level_t level, const sc_log_where_t *where,
                  const char *format, ...) __attribute__((format(printf, 4, 5)));

/* "debug" "info" "warn" "error" "off" -> level; -1 for anything else. */
int sc_log_level_from_name(const char *name);

#endif
