/*
 * heap: the inside of the heap backend, for its two rooms: heap_backend.c (states, reads, writes,
 * iterators) and heap_snapshot.c (cuts, folding, loading).
 *
 * The base (groups.h) holds values and maps. A cut (checkpoint) is taken of both by one count:
 *
 * Values are always in the base. A freeze ends an epoch; the cut is the cells that were born up to
 * it. A cell that some cut has still to read is kept aside when it is replaced or removed (cells.h)
 * on the list of the newest cut, and given back when no cut is left that saw it. DESIGN section 5
 * has them go to an overlay, to be folded back: with a million counters that cost two inserts and
 * two removals for each key touched while the snapshot was written, half of a task's time; this
 * costs the copy of a cell, nothing for groups that the pool is done with, and no fold.
 *
 * Maps are layered, newest first, and a cut is "the base and all deltas up to `newest`"; where
 * newest is NULL, the base:
 *
 *   deltas[n - 1]   active: takes the writes
 *   ...             frozen: each the end of one cut (or of one that was aborted)
 *   deltas[0]       the oldest; it is folded into the base next
 *   groups          the base
 *
 * (I1) While a cut is the base and the pool has still to read a key group for it, the maps of that
 *      group are locked: nothing writes to them, the pool may read them.
 * (I2) A locked base has a delta above it: freezing makes one.
 * (I3) At most one cut that has still to be read is the base, and it is the oldest of those: each
 *      freeze ends a delta of its own, and a delta leaves only while no group is locked.
 * (I4) Where the active delta is the only one and the group is not locked, it takes no new entries:
 *      a write brings its key home, out of the delta, and goes to the base.
 * (I5) A live iterator's layers do not change: what would change them first lets it copy the rest.
 * (I6) A cell born in epoch b that left in epoch d is seen by the cuts from b to d - 1. It is on
 *      the list of the newest of them that is left to be read, or, where none is, in `garbage`; and
 *      the pool reads no cut while there is garbage, which newer cuts would see.
 *
 * What the pool touches while it writes snapshot n: the snapshot's own struct, the window's uid and
 * range, names of states (never changed once declared), the base's maps, and its cells up to the
 * cut's epoch.
 *
 * Threads and ownership: as backend.h says of windows.
 */
#ifndef SC_STATE_HEAP_H
#define SC_STATE_HEAP_H

#include "groups.h"
#include "map_merge.h"

typedef struct sc_heap sc_heap_t;

typedef struct sc_heap_state {
  char *name;           /* unique in the window */
  sc_state_kind_t kind; /* as declared or restored */
  bool is_map;          /* of the kind: addressed by map keys */
  bool declared;        /* false: only a restore brought it */
} sc_heap_state_t;

struct sc_keyed_snapshot {
  sc_keyed_snapshot_t *next;     /* the next newer cut, or NULL */
  sc_heap_t *heap;               /* the window */
  uint64_t id;                   /* checkpoint */
  uint64_t epoch;                /* that it ended: its cells were born up to here */
  sc_cell_list_t kept;           /* cells that left since, and before the next newer cut */
  atomic_uint_least32_t written; /* groups of the range that the pool is done with */
  sc_delta_t *newest;            /* last delta of the cut; NULL: the cut is the base */
  bool writing;                  /* handed out by ready, not yet done */
  uint32_t n_states;             /* that existed at the freeze */
  sc_keyed_file_state_t *states; /* of them, by name; filled by ready */
  uint16_t *ranks;               /* where each state of the window is in `states` */
};

struct sc_map_iterator {
  sc_heap_t *heap;         /* the window */
  sc_map_iterator_t *next; /* other live iterators */
  int state;               /* of the map */
  uint32_t hash;           /* of the map's address; equal ones count as the same map */
  bool copied;             /* the rest is in `rest`, no longer in the layers */
  sc_map_merge_t merge;    /* the map's layers */
  sc_buf_t rest;           /* (u32 length, map key, u32 length, value) again and again */
  size_t at;               /* where in rest it is */
};

#define SC_HEAP_EXPECTED 32 /* addresses of which something is being fetched */

typedef struct sc_expected {
  const sc_cells_t *cells; /* of its key group, or NULL: there are none, or it is of a map */
  uint32_t hash;           /* of the address */
  uint16_t group;          /* its key group */
} sc_expected_t;

