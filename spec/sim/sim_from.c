#include "sim_from.h"

#include <inttypes.h>
#include <stdlib.h>

#include "../../core/base/mem.h"
#include "../../core/snapshot/job_dir.h"
#include "sim_check.h"

#define WHOLE_MAX 64 /* checkpoints that somebody chooses from */

/* Ids of the checkpoints that are whole, growing, and how many. */
static uint32_t whole_checkpoints(sc_storage_t *storage, uint64_t ids[WHOLE_MAX]) {
  sc_job_scan_t *scan;
  uint32_t n = 0;
  if (sc_job_scan(storage, SIM_JOB_DIR, SC_LOOK_CHECKSUMS, &scan, NULL) < 0)
    return 0;
  for (uint32_t i = 0; i < scan->n && n < WHOLE_MAX; i++)
    if (scan->list[i].state == SC_FOUND_VALID)
      ids[n++] = scan->list[i].id;
  sc_job_scan_destroy(scan);
  return n;
}

void sim_from_choose(sim_from_t *f, const sim_plan_t *p, uint32_t life, bool calm,
                     sc_storage_t *storage) {
  int64_t seed = (int64_t)p->seed, lot = sim_mix(seed, 5000 + life);
  uint64_t ids[WHOLE_MAX];
  sim_from_fini(f);
  if (p->no_checkpoints || (life == 0 && p->seed % 2))
    return;
  bool path = p->from_path && !calm && sim_mix(seed, 2000 + life) % 2;
  bool older = p->older && !calm && lot % 2;
  uint32_t n = path || older ? whole_checkpoints(storage, ids) : 0;
  f->older = older && n > 1;
  f->behind = f->older && lot / 2 % 3;
  if (f->older)
    n = 1 + (uint32_t)(lot / 6 % (n - 1));
  if (n && (path || f->older)) {
    f->id = ids[n - 1];
    f->text = sc_format(SIM_JOB_DIR "/chk-%" PRIu64, f->id);
  } else {
    f->text = sc_strdup("latest");
  }
}

void sim_from_fini(sim_from_t *f) {
  free(f->text);
  *f = (sim_from_t){0};
}
