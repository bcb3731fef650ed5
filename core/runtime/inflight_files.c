#include "inflight_files.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../base/mem.h"
#include "../base/world.h"
#include "../snapshot/inflight_file.h"
#include "../snapshot/timed_storage.h"

static void run_work(sc_work_t *work);

typedef enum { NOTHING, BEGUN, THROUGH } progress_t;

/* The file of one group for one checkpoint. */
typedef struct entry {
  sc_work_t work;             /* to go on in the pool */
  struct entry *next;
  sc_inflight_files_t *files;
  uint32_t group;
  uint64_t checkpoint;
  char *name;                 /* in the checkpoint's folder */
  sc_inflight_writer_t *writer; /* from the first block on; whoever has `busy` uses it */
  sc_timed_storage_t storage; /* the writer's */
  bool busy;                  /* a thread works on it, or was asked to: others leave it alone */
  bool dead, killed;          /* the checkpoint was aborted; and nothing of its file is left */
  bool over;                  /* published, or failed: `error` */
  uint64_t length, checksum;  /* of the file, when it is written */
  uint32_t last;              /* member that came through last, ... */
  int64_t last_ns;            /* ... and when */
  sc_error_t error;
  sc_inflight_share_t *queue, **queue_tail; /* to be written */
  sc_inflight_share_t *waiting; /* written: they wait for the others */
  uint8_t progress[];         /* progress_t, per_file members */
} entry_t;

struct sc_inflight_files {
  sc_inflight_files_config_t config;
  pthread_mutex_t lock;       /* guards all below, and the entries but for `writer` */
  entry_t *entries;
  bool closed;
  bool *left;                 /* members, n_members */
  uint32_t n_members;
};

sc_inflight_files_t *sc_inflight_files_create(const sc_inflight_files_config_t *config) {
  sc_assert(config->per_file > 0);
  sc_inflight_files_t *f = sc_calloc(1, sizeof *f);
  f->config = *config;
  pthread_mutex_init(&f->lock, NULL);
  return f;
}

void sc_inflight_files_destroy(sc_inflight_files_t *f) {
  if (!f)
    return;
  sc_inflight_files_close(f);
  sc_assert(!f->entries);
  pthread_mutex_destroy(&f->lock);
  free(f->left);
  free(f);
}

uint32_t sc_inflight_files_join(sc_inflight_files_t *f) {
  f->left = sc_realloc(f->left, (f->n_members + 1) * sizeof *f->left);
  f->left[f->n_members] = false;
  return f->n_members++;
}

/* ---- entries; all under the lock ---- */

static entry_t **find(sc_inflight_files_t *f, uint32_t member, uint64_t checkpoint) {
  uint32_t group = member / f->config.per_file;
  entry_t **at = &f->entries;
  while (*at && ((*at)->checkpoint != checkpoint || (*at)->group != group))
    at = &(*at)->next;
  return at;
}

static uint8_t *progress_of(entry_t *e, uint32_t member) {
  return &e->progress[member % e->files->config.per_file];
}

static void come_through(entry_t *e, uint32_t member) {
  *progress_of(e, member) = THROUGH;
  e->last = member;
  e->last_ns = sc_world_mono_ns(e->files->config.world);
}

static entry_t *new_entry(sc_inflight_files_t *f, uint32_t member, uint64_t checkpoint) {
  entry_t *e = sc_calloc(1, sizeof *e + f->config.per_file);
  e->files = f;
  e->group = member / f->config.per_file;
  e->checkpoint = checkpoint;
  e->name = sc_format("r%u-g%u-a%" PRIu64 ".inflight", f->config.region, e->group,
                      f->config.attempt);
  e->work.run = run_work;
  sc_timed_storage_init(&e->storage, f->config.storage, f->config.world);
  e->queue_tail = &e->queue;
  e->next = f->entries;
  f->entries = e;
  return e;
}

static void free_entry(entry_t *e) {
  entry_t **at = &e->files->entries;
  while (*at != e)
    at = &(*at)->next;
  *at = e->next;
  sc_error_clear(&e->error);
  free(e->name);
  free(e);
}

/* Is nothing more to be expected from its members? Of a dead one, from those that have begun; the
 * others hear of the abort before they would. */
static bool through(const entry_t *e) {
  const sc_inflight_files_t *f = e->files;
  uint32_t first = e->group * f->config.per_file;
  for (uint32_t i = 0; i < f->config.per_file && first + i < f->n_members; i++)
    if (e->progress[i] == BEGUN || (e->progress[i] == NOTHING && !f->left[first + i] && !e->dead))
      return false;
  return true;
}

/* ---- writing; without the lock, by the one thread that has made the entry busy ---- */

