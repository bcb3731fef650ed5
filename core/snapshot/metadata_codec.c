/* The bytes of _metadata, both ways. What the fields mean stands in metadata.h. */
#include "metadata.h"

#include <inttypes.h>
#include <stdlib.h>

#include "../base/hash.h"
#include "../base/mem.h"
#include "../data/value.h"

static const char magic[8] = "SCKPMETA";
enum { HEAD = 16 /* magic, version, length */, TAIL = 8 /* checksum */ };

/* ---- encoding ---- */

static void put_int(sc_buf_t *out, const char *key, int64_t v) {
  sc_pack_cstr(out, key);
  sc_pack_int(out, v);
}

static void put_bool(sc_buf_t *out, const char *key, bool v) {
  sc_pack_cstr(out, key);
  sc_pack_bool(out, v);
}

static void put_str(sc_buf_t *out, const char *key, const char *v) {
  sc_pack_cstr(out, key);
  sc_pack_cstr(out, v ? v : "");
}

static void put_raw(sc_buf_t *out, const char *key, const sc_buf_t *v) {
  sc_pack_cstr(out, key);
  sc_pack_str(out, sc_buf_bytes(v));
}

static void put_array(sc_buf_t *out, const char *key, uint32_t n) {
  sc_pack_cstr(out, key);
  sc_pack_array(out, n);
}

static void encode_keyed(sc_buf_t *out, const sc_handle_t *h) {
  sc_assert(h->file && h->offsets);
  sc_pack_map(out, 8);
  put_int(out, "kind", h->kind);
  put_str(out, "file", h->file);
  put_int(out, "length", (int64_t)h->length);
  put_int(out, "checksum", (int64_t)h->checksum);
  put_int(out, "first", h->range.first);
  put_int(out, "last", h->range.last);
  uint32_t n = sc_key_range_count(h->range);
  put_array(out, "offsets", n);
  for (uint32_t i = 0; i < n; i++)
    sc_pack_int(out, (int64_t)h->offsets[i]);
  put_array(out, "states", h->n_states);
  for (uint32_t i = 0; i < h->n_states; i++)
    sc_pack_cstr(out, h->states[i]);
}

static void encode_inflight(sc_buf_t *out, const sc_handle_t *h) {
  const sc_handle_inflight_t *f = &h->inflight;
  sc_assert(h->file ? f->bytes > 0 : f->bytes == 0);
  sc_pack_map(out, 9 + (h->file ? 6 : 0) + (h->directory ? 1 : 0) + (f->tagged ? 2 : 0));
  put_int(out, "kind", h->kind);
  put_int(out, "edge", f->edge);
  put_int(out, "sender", f->sender);
  put_int(out, "receiver", f->receiver);
  put_int(out, "origin", f->origin);
  put_int(out, "generation", f->generation);
  put_int(out, "side", f->side);
  put_int(out, "watermark", f->watermark);
  put_bool(out, "idle", f->idle);
  if (h->file) {
    put_str(out, "file", h->file);
    put_int(out, "length", (int64_t)h->length);
    put_int(out, "checksum", (int64_t)h->checksum);
    put_int(out, "offset", (int64_t)f->offset);
    put_int(out, "bytes", (int64_t)f->bytes);
    put_int(out, "skip", f->skip);
  }
  if (h->directory)
    put_str(out, "directory", h->directory);
  if (f->tagged) {
    put_int(out, "first", h->range.first);
    put_int(out, "last", h->range.last);
  }
}

static void encode_handle(sc_buf_t *out, const sc_handle_t *h) {
  if (h->kind == SC_HANDLE_KEYED) {
    encode_keyed(out, h);
    return;
  }
  if (h->kind == SC_HANDLE_INFLIGHT) {
    encode_inflight(out, h);
    return;
  }
  sc_pack_map(out, 2);
  put_int(out, "kind", h->kind);
  put_raw(out, "lists", &h->inlined);
}

static void encode_subtask(sc_buf_t *out, const sc_metadata_subtask_t *t) {
  sc_pack_map(out, t->directory ? 6 : 5);
  put_int(out, "end", t->end);
  put_int(out, "watermark", t->state.watermark);
  put_int(out, "forwarded", t->state.forwarded);
  put_bool(out, "idle", t->state.idle);
  if (t->directory)
    put_str(out, "directory", t->directory);
  put_array(out, "handles", t->state.n_handles);
  for (uint32_t i = 0; i < t->state.n_handles; i++)
    encode_handle(out, &t->state.handles[i]);
}

