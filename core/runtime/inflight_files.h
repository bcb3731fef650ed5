/*
 * inflight_files: how the tasks of an attempt write their in-flight data: several share one file of
 * a checkpoint (SPEC B8), in groups that are fixed when the attempt begins.
 *
 * A task that takes part in a checkpoint that may overtake says so on its slot (begin); when all
 * that it keeps is known, the pool hands its *share* over (add). A share is written at once, its
 * buffers go back to their pool, and it is done when its group's file is finished: every member has
 * added its share, has withdrawn, or has left. A share without records waits for nobody. Whoever
 * adds last publishes the file; no thread ever waits for another one's writing.
 *
 *   begin (slot) --add (pool)--> written --all members are through--> published -> done(0)
 *                                  |--a write failed------------------> done(that error), for all
 *                                  |--the checkpoint was aborted------> done(SC_ESTALE), no file
 *   begin --withdraw--> through, without a share
 *
 * What was in flight at a restore and is unread when a checkpoint begins is kept again as it lies
 * in its old file (sc_inflight_rest_t), or copied where the job does not own that file.
 *
 * Threads: any; each function locks for a moment, and only add does file work in its caller's
 * thread. `done` is called once for each share, without the lock, from whatever pool thread
 * finished the file (within add where there was nothing to wait for).
 * Ownership: create/destroy; a share is its task's, but the room's between add and done. Whoever
 * has a share between add and done keeps the attempt alive. Failure: through done.
 */
#ifndef SC_RUNTIME_INFLIGHT_FILES_H
#define SC_RUNTIME_INFLIGHT_FILES_H

#include "../exchange/inflight.h"
#include "../snapshot/handle.h"
#include "graph.h"

typedef struct sc_inflight_files sc_inflight_files_t;
struct sc_world;

typedef struct sc_inflight_files_config {
  struct sc_world *world;
  struct sc_storage *storage;
  const sc_graph_t *graph;
  const char *job_dir;      /* the folder of the job: files lie in its chk-N */
  uint64_t attempt;
  uint32_t region;          /* which of the job's: others write files of their own beside these */
  uint32_t generation;      /* of what this attempt sends: above all that it restored */
  uint32_t per_file;        /* members of a group, >= 1 */
} sc_inflight_files_config_t;

/* What is kept again: a handle of the snapshot that was restored, what was read of it cut off. */
typedef struct sc_inflight_rest {
  sc_handle_t handle;       /* owned */
  char *copy_from;          /* NULL, or the folder of its file: it has to be copied */
} sc_inflight_rest_t;

typedef struct sc_inflight_share sc_inflight_share_t;
struct sc_inflight_share {
  uint32_t member;
  uint64_t checkpoint;
  sc_inflight_t data;       /* whose buffers add gives back */
  sc_inflight_rest_t *rests; /* n_rests, malloc'ed */
  uint32_t n_rests;
  void (*done)(sc_inflight_share_t *share, int rc, sc_error_t *err);
  void *arg;                /* done's */
  /* Results, from done on. */
  sc_handle_t *handles;     /* n_handles */
  uint32_t n_handles;
  uint64_t bytes;           /* of blocks, written or kept again: SPEC G1, persisted */
  uint64_t written;         /* of these, written for this checkpoint */
  int64_t storage_ns;       /* in calls of the storage, for its whole file */
  int64_t waited_ns;        /* until when it waited for other members' (monotonic), or 0 */
  sc_error_t error;         /* the room's, as the next */
  sc_inflight_share_t *next;
};

sc_inflight_files_t *sc_inflight_files_create(const sc_inflight_files_config_t *config);
void sc_inflight_files_destroy(sc_inflight_files_t *f); /* no share is under way; NULL is fine */

/* A new member, before the attempt begins: neighbours in the order of joining share a file. */
uint32_t sc_inflight_files_join(sc_inflight_files_t *f);
/* The member's task has started the checkpoint; add or withdraw follows. */
void sc_inflight_files_begin(sc_inflight_files_t *f, uint32_t member, uint64_t checkpoint);
void sc_inflight_files_add(sc_inflight_files_t *f, sc_inflight_share_t *share);
void sc_inflight_files_withdraw(sc_inflight_files_t *f, uint32_t member, uint64_t checkpoint);
/* A member heard that the checkpoint was aborted, or knows that it will be. */
void sc_inflight_files_abort(sc_inflight_files_t *f, uint32_t member, uint64_t checkpoint);
/* The member's task has gone: it begins nothing any more, and what it began is withdrawn. */
void sc_inflight_files_leave(sc_inflight_files_t *f, uint32_t member);
/* The attempt ends: as if every member left and every checkpoint was aborted. */
void sc_inflight_files_close(sc_inflight_files_t *f);

/* Handles to their operators in the task's snapshot, and the bytes. */
void sc_inflight_share_move(const sc_inflight_files_t *f, sc_inflight_share_t *share,
                            sc_task_snapshot_t *snap);
void sc_inflight_share_fini(sc_inflight_share_t *share); /* gives back whatever is in it */

#endif
