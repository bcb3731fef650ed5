/*
 * keyed_row: one row of a keyed file (keyed_file.h has the bytes), inside this folder only.
 *
 * Threads: pure. Ownership: a row that was read borrows from the bytes. Failure: SC_ECORRUPT where
 * a length in the row reaches beyond the bytes given.
 */
#ifndef SC_SNAPSHOT_KEYED_ROW_H
#define SC_SNAPSHOT_KEYED_ROW_H

#include "keyed_file.h"

uint64_t sc__keyed_row_size(const sc_keyed_row_t *row);
void sc__keyed_row_write(sc_buf_t *out, const sc_keyed_row_t *row);
/* Take one row from the front of *in: 1 or SC_ECORRUPT. The group is left as it is. */
int sc__keyed_row_read(sc_bytes_t *in, sc_keyed_row_t *row);
/* Order within a group: state, key, namespace, map key; bytewise. */
int sc__keyed_row_compare(const sc_keyed_row_t *a, const sc_keyed_row_t *b);

#endif
