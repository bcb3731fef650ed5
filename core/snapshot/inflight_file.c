#include "inflight_file.h"

#include <inttypes.h>
#include <stdlib.h>

#include "../base/hash.h"
#include "../base/mem.h"
#include "../data/value.h"

static const char magic[8] = "SCKPFLOW";
enum {
  FIXED = 16,       /* magic, version, length of the header */
  HEAD_MAX = 256,   /* all in front of the first block; this version needs less */
  COPIED = 1 << 18  /* bytes at a time */
};

/* ---- writing ---- */

struct sc_inflight_writer {
  sc_storage_t *storage; /* borrowed */
  char *path;
  sc_publish_t *file;    /* NULL until the first block */
  sc_buf_t head;         /* everything before it */
};

static void make_head(sc_buf_t *out, uint64_t checkpoint, uint64_t attempt) {
  sc_buf_t header = SC_BUF_INIT;
  sc_pack_map(&header, 2);
  sc_pack_cstr(&header, "checkpoint");
  sc_pack_int(&header, (int64_t)checkpoint);
  sc_pack_cstr(&header, "attempt");
  sc_pack_int(&header, (int64_t)attempt);
  sc_buf_put(out, magic, sizeof magic);
  sc_buf_put_u32(out, SC_INFLIGHT_FILE_VERSION);
  sc_buf_put_u32(out, (uint32_t)header.len);
  sc_buf_put_bytes(out, sc_buf_bytes(&header));
  sc_buf_put_u64(out, sc_checksum(sc_buf_bytes(out)));
  sc_assert(out->len <= HEAD_MAX);
  sc_buf_free(&header);
}

sc_inflight_writer_t *sc_inflight_writer_create(sc_storage_t *s, const char *path,
                                                uint64_t checkpoint, uint64_t attempt) {
  sc_inflight_writer_t *w = sc_calloc(1, sizeof *w);
  w->storage = s;
  w->path = sc_strdup(path);
  make_head(&w->head, checkpoint, attempt);
  return w;
}

uint64_t sc_inflight_writer_offset(const sc_inflight_writer_t *w) {
  return w->file ? sc_publish_length(w->file) : w->head.len;
}

static int begin_file(sc_inflight_writer_t *w, sc_error_t *err) {
  if (w->file)
    return 0;
  int rc = sc_publish_begin(w->storage, w->path, &w->file, err);
  return rc < 0 ? rc : sc_publish_write(w->file, w->head.data, w->head.len, err);
}

int sc_inflight_writer_put(sc_inflight_writer_t *w, sc_bytes_t records, sc_error_t *err) {
  sc_assert(records.len > 0 && records.len <= UINT32_MAX);
  uint8_t head[SC_INFLIGHT_BLOCK_HEAD];
  int rc = begin_file(w, err);
  if (rc < 0)
    return rc;
  sc_store_u32(head, (uint32_t)records.len);
  sc_store_u64(head + 4, sc_checksum(records));
  rc = sc_publish_write(w->file, head, sizeof head, err);
  return rc < 0 ? rc : sc_publish_write(w->file, records.data, records.len, err);
}

static int put_blocks(sc_inflight_writer_t *w, sc_bytes_t blocks, uint32_t skip, sc_error_t *err) {
  while (blocks.len) { /* sc_inflight_read saw to it that they are whole */
    uint32_t n = sc_load_u32(blocks.data);
    sc_bytes_t records = sc_bytes(blocks.data + SC_INFLIGHT_BLOCK_HEAD + skip, n - skip);
    int rc = records.len ? sc_inflight_writer_put(w, records, err) : 0;
    if (rc < 0)
      return rc;
    skip = 0;
    blocks = sc_bytes(blocks.data + SC_INFLIGHT_BLOCK_HEAD + n,
                      blocks.len - SC_INFLIGHT_BLOCK_HEAD - n);
  }
  return 0;
}

int sc_inflight_writer_copy(sc_inflight_writer_t *w, const char *dir, const sc_handle_t *h,
                            sc_error_t *err) {
  sc_buf_t blocks = SC_BUF_INIT;
  uint64_t at = h->inflight.offset;
  int64_t got;
  int rc = 0;
  while ((got = sc_inflight_read(w->storage, dir, h, at, COPIED, &blocks, err)) > 0) {
    rc = put_blocks(w, sc_buf_bytes(&blocks), at == h->inflight.offset ? h->inflight.skip : 0, err);
    if (rc < 0)
      break;
    at += (uint64_t)got;
    sc_buf_clear(&blocks);
  }
  sc_buf_free(&blocks);
  return got < 0 ? (int)got : rc;
}

static void free_writer(sc_inflight_writer_t *w) {
  free(w->path);
  sc_buf_free(&w->head);
  free(w);
}

int sc_inflight_writer_finish(sc_inflight_writer_t *w, uint64_t *length, uint64_t *checksum,
                              sc_error_t *err) {
  *length = *checksum = 0;
  int rc = w->file ? sc_publish_commit(w->file, length, checksum, err) : 0;
  free_writer(w);
  return rc;
}

void sc_inflight_writer_abandon(sc_inflight_writer_t *w) {
  if (!w)
    return;
  sc_publish_abandon(w->file);
  free_writer(w);
}

/* ---- reading ---- */

