/*
 * operator: what a chain is made of, as an interface.
 *
 * Operators never call each other. The chain's driver (chain.h) hands an operator one item (begin),
 * then steps it until it is done; whatever a step emits the driver hands to the next operators and
 * to the exchanges before it steps again. So nothing nests, and a long emission can be suspended.
 *
 *   IDLE --begin / begin_timer / begin_watermark / begin_finish--> BUSY
 *   BUSY --step: EMIT (an item in *out)--> BUSY | BLOCKED (an exchange is full)--> BUSY
 *        | DONE--> IDLE | LAST (an item in *out)--> IDLE
 *   IDLE --begin: TAKEN--> IDLE
 *   sources are not begun by items: poll instead of step.
 *
 * An item's value is bytes (msgpack) or an opaque value of the emitter with `encode` and `field`:
 * core carries Lua tables without knowing them, and native operators of a chain that know each
 * other's need no msgpack between them. Opaque values, and bytes of an item, are borrowed until the
 * emitter's next step or begin, the item itself only while begin is called: the receiver takes what
 * it needs in begin. One that may change an opaque value takes a copy where the item is `shared`:
 * others see the value, too.
 *
 * Order of calls: create, [restore], open, then any of begin.../step, poll, snapshot, complete,
 * aborted; last destroy (always, also after a failed open).
 *
 * Threads: everything on the slot's thread, except functions given to the pool (named so).
 * Failure: a negative code fails the task; the error says what a user must know.
 */
#ifndef SC_RUNTIME_OPERATOR_H
#define SC_RUNTIME_OPERATOR_H

#include "../base/log.h"
#include "../base/world.h"
#include "../data/record.h"
#include "../data/value.h"
#include "../snapshot/redistribute.h"
#include "../state/timers.h"
#include "parts.h"

typedef struct sc_operator sc_operator_t;
typedef struct sc_op_context sc_op_context_t;

typedef struct sc_opaque_ops {
  /* Append the value in msgpack. SC_EVALUE names the path to what cannot be stored. */
  int (*encode)(void *opaque, sc_buf_t *out, sc_error_t *err);
  /* Append one field's value in msgpack: 1, or 0 where there is no such field. */
  int (*field)(void *opaque, sc_bytes_t name, sc_buf_t *out, sc_error_t *err);
} sc_opaque_ops_t;

typedef struct sc_item {
  uint16_t output;            /* of an emitted item: 0 is main, i the i-th side output */
  bool is_watermark;          /* `timestamp` is a watermark; no value */
  bool is_status, idle;       /* stream status; no value */
  bool has_timestamp, has_key;
  bool shared;                /* another receiver gets the opaque value, or its emitter keeps it */
  int64_t timestamp;          /* ms */
  uint16_t key_group;         /* with has_key: key bytes and their group at the receiver */
  uint64_t key_hash;          /* sc_hash of the key, or 0; an emitter leaves it 0 */
  sc_bytes_t key;             /* an emitter may leave key_group 0: the driver computes it */
  sc_bytes_t bytes;           /* the value where opaque_ops is NULL */
  void *opaque;
  const sc_opaque_ops_t *opaque_ops;
} sc_item_t;

enum {
  SC_DONE = 0,    /* step, poll */
  SC_EMIT = 1,    /* step, poll: an item in *out, of which every field is set */
  SC_BLOCKED = 2, /* step, poll */
  SC_IDLE = 3,    /* poll */
  SC_ENDED = 4,   /* poll */
  SC_LAST = 5,    /* step: EMIT, and DONE with it; saves a step */
  SC_TAKEN = 6    /* begin: DONE at once, nothing to emit; saves the step (which would say DONE) */
};

/* What a source has still to read; negative where that is not known. */
typedef struct sc_pending_input { int64_t records, bytes; } sc_pending_input_t;

