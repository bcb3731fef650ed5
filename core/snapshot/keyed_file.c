#include "keyed_file.h"

#include <inttypes.h>
#include <stdlib.h>

#include "../base/hash.h"
#include "../base/mem.h"
#include "../data/value.h"
#include "keyed_row.h"

static const char magic[8] = "SCKPKEYS";
enum {
  BLOCK_HEAD = 6, /* u16 group, u32 bytes of rows */
  FIXED = 16,     /* magic, version, length */
  KEY_AT = 7      /* of a row: u16 state, u8 flags, u32 key length stand before its key */
};

/* ---- writing ---- */

struct sc_keyed_writer {
  sc_storage_t *storage;  /* borrowed */
  char *path;
  sc_publish_t *file;     /* NULL until the first row */
  sc_key_range_t range;   /* groups that may be put */
  uint64_t *offsets;      /* of the blocks written so far, one for each group of range */
  char **states;          /* names, n_states of them */
  uint32_t n_states;
  sc_buf_t head;          /* everything before the first block */
  sc_buf_t rows;          /* of the group being collected: its size stands in front of it */
  int32_t group;          /* being collected, or -1 */
  struct {
    size_t at;            /* where in rows its key begins */
    uint32_t key, name_space, map_key; /* bytes of each, every one behind its length */
    uint16_t state;
  } last;                 /* row of the group: order is checked against it */
};

static void make_head(sc_keyed_writer_t *w, const char *uid, const sc_keyed_file_state_t *states) {
  sc_buf_t header = SC_BUF_INIT;
  sc_pack_map(&header, 5);
  sc_pack_cstr(&header, "uid");
  sc_pack_cstr(&header, uid);
  sc_pack_cstr(&header, "first");
  sc_pack_int(&header, w->range.first);
  sc_pack_cstr(&header, "last");
  sc_pack_int(&header, w->range.last);
  sc_pack_cstr(&header, "compression");
  sc_pack_cstr(&header, "none");
  sc_pack_cstr(&header, "states");
  sc_pack_array(&header, w->n_states);
  for (uint32_t i = 0; i < w->n_states; i++) {
    sc_pack_map(&header, 4);
    sc_pack_cstr(&header, "name");
    sc_pack_cstr(&header, states[i].name);
    sc_pack_cstr(&header, "kind");
    sc_pack_int(&header, states[i].kind);
    sc_pack_cstr(&header, "version");
    sc_pack_int(&header, 1);
    sc_pack_cstr(&header, "ttl");
    sc_pack_int(&header, 0);
  }
  sc_buf_put(&w->head, magic, sizeof magic);
  sc_buf_put_u32(&w->head, SC_KEYED_FILE_VERSION);
  sc_buf_put_u32(&w->head, (uint32_t)header.len);
  sc_buf_put_bytes(&w->head, sc_buf_bytes(&header));
  sc_buf_put_u64(&w->head, sc_checksum(sc_buf_bytes(&w->head)));
  sc_buf_free(&header);
}

int sc_keyed_writer_create(sc_storage_t *s, const char *path, const char *uid, sc_key_range_t range,
                           const sc_keyed_file_state_t *states, uint32_t n_states,
                           sc_keyed_writer_t **out, sc_error_t *err) {
  sc_assert(range.first <= range.last);
  if (n_states > UINT16_MAX + 1)
    return sc_fail(err, SC_ELIMIT, "operator %s has %" PRIu32 " states, more than 65,536", uid,
                   n_states);
  sc_keyed_writer_t *w = sc_calloc(1, sizeof *w);
  w->storage = s;
  w->path = sc_strdup(path);
  w->range = range;
  w->offsets = sc_calloc(sc_key_range_count(range), sizeof *w->offsets);
  w->states = sc_calloc(n_states, sizeof *w->states);
  w->n_states = n_states;
  for (uint32_t i = 0; i < n_states; i++)
    w->states[i] = sc_strdup(states[i].name);
  w->group = -1;
  make_head(w, uid, states);
  *out = w;
  return 0;
}

static int begin_file(sc_keyed_writer_t *w, sc_error_t *err) {
  if (w->file)
    return 0;
  int rc = sc_publish_begin(w->storage, w->path, &w->file, err);
  return rc < 0 ? rc : sc_publish_write(w->file, w->head.data, w->head.len, err);
}

