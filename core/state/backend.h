/*
 * backend: keyed state, as an interface.
 *
 * The keyed state of one operator in one process lives in one *store*; each task of the operator
 * has a *window* on it, sc_keyed_t, over the key groups it owns, and touches no others. State is
 * addressed by (state, key group, key, namespace, map key). heap_backend.c is the first store; the
 * rocksdb one comes behind the same interface.
 *
 * Snapshots: freeze(n) is the synchronous part and ends an epoch, whatever the state's size
 * (DESIGN section 5). The snapshot is written later, by the pool, while the task goes on: the task
 * asks sc_keyed_ready for a snapshot that may be written now, hands it to the pool
 * (sc_keyed_snapshot_write), and tells of the end (sc_keyed_snapshot_done). In between it gives
 * the window time to fold (sc_keyed_step).
 *
 *   freeze(n) -> WAITING --ready--> WRITING --done--> gone     (abort: leaves at once from WAITING;
 *                                                              WRITING ends with the pool's work)
 *
 * Threads: a window belongs to its task's slot; sc_keyed_snapshot_write and sc_keyed_load run in
 * the pool (load before the task runs). Ownership: the window owns everything in it; bytes given in
 * are copied; bytes handed out live until the window's next call (and may be given to that call).
 * Destroy a window only when no snapshot of it is in the pool's hands; waiting ones go with it.
 * What sc_keyed_snapshot_write has still to read stands still: the task meanwhile reads it too, and
 * writes elsewhere. What it has read may change at once, so it is called once for each snapshot.
 * Failure: SC_ESTATE (a state declared with another kind), SC_ELIMIT; restore: SC_ECORRUPT ...
 */
#ifndef SC_STATE_BACKEND_H
#define SC_STATE_BACKEND_H

#include "../data/key.h"
#include "../data/record.h"
#include "../snapshot/keyed_file.h"
#include "../snapshot/redistribute.h"

typedef struct sc_state_descriptor {
  const char *name;      /* unique in the operator; copied */
  sc_state_kind_t kind;
} sc_state_descriptor_t;

typedef struct sc_address {
  int state;             /* from declare */
  uint16_t group;        /* key group, within the window's range */
  uint64_t key_hash;     /* sc_hash of the key where it is known; 0: computed when it is needed */
  sc_bytes_t key;        /* key bytes */
  sc_bytes_t name_space; /* empty for users' states */
} sc_address_t;

typedef struct sc_place {
  sc_bytes_t value;         /* as get gives it; empty where there is none */
  const sc_address_t *at;   /* as given, borrowed */
  uint32_t hash;            /* the backend's, as is the next */
  const void *found;        /* NULL: there is no value */
} sc_place_t;

typedef struct sc_keyed sc_keyed_t;
typedef struct sc_keyed_snapshot sc_keyed_snapshot_t; /* the backend's */
typedef struct sc_map_iterator sc_map_iterator_t;     /* the backend's */

