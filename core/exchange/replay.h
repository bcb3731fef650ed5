/*
 * replay: what was in flight at a checkpoint, given out again to one task: its virtual channels
 * (inflight_plan.h), read one after another in the order in which they are added. Pure: it says
 * what is to be read from files, and is fed.
 *
 *   want --a read for the pool--> feed --blocks--> next, next, ... --a block's end--> want ...
 *
 * At most two reads' worth is held, the one that records are taken from and the one after it, and
 * no buffer of the pool: there may be more recovered data than the pool has buffers.
 *
 * Records whose key group is not this receiver's are left out; watermarks and status are not handed
 * on, the channel notes them. They need no input of the valve: a gate reads its real channels only
 * when its virtual ones are drained, real channels begin before every watermark, and the first
 * thing that a restored sender says is the watermark that it had last forwarded. So nothing that a
 * virtual channel could say would move the task's watermark before.
 *
 * What is unread can be kept again: the same blocks of the same file, with the place in the first
 * one, the tag cut to this receiver's groups, and the watermark there. Nothing is copied, and the
 * generation stays: what the task's senders have sent since is younger.
 *
 * Threads: the task's slot. Ownership: create/destroy; borrows channels and their handles; owns
 * what it was fed. A record borrows until the next call. Failure: SC_ECORRUPT for blocks that hold
 * something else than records, naming the file.
 */
#ifndef SC_EXCHANGE_REPLAY_H
#define SC_EXCHANGE_REPLAY_H

#include "../data/record.h"
#include "../snapshot/inflight_plan.h"

#define SC_REPLAY_READ (256 * 1024) /* bytes to ask for at a time */

typedef struct sc_replay sc_replay_t;

typedef struct sc_replay_read {
  const sc_handle_t *handle; /* the file's */
  uint64_t at;               /* sc_inflight_read's */
} sc_replay_read_t;

sc_replay_t *sc_replay_create(void);
void sc_replay_destroy(sc_replay_t *r); /* NULL is fine */
/* One more channel, to be read after all that were added before. `gate` is the edge that holds up
 * its real channels; records come to `port`. */
void sc_replay_add(sc_replay_t *r, const sc_virtual_channel_t *v, uint32_t gate, uint32_t port);

/* A read to be made now, by whoever can: true, and feed (once) is awaited. */
bool sc_replay_want(sc_replay_t *r, sc_replay_read_t *out);
/* The blocks of that read, as sc_inflight_read gave them: takes the bytes, and leaves `blocks`
 * empty. */
void sc_replay_feed(sc_replay_t *r, sc_buf_t *blocks);

/* The next record, and the port that it comes to: 1; 0 where the next read is awaited or all is
 * drained; SC_ECORRUPT. */
int sc_replay_next(sc_replay_t *r, sc_record_t *record, uint32_t *port, sc_error_t *err);
bool sc_replay_ready(const sc_replay_t *r);   /* would next look at something? */
bool sc_replay_drained(const sc_replay_t *r); /* NULL is drained */
/* Are virtual channels of this gate undrained? Of a NULL: none. */
bool sc_replay_behind(const sc_replay_t *r, uint32_t gate);

/* What is unread: handles as a checkpoint lists them, malloc'ed (n of them are returned). `own` is
 * the folder of the snapshot that was restored, relative to the job's. */
uint32_t sc_replay_rest(const sc_replay_t *r, uint32_t receiver, const char *own,
                        sc_handle_t **out);

#endif
