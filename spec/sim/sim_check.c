#include "sim_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../core/base/mem.h"
#include "../../core/snapshot/job_dir.h"
#include "sim_final.h"
#include "sim_left.h"
#include "sim_lineage.h"

struct sim_check {
  sim_shared_t *shared;
  sc_storage_t *storage;
  const sim_model_t *full;     /* borrowed */
  const sim_model_t *model;    /* the same, or what is left of it after a drain */
  sim_model_t *left;           /* the latter */
  uint64_t highest_id;         /* of a folder that was made */
  sim_lineage_t lineage;
  sim_lineage_t first;         /* of the job before, where this one began from one of its */
  uint64_t n_safe;             /* checkpoints whose _metadata was ever safe */
  uint64_t newest_safe;        /* newest checkpoint whose _metadata was ever safe */
  sim_list_t lines[SIM_NODES]; /* committed, of each sink */
  uint32_t fired[SIM_NODES];   /* timers that fired, by the state in the end */
};

sim_check_t *sim_check_create(sim_shared_t *shared, sc_storage_t *storage,
                              const sim_model_t *model) {
  sim_check_t *c = sc_calloc(1, sizeof *c);
  c->shared = shared;
  c->storage = storage;
  c->full = c->model = model;
  return c;
}

static void clear_lines(sim_check_t *c) {
  for (uint32_t i = 0; i < SIM_NODES; i++) {
    free(c->lines[i].list);
    c->lines[i] = (sim_list_t){0};
  }
}

void sim_check_destroy(sim_check_t *c) {
  if (!c)
    return;
  clear_lines(c);
  sim_model_destroy(c->left);
  free(c);
}

uint64_t sim_check_completed(const sim_check_t *c) { return c->n_safe; }

static uint64_t tip_of(const sim_check_t *c) {
  return sim_lineage_tip(&c->lineage, c->newest_safe);
}

/* first: of the job that this one began from. */
static bool is_ours(void *arg, bool first, uint64_t id) {
  const sim_check_t *c = arg;
  return first ? sim_lineage_holds(&c->first, c->shared->moved_from, id)
               : sim_lineage_holds(&c->lineage, tip_of(c), id);
}

/* Lives are counted on; nothing of the new job's was taken in those before. */
void sim_check_moved(sim_check_t *c) {
  c->first = c->lineage;
  for (uint32_t i = 0; i < c->lineage.n; i++)
    c->lineage.lives[i].first = c->lineage.lives[i].from = 0;
  c->newest_safe = 0;
  c->highest_id = c->shared->moved_from;
}

void sim_check_life(sim_check_t *c) {
  sim_lineage_life(&c->lineage, c->lineage.n ? tip_of(c) : 0);
}

/* ---- at every change ---- */

static void folder_made(sim_check_t *c, const char *path) {
  uint64_t id;
  const char *rest = sim_left_checkpoint(c->shared, path, &id);
  if (!rest || *rest)
    return;
  if (id <= c->highest_id)
    sim_wrong(c->shared, "checkpoint id %" PRIu64 " is used after %" PRIu64, id, c->highest_id);
  c->highest_id = id > c->highest_id ? id : c->highest_id;
  sim_lineage_taken(&c->lineage, id);
}

/* Was the job drained in the life that took the checkpoint? */
static bool is_drained(const sim_check_t *c, uint64_t id) {
  return c->shared->drained >> sim_lineage_life_of(&c->lineage, id) & 1;
}

/* Who has ended has told all that it will: the end of time. */
static void check_ended(sim_check_t *c, const sc_metadata_t *m) {
  for (uint32_t i = 0; i < m->n_operators; i++)
    for (uint32_t s = 0; s < m->operators[i].parallelism; s++) {
      const sc_metadata_subtask_t *sub = &m->operators[i].subtasks[s];
      if (sub->end != SC_TASK_RUNNING && sub->state.forwarded != INT64_MAX)
        sim_wrong(c->shared, "checkpoint %" PRIu64 ": %s %u/%u has ended at watermark %" PRId64,
                  m->id, m->operators[i].uid, s + 1, m->operators[i].parallelism,
                  sub->state.forwarded);
    }
}