static bool has_records(const sc_inflight_share_t *share) {
  for (uint32_t i = 0; i < share->n_rests; i++)
    if (share->rests[i].copy_from)
      return true;
  return sc_inflight_bytes(&share->data) > 0;
}

static sc_handle_t *add_handle(sc_inflight_share_t *share) {
  share->handles = sc_realloc(share->handles, (share->n_handles + 1) * sizeof *share->handles);
  sc_handle_t *h = &share->handles[share->n_handles++];
  *h = (sc_handle_t){.kind = SC_HANDLE_INFLIGHT, .inlined = SC_BUF_INIT};
  return h;
}

static int put_buffers(sc_inflight_writer_t *w, const sc_inflight_part_t *p, sc_error_t *err) {
  for (uint32_t i = 0; i < p->n_buffers; i++) {
    const sc_buffer_t *b = p->buffers[i];
    uint32_t skip = i == 0 ? p->skip : 0;
    if (b->len == skip)
      continue;
    int rc = sc_inflight_writer_put(w, sc_bytes(b->data + skip, b->len - skip), err);
    if (rc < 0)
      return rc;
  }
  return 0;
}

/* `w` is NULL where the share has no records at all. */
static int write_part(const sc_inflight_files_config_t *c, sc_inflight_writer_t *w,
                      const char *name, sc_inflight_share_t *share, const sc_inflight_part_t *p,
                      sc_error_t *err) {
  const sc_edge_t *edge = &c->graph->edges[p->edge];
  const sc_node_t *to = &c->graph->nodes[edge->to];
  bool receiver = p->side == SC_INFLIGHT_RECEIVER;
  uint64_t begin = w ? sc_inflight_writer_offset(w) : 0;
  int rc = w ? put_buffers(w, p, err) : 0;
  uint64_t bytes = w ? sc_inflight_writer_offset(w) - begin : 0;
  share->bytes += bytes;
  share->written += bytes;
  int64_t watermark = receiver ? p->watermark : INT64_MIN;
  bool idle = receiver && p->idle;
  if (rc < 0 || (bytes == 0 && watermark == INT64_MIN && !idle)) /* else: as a channel begins */
    return rc;
  sc_handle_t *h = add_handle(share);
  h->file = bytes ? sc_strdup(name) : NULL;
  h->inflight = (sc_handle_inflight_t){
      .edge = p->edge, .sender = p->sender, .receiver = p->receiver, .origin = p->receiver,
      .generation = c->generation, .side = p->side, .tagged = edge->partitioner == SC_HASH,
      .idle = idle, .watermark = watermark, .offset = begin, .bytes = bytes};
  if (h->inflight.tagged)
    h->range = sc_key_range(to->max_parallelism, to->parallelism, p->receiver);
  return 0;
}

static int write_rest(sc_inflight_writer_t *w, const char *name, sc_inflight_share_t *share,
                      sc_inflight_rest_t *rest, sc_error_t *err) {
  sc_handle_t *h = add_handle(share);
  *h = rest->handle; /* its strings, too */
  rest->handle = (sc_handle_t){0};
  share->bytes += h->inflight.bytes - h->inflight.skip;
  if (!rest->copy_from)
    return 0;
  uint64_t begin = sc_inflight_writer_offset(w);
  int rc = sc_inflight_writer_copy(w, rest->copy_from, h, err);
  h->inflight.offset = begin;
  h->inflight.bytes = sc_inflight_writer_offset(w) - begin;
  h->inflight.skip = 0;
  share->written += h->inflight.bytes;
  free(h->file);
  free(h->directory);
  h->directory = NULL;
  h->file = sc_strdup(name);
  return rc;
}

static int write_share(const sc_inflight_files_config_t *c, sc_inflight_writer_t *w,
                       const char *name, sc_inflight_share_t *share, sc_error_t *err) {
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < share->n_rests; i++)
    rc = write_rest(w, name, share, &share->rests[i], err);
  for (uint32_t i = 0; rc == 0 && i < share->data.n_parts; i++)
    rc = write_part(c, w, name, share, &share->data.parts[i], err);
  sc_inflight_fini(&share->data);
  return rc;
}

static char *path_of(const entry_t *e) {
  return sc_format("%s/chk-%" PRIu64 "/%s", e->files->config.job_dir, e->checkpoint, e->name);
}

static int write_records(entry_t *e, sc_inflight_share_t *share, sc_error_t *err) {
  const sc_inflight_files_config_t *c = &e->files->config;
  if (!e->writer) {
    char *path = path_of(e);
    e->writer = sc_inflight_writer_create(&e->storage.base, path, e->checkpoint, c->attempt);
    free(path);
  }
  return write_share(c, e->writer, e->name, share, err);
}

