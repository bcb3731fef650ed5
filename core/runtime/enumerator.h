/*
 * enumerator: deals a source's splits to its readers. Pure; lives on the coordinator's thread.
 *
 * Splits are found once, at a fresh start (by the source type's list_splits, run in slot 0 or the
 * pool; the enumerator gets plain msgpack values). A reader asks for one when it has nothing to do;
 * it gets one, or "no more". One whose splits all wait asks for *more*, so that splits which never
 * end do not keep others from being read; it is answered when every reader has asked once, so that
 * the first one to run does not take them all. Progress inside a split is the reader's state; which
 * splits are still undealt is the enumerator's, taken when a checkpoint is triggered, so a split is
 * in exactly one of the two in every checkpoint: assignments and triggers reach a slot through the
 * same mailbox, in order.
 *
 *   FINDING --found--> DEALING --last split dealt--> EMPTY (every further ask: no more)
 *
 * Threads: the coordinator's. Ownership: copies what it is given.
 */
#ifndef SC_RUNTIME_ENUMERATOR_H
#define SC_RUNTIME_ENUMERATOR_H

#include "../base/buf.h"
#include "../base/error.h"

typedef struct sc_enumerator sc_enumerator_t;

typedef struct sc_assignment {
  uint32_t reader;
  bool no_more;       /* else `split` is one msgpack value, borrowed until the next call */
  sc_bytes_t split;
} sc_assignment_t;

sc_enumerator_t *sc_enumerator_create(uint32_t readers);
void sc_enumerator_destroy(sc_enumerator_t *e);
/* The splits: a msgpack array. SC_EVALUE if it is none. */
int sc_enumerator_found(sc_enumerator_t *e, sc_bytes_t splits, sc_error_t *err);
/* A reader asks; asking twice before an answer is one ask. more: it has splits, and they wait. */
void sc_enumerator_ask(sc_enumerator_t *e, uint32_t reader, bool more);
/* Next answer to give: 1 or 0. */
int sc_enumerator_next(sc_enumerator_t *e, sc_assignment_t *out);
/* State: msgpack {splits = [...] , found = true}; restore replaces FINDING. */
void sc_enumerator_snapshot(const sc_enumerator_t *e, sc_buf_t *out);
int sc_enumerator_restore(sc_enumerator_t *e, sc_bytes_t state, sc_error_t *err);
bool sc_enumerator_finding(const sc_enumerator_t *e); /* list_splits is still to be run */

#endif
