/*
 * barrier: when a task takes its snapshot, which of its channels it holds back for that, and what
 * of them it keeps. Pure: events in, actions and states out (DESIGN section 4).
 *
 * A checkpoint n is *pending* at a task from the first word of it (a barrier taken from a channel,
 * or a trigger by mail where no sender is left) to its start. It starts
 *   aligned      when every open channel has brought its barrier in its turn, and nothing recovered
 *                is left to read; until then the channels that brought it are held back;
 *   overtaking   when every open *rigid* channel has (those of edges that cannot be captured):
 *                at once where there is none. From then on the other channels that are open and
 *                without their barrier are *captured*: what is read of them belongs to n, until
 *                their barrier, or their closing element, comes.
 * It may overtake when its barrier says so: from the beginning, from the moment one of its barriers
 * was taken at the head of a queue (its sender overtook), or when the time for it has come. A
 * closed channel stands for all later barriers.
 *
 *                 barrier, trigger                  all barriers in their turn
 *   UNKNOWN ------------------------> PENDING ----------------------------------> (start) DONE
 *      |                              |  |  ^ \   its time, or a barrier at the head
 *      | abort                  abort |  |  |  v                 all rigid barriers
 *      +----------> DEAD <------------+  | PENDING, overtaking ----> (start, captures)
 *                    ^                   |                                 |
 *                    |  a newer barrier on a channel that did not          v
 *                    |  bring n's, a newer start                       CAPTURING
 *                    +-----------------------------------------------------+ \--last barrier,
 *                                                                              close--> DONE
 *
 * At least once (create's second argument): barriers are only counted. No channel is held back or
 * captured, checkpoints may be completed in any order, and one that starts ends the older ones.
 * Only the end of a channel is not to be believed before the start (sc_aligner_counts).
 *
 * The invariants that the code keeps:
 *   (B1) Each checkpoint starts at most once, in the order of ids (exactly once), and never after
 *        it was given up. One that is given up is told at most once; after its start only while
 *        captures of it are open.
 *   (B2) A channel is held back exactly while a checkpoint is pending whose barrier it brought.
 *   (B3) A barrier of m on a channel that owes one of n < m says that n is dead: nothing will bring
 *        it any more. Elsewhere an older one stays pending beside a newer (an aligned one may
 *        follow any). One that starts with captures ends older captures: it is triggered only when
 *        no other is alive.
 *   (B4) What was read of a channel before a start, and what is kept of it from there to its
 *        barrier, is together all that its sender sent before its own start, once.
 *
 * Cancellation barriers exist only here, as events of the tables: engines that have them end by one
 * whatever is older. Aborts come by mail and name one checkpoint.
 *
 * Threads: the task's slot. Ownership: create/destroy. Failure: none; nonsense (a barrier on a
 * closed channel, a second barrier of one checkpoint, the id 0) is ignored.
 */
#ifndef SC_EXCHANGE_BARRIER_H
#define SC_EXCHANGE_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sc_aligner sc_aligner_t;

typedef enum {
  SC_ALIGN_START, /* take the snapshot of `id` now */
  SC_ALIGN_ABORT  /* `id` is given up; whoever keeps something for it drops that */
} sc_align_kind_t;

typedef struct sc_align_action {
  sc_align_kind_t kind;
  uint64_t id;
  bool overtakes;         /* START: it overtakes, and captures begin */
  uint64_t superseded_by; /* ABORT: the newer one that ended it; 0: an abort or a cancellation */
} sc_align_action_t;

typedef enum {
  SC_ALIGN_NEVER, /* aligned */
  SC_ALIGN_LATER, /* when its time has come, or a sender has overtaken */
  SC_ALIGN_NOW    /* it overtakes; a barrier that was taken at the head says so, too */
} sc_align_mode_t;

sc_aligner_t *sc_aligner_create(uint32_t channels, bool at_least_once);
void sc_aligner_destroy(sc_aligner_t *a);                 /* NULL is fine */
void sc_aligner_rigid(sc_aligner_t *a, uint32_t channel); /* it cannot be captured; at first */

void sc_aligner_barrier(sc_aligner_t *a, uint32_t channel, uint64_t id, sc_align_mode_t mode);
void sc_aligner_trigger(sc_aligner_t *a, uint64_t id, sc_align_mode_t mode);
void sc_aligner_overtake(sc_aligner_t *a, uint64_t id); /* its time has come */
void sc_aligner_close(sc_aligner_t *a, uint32_t channel);
void sc_aligner_abort(sc_aligner_t *a, uint64_t id);  /* by mail */
void sc_aligner_cancel(sc_aligner_t *a, uint64_t id); /* a cancellation barrier; tables only */
/* Recovered data is still to be read: an aligned start waits (exactly once). */
void sc_aligner_recovering(sc_aligner_t *a, bool yes);

/* What follows from the events so far, oldest first; false where nothing does. */
bool sc_aligner_next(sc_aligner_t *a, sc_align_action_t *action);

bool sc_aligner_held(const sc_aligner_t *a, uint32_t channel);
/* At least once: the channel brought the barrier of a checkpoint that others still owe. What comes
 * of it before the start will come again after a restore. */
bool sc_aligner_counts(const sc_aligner_t *a, uint32_t channel);
/* What is read of the channel now belongs to the checkpoint that is being captured. */
bool sc_aligner_captured(const sc_aligner_t *a, uint32_t channel);
uint64_t sc_aligner_pending(const sc_aligner_t *a);   /* the oldest that waits to start, or 0 */
uint64_t sc_aligner_capturing(const sc_aligner_t *a); /* started, with captures open, or 0 */
/* The oldest pending one that still waits for its time to overtake, or 0. */
uint64_t sc_aligner_patient(const sc_aligner_t *a);
uint32_t sc_aligner_missing(const sc_aligner_t *a); /* channels that owe the oldest pending one */
/* Would a barrier of id still do something here? False for one that started or was given up. */
bool sc_aligner_expects(const sc_aligner_t *a, uint64_t id);

#endif