typedef struct reading {
  sc_storage_t *storage;
  sc_file_t *file;
  const char *path;
  uint64_t at, end;  /* of what is named and not yet read */
  sc_error_t *err;
} reading_t;

static int corrupt(const reading_t *r, uint64_t offset, const char *what) {
  sc_fail(r->err, SC_ECORRUPT, "%s is damaged at byte %" PRIu64 ": %s", r->path, offset, what);
  sc_error_set_file(r->err, r->path);
  return SC_ECORRUPT;
}

static int check_head(const reading_t *r, const sc_handle_t *h) {
  int64_t size = r->storage->ops->size(r->file, r->err);
  if (size < 0)
    return (int)size;
  if ((uint64_t)size != h->length) {
    sc_fail(r->err, SC_ECORRUPT, "%s is damaged: it has %" PRId64 " bytes, %" PRIu64
            " were written", r->path, size, h->length);
    sc_error_set_file(r->err, r->path);
    return SC_ECORRUPT;
  }
  uint8_t head[HEAD_MAX];
  int rc = sc_storage_read_exactly(r->storage, r->file, r->path, 0, head, FIXED, r->err);
  if (rc < 0)
    return rc;
  if (memcmp(head, magic, sizeof magic))
    return corrupt(r, 0, "it is not a file of in-flight data");
  uint32_t version = sc_load_u32(head + 8), n = sc_load_u32(head + 12);
  if (version > SC_INFLIGHT_FILE_VERSION || version == 0) {
    sc_fail(r->err, SC_EVERSION, "%s has format version %" PRIu32 ", this program reads up to %d",
            r->path, version, SC_INFLIGHT_FILE_VERSION);
    sc_error_set_file(r->err, r->path);
    return SC_EVERSION;
  }
  if (n > HEAD_MAX - FIXED - 8)
    return corrupt(r, 12, "its header is longer than any that was written");
  rc = sc_storage_read_exactly(r->storage, r->file, r->path, FIXED, head + FIXED, n + 8, r->err);
  if (rc == 0 && sc_checksum(sc_bytes(head, FIXED + n)) != sc_load_u64(head + FIXED + n))
    rc = corrupt(r, FIXED + n, "its header's checksum does not fit");
  return rc;
}

/* Whole blocks at the front of what was read, checked: their bytes, or SC_ECORRUPT. *need is what
 * the next one takes, as far as it is known. */
static int64_t whole_blocks(const reading_t *r, sc_bytes_t bytes, size_t *need) {
  size_t done = 0;
  *need = SC_INFLIGHT_BLOCK_HEAD;
  while (bytes.len - done >= SC_INFLIGHT_BLOCK_HEAD) {
    const uint8_t *block = bytes.data + done;
    size_t n = sc_load_u32(block);
    *need = SC_INFLIGHT_BLOCK_HEAD + n;
    if (n == 0 || *need > r->end - r->at - done)
      return corrupt(r, r->at + done, "a block reaches beyond what the snapshot lists");
    if (*need > bytes.len - done)
      return (int64_t)done;
    if (sc_checksum(sc_bytes(block + SC_INFLIGHT_BLOCK_HEAD, n)) != sc_load_u64(block + 4))
      return corrupt(r, r->at + done, "a block's checksum does not fit");
    done += *need;
    *need = SC_INFLIGHT_BLOCK_HEAD;
  }
  return (int64_t)done;
}

static int64_t read_blocks(const reading_t *r, size_t want, sc_buf_t *out) {
  size_t begin = out->len, n = want > SC_INFLIGHT_BLOCK_HEAD ? want : SC_INFLIGHT_BLOCK_HEAD, need;
  for (;;) {
    if (n > r->end - r->at)
      n = (size_t)(r->end - r->at);
    uint8_t *to = sc_buf_reserve(out, n);
    int rc = sc_storage_read_exactly(r->storage, r->file, r->path, r->at, to, n, r->err);
    if (rc < 0)
      return rc;
    int64_t got = whole_blocks(r, sc_bytes(out->data + begin, n), &need);
    if (got > 0)
      out->len += (size_t)got;
    if (got != 0)
      return got;
    if (need > r->end - r->at)
      return corrupt(r, r->at, "a block reaches beyond what the snapshot lists");
    n = need; /* one that is larger than was asked for */
  }
}

int64_t sc_inflight_read(sc_storage_t *s, const char *dir, const sc_handle_t *h, uint64_t at,
                         size_t want, sc_buf_t *out, sc_error_t *err) {
  const sc_handle_inflight_t *f = &h->inflight;
  sc_assert(h->kind == SC_HANDLE_INFLIGHT && at >= f->offset && at <= f->offset + f->bytes);
  if (at == f->offset + f->bytes)
    return 0;
  char *path = sc_path_join(dir, h->file);
  reading_t r = {s, NULL, path, at, f->offset + f->bytes, err};
  int64_t rc = s->ops->open(s, path, &r.file, err);
  if (rc == 0)
    rc = check_head(&r, h);
  if (rc == 0) {
    size_t begin = out->len;
    rc = read_blocks(&r, want, out);
    if (rc > 0 && at == f->offset && f->skip > sc_load_u32(out->data + begin))
      rc = corrupt(&r, at, "the snapshot begins behind the end of a block");
    if (rc < 0)
      out->len = begin;
  }
  s->ops->close(r.file);
  free(path);
  return rc;
}
