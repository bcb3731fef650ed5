/*
 * chain: the operators of one task, and the driver that hands on what they emit.
 *
 * Operators never call each other. The driver keeps a stack of frames, one for each operator that
 * is in the middle of something; the top one is stepped. What it emits is written to the exchanges
 * of that output at once and then handed to each operator chained to it, which becomes the new top;
 * the emitter is stepped again only when those are done, so values are borrowed safely and a full
 * exchange suspends everything by simply returning. Most records come to operators that take them
 * at once, or give one item for each: as long as nothing else is left to do no frame is made.
 *
 *   frame ITEM       begin(record), step ... DONE
 *   frame TIMERS     processing-time timers that are due, one after another
 *   frame WATERMARK  event-time timers up to it, then begin_watermark, then it is forwarded
 *   frame FINISH     begin_finish, step ... DONE
 *   frame IDLE       begin_idle, step ... DONE
 *   frame HAND       an item made outside (polled, status, watermark) on its way to the next ones
 *
 * Between frames (sc_chain_idle) nothing is half done: there a snapshot may be taken. One that is
 * in haste may also divide a watermark's advance between two timers (sc_chain_divisible): it holds
 * both the current and the last forwarded watermark, so that a restore finishes what was begun
 * (DESIGN section 4, "Timers").
 *
 * Threads: the task's slot; counters may be read by any. Ownership: owns operators and contexts;
 * borrows outputs, keyed windows and timers. Failure: the error names the operator.
 */
#ifndef SC_RUNTIME_CHAIN_H
#define SC_RUNTIME_CHAIN_H

#include <stdatomic.h>

#include "../exchange/output.h"
#include "graph.h"

typedef struct sc_chain sc_chain_t;

/* An exchange that an output of a link leads to. */
typedef struct sc_exit { sc_output_t *output; const sc_edge_t *edge; } sc_exit_t;

typedef struct sc_route {
  uint32_t *links, *ports;   /* chained receivers (positions in the chain) and their input ports */
  uint32_t n_links;
  sc_exit_t *exits;
  uint32_t n_exits;
} sc_route_t;

typedef struct sc_link {
  sc_chain_t *chain;
  const sc_node_t *node;
  sc_operator_t *op;         /* NULL until created */
  sc_op_context_t context;
  char *label;
  sc_route_t *routes;        /* one for each output */
  int64_t forwarded;         /* last watermark handed on; SC_WATERMARK_MIN before any */
  bool idle;                 /* last status handed on */
  sc_buf_t timer_key;        /* key and namespace of the timer that fires */
  atomic_uint_fast64_t records_in, records_out;
  atomic_int_fast64_t watermark_shown; /* copy of context.watermark for metrics */
} sc_link_t;

struct sc_chain {
  sc_link_t *links;
  uint32_t n_links;
  sc_output_t **outputs;     /* all exchanges of the task; borrowed */
  uint32_t n_outputs;
  struct sc_frame *frames;
  uint32_t depth;
  bool pushed;               /* a buffer was since room was last seen on every output: ask again */
  bool full;                 /* the answer was no */
  uint32_t overdraft;        /* buffers that what is in hand may push beyond the room; the task's */
  uint32_t overdrawn;        /* that it has pushed since the answer was no */
  sc_item_t polled;          /* what the source's poll gives */
  sc_buf_t value, key, part; /* scratch for encoding */
  void *task;                /* owner, for services */
};

/* Counters are written by the slot alone and only shown elsewhere: no lock is needed, nor an
 * order. */
static inline void sc_chain_count_one(atomic_uint_fast64_t *counter) {
  uint64_t n = atomic_load_explicit(counter, memory_order_relaxed);
  atomic_store_explicit(counter, n + 1, memory_order_relaxed);
}

enum { SC_CHAIN_IDLE = 0, SC_CHAIN_BLOCKED = 1, SC_CHAIN_SUSPENDED = 2 };

void sc_chain_init(sc_chain_t *c, const sc_graph_t *g, const sc_chain_plan_t *plan, void *task);
void sc_chain_fini(sc_chain_t *c); /* destroys the operators */
/* Add an exchange to the output of the node's link. */
void sc_chain_add_exit(sc_chain_t *c, uint32_t link, uint32_t output, sc_output_t *o,
                       const sc_edge_t *e);

static inline bool sc_chain_idle(const sc_chain_t *c) { return c->depth == 0; }
/* Has every exchange room? Asked anew only after a buffer was pushed, and as long as the answer is
 * no. What others do to the room in between (a sibling that borrows) is overdraft of a buffer. */
bool sc__chain_ask_room(sc_chain_t *c);
static inline bool sc_chain_has_room(sc_chain_t *c) { return !c->pushed || sc__chain_ask_room(c); }
/* May what is in hand emit on? It may overdraw; what comes next waits for room. */
static inline bool sc_chain_goes_on(sc_chain_t *c) {
  return sc_chain_has_room(c) || c->overdrawn < c->overdraft;
}
/* Between two records, or between two timers of one watermark: a snapshot may divide it there,
 * since it holds both the watermark and the last one forwarded. */
bool sc_chain_divisible(const sc_chain_t *c);
/* Only while idle: begin something, and do what takes no frame. Then sc_chain_run. */
int sc_chain_record(sc_chain_t *c, uint32_t port, const sc_item_t *item, sc_error_t *err);
void sc_chain_watermark(sc_chain_t *c, int64_t watermark);
void sc_chain_status(sc_chain_t *c, bool idle);
void sc_chain_timers(sc_chain_t *c, int64_t now_ms); /* processing time, where any is due */
int64_t sc_chain_next_timer(const sc_chain_t *c);    /* ms; INT64_MAX where there is none */
/* Lets operators let out what they hold back; true if one began. */
int sc_chain_begin_idle(sc_chain_t *c, sc_error_t *err);
/* End of input: the last watermark, then every operator's finish, head to tail. */
void sc_chain_finish(sc_chain_t *c);
/* Sources: poll the head: SC_EMIT (run next), SC_DONE, SC_IDLE, SC_BLOCKED, SC_ENDED or an
 * error. */
int sc_chain_poll(sc_chain_t *c, sc_error_t *err);
/* After a restore: finish advances that the snapshot had begun, and bring those that were not
 * chained then to where their senders are. */
void sc_chain_resume_watermarks(sc_chain_t *c);

/* Go on for at most `steps` steps of operators that have frames: IDLE (all done), BLOCKED (an
 * exchange is full), SUSPENDED. */
int sc_chain_run(sc_chain_t *c, int steps, sc_error_t *err);

/* The services `chained` and `write` (operator.h); chain_write.c. */
static inline bool sc_chain_chained(const sc_link_t *link, uint16_t output) {
  return link->routes[output].n_links > 0;
}
int sc_chain_write(sc_link_t *link, const sc_item_t *item, sc_error_t *err);

#endif
