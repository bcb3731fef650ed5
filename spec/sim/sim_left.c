#include "sim_left.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../core/base/mem.h"
#include "sim_check.h"

const char *sim_left_checkpoint(const sim_shared_t *shared, const char *path, uint64_t *id) {
  size_t dir = strlen(sim_job_dir(shared));
  int n = 0;
  if (strncmp(path, sim_job_dir(shared), dir) ||
      sscanf(path + dir, "/chk-%" SCNu64 "%n", id, &n) != 1)
    return NULL;
  return path + dir + n;
}

/* ---- the job's folder ---- */

typedef struct listed {
  const char *dir, *path;
  bool found;
} listed_t;

static int is_listed(void *arg, const sc_metadata_operator_t *op, uint32_t subtask,
                     const sc_handle_t *h) {
  listed_t *l = arg;
  const char *dir = sc_metadata_directory(op, subtask, h);
  char *path = dir ? sc_format("%s/%s/%s", l->dir, dir, h->file) : NULL;
  l->found |= path && strcmp(path, l->path) == 0;
  free(path);
  return 0;
}

static int is_listed_here(void *arg, const sc_metadata_operator_t *op, uint32_t subtask,
                          const sc_handle_t *h) {
  listed_t *l = arg;
  const char *slash = strrchr(l->path, '/');
  l->found |= !sc_metadata_directory(op, subtask, h) && slash && strcmp(slash + 1, h->file) == 0;
  return 0;
}

uint64_t sim_left_lister(const sim_shared_t *shared, const sc_job_scan_t *scan, const char *path) {
  uint64_t folder = 0;
  listed_t l = {sim_job_dir(shared), path, false};
  sim_left_checkpoint(shared, path, &folder);
  for (uint32_t i = 0; i < scan->n; i++) {
    if (scan->list[i].state != SC_FOUND_VALID)
      continue;
    sc_metadata_each_file(scan->list[i].metadata, is_listed, &l);
    if (scan->list[i].id == folder)
      sc_metadata_each_file(scan->list[i].metadata, is_listed_here, &l);
    if (l.found)
      return scan->list[i].id;
  }
  return 0;
}

static void look_at_folder(const sim_left_t *l, const sc_job_scan_t *scan, const char *name) {
  char *dir = sc_path_join(sim_job_dir(l->shared), name);
  sc_names_t names;
  uint64_t id = 0;
  bool checkpoint = sim_left_checkpoint(l->shared, dir, &id);
  if (!checkpoint && strcmp(name, "lock") && strcmp(name, "ids"))
    sim_wrong(l->shared, "%s is left behind", dir);
  if (checkpoint && sc_storage_names(l->storage, dir, &names, NULL) == 0) {
    for (uint32_t i = 0; i < names.n; i++) {
      char *path = sc_path_join(dir, names.list[i]);
      if (strcmp(names.list[i], SC_METADATA_NAME) && !sim_left_lister(l->shared, scan, path))
        sim_wrong(l->shared, "%s is left behind", path);
      free(path);
    }
    if (!names.n)
      sim_wrong(l->shared, "the empty folder %s is left behind", dir);
    sc_names_free(&names);
  }
  free(dir);
}

void sim_left_in_job(const sim_left_t *l, const sc_job_scan_t *scan) {
  sc_names_t names;
  if (sc_storage_names(l->storage, sim_job_dir(l->shared), &names, NULL) == 0)
    for (uint32_t i = 0; i < names.n; i++)
      look_at_folder(l, scan, names.list[i]);
  sc_names_free(&names);
}

/* ---- the sinks' ---- */

static bool names_part(const sc_handle_t *h, const char *name) {
  sc_bytes_t items = {0}, item;
  uint32_t n = 0;
  bool found = false;
  if (h->kind != SC_HANDLE_LIST)
    return false;
  sc_lists_find(sc_buf_bytes(&h->inlined), "pending", &items, &n);
  sc_cursor_t c = sc_cursor(items);
  while (n-- && sc_cursor_value(&c, &item) > 0) {
    char *file = sc_value_field_str(item, "file");
    found |= file && strcmp(file, name) == 0;
    free(file);
  }
  return found;
}

static bool promised_by(const sc_job_scan_t *scan, const char *name) {
  for (uint32_t i = 0; i < scan->n; i++) {
    const sc_metadata_t *m = scan->list[i].state == SC_FOUND_VALID ? scan->list[i].metadata : NULL;
    for (uint32_t o = 0; m && o < m->n_operators; o++)
      for (uint32_t s = 0; s < m->operators[o].parallelism; s++)
        for (uint32_t h = 0; h < m->operators[o].subtasks[s].state.n_handles; h++)
          if (names_part(&m->operators[o].subtasks[s].state.handles[h], name))
            return true;
  }
  return false;
}

typedef struct look {
  const sim_left_t *left;
  const sc_job_scan_t *scan;
} look_t;

static int look_at_part(void *arg, const char *name) {
  const look_t *k = arg;
  const sim_left_t *l = k->left;
  bool pending = strstr(name, ".pending");
  bool current = strncmp(name + 1, sim_job_id(l->shared), strlen(SIM_JOB_ID)) == 0;
  int node;
  uint64_t id = 0;
  if (!pending && !strstr(name, ".inprogress"))
    return 0;
  /* A checkpoint that was given up stood when the job went back, and was deleted after that. */
  if (pending && l->shared->undeleted)
    return 0;
  const char *rest = name + 1 + strlen(SIM_JOB_ID);
  bool due = pending && sscanf(rest, ".sink%d.%" SCNu64, &node, &id) == 2 &&
             l->is_due(l->arg, !current && l->shared->moved_from, id);
  /* What is another job's, nobody but that one sweeps. */
  bool other = pending && (!k->scan || promised_by(k->scan, name));
  if (due || (current && !other))
    sim_wrong(l->shared, "%s is left behind", name);
  return 0;
}

void sim_left_in_sinks(const sim_left_t *l, const sc_job_scan_t *scan) {
  l->storage->ops->list(l->storage, SIM_OUT, look_at_part, &(look_t){l, scan}, NULL);
}