typedef struct sc_operator_ops {
  int (*open)(sc_operator_t *op, sc_error_t *err);                       /* may be NULL */
  /* 0, and step follows; or SC_TAKEN. */
  int (*begin)(sc_operator_t *op, uint32_t port, const sc_item_t *item, sc_error_t *err);
  int (*begin_timer)(sc_operator_t *op, const sc_timer_t *timer, sc_error_t *err);
  /* A new watermark, after its timers have fired and before it is forwarded. NULL: nothing to
   * do. */
  int (*begin_watermark)(sc_operator_t *op, int64_t watermark, sc_error_t *err);
  /* End of input; may emit a last time. NULL: nothing to do. */
  int (*begin_finish)(sc_operator_t *op, sc_error_t *err);
  int (*step)(sc_operator_t *op, sc_item_t *out, sc_error_t *err);       /* DONE, EMIT, LAST ... */
  /* Called when the task has nothing to read: an operator that holds something back (a watermark)
   * may begin to let it out (then step follows). Returns 1 if it began, 0 if not. May be NULL. */
  int (*begin_idle)(sc_operator_t *op, sc_error_t *err);
  /* false: watermarks from upstream stop here (the operator makes its own). */
  bool swallows_watermarks;

  /* Sources only. EMIT; DONE (nothing now, ask again at once); IDLE (nothing until context
   * wake_at_ms, or mail); BLOCKED; ENDED (no split left and none will come). */
  int (*poll)(sc_operator_t *op, sc_item_t *out, sc_error_t *err);
  /* True while a poll has emitted but not ended what it reads (a user's read call is suspended): no
   * snapshot is taken then. NULL: never. */
  bool (*mid_record)(sc_operator_t *op);
  /* The input is to end: take nothing new, and let poll say ENDED when what was taken is handed on.
   * Called before every poll from then on. NULL: the task ends it between two records. */
  void (*drain)(sc_operator_t *op);
  int (*add_split)(sc_operator_t *op, sc_bytes_t split, sc_error_t *err); /* one msgpack value */
  void (*no_more_splits)(sc_operator_t *op);
  /* It has splits that it has not ended: an ask_split is for one more (enumerator.h). NULL:
   * never. */
  bool (*holds_splits)(sc_operator_t *op);
  /* How much of what it has been dealt is left to read, for metrics: sets what it knows. NULL:
   * nothing. */
  void (*pending)(sc_operator_t *op, sc_pending_input_t *out);

  /* Operator list state, msgpack as in SC_HANDLE_LIST; before open, only when there is some. */
  int (*restore)(sc_operator_t *op, sc_bytes_t lists, sc_error_t *err);
  /* Synchronous part at checkpoint id: add list state and pool work to `parts`. May be NULL. */
  int (*snapshot)(sc_operator_t *op, uint64_t id, sc_snapshot_parts_t *parts, sc_error_t *err);
  /* Checkpoint id is complete (two-phase sinks commit everything up to it). Ids may be skipped or
   * come late. May be NULL. */
  int (*complete)(sc_operator_t *op, uint64_t id, sc_error_t *err);
  void (*aborted)(sc_operator_t *op, uint64_t id);                       /* may be NULL */
  /* True while something it started (a commit) is not done: the task does not leave. May be
   * NULL. */
  bool (*busy)(sc_operator_t *op);
  void (*destroy)(sc_operator_t *op);
} sc_operator_ops_t;

struct sc_operator {
  const sc_operator_ops_t *ops;
  sc_op_context_t *context; /* set by the runtime before open; borrowed */
};

/* ---- what the runtime gives an operator ---- */

struct sc_op_context {
  const char *job_id, *uid, *name;  /* borrowed for the operator's life */
  const char *label;                /* "name (uid) 2/4", for messages */
  uint32_t subtask, parallelism, max_parallelism;
  uint64_t attempt;
  bool restored;                    /* this attempt began from a checkpoint */
  uint64_t restored_id;             /* which; 0 if none */
  bool checkpointing;               /* what it gives counts from the next checkpoint on */
  bool ended;                       /* restored as finished: open, commit, nothing else comes */
  void *host;                       /* the slot's host (the binding's Lua state), or NULL */
  sc_world_t *world;
  sc_log_t *log;
  sc_keyed_t *keyed;                /* NULL unless the operator's input is keyed */
  sc_timers_t *timers;              /* likewise */
  bool has_key;                     /* a key is current (inside begin/begin_timer of a keyed one) */
  uint16_t key_group;
  uint64_t key_hash;                /* sc_hash of the key, or 0: for addresses of its state */
  sc_bytes_t key;                   /* key bytes */
  int64_t watermark;                /* current watermark of the operator */
  int64_t wake_at_ms;               /* sources: with IDLE, wall-clock ms to poll again; INT64_MAX */
  uint16_t n_outputs;               /* main and side outputs */
  const struct sc_op_services *services;
  void *runtime;                    /* the services' own */
};

/* Address of the current key's value in a state of the operator. */
static inline sc_address_t sc_op_address(const sc_op_context_t *c, int state) {
  return (sc_address_t){.state = state, .group = c->key_group, .key_hash = c->key_hash,
                        .key = sc_bytes_just_stored(&c->key)};
}

