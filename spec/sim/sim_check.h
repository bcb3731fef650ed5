/*
 * sim_check: what must hold of the files, at every change of them, and in the end.
 *
 *   ids           a folder chk-N is made for each N once, and N only grows, also over crashes
 *   deletion      no file goes that a _metadata which stands lists
 *   commits       a part of checkpoint P gets its committed name, and an operator is told that P
 *                 completed, only after a _metadata of P or a later one was safe from loss of power
 *                 of the history that the job lives in (sim_lineage.h)
 *   ends          in a checkpoint who has ended has told the greatest watermark
 *   going back    a start takes the newest checkpoint that was ever safe, or a newer one, or the
 *                 one that it was told to take; behind what a sink has committed only when told
 *   outputs       committed lines of this history: at any time none twice and none that the model
 *                 lacks; in the end
 *                 all of them, and timers exactly as the state says that they fired
 *                 where a job was drained, in the model of what it had read
 *   order         in the parts of a sink by their ids, of a lane and key
 *   state         in the end: counts, records, windows, timers of every keyed operator
 *   other jobs    who has begun from a checkpoint in another job's folder changes nothing there
 *   orphans       in the end: nothing in the job's folder that no _metadata lists; then, and behind
 *                 a stop or an end, nothing in the sinks' that is not committed, but what a
 *                 checkpoint of another history promises that stands
 *
 * Behind a restore from a checkpoint that was taken at least once (sim_shared_t.loose) lines may
 * come again, windows have other values, and order is not asked for; the rest holds as ever.
 *
 * Threads: one. Ownership: create/destroy; borrows storage, plan and model.
 */
#ifndef SPEC_SIM_CHECK_H
#define SPEC_SIM_CHECK_H

#include "../../core/sim/sim_storage.h"
#include "sim_from.h"
#include "sim_model.h"

#define SIM_CKPT "/ckpt"
/* The first job, and the one that may go on from one of its checkpoints: equally long. */
#define SIM_JOB_ID "job"
#define SIM_MOVED_ID "two"
#define SIM_JOB_DIR SIM_CKPT "/" SIM_JOB_ID
static inline const char *sim_job_id(const sim_shared_t *s) {
  return s->moved_from ? SIM_MOVED_ID : SIM_JOB_ID;
}
static inline const char *sim_job_dir(const sim_shared_t *s) {
  return s->moved_from ? SIM_CKPT "/" SIM_MOVED_ID : SIM_JOB_DIR;
}
#define SIM_OUT "/out"

typedef struct sim_check sim_check_t;

sim_check_t *sim_check_create(sim_shared_t *shared, sc_storage_t *storage,
                              const sim_model_t *model);
void sim_check_destroy(sim_check_t *c);
/* After each change of files, by the storage's observer. The storage is attached to `world`. */
void sim_check_change(sim_check_t *c, const sc_sim_op_t *op, sc_world_t *world, int64_t latency_ns);
void sim_check_told_complete(sim_check_t *c, uint64_t id);
void sim_check_life(sim_check_t *c);                  /* a life begins */
/* From this life on the job is another one, which began from shared->moved_from. */
void sim_check_moved(sim_check_t *c);
/* A start goes back to `id` (0: it found nothing), as it was told. Before anything of it has run.
 * Does it only go on where the history was? */
bool sim_check_restored(sim_check_t *c, uint64_t id, const sim_from_t *from);
/* Highest checkpoint of which a sink of this job has committed something, in any history. */
uint64_t sim_check_highest_committed(sim_check_t *c);
uint64_t sim_check_completed(const sim_check_t *c);   /* how many checkpoints were ever safe */
/* The storage is seen from outside (attached to no world). */
void sim_check_outputs(sim_check_t *c);
void sim_check_committed(sim_check_t *c); /* sinks have committed all that the checkpoint holds */
void sim_check_end(sim_check_t *c);

#endif