static int end_group(sc_keyed_writer_t *w, sc_error_t *err) {
  if (w->group < 0)
    return 0;
  int rc = begin_file(w, err);
  if (rc < 0)
    return rc;
  w->offsets[w->group - w->range.first] = sc_publish_length(w->file);
  uint8_t head[BLOCK_HEAD];
  sc_store_u16(head, (uint16_t)w->group);
  sc_store_u32(head + 2, (uint32_t)w->rows.len);
  w->group = -1;
  rc = sc_publish_write(w->file, head, sizeof head, err);
  if (rc == 0)
    rc = sc_publish_write(w->file, w->rows.data, w->rows.len, err);
  sc_buf_clear(&w->rows);
  return rc;
}

/* Equal state makes equal bytes only if everyone writes in one order. */
static bool in_order(const sc_keyed_writer_t *w, const sc_keyed_row_t *row) {
  if (w->rows.len == 0)
    return true;
  const uint8_t *at = w->rows.data + w->last.at;
  sc_keyed_row_t last = {.state = w->last.state, .key = sc_bytes(at, w->last.key)};
  at += (size_t)w->last.key + 4;
  last.name_space = sc_bytes(at, w->last.name_space);
  last.map_key = sc_bytes(at + w->last.name_space + 4, w->last.map_key);
  return sc__keyed_row_compare(&last, row) < 0;
}

int sc_keyed_writer_put(sc_keyed_writer_t *w, const sc_keyed_row_t *row, sc_error_t *err) {
  sc_assert(row->group >= w->range.first && row->group <= w->range.last);
  sc_assert(row->state < w->n_states);
  sc_assert(row->group >= w->group);
  if (row->group != w->group) {
    int rc = end_group(w, err);
    if (rc < 0)
      return rc;
    w->group = row->group;
  }
  sc_assert(in_order(w, row));
  if (w->rows.len + sc__keyed_row_size(row) > UINT32_MAX) {
    sc_fail(err, SC_ELIMIT, "key group %u holds more than 4 GiB, which %s cannot take", row->group,
            w->path);
    sc_error_set_file(err, w->path);
    return SC_ELIMIT;
  }
  w->last.at = w->rows.len + KEY_AT;
  w->last.key = (uint32_t)row->key.len;
  w->last.name_space = (uint32_t)row->name_space.len;
  w->last.map_key = row->has_map_key ? (uint32_t)row->map_key.len : 0;
  w->last.state = row->state;
  sc__keyed_row_write(&w->rows, row);
  return 0;
}

static void free_writer(sc_keyed_writer_t *w) {
  for (uint32_t i = 0; i < w->n_states; i++)
    free(w->states[i]);
  free(w->states);
  free(w->offsets);
  free(w->path);
  sc_buf_free(&w->head);
  sc_buf_free(&w->rows);
  free(w);
}

/* What the writer collected becomes the handle's. */
static void fill_handle(sc_keyed_writer_t *w, sc_handle_t *handle) {
  handle->kind = SC_HANDLE_KEYED;
  handle->range = w->range;
  free(handle->offsets);
  handle->offsets = w->offsets;
  for (uint32_t i = 0; i < handle->n_states; i++)
    free(handle->states[i]);
  free(handle->states);
  handle->states = w->states;
  handle->n_states = w->n_states;
  w->offsets = NULL;
  w->states = NULL;
  w->n_states = 0;
}

int sc_keyed_writer_finish(sc_keyed_writer_t *w, sc_handle_t *handle, sc_error_t *err) {
  handle->length = 0;
  handle->checksum = 0;
  int rc = end_group(w, err);
  if (rc < 0) {
    sc_keyed_writer_abandon(w);
    return rc;
  }
  if (w->file)
    rc = sc_publish_commit(w->file, &handle->length, &handle->checksum, err);
  if (rc == 0)
    fill_handle(w, handle);
  free_writer(w);
  return rc;
}

void sc_keyed_writer_abandon(sc_keyed_writer_t *w) {
  if (!w)
    return;
  sc_publish_abandon(w->file);
  free_writer(w);
}

/* ---- reading ---- */

struct sc_keyed_reader {
  sc_storage_t *storage; /* borrowed */
  sc_file_t *file;
  char *path;
  uint64_t length;       /* of the file */
  sc_key_range_t range;  /* of the handle */
  uint64_t *offsets;     /* the handle's, a copy */
  sc_keyed_file_state_t *states; /* names are this reader's */
  uint32_t n_states;
  uint32_t next, last;   /* groups still to read, next > last at the end */
  sc_buf_t block;        /* rows of the group being read */
  sc_bytes_t rest;       /* of block */
  uint64_t block_at;     /* offset of block's rows in the file */
  uint16_t group;        /* of block */
};

