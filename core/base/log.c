#include "log.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "buf.h"
#include "mem.h"

#define DEFAULT_MAX_BYTES (16u << 20)
#define KEPT_FILES 2

struct sc_log {
  int64_t (*now_ms)(void *arg);
  void *arg;
  sc_log_level_t stderr_level;
  pthread_mutex_t lock; /* around everything below */
  FILE *file;           /* or NULL */
  char *path;
  sc_log_level_t file_level;
  uint64_t bytes, max_bytes;
  void (*tap)(void *arg, const char *text); /* or NULL */
  void *tap_arg;
  sc_log_level_t tap_level;
};

static const char *const level_names[] = {"debug", "info", "warn", "error", "off"};
static const char *const level_marks[] = {"DEBUG", "INFO ", "WARN ", "ERROR"};

sc_log_t *sc_log_create(int64_t (*now_ms)(void *arg), void *arg, sc_log_level_t stderr_level) {
  sc_log_t *log = sc_calloc(1, sizeof *log);
  log->now_ms = now_ms;
  log->arg = arg;
  log->stderr_level = stderr_level;
  log->file_level = SC_LOG_OFF;
  log->tap_level = SC_LOG_OFF;
  pthread_mutex_init(&log->lock, NULL);
  return log;
}

static int open_file(sc_log_t *log, sc_error_t *err) {
  log->file = fopen(log->path, "ae");
  if (!log->file) {
    int code = sc_error_from_errno(errno);
    return sc_fail(err, code, "cannot open the log file %s: %s", log->path, strerror(errno));
  }
  fseek(log->file, 0, SEEK_END);
  long at = ftell(log->file);
  log->bytes = at > 0 ? (uint64_t)at : 0;
  return 0;
}

int sc_log_open_file(sc_log_t *log, const char *path, sc_log_level_t level, uint64_t max_bytes,
                     sc_error_t *err) {
  pthread_mutex_lock(&log->lock);
  if (log->file)
    fclose(log->file);
  free(log->path);
  log->path = sc_strdup(path);
  log->file_level = level;
  log->max_bytes = max_bytes ? max_bytes : DEFAULT_MAX_BYTES;
  int rc = open_file(log, err);
  pthread_mutex_unlock(&log->lock);
  return rc;
}

void sc_log_tap(sc_log_t *log, void (*line)(void *arg, const char *text), void *arg,
                sc_log_level_t level) {
  log->tap = line;
  log->tap_arg = arg;
  log->tap_level = line ? level : SC_LOG_OFF;
}

void sc_log_destroy(sc_log_t *log) {
  if (!log)
    return;
  if (log->file)
    fclose(log->file);
  free(log->path);
  pthread_mutex_destroy(&log->lock);
  free(log);
}

/* PATH.1 -> PATH.2, PATH -> PATH.1, a new PATH. Failures cost old lines, never the new one. */
static void rotate(sc_log_t *log) {
  fclose(log->file);
  log->file = NULL;
  for (int i = KEPT_FILES; i >= 1; i--) {
    char *from = i == 1 ? sc_strdup(log->path) : sc_format("%s.%d", log->path, i - 1);
    char *to = sc_format("%s.%d", log->path, i);
    rename(from, to);
    free(from);
    free(to);
  }
  open_file(log, NULL);
}

static void put_time(sc_buf_t *line, int64_t ms) {
  time_t seconds = (time_t)(ms / 1000);
  struct tm tm;
  gmtime_r(&seconds, &tm);
  sc_buf_printf(line, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900, tm.tm_mon + 1,
                tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(ms % 1000));
}

static void put_where(sc_buf_t *line, const sc_log_where_t *where) {
  if (!where)
    return;
  if (where->job) {
    sc_buf_printf(line, " [%s", where->job);
    if (where->attempt)
      sc_buf_printf(line, " #%" PRIu64, where->attempt);
    if (where->checkpoint)
      sc_buf_printf(line, " chk %" PRIu64, where->checkpoint);
    sc_buf_puts(line, "]");
  }
  if (where->task)
    sc_buf_printf(line, " %s", where->task);
}

/* The line ends in "\n". */
static void write_line(sc_log_t *log, sc_log_level_t level, sc_buf_t *line) {
  if (level >= log->tap_level) {
    line->data[line->len - 1] = 0;
    log->tap(log->tap_arg, (const char *)line->data);
    line->data[line->len - 1] = '\n';
  }
  if (level >= log->stderr_level)
    fwrite(line->data, 1, line->len, stderr);
  if (level < log->file_level || !log->file)
    return;
  if (log->bytes + line->len > log->max_bytes && log->bytes)
    rotate(log);
  if (log->file && fwrite(line->data, 1, line->len, log->file) == line->len &&
      fflush(log->file) == 0) {
    log->bytes += line->len;
    return;
  }
  fprintf(stderr, "streamckpt: the log file %s cannot be written (%s) and is given up\n", log->path,
          strerror(errno));
  if (log->file)
    fclose(log->file);
  log->file = NULL;
}

void sc_log_write(sc_log_t *log, sc_log_level_t level, const sc_log_where_t *where,
                  const char *format, ...) {
  /* The levels are set before anything runs; reading them needs no lock. */
  if (!log ||
      (level < log->stderr_level && level < log->file_level && level < log->tap_level))
    return;
  sc_buf_t line = SC_BUF_INIT;
  put_time(&line, log->now_ms(log->arg));
  sc_buf_printf(&line, " %s", level_marks[level]);
  put_where(&line, where);
  sc_buf_puts(&line, where && (where->job || where->task) ? ": " : " ");
  va_list args;
  va_start(args, format);
  va_list again;
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, again);
  va_end(again);
  vsnprintf((char *)sc_buf_reserve(&line, (size_t)n + 1), (size_t)n + 1, format, args);
  va_end(args);
  line.len += (size_t)n;
  sc_buf_put_u8(&line, '\n');
  pthread_mutex_lock(&log->lock);
  write_line(log, level, &line);
  pthread_mutex_unlock(&log->lock);
  sc_buf_free(&line);
}

int sc_log_level_from_name(const char *name) {
  for (int i = SC_LOG_DEBUG; i <= SC_LOG_OFF; i++)
    if (strcmp(name, level_names[i]) == 0)
      return i;
  return -1;
}