typedef struct sc_keyed_ops {
  const char *name; /* "heap" */
  /* Index of a state; the same name and kind again gives the same index. A state that a restore
   * brought and nobody declared is kept and written again (reference 11.6). */
  int (*declare)(sc_keyed_t *k, const sc_state_descriptor_t *d, sc_error_t *err);
  /* These records come soon: a hint, called in their order and a few of them early, so that what is
   * held of their keys can be on its way from memory. Changes nothing. Records without a key are
   * passed over; key_hash is set in the others. */
  void (*expect)(sc_keyed_t *k, const sc_record_t *records, uint32_t n);
  /* Value-like states (VALUE, REDUCING, AGGREGATING, LIST as one value). 1 found, 0 not. */
  int (*get)(sc_keyed_t *k, const sc_address_t *at, sc_bytes_t *value, sc_error_t *err);
  int (*put)(sc_keyed_t *k, const sc_address_t *at, sc_bytes_t value, sc_error_t *err);
  /* A value that is read in order to be replaced is looked for once: find gives its place (1 found,
   * 0 not), and replace puts a value there, if it is the window's next call. */
  int (*find)(sc_keyed_t *k, const sc_address_t *at, sc_place_t *place, sc_error_t *err);
  int (*replace)(sc_keyed_t *k, const sc_place_t *place, sc_bytes_t value, sc_error_t *err);
  /* Removes the value, or all entries of a map. Absent: 0. */
  int (*clear)(sc_keyed_t *k, const sc_address_t *at, sc_error_t *err);
  /* Map states; map keys are key bytes, compared bytewise. */
  int (*map_get)(sc_keyed_t *k, const sc_address_t *at, sc_bytes_t map_key, sc_bytes_t *value,
                 sc_error_t *err);
  int (*map_put)(sc_keyed_t *k, const sc_address_t *at, sc_bytes_t map_key, sc_bytes_t value,
                 sc_error_t *err);
  int (*map_remove)(sc_keyed_t *k, const sc_address_t *at, sc_bytes_t map_key, sc_error_t *err);
  /* Entries in bytewise order of map keys, as the map was when the iterator was made: later writes
   * do not show. `from` (or NULL): begin at the first map key >= it. Never NULL. */
  sc_map_iterator_t *(*map_iterate)(sc_keyed_t *k, const sc_address_t *at, const sc_bytes_t *from);
  /* 1, or 0 at the end. */
  int (*map_next)(sc_map_iterator_t *it, sc_bytes_t *map_key, sc_bytes_t *value);
  void (*map_done)(sc_map_iterator_t *it);
  /* First entry with map key >= from (or of all), live; for timers. 1 or 0. */
  int (*map_first)(sc_keyed_t *k, const sc_address_t *at, const sc_bytes_t *from,
                   sc_bytes_t *map_key, sc_bytes_t *value);

  sc_keyed_snapshot_t *(*freeze)(sc_keyed_t *k, uint64_t checkpoint);
  /* The oldest that may be written now, once each; or NULL. */
  sc_keyed_snapshot_t *(*ready)(sc_keyed_t *k);
  /* Pool, once: write under DIR/file, fill handle (file name included). Nothing to write:
   * handle->length 0. */
  int (*snapshot_write)(sc_keyed_snapshot_t *snap, sc_storage_t *s, const char *dir,
                        const char *file, sc_handle_t *handle, sc_error_t *err);
  void (*snapshot_done)(sc_keyed_t *k, sc_keyed_snapshot_t *snap); /* frees it; folding begins */
  void (*abort)(sc_keyed_t *k, uint64_t checkpoint); /* WAITING: leaves at once and is freed */
  uint64_t (*snapshot_id)(const sc_keyed_snapshot_t *snap);
  /* Fold for at most `budget` entries; true while there is more that may be done now. Look at ready
   * after it: a snapshot that waited for the fold may be written then. */
  bool (*step)(sc_keyed_t *k, int budget);

  /* Pool, before the task runs: read the part of a handle that the plan gives this window. */
  int (*load)(sc_keyed_t *k, sc_storage_t *s, const char *dir, const sc_restore_keyed_t *part,
              sc_error_t *err);
  void (*usage)(sc_keyed_t *k, uint64_t *entries, uint64_t *bytes);
  void (*destroy)(sc_keyed_t *k);
} sc_keyed_ops_t;

struct sc_keyed {
  const sc_keyed_ops_t *ops;
  sc_key_range_t range;
};

/* Window on a heap store of `uid` (copied). Each task of an operator gets one over its own
 * range; on heap the store is no more than the windows together. Usage counts what is held:
 * values and map entries, those kept for a snapshot, and entries and tombstones of the overlay of
 * maps while there is one. */
sc_keyed_t *sc_heap_create(const char *uid, sc_key_range_t range);

/* Inline faces of the operations. */
static inline int sc_keyed_declare(sc_keyed_t *k, const sc_state_descriptor_t *d, sc_error_t *err) {
  return k->ops->declare(k, d, err);
}
static inline int sc_keyed_get(sc_keyed_t *k, const sc_address_t *at, sc_bytes_t *v,
                               sc_error_t *err) {
  return k->ops->get(k, at, v, err);
}
static inline int sc_keyed_put(sc_keyed_t *k, const sc_address_t *at, sc_bytes_t v,
                               sc_error_t *err) {
  return k->ops->put(k, at, v, err);
}
static inline int sc_keyed_find(sc_keyed_t *k, const sc_address_t *at, sc_place_t *place,
                                sc_error_t *err) {
  return k->ops->find(k, at, place, err);
}
static inline int sc_keyed_replace(sc_keyed_t *k, const sc_place_t *place, sc_bytes_t v,
                                   sc_error_t *err) {
  return k->ops->replace(k, place, v, err);
}
static inline int sc_keyed_clear(sc_keyed_t *k, const sc_address_t *at, sc_error_t *err) {
  return k->ops->clear(k, at, err);
}
static inline void sc_keyed_destroy(sc_keyed_t *k) { if (k) k->ops->destroy(k); }

#endif