static int corrupt(const sc_keyed_reader_t *r, uint64_t offset, const char *what, sc_error_t *err) {
  sc_fail(err, SC_ECORRUPT, "%s is damaged at byte %" PRIu64 ": %s", r->path, offset, what);
  sc_error_set_file(err, r->path);
  return SC_ECORRUPT;
}

static int check_whole(sc_keyed_reader_t *r, const sc_handle_t *handle, sc_error_t *err) {
  int64_t size = r->storage->ops->size(r->file, err);
  if (size < 0)
    return (int)size;
  if ((uint64_t)size != handle->length) {
    sc_fail(err, SC_ECORRUPT, "%s is damaged: it has %" PRId64 " bytes, %" PRIu64 " were written",
            r->path, size, handle->length);
    sc_error_set_file(err, r->path);
    return SC_ECORRUPT;
  }
  uint64_t sum;
  int rc = sc_storage_checksum(r->storage, r->file, r->path, handle->length, &sum, err);
  if (rc < 0 || sum == handle->checksum)
    return rc;
  sc_fail(err, SC_ECORRUPT, "%s is damaged: its checksum is %016" PRIx64 ", %016" PRIx64
          " was written", r->path, sum, handle->checksum);
  sc_error_set_file(err, r->path);
  return SC_ECORRUPT;
}

static bool read_states(sc_keyed_reader_t *r, sc_bytes_t header) {
  sc_bytes_t array;
  sc_token_t token;
  if (sc_value_field(header, sc_bytes_str("states"), &array) != 1)
    return false;
  sc_cursor_t c = sc_cursor(array);
  if (sc_cursor_next(&c, &token) != 1 || token.type != SC_ARRAY)
    return false;
  r->states = sc_calloc(token.n, sizeof *r->states);
  for (uint32_t i = 0; i < token.n; i++) {
    sc_bytes_t state;
    if (sc_cursor_value(&c, &state) != 1)
      return false;
    r->states[i].name = sc_value_field_str(state, "name");
    r->states[i].kind = (sc_state_kind_t)sc_value_field_int(state, "kind", 0);
    r->n_states = i + 1;
    if (!r->states[i].name || r->states[i].kind < SC_STATE_VALUE ||
        r->states[i].kind > SC_STATE_TIMERS)
      return false;
  }
  return true;
}

static int check_header(sc_keyed_reader_t *r, sc_bytes_t header, sc_error_t *err) {
  if (sc_value_check(header, NULL) < 0)
    return corrupt(r, FIXED, "the header is not msgpack", err);
  char *compression = sc_value_field_str(header, "compression");
  bool plain = compression && !strcmp(compression, "none");
  int rc = 0;
  if (!plain)
    rc = sc_fail(err, SC_EUNSUPPORTED, "%s is compressed with \"%s\", which this version cannot "
                 "read", r->path, compression ? compression : "nothing named");
  free(compression);
  if (rc < 0)
    return rc;
  int64_t first = sc_value_field_int(header, "first", -1);
  int64_t last = sc_value_field_int(header, "last", -1);
  if (first < 0 || first > r->range.first || last < r->range.last)
    return corrupt(r, FIXED, "it does not hold the key groups that the snapshot lists", err);
  return read_states(r, header) ? 0 : corrupt(r, FIXED, "the header lists no states", err);
}

static int read_header(sc_keyed_reader_t *r, sc_error_t *err) {
  uint8_t fixed[FIXED];
  if (r->length < FIXED + 8)
    return corrupt(r, r->length, "too short for a header", err);
  int rc = sc_storage_read_exactly(r->storage, r->file, r->path, 0, fixed, FIXED, err);
  if (rc < 0)
    return rc;
  if (memcmp(fixed, magic, sizeof magic))
    return corrupt(r, 0, "it is not a file of keyed state", err);
  uint32_t version = sc_load_u32(fixed + 8), len = sc_load_u32(fixed + 12);
  if (version > SC_KEYED_FILE_VERSION) {
    sc_fail(err, SC_EVERSION, "%s has format version %" PRIu32 ", this program reads up to %d",
            r->path, version, SC_KEYED_FILE_VERSION);
    sc_error_set_file(err, r->path);
    return SC_EVERSION;
  }
  if (len > r->length - FIXED - 8)
    return corrupt(r, 12, "the header is longer than the file", err);
  sc_buf_t head = SC_BUF_INIT;
  uint8_t *at = sc_buf_reserve(&head, FIXED + (size_t)len + 8);
  rc = sc_storage_read_exactly(r->storage, r->file, r->path, 0, at, FIXED + (size_t)len + 8, err);
  if (rc == 0 && sc_checksum(sc_bytes(at, FIXED + (size_t)len)) != sc_load_u64(at + FIXED + len))
    rc = corrupt(r, FIXED + (uint64_t)len, "the header's checksum does not fit", err);
  if (rc == 0)
    rc = check_header(r, sc_bytes(at + FIXED, len), err);
  sc_buf_free(&head);
  return rc;
}

