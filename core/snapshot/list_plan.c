#include "list_plan.h"

#include <inttypes.h>
#include <stdlib.h>

#include "../base/mem.h"
#include "../data/value.h"

/* ---- list bytes ---- */

void sc_lists_begin(sc_buf_t *out, uint32_t n_lists) {
  sc_pack_map(out, n_lists);
}

void sc_lists_list(sc_buf_t *out, const char *name, int mode, uint32_t n_items) {
  sc_pack_cstr(out, name);
  sc_pack_array(out, 2);
  sc_pack_int(out, mode);
  sc_pack_array(out, n_items);
}

typedef struct part { /* one list as one old subtask reported it */
  sc_bytes_t name;
  int mode;
  uint32_t subtask;
  size_t order;       /* in which it was found; keeps the sort stable */
  sc_bytes_t items;   /* n values, one after the other */
  uint32_t n;
} part_t;

/* Take one list from a cursor inside the map. */
static bool take_list(sc_cursor_t *c, part_t *part) {
  sc_token_t token;
  if (sc_cursor_next(c, &token) != 1 || token.type != SC_STR)
    return false;
  part->name = token.s;
  if (sc_cursor_next(c, &token) != 1 || token.type != SC_ARRAY || token.n != 2 ||
      sc_cursor_next(c, &token) != 1 || token.type != SC_INT || token.i < SC_LIST_SPLIT ||
      token.i > SC_LIST_BROADCAST)
    return false;
  part->mode = (int)token.i;
  if (sc_cursor_next(c, &token) != 1 || token.type != SC_ARRAY)
    return false;
  part->n = token.n;
  const uint8_t *begin = c->at;
  for (uint32_t i = 0; i < part->n; i++)
    if (sc_cursor_skip(c) != 1)
      return false;
  part->items = sc_bytes(begin, (size_t)(c->at - begin));
  return true;
}

/* Number of lists, or -1 where the bytes are not a map; *c stands at the first one. */
static int64_t open_lists(sc_bytes_t lists, sc_cursor_t *c) {
  sc_token_t token;
  if (lists.len == 0)
    return 0;
  *c = sc_cursor(lists);
  return sc_cursor_next(c, &token) == 1 && token.type == SC_MAP ? (int64_t)token.n : -1;
}

int sc_lists_find(sc_bytes_t lists, const char *name, sc_bytes_t *items, uint32_t *n) {
  sc_cursor_t c;
  int64_t count = open_lists(lists, &c);
  for (int64_t i = 0; i < count; i++) {
    part_t part;
    if (!take_list(&c, &part))
      return SC_ECORRUPT;
    if (sc_bytes_equal(part.name, sc_bytes_str(name))) {
      *items = part.items;
      *n = part.n;
      return 1;
    }
  }
  return count < 0 ? SC_ECORRUPT : 0;
}

int sc_lists_each(sc_bytes_t lists, const char *name,
                  int (*each)(void *arg, sc_bytes_t item, sc_error_t *err), void *arg,
                  const char *who, sc_error_t *err) {
  sc_bytes_t items = {0}, item;
  uint32_t n = 0;
  int rc = sc_lists_find(lists, name, &items, &n);
  if (rc < 0)
    return sc_fail(err, rc, "the list state '%s' of %s is damaged", name, who);
  sc_cursor_t c = sc_cursor(items);
  for (rc = 0; rc >= 0 && sc_cursor_value(&c, &item) > 0;)
    rc = each(arg, item, err);
  return rc < 0 ? rc : 0;
}

/* ---- planning ---- */

typedef struct parts {
  part_t *list; /* n of them: sorted by name, then old subtask */
  size_t n;
} parts_t;

typedef struct target { /* what a new subtask gets */
  sc_buf_t lists;   /* without the map's head */
  uint32_t n_lists;
} target_t;

static int add_handle(parts_t *parts, const sc_metadata_operator_t *old, uint32_t subtask,
                      const sc_handle_t *h, sc_error_t *err) {
  sc_cursor_t c;
  int64_t n = open_lists(sc_buf_bytes(&h->inlined), &c);
  int64_t i = 0;
  for (; i < n; i++) {
    part_t part = {.subtask = subtask, .order = parts->n};
    if (!take_list(&c, &part))
      break;
    parts->list = sc_realloc(parts->list, (parts->n + 1) * sizeof *parts->list);
    parts->list[parts->n++] = part;
  }
  return i == n ? 0 : sc_fail(err, SC_ECORRUPT, "the list states of operator %s, subtask %" PRIu32
                              ", are damaged", old->uid, subtask);
}

static int by_name_and_subtask(const void *a, const void *b) {
  const part_t *x = a, *y = b;
  int order = sc_bytes_compare(x->name, y->name);
  if (order == 0)
    order = x->subtask < y->subtask ? -1 : x->subtask > y->subtask;
  return order ? order : x->order < y->order ? -1 : x->order > y->order;
}

