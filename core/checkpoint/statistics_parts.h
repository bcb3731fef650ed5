/*
 * statistics_parts: what the two halves of the statistics share: statistics.c (the events) and
 * statistics_encode.c (what readers get). Everybody else includes statistics.h.
 */
#ifndef SC_CHECKPOINT_STATISTICS_PARTS_H
#define SC_CHECKPOINT_STATISTICS_PARTS_H

#include "statistics.h"

#define SC_UNKNOWN INT64_MIN /* a time that has not come */

/* Of one subtask, or added up. */
typedef struct sc__sizes {
  uint64_t checkpointed; /* bytes written */
  uint64_t state;        /* bytes referred to */
  uint64_t processed;    /* bytes read during alignment */
  uint64_t persisted;    /* bytes of in-flight data kept */
} sc__sizes_t;

typedef struct sc__subtask_entry {
  int64_t ack_ms;        /* when its acknowledgement came, or SC_UNKNOWN */
  bool finished;         /* it was not waited for */
  bool unaligned;        /* a barrier of its overtook data */
  sc__sizes_t sizes;
  int64_t sync_ns, async_ns, alignment_ns, start_delay_ns; /* as it measured them */
  int64_t held_ns, pool_ns, storage_ns; /* of async_ns (snapshot/handle.h) */
  uint32_t last_from;    /* subtask whose barrier came last, or SC_EXPLAIN_NOBODY */
  uint64_t queued;       /* bytes before that barrier */
  uint64_t received;     /* bytes that were sent to it since the checkpoint before; 0: no keys */
  uint32_t seen;         /* how often at work while it was waited for */
  bool blocked;          /* in a call of C that did not return */
  bool snapshots;        /* in its snapshot's synchronous part, when it was seen last */
  char *place;           /* where, or NULL */
} sc__subtask_entry_t;

typedef enum { SC__IN_PROGRESS, SC__COMPLETED, SC__FAILED } sc__status_t;

typedef struct sc__entry {
  uint64_t id;            /* 0: none */
  sc__status_t status;    /* what became of it */
  bool manual, savepoint; /* as it was begun */
  bool unaligned;         /* in one of them, at least */
  bool discarded;         /* its files were deleted */
  int64_t trigger_ms;     /* when it was triggered */
  int64_t waited_ms;      /* before that, for another to end */
  int64_t prepared_ms;    /* when its barriers were sent */
  int64_t latest_ack_ms;  /* newest acknowledgement, or SC_UNKNOWN */
  int64_t end_ms;         /* when it completed or failed, or SC_UNKNOWN */
  sc__sizes_t sizes;      /* of its subtasks together */
  uint32_t acknowledged;  /* subtasks that did */
  char *path;             /* of a completed one */
  char *reason;           /* of a failed one */
  sc__subtask_entry_t *subtasks; /* n_subtasks; NULL in the copies kept as latest */
} sc__entry_t;

typedef struct sc__task_name {
  char *name;
  uint32_t first, n;      /* its subtasks */
  bool sink;              /* nothing comes behind it */
} sc__task_name_t;

struct sc_statistics {
  sc__task_name_t *tasks; /* n_tasks */
  uint32_t n_tasks;
  uint32_t n_subtasks;    /* of all tasks */
  uint32_t history;       /* entries kept */
  int64_t explain_after_ms; /* one that takes longer is slow */
  sc__entry_t *entries;   /* ring of `history` */
  uint32_t first, count;  /* of the ring: oldest, and how many */
  uint64_t triggered, completed, failed, restored; /* counts */
  uint64_t *open;         /* ids that were triggered and have not ended, n_open of open_cap */
  uint32_t n_open, open_cap;
  sc__entry_t latest_completed; /* each: id 0 if none */
  sc__entry_t latest_savepoint;
  sc__entry_t latest_failed;
  uint64_t restored_id;   /* of the latest restore */
  int64_t restored_ms;    /* when */
  char *restored_path;    /* from where, or NULL */
};

/* The i-th of the history, oldest first. */
static inline sc__entry_t *sc__statistics_nth(const sc_statistics_t *s, uint32_t i) {
  return &s->entries[(s->first + i) % s->history];
}

/* statistics_explain.c: of an entry with its subtasks. */
void sc__statistics_explain(const sc_statistics_t *s, const sc__entry_t *e, int64_t now_ms,
                            sc_explanation_t *out);
/* Malloc'ed name of a subtask: "count 2/4". */
char *sc__statistics_subtask_name(const sc_statistics_t *s, uint32_t subtask);

static inline void sc__sizes_add(sc__sizes_t *to, const sc__sizes_t *more) {
  to->checkpointed += more->checkpointed;
  to->state += more->state;
  to->processed += more->processed;
  to->persisted += more->persisted;
}

#endif
