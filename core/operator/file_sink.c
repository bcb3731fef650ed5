#include "file_sink.h"

#include "../base/mem.h"
#include "json.h"
#include "options.h"
#include "sink_folder.h"
#include "sink_part.h"

#define WRITE_SIZE (64u << 10) /* bytes gathered before a write */

typedef struct file_sink_options {
  char *dir;
  bool lines; /* format: strings as they are */
  sc_sink_existing_t existing;
} file_sink_options_t;

/* Parts handed to the pool: made durable at a snapshot, or committed. */
typedef struct part_work {
  struct file_sink *sink; /* for `done` only: a work may outlive the operator */
  sc_storage_t *storage;
  char *dir;
  sc_sink_part_t **parts; /* references */
  uint32_t n;
} part_work_t;

typedef struct file_sink {
  sc_operator_t op;
  file_sink_options_t options;
  char *prefix;             /* of all names, sink_folder.h */
  sc_sink_part_t *part;     /* being written; NULL before its first write */
  uint64_t seq;             /* parts begun by this attempt */
  sc_buf_t buffer;          /* bytes of the part that are not written yet */
  sc_buf_t scratch;         /* an encoded value */
  sc_sink_part_t **pending; /* sealed and not committed, in the order of commits */
  uint32_t n_pending;
  uint64_t commit_upto;     /* checkpoints up to this one are to be committed */
  bool committing;          /* a commit is in the pool */
  bool failed;              /* one failed: the task fails, nothing more is begun */
} file_sink_t;

/* ---- options ---- */

static void options_fini(file_sink_options_t *o) {
  free(o->dir);
}

/* The index of a word option among `words`, or `otherwise` where it is not given. */
static int read_word(const sc_options_t *o, const char *name, const char *const *words,
                     int otherwise, sc_error_t *err) {
  char *text = NULL;
  int rc = sc_options_str(o, name, &text, err);
  if (rc <= 0)
    return rc < 0 ? rc : otherwise;
  for (rc = 0; words[rc]; rc++)
    if (strcmp(words[rc], text) == 0) {
      free(text);
      return rc;
    }
  sc_buf_t all = SC_BUF_INIT;
  for (int i = 0; words[i]; i++)
    sc_buf_printf(&all, "%s\"%s\"", i ? " or " : "", words[i]);
  sc_fail(err, SC_EINVAL, "%s: option %s must be %.*s, but it is \"%s\"", o->kind, name,
          (int)all.len, (const char *)all.data, text);
  sc_buf_free(&all);
  free(text);
  return SC_EINVAL;
}

static int read_options(sc_bytes_t options, file_sink_options_t *out, sc_error_t *err) {
  static const char *const formats[] = {"json", "lines", NULL};
  static const char *const existings[] = {"refuse", "overwrite", "append", NULL};
  sc_options_t o = {"file_sink", options};
  *out = (file_sink_options_t){0};
  int rc = sc_options_str(&o, "dir", &out->dir, err);
  if (rc == 0)
    rc = sc_options_missing(&o, "dir", err);
  int format = rc < 0 ? rc : read_word(&o, "format", formats, 0, err);
  int existing = format < 0 ? format : read_word(&o, "existing", existings, SC_SINK_REFUSE, err);
  if (existing < 0) {
    options_fini(out);
    return existing;
  }
  out->lines = format == 1;
  out->existing = (sc_sink_existing_t)existing;
  return 0;
}

static int add_promised(void *names, sc_bytes_t item, sc_error_t *err) {
  sc_sink_names_add(names, sc_value_field_str(item, "file"));
  return 0;
}

static int prepare(void *data, sc_bytes_t options, const char *job_id, const char *uid,
                   const sc_past_t *past, sc_storage_t *storage, sc_error_t *err) {
  file_sink_options_t o;
  sc_sink_names_t promised = {0};
  int rc = read_options(options, &o, err);
  if (rc < 0)
    return rc;
  for (uint32_t i = 0; rc >= 0 && i < past->n_lists; i++)
    rc = sc_lists_each(past->lists[i], "pending", add_promised, &promised, uid, err);
  char *prefix = sc_sink_prefix(job_id, uid);
  if (rc >= 0)
    rc = sc_sink_prepare(storage, o.dir, prefix, past->fresh, &promised, o.existing, err);
  free(prefix);
  sc_sink_names_fini(&promised);
  options_fini(&o);
  return rc;
}

