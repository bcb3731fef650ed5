/*
 * input: the receiving side of a task: all channels of all its gates, as one stream of events.
 *
 * Takes a buffer at a time from the channels that are not held back, round robin, and reads its
 * records one by one; drives the valve and the aligner. A barrier is acted on in its turn, between
 * buffers; one that overtook is taken from the head of its queue before the next record, whatever
 * is half read. The caller (task) handles one event before it asks for the next.
 *
 * What is half read of a channel that may not be read on (held back, or spared) is put aside and
 * gone on with later. At an overtaking start it is kept, with what captures collect afterwards
 * (sc_input_capture, which the caller does in its snapshot, before its operators').
 *
 * The *word*: from the moment a barrier of n that may overtake is anywhere in the queues, or its
 * trigger in the mail (sc_input_word), until n has started or was given up, sc_input_has_word.
 *
 * One element may give several events; their order is: ABORTED before SNAPSHOT, WATERMARK before
 * STATUS, both before END, END before SNAPSHOT before CLOSED. A CLOSE without an END before it
 * counts as both. At least once, what ends behind a barrier that others still owe ends after the
 * SNAPSHOT. A source task has no channels: a trigger gives SNAPSHOT at once, END and CLOSED
 * never come.
 *
 * Threads: the task's slot; sc_input_word and what channels tell from any.
 * Ownership: borrows channels; owns valve, aligner, and the half-read buffers. An event's record
 * borrows from the buffer until the next call.
 * Failure: a damaged buffer gives SC_ECORRUPT naming the channel; the attempt has to end then.
 */
#ifndef SC_EXCHANGE_INPUT_H
#define SC_EXCHANGE_INPUT_H

#include "../data/record.h"
#include "barrier.h"
#include "channel.h"
#include "debloater.h"
#include "replay.h"
#include "usage.h"

typedef struct sc_input sc_input_t;

typedef enum {
  SC_INPUT_NONE,       /* nothing to read now */
  SC_INPUT_RECORD,     /* record, port, channel */
  SC_INPUT_WATERMARK,  /* watermark: the combined one */
  SC_INPUT_STATUS,     /* idle: the combined one */
  SC_INPUT_SNAPSHOT,   /* barrier: all are aligned, take the snapshot now */
  SC_INPUT_ABORTED,    /* aborted, superseded_by: an alignment was given up */
  SC_INPUT_END,        /* end of input on every channel (once) */
  SC_INPUT_CLOSED      /* every sender has left (once; after END) */
} sc_input_kind_t;

typedef struct sc_input_event {
  sc_input_kind_t kind;     /* says which of the fields count */
  uint32_t port;            /* input port of the operator that the channel's edge leads to */
  uint32_t channel;         /* index in the array given to sc_input_create; of a record that was in
                             * flight at a restore UINT32_MAX */
  sc_record_t record;       /* RECORD */
  int64_t watermark;        /* WATERMARK */
  bool idle;                /* STATUS */
  sc_barrier_t barrier;     /* SNAPSHOT, and with first_barrier the one that began */
  uint64_t aborted;         /* ABORTED: the checkpoint given up */
  uint64_t superseded_by;   /* ABORTED: by which newer one, 0 for an abort by mail */
  bool overtakes;           /* SNAPSHOT: with captures (sc_input_capture) */
  uint64_t alignment_bytes; /* SNAPSHOT: bytes read between first barrier and start */
  const sc_channel_name_t *last; /* SNAPSHOT: of the channel whose barrier came last; NULL: none
                             * did. The channel's */
  uint64_t last_ahead;      /* bytes that stood before that barrier when it was sent */
  bool took;                /* NONE: something was taken that says nothing (a watermark that is not
                             * the least, say): who sent it may have room now */
  bool first_barrier;       /* set on whatever event (NONE, too) follows the first barrier, or the
                             * trigger by mail, of a checkpoint */
} sc_input_event_t;

/* ports[i] is the port of channels[i]; both arrays are copied. n may be 0. */
sc_input_t *sc_input_create(sc_channel_t **channels, const uint32_t *ports, uint32_t n);
void sc_input_destroy(sc_input_t *in); /* NULL is fine */
/* At least once: barriers are only counted. Before it is used. */
void sc_input_count_only(sc_input_t *in);
/* What was in flight at a restore: read before the real channels of its gates, none of whose
 * elements is taken in its turn before that; so an aligned checkpoint waits until it is drained.
 * Borrowed until NULL is given. */