static void encode_operator(sc_buf_t *out, const sc_metadata_operator_t *op) {
  sc_pack_map(out, op->has_enumerator ? 6 : 5);
  put_str(out, "uid", op->uid);
  put_str(out, "name", op->name);
  put_int(out, "parallelism", op->parallelism);
  put_int(out, "max_parallelism", op->max_parallelism);
  if (op->has_enumerator)
    put_raw(out, "enumerator", &op->enumerator);
  put_array(out, "subtasks", op->parallelism);
  for (uint32_t i = 0; i < op->parallelism; i++)
    encode_subtask(out, &op->subtasks[i]);
}

static void encode_edge(sc_buf_t *out, const sc_metadata_edge_t *e) {
  sc_pack_map(out, 8);
  put_str(out, "from", e->from_uid);
  put_str(out, "output", e->output);
  put_str(out, "to", e->to_uid);
  put_str(out, "partitioner", e->partitioner);
  put_int(out, "port", e->port);
  put_int(out, "ordinal", e->ordinal);
  put_int(out, "from_parallelism", e->from_parallelism);
  put_int(out, "to_parallelism", e->to_parallelism);
}

void sc_metadata_encode(const sc_metadata_t *m, sc_buf_t *out) {
  size_t begin = out->len;
  sc_buf_put(out, magic, sizeof magic);
  sc_buf_put_u32(out, SC_METADATA_VERSION);
  sc_buf_put_u32(out, 0); /* the body's length, when it is known */
  sc_pack_map(out, 9);
  put_int(out, "id", (int64_t)m->id);
  put_int(out, "time", m->timestamp_ms);
  put_str(out, "job_id", m->job_id);
  put_str(out, "job_name", m->job_name);
  put_int(out, "attempt", (int64_t)m->attempt);
  put_bool(out, "finished", m->finished);
  put_bool(out, "savepoint", m->savepoint);
  put_array(out, "operators", m->n_operators);
  for (uint32_t i = 0; i < m->n_operators; i++)
    encode_operator(out, &m->operators[i]);
  put_array(out, "edges", m->n_edges);
  for (uint32_t i = 0; i < m->n_edges; i++)
    encode_edge(out, &m->edges[i]);
  size_t body = out->len - begin - HEAD;
  sc_assert(body < SC_METADATA_BYTES_MAX - HEAD - TAIL); /* what is written can be read */
  sc_store_u32(out->data + begin + 12, (uint32_t)body);
  sc_buf_put_u64(out, sc_checksum(sc_bytes(out->data + begin, out->len - begin)));
}

/* ---- decoding ---- */

static int bad(sc_error_t *err, const char *what, const char *uid) {
  return sc_fail(err, SC_ECORRUPT, uid ? "%s of %s" : "%s", what, uid);
}

/* Array field of a map: *c stands at its first element. Absent: no elements. */
static bool open_array(sc_bytes_t map, const char *key, bool required, sc_cursor_t *c,
                       uint32_t *n) {
  sc_bytes_t array;
  sc_token_t token;
  *n = 0;
  if (sc_value_field(map, sc_bytes_str(key), &array) != 1)
    return !required;
  *c = sc_cursor(array);
  if (sc_cursor_next(c, &token) != 1 || token.type != SC_ARRAY)
    return false;
  *n = token.n;
  return true;
}

static bool take_raw(sc_bytes_t map, const char *key, sc_buf_t *out) {
  sc_bytes_t value;
  sc_token_t token;
  if (sc_value_field(map, sc_bytes_str(key), &value) != 1)
    return false;
  sc_cursor_t c = sc_cursor(value);
  if (sc_cursor_next(&c, &token) != 1 || token.type != SC_STR)
    return false;
  sc_buf_put_bytes(out, token.s);
  return true;
}

/* An int field within bounds; -1 is never within them. */
static bool take_u32(sc_bytes_t map, const char *key, int64_t otherwise, int64_t least,
                     int64_t most, uint32_t *out) {
  int64_t v = sc_value_field_int(map, key, otherwise);
  *out = (uint32_t)v;
  return v >= least && v <= most;
}

/* Relative and inside its folder: files that a snapshot lists are deleted with it. */
static bool safe_path(const char *path) {
  if (path[0] == '\0' || path[0] == '/')
    return false;
  for (const char *at = path; *at;) {
    size_t n = strcspn(at, "/");
    if (n == 2 && at[0] == '.' && at[1] == '.')
      return false;
    at += n;
    at += *at == '/';
  }
  return true;
}