int64_t sc_file_sink_highest_committed(sc_storage_t *storage, const char *dir, const char *job_id,
                                       const char *uid, sc_error_t *err) {
  char *prefix = sc_sink_prefix(job_id, uid);
  uint64_t id;
  int rc = sc_sink_highest(storage, dir, prefix, &id, err);
  free(prefix);
  return rc < 0 ? rc : (int64_t)id;
}

static int64_t highest_committed(void *data, sc_bytes_t options, const char *job_id,
                                 const char *uid, sc_storage_t *storage, sc_error_t *err) {
  file_sink_options_t o;
  int rc = read_options(options, &o, err);
  if (rc < 0)
    return rc;
  int64_t id = sc_file_sink_highest_committed(storage, o.dir, job_id, uid, err);
  options_fini(&o);
  return id;
}

/* ---- works for the pool ---- */

static part_work_t *work_new(file_sink_t *sink, uint32_t n) {
  part_work_t *work = sc_calloc(1, sizeof *work);
  work->sink = sink;
  work->storage = sink->op.context->world->storage;
  work->dir = sc_strdup(sink->options.dir);
  work->n = n;
  work->parts = sc_malloc(n * sizeof *work->parts);
  for (uint32_t i = 0; i < n; i++)
    work->parts[i] = sc_sink_part_ref(sink->pending[i]);
  return work;
}

static void work_drop(void *arg) {
  part_work_t *work = arg;
  for (uint32_t i = 0; i < work->n; i++)
    sc_sink_part_unref(work->parts[i]);
  free(work->parts);
  free(work->dir);
  free(work);
}

static int run_durable(void *arg, sc_error_t *err) {
  part_work_t *work = arg;
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < work->n; i++)
    rc = sc_sink_part_make_durable(work->parts[i], err);
  return rc;
}

/* In order, and no part after one that failed: what readers see is a prefix. Parts of a checkpoint
 * that is complete are durable; the one that ends a job without checkpoints becomes so here. */
static int run_commit(void *arg, sc_error_t *err) {
  part_work_t *work = arg;
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < work->n; i++) {
    rc = sc_sink_part_make_durable(work->parts[i], err);
    if (rc == 0)
      rc = sc_sink_part_commit(work->parts[i], err);
  }
  /* Also where all were committed before: that attempt may have died before its sync. */
  return rc < 0 ? rc : work->storage->ops->sync_dir(work->storage, work->dir, err);
}

static void commit_some(file_sink_t *sink);

static void commit_done(void *arg, int rc, sc_error_t *err) {
  part_work_t *work = arg;
  file_sink_t *sink = work->sink;
  sc_op_context_t *context = sink->op.context;
  sink->committing = false;
  if (rc < 0) {
    sink->failed = true;
    context->services->fail(context, err);
  } else {
    for (uint32_t i = 0; i < work->n; i++)
      sc_sink_part_unref(sink->pending[i]);
    sink->n_pending -= work->n;
    memmove(sink->pending, sink->pending + work->n, sink->n_pending * sizeof *sink->pending);
    commit_some(sink);
  }
  work_drop(work);
  context->services->wake(context);
}

/* One commit at a time: parts are committed in the order of the list. */
static void commit_some(file_sink_t *sink) {
  uint32_t n = 0;
  while (n < sink->n_pending && sc_sink_part_id(sink->pending[n]) <= sink->commit_upto)
    n++;
  if (n == 0 || sink->committing || sink->failed)
    return;
  sink->committing = true;
  sc_op_context_t *context = sink->op.context;
  context->services->submit(context, run_commit, commit_done, work_drop, work_new(sink, n));
}

/* ---- writing ---- */

