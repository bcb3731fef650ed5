#include "file_source.h"

#include <inttypes.h>

#include "../base/mem.h"
#include "../snapshot/storage.h"
#include "options.h"

#define READ_SIZE (256u << 10)

typedef struct file_split {
  char *path;
  int64_t offset; /* the next line begins here */
  int64_t line;   /* lines emitted */
} file_split_t;

typedef struct file_source {
  sc_operator_t op;
  bool position;        /* emit maps with file and line */
  bool no_more;         /* the enumerator has no further split */
  file_split_t *splits; /* unfinished ones; the first is being read */
  uint32_t n_splits;
  sc_file_t *file;      /* of splits[0]; NULL while it is not open */
  sc_buf_t buffer;      /* bytes of the file from `base` on */
  int64_t size;         /* of the file, when it was opened */
  int64_t base;         /* file offset of buffer.data[0] */
  size_t start;         /* in the buffer: the next line begins here */
  size_t scanned;       /* in the buffer: no "\n" lies between start and here */
  bool at_end;          /* the file has no bytes behind the buffer */
  sc_buf_t out;         /* the emitted value */
} file_source_t;

static sc_storage_t *storage_of(file_source_t *s) {
  return s->op.context->world->storage;
}

/* ---- options, before anything runs ---- */

/* Call each(arg, path) for the paths of the options; ends at the first negative result. */
static int each_path(sc_bytes_t options, int (*each)(void *arg, sc_bytes_t path, sc_error_t *err),
                     void *arg, sc_error_t *err) {
  sc_options_t o = {"file_source", options};
  sc_bytes_t body = {0};
  uint32_t n = 0;
  int rc = sc_options_array(&o, "paths", &body, &n, err);
  if (rc <= 0)
    return rc < 0 ? rc : sc_options_missing(&o, "paths", err);
  sc_cursor_t c = sc_cursor(body);
  for (uint32_t i = 0; i < n; i++) {
    sc_token_t t;
    if (sc_cursor_next(&c, &t) <= 0 || t.type != SC_STR || t.s.len == 0 ||
        memchr(t.s.data, 0, t.s.len))
      return sc_fail(err, SC_EINVAL, "file_source: entry %" PRIu32 " of paths is no path", i + 1);
    rc = each(arg, t.s, err);
    if (rc < 0)
      return rc;
  }
  return (int)n;
}

static int accept_path(void *arg, sc_bytes_t path, sc_error_t *err) {
  return 0;
}

static int pack_split(void *arg, sc_bytes_t path, sc_error_t *err) {
  sc_buf_t *out = arg;
  sc_pack_map(out, 1);
  sc_pack_cstr(out, "path");
  sc_pack_str(out, path);
  return 0;
}

static int list_splits(void *data, sc_bytes_t options, uint32_t parallelism, void *host,
                       sc_buf_t *out, sc_error_t *err) {
  int n = each_path(options, accept_path, NULL, err);
  if (n < 0)
    return n;
  sc_pack_array(out, (uint32_t)n);
  each_path(options, pack_split, out, NULL);
  return 0;
}

static int check_file(sc_storage_t *storage, const char *path, sc_error_t *err) {
  int kind = storage->ops->kind(storage, path, err);
  if (kind == 0)
    sc_fail(err, kind = SC_ENOTFOUND, "there is no file %s to read from", path);
  else if (kind == 2)
    sc_fail(err, kind = SC_EINVAL, "%s is a folder, but file_source reads files", path);
  if (kind < 0)
    sc_error_set_file(err, path);
  return kind < 0 ? kind : 0;
}

static int check_path(void *arg, sc_bytes_t path, sc_error_t *err) {
  char *text = sc_strndup((const char *)path.data, path.len);
  int rc = check_file(arg, text, err);
  free(text);
  return rc;
}

/* Only at a fresh start: later, a file that was read to its end may be gone. */
static int prepare(void *data, sc_bytes_t options, const char *job_id, const char *uid,
                   const sc_past_t *past, sc_storage_t *storage, sc_error_t *err) {
  int rc = past->fresh ? each_path(options, check_path, storage, err) : 0;
  return rc < 0 ? rc : 0;
}

/* ---- splits ---- */

