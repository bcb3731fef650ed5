/*
 * output: the sending side of one edge at one task: a partitioner, its channels, and for each the
 * buffer being filled.
 *
 * Records are written into the channel's current buffer and pushed when it is full or the next
 * one does not fit. It is full when it holds as much as its receiver asks for (as it did when the
 * buffer was begun: sc_channel_buffer_size). A record that is larger has a buffer to itself, which
 * counts as several: so a channel holds no more bytes than its units times that size, or one
 * record. Watermarks and stream status go in band to every channel; a watermark on an output that
 * was said to be idle says first that it is active again (valve.h, V3), except SC_WATERMARK_MAX,
 * which ends the stream. A barrier, END and CLOSE seal the half-filled buffer first. A record never
 * waits here: the task asks sc_output_has_room before it goes on (DESIGN: a full output is a state
 * to wait in).
 *
 * Threads: the task's slot. Ownership: owns its current buffers; borrows channels and pool (the
 * array of channels and the partitioner are copied). Failure: none.
 */
#ifndef SC_EXCHANGE_OUTPUT_H
#define SC_EXCHANGE_OUTPUT_H

#include "../data/record.h"
#include "channel.h"
#include "partitioner.h"
#include "usage.h"

typedef struct sc_output sc_output_t;

/* p->n_channels channels. */
sc_output_t *sc_output_create(const sc_partitioner_t *p, sc_channel_t **channels, sc_pool_t *pool);
void sc_output_destroy(sc_output_t *o); /* drops what was not flushed; NULL is fine */
/* Write one data record where the partitioner sends it; HASH uses r->key_group. True if that pushed
 * a buffer: only then can there be less room than before. */
bool sc_output_emit(sc_output_t *o, const sc_record_t *r);
void sc_output_watermark(sc_output_t *o, int64_t watermark);
void sc_output_status(sc_output_t *o, bool idle);
/* The barrier of the checkpoint of `cut`, behind what is half filled: `now` puts it in front of all
 * that is queued where the edge can be captured; what it passes goes to the cut (channel.h). */
void sc_output_barrier(sc_output_t *o, const sc_barrier_t *b, bool now, sc_cut_t *cut);
/* Its time has come: what still waits of it goes to the head. */
void sc_output_overtake(sc_output_t *o, uint64_t id);
void sc_output_end(sc_output_t *o);
void sc_output_close(sc_output_t *o);
void sc_output_flush(sc_output_t *o);        /* push half-filled buffers */
bool sc_output_has_room(sc_output_t *o);     /* every channel */
bool sc_output_drained(sc_output_t *o);      /* nothing half filled, all queues empty */
sc_partitioner_kind_t sc_output_kind(const sc_output_t *o);
uint32_t sc_output_max_parallelism(const sc_output_t *o); /* HASH: for the sender's key group */
/* Data records given to sc_output_emit (a broadcast one counts once), and bytes written to all
 * channels (a broadcast one counts in each), with watermarks and status. */
void sc_output_counts(const sc_output_t *o, uint64_t *records, uint64_t *bytes);
/* Add its channels to what is counted. Any thread. */
void sc_output_usage(const sc_output_t *o, sc_usage_t *u);

#endif
