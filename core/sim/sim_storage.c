#include "sim_storage.h"

#include <stdlib.h>
#include <string.h>

#include "../base/mem.h"
#include "../base/random.h"
#include "sim_world.h"

#define SLOW_ONE_IN 40 /* operations: takes SLOW_TIMES as long */
#define SLOW_TIMES 50
#define FAULTS_MAX 32

typedef struct node node_t;

typedef struct names {
  struct {
    char *name;
    node_t *node;
  } * list; /* sorted by name */
  uint32_t n;
} names_t;

/* One change of a folder's names: `name` is now `node`, or gone (NULL). */
typedef struct change {
  char *name;
  node_t *node;
} change_t;

struct node {
  uint32_t refs; /* names, old names, changes, open files */
  bool is_dir;
  sc_buf_t data;     /* file */
  size_t synced;     /* file: bytes that are safe */
  bool spoiled;      /* file: a sync failed; later ones save nothing */
  names_t now, safe; /* folder: its names; those of its last sync */
  change_t *changes; /* folder: since then */
  uint32_t n_changes;
};

typedef struct fault {
  uint32_t mask, times;
  uint64_t from;
  int code;
} fault_t;

typedef struct lock {
  struct lock *next;
  char *path;
} lock_t;

typedef struct shown {
  struct shown *next;
  char *path;
  sc_storage_t *storage;
} shown_t;

typedef struct sim_storage {
  sc_storage_t base;
  sc_random_t random;
  sc_world_t *world; /* or NULL: seen from outside */
  int64_t latency_ns;
  uint32_t stall_mask, stall_one_in;
  node_t *root;
  uint64_t ops;
  fault_t faults[FAULTS_MAX];
  uint32_t n_faults;
  uint32_t crash_mask;
  uint64_t crash_from;
  lock_t *locks;
  shown_t *shown; /* files of other storages */
  void (*done)(void *arg, const sc_sim_op_t *op);
  void (*failed)(void *arg, const sc_sim_op_t *op, int code);
  void *arg;
} sim_storage_t;

struct sc_file {
  sim_storage_t *storage;
  node_t *node;
  sc_file_t *outside; /* opened in this storage, and node is NULL */
  sc_storage_t *outside_storage;
  char *path;
};

static sim_storage_t *storage_of(sc_storage_t *s) { return (sim_storage_t *)s; }

const char *sc_sim_op_name(sc_sim_op_kind_t kind) {
  static const char *const all[] = {"create", "write",    "sync",     "rename",
                                    "remove", "sync_dir", "make_dir", "read"};
  int i = 0;
  while (i < 7 && !(kind & (1u << i)))
    i++;
  return all[i];
}

/* ---- nodes and names ---- */

static node_t *node_new(bool is_dir) {
  node_t *n = sc_calloc(1, sizeof *n);
  n->is_dir = is_dir;
  return n;
}

static void unref(node_t *n);

static void names_clear(names_t *names) {
  for (uint32_t i = 0; i < names->n; i++) {
    free(names->list[i].name);
    unref(names->list[i].node);
  }
  free(names->list);
  *names = (names_t){0};
}

static void changes_clear(node_t *n) {
  for (uint32_t i = 0; i < n->n_changes; i++) {
    free(n->changes[i].name);
    unref(n->changes[i].node);
  }
  free(n->changes);
  n->changes = NULL;
  n->n_changes = 0;
}

static void unref(node_t *n) {
  if (!n || --n->refs > 0)
    return;
  names_clear(&n->now);
  names_clear(&n->safe);
  changes_clear(n);
  sc_buf_free(&n->data);
  free(n);
}

static node_t *ref(node_t *n) {
  if (n)
    n->refs++;
  return n;
}

static uint32_t find_place(const names_t *names, const char *name, bool *found) {
  uint32_t i = 0;
  int c = 1;
  while (i < names->n && (c = strcmp(names->list[i].name, name)) < 0)
    i++;
  *found = i < names->n && c == 0;
  return i;
}