struct sc_heap {
  sc_keyed_t keyed;             /* first: the window is one */
  char *uid;                    /* of the operator, for files and messages */
  sc_heap_state_t *states;      /* n_states; only ever more */
  uint32_t n_states;            /* declared or restored */
  uint32_t cap_states;          /* room for them */
  sc_groups_t *groups;          /* the base */
  sc_delta_t **deltas;          /* oldest first; the last one is active */
  uint32_t n_deltas;            /* of them; 0: writes go to the base */
  uint32_t cap_deltas;          /* room for them */
  sc_keyed_snapshot_t *cuts;    /* oldest first */
  sc_keyed_snapshot_t *last_cut; /* the newest of them, or NULL */
  uint64_t epoch;               /* in which cells are born now; from 1 */
  sc_cell_list_t garbage;       /* cells that left and that no cut sees */
  sc_map_iterator_t *iterators; /* live ones */
  int expected_state;           /* of a key's states the one that is fetched ahead, or -1 */
  sc_expected_t expected[SC_HEAP_EXPECTED]; /* a ring */
  uint32_t n_expected;          /* since the beginning; its low bits are the place in the ring */
};

static inline sc_heap_t *sc__heap_of(sc_keyed_t *k) { return (sc_heap_t *)k; }

/* The oldest cut that the pool has still to read, wholly or in part, or NULL. It is done with the
 * first *done groups of the range. Acquire: what it read there lies before what is written now. */
static inline const sc_keyed_snapshot_t *sc__heap_unread(const sc_heap_t *h, uint32_t *done) {
  sc_keyed_snapshot_t *oldest = h->cuts;
  *done = 0;
  if (!oldest || !oldest->writing)
    return oldest;
  *done = atomic_load_explicit(&oldest->written, memory_order_acquire);
  if (*done < sc_key_range_count(h->keyed.range))
    return oldest;
  *done = 0;
  return oldest->next;
}

/* Are the maps of this group locked (I1)? Where they are, those of all later ones are, too. */
static inline bool sc__heap_locked(const sc_heap_t *h, uint16_t group) {
  uint32_t done;
  const sc_keyed_snapshot_t *unread = sc__heap_unread(h, &done);
  return unread && !unread->newest && (uint32_t)(group - h->keyed.range.first) >= done;
}

/* Is any group locked? */
static inline bool sc__heap_base_locked(const sc_heap_t *h) {
  return sc__heap_locked(h, h->keyed.range.last);
}

static inline sc_delta_t *sc__heap_active(const sc_heap_t *h) {
  return h->n_deltas ? h->deltas[h->n_deltas - 1] : NULL;
}

/* heap_backend.c */
bool sc__heap_is_map(sc_state_kind_t kind); /* addressed by map keys */
const char *sc__heap_kind_name(sc_state_kind_t kind);
int sc__heap_find_state(const sc_heap_t *h, const char *name); /* or -1 */
/* The new index, or SC_ELIMIT. */
int sc__heap_add_state(sc_heap_t *h, const char *name, sc_state_kind_t kind, bool declared,
                       sc_error_t *err);
/* (I5) From here on the iterator does not need the layers. */
void sc__heap_copy_rest(sc_map_iterator_t *it);

/* heap_snapshot.c: operations of backend.h. */
sc_keyed_snapshot_t *sc__heap_freeze(sc_keyed_t *k, uint64_t checkpoint);
sc_keyed_snapshot_t *sc__heap_ready(sc_keyed_t *k);
int sc__heap_snapshot_write(sc_keyed_snapshot_t *snap, sc_storage_t *s, const char *dir,
                            const char *file, sc_handle_t *handle, sc_error_t *err);
void sc__heap_snapshot_done(sc_keyed_t *k, sc_keyed_snapshot_t *snap);
void sc__heap_abort(sc_keyed_t *k, uint64_t checkpoint);
uint64_t sc__heap_snapshot_id(const sc_keyed_snapshot_t *snap);
bool sc__heap_step(sc_keyed_t *k, int budget);
int sc__heap_load(sc_keyed_t *k, sc_storage_t *s, const char *dir, const sc_restore_keyed_t *part,
                  sc_error_t *err);
void sc__heap_free_cut(sc_keyed_snapshot_t *cut);

#endif
