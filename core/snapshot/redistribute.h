/*
 * redistribute: from the subtasks of a snapshot to the subtasks of a new attempt. Pure.
 *
 * Keyed state: each new subtask gets, from each old handle in order of the old subtasks, what of
 * its groups lies in the new subtask's range (empty intersections dropped).
 * Operator list state (reference 11.4): split lists are concatenated in the order of the old
 * subtasks and cut contiguously, the first (T mod N) targets one more, beginning at a `start` that
 * rotates from state name to state name (names in bytewise order); with unchanged parallelism each
 * keeps its own. Union: everything to everyone. Broadcast: new subtask i gets the copy of old
 * reporting entry (i mod number of reporting ones), also when the parallelism is unchanged; an
 * entry without items reports nothing. A list that gets no items at a subtask is absent there.
 * Watermarks: with unchanged parallelism the subtask's own; else, or where the caller says `level`,
 * the least of all old ones (and idle only if all were). Level are operators whose subtasks are fed
 * otherwise than before though there are as many: what is ahead of others must not meet what these
 * had still to come.
 * Finished: only if every old subtask had ended or finished.
 *
 * Threads: pure. Ownership: the plan borrows from the metadata; list bytes are its own.
 */
#ifndef SC_SNAPSHOT_REDISTRIBUTE_H
#define SC_SNAPSHOT_REDISTRIBUTE_H

#include "metadata.h"

typedef struct sc_restore_keyed {
  const sc_handle_t *handle;  /* borrowed from the metadata */
  const char *directory;      /* the old subtask's `directory`; NULL = the snapshot's own folder */
  sc_key_range_t range;       /* what of it to read */
  int64_t watermark;          /* the old subtask's: nothing of these groups before it fires again */
} sc_restore_keyed_t;

typedef struct sc_restore_groups { /* also where an old subtask had no keyed state left to list */
  sc_key_range_t range;       /* groups of the new subtask ... */
  int64_t watermark;          /* ... that had come to it: nothing before it fires again */
} sc_restore_groups_t;

typedef struct sc_restore_subtask {
  sc_restore_keyed_t *keyed;  /* n_keyed, in order of the old subtasks */
  uint32_t n_keyed;
  sc_restore_groups_t *groups; /* n_groups, ascending; none where max_parallelism changed */
  uint32_t n_groups;
  sc_buf_t lists;             /* msgpack as in SC_HANDLE_LIST; empty where there are none */
  int64_t watermark, forwarded; /* to begin with */
  bool idle;                  /* it had forwarded "idle" */
} sc_restore_subtask_t;

typedef struct sc_restore_operator {
  uint32_t parallelism;       /* the new one */
  bool finished;              /* every old subtask had ended: there is nothing left to do */
  sc_restore_subtask_t *subtasks; /* parallelism */
} sc_restore_operator_t;

/* Plan one operator. SC_ESTATE with both numbers when max_parallelism differs and there is keyed
 * state, or when parallelism > max_parallelism; SC_ECORRUPT when list bytes are damaged. Old tasks
 * that were chained are planned each by itself, so none takes its max_parallelism from another. */
int sc_redistribute(const sc_metadata_operator_t *old, uint32_t parallelism,
                    uint32_t max_parallelism, bool level, sc_restore_operator_t **out,
                    sc_error_t *err);
void sc_restore_operator_destroy(sc_restore_operator_t *plan); /* NULL is fine */

/* List-state bytes (SC_HANDLE_LIST), written and read one list at a time. */
void sc_lists_begin(sc_buf_t *out, uint32_t n_lists);
/* The n_items values follow, msgpack. */
void sc_lists_list(sc_buf_t *out, const char *name, int mode, uint32_t n_items);
/* Items of a named list: 1 and a cursor-ready array body (n values) in *items and *n; 0 where
 * absent; SC_ECORRUPT. */
int sc_lists_find(sc_bytes_t lists, const char *name, sc_bytes_t *items, uint32_t *n);
/* Call `each` for every item of a named list, of which there may be none. Stops at its first
 * negative result, which is returned, with what `each` said in err; SC_ECORRUPT where the bytes are
 * damaged. `who` is whose they are, for the message. */
int sc_lists_each(sc_bytes_t lists, const char *name,
                  int (*each)(void *arg, sc_bytes_t item, sc_error_t *err), void *arg,
                  const char *who, sc_error_t *err);

#endif