static bool decode_offsets(sc_bytes_t map, sc_handle_t *h) {
  sc_cursor_t c;
  sc_token_t token;
  uint32_t n;
  if (!open_array(map, "offsets", true, &c, &n) || n != sc_key_range_count(h->range))
    return false;
  h->offsets = sc_calloc(n, sizeof *h->offsets);
  for (uint32_t i = 0; i < n; i++) {
    if (sc_cursor_next(&c, &token) != 1 || token.type != SC_INT || token.i < 0)
      return false;
    h->offsets[i] = (uint64_t)token.i;
  }
  return true;
}

static bool decode_states(sc_bytes_t map, sc_handle_t *h) {
  sc_cursor_t c;
  sc_token_t token;
  uint32_t n;
  if (!open_array(map, "states", true, &c, &n))
    return false;
  h->states = sc_calloc(n, sizeof *h->states);
  for (uint32_t i = 0; i < n; i++) {
    if (sc_cursor_next(&c, &token) != 1 || token.type != SC_STR)
      return false;
    h->states[i] = sc_strndup((const char *)token.s.data, token.s.len);
    h->n_states = i + 1;
  }
  return true;
}

static bool decode_keyed(sc_bytes_t map, sc_handle_t *h) {
  uint32_t first, last;
  sc_bytes_t sum;
  int64_t length = sc_value_field_int(map, "length", -1);
  if (!take_u32(map, "first", -1, 0, SC_MAX_PARALLELISM_LIMIT - 1, &first) ||
      !take_u32(map, "last", -1, first, SC_MAX_PARALLELISM_LIMIT - 1, &last) || length < 0 ||
      sc_value_field(map, sc_bytes_str("checksum"), &sum) != 1)
    return false;
  h->length = (uint64_t)length;
  h->checksum = (uint64_t)sc_value_field_int(map, "checksum", 0);
  h->range = (sc_key_range_t){(uint16_t)first, (uint16_t)last};
  h->file = sc_value_field_str(map, "file");
  return h->file && safe_path(h->file) && decode_offsets(map, h) && decode_states(map, h);
}

static bool decode_blocks(sc_bytes_t map, sc_handle_t *h) {
  sc_handle_inflight_t *f = &h->inflight;
  sc_bytes_t sum;
  int64_t length = sc_value_field_int(map, "length", -1);
  int64_t offset = sc_value_field_int(map, "offset", -1);
  int64_t bytes = sc_value_field_int(map, "bytes", -1);
  if (!safe_path(h->file) || (h->directory && !safe_path(h->directory)) || offset < 0 ||
      bytes <= 0 || length < offset || length - offset < bytes ||
      sc_value_field(map, sc_bytes_str("checksum"), &sum) != 1)
    return false;
  h->length = (uint64_t)length;
  h->checksum = (uint64_t)sc_value_field_int(map, "checksum", 0);
  f->offset = (uint64_t)offset;
  f->bytes = (uint64_t)bytes;
  return take_u32(map, "skip", 0, 0, UINT32_MAX, &f->skip);
}

static bool decode_inflight(sc_bytes_t map, sc_handle_t *h) {
  sc_handle_inflight_t *f = &h->inflight;
  uint32_t first, last;
  if (!take_u32(map, "edge", -1, 0, UINT32_MAX, &f->edge) ||
      !take_u32(map, "sender", -1, 0, SC_MAX_PARALLELISM_LIMIT - 1, &f->sender) ||
      !take_u32(map, "receiver", -1, 0, SC_MAX_PARALLELISM_LIMIT - 1, &f->receiver) ||
      !take_u32(map, "origin", -1, 0, SC_MAX_PARALLELISM_LIMIT - 1, &f->origin) ||
      !take_u32(map, "generation", -1, 0, UINT32_MAX - 1, &f->generation) ||
      !take_u32(map, "side", -1, 0, 1, &f->side))
    return false;
  f->watermark = sc_value_field_int(map, "watermark", INT64_MIN);
  f->idle = sc_value_field_bool(map, "idle", false);
  f->tagged = sc_value_field_int(map, "first", -1) != -1;
  if (f->tagged) {
    if (!take_u32(map, "first", -1, 0, SC_MAX_PARALLELISM_LIMIT - 1, &first) ||
        !take_u32(map, "last", -1, first, SC_MAX_PARALLELISM_LIMIT - 1, &last))
      return false;
    h->range = (sc_key_range_t){(uint16_t)first, (uint16_t)last};
  }
  h->file = sc_value_field_str(map, "file");
  h->directory = sc_value_field_str(map, "directory");
  return h->file ? decode_blocks(map, h) : !h->directory;
}

