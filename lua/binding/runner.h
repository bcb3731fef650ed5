/*
 * runner: one operator's user functions, run in a coroutine of its own.
 *
 * A family (map, process, source, ...) lays out a call on the coroutine; advance resumes it, hands
 * out what it emits, and lets the family look at the results:
 *
 *   IDLE --lay out--> READY --resume--> RETURNED --family's `returned`--> IDLE
 *                       |      ^
 *             ctx:emit  v      | resume
 *                     EMITTED -+-> SUSPENDED        (an exchange that is full suspends as well)
 *
 * Values wait on the *shelf*, the stack of a thread that never runs: after an error the coroutine's
 * own frames stay for the traceback and its values cannot be reached, and the record is still
 * needed for the message or for on_error.
 *
 * Where the running code must not be suspended (a sort comparator, a gsub callback, a coroutine of
 * the user's own), a chained emission is encoded into the overflow list, which is handed out, in
 * order, as soon as the function yields or returns and before anything that it emits later.
 *
 * Promise: per record no allocation but what the values themselves need.
 * Threads: the slot's. Ownership: the runtime's operator is the first member and owns the rest.
 * Failure: see user_error.h for errors of user functions; errors of core (a state that is damaged,
 * a failing exchange) are kept in `fail` and fail the task even if the user's code caught them.
 */
#ifndef LSC_RUNNER_H
#define LSC_RUNNER_H

#include "lua_operator.h"
#include "lua_value.h"

/* What lies on the shelf; the record is at the top. */
enum {
  LSC_SHELF_CONTEXT = 1,
  LSC_SHELF_FUNCTION,   /* the family's function: fn, on_element, read */
  LSC_SHELF_ON_TIMER,   /* or nil */
  LSC_SHELF_ON_ERROR,   /* function, or nil */
  LSC_SHELF_OPEN,       /* or nil */
  LSC_SHELF_CLOSE,      /* or nil */
  LSC_SHELF_EVENT,      /* the string "event" */
  LSC_SHELF_PROCESSING, /* the string "processing" */
  LSC_SHELF_FIXED = LSC_SHELF_PROCESSING,
  LSC_SHELF_RECORD,     /* the record; of a source the split */
  LSC_SHELF_POSITION,   /* of a source only */
};

typedef enum { LSC_IDLE, LSC_READY, LSC_EMITTED, LSC_SUSPENDED, LSC_RETURNED } lsc_phase_t;
/* What the functions are working on, for messages. */
typedef enum {
  LSC_ON_NOTHING, LSC_ON_RECORD, LSC_ON_TIMER, LSC_ON_SPLIT, LSC_ON_INDEX
} lsc_subject_t;
typedef enum { LSC_YIELD_FOREIGN, LSC_YIELD_VALUE, LSC_YIELD_FULL } lsc_yield_t;
typedef enum { LSC_ERROR_FAIL, LSC_ERROR_SKIP, LSC_ERROR_CALL } lsc_on_error_t;

typedef struct lsc_op lsc_op_t;
typedef struct lsc_map_cursor lsc_map_cursor_t; /* state_handle.c */

typedef struct lsc_family {
  const char *kind;     /* of its type */
  const char *function; /* field of the spec that must be a function; NULL: none must */
  const char *noun;     /* "map": what messages call the function */
  bool optional;        /* the function may be missing */
  bool emits;           /* false: ctx:emit is refused */
  size_t size;          /* of its struct, which begins with lsc_op_t */
  const sc_operator_ops_t *ops;
  /* Lay out the call for the record on the shelf: lsc__push..., then lsc__call. NULL: sources. */
  int (*begin)(lsc_op_t *op, sc_error_t *err);
  /* Protected, in create: read more of the spec, at the top of L; may raise. May be NULL. */
  void (*setup)(lsc_op_t *op, lua_State *L);
  /* Free what the family added; may be NULL. */
  void (*fini)(lsc_op_t *op);
} lsc_family_t;

/* Look at the results of a call that returned, on the coroutine's stack. 0: go on stepping; SC_EMIT
 * with *out; negative: fail. It leaves LSC_RETURNED by lsc__end, unless it has more to give. */
typedef int (*lsc_returned_cb)(lsc_op_t *op, sc_item_t *out, sc_error_t *err);

typedef struct lsc_state {
  char *name;           /* as the user named it */
  sc_state_kind_t kind; /* VALUE or MAP */
  int index;            /* in the window, from open on */
} lsc_state_t;

typedef struct lsc_overflow_item {
  uint16_t output;    /* which output */
  bool has_timestamp; /* and its time */
  int64_t timestamp;
  size_t at, len;     /* its bytes in the list's buffer */
} lsc_overflow_item_t;

typedef struct lsc_overflow {
  lsc_overflow_item_t *items; /* in the order of their emission */
  uint32_t n, cap, next;      /* how many, room, and the next to hand out */
  sc_buf_t bytes;             /* their values */
} lsc_overflow_t;

