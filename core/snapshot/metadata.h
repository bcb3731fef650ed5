/*
 * metadata: the file _metadata, which makes a folder a snapshot.
 *
 * File: "SCKPMETA" | u32 version | u32 body length | body, msgpack | u64 XXH64 of all before it.
 * Written last and published whole (storage.h), so a folder without a valid one is no snapshot.
 * A version above SC_METADATA_VERSION is refused with both numbers (SC_EVERSION); wrong magic,
 * length, checksum or shape is SC_ECORRUPT naming the file. Unknown fields are ignored, so that
 * fields may be added.
 *
 *   offset  size  what
 *        0     8  "SCKPMETA"
 *        8     4  version, u32, little endian: 1
 *       12     4  n, length of the body, u32, little endian
 *       16     n  body: one msgpack map, keys as below
 *     16+n     8  XXH64, seed 0, of bytes 0 .. 16+n-1, u64, little endian
 *
 * Body (str keys; "int" in the shortest msgpack form; a missing field is false, 0 or absent unless
 * marked *; fields marked * are required):
 *   id*               int   the checkpoint's number
 *   time              int   wall clock in ms when it was triggered
 *   job_id* job_name  str
 *   attempt           int
 *   finished          bool  every task had ended: the job is complete
 *   savepoint         bool
 *   operators*        array of maps:
 *     uid*  name              str
 *     parallelism*            int >= 1
 *     max_parallelism*        int, parallelism .. 32768
 *     enumerator              str holding the bytes of a source's enumerator; absent: it has none
 *     subtasks*               array of `parallelism` maps, in order of the subtasks:
 *       end                   int   0 running, 1 ended, 2 finished
 *       watermark forwarded   int   ms; absent: -2^63, before any
 *       idle                  bool
 *       directory             str   where the files below lie, relative to the job's folder;
 *                                   absent: the snapshot's own folder
 *       handles               array of maps:
 *         kind*               int   1 keyed, 2 lists, 3 in-flight data (handle.h)
 *         file*               str   keyed, in-flight: path relative to the directory, without "..";
 *                                   in-flight: absent where there are no blocks
 *         length* checksum*   int   of the file: bytes and XXH64, the latter as the int64 of the
 *                                   same bits
 *         first* last*        int   keyed: key groups, inclusive; in-flight: the tag, absent on an
 *                                   edge without keys
 *         offsets*            array of last-first+1 int: where each group's block begins in the
 *                                   file; 0: the group is empty
 *         states*             array of str: names of the states in the file
 *         lists*              str   lists: bytes, msgpack as in handle.h
 *         directory           str   in-flight: where the file lies, relative to the job's folder;
 *                                   absent: the snapshot's own folder
 *         edge* sender* receiver* origin* generation* side*
 *                             int   in-flight: of which channel; edge: index of `edges`, from 0
 *         offset bytes skip   int   in-flight: the blocks in the file
 *         watermark           int   in-flight: absent: -2^63, before any
 *         idle                bool  in-flight
 *   edges             array of maps:
 *     from* output to* partitioner   str
 *     port ordinal from_parallelism to_parallelism   int
 *
 * Threads: pure encode/decode; read/write block (I/O pool). Ownership: create/destroy, deep.
 */
#ifndef SC_SNAPSHOT_METADATA_H
#define SC_SNAPSHOT_METADATA_H

#include "handle.h"
#include "storage.h"

#define SC_METADATA_VERSION 1
#define SC_METADATA_NAME "_metadata"
#define SC_METADATA_BYTES_MAX ((size_t)1 << 30) /* of a file that is read */

typedef struct sc_metadata_subtask {
  sc_task_end_t end;            /* whether it had come to its end when the snapshot was taken */
  sc_operator_snapshot_t state; /* its uid repeats the operator's */
  char *directory;              /* NULL: this snapshot's own folder. Else where its files lie (a
                                   finished task's handles stay in an older chk-N), relative to
                                   the job's folder */
} sc_metadata_subtask_t;

typedef struct sc_metadata_operator {
  char *uid, *name;             /* identity, and what people see */
  uint32_t parallelism, max_parallelism; /* when the snapshot was taken */
  bool has_enumerator;
  sc_buf_t enumerator;          /* state of a source's enumerator, msgpack */
  sc_metadata_subtask_t *subtasks; /* `parallelism` of them */
} sc_metadata_operator_t;

typedef struct sc_metadata_edge { /* DESIGN section 4: how an edge is identified */
  char *from_uid, *output;      /* sender, and which of its outputs ("" the main one) */
  char *to_uid, *partitioner;   /* receiver, and how records were dealt */
  uint32_t port;                /* input of the receiver */
  uint32_t ordinal;             /* counts edges that are equal in all of the above */
  uint32_t from_parallelism, to_parallelism; /* when the snapshot was taken */
} sc_metadata_edge_t;

typedef struct sc_metadata {
  uint64_t id;                  /* of the checkpoint; below 2^63 */
  int64_t timestamp_ms;         /* wall clock when it was triggered */
  char *job_id, *job_name;      /* whose it is, and what people call it */
  bool finished;                /* every task had ended: the job is complete */
  bool savepoint;               /* the user's: the engine never deletes it */
  uint64_t attempt;             /* in which it was taken */
  sc_metadata_operator_t *operators; /* n_operators, in order of the graph */
  uint32_t n_operators;
  sc_metadata_edge_t *edges;    /* n_edges */
  uint32_t n_edges;
} sc_metadata_t;

/* Pointers that add_* gave live until the next add_*; strings are set (malloc'ed) by the caller. */
sc_metadata_t *sc_metadata_create(void);
void sc_metadata_destroy(sc_metadata_t *m);
sc_metadata_operator_t *sc_metadata_add_operator(sc_metadata_t *m, const char *uid,
                                                 const char *name, uint32_t parallelism,
                                                 uint32_t max_parallelism);
sc_metadata_edge_t *sc_metadata_add_edge(sc_metadata_t *m);
/* NULL where there is none. */
const sc_metadata_operator_t *sc_metadata_find(const sc_metadata_t *m, const char *uid);

/* The folder that a handle's file lies in, relative to the job's; NULL: the snapshot's own. */
const char *sc_metadata_directory(const sc_metadata_operator_t *op, uint32_t subtask,
                                  const sc_handle_t *h);
/* Call each(arg, op, subtask, handle) for every handle that lies in a file (several may lie in
 * one); a non-zero result ends the walk and is returned. */
typedef int (*sc_metadata_file_cb)(void *arg, const sc_metadata_operator_t *op, uint32_t subtask,
                                   const sc_handle_t *handle);
int sc_metadata_each_file(const sc_metadata_t *m, sc_metadata_file_cb each, void *arg);

void sc_metadata_encode(const sc_metadata_t *m, sc_buf_t *out);
int sc_metadata_decode(sc_bytes_t file, sc_metadata_t **out, sc_error_t *err);
/* Publish DIR/_metadata. */
int sc_metadata_write(sc_storage_t *s, const char *dir, const sc_metadata_t *m, sc_error_t *err);
/* `path` is a snapshot's folder or its _metadata file, known by that name. Absent: SC_ENOTFOUND. */
int sc_metadata_read(sc_storage_t *s, const char *path, sc_metadata_t **out, sc_error_t *err);
/* Every listed file exists with its length (full = false) or its checksum too (full = true);
 * the first one that is missing, short or altered is named. job_dir resolves `directory`. */
int sc_metadata_verify(sc_storage_t *s, const char *dir, const char *job_dir,
                       const sc_metadata_t *m, bool full, sc_error_t *err);

#endif
