#include "parts.h"

#include <string.h>

#include "../base/mem.h"
#include "../snapshot/redistribute.h"

typedef struct parts_list {
  char *name;
  int mode;       /* SC_LIST_SPLIT ... */
  uint32_t count; /* items in `items` */
  sc_buf_t items; /* msgpack values, one after another */
} parts_list_t;

typedef struct parts_work {
  int (*run)(void *arg, sc_error_t *err);
  void (*drop)(void *arg); /* may be NULL */
  void *arg;
} parts_work_t;

struct sc_snapshot_parts {
  parts_list_t *lists; /* in bytewise order of their names */
  uint32_t n_lists;
  parts_work_t *works; /* in the order in which they were added */
  uint32_t n_works;
  uint32_t next;       /* the first work that was neither run nor dropped */
};

sc_snapshot_parts_t *sc_parts_create(void) {
  return sc_calloc(1, sizeof(sc_snapshot_parts_t));
}

/* Drop what is left, so that every work is dropped once even where its predecessor failed. */
static void drop_rest(sc_snapshot_parts_t *parts) {
  while (parts->next < parts->n_works) {
    parts_work_t *work = &parts->works[parts->next++];
    if (work->drop)
      work->drop(work->arg);
  }
}

void sc_parts_destroy(sc_snapshot_parts_t *parts) {
  if (!parts)
    return;
  drop_rest(parts);
  for (uint32_t i = 0; i < parts->n_lists; i++) {
    free(parts->lists[i].name);
    sc_buf_free(&parts->lists[i].items);
  }
  free(parts->lists);
  free(parts->works);
  free(parts);
}

/* The list of that name, made where it is missing. There are a handful: no search tree. */
static parts_list_t *list_of(sc_snapshot_parts_t *parts, const char *name, int mode) {
  uint32_t at = 0;
  int order = -1;
  while (at < parts->n_lists && (order = strcmp(parts->lists[at].name, name)) < 0)
    at++;
  if (at < parts->n_lists && order == 0) {
    sc_assert(parts->lists[at].mode == mode);
    return &parts->lists[at];
  }
  parts->lists = sc_realloc(parts->lists, (parts->n_lists + 1) * sizeof *parts->lists);
  memmove(parts->lists + at + 1, parts->lists + at, (parts->n_lists - at) * sizeof *parts->lists);
  parts->n_lists++;
  parts->lists[at] = (parts_list_t){.name = sc_strdup(name), .mode = mode, .items = SC_BUF_INIT};
  return &parts->lists[at];
}

void sc_parts_list(sc_snapshot_parts_t *parts, const char *name, int mode, sc_bytes_t item) {
  parts_list_t *list = list_of(parts, name, mode);
  sc_buf_put_bytes(&list->items, item);
  list->count++;
}

void sc_parts_declare(sc_snapshot_parts_t *parts, const char *name, int mode) {
  list_of(parts, name, mode);
}

void sc_parts_async(sc_snapshot_parts_t *parts, int (*run)(void *arg, sc_error_t *err),
                    void (*drop)(void *arg), void *arg) {
  parts->works = sc_realloc(parts->works, (parts->n_works + 1) * sizeof *parts->works);
  parts->works[parts->n_works++] = (parts_work_t){run, drop, arg};
}

int sc_parts_run(sc_snapshot_parts_t *parts, sc_error_t *err) {
  int rc = 0;
  while (rc >= 0 && parts->next < parts->n_works) {
    parts_work_t work = parts->works[parts->next++];
    rc = work.run(work.arg, err);
    if (work.drop)
      work.drop(work.arg);
  }
  drop_rest(parts);
  return rc < 0 ? rc : 0;
}

bool sc_parts_encode(const sc_snapshot_parts_t *parts, sc_buf_t *out) {
  if (parts->n_lists == 0)
    return false;
  sc_lists_begin(out, parts->n_lists);
  for (uint32_t i = 0; i < parts->n_lists; i++) {
    const parts_list_t *list = &parts->lists[i];
    sc_lists_list(out, list->name, list->mode, list->count);
    sc_buf_put_bytes(out, sc_buf_bytes(&list->items));
  }
  return true;
}