static int decode_handle(sc_bytes_t map, sc_operator_snapshot_t *op, sc_error_t *err) {
  int64_t kind = sc_value_field_int(map, "kind", 0);
  if (kind != SC_HANDLE_KEYED && kind != SC_HANDLE_LIST && kind != SC_HANDLE_INFLIGHT)
    return sc_fail(err, SC_ECORRUPT, "it lists a handle of unknown kind %" PRId64 " of %s", kind,
                   op->uid);
  sc_handle_t *h = sc_operator_snapshot_add(op, (sc_handle_kind_t)kind);
  bool ok = kind == SC_HANDLE_KEYED     ? decode_keyed(map, h)
            : kind == SC_HANDLE_INFLIGHT ? decode_inflight(map, h)
                                         : take_raw(map, "lists", &h->inlined);
  return ok ? 0 : bad(err, "it lists a malformed handle", op->uid);
}

static int decode_subtask(sc_bytes_t map, sc_metadata_subtask_t *t, sc_error_t *err) {
  sc_operator_snapshot_t *state = &t->state;
  uint32_t end, n;
  sc_cursor_t c;
  if (!take_u32(map, "end", 0, 0, SC_TASK_FINISHED, &end) ||
      !open_array(map, "handles", false, &c, &n))
    return bad(err, "it lists a malformed subtask", state->uid);
  t->end = (sc_task_end_t)end;
  state->watermark = sc_value_field_int(map, "watermark", INT64_MIN);
  state->forwarded = sc_value_field_int(map, "forwarded", INT64_MIN);
  state->idle = sc_value_field_bool(map, "idle", false);
  t->directory = sc_value_field_str(map, "directory");
  if (t->directory && !safe_path(t->directory))
    return bad(err, "it lists files outside of the job's folder", state->uid);
  for (uint32_t i = 0; i < n; i++) {
    sc_bytes_t handle;
    sc_cursor_value(&c, &handle);
    int rc = decode_handle(handle, state, err);
    if (rc < 0)
      return rc;
  }
  return 0;
}

static int decode_operator(sc_bytes_t map, sc_metadata_t *m, sc_error_t *err) {
  char *uid = sc_value_field_str(map, "uid");
  if (!uid)
    return bad(err, "it lists an operator without a uid", NULL);
  uint32_t p, max_p, n;
  sc_cursor_t c;
  bool ok = take_u32(map, "parallelism", 0, 1, SC_MAX_PARALLELISM_LIMIT, &p) &&
            take_u32(map, "max_parallelism", 0, p, SC_MAX_PARALLELISM_LIMIT, &max_p) &&
            open_array(map, "subtasks", true, &c, &n) && n == p;
  int rc = ok ? 0 : bad(err, "it lists a malformed operator", uid);
  if (ok) {
    char *name = sc_value_field_str(map, "name");
    sc_metadata_operator_t *op = sc_metadata_add_operator(m, uid, name ? name : uid, p, max_p);
    free(name);
    op->has_enumerator = take_raw(map, "enumerator", &op->enumerator);
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
      sc_bytes_t subtask;
      sc_cursor_value(&c, &subtask);
      rc = decode_subtask(subtask, &op->subtasks[i], err);
    }
  }
  free(uid);
  return rc;
}

static char *string_or_empty(sc_bytes_t map, const char *key) {
  char *text = sc_value_field_str(map, key);
  return text ? text : sc_strdup("");
}

static int decode_edge(sc_bytes_t map, sc_metadata_t *m, sc_error_t *err) {
  sc_metadata_edge_t *e = sc_metadata_add_edge(m);
  e->from_uid = sc_value_field_str(map, "from");
  e->to_uid = sc_value_field_str(map, "to");
  e->output = string_or_empty(map, "output");
  e->partitioner = string_or_empty(map, "partitioner");
  bool ok = e->from_uid && e->to_uid && take_u32(map, "port", 0, 0, UINT32_MAX, &e->port) &&
            take_u32(map, "ordinal", 0, 0, UINT32_MAX, &e->ordinal) &&
            take_u32(map, "from_parallelism", 0, 0, UINT32_MAX, &e->from_parallelism) &&
            take_u32(map, "to_parallelism", 0, 0, UINT32_MAX, &e->to_parallelism);
  return ok ? 0 : bad(err, "it lists a malformed edge", NULL);
}