static int flush(file_sink_t *sink, sc_error_t *err) {
  sc_op_context_t *c = sink->op.context;
  int rc = 0;
  if (sink->buffer.len == 0)
    return 0;
  if (!sink->part) {
    char *name = sc_sink_inprogress_name(sink->prefix, c->subtask, c->attempt, sink->seq++);
    rc = sc_sink_part_open(c->world->storage, sink->options.dir, name, &sink->part, err);
    free(name);
  }
  if (rc == 0)
    rc = sc_sink_part_write(sink->part, sc_buf_bytes(&sink->buffer), err);
  if (rc < 0)
    return sc_fail_cause(err, rc, "%s cannot write to folder %s", c->label, sink->options.dir);
  sc_buf_clear(&sink->buffer);
  return 0;
}

static int append_line(file_sink_t *sink, sc_bytes_t value, sc_error_t *err) {
  sc_token_t t;
  sc_cursor_t c = sc_cursor(value);
  if (sink->options.lines && sc_cursor_next(&c, &t) > 0 && t.type == SC_STR) {
    sc_buf_put_bytes(&sink->buffer, t.s);
  } else {
    int rc = sc_json_append(&sink->buffer, value, err);
    if (rc < 0)
      return rc;
  }
  sc_buf_put_u8(&sink->buffer, '\n');
  return 0;
}

static int begin(sc_operator_t *op, uint32_t port, const sc_item_t *item, sc_error_t *err) {
  file_sink_t *sink = (file_sink_t *)op;
  sc_bytes_t value = item->bytes;
  if (item->opaque_ops) {
    sc_buf_clear(&sink->scratch);
    int rc = item->opaque_ops->encode(item->opaque, &sink->scratch, err);
    if (rc < 0)
      return rc;
    value = sc_buf_bytes(&sink->scratch);
  }
  int rc = append_line(sink, value, err);
  if (rc == 0 && sink->buffer.len >= WRITE_SIZE)
    rc = flush(sink, err);
  return rc < 0 ? rc : SC_TAKEN;
}

static int step(sc_operator_t *op, sc_item_t *out, sc_error_t *err) {
  return SC_DONE;
}

static void push_pending(file_sink_t *sink, sc_sink_part_t *part) {
  sink->pending = sc_realloc(sink->pending, (sink->n_pending + 1) * sizeof *sink->pending);
  sink->pending[sink->n_pending++] = part;
}

/* What was written since the last checkpoint becomes a pending part of checkpoint id. */
static int seal(file_sink_t *sink, uint64_t id, sc_error_t *err) {
  sc_op_context_t *c = sink->op.context;
  int rc = flush(sink, err);
  if (rc < 0 || !sink->part)
    return rc;
  char *final = NULL;
  rc = sc_sink_final_name(c->world->storage, sink->options.dir, sink->prefix, id, c->subtask,
                          sink->options.lines ? "txt" : "json", &final, err);
  if (rc < 0)
    return rc;
  char *pending = sc_sink_pending_name(sink->prefix, id, c->subtask);
  sc_sink_part_seal(sink->part, id, pending, final);
  push_pending(sink, sink->part);
  sink->part = NULL;
  free(pending);
  free(final);
  return 0;
}

/* Without checkpoints the end of the input is what commits; with them, the last checkpoint. */
static int begin_finish(sc_operator_t *op, sc_error_t *err) {
  file_sink_t *sink = (file_sink_t *)op;
  if (op->context->checkpointing)
    return 0;
  int rc = seal(sink, 0, err);
  if (rc < 0)
    return rc;
  sink->commit_upto = UINT64_MAX;
  commit_some(sink);
  return 0;
}

/* ---- checkpoints ---- */

static void pack_pending(const sc_sink_part_t *part, sc_buf_t *item) {
  sc_buf_clear(item);
  sc_pack_map(item, 3);
  sc_pack_cstr(item, "id");
  sc_pack_int(item, (int64_t)sc_sink_part_id(part));
  sc_pack_cstr(item, "file");
  sc_pack_cstr(item, sc_sink_part_pending(part));
  sc_pack_cstr(item, "final");
  sc_pack_cstr(item, sc_sink_part_final(part));
}

