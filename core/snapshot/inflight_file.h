/*
 * inflight_file: a file of in-flight data (DESIGN section 4). Several tasks, and so several
 * channels, share one; which blocks are whose stands in the handles (handle.h).
 *
 *   "SCKPFLOW" | u32 version (1) | u32 header length | header, msgpack | u64 XXH64 of all before it
 *   then blocks, one after another to the end of the file:
 *     u32 n | u64 XXH64 of the n bytes | n bytes: whole records (record.h), at least one
 *   header: {checkpoint, attempt}
 *
 * A block is what was kept of one buffer, so that no record spans blocks, and a reader may begin at
 * each. The blocks of one side of one channel lie together, oldest first. A handle may begin in the
 * middle of a block (`skip`): then its checkpoint kept again what was left of it.
 *
 * Tasks write through runtime/inflight_files.h, which shares the files among them.
 *
 * Promises: a file appears whole, under its last name, or not at all. Every byte that is read was
 * checked: a missing, short, altered or too new file is named.
 *
 * Threads: one at a time; blocks (I/O pool). Ownership: create/finish or abandon; a read is without
 * state. Failure: the storage's codes; SC_ECORRUPT, SC_EVERSION with the path in err->file.
 */
#ifndef SC_SNAPSHOT_INFLIGHT_FILE_H
#define SC_SNAPSHOT_INFLIGHT_FILE_H

#include "handle.h"
#include "storage.h"

#define SC_INFLIGHT_FILE_VERSION 1
#define SC_INFLIGHT_BLOCK_HEAD 12 /* bytes of length and checksum in front of a block's records */

typedef struct sc_inflight_writer sc_inflight_writer_t;

/* Creates nothing before the first block. */
sc_inflight_writer_t *sc_inflight_writer_create(sc_storage_t *s, const char *path,
                                                uint64_t checkpoint, uint64_t attempt);
/* Where the next block will begin. */
uint64_t sc_inflight_writer_offset(const sc_inflight_writer_t *w);
/* One block; `records` is not empty. */
int sc_inflight_writer_put(sc_inflight_writer_t *w, sc_bytes_t records, sc_error_t *err);
/* What a handle names of a file in another folder, as blocks of this one: without what was skipped.
 * `dir` is the folder that the handle's file lies in. */
int sc_inflight_writer_copy(sc_inflight_writer_t *w, const char *dir, const sc_handle_t *h,
                            sc_error_t *err);
/* Publish; frees w whatever happens. Without a block there is no file: length 0. */
int sc_inflight_writer_finish(sc_inflight_writer_t *w, uint64_t *length, uint64_t *checksum,
                              sc_error_t *err);
void sc_inflight_writer_abandon(sc_inflight_writer_t *w); /* NULL is fine */

/* Read whole blocks, heads included, of what h names, from `at` on (h->inflight.offset at first):
 * about `want` bytes, but at least one block; none is left out. They are appended to `out` as they
 * lie in the file, checked. Returns the bytes read: the next call's `at` lies that much further. At
 * the end of what h names: 0. */
int64_t sc_inflight_read(sc_storage_t *s, const char *dir, const sc_handle_t *h, uint64_t at,
                         size_t want, sc_buf_t *out, sc_error_t *err);

#endif