/* ---- the way of an entry that is busy: under the lock, which file work gives up meanwhile ---- */

static void end_entry(entry_t *e, int rc, sc_error_t *err) {
  e->over = true;
  sc_error_clear(&e->error);
  if (rc < 0)
    sc_error_move(&e->error, err);
}

static void write_next(entry_t *e) {
  sc_inflight_share_t *share = e->queue;
  sc_error_t err = SC_ERROR_INIT;
  e->queue = share->next;
  if (!e->queue)
    e->queue_tail = &e->queue;
  pthread_mutex_unlock(&e->files->lock);
  int rc = write_records(e, share, &err);
  if (rc < 0) {
    sc_inflight_writer_abandon(e->writer);
    e->writer = NULL;
  }
  pthread_mutex_lock(&e->files->lock);
  share->next = e->waiting;
  e->waiting = share;
  if (rc < 0)
    end_entry(e, rc, &err);
}

static void publish(entry_t *e) {
  sc_error_t err = SC_ERROR_INIT;
  pthread_mutex_unlock(&e->files->lock);
  int rc = e->writer ? sc_inflight_writer_finish(e->writer, &e->length, &e->checksum, &err) : 0;
  e->writer = NULL;
  pthread_mutex_lock(&e->files->lock);
  end_entry(e, rc, &err);
}

/* Its checkpoint was aborted, perhaps while the file was being published: as if it had never been.
 * What cannot be removed is swept at the next start. */
static void kill_entry(entry_t *e) {
  sc_storage_t *s = e->files->config.storage;
  sc_error_t err = SC_ERROR_INIT;
  pthread_mutex_unlock(&e->files->lock);
  sc_inflight_writer_abandon(e->writer);
  e->writer = NULL;
  if (e->length) {
    char *path = path_of(e);
    s->ops->remove(s, path, NULL);
    free(path);
  }
  int rc = sc_fail(&err, SC_ESTALE, "checkpoint %" PRIu64 " was aborted", e->checkpoint);
  pthread_mutex_lock(&e->files->lock);
  e->killed = true;
  end_entry(e, rc, &err);
}

/* Shares that are done: those that were written, and of a failed entry those that never will be. */
static sc_inflight_share_t *take_done(entry_t *e) {
  if (!e->over)
    return NULL;
  sc_inflight_share_t *done = e->waiting;
  e->waiting = NULL;
  while (e->queue) {
    sc_inflight_share_t *s = e->queue;
    e->queue = s->next;
    s->next = done;
    done = s;
  }
  e->queue_tail = &e->queue;
  for (sc_inflight_share_t *s = done; s; s = s->next) {
    sc_error_copy(&s->error, &e->error);
    s->storage_ns = e->storage.spent_ns;
    s->waited_ns = s->member != e->last ? e->last_ns : 0;
    for (uint32_t i = 0; i < s->n_handles; i++)
      if (s->handles[i].file && !s->handles[i].directory) {
        s->handles[i].length = e->length;
        s->handles[i].checksum = e->checksum;
      }
  }
  return done;
}

/* Without the lock, and the last that is done for these: the attempt may be gone after it. */
static void tell(sc_inflight_share_t *done) {
  while (done) {
    sc_inflight_share_t *s = done;
    done = s->next;
    sc_error_t err = SC_ERROR_INIT;
    sc_inflight_fini(&s->data);
    sc_error_move(&err, &s->error);
    s->done(s, err.code, &err);
    sc_error_clear(&err);
  }
}

/* As far as it goes now. Gives up `busy`, and the entry, if nothing more can come of it. */
static sc_inflight_share_t *run_entry(entry_t *e) {
  for (;;) {
    if (e->dead && !e->killed)
      kill_entry(e);
    else if (!e->over && e->queue)
      write_next(e);
    else if (!e->over && through(e))
      publish(e);
    else
      break;
  }
  e->busy = false;
  sc_inflight_share_t *done = take_done(e);
  if (through(e))
    free_entry(e);
  return done;
}

static void run_work(sc_work_t *work) {
  entry_t *e = (entry_t *)work;
  sc_inflight_files_t *f = e->files;
  pthread_mutex_lock(&f->lock);
  sc_inflight_share_t *done = run_entry(e);
  pthread_mutex_unlock(&f->lock);
  tell(done);
}

/* Something has changed, on a thread that does no file work. */
static void look_at(entry_t *e) {
  if (e->busy)
    return; /* whoever works on it looks once more before it leaves */
  if (e->writer || e->waiting || e->queue) {
    if (e->dead || through(e)) {
      e->busy = true;
      sc_world_submit(e->files->config.world, &e->work);
    }
  } else if (through(e)) {
    free_entry(e);
  }
}