static int snapshot(sc_operator_t *op, uint64_t id, sc_snapshot_parts_t *parts, sc_error_t *err) {
  file_sink_t *sink = (file_sink_t *)op;
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < sink->n_pending; i++)
    rc = sc_sink_part_check(sink->pending[i], err);
  if (rc == 0)
    rc = seal(sink, id, err);
  if (rc < 0 || sink->n_pending == 0)
    return rc;
  sc_buf_t item = SC_BUF_INIT;
  for (uint32_t i = 0; i < sink->n_pending; i++) {
    pack_pending(sink->pending[i], &item);
    sc_parts_list(parts, "pending", SC_LIST_SPLIT, sc_buf_bytes(&item));
  }
  sc_buf_free(&item);
  sc_parts_async(parts, run_durable, work_drop, work_new(sink, sink->n_pending));
  return 0;
}

static int complete(sc_operator_t *op, uint64_t id, sc_error_t *err) {
  file_sink_t *sink = (file_sink_t *)op;
  if (id > sink->commit_upto)
    sink->commit_upto = id;
  commit_some(sink);
  return 0;
}

static bool busy(sc_operator_t *op) {
  return ((file_sink_t *)op)->committing;
}

static int by_id(const void *a, const void *b) {
  uint64_t x = sc_sink_part_id(*(sc_sink_part_t *const *)a);
  uint64_t y = sc_sink_part_id(*(sc_sink_part_t *const *)b);
  return x < y ? -1 : x > y;
}

static bool is_name(const char *name) {
  return name && name[0] && !strchr(name, '/');
}

static int restore_part(void *op, sc_bytes_t item, sc_error_t *err) {
  file_sink_t *sink = op;
  int64_t id = sc_value_field_int(item, "id", -1);
  char *file = sc_value_field_str(item, "file"), *final = sc_value_field_str(item, "final");
  bool good = id >= 0 && is_name(file) && is_name(final);
  if (good)
    push_pending(sink, sc_sink_part_restored(sink->op.context->world->storage, sink->options.dir,
                                             (uint64_t)id, file, final));
  free(file);
  free(final);
  return good ? 0 : sc_fail(err, SC_ECORRUPT, "%s: a pending part in the state is damaged",
                            sink->op.context->label);
}

static int restore(sc_operator_t *op, sc_bytes_t lists, sc_error_t *err) {
  file_sink_t *sink = (file_sink_t *)op;
  int rc = sc_lists_each(lists, "pending", restore_part, op, op->context->label, err);
  if (rc < 0)
    return rc;
  if (sink->n_pending > 0) {
    qsort(sink->pending, sink->n_pending, sizeof *sink->pending, by_id);
    sink->commit_upto = sc_sink_part_id(sink->pending[sink->n_pending - 1]);
  }
  return 0;
}

/* The checkpoint that named them is complete, or nothing would have been restored from it. */
static int open_sink(sc_operator_t *op, sc_error_t *err) {
  commit_some((file_sink_t *)op);
  return 0;
}

static void destroy(sc_operator_t *op) {
  file_sink_t *sink = (file_sink_t *)op;
  sc_sink_part_unref(sink->part);
  for (uint32_t i = 0; i < sink->n_pending; i++)
    sc_sink_part_unref(sink->pending[i]);
  free(sink->pending);
  free(sink->prefix);
  options_fini(&sink->options);
  sc_buf_free(&sink->buffer);
  sc_buf_free(&sink->scratch);
  free(sink);
}

static const sc_operator_ops_t ops = {
    .open = open_sink,
    .begin = begin,
    .begin_finish = begin_finish,
    .step = step,
    .restore = restore,
    .snapshot = snapshot,
    .complete = complete,
    .busy = busy,
    .destroy = destroy,
};

static int create(void *data, sc_bytes_t options, sc_op_context_t *context, sc_operator_t **out,
                  sc_error_t *err) {
  file_sink_t *sink = sc_calloc(1, sizeof *sink);
  int rc = read_options(options, &sink->options, err);
  if (rc < 0) {
    free(sink);
    return rc;
  }
  sink->op = (sc_operator_t){&ops, context};
  sink->prefix = sc_sink_prefix(context->job_id, context->uid);
  *out = &sink->op;
  return 0;
}

const sc_operator_type_t sc_file_sink_type = {
    .kind = "file_sink",
    .replayable = true,
    .exactly_once = true,
    .create = create,
    .prepare = prepare,
    .highest_committed = highest_committed,
};