/* Every edge that in-flight data names is listed. */
static int check_edges(const sc_metadata_t *m, sc_error_t *err) {
  for (uint32_t i = 0; i < m->n_operators; i++)
    for (uint32_t s = 0; s < m->operators[i].parallelism; s++) {
      const sc_operator_snapshot_t *state = &m->operators[i].subtasks[s].state;
      for (uint32_t k = 0; k < state->n_handles; k++)
        if (state->handles[k].kind == SC_HANDLE_INFLIGHT &&
            state->handles[k].inflight.edge >= m->n_edges)
          return bad(err, "it lists in-flight data of an edge that it does not list", state->uid);
    }
  return 0;
}

static int decode_each(sc_bytes_t body, const char *key, bool required, sc_metadata_t *m,
                       int (*decode)(sc_bytes_t map, sc_metadata_t *m, sc_error_t *err),
                       sc_error_t *err) {
  sc_cursor_t c;
  uint32_t n;
  if (!open_array(body, key, required, &c, &n))
    return sc_fail(err, SC_ECORRUPT, "its field \"%s\" is missing or not an array", key);
  for (uint32_t i = 0; i < n; i++) {
    sc_bytes_t value;
    sc_cursor_value(&c, &value);
    int rc = decode(value, m, err);
    if (rc < 0)
      return rc;
  }
  return 0;
}

static int decode_body(sc_bytes_t body, sc_metadata_t *m, sc_error_t *err) {
  int64_t id = sc_value_field_int(body, "id", -1);
  m->job_id = sc_value_field_str(body, "job_id");
  m->job_name = string_or_empty(body, "job_name");
  if (id < 0 || !m->job_id)
    return bad(err, "it names no checkpoint or no job", NULL);
  m->id = (uint64_t)id;
  m->timestamp_ms = sc_value_field_int(body, "time", 0);
  m->attempt = (uint64_t)sc_value_field_int(body, "attempt", 0);
  m->finished = sc_value_field_bool(body, "finished", false);
  m->savepoint = sc_value_field_bool(body, "savepoint", false);
  int rc = decode_each(body, "operators", true, m, decode_operator, err);
  if (rc == 0)
    rc = decode_each(body, "edges", false, m, decode_edge, err);
  return rc < 0 ? rc : check_edges(m, err);
}

/* The checksum comes before the version: a flipped bit is damage, never "too new". */
static int unwrap(sc_bytes_t file, sc_bytes_t *body, sc_error_t *err) {
  if (file.len == 0)
    return bad(err, "it is empty", NULL);
  if (file.len < HEAD + TAIL)
    return sc_fail(err, SC_ECORRUPT, "it has only %zu bytes", file.len);
  if (memcmp(file.data, magic, sizeof magic))
    return bad(err, "it does not begin as a snapshot's metadata does", NULL);
  if (sc_checksum(sc_bytes(file.data, file.len - TAIL)) != sc_load_u64(file.data + file.len - TAIL))
    return bad(err, "its checksum does not fit its bytes", NULL);
  uint32_t version = sc_load_u32(file.data + 8);
  if (version > SC_METADATA_VERSION || version == 0)
    return sc_fail(err, SC_EVERSION, "it has format version %" PRIu32 ", this program reads up "
                   "to %d", version, SC_METADATA_VERSION);
  *body = sc_bytes(file.data + HEAD, file.len - HEAD - TAIL);
  if (sc_load_u32(file.data + 12) != body->len)
    return bad(err, "the length of its body does not fit", NULL);
  return 0;
}

int sc_metadata_decode(sc_bytes_t file, sc_metadata_t **out, sc_error_t *err) {
  sc_bytes_t body;
  int rc = unwrap(file, &body, err);
  if (rc < 0)
    return rc;
  if (sc_value_check(body, NULL) < 0)
    return bad(err, "its body is not msgpack", NULL);
  sc_metadata_t *m = sc_metadata_create();
  rc = decode_body(body, m, err);
  if (rc < 0) {
    sc_metadata_destroy(m);
    return rc;
  }
  *out = m;
  return 0;
}
