/*
 * sim_op: what the rooms of sim_operators share: sim_operators.c has what every operator does and
 * the stateless ones, sim_source.c the source, sim_keyed.c the keyed operator. Internal to them.
 *
 * Threads: one. Ownership: an operator owns its queue and states; place and run are borrowed.
 */
#ifndef SPEC_SIM_OP_H
#define SPEC_SIM_OP_H

#include "sim_operators.h"

typedef struct split {
  int64_t split, seq;
  bool rested;
} split_t;
typedef struct emission {
  sim_record_t record;
  uint16_t output;
} emission_t;

typedef struct sim_op {
  sc_operator_t op;
  const sim_node_t *node;
  sim_shared_t *shared;
  emission_t *queue; /* to emit */
  uint32_t n_queue, next;
  sc_buf_t bytes;    /* of the one being emitted */
  int64_t watermark; /* last one told */
  uint64_t told;     /* highest checkpoint that was told complete */
  split_t *splits;   /* source */
  uint32_t n_splits;
  bool no_more, watermark_due;
  bool idle, active; /* source: has said so since it was made */
  int64_t last_ts;
  sim_record_t *held; /* buffer */
  uint32_t n_held;
  int acc, seen, windows, pt, fired, lanes; /* keyed: states */
} sim_op_t;

static inline const char *sim_label(const sim_op_t *o) { return o->op.context->label; }

/* Every call of an operator goes through here: it may be the one that is told to fail. */
int sim_called(sim_op_t *o, const char *what, sc_error_t *err);
void sim_enqueue(sim_op_t *o, const sim_record_t *r, uint16_t output);
void sim_fill_item(sim_op_t *o, const emission_t *e, sc_item_t *out);
/* What holds of every record that comes in; *r is what it says. */
void sim_look_at(sim_op_t *o, const sc_item_t *item, sim_record_t *r);

/* Parts of every table of operations. */
int sim_op_open(sc_operator_t *op, sc_error_t *err);
int sim_op_step(sc_operator_t *op, sc_item_t *out, sc_error_t *err);
int sim_op_watermark(sc_operator_t *op, int64_t watermark, sc_error_t *err);
int sim_op_snapshot(sc_operator_t *op, uint64_t id, sc_snapshot_parts_t *parts, sc_error_t *err);
int sim_op_complete(sc_operator_t *op, uint64_t id, sc_error_t *err);
void sim_op_destroy(sc_operator_t *op);

extern const sc_operator_ops_t sim_source_ops, sim_keyed_ops;
/* The source type's list_splits. */
int sim_list_splits(void *data, sc_bytes_t options, uint32_t parallelism, void *host, sc_buf_t *out,
                    sc_error_t *err);

#endif