void sc_input_set_replay(sc_input_t *in, sc_replay_t *replay);
/* Next event; 0, or SC_ECORRUPT if a buffer is damaged. */
int sc_input_next(sc_input_t *in, sc_input_event_t *event, sc_error_t *err);
/* Read on ahead in the buffer that is being read: how many records were read, signals among them,
 * at most SC_INPUT_BULK; 0 where enough are ahead already, or nothing is left. Their key_hash may
 * be set, nothing else, and has then been set when their turn comes. */
#define SC_INPUT_AHEAD 32 /* records that may be ahead */
#define SC_INPUT_BULK 8
uint32_t sc_input_ahead(sc_input_t *in, sc_record_t **records);
/* The next events where they are records that were read ahead: how many, at most SC_INPUT_BULK, all
 * of the same port; 0: sc_input_next says what there is. They stay where they are, and are the next
 * events, until so many of them as the caller has dealt with are taken. */
uint32_t sc_input_records(sc_input_t *in, const sc_record_t **records, uint32_t *port);
void sc_input_took(sc_input_t *in, uint32_t n);
bool sc_input_ready(sc_input_t *in);  /* would next give something? May be stale for an instant. */
/* A trigger by mail (no unfinished sender): gives SNAPSHOT by a later sc_input_next, once every
 * channel that is still open has brought its barrier or CLOSE. */
void sc_input_trigger(sc_input_t *in, const sc_barrier_t *b);
/* An abort by mail: gives ABORTED by a later sc_input_next if it was news. A SNAPSHOT of it that
 * was not yet handed out becomes that ABORTED. */
void sc_input_abort(sc_input_t *in, uint64_t id);
int64_t sc_input_watermark(const sc_input_t *in);
/* Add its channels to what is counted. Any thread. */
void sc_input_usage(const sc_input_t *in, sc_usage_t *u);
/* Its gates: the channels of one edge each, which stand in a row. */
uint32_t sc_input_n_gates(const sc_input_t *in);
/* A period of d is over (sc_debloater_due): measure what was read in the time that was not idle, so
 * much since the beginning, and tell the senders of each gate how large their buffers shall be. As
 * long as something is left of what was in flight at a restore, nothing is measured: that comes
 * from files, at another pace. */
void sc_input_debloat(sc_input_t *in, sc_debloater_t *d, int64_t now_ns, int64_t active_ns);
/* Only what barriers at the heads of queues bring about (SNAPSHOT, ABORTED), while the caller waits
 * for room, or is between two steps of something longer that a snapshot may divide: true if there
 * was an event. */
bool sc_input_next_urgent(sc_input_t *in, sc_input_event_t *event);
bool sc_input_urgent(const sc_input_t *in); /* may one be there? */
void sc_input_set_alarm(sc_input_t *in, atomic_bool *alarm); /* raised when one came; at first */
/* Word of a checkpoint that may overtake has reached the task in another way. Any thread. */
void sc_input_word(sc_input_t *in, uint64_t id);
bool sc_input_has_word(sc_input_t *in);
void sc_input_pass(sc_input_t *in, uint64_t id); /* the task dealt with id without the input */
/* While true, only channels that cannot be captured are read. */
void sc_input_spare(sc_input_t *in, bool yes);
/* Monotonic time at which a pending checkpoint may overtake, or INT64_MAX; and the look at it. */
int64_t sc_input_overtake_at_ms(sc_input_t *in);
void sc_input_look_at_clock(sc_input_t *in, int64_t mono_ms);
/* The snapshot of an overtaking SNAPSHOT event: keep what is half read, open captures. */
void sc_input_capture(sc_input_t *in, sc_cut_t *cut);
void sc_input_drop_captures(sc_input_t *in, uint64_t id); /* of checkpoints up to id */
/* The checkpoint being aligned, or 0. The input has no clock: for durations the caller notes the
 * time when it sees first_barrier. */
uint64_t sc_input_pending(const sc_input_t *in);
/* Bytes taken so far while checkpoints were being aligned or captured: two counts are compared, one
 * of them perhaps on another thread, to show what was processed meanwhile. Any thread. */
uint64_t sc_input_taken(const sc_input_t *in);
/* The task reads no more: tell all channels, and drop what was taken and not yet handed out. */
void sc_input_receiver_gone(sc_input_t *in);

#endif
