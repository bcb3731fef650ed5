/*
 * sim_storage: files in memory that behave as badly as files may: slow, failing, torn, and
 * forgetful of what was not synced.
 *
 * Every operation counts, takes virtual time (sc_sim_io: other fibers go on meanwhile), and can be
 * told to fail or to be the one at which the process dies. What survives a death:
 *
 *   without loss of power  everything that was done (the kernel lives on)
 *   with it                of a file's bytes the synced ones, and a random part of the others,
 *                          possibly as zeros; of a folder's names those of its last sync_dir, and
 *                          a random beginning of the changes since
 *
 * A write that fails leaves a random part of its bytes. After a failed sync the bytes may be gone
 * for good though a later sync succeeds, as on Linux. Renames stay in one folder (asserted: nothing
 * here needs more).
 *
 * Files of another storage can be shown (sc_sim_storage_show): they are read there, as slowly and
 * with as many failures as all others, and never changed.
 *
 * Threads: one. Ownership: create/destroy (sc_storage_destroy); outlives worlds. Equal seeds and
 * equal calls give equal answers.
 */
#ifndef SC_SIM_SIM_STORAGE_H
#define SC_SIM_SIM_STORAGE_H

#include "../base/world.h"
#include "../snapshot/storage.h"

/* Kinds of operations, also as bits of a mask. */
typedef enum {
  SC_SIM_CREATE = 1,
  SC_SIM_WRITE = 2,
  SC_SIM_SYNC = 4,
  SC_SIM_RENAME = 8,
  SC_SIM_REMOVE = 16,
  SC_SIM_SYNC_DIR = 32,
  SC_SIM_MAKE_DIR = 64,
  SC_SIM_READ = 128 /* open, read, list, size, kind */
} sc_sim_op_kind_t;
#define SC_SIM_CHANGES 127 /* all that are not reads */
const char *sc_sim_op_name(sc_sim_op_kind_t kind);

typedef struct sc_sim_op {
  sc_sim_op_kind_t kind;
  const char *path, *to; /* to: RENAME. Borrowed for the call. */
  uint64_t number;       /* counted from 1 */
} sc_sim_op_t;

sc_storage_t *sc_sim_storage_create(uint64_t seed);
/* From now on operations take up to latency_ns of this world's time; NULL: none, and none fails,
 * counts, or is observed (whoever looks from outside the simulation). */
void sc_sim_storage_attach(sc_storage_t *s, sc_world_t *world, int64_t latency_ns);
/* The file at `path` of another storage, borrowed for as long as this one lives, is to be seen here
 * while this one has none of that path. */
void sc_sim_storage_show(sc_storage_t *s, const char *path, sc_storage_t *other);
/* One operation in 40 takes 50 times as long; of the mask, from now on, one in `one_in`. */
void sc_sim_storage_stall(sc_storage_t *s, uint32_t mask, uint32_t one_in);
/* `done` is called after each change that took effect, `failed` when a told failure is given. */
void sc_sim_storage_observe(sc_storage_t *s, void (*done)(void *arg, const sc_sim_op_t *op),
                            void (*failed)(void *arg, const sc_sim_op_t *op, int code), void *arg);
/* `times` operations of the mask, from the first one whose number is `from` or more, fail. */
void sc_sim_storage_fail(sc_storage_t *s, uint32_t mask, uint64_t from, uint32_t times, int code);
/* The process dies at the first operation of the mask whose number is `from` or more. */
void sc_sim_storage_crash_at(sc_storage_t *s, uint32_t mask, uint64_t from);
void sc_sim_storage_calm(sc_storage_t *s); /* forgets what stall, fail and crash_at said */
/* The process is dead: locks are free, what the loss takes is gone. */
void sc_sim_storage_crashed(sc_storage_t *s, bool power);
uint64_t sc_sim_storage_ops(const sc_storage_t *s); /* so far */
/* Would the whole file be there after a loss of power now? */
bool sc_sim_storage_safe(sc_storage_t *s, const char *path);

#endif
