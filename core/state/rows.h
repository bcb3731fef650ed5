/*
 * rows: what one key group holds, brought into the order of its file (keyed_file.h) and written.
 *
 * Collected are pointers, with the few bytes by which most rows are told apart, so that sorting
 * seldom has to look at an entry, which lies somewhere in memory.
 *
 * Ownership: init/fini; entries are borrowed from add to write. Threads: one at a time; in the
 * pool, beside the owner of the entries, as cells.h says. Failure: only writing fails.
 */
#ifndef SC_STATE_ROWS_H
#define SC_STATE_ROWS_H

#include "cells.h"

typedef struct sc_row {
  uint64_t prefix;  /* 8 bytes of the key, the first or those behind what all share, as a number */
  uintptr_t entry;  /* address of an sc_cell_t, or, plus 1, of an sc_table_entry_t of a map */
} sc_row_t;

typedef struct sc_rows {
  const uint16_t *ranks; /* of states in the file; borrowed */
  uint32_t n_ranks;      /* how many there are */
  sc_row_t *rows;        /* n of them, and as many to sort with behind cap */
  size_t n;              /* of the group that is collected */
  size_t cap;            /* room for them */
} sc_rows_t;

/* ranks[state] is the index in the file, below n_ranks, of each state that rows come from. */
void sc_rows_init(sc_rows_t *r, const uint16_t *ranks, uint32_t n_ranks);
void sc_rows_fini(sc_rows_t *r);
/* Collect the cells of a group that were born up to `epoch`. */
void sc_rows_add_values(sc_rows_t *r, const sc_slab_t *slab, uint64_t epoch);
/* Collect the maps of a group. */
void sc_rows_add_maps(sc_rows_t *r, const sc_table_t *maps);
/* Write what was collected, ordered by rank, key, namespace and map key; nothing is collected
 * then, whatever comes of it. */
int sc_rows_write(sc_rows_t *r, uint16_t group, sc_keyed_writer_t *w, sc_error_t *err);

#endif
