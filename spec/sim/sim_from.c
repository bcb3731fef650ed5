#include "sim_from.h"

#include <inttypes.h>
#include <stdlib.h>

#include "../../core/base/mem.h"
#include "../../core/snapshot/job_dir.h"
#include "sim_check.h"

#define WHOLE_MAX 64 /* checkpoints that somebody chooses from */

/* Ids of the checkpoints that are whole, growing, and how many. unfinished: of those only. */
static uint32_t whole_checkpoints(sc_storage_t *storage, const char *dir, bool unfinished,
                                  uint64_t ids[WHOLE_MAX]) {
  sc_job_scan_t *scan;
  uint32_t n = 0;
  if (sc_job_scan(storage, dir, SC_LOOK_CHECKSUMS, &scan, NULL) < 0)
    return 0;
  for (uint32_t i = 0; i < scan->n && n < WHOLE_MAX; i++) {
    const sc_found_t *f = &scan->list[i];
    if (f->state == SC_FOUND_VALID && !(unfinished && f->metadata->finished))
      ids[n++] = f->id;
  }
  sc_job_scan_destroy(scan);
  return n;
}

static void name(sim_from_t *f, const char *dir, uint64_t id) {
  f->id = id;
  f->text = sc_format("%s/chk-%" PRIu64, dir, id);
}

/* As another job, from now on or still. */
static void choose_other(sim_from_t *f, const sim_shared_t *shared, int64_t lot,
                         sc_storage_t *storage) {
  const sim_plan_t *p = shared->plan;
  uint64_t ids[WHOLE_MAX];
  if (shared->moved_from && whole_checkpoints(storage, sim_job_dir(shared), false, ids) == 0) {
    f->other = true;
    name(f, SIM_JOB_DIR, shared->moved_from);
  }
  if (!p->moves || shared->moved_from || shared->calm || lot / 40 % 3)
    return;
  uint32_t n = whole_checkpoints(storage, SIM_JOB_DIR, true, ids);
  f->other = n > 0;
  if (n)
    name(f, SIM_JOB_DIR, ids[lot / 120 % n]);
}

/* Of its own checkpoints the newest by its name, or an older one. */
static void choose_path(sim_from_t *f, const sim_shared_t *shared, int64_t lot,
                        sc_storage_t *storage) {
  const sim_plan_t *p = shared->plan;
  uint64_t ids[WHOLE_MAX];
  bool path = p->from_path && sim_mix((int64_t)p->seed, 2000 + shared->life) % 2;
  bool older = p->older && lot % 2;
  if (shared->calm || !(path || older))
    return;
  uint32_t n = whole_checkpoints(storage, sim_job_dir(shared), false, ids);
  f->older = older && n > 1;
  f->behind = f->older && lot / 2 % 3;
  if (f->older)
    n = 1 + (uint32_t)(lot / 6 % (n - 1));
  if (n && (path || f->older))
    name(f, sim_job_dir(shared), ids[n - 1]);
}

void sim_from_choose(sim_from_t *f, const sim_shared_t *shared, sc_storage_t *storage) {
  const sim_plan_t *p = shared->plan;
  int64_t lot = sim_mix((int64_t)p->seed, 5000 + shared->life);
  sim_from_fini(f);
  if (p->no_checkpoints || (shared->life == 0 && p->seed % 2))
    return;
  choose_other(f, shared, lot, storage);
  if (!f->text)
    choose_path(f, shared, lot, storage);
  if (!f->text)
    f->text = sc_strdup("latest");
}

void sim_from_fini(sim_from_t *f) {
  free(f->text);
  *f = (sim_from_t){0};
}