static node_t *names_get(const names_t *names, const char *name) {
  bool found;
  uint32_t i = find_place(names, name, &found);
  return found ? names->list[i].node : NULL;
}

/* NULL removes the name. */
static void names_set(names_t *names, const char *name, node_t *node) {
  bool found;
  uint32_t i = find_place(names, name, &found);
  ref(node);
  if (found && node) {
    unref(names->list[i].node);
    names->list[i].node = node;
  } else if (found) {
    free(names->list[i].name);
    unref(names->list[i].node);
    names->n--;
    memmove(&names->list[i], &names->list[i + 1], (names->n - i) * sizeof *names->list);
  } else if (node) {
    names->list = sc_realloc(names->list, (names->n + 1) * sizeof *names->list);
    memmove(&names->list[i + 1], &names->list[i], (names->n - i) * sizeof *names->list);
    names->list[i].name = sc_strdup(name);
    names->list[i].node = node;
    names->n++;
  }
}

static void names_copy(names_t *to, const names_t *from) {
  names_clear(to);
  for (uint32_t i = 0; i < from->n; i++)
    names_set(to, from->list[i].name, from->list[i].node);
}

static void change(node_t *dir, const char *name, node_t *node) {
  names_set(&dir->now, name, node);
  dir->changes = sc_realloc(dir->changes, (dir->n_changes + 1) * sizeof *dir->changes);
  dir->changes[dir->n_changes++] = (change_t){sc_strdup(name), ref(node)};
}

/* ---- paths ---- */

/* The node of a path, in the names of now or the safe ones; NULL where it is not. */
static node_t *look_up(sim_storage_t *s, const char *path, bool safe) {
  char *copy = sc_strdup(path), *rest = copy;
  node_t *n = s->root, *trail[64];
  int depth = 0;
  for (char *part; n && (part = strsep(&rest, "/")) != NULL;) {
    if (!*part || strcmp(part, ".") == 0)
      continue;
    if (strcmp(part, "..") == 0) {
      n = depth ? trail[--depth] : s->root;
      continue;
    }
    sc_assert(depth < 64);
    trail[depth++] = n;
    n = n->is_dir ? names_get(safe ? &n->safe : &n->now, part) : NULL;
  }
  free(copy);
  return n;
}

