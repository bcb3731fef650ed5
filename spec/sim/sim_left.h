/*
 * sim_left: what lies in the folders, and whether anything still needs it: in the job's what some
 * _metadata lists, in the sinks' what is committed, or is promised by a checkpoint of a history
 * that the job has left (sim_lineage.h) and may go back to.
 *
 * Threads: one. Ownership: borrows all; the storage is seen from outside.
 */
#ifndef SPEC_SIM_LEFT_H
#define SPEC_SIM_LEFT_H

#include "../../core/snapshot/job_dir.h"
#include "sim_operators.h"

typedef struct sim_left {
  sim_shared_t *shared;
  sc_storage_t *storage;
  /* Is what the checkpoint promised, of this job or (first) of the one before, due? */
  bool (*is_due)(void *arg, bool first, uint64_t id);
  void *arg;
} sim_left_t;

/* "/ckpt/job/chk-42" and what follows, if that is a path's beginning: in the folder of this job. */
const char *sim_left_checkpoint(const sim_shared_t *shared, const char *path, uint64_t *id);
/* A checkpoint that stands and lists the file, or 0. */
uint64_t sim_left_lister(const sim_shared_t *shared, const sc_job_scan_t *scan, const char *path);
void sim_left_in_job(const sim_left_t *l, const sc_job_scan_t *scan);
/* scan: NULL where only the job's own history is looked at. */
void sim_left_in_sinks(const sim_left_t *l, const sc_job_scan_t *scan);

#endif
