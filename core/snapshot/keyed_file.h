/*
 * keyed_file: the canonical file of keyed state, the same for every backend.
 *
 *   "SCKPKEYS" | u32 version | u32 header length | header, msgpack | u64 XXH64 of all before it
 *   then for each non-empty key group, ascending:
 *     u16 group, u32 rows' bytes, rows
 *   row: u16 state index | u8 flags (1 = has a map key) | u32 key length, key |
 *        u32 namespace length, namespace | (u32 map-key length, map key) | u32 value length, value
 *   header: {uid, first, last, compression = "none", states = [{name, kind, version, ttl}, ...]}
 * Rows of one group are written in bytewise order of (state, key, namespace, map key), so equal
 * state makes equal bytes. The offset of each group's block stands in the handle; the whole file's
 * XXH64 too.
 *
 * Threads: one at a time; blocks (I/O pool). Ownership: create/finish or abandon; open/close.
 */
#ifndef SC_SNAPSHOT_KEYED_FILE_H
#define SC_SNAPSHOT_KEYED_FILE_H

#include "handle.h"
#include "storage.h"

#define SC_KEYED_FILE_VERSION 1

typedef enum { /* stored: never renumber */
  SC_STATE_VALUE = 1, SC_STATE_LIST = 2, SC_STATE_MAP = 3, SC_STATE_REDUCING = 4,
  SC_STATE_AGGREGATING = 5, SC_STATE_TIMERS = 6
} sc_state_kind_t;

typedef struct sc_keyed_file_state {
  const char *name;    /* unique in the operator */
  sc_state_kind_t kind;
} sc_keyed_file_state_t;

typedef struct sc_keyed_row {
  uint16_t group;
  uint16_t state;      /* index into the header's states */
  bool has_map_key;
  sc_bytes_t key, name_space, map_key, value;
} sc_keyed_row_t;

typedef struct sc_keyed_writer sc_keyed_writer_t;
int sc_keyed_writer_create(sc_storage_t *s, const char *path, const char *uid, sc_key_range_t range,
                           const sc_keyed_file_state_t *states, uint32_t n_states,
                           sc_keyed_writer_t **out, sc_error_t *err);
/* Groups ascending; rows of a group in the order above (asserted). */
int sc_keyed_writer_put(sc_keyed_writer_t *w, const sc_keyed_row_t *row, sc_error_t *err);
/* Publish and fill `handle` (all but `file`, which the caller knows relative to the snapshot).
 * Frees w whatever happens. Nothing was put: no file appears and handle->length is 0. */
int sc_keyed_writer_finish(sc_keyed_writer_t *w, sc_handle_t *handle, sc_error_t *err);
void sc_keyed_writer_abandon(sc_keyed_writer_t *w);

typedef struct sc_keyed_reader sc_keyed_reader_t;
/* Open DIR/handle->file, check length, whole-file checksum (streamed), header and version. */
int sc_keyed_reader_open(sc_storage_t *s, const char *dir, const sc_handle_t *handle,
                         sc_keyed_reader_t **out, sc_error_t *err);
uint32_t sc_keyed_reader_states(const sc_keyed_reader_t *r, const sc_keyed_file_state_t **states);
/* Restrict what follows to groups of this range. */
void sc_keyed_reader_select(sc_keyed_reader_t *r, sc_key_range_t range);
/* Next row of the selected groups: 1, 0 at the end, or an error. Borrowed until the next call. */
int sc_keyed_reader_next(sc_keyed_reader_t *r, sc_keyed_row_t *row, sc_error_t *err);
void sc_keyed_reader_close(sc_keyed_reader_t *r);

#endif