static int push_split(void *op, sc_bytes_t item, sc_error_t *err) {
  file_source_t *s = op;
  file_split_t split = {
      .path = sc_value_field_str(item, "path"),
      .offset = sc_value_field_int(item, "offset", 0),
      .line = sc_value_field_int(item, "line", 0),
  };
  if (!split.path || split.offset < 0 || split.line < 0) {
    free(split.path);
    return sc_fail(err, SC_ECORRUPT, "%s: a split is damaged", s->op.context->label);
  }
  s->splits = sc_realloc(s->splits, (s->n_splits + 1) * sizeof *s->splits);
  s->splits[s->n_splits++] = split;
  return 0;
}

static int add_split(sc_operator_t *op, sc_bytes_t split, sc_error_t *err) {
  return push_split(op, split, err);
}

static void no_more_splits(sc_operator_t *op) {
  ((file_source_t *)op)->no_more = true;
}

static void close_file(file_source_t *s) {
  if (s->file)
    storage_of(s)->ops->close(s->file);
  s->file = NULL;
}

static void finish_split(file_source_t *s) {
  close_file(s);
  free(s->splits[0].path);
  s->n_splits--;
  memmove(s->splits, s->splits + 1, s->n_splits * sizeof *s->splits);
}

/* Open splits[0] where it goes on. */
static int open_split(file_source_t *s, sc_error_t *err) {
  const file_split_t *split = &s->splits[0];
  sc_storage_t *storage = storage_of(s);
  int rc = check_file(storage, split->path, err);
  if (rc == 0)
    rc = storage->ops->open(storage, split->path, &s->file, err);
  if (rc == SC_ENOTFOUND) { /* it was there when the job first began */
    rc = sc_fail(err, SC_ESTATE,
                 "there is no file %s any more, and reading goes on at its byte %" PRId64,
                 split->path, split->offset);
    sc_error_set_file(err, split->path);
  }
  if (rc < 0)
    return rc;
  s->base = split->offset;
  s->start = s->scanned = 0;
  s->at_end = false;
  sc_buf_clear(&s->buffer);
  int64_t size = s->size = storage->ops->size(s->file, err);
  if (size < 0)
    return (int)size;
  if (size < split->offset) {
    sc_fail(err, SC_ESTATE,
            "%s has %" PRId64 " bytes, but reading goes on at byte %" PRId64
            ": the file was changed since the checkpoint",
            split->path, size, split->offset);
    sc_error_set_file(err, split->path);
    return SC_ESTATE;
  }
  return 0;
}

/* ---- lines ---- */

/* Read on behind the buffer, whose used part is given up first. */
static int fill(file_source_t *s, sc_error_t *err) {
  if (s->start > 0) {
    s->buffer.len -= s->start;
    memmove(s->buffer.data, s->buffer.data + s->start, s->buffer.len);
    s->base += (int64_t)s->start;
    s->scanned -= s->start;
    s->start = 0;
  }
  uint8_t *to = sc_buf_reserve(&s->buffer, READ_SIZE);
  uint64_t offset = (uint64_t)s->base + s->buffer.len;
  int64_t n = storage_of(s)->ops->read(s->file, offset, to, READ_SIZE, err);
  if (n < 0) {
    sc_error_set_file(err, s->splits[0].path);
    return (int)n;
  }
  s->buffer.len += (size_t)n;
  s->at_end = n == 0;
  return 0;
}

static int too_long(file_source_t *s, sc_error_t *err) {
  const file_split_t *split = &s->splits[0];
  sc_fail(err, SC_ELIMIT, "line %" PRId64 " of %s is longer than %u bytes", split->line + 1,
          split->path, SC_LINE_MAX);
  sc_error_set_file(err, split->path);
  return SC_ELIMIT;
}

/* The next line, without its end: 1, or 0 where the file has no further one. */
static int next_line(file_source_t *s, sc_bytes_t *line, sc_error_t *err) {
  for (;;) {
    size_t more = s->buffer.len - s->scanned;
    uint8_t *end = more ? memchr(s->buffer.data + s->scanned, '\n', more) : NULL;
    size_t stop = end ? (size_t)(end - s->buffer.data) : s->buffer.len;
    /* One byte more than the limit may be the "\r" that does not count. */
    if (stop - s->start > SC_LINE_MAX + 1)
      return too_long(s, err);
    if (end || (s->at_end && stop > s->start)) {
      *line = sc_bytes(s->buffer.data + s->start, stop - s->start);
      s->start = s->scanned = end ? stop + 1 : stop;
      if (line->len > 0 && line->data[line->len - 1] == '\r')
        line->len--;
      return line->len > SC_LINE_MAX ? too_long(s, err) : 1;
    }
    if (s->at_end)
      return 0;
    s->scanned = stop;
    int rc = fill(s, err);
    if (rc < 0)
      return rc;
  }
}

