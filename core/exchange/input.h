/*
 * input: the receiving side of a task: all channels of all its gates, as one stream of events.
 *
 * Takes a buffer at a time from the channels that are not held back, round robin, and reads its
 * records one by one; drives the valve and the aligner. A barrier is acted on in its turn, between
 * buffers. The caller (task) handles one event before it asks for the next.
 *
 * Threads: the task's slot. Ownership: borrows channels; owns valve, aligner, and the half-read
 * buffers. An event's record borrows from the buffer until the next call.
 */
#ifndef SC_EXCHANGE_INPUT_H
#define SC_EXCHANGE_INPUT_H

#include "../data/record.h"
#include "barrier.h"
#include "channel.h"

typedef struct sc_input sc_input_t;

typedef enum {
  SC_INPUT_NONE,       /* nothing to read now */
  SC_INPUT_RECORD,     /* record, port */
  SC_INPUT_WATERMARK,  /* watermark: the combined one */
  SC_INPUT_STATUS,     /* idle: the combined one */
  SC_INPUT_SNAPSHOT,   /* barrier: all are aligned, take the snapshot now */
  SC_INPUT_ABORTED,    /* aborted, superseded_by: an alignment was given up */
  SC_INPUT_END,        /* end of input on every channel (once) */
  SC_INPUT_CLOSED      /* every sender has left (once; after END) */
} sc_input_kind_t;

typedef struct sc_input_event {
  sc_input_kind_t kind;
  uint32_t port;            /* input port of the operator that the channel's edge leads to */
  uint32_t channel;
  sc_record_t record;
  int64_t watermark;
  bool idle;
  sc_barrier_t barrier;
  uint64_t aborted, superseded_by;
  uint64_t alignment_bytes; /* SNAPSHOT: bytes read between first and last barrier */
  bool first_barrier;       /* set on whatever event follows the first barrier of a checkpoint */
} sc_input_event_t;

sc_input_t *sc_input_create(sc_channel_t **channels, const uint32_t *ports, uint32_t n);
void sc_input_destroy(sc_input_t *in);
/* Next event; SC_ECORRUPT if a buffer is damaged. */
int sc_input_next(sc_input_t *in, sc_input_event_t *event, sc_error_t *err);
bool sc_input_ready(sc_input_t *in);  /* would next give something? May be stale for an instant. */
/* A trigger by mail (no unfinished sender): gives SNAPSHOT by a later sc_input_next. */
void sc_input_trigger(sc_input_t *in, const sc_barrier_t *b);
void sc_input_abort(sc_input_t *in, uint64_t id);
int64_t sc_input_watermark(const sc_input_t *in);
/* Wall clock (as given by the caller) at which the first barrier of the pending checkpoint was
 * taken; for durations. The input has no clock: the caller notes it when it sees first_barrier. */
uint64_t sc_input_pending(const sc_input_t *in);
void sc_input_receiver_gone(sc_input_t *in); /* tell all channels */

#endif