struct lsc_op {
  sc_operator_t base;          /* first: the runtime's face */
  const lsc_family_t *family;  /* what kind it is */
  lsc_host_t *host;            /* borrowed */
  lsc_op_t **current;          /* the host's note of who runs */
  lua_State *co;               /* where user functions run */
  lua_State *shelf;            /* where values wait */
  lsc_op_t **box;              /* what handles point at: NULL inside once the operator is gone */
  int anchor;                  /* registry reference that keeps the three alive */

  lsc_phase_t phase;           /* of the call, see above */
  lsc_returned_cb returned;    /* for the call that is laid out or running */
  lsc_yield_t yielded;         /* why the coroutine has yielded */
  int n_yielded;               /* values that it left on its stack by that */
  bool running;                /* the coroutine runs right now */
  bool may_emit;               /* false in open and close */
  bool guard;                  /* a handle works: finalizers that use one meanwhile are refused */
  bool full;                   /* an exchange said so: tell the driver */
  bool handling;               /* on_error's function is what runs */
  bool opened;                 /* so close is called at the end */
  bool has_on_timer;           /* timers may be registered */
  bool wants_context;          /* the family's function is Lua's: C functions get the value alone */

  lsc_subject_t subject;       /* what is being worked on */
  bool has_timestamp, has_key; /* of the record or timer */
  bool stamps;                 /* what is emitted gets `timestamp` by itself */
  int64_t timestamp;           /* ms, of the record or timer */
  sc_time_domain_t domain;     /* of the timer */
  uint16_t key_group;          /* of the key */
  uint64_t key_hash;           /* of the key, or 0: not known */
  sc_buf_t key;                /* a copy: registering timers may overwrite the driver's */

  uint16_t n_outputs;          /* main and side outputs */
  bool *chained;               /* of each output, asked once in open */
  int errors_output;           /* index of the side output "errors", or -1 */
  lsc_on_error_t on_error;     /* what becomes of a record whose function failed */

  lsc_state_t *states;         /* in the order of their names, so that snapshots do not depend on
                                * the order of a Lua table */
  uint32_t n_states;           /* how many */
  int reduce_state;            /* reduce: index of its state in the window */
  lua_Integer list_next;       /* flat_map: next element to give */
  lsc_map_cursor_t *cursors;   /* open iterations; they end with the call */

  sc_item_t item;              /* being given */
  lsc_value_t value;           /* what item points at */
  lsc_overflow_t overflow;     /* emitted where nothing could be suspended */
  sc_buf_t scratch, map_key;   /* encoded values, map keys */
  sc_buf_t message, trace;     /* of the last user error */
  sc_error_t error;            /* being raised into Lua */
  sc_error_t fail;             /* of core: fails the task */
};

/* Create and destroy; the types' functions. */
int lsc__op_create(const lsc_family_t *family, void *data, sc_bytes_t options,
                   sc_op_context_t *context, sc_operator_t **out, sc_error_t *err);
void lsc__op_destroy(sc_operator_t *base);
/* Push the userdata that outlives the operator and then holds NULL. */
void lsc__op_push_box(lsc_op_t *op, lua_State *L);

/* ---- for families ---- */

int lsc__op_open(sc_operator_t *base, sc_error_t *err);
int lsc__op_begin(sc_operator_t *base, uint32_t port, const sc_item_t *item, sc_error_t *err);
int lsc__op_step(sc_operator_t *base, sc_item_t *out, sc_error_t *err);

/* Lay out a call: empty the coroutine's stack, push the function, then its arguments, and name who
 * looks at the results. */
void lsc__prepare(lsc_op_t *op, int function_slot);
void lsc__push(lsc_op_t *op, int slot);
void lsc__call(lsc_op_t *op, lsc_returned_cb returned);
/* The call has ended: iterations die, the operator is idle. Results stay on the coroutine. */
void lsc__end(lsc_op_t *op);
/* Make the coroutine usable again after an error, or give up a suspended call. */
void lsc__reset(lsc_op_t *op);
/* The key that is current, or none. */
void lsc__note_key(lsc_op_t *op);

/* Run the call that is laid out on the coroutine to its end; it may not emit. 0: its results lie
 * there. `where` names it in messages. */
int lsc__run_whole(lsc_op_t *op, const char *where, sc_error_t *err);

/* Begin the item for an output: with the time of what is being processed. */
void lsc__item(lsc_op_t *op, uint16_t output);
/* Give the value at the top of `from` as op->item: SC_EMIT, or written at once (0). */
int lsc__give(lsc_op_t *op, lua_State *from, sc_item_t *out, sc_error_t *err);
/* Keep bytes (already appended to overflow.bytes from `at` on) to be handed out later. */
void lsc__overflow_add(lsc_op_t *op, const sc_item_t *item, size_t at);

#endif
