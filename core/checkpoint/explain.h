/*
 * explain: what took a checkpoint's time, and what to do about it, in one or two plain sentences.
 *
 * Of the numbers that the subtasks measured, the *critical path* is followed: from the subtask that
 * acknowledged last (of one that is not complete: that has not acknowledged) back along the edges
 * whose barriers came last. The longest of its parts says what kind of cause it was:
 *
 *   waited before it began                  another checkpoint was in the way      QUEUED
 *   start delay, alignment                  a barrier stood behind records, or a source or another
 *                                           task of its thread did not come to it
 *     the subtask was seen in a call of C that did not return                      BLOCKED
 *     one subtask's queue, and it got far more than its siblings                   SKEW
 *     it got through so many bytes that it is not slow                             IN_FLIGHT
 *     it is a sink                                                                 SINK
 *     it was seen in a function of the user, a source's too                        FUNCTION
 *     else, where bytes were queued                                                IN_FLIGHT
 *   synchronous part, or a wait that        operators' snapshots                   SYNC
 *   somebody's was most of
 *   asynchronous part: until its barriers were taken     as start delay, of whoever took them
 *                      until a thread was free           of the subtask whose writing kept them
 *                      mostly storage                                              STORAGE
 *                      mostly data that was in flight                              IN_FLIGHT
 *                      otherwise                                                   STATE
 *   its folder, before; _metadata, behind                                          STORAGE
 *
 * Where several edges on the path were slow, the last of them counts: those before it were full
 * because it was. Who was seen seldom, beside another, only came to its turn when that one let go
 * of their thread. Each row is a job that was made slow in that one way in spec/api/explain_spec
 * and spec/core/runtime/job_explain_spec.
 *
 * Pure. Threads: any. Ownership: what is given is borrowed; the explanation is the caller's until
 * sc_explanation_fini. Failure: none; what is not known is left out of the sentence.
 */
#ifndef SC_CHECKPOINT_EXPLAIN_H
#define SC_CHECKPOINT_EXPLAIN_H

#include <stdbool.h>
#include <stdint.h>

#define SC_EXPLAIN_NOBODY UINT32_MAX

typedef enum {
  SC_CAUSE_NONE,      /* nothing was slow */
  SC_CAUSE_QUEUED,
  SC_CAUSE_SKEW,
  SC_CAUSE_BLOCKED,
  SC_CAUSE_SINK,
  SC_CAUSE_FUNCTION,
  SC_CAUSE_IN_FLIGHT,
  SC_CAUSE_SYNC,
  SC_CAUSE_STORAGE,
  SC_CAUSE_STATE,
  SC_CAUSE_UNKNOWN    /* it was slow, and nothing says where */
} sc_cause_t;

typedef struct sc_explain_subtask {
  const char *name;        /* "count 2/4" */
  uint32_t task;           /* subtasks with the same number are siblings */
  bool sink;               /* nothing comes behind it */
  bool acknowledged;       /* else only the three at the end count */
  int64_t ack_ns;          /* from the trigger to the acknowledgement */
  int64_t start_delay_ns;  /* from the trigger to its first barrier */
  int64_t alignment_ns, sync_ns, async_ns;
  /* Of async: until no barrier was waited for any more, its own or one of a task that writes into
   * the same file; until the pool had a thread for it; in calls of the storage. */
  int64_t held_ns, pool_ns, storage_ns;
  uint64_t written;        /* bytes, in-flight data included */
  uint64_t persisted;      /* bytes of in-flight data */
  uint32_t last_from;      /* subtask whose barrier came last, or SC_EXPLAIN_NOBODY */
  uint64_t queued;         /* bytes that stood before that barrier when it was sent */
  uint64_t received;       /* bytes sent to it since the checkpoint before; 0: not by keys */
  const char *place;       /* function and line where it was seen, or NULL */
  uint32_t seen;           /* so often its slot ran it when it was looked for */
  bool blocked;            /* and it was in a call that did not come back to Lua */
  bool snapshots;          /* and it was in the synchronous part of its snapshot */
} sc_explain_subtask_t;

typedef enum { SC_EXPLAIN_IN_PROGRESS, SC_EXPLAIN_COMPLETED, SC_EXPLAIN_FAILED } sc_explain_end_t;

typedef struct sc_explain_input {
  uint64_t id;
  sc_explain_end_t end;
  int64_t slow_ns;         /* what took less needs no explanation */
  int64_t took_ns;         /* from its trigger to its end, or to now */
  int64_t waited_ns;       /* from when it was due, or asked for, to its trigger */
  int64_t prepare_ns;      /* of took_ns: making its folder, before any barrier */
  int64_t finish_ns;       /* of took_ns: from the last acknowledgement to the end */
  const sc_explain_subtask_t *subtasks;
  uint32_t n;
} sc_explain_input_t;

typedef struct sc_explanation {
  sc_cause_t cause;
  uint32_t subtask;        /* whose it was, or SC_EXPLAIN_NOBODY */
  char *text;              /* malloc'ed sentences */
  uint32_t *path;          /* subtasks from the one that the barrier began at, n_path */
  uint32_t n_path;
} sc_explanation_t;

void sc_explain(const sc_explain_input_t *in, sc_explanation_t *out);
void sc_explanation_fini(sc_explanation_t *e);
const char *sc_cause_name(sc_cause_t cause); /* "skewed_key", ...; static */

#endif
