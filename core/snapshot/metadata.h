/*
 * metadata: the file _metadata, which makes a folder a snapshot.
 *
 * File: "SCKPMETA" | u32 version | u32 body length | body, msgpack | u64 XXH64 of all before it.
 * Written last and published whole (storage.h), so a folder without a valid one is no snapshot.
 * A version above SC_METADATA_VERSION is refused with both numbers (SC_EVERSION); wrong magic,
 * length, checksum or shape is SC_ECORRUPT naming the file. The body's fields stand in
 * ARCHITECTURE.md byte by byte; unknown ones are ignored, so that fields may be added.
 *
 * Threads: pure encode/decode; read/write block (I/O pool). Ownership: create/destroy, deep.
 */
#ifndef SC_SNAPSHOT_METADATA_H
#define SC_SNAPSHOT_METADATA_H

#include "handle.h"
#include "storage.h"

#define SC_METADATA_VERSION 1
#define SC_METADATA_NAME "_metadata"

typedef struct sc_metadata_subtask {
  sc_task_end_t end;
  sc_operator_snapshot_t state; /* its uid repeats the operator's */
  char *directory;              /* NULL: this snapshot's own folder. Else where its files lie (a
                                   finished task's handles stay in an older chk-N), relative to
                                   the job's folder */
} sc_metadata_subtask_t;

typedef struct sc_metadata_operator {
  char *uid, *name;
  uint32_t parallelism, max_parallelism;
  bool has_enumerator;
  sc_buf_t enumerator;          /* state of a source's enumerator, msgpack */
  sc_metadata_subtask_t *subtasks; /* `parallelism` of them */
} sc_metadata_operator_t;

typedef struct sc_metadata_edge { /* DESIGN section 4: how an edge is identified */
  char *from_uid, *output, *to_uid, *partitioner;
  uint32_t port, ordinal, from_parallelism, to_parallelism;
} sc_metadata_edge_t;

typedef struct sc_metadata {
  uint64_t id;
  int64_t timestamp_ms;         /* wall clock when it was triggered */
  char *job_id, *job_name;
  bool finished;                /* every task had ended: the job is complete */
  bool savepoint;
  uint64_t attempt;
  sc_metadata_operator_t *operators;
  uint32_t n_operators;
  sc_metadata_edge_t *edges;
  uint32_t n_edges;
} sc_metadata_t;

sc_metadata_t *sc_metadata_create(void);
void sc_metadata_destroy(sc_metadata_t *m);
sc_metadata_operator_t *sc_metadata_add_operator(sc_metadata_t *m, const char *uid, const char *name,
                                                 uint32_t parallelism, uint32_t max_parallelism);
sc_metadata_edge_t *sc_metadata_add_edge(sc_metadata_t *m);
const sc_metadata_operator_t *sc_metadata_find(const sc_metadata_t *m, const char *uid); /* or NULL */

void sc_metadata_encode(const sc_metadata_t *m, sc_buf_t *out);
int sc_metadata_decode(sc_bytes_t file, sc_metadata_t **out, sc_error_t *err);
/* Publish DIR/_metadata. */
int sc_metadata_write(sc_storage_t *s, const char *dir, const sc_metadata_t *m, sc_error_t *err);
/* `path` is a snapshot's folder or its _metadata file. Absent: SC_ENOTFOUND. */
int sc_metadata_read(sc_storage_t *s, const char *path, sc_metadata_t **out, sc_error_t *err);
/* Every listed file exists with its length (full = false) or its checksum too (full = true);
 * the first one that is missing, short or altered is named. job_dir resolves `directory`. */
int sc_metadata_verify(sc_storage_t *s, const char *dir, const char *job_dir, const sc_metadata_t *m,
                       bool full, sc_error_t *err);

#endif
