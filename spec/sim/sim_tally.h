/*
 * sim_tally: what really happened in a run, counted: a disturbance that is drawn and comes too
 * late, or meets a job that does nothing just then, has disturbed nothing. `sim --count` prints for
 * each kind in how many runs it happened, and how often.
 *
 * Facts come from the job's log, from each _metadata that became safe, and from the run, which
 * knows what its user did.
 *
 * Threads: one. Ownership: a value; the plan is borrowed.
 */
#ifndef SPEC_SIM_TALLY_H
#define SPEC_SIM_TALLY_H

#include "../../core/snapshot/metadata.h"
#include "sim_plan.h"

#define SIM_TALLY_MAP(XX)                                                                          \
  XX(COMPLETED, "a checkpoint completed")                                                          \
  XX(MIDDLE, "one completed before the end of all input")                                          \
  XX(ASKED, "one that the user had asked for completed")                                           \
  XX(TOGETHER, "two or more were pending at once")                                                 \
  XX(KEPT_SENDER, "a barrier overtook what stood in a queue, which was kept")                      \
  XX(KEPT_RECEIVER, "what was read before a late barrier was kept")                                \
  XX(TIMED_SOURCE, "after its time a barrier overtook in a queue of a source")                     \
  XX(TIMED_SENDER, "after its time a barrier overtook in a queue of another task")                 \
  XX(TIMED_RECEIVER, "after its time a task began to keep its input")                              \
  XX(KEPT_AGAIN, "what was restored, and not read yet, was kept again")                            \
  XX(SOME_ENDED, "one completed in which some tasks had ended and others had not")                 \
  XX(ENDED_WITHIN, "a source ended while a checkpoint was pending")                                \
  XX(EXPIRED, "a checkpoint expired")                                                              \
  XX(DECLINED, "a task declined, or could not write its part")                                     \
  XX(FOLDER, "the folder or the id of one could not be made durable")                              \
  XX(METADATA, "the _metadata of one could not be written")                                        \
  XX(SUBSUMED, "one was aborted since a newer one completed")                                      \
  XX(SUPERSEDED, "one was given up at a task that met a newer barrier first")                      \
  XX(TASK_FAILED, "one was aborted since a task failed")                                           \
  XX(STOPPED, "one was aborted since the job was canceled, or failed")                             \
  XX(LATE, "an acknowledgement came after its checkpoint was aborted")                             \
  XX(FINAL_AGAIN, "the final checkpoint failed, and was tried again")                              \
  XX(REFUSED, "none was taken, since only some tasks had ended")                                   \
  XX(INTOLERABLE, "more failed in a row than is tolerated")                                        \
  XX(OPERATOR_FAILED, "an operator failed")                                                        \
  XX(RESTARTED, "a region restarted by itself")                                                    \
  XX(ALONE, "one restarted while others ran on")                                                   \
  XX(STORAGE_FAILED, "an operation of the storage failed")                                         \
  XX(DIED, "the process died")                                                                     \
  XX(POWER, "the process died, with loss of what was not synced")                                  \
  XX(CLOSED, "the job failed, and was started again")                                              \
  XX(CANCELED, "the user canceled")                                                                \
  XX(STOPPED_WITH, "the user stopped the job, and its checkpoint completed")                       \
  XX(DRAINED, "the user drained the job, and it completed")                                        \
  XX(UNREAD, "with records unread")                                                                \
  XX(ASKED_IN_VAIN, "a checkpoint, stop or drain was asked for, and failed")                       \
  XX(COMPLETE, "a start found the job complete")                                                   \
  XX(RESTORED, "a start or restart went back to a checkpoint, and went on")                        \
  XX(OLDER, "a start went back to a checkpoint that was not the newest")                           \
  XX(OLDER_COMMITTED, "behind what sinks had committed")                                           \
  XX(OLDER_REFUSED, "a start was refused to go back behind what sinks had committed")              \
  XX(OLDER_LEFT, "one that had gone back came to no checkpoint, and the next took the newest")     \
  XX(MOVED, "another job began from a checkpoint of the first, in a folder of its own")            \
  XX(MOVED_AGAIN, "and began there again, since it had none of its own yet")                       \
  XX(RESCALED, "at another parallelism")                                                           \
  XX(IN_FLIGHT, "with data in flight")                                                             \
  XX(RESCALED_IN_FLIGHT, "at another parallelism, with data in flight")                            \
  XX(UNCHAINED, "with data in flight between operators that would be chained")                     \
  XX(NETWORK_IN_FLIGHT, "with other buffers, and data in flight")                                  \
  XX(TO_OVERTAKING, "from an aligned checkpoint to ones that may overtake")                        \
  XX(TO_ALIGNED, "with data in flight, to aligned checkpoints")                                    \
  XX(TO_AT_LEAST_ONCE, "from exactly once to at least once")                                       \
  XX(IN_FLIGHT_AT_LEAST_ONCE, "with data in flight, to at least once")                             \
  XX(FROM_AT_LEAST_ONCE, "from at least once to exactly once")                                     \
  XX(AT_LEAST_ONCE, "a life took its checkpoints at least once")                                   \
  XX(TWICE, "at least once: a line was committed again")

#define SIM__TALLY_NAME(name, text) SIM_TALLY_##name,
typedef enum { SIM_TALLY_MAP(SIM__TALLY_NAME) SIM_TALLY_KINDS } sim_tally_kind_t;
#undef SIM__TALLY_NAME

#define SIM_TALLY_TAKEN 64

typedef struct sim_tally {
  uint32_t n[SIM_TALLY_KINDS];
  const sim_plan_t *plan;
  uint32_t life;    /* this one */
  uint32_t pending; /* checkpoints */
  struct sim_tally_taken {
    uint64_t id;
    uint32_t life; /* in which it was taken */
    bool in_flight, finished;
  } taken[SIM_TALLY_TAKEN]; /* the newest ones that completed, in a ring */
  uint32_t n_taken;
} sim_tally_t;

const char *sim_tally_text(sim_tally_kind_t kind);
void sim_tally_add(sim_tally_t *t, sim_tally_kind_t kind);
void sim_tally_life(sim_tally_t *t, uint32_t life);         /* a process begins */
void sim_tally_log(sim_tally_t *t, const char *line);       /* of the job */
void sim_tally_checkpoint(sim_tally_t *t, const sc_metadata_t *m); /* its _metadata is safe */
void sim_tally_restored(sim_tally_t *t, uint64_t id);       /* by a start */
void sim_tally_source_ended(sim_tally_t *t);

#endif