static void folder_synced(sim_check_t *c, const char *path) {
  uint64_t id;
  const char *rest = sim_left_checkpoint(c->shared, path, &id);
  if (!rest || *rest || id <= c->newest_safe)
    return;
  char *metadata = sc_path_join(path, SC_METADATA_NAME);
  sc_metadata_t *m;
  if (sc_sim_storage_safe(c->storage, metadata)) {
    c->newest_safe = id;
    c->n_safe++;
    if (sc_metadata_read(c->storage, path, &m, NULL) == 0) {
      sim_tally_checkpoint(&c->shared->tally, m);
      check_ended(c, m);
      sc_metadata_destroy(m);
    }
  }
  free(metadata);
}

typedef struct part {
  bool first; /* of the job that this one began from */
  int node;
  uint64_t id;
} part_t;

/* "job.sink7.0000000042.1.json" -> 7, 42. */
static bool parse_committed(const sim_check_t *c, const char *name, part_t *out) {
  size_t job = strlen(SIM_JOB_ID);
  uint32_t subtask;
  int n = 0;
  *out = (part_t){.first = c->shared->moved_from && strncmp(name, SIM_JOB_ID, job) == 0};
  if (!out->first && strncmp(name, sim_job_id(c->shared), job))
    return false;
  return sscanf(name + job, ".sink%d.%" SCNu64 ".%" SCNu32 ".json%n", &out->node, &out->id,
                &subtask, &n) == 3 && n && !name[job + (size_t)n];
}

static void renamed(sim_check_t *c, const char *to) {
  part_t part;
  const char *slash = strrchr(to, '/');
  if (!slash || !parse_committed(c, slash + 1, &part))
    return;
  if (!part.first && part.id > c->newest_safe)
    sim_wrong(c->shared, "part %s is committed, but the newest safe checkpoint is %" PRIu64,
              slash + 1, c->newest_safe);
  if (!is_ours(c, part.first, part.id))
    sim_wrong(c->shared, "part %s is committed, but the job went back to %" PRIu64, slash + 1,
              tip_of(c));
}

static void removed(sim_check_t *c, const char *path) {
  uint64_t id;
  const char *rest = sim_left_checkpoint(c->shared, path, &id);
  sc_job_scan_t *scan;
  if (!rest || *rest != '/' || strcmp(rest + 1, SC_METADATA_NAME) == 0 ||
      sc_job_scan(c->storage, sim_job_dir(c->shared), SC_LOOK_METADATA, &scan, NULL) < 0)
    return;
  uint64_t lister = sim_left_lister(c->shared, scan, path);
  if (lister)
    sim_wrong(c->shared, "%s is deleted, but checkpoint %" PRIu64 " lists it", path, lister);
  sc_job_scan_destroy(scan);
}

void sim_check_change(sim_check_t *c, const sc_sim_op_t *op, sc_world_t *world,
                      int64_t latency_ns) {
  sc_sim_storage_attach(c->storage, NULL, 0); /* we look from outside */
  if (c->shared->moved_from && op->kind != SC_SIM_SYNC_DIR &&
      strncmp(op->path, SIM_JOB_DIR "/", strlen(SIM_JOB_DIR) + 1) == 0)
    sim_wrong(c->shared, "%s %s: that is another job's", sc_sim_op_name(op->kind), op->path);
  switch (op->kind) {
    case SC_SIM_MAKE_DIR: folder_made(c, op->path); break;
    case SC_SIM_SYNC_DIR: folder_synced(c, op->path); break;
    case SC_SIM_RENAME: renamed(c, op->to); break;
    case SC_SIM_REMOVE: removed(c, op->path); break;
    default: break;
  }
  sc_sim_storage_attach(c->storage, world, latency_ns);
}

void sim_check_told_complete(sim_check_t *c, uint64_t id) {
  if (id > c->newest_safe)
    sim_wrong(c->shared,
              "operators are told that checkpoint %" PRIu64
              " completed, but the newest safe one is %" PRIu64,
              id, c->newest_safe);
}

typedef struct highest {
  const sim_check_t *check;
  uint64_t id;
} highest_t;

