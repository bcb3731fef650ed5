#include "redistribute.h"

#include <inttypes.h>
#include <stdlib.h>

#include "../base/mem.h"
#include "../base/planted.h"
#include "../data/value.h"
#include "list_plan.h"

/* ---- keyed state and watermarks ---- */

static bool intersect(sc_key_range_t a, sc_key_range_t b, sc_key_range_t *out) {
  *out = (sc_key_range_t){a.first > b.first ? a.first : b.first, a.last < b.last ? a.last : b.last};
  return out->first <= out->last;
}

static void add_keyed(sc_restore_subtask_t *to, const sc_restore_keyed_t *part) {
  to->keyed = sc_realloc(to->keyed, (to->n_keyed + 1) * sizeof *to->keyed);
  to->keyed[to->n_keyed++] = *part;
}

static void add_groups(sc_restore_subtask_t *to, sc_key_range_t range, int64_t watermark) {
  to->groups = sc_realloc(to->groups, (to->n_groups + 1) * sizeof *to->groups);
  to->groups[to->n_groups++] = (sc_restore_groups_t){range, watermark};
}

static void plan_keyed(const sc_metadata_operator_t *old, sc_key_range_t owned,
                       sc_restore_subtask_t *to) {
  for (uint32_t i = 0; i < old->parallelism; i++) {
    const sc_metadata_subtask_t *from = &old->subtasks[i];
    sc_key_range_t range;
    if (intersect(sc_key_range(old->max_parallelism, old->parallelism, i), owned, &range))
      add_groups(to, range, from->state.watermark);
    for (uint32_t k = 0; k < from->state.n_handles; k++) {
      const sc_handle_t *h = &from->state.handles[k];
      if (h->kind == SC_HANDLE_KEYED && h->length && intersect(h->range, owned, &range))
        add_keyed(to, &(sc_restore_keyed_t){h, from->directory, range, from->state.watermark});
    }
  }
}

static void plan_watermarks(const sc_metadata_operator_t *old, bool level,
                            sc_restore_operator_t *plan) {
  int64_t watermark = INT64_MAX, forwarded = INT64_MAX;
  bool idle = true;
  for (uint32_t i = 0; i < old->parallelism; i++) {
    const sc_operator_snapshot_t *state = &old->subtasks[i].state;
    watermark = state->watermark < watermark ? state->watermark : watermark;
    if (SC_PLANTED(WATERMARK_AHEAD) && state->watermark != INT64_MAX)
      watermark = state->watermark;
    forwarded = state->forwarded < forwarded ? state->forwarded : forwarded;
    idle = idle && state->idle;
  }
  for (uint32_t i = 0; i < plan->parallelism; i++) {
    sc_restore_subtask_t *to = &plan->subtasks[i];
    bool same = (plan->parallelism == old->parallelism && !level) ||
                (SC_PLANTED(OWN_WATERMARK) && i < old->parallelism);
    to->watermark = same ? old->subtasks[i].state.watermark : watermark;
    to->forwarded = same ? old->subtasks[i].state.forwarded : forwarded;
    to->idle = same ? old->subtasks[i].state.idle : idle;
  }
}

/* ---- the whole plan ---- */

static bool has_keyed(const sc_metadata_operator_t *old) {
  for (uint32_t i = 0; i < old->parallelism; i++)
    for (uint32_t k = 0; k < old->subtasks[i].state.n_handles; k++)
      if (old->subtasks[i].state.handles[k].kind == SC_HANDLE_KEYED)
        return true;
  return false;
}

static int check(const sc_metadata_operator_t *old, uint32_t parallelism, uint32_t max_parallelism,
                 sc_error_t *err) {
  sc_assert(old->parallelism >= 1 && parallelism >= 1);
  int rc = 0;
  if (parallelism > max_parallelism)
    rc = sc_fail(err, SC_ESTATE, "operator %s cannot run with parallelism %" PRIu32 ": its "
                 "max_parallelism is %" PRIu32, old->uid, parallelism, max_parallelism);
  else if (max_parallelism != old->max_parallelism && has_keyed(old))
    rc = sc_fail(err, SC_ESTATE, "keyed state of operator %s was taken with max_parallelism %"
                 PRIu32 " and cannot be restored with %" PRIu32, old->uid, old->max_parallelism,
                 max_parallelism);
  if (rc < 0)
    sc_error_set_operator(err, old->uid);
  return rc;
}

static bool all_ended(const sc_metadata_operator_t *old) {
  for (uint32_t i = 0; i < old->parallelism; i++)
    if (old->subtasks[i].end == SC_TASK_RUNNING)
      return false;
  return true;
}

int sc_redistribute(const sc_metadata_operator_t *old, uint32_t parallelism,
                    uint32_t max_parallelism, bool level, sc_restore_operator_t **out,
                    sc_error_t *err) {
  int rc = check(old, parallelism, max_parallelism, err);
  if (rc < 0)
    return rc;
  sc_restore_operator_t *plan = sc_calloc(1, sizeof *plan);
  plan->parallelism = parallelism;
  plan->finished = all_ended(old);
  plan->subtasks = sc_calloc(parallelism, sizeof *plan->subtasks);
  for (uint32_t i = 0; max_parallelism == old->max_parallelism && i < parallelism; i++)
    plan_keyed(old, sc_key_range(max_parallelism, parallelism, i), &plan->subtasks[i]);
  plan_watermarks(old, level, plan);
  rc = sc__list_plan(old, plan, err);
  if (rc < 0) {
    sc_restore_operator_destroy(plan);
    return rc;
  }
  *out = plan;
  return 0;
}

void sc_restore_operator_destroy(sc_restore_operator_t *plan) {
  if (!plan)
    return;
  for (uint32_t i = 0; i < plan->parallelism; i++) {
    free(plan->subtasks[i].keyed);
    free(plan->subtasks[i].groups);
    sc_buf_free(&plan->subtasks[i].lists);
  }
  free(plan->subtasks);
  free(plan);
}
