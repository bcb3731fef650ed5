/*
 * cells: the values of one key group, addressed by (state, key, namespace), which stand still for a
 * snapshot while they change.
 *
 * A hash table over slots of a slab (slab.h). Each value is a cell, with its address, that says in
 * which epoch of its window it was born. To take a snapshot the window counts its epoch on; that is
 * all. A cell that the snapshot has still to read is not touched from then on: a write makes a new
 * cell in its place, which no walk of the snapshot sees, and puts the old one on a list of kept
 * ones, to be given back when the snapshot has read it. Every other cell is overwritten in place.
 * So what a write costs more while a snapshot is written is one copy of a small cell, and only for
 * the first write to it; nothing has to be brought home afterwards.
 *
 *   write -> [born > keep: in place] or [born <= keep: new cell, old one -> kept -give-> slab]
 *
 * Buckets are probed one after another, and say enough of a cell's hash that a look-up reads one
 * line of them and the one cell that it wants. The table grows step by step: insertions and
 * removals move a few buckets, so that no single write pays for the whole.
 *
 * Ownership: everything given is copied in; what is handed out lives until the next change of that
 * address. Threads: one owner; another thread may walk the slab up to an epoch whose cells the
 * owner keeps (guard.keep), and reads there what sc_cell_* hand out. Failure: none (mem.h).
 */
#ifndef SC_STATE_CELLS_H
#define SC_STATE_CELLS_H

#include "backend.h"
#include "slab.h"
#include "table.h"

typedef struct sc_cell {
  sc_slot_t slot;     /* first */
  uint32_t hash;      /* of the address */
  uint32_t key_len;   /* bytes of the key */
  uint32_t value_len; /* bytes of the value */
  uint16_t state;     /* index of the state in its window */
  uint16_t room;      /* SC_CELL_SPACED, and unused bytes behind the value */
  uint8_t data[];     /* (u32 length of the namespace where spaced,) key, namespace, value */
} sc_cell_t;

#define SC_CELL_SPACED 0x8000 /* the cell has a namespace */

/* Cells that left the table and that a snapshot has still to read. In blocks, not linked: who gives
 * them back can have many of them on their way from memory. */
typedef struct sc_cell_block sc_cell_block_t;
typedef struct sc_cell_list {
  sc_cell_block_t *first, *last; /* NULL where it is empty */
} sc_cell_list_t;

/* What a change has to heed; the window's, made anew for each change. */
typedef struct sc_cells_guard {
  uint64_t epoch;       /* the present one, in which new cells are born */
  uint64_t keep;        /* cells born up to it are kept, not changed; 0: none are */
  sc_cell_list_t *kept; /* where they go; not used where keep is 0 */
  bool walked;          /* somebody may be walking this group's slab */
} sc_cells_guard_t;

typedef struct sc_cells {
  uint64_t *buckets;   /* mask + 1 of them, a quarter empty, or NULL while the table is new */
  uint64_t *old;       /* buckets before the last growth that have still to move, or NULL */
  size_t mask;         /* of buckets */
  size_t old_mask;     /* of old */
  size_t moved;        /* old buckets below this one hold nothing */
  size_t used;         /* buckets that are not empty: with a cell, or one that is gone */
  sc_cell_t *last;     /* that was found last, while it is in the table, or NULL */
  size_t count;        /* cells in the table; the slab's slots beyond them are kept ones */
  sc_slab_t slab;      /* where the cells are */
} sc_cells_t;

sc_cells_t *sc_cells_create(sc_pages_t *source); /* of pages; borrowed */
void sc_cells_destroy(sc_cells_t *c); /* NULL is fine; kept cells go with it */

/* Hashes are of the address: sc_table_hash. NULL where there is no value. */
const sc_cell_t *sc_cells_find(sc_cells_t *c, const sc_address_t *at, uint32_t hash);
/* A hint, see table.h. */
void sc_cells_fetch(const sc_cells_t *c, uint32_t hash, sc_fetch_t what);
/* Insert or replace. `value` may be the cell's own, whole, but not a part of it. */
void sc_cells_put(sc_cells_t *c, const sc_address_t *at, uint32_t hash, sc_bytes_t value,
                  const sc_cells_guard_t *guard);
/* The two halves of put, for a cell that sc_cells_find has just given. Replace its value where it
 * is; false, and nothing is done, where the cell has to be kept or its place is not right for that
 * many bytes. */
bool sc_cells_overwrite(const sc_cell_t *e, sc_bytes_t value, const sc_cells_guard_t *guard);
/* Put the value into a new cell, in place of `e`; NULL: of none, for there is no value. */
void sc_cells_renew(sc_cells_t *c, const sc_cell_t *e, const sc_address_t *at, uint32_t hash,
                    sc_bytes_t value, const sc_cells_guard_t *guard);
void sc_cells_remove(sc_cells_t *c, const sc_address_t *at, uint32_t hash,
                     const sc_cells_guard_t *guard); /* absent: nothing */

/* Put the cells of `from` on `to` as well; `from` is empty then. */
void sc_cell_list_join(sc_cell_list_t *to, sc_cell_list_t *from);
/* Give up to `budget` cells back to their slabs, where nobody is walking; what is left of it. */
int sc_cell_list_give(sc_cell_list_t *list, int budget);
void sc_cell_list_fini(sc_cell_list_t *list); /* the list alone: its cells go with their slabs */

uint64_t sc_cells_bytes(const sc_cells_t *c); /* memory, roughly */

sc_bytes_t sc_cell_key(const sc_cell_t *e);
sc_bytes_t sc_cell_space(const sc_cell_t *e);
sc_bytes_t sc_cell_value(const sc_cell_t *e);

#endif