static int collect(const sc_metadata_operator_t *old, parts_t *parts, sc_error_t *err) {
  for (uint32_t i = 0; i < old->parallelism; i++) {
    const sc_operator_snapshot_t *state = &old->subtasks[i].state;
    for (uint32_t k = 0; k < state->n_handles; k++) {
      int rc = state->handles[k].kind == SC_HANDLE_LIST
                 ? add_handle(parts, old, i, &state->handles[k], err) : 0;
      if (rc < 0)
        return rc;
    }
  }
  if (parts->n)
    qsort(parts->list, parts->n, sizeof *parts->list, by_name_and_subtask);
  return 0;
}

static void begin_list(target_t *to, const part_t *like, uint32_t n_items) {
  sc_pack_str(&to->lists, like->name);
  sc_pack_array(&to->lists, 2);
  sc_pack_int(&to->lists, like->mode);
  sc_pack_array(&to->lists, n_items);
  to->n_lists++;
}

/* Everything that `parts` hold, in order. */
static void give_all(target_t *to, const part_t *parts, size_t n) {
  uint64_t total = 0;
  for (size_t i = 0; i < n; i++)
    total += parts[i].n;
  if (total == 0)
    return;
  begin_list(to, parts, (uint32_t)total);
  for (size_t i = 0; i < n; i++)
    sc_buf_put_bytes(&to->lists, parts[i].items);
}

static void plan_own(const part_t *parts, size_t n, target_t *targets) {
  for (size_t i = 0; i < n;) {
    size_t end = i;
    while (end < n && parts[end].subtask == parts[i].subtask)
      end++;
    give_all(&targets[parts[i].subtask], parts + i, end - i);
    i = end;
  }
}

/* Cut the concatenation contiguously; returns where the next list begins to deal. */
static uint32_t plan_split(const part_t *parts, size_t n, target_t *targets, uint32_t parallelism,
                           uint32_t start) {
  sc_buf_t all = SC_BUF_INIT;
  uint64_t total = 0;
  for (size_t i = 0; i < n; i++) {
    sc_buf_put_bytes(&all, parts[i].items);
    total += parts[i].n;
  }
  uint32_t base = (uint32_t)(total / parallelism), more = (uint32_t)(total % parallelism);
  sc_cursor_t c = sc_cursor(sc_buf_bytes(&all));
  for (uint32_t i = 0; i < parallelism; i++) {
    target_t *to = &targets[(start + i) % parallelism];
    uint32_t count = base + (i < more);
    if (count == 0)
      continue;
    begin_list(to, parts, count);
    const uint8_t *begin = c.at;
    for (uint32_t k = 0; k < count; k++)
      sc_cursor_skip(&c);
    sc_buf_put(&to->lists, begin, (size_t)(c.at - begin));
  }
  sc_buf_free(&all);
  return (start + more) % parallelism;
}

static void plan_broadcast(const part_t *parts, size_t n, target_t *targets, uint32_t parallelism) {
  const part_t **reporting = sc_calloc(n, sizeof(part_t *));
  size_t count = 0;
  for (size_t i = 0; i < n; i++)
    if (parts[i].n)
      reporting[count++] = &parts[i];
  for (uint32_t i = 0; count && i < parallelism; i++)
    give_all(&targets[i], reporting[i % count], 1);
  free(reporting);
}

static int plan_names(const sc_metadata_operator_t *old, const parts_t *parts, target_t *targets,
                      uint32_t parallelism, sc_error_t *err) {
  uint32_t start = 0;
  for (size_t i = 0; i < parts->n;) {
    const part_t *first = &parts->list[i];
    size_t n = 0;
    for (; i + n < parts->n && sc_bytes_equal(first[n].name, first->name); n++)
      if (first[n].mode != first->mode)
        return sc_fail(err, SC_ECORRUPT, "list state %.*s of operator %s was snapshotted in two "
                       "modes, by subtasks %" PRIu32 " and %" PRIu32, (int)first->name.len,
                       (const char *)first->name.data, old->uid, first->subtask, first[n].subtask);
    if (first->mode == SC_LIST_BROADCAST)
      plan_broadcast(first, n, targets, parallelism);
    else if (first->mode == SC_LIST_UNION)
      for (uint32_t k = 0; k < parallelism; k++)
        give_all(&targets[k], first, n);
    else if (parallelism == old->parallelism)
      plan_own(first, n, targets);
    else
      start = plan_split(first, n, targets, parallelism, start);
    i += n;
  }
  return 0;
}

int sc__list_plan(const sc_metadata_operator_t *old, sc_restore_operator_t *plan, sc_error_t *err) {
  parts_t parts = {NULL, 0};
  target_t *targets = sc_calloc(plan->parallelism, sizeof *targets);
  int rc = collect(old, &parts, err);
  if (rc == 0)
    rc = plan_names(old, &parts, targets, plan->parallelism, err);
  for (uint32_t i = 0; i < plan->parallelism; i++) {
    if (rc == 0 && targets[i].n_lists) {
      sc_lists_begin(&plan->subtasks[i].lists, targets[i].n_lists);
      sc_buf_put_bytes(&plan->subtasks[i].lists, sc_buf_bytes(&targets[i].lists));
    }
    sc_buf_free(&targets[i].lists);
  }
  if (rc < 0)
    sc_error_set_operator(err, old->uid);
  free(targets);
  free(parts.list);
  return rc;
}