static int note_highest(void *arg, const char *name) {
  highest_t *highest = arg;
  part_t part;
  if (parse_committed(highest->check, name, &part) && !part.first && part.id > highest->id)
    highest->id = part.id;
  return 0;
}

uint64_t sim_check_highest_committed(sim_check_t *c) {
  highest_t highest = {c, 0};
  c->storage->ops->list(c->storage, SIM_OUT, note_highest, &highest, NULL);
  return highest.id;
}

bool sim_check_restored(sim_check_t *c, uint64_t id, const sim_from_t *from) {
  bool on = id == tip_of(c);
  sim_lineage_from(&c->lineage, from->other ? 0 : id);
  if (from->older && !from->behind && sim_check_highest_committed(c) > id)
    sim_wrong(c->shared, "the job goes back to checkpoint %" PRIu64
              ", but a sink has committed %" PRIu64, id, sim_check_highest_committed(c));
  if (!from->older && !from->other && id < c->newest_safe)
    sim_wrong(c->shared,
              "the job begins from checkpoint %" PRIu64 ", but %" PRIu64 " had completed", id,
              c->newest_safe);
  return on;
}

/* ---- outputs ---- */

static bool parse_line(const char *line, sim_record_t *r) {
  int n = 0;
  *r = (sim_record_t){0};
  return sscanf(line,
                "{\"k\":%" SCNd64 ",\"l\":%" SCNd64 ",\"s\":%" SCNd64 ",\"t\":%" SCNd64
                ",\"v\":%" SCNd64 "}%n",
                &r->k, &r->l, &r->s, &r->t, &r->v, &n) == 5 &&
         n && !line[n];
}

static void add_line(sim_check_t *c, int node, const char *name, const char *line) {
  sim_record_t r;
  if (!parse_line(line, &r)) {
    sim_wrong(c->shared, "a line of %s is damaged: %.60s", name, line);
    return;
  }
  /* Where records come again, some that were committed may not be read again before a drain. */
  const sim_model_t *model = c->shared->loose ? c->full : c->model;
  const sim_record_t *expected = sim_list_find(&model->in[node], &r);
  /* At least once, a part holds what a drain makes windows say behind its checkpoint's barrier. */
  bool early = c->shared->at_least_once && c->shared->drained && c->model == c->full;
  bool other = expected && r.t == 1 && (c->shared->loose || early); /* one that fires again */
  if (!expected || expected->t != r.t || (expected->v != r.v && !other))
    sim_wrong(c->shared, "%s holds %s, which %s", name, line,
              expected ? "differs from what the model has" : "the model does not have");
  r.ts = expected ? expected->ts : 0;
  sim_list_add(&c->lines[node], &r);
}

/* The plan's rule for a sink: may a line of a lane and key not come after a later one? */
static bool keeps_order(const sim_plan_t *p, int sink) {
  bool ordered = true;
  for (uint32_t i = 0; i < p->nodes[sink].n_inputs; i++) {
    const sim_input_t *in = &p->nodes[sink].inputs[i];
    ordered &= p->nodes[in->from].ordered && !in->side && in->edge != SC_REBALANCE;
  }
  return ordered;
}

static void check_order(sim_check_t *c, int node, const char *name, uint32_t first) {
  const sim_list_t *all = &c->lines[node];
  for (uint32_t i = first; i < all->n; i++)
    for (uint32_t x = 0; x < i; x++)
      if (all->list[x].l == all->list[i].l && all->list[x].k == all->list[i].k &&
          all->list[x].s > all->list[i].s) {
        sim_wrong(c->shared,
                  "%s: number %" PRId64 " of lane %" PRId64 ", key %" PRId64
                  " stands behind number %" PRId64,
                  name, all->list[i].s, all->list[i].l, all->list[i].k, all->list[x].s);
        return;
      }
}