/* The storage that shows this path; NULL where none does. */
static sc_storage_t *who_shows(const sim_storage_t *s, const char *path) {
  const shown_t *x = s->shown;
  while (x && strcmp(x->path, path))
    x = x->next;
  return x ? x->storage : NULL;
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static node_t *folder_of(sim_storage_t *s, const char *path) {
  char *parent = sc_path_parent(path);
  node_t *n = look_up(s, parent, false);
  free(parent);
  return n && n->is_dir ? n : NULL;
}

/* ---- what an operation goes through ---- */

static int fail(sc_error_t *err, int code, const char *verb, const char *path, const char *why) {
  sc_fail(err, code, "cannot %s %s: %s", verb, path, why);
  sc_error_set_file(err, path);
  return code;
}

static int not_found(sc_error_t *err, const char *verb, const char *path) {
  return fail(err, SC_ENOTFOUND, verb, path, "no such file or folder");
}

static bool dead(const sim_storage_t *s) { return s->world && sc_sim_crashed(s->world); }

static int told_failure(sim_storage_t *s, const sc_sim_op_t *op) {
  for (uint32_t i = 0; i < s->n_faults; i++) {
    fault_t *f = &s->faults[i];
    if (!f->times || !(f->mask & op->kind) || op->number < f->from)
      continue;
    f->times--;
    if (s->failed)
      s->failed(s->arg, op, f->code);
    return f->code;
  }
  return 0;
}

static int64_t latency(sim_storage_t *s, sc_sim_op_kind_t kind) {
  int64_t ns = (int64_t)sc_random_below(&s->random, (uint64_t)s->latency_ns + 1);
  uint32_t one_in = s->stall_mask & kind ? s->stall_one_in : SLOW_ONE_IN;
  return sc_random_below(&s->random, one_in) == 0 ? ns * SLOW_TIMES : ns;
}

/* Time passes; then the operation dies, fails (its code), or takes place (0). */
static int enter(sim_storage_t *s, sc_sim_op_t *op, sc_error_t *err) {
  if (!s->world)
    return 0;
  if (!dead(s))
    sc_sim_io(s->world, latency(s, op->kind));
  op->number = ++s->ops;
  if (!dead(s) && (s->crash_mask & op->kind) && op->number >= s->crash_from) {
    s->crash_mask = 0;
    sc_sim_crash(s->world);
  }
  const char *verb = sc_sim_op_name(op->kind);
  if (dead(s))
    return fail(err, SC_EIO, verb, op->path, "the process is dead");
  int code = told_failure(s, op);
  return code ? fail(err, code, verb, op->path, "injected") : 0;
}

static void tell(sim_storage_t *s, const sc_sim_op_t *op) {
  if (s->world && s->done)
    s->done(s->arg, op);
}

/* ---- folders ---- */

static void sync_names(node_t *dir) {
  names_copy(&dir->safe, &dir->now);
  changes_clear(dir);
}

static int make_one(sim_storage_t *s, const char *path, sc_error_t *err) {
  sc_sim_op_t op = {.kind = SC_SIM_MAKE_DIR, .path = path};
  int rc = enter(s, &op, err);
  if (rc < 0)
    return rc;
  node_t *parent = folder_of(s, path),
         *there = parent ? names_get(&parent->now, base_name(path)) : NULL;
  if (!parent)
    return not_found(err, "make folder", path);
  if (there)
    return there->is_dir ? 0 : fail(err, SC_EEXIST, "make folder", path, "there is a file");
  change(parent, base_name(path), node_new(true));
  tell(s, &op);
  char *dir = sc_path_parent(path);
  rc = s->base.ops->sync_dir(&s->base, dir, err);
  free(dir);
  return rc;
}

static int make_dir(sc_storage_t *base, const char *path, sc_error_t *err) {
  sim_storage_t *s = storage_of(base);
  int rc = 0;
  char *part = sc_strdup(path);
  for (size_t i = 1, n = strlen(path); rc == 0 && i <= n; i++) {
    if (path[i] != '/' && path[i])
      continue;
    part[i] = 0;
    node_t *there = look_up(s, part, false);
    if (!there || !there->is_dir)
      rc = make_one(s, part, err);
    part[i] = path[i];
  }
  free(part);
  return rc;
}

static int sync_dir(sc_storage_t *base, const char *path, sc_error_t *err) {
  sim_storage_t *s = storage_of(base);
  sc_sim_op_t op = {.kind = SC_SIM_SYNC_DIR, .path = path};
  int rc = enter(s, &op, err);
  node_t *n = rc < 0 ? NULL : look_up(s, path, false);
  if (rc < 0)
    return rc;
  if (!n || !n->is_dir)
    return not_found(err, "sync folder", path);
  sync_names(n);
  tell(s, &op);
  return 0;
}

/* Take a name away: of a file, or of an empty folder. Absent: 0. */
static int take_away(sc_storage_t *base, const char *path, bool folder, sc_error_t *err) {
  sim_storage_t *s = storage_of(base);
  sc_sim_op_t op = {.kind = SC_SIM_REMOVE, .path = path};
  int rc = enter(s, &op, err);
  if (rc < 0)
    return rc;
  node_t *dir = folder_of(s, path), *n = dir ? names_get(&dir->now, base_name(path)) : NULL;
  if (!n)
    return 0;
  if (n->is_dir != folder)
    return fail(err, SC_EIO, "remove", path, folder ? "not a folder" : "a folder");
  if (n->now.n)
    return fail(err, SC_EIO, "remove folder", path, "folder not empty");
  change(dir, base_name(path), NULL);
  tell(s, &op);
  return 0;
}

static int remove_file(sc_storage_t *s, const char *path, sc_error_t *err) {
  return take_away(s, path, false, err);
}

static int remove_dir(sc_storage_t *s, const char *path, sc_error_t *err) {
  return take_away(s, path, true, err);
}

static int rename_file(sc_storage_t *base, const char *from, const char *to, sc_error_t *err) {
  sim_storage_t *s = storage_of(base);
  sc_sim_op_t op = {.kind = SC_SIM_RENAME, .path = from, .to = to};
  int rc = enter(s, &op, err);
  if (rc < 0)
    return rc;
  node_t *dir = folder_of(s, from), *n = dir ? names_get(&dir->now, base_name(from)) : NULL;
  if (!n)
    return not_found(err, "rename", from);
  sc_assert(folder_of(s, to) == dir);
  ref(n);
  change(dir, base_name(to), n);
  change(dir, base_name(from), NULL);
  unref(n);
  tell(s, &op);
  return 0;
}

static int kind(sc_storage_t *base, const char *path, sc_error_t *err) {
  sim_storage_t *s = storage_of(base);
  sc_sim_op_t op = {.kind = SC_SIM_READ, .path = path};
  int rc = enter(s, &op, err);
  node_t *n = rc < 0 ? NULL : look_up(s, path, false);
  sc_storage_t *other = n ? NULL : who_shows(s, path);
  if (rc == 0 && other)
    return other->ops->kind(other, path, err);
  return rc < 0 ? rc : !n ? 0 : n->is_dir ? 2 : 1;
}

static int list(sc_storage_t *base, const char *path, int (*each)(void *arg, const char *name),
                void *arg, sc_error_t *err) {
  sim_storage_t *s = storage_of(base);
  sc_sim_op_t op = {.kind = SC_SIM_READ, .path = path};
  int rc = enter(s, &op, err);
  node_t *n = rc < 0 ? NULL : look_up(s, path, false);
  if (rc < 0)
    return rc;
  if (!n || !n->is_dir)
    return not_found(err, "list", path);
  names_t copy = {0};
  names_copy(&copy, &n->now);
  for (uint32_t i = 0; rc == 0 && i < copy.n; i++)
    rc = each(arg, copy.list[i].name);
  names_clear(&copy);
  return rc;
}

/* ---- files ---- */

static sc_file_t *file_new(sim_storage_t *s, node_t *node, const char *path) {
  sc_file_t *f = sc_calloc(1, sizeof *f);
  *f = (sc_file_t){.storage = s, .node = ref(node), .path = sc_strdup(path)};
  return f;
}

static int create(sc_storage_t *base, const char *path, sc_file_t **out, sc_error_t *err) {
  sim_storage_t *s = storage_of(base);
  sc_sim_op_t op = {.kind = SC_SIM_CREATE, .path = path};
  int rc = enter(s, &op, err);
  if (rc < 0)
    return rc;
  node_t *dir = folder_of(s, path);
  if (!dir)
    return not_found(err, "create", path);
  node_t *n = node_new(false);
  change(dir, base_name(path), n);
  *out = file_new(s, n, path);
  tell(s, &op);
  return 0;
}

static int open_outside(sim_storage_t *s, sc_storage_t *other, const char *path, sc_file_t **out,
                        sc_error_t *err) {
  sc_file_t *outside;
  int rc = other->ops->open(other, path, &outside, err);
  if (rc < 0)
    return rc;
  *out = file_new(s, NULL, path);
  (*out)->outside = outside;
  (*out)->outside_storage = other;
  return 0;
}

static int open_file(sc_storage_t *base, const char *path, sc_file_t **out, sc_error_t *err) {
  sim_storage_t *s = storage_of(base);
  sc_sim_op_t op = {.kind = SC_SIM_READ, .path = path};
  int rc = enter(s, &op, err);
  node_t *n = rc < 0 ? NULL : look_up(s, path, false);
  if (rc < 0)
    return rc;
  sc_storage_t *other = n ? NULL : who_shows(s, path);
  if (other)
    return open_outside(s, other, path, out, err);
  if (!n || n->is_dir)
    return not_found(err, "open", path);
  *out = file_new(s, n, path);
  return 0;
}

static int write_file(sc_file_t *f, const void *data, size_t len, sc_error_t *err) {
  sim_storage_t *s = f->storage;
  sc_sim_op_t op = {.kind = SC_SIM_WRITE, .path = f->path};
  int rc = enter(s, &op, err);
  size_t n = rc < 0 && !dead(s) ? sc_random_below(&s->random, len + 1) : rc < 0 ? 0 : len;
  sc_buf_put(&f->node->data, data, n);
  if (rc == 0)
    tell(s, &op);
  return rc;
}

static int64_t read_file(sc_file_t *f, uint64_t offset, void *data, size_t len, sc_error_t *err) {
  sc_sim_op_t op = {.kind = SC_SIM_READ, .path = f->path};
  int rc = enter(f->storage, &op, err);
  if (rc < 0)
    return rc;
  if (f->outside)
    return f->outside_storage->ops->read(f->outside, offset, data, len, err);
  const sc_buf_t *all = &f->node->data;
  if (offset >= all->len)
    return 0;
  size_t n = all->len - offset < len ? all->len - offset : len;
  memcpy(data, all->data + offset, n);
  return (int64_t)n;
}

static int64_t size_of(sc_file_t *f, sc_error_t *err) {
  sc_sim_op_t op = {.kind = SC_SIM_READ, .path = f->path};
  int rc = enter(f->storage, &op, err);
  if (rc == 0 && f->outside)
    return f->outside_storage->ops->size(f->outside, err);
  return rc < 0 ? rc : (int64_t)f->node->data.len;
}

static int sync_file(sc_file_t *f, sc_error_t *err) {
  sc_sim_op_t op = {.kind = SC_SIM_SYNC, .path = f->path};
  int rc = enter(f->storage, &op, err);
  f->node->spoiled |= rc < 0;
  if (rc == 0 && !f->node->spoiled)
    f->node->synced = f->node->data.len;
  if (rc == 0)
    tell(f->storage, &op);
  return rc;
}

static void close_file(sc_file_t *f) {
  if (!f)
    return;
  if (f->outside)
    f->outside_storage->ops->close(f->outside);
  unref(f->node);
  free(f->path);
  free(f);
}

/* ---- locks ---- */

static int lock(sc_storage_t *base, const char *path, void **out, sc_error_t *err) {
  sim_storage_t *s = storage_of(base);
  for (lock_t *l = s->locks; l; l = l->next)
    if (strcmp(l->path, path) == 0) {
      sc_fail(err, SC_ELOCKED, "%s is in use by process 1", path);
      sc_error_set_file(err, path);
      return SC_ELOCKED;
    }
  node_t *dir = folder_of(s, path);
  if (!dir)
    return not_found(err, "lock", path);
  if (!names_get(&dir->now, base_name(path)))
    change(dir, base_name(path), node_new(false));
  lock_t *l = sc_calloc(1, sizeof *l);
  l->path = sc_strdup(path);
  l->next = s->locks;
  s->locks = l;
  *out = l;
  return 0;
}

static void unlock(sc_storage_t *base, void *held) {
  lock_t **at = &storage_of(base)->locks, *l = held;
  while (*at && *at != l)
    at = &(*at)->next;
  if (!*at)
    return;
  *at = l->next;
  free(l->path);
  free(l);
}

/* ---- death ---- */

/* Of the bytes that were not synced some are there, perhaps as zeros. */
static void lose_bytes(sim_storage_t *s, node_t *n) {
  size_t more = n->data.len - n->synced;
  if (!more)
    return;
  size_t kept = sc_random_below(&s->random, more + 1);
  n->data.len = n->synced + kept;
  if (kept && sc_random_below(&s->random, 2))
    memset(n->data.data + n->synced, 0, kept);
  n->synced = n->data.len;
}

static void lose(sim_storage_t *s, node_t *n) {
  if (!n->is_dir) {
    lose_bytes(s, n);
    return;
  }
  uint32_t kept = (uint32_t)sc_random_below(&s->random, n->n_changes + 1);
  /* A rename is two changes, first the new name, then the old one's going: never between. */
  if (kept && kept < n->n_changes && !n->changes[kept].node && n->changes[kept - 1].node)
    kept--;
  for (uint32_t i = 0; i < kept; i++)
    names_set(&n->safe, n->changes[i].name, n->changes[i].node);
  names_copy(&n->now, &n->safe);
  changes_clear(n);
  for (uint32_t i = 0; i < n->now.n; i++)
    lose(s, n->now.list[i].node);
}

void sc_sim_storage_crashed(sc_storage_t *base, bool power) {
  sim_storage_t *s = storage_of(base);
  while (s->locks)
    unlock(base, s->locks);
  if (power)
    lose(s, s->root);
}

/* ---- the simulation's face ---- */

void sc_sim_storage_attach(sc_storage_t *s, sc_world_t *world, int64_t latency_ns) {
  storage_of(s)->world = world;
  storage_of(s)->latency_ns = latency_ns;
}

void sc_sim_storage_stall(sc_storage_t *s, uint32_t mask, uint32_t one_in) {
  storage_of(s)->stall_mask = mask;
  storage_of(s)->stall_one_in = one_in;
}

void sc_sim_storage_observe(sc_storage_t *s, void (*done)(void *arg, const sc_sim_op_t *op),
                            void (*failed)(void *arg, const sc_sim_op_t *op, int code), void *arg) {
  storage_of(s)->done = done;
  storage_of(s)->failed = failed;
  storage_of(s)->arg = arg;
}

void sc_sim_storage_fail(sc_storage_t *base, uint32_t mask, uint64_t from, uint32_t times,
                         int code) {
  sim_storage_t *s = storage_of(base);
  sc_assert(s->n_faults < FAULTS_MAX);
  s->faults[s->n_faults++] = (fault_t){mask, times, from, code};
}

void sc_sim_storage_crash_at(sc_storage_t *s, uint32_t mask, uint64_t from) {
  storage_of(s)->crash_mask = mask;
  storage_of(s)->crash_from = from;
}

void sc_sim_storage_calm(sc_storage_t *s) {
  storage_of(s)->n_faults = 0;
  storage_of(s)->crash_mask = 0;
  storage_of(s)->stall_mask = 0;
}

void sc_sim_storage_show(sc_storage_t *base, const char *path, sc_storage_t *other) {
  sim_storage_t *s = storage_of(base);
  shown_t *x = sc_malloc(sizeof *x);
  *x = (shown_t){s->shown, sc_strdup(path), other};
  s->shown = x;
}

uint64_t sc_sim_storage_ops(const sc_storage_t *s) { return ((const sim_storage_t *)s)->ops; }

bool sc_sim_storage_safe(sc_storage_t *s, const char *path) {
  node_t *n = look_up(storage_of(s), path, true);
  return n && (n->is_dir || n->synced == n->data.len);
}

static void destroy(sc_storage_t *base) {
  sim_storage_t *s = storage_of(base);
  while (s->locks)
    unlock(base, s->locks);
  while (s->shown) {
    shown_t *x = s->shown;
    s->shown = x->next;
    free(x->path);
    free(x);
  }
  unref(s->root);
  free(s);
}

static const sc_storage_ops_t ops = {
    .make_dir = make_dir,
    .create = create,
    .open = open_file,
    .write = write_file,
    .read = read_file,
    .size = size_of,
    .sync = sync_file,
    .close = close_file,
    .rename = rename_file,
    .remove = remove_file,
    .remove_dir = remove_dir,
    .sync_dir = sync_dir,
    .kind = kind,
    .list = list,
    .lock = lock,
    .unlock = unlock,
    .destroy = destroy,
};

sc_storage_t *sc_sim_storage_create(uint64_t seed) {
  sim_storage_t *s = sc_calloc(1, sizeof *s);
  s->base.ops = &ops;
  sc_random_init(&s->random, seed);
  s->root = ref(node_new(true));
  return &s->base;
}