/* What an operator may ask of the runtime; specs give a table of their own. */
typedef struct sc_op_services {
  /* Does output `o` lead to an operator in the same chain? If not, `write` may be used instead of
   * EMIT and saves the way through the driver. */
  bool (*chained)(const sc_op_context_t *c, uint16_t output);
  /* Encode the item into the exchanges of its output at once. 0, or 1: written, but an output is
   * full now: return BLOCKED from step as soon as possible. Negative on error. */
  int (*write)(sc_op_context_t *c, const sc_item_t *item, sc_error_t *err);
  /* Sources: ask the enumerator for a split (idempotent until answered): when there is none
   * left, and when all that it has wait. */
  void (*ask_split)(sc_op_context_t *c);
  /* Run `run` in the pool, then `done` on the slot's thread (rc is run's result). Where the attempt
   * has died meanwhile, `dropped` (any thread) is called instead of done. Either frees arg. */
  void (*submit)(sc_op_context_t *c, int (*run)(void *arg, sc_error_t *err),
                 void (*done)(void *arg, int rc, sc_error_t *err), void (*dropped)(void *arg),
                 void *arg);
  /* From `done`: fail the task. Takes over err's content. */
  void (*fail)(sc_op_context_t *c, sc_error_t *err);
  /* Wake the task's slot (something changed for poll or busy). Any thread. */
  void (*wake)(sc_op_context_t *c);
  /* Hand rows to the job's main side (collect): a msgpack array of rows that become visible when
   * checkpoint `id` completes; id 0: at once. */
  void (*deliver)(sc_op_context_t *c, uint64_t id, sc_bytes_t rows);
  /* Add to a named counter of the operator, shown in metrics. */
  void (*count)(sc_op_context_t *c, const char *metric, int64_t by);
} sc_op_services_t;

static inline bool sc_op_chained(const sc_op_context_t *c, uint16_t o) {
  return c->services->chained(c, o);
}
static inline int sc_op_write(sc_op_context_t *c, const sc_item_t *i, sc_error_t *e) {
  return c->services->write(c, i, e);
}
static inline void sc_op_count(sc_op_context_t *c, const char *m, int64_t by) {
  c->services->count(c, m, by);
}

/* ---- types of operators ---- */

/* What checkpoints have of an operator when an attempt begins. */
typedef struct sc_past {
  bool fresh;              /* it begins from none */
  const sc_bytes_t *lists; /* list states of its subtasks in the one that it begins from, and in all
                              others of the job's folder: a later start may begin from those */
  uint32_t n_lists;
} sc_past_t;

typedef struct sc_operator_type {
  const char *kind;       /* "file_source"; unique */
  bool is_source;
  bool replayable;        /* sources: false weakens exactly-once; named at start */
  bool delivers;          /* sinks: hands its rows to the job's main side */
  bool exactly_once;      /* sinks (no outputs): false is named at start. true for all others */
  /* Make one subtask's operator from the options (msgpack map, borrowed for the job's life).
   * `data` is the factory's (binding). `context` is complete but for the current key. */
  int (*create)(void *data, sc_bytes_t options, sc_op_context_t *context, sc_operator_t **out,
                sc_error_t *err);
  /* Sources: the splits, a msgpack array appended to out. Native ones run in the pool (host NULL)
   * where in_pool is true, else in slot 0. */
  int (*list_splits)(void *data, sc_bytes_t options, uint32_t parallelism, void *host,
                     sc_buf_t *out, sc_error_t *err);
  bool in_pool;
  /* Called once before anything of an attempt runs (sinks refuse a used folder here, and sweep what
   * `past` does not name). May be NULL. Blocks: runs in the pool, or on the thread of the start. */
  int (*prepare)(void *data, sc_bytes_t options, const char *job_id, const char *uid,
                 const sc_past_t *past, sc_storage_t *storage, sc_error_t *err);
  /* Highest checkpoint of which something is committed outside (0: nothing), or an error: a start
   * from an older one would emit it again. Start-up. NULL: it commits nothing. */
  int64_t (*highest_committed)(void *data, sc_bytes_t options, const char *job_id, const char *uid,
                               sc_storage_t *storage, sc_error_t *err);
} sc_operator_type_t;

/* The native types: core/operator/registry.c. NULL if unknown. */
const sc_operator_type_t *sc_operator_type_find(const char *kind);

#endif