static int read_part(void *arg, const char *name) {
  sim_check_t *c = arg;
  part_t part;
  if (!parse_committed(c, name, &part)) {
    if (name[0] != '.')
        sim_wrong(c->shared, "a strange file in the sinks' folder: %s", name);
    return 0;
  }
  if (!is_ours(c, part.first, part.id))
    return 0; /* looked at while it was */
  char *path = sc_path_join(SIM_OUT, name);
  sc_buf_t text = SC_BUF_INIT;
  if (sc_storage_read_all(c->storage, path, 1 << 20, &text, NULL) < 0)
    sim_wrong(c->shared, "%s cannot be read", path);
  sc_buf_put_u8(&text, 0);
  uint32_t first = c->lines[part.node].n;
  char *rest = (char *)text.data;
  for (char *line; (line = strsep(&rest, "\n")) != NULL;)
    if (rest)
      add_line(c, part.node, name, line);
    else if (*line)
      sim_wrong(c->shared, "%s ends in half a line", name);
  if (!c->shared->loose && keeps_order(c->shared->plan, part.node))
    check_order(c, part.node, name, first);
  sc_buf_free(&text);
  free(path);
  return 0;
}

/* Lines that may stand again count once. */
static void check_twice(sim_check_t *c, uint32_t node) {
  sim_list_t *all = &c->lines[node];
  uint32_t kept = 0;
  sim_list_sort(all);
  for (uint32_t i = 0; i < all->n; i++) {
    const sim_record_t *r = &all->list[i], *last = kept ? &all->list[kept - 1] : NULL;
    if (!last || last->l != r->l || last->s != r->s || last->k != r->k)
      all->list[kept++] = *r;
    else if (c->shared->loose)
      sim_tally_add(&c->shared->tally, SIM_TALLY_TWICE);
    else
      sim_wrong(c->shared, "%s: line %" PRId64 "/%" PRId64 " of key %" PRId64 " stands twice",
                c->shared->plan->nodes[node].uid, r->l, r->s, r->k);
  }
  all->n = kept;
}

static void check_complete(sim_check_t *c, uint32_t node) {
  const sim_plan_t *p = c->shared->plan;
  const sim_list_t *want = &c->model->in[node], *got = &c->lines[node];
  uint32_t fired = 0, data = 0;
  for (uint32_t i = 0; i < got->n; i++)
    fired += got->list[i].t == 2;
  for (uint32_t i = 0; i < want->n; i++)
    data += want->list[i].t != 2;
  const sim_record_t *missing = NULL;
  for (uint32_t i = 0; i < want->n && !missing; i++)
    if (want->list[i].t != 2 && !sim_list_find(got, &want->list[i]))
      missing = &want->list[i];
  if (missing || (got->n - fired != data && !c->shared->loose))
    sim_wrong(c->shared, "%s has %u lines, the model has %u; lost is %" PRId64 "/%" PRId64,
              p->nodes[node].uid, got->n - fired, data, missing ? missing->l : -1,
              missing ? missing->s : -1);
  uint32_t expected = 0;
  for (uint32_t k = 0; k < p->nodes[node].n_inputs; k++)
    expected += p->nodes[node].inputs[k].side ? c->fired[p->nodes[node].inputs[k].from] : 0;
  bool more = c->shared->loose && fired > expected;
  if (fired != expected && !more && !p->no_checkpoints) /* without, there is no state to say so */
    sim_wrong(c->shared, "%s has %u lines of timers that fired, by the state %u fired",
              p->nodes[node].uid, fired, expected);
}

/* ---- the end ---- */

static sim_left_t left_of(sim_check_t *c) {
  return (sim_left_t){c->shared, c->storage, is_ours, c};
}

void sim_check_committed(sim_check_t *c) {
  const sim_left_t left = left_of(c);
  sim_left_in_sinks(&left, NULL);
}

static void check_sinks(sim_check_t *c) {
  for (uint32_t i = 0; i < c->shared->plan->n_nodes; i++)
    if (c->shared->plan->nodes[i].kind == SIM_SINK && !c->shared->plan->nodes[i].left_out)
      check_complete(c, i);
}

/* The last words of its readers, against what the checkpoint has of them: whoever took a split says
 * how far it had come. */