/* ---- members ---- */

void sc_inflight_files_begin(sc_inflight_files_t *f, uint32_t member, uint64_t checkpoint) {
  pthread_mutex_lock(&f->lock);
  entry_t *e = *find(f, member, checkpoint);
  if (!e && !f->closed && !f->left[member])
    e = new_entry(f, member, checkpoint);
  if (e && !f->left[member])
    *progress_of(e, member) = BEGUN;
  pthread_mutex_unlock(&f->lock);
}

void sc_inflight_files_add(sc_inflight_files_t *f, sc_inflight_share_t *share) {
  bool waits = has_records(share);
  if (!waits)
    write_share(&f->config, NULL, NULL, share, NULL);
  pthread_mutex_lock(&f->lock);
  sc_inflight_share_t *done = NULL;
  entry_t *e = *find(f, share->member, share->checkpoint);
  if (!e || *progress_of(e, share->member) != BEGUN || e->dead) {
    sc_fail(&share->error, SC_ESTALE, "checkpoint %" PRIu64 " was aborted", share->checkpoint);
    waits = false;
  }
  if (e && *progress_of(e, share->member) == BEGUN)
    come_through(e, share->member);
  share->next = NULL;
  if (waits) {
    *e->queue_tail = share;
    e->queue_tail = &share->next;
  }
  if (e && !e->busy) {
    e->busy = true;
    done = run_entry(e);
  }
  if (!waits) {
    share->next = done;
    done = share;
  }
  pthread_mutex_unlock(&f->lock);
  tell(done);
}

static void pass(entry_t *e, uint32_t member) {
  if (*progress_of(e, member) == BEGUN)
    come_through(e, member);
  look_at(e);
}

void sc_inflight_files_withdraw(sc_inflight_files_t *f, uint32_t member, uint64_t checkpoint) {
  pthread_mutex_lock(&f->lock);
  entry_t *e = *find(f, member, checkpoint);
  if (e)
    pass(e, member);
  pthread_mutex_unlock(&f->lock);
}

void sc_inflight_files_abort(sc_inflight_files_t *f, uint32_t member, uint64_t checkpoint) {
  pthread_mutex_lock(&f->lock);
  entry_t *e = *find(f, member, checkpoint);
  if (e) {
    e->dead = true;
    look_at(e);
  }
  pthread_mutex_unlock(&f->lock);
}

void sc_inflight_files_leave(sc_inflight_files_t *f, uint32_t member) {
  uint32_t group = member / f->config.per_file;
  pthread_mutex_lock(&f->lock);
  f->left[member] = true;
  for (entry_t *e = f->entries, *next; e; e = next) {
    next = e->next;
    if (e->group == group)
      pass(e, member);
  }
  pthread_mutex_unlock(&f->lock);
}

void sc_inflight_files_close(sc_inflight_files_t *f) {
  pthread_mutex_lock(&f->lock);
  f->closed = true;
  for (entry_t *e = f->entries, *next; e; e = next) {
    next = e->next;
    e->dead = true;
    for (uint32_t i = 0; i < f->config.per_file; i++)
      e->progress[i] = THROUGH;
    look_at(e);
  }
  pthread_mutex_unlock(&f->lock);
}

/* ---- shares ---- */

void sc_inflight_share_move(const sc_inflight_files_t *f, sc_inflight_share_t *share,
                            sc_task_snapshot_t *snap) {
  const sc_graph_t *g = f->config.graph;
  for (uint32_t i = 0; i < share->n_handles; i++) {
    sc_handle_t *h = &share->handles[i];
    const sc_edge_t *edge = &g->edges[h->inflight.edge];
    /* What is kept again, and comes first, is the receiver's whoever kept it first. */
    bool sender = h->inflight.side == SC_INFLIGHT_SENDER && i >= share->n_rests;
    uint32_t node = sender ? edge->from : edge->to;
    *sc_operator_snapshot_add(&snap->operators[g->nodes[node].position], h->kind) = *h;
  }
  free(share->handles);
  share->handles = NULL;
  share->n_handles = 0;
  snap->persisted_bytes += share->bytes;
}

void sc_inflight_share_fini(sc_inflight_share_t *share) {
  sc_inflight_fini(&share->data);
  for (uint32_t i = 0; i < share->n_rests; i++) {
    sc_handle_fini(&share->rests[i].handle);
    free(share->rests[i].copy_from);
  }
  for (uint32_t i = 0; i < share->n_handles; i++)
    sc_handle_fini(&share->handles[i]);
  free(share->rests);
  free(share->handles);
  sc_error_clear(&share->error);
  share->rests = NULL;
  share->handles = NULL;
  share->n_rests = share->n_handles = 0;
}
