/*
 * handle: where a piece of state lies. The coordinator knows nothing of state but handles.
 *
 * A task answers a checkpoint with an sc_task_snapshot_t: for each operator of its chain the
 * watermarks and the handles. A handle's bytes are in a file of the snapshot's own folder (path
 * relative to it) or, when small, inline.
 *
 *   SC_HANDLE_KEYED   file in the canonical format (keyed_file.h): key-group range and the offset
 *                     of each group's block
 *   SC_HANDLE_LIST    operator list states: inline msgpack {name: [mode, [item, ...]], ...},
 *                     mode 0 split, 1 union, 2 broadcast
 *   SC_HANDLE_INFLIGHT  one side's in-flight data of one channel (DESIGN section 4): blocks of a
 *                     file that several tasks share (inflight_file.h), or no file where nothing but
 *                     the channel's watermark is kept. The receiver's lie with the operator that
 *                     receives, the sender's with the one that sends.
 *
 * Threads: a value has one owner at a time; handed over by mail. Ownership: create/destroy; all
 * strings and arrays inside belong to it.
 */
#ifndef SC_SNAPSHOT_HANDLE_H
#define SC_SNAPSHOT_HANDLE_H

#include "../base/buf.h"
#include "../base/error.h"
#include "../data/key.h"

typedef enum { /* stored: never renumber */
  SC_HANDLE_KEYED = 1, SC_HANDLE_LIST = 2, SC_HANDLE_INFLIGHT = 3
} sc_handle_kind_t;
enum { SC_LIST_SPLIT = 0, SC_LIST_UNION = 1, SC_LIST_BROADCAST = 2 };      /* stored */

/* Of which channel. A channel whose data is given out to new receivers at a restore is a *virtual*
 * one there; what a checkpoint finds unread of it is kept again, as the same blocks of the same
 * file. Handles that agree in edge, sender, receiver, origin, generation and tag are the two sides
 * of one channel: the receiver's data comes first. */
typedef struct sc_handle_inflight {
  uint32_t edge;            /* of the graph in a task's snapshot; an index of the metadata's edges
                               in metadata */
  uint32_t sender;          /* the sender's subtask when the records were sent */
  uint32_t receiver;        /* the receiver's subtask when they were kept, for the last time */
  uint32_t origin;          /* the receiver's subtask when they were kept for the first time */
  uint32_t generation;      /* older ones were sent before, and are to be read before */
  uint32_t side;            /* sc_inflight_side_t: 0 the receiver's, 1 the sender's */
  bool tagged;              /* an edge by key: only records of `range` count */
  bool idle;                /* the channel's status in front of the first byte ... */
  int64_t watermark;        /* ... and its watermark there, as far as this side knew it */
  uint64_t offset, bytes;   /* of the blocks in the file; 0 bytes: none */
  uint32_t skip;            /* bytes of the first block that had been read already */
} sc_handle_inflight_t;

typedef struct sc_handle {
  sc_handle_kind_t kind;
  char *file;               /* relative path, or NULL where inline */
  char *directory;          /* INFLIGHT: NULL, or the folder that the file lies in, relative to the
                               job's (what was kept again stays in an older chk-N) */
  uint64_t length;          /* bytes of the file */
  uint64_t checksum;        /* XXH64 of the whole file */
  sc_key_range_t range;     /* KEYED: groups of the file; INFLIGHT: the tag */
  sc_handle_inflight_t inflight; /* INFLIGHT */
  uint64_t *offsets;        /* KEYED: one for each group of range; 0 = the group is empty */
  char **states;            /* KEYED: names in it, n_states */
  uint32_t n_states;
  sc_buf_t inlined;         /* LIST: the bytes */
} sc_handle_t;

typedef struct sc_operator_snapshot {
  char *uid;
  int64_t watermark;        /* current watermark of the operator */
  int64_t forwarded;        /* last watermark that it forwarded */
  bool idle;                /* it had forwarded "idle" */
  sc_handle_t *handles;     /* n_handles */
  uint32_t n_handles;
} sc_operator_snapshot_t;

typedef enum { /* stored: never renumber */
  SC_TASK_RUNNING = 0, SC_TASK_ENDED = 1, SC_TASK_FINISHED = 2
} sc_task_end_t;

typedef struct sc_task_snapshot {
  uint64_t checkpoint;      /* for which it was taken: its files lie in that one's folder */
  uint32_t task;            /* index of the task in its attempt */
  uint32_t subtask;         /* of all operators in the chain */
  sc_task_end_t end;        /* ENDED: taken after end of input was handed on */
  sc_operator_snapshot_t *operators; /* head to tail */
  uint32_t n_operators;
  /* Durations in ns and sizes in bytes, for statistics (SPEC G1). */
  int64_t start_delay_ns, alignment_ns, sync_ns, async_ns;
  /* Of async_ns: until no barrier was waited for any more; until a thread of the pool was free; in
   * calls of the storage. Each of the half that ended last (runtime/task_snapshot.c). */
  int64_t held_ns, pool_ns, storage_ns;
  uint32_t last_from;       /* task whose barrier came last; UINT32_MAX: none did */
  uint64_t queued_bytes;    /* that stood before that barrier when it was sent */
  uint64_t received_bytes;  /* KEYED: that were sent to it since its snapshot before this one */
  uint64_t bytes;           /* written for this checkpoint */
  uint64_t alignment_bytes; /* processed between the first barrier and the last */
  bool unaligned;           /* a barrier of it overtook */
  uint64_t persisted_bytes; /* in-flight data that is kept, also where it is kept again */
} sc_task_snapshot_t;

/* The operators are empty: no uid, watermarks before any, no handles. */
sc_task_snapshot_t *sc_task_snapshot_create(uint32_t task, uint32_t subtask, uint32_t n_operators);
void sc_task_snapshot_destroy(sc_task_snapshot_t *snap); /* NULL is fine; touches no file */
sc_task_snapshot_t *sc_task_snapshot_copy(const sc_task_snapshot_t *snap);
/* Bytes of all that it refers to, whenever that was written. */
uint64_t sc_task_snapshot_size(const sc_task_snapshot_t *snap);
/* Take the in-flight data out: its file belongs to other tasks, too. */
void sc_task_snapshot_drop_inflight(sc_task_snapshot_t *snap);
/* Append an empty handle of a kind to an operator's snapshot; the pointer lives until the next. */
sc_handle_t *sc_operator_snapshot_add(sc_operator_snapshot_t *op, sc_handle_kind_t kind);
void sc_operator_snapshot_fini(sc_operator_snapshot_t *op);
/* `to` is uninitialised. */
void sc_operator_snapshot_copy(sc_operator_snapshot_t *to, const sc_operator_snapshot_t *from);
void sc_handle_fini(sc_handle_t *h);
void sc_handle_copy(sc_handle_t *to, const sc_handle_t *from); /* `to` uninitialised */
/* Groups of a KEYED handle's range, so entries of `offsets`. */
static inline uint32_t sc_key_range_count(sc_key_range_t r) {
  return (uint32_t)r.last - r.first + 1;
}

#endif