static void pack_line(file_source_t *s, sc_bytes_t line) {
  sc_buf_clear(&s->out);
  if (s->position) {
    /* In the byte order of the encoded keys, as every map is. */
    sc_pack_map(&s->out, 3);
    sc_pack_cstr(&s->out, "file");
    sc_pack_cstr(&s->out, s->splits[0].path);
    sc_pack_cstr(&s->out, "line");
    sc_pack_int(&s->out, s->splits[0].line);
    sc_pack_cstr(&s->out, "text");
  }
  sc_pack_str(&s->out, line);
}

static int poll_line(sc_operator_t *op, sc_item_t *out, sc_error_t *err) {
  file_source_t *s = (file_source_t *)op;
  if (s->n_splits == 0) {
    if (s->no_more)
      return SC_ENDED;
    op->context->services->ask_split(op->context);
    op->context->wake_at_ms = INT64_MAX;
    return SC_IDLE;
  }
  int rc = s->file ? 0 : open_split(s, err);
  if (rc < 0)
    return rc;
  sc_bytes_t line = {NULL, 0};
  rc = next_line(s, &line, err);
  if (rc == 0) {
    finish_split(s);
    return SC_DONE;
  }
  if (rc < 0)
    return rc;
  s->splits[0].offset = s->base + (int64_t)s->start;
  s->splits[0].line++;
  pack_line(s, line);
  *out = (sc_item_t){.bytes = sc_buf_bytes(&s->out)};
  return SC_EMIT;
}

/* ---- state ---- */

static int snapshot(sc_operator_t *op, uint64_t id, sc_snapshot_parts_t *parts, sc_error_t *err) {
  file_source_t *s = (file_source_t *)op;
  sc_buf_t item = SC_BUF_INIT;
  for (uint32_t i = 0; i < s->n_splits; i++) {
    sc_buf_clear(&item);
    sc_pack_map(&item, 3);
    sc_pack_cstr(&item, "line");
    sc_pack_int(&item, s->splits[i].line);
    sc_pack_cstr(&item, "path");
    sc_pack_cstr(&item, s->splits[i].path);
    sc_pack_cstr(&item, "offset");
    sc_pack_int(&item, s->splits[i].offset);
    sc_parts_list(parts, "splits", SC_LIST_SPLIT, sc_buf_bytes(&item));
  }
  sc_buf_free(&item);
  return 0;
}

static int restore(sc_operator_t *op, sc_bytes_t lists, sc_error_t *err) {
  return sc_lists_each(lists, "splits", push_split, op, op->context->label, err);
}

static void destroy(sc_operator_t *op) {
  file_source_t *s = (file_source_t *)op;
  while (s->n_splits > 0)
    finish_split(s);
  free(s->splits);
  sc_buf_free(&s->buffer);
  sc_buf_free(&s->out);
  free(s);
}

/* Of the file that is being read: others are not looked at before their turn. One that is being
 * written to may have more by now. */
static void pending(sc_operator_t *op, sc_pending_input_t *out) {
  const file_source_t *s = (const file_source_t *)op;
  int64_t left = s->file ? s->size - (s->base + (int64_t)s->start) : 0;
  if (s->file || s->n_splits == 0)
    out->bytes = left > 0 ? left : 0;
}

static const sc_operator_ops_t ops = {
    .poll = poll_line,
    .add_split = add_split,
    .no_more_splits = no_more_splits,
    .pending = pending,
    .restore = restore,
    .snapshot = snapshot,
    .destroy = destroy,
};

static int create(void *data, sc_bytes_t options, sc_op_context_t *context, sc_operator_t **out,
                  sc_error_t *err) {
  sc_options_t o = {"file_source", options};
  bool position = false;
  int rc = each_path(options, accept_path, NULL, err);
  if (rc >= 0)
    rc = sc_options_bool(&o, "position", &position, err);
  if (rc < 0)
    return rc;
  file_source_t *s = sc_calloc(1, sizeof *s);
  s->op = (sc_operator_t){&ops, context};
  s->position = position;
  *out = &s->op;
  return 0;
}

const sc_operator_type_t sc_file_source_type = {
    .kind = "file_source",
    .is_source = true,
    .replayable = true,
    .exactly_once = true,
    .create = create,
    .list_splits = list_splits,
    .in_pool = true,
    .prepare = prepare,
};