static void check_ends(sim_check_t *c, const sim_ends_t *ends) {
  const sim_shared_t *s = c->shared;
  for (uint32_t i = 0; i < s->plan->n_nodes; i++)
    for (uint32_t split = 0; s->plan->nodes[i].kind == SIM_SOURCE && split < SIM_SPLITS; split++) {
      const sim_position_t *at = &s->read[i][split];
      if (at->attempt && at->attempt == s->attempts[i] && at->seq != ends->read[i][split])
        sim_wrong(c->shared, "%s had read %u records of split %u, the last checkpoint says %u",
                  s->plan->nodes[i].uid, at->seq, split, ends->read[i][split]);
    }
}

static void note_unread(sim_check_t *c, const sim_ends_t *ends) {
  const sim_plan_t *p = c->shared->plan;
  for (uint32_t i = 0; i < p->n_nodes; i++)
    for (uint32_t split = 0; p->nodes[i].kind == SIM_SOURCE && split < p->nodes[i].splits; split++)
      if (!p->nodes[i].left_out && ends->read[i][split] < p->nodes[i].records) {
        sim_tally_add(&c->shared->tally, SIM_TALLY_UNREAD);
        return;
      }
}

/* The last checkpoint of the job's history, which need not be the newest of the folder; NULL where
 * it is not there, or not whole. */
static const sc_found_t *tip_in(const sim_check_t *c, const sc_job_scan_t *scan) {
  for (uint32_t i = 0; i < scan->n; i++)
    if (scan->list[i].id == tip_of(c) && scan->list[i].state == SC_FOUND_VALID)
      return &scan->list[i];
  return NULL;
}

/* A job that was drained is complete with what it had read; the model is made again for that. */
static void look_for_drain(sim_check_t *c) {
  sc_job_scan_t *scan;
  c->model = c->full;
  if (!c->shared->drained ||
      sc_job_scan(c->storage, sim_job_dir(c->shared), SC_LOOK_METADATA, &scan, NULL) < 0)
    return;
  const sc_found_t *last = tip_in(c, scan);
  if (last && last->metadata->finished && is_drained(c, last->id)) {
    sim_ends_t ends;
    sim_final_ends(c->shared->plan, last->metadata, &ends);
    sim_model_destroy(c->left);
    c->model = c->left = sim_model_create(c->shared->plan, &ends);
    if (c->shared->finished_now) {
      check_ends(c, &ends);
      note_unread(c, &ends);
    }
  }
  sc_job_scan_destroy(scan);
}

void sim_check_outputs(sim_check_t *c) {
  look_for_drain(c);
  clear_lines(c);
  if (c->storage->ops->kind(c->storage, SIM_OUT, NULL) == 2)
    c->storage->ops->list(c->storage, SIM_OUT, read_part, c, NULL); /* in the order of ids */
  for (uint32_t i = 0; i < SIM_NODES; i++)
    check_twice(c, i);
}

void sim_check_end(sim_check_t *c) {
  sc_job_scan_t *scan;
  if (c->shared->plan->no_checkpoints) {
    sim_check_outputs(c);
    check_sinks(c);
    return;
  }
  const char *dir = sim_job_dir(c->shared);
  if (sc_job_scan(c->storage, dir, SC_LOOK_CHECKSUMS, &scan, NULL) < 0) {
    sim_wrong(c->shared, "the job has finished, and its folder cannot be read");
    return;
  }
  const sc_found_t *last = tip_in(c, scan);
  if (!last || !last->metadata->finished) {
    sim_wrong(c->shared, "the job has finished, but its newest checkpoint is not its last one");
    sc_job_scan_destroy(scan);
    return;
  }
  sim_check_outputs(c);
  const sim_final_t final = {c->shared, c->storage, c->model, c->full,
                             last->metadata};
  for (uint32_t i = 0; i < c->shared->plan->n_nodes; i++)
    if (c->shared->plan->nodes[i].kind == SIM_KEYED && !c->shared->plan->nodes[i].left_out)
      c->fired[i] = sim_final_state(&final, i);
  check_sinks(c);
  const sim_left_t left = left_of(c);
  sim_left_in_job(&left, scan);
  sim_left_in_sinks(&left, scan);
  sc_job_scan_destroy(scan);
}