int sc_keyed_reader_open(sc_storage_t *s, const char *dir, const sc_handle_t *handle,
                         sc_keyed_reader_t **out, sc_error_t *err) {
  sc_assert(handle->kind == SC_HANDLE_KEYED && handle->file && handle->offsets);
  sc_keyed_reader_t *r = sc_calloc(1, sizeof *r);
  r->storage = s;
  r->path = sc_path_join(dir, handle->file);
  r->length = handle->length;
  r->range = handle->range;
  size_t bytes = sc_key_range_count(handle->range) * sizeof *r->offsets;
  r->offsets = sc_malloc(bytes);
  memcpy(r->offsets, handle->offsets, bytes);
  sc_keyed_reader_select(r, handle->range);
  int rc = s->ops->open(s, r->path, &r->file, err);
  if (rc == 0)
    rc = check_whole(r, handle, err);
  if (rc == 0)
    rc = read_header(r, err);
  if (rc < 0) {
    sc_keyed_reader_close(r);
    return rc;
  }
  *out = r;
  return 0;
}

uint32_t sc_keyed_reader_states(const sc_keyed_reader_t *r, const sc_keyed_file_state_t **states) {
  *states = r->states;
  return r->n_states;
}

void sc_keyed_reader_select(sc_keyed_reader_t *r, sc_key_range_t range) {
  r->next = range.first > r->range.first ? range.first : r->range.first;
  r->last = range.last < r->range.last ? range.last : r->range.last;
  r->rest = sc_bytes(NULL, 0);
}

/* Load the block of the next non-empty group: 1, 0 at the end, or an error. */
static int next_block(sc_keyed_reader_t *r, sc_error_t *err) {
  while (r->next <= r->last && r->offsets[r->next - r->range.first] == 0)
    r->next++;
  if (r->next > r->last)
    return 0;
  uint64_t at = r->offsets[r->next - r->range.first];
  if (at > r->length || r->length - at < BLOCK_HEAD)
    return corrupt(r, at, "a key group is listed beyond the end of the file", err);
  uint8_t head[BLOCK_HEAD];
  int rc = sc_storage_read_exactly(r->storage, r->file, r->path, at, head, sizeof head, err);
  if (rc < 0)
    return rc;
  uint32_t len = sc_load_u32(head + 2);
  if (sc_load_u16(head) != r->next)
    return corrupt(r, at, "another key group is listed here", err);
  if (len > r->length - at - BLOCK_HEAD)
    return corrupt(r, at + 2, "a key group is longer than the file", err);
  sc_buf_clear(&r->block);
  uint8_t *rows = sc_buf_reserve(&r->block, len);
  rc = sc_storage_read_exactly(r->storage, r->file, r->path, at + BLOCK_HEAD, rows, len, err);
  if (rc < 0)
    return rc;
  r->block.len = len;
  r->block_at = at + BLOCK_HEAD;
  r->rest = sc_bytes(rows, len);
  r->group = (uint16_t)r->next++;
  return 1;
}

int sc_keyed_reader_next(sc_keyed_reader_t *r, sc_keyed_row_t *row, sc_error_t *err) {
  while (r->rest.len == 0) {
    int rc = next_block(r, err);
    if (rc <= 0)
      return rc;
  }
  uint64_t at = r->block_at + (r->block.len - r->rest.len);
  row->group = r->group;
  if (sc__keyed_row_read(&r->rest, row) < 0)
    return corrupt(r, at, "a row is longer than its key group", err);
  if (row->state >= r->n_states)
    return corrupt(r, at, "a row belongs to a state that the header does not list", err);
  return 1;
}

void sc_keyed_reader_close(sc_keyed_reader_t *r) {
  if (!r)
    return;
  r->storage->ops->close(r->file);
  for (uint32_t i = 0; i < r->n_states; i++)
    free((char *)r->states[i].name);
  free(r->states);
  free(r->offsets);
  free(r->path);
  sc_buf_free(&r->block);
  free(r);
}
