/*
 * parts: what the operators of a task add to one snapshot: list state, and work for the pool.
 *
 * Filled on the slot's thread in the synchronous part, then handed to the pool, which runs the
 * asynchronous works in order and encodes the lists. A work that fails ends the rest and declines
 * the checkpoint; every work's `drop` is called exactly once, whatever happens.
 *
 * Threads: one at a time. Ownership: create/destroy (destroy drops works that did not run).
 */
#ifndef SC_RUNTIME_PARTS_H
#define SC_RUNTIME_PARTS_H

#include "../base/buf.h"
#include "../base/error.h"

typedef struct sc_snapshot_parts sc_snapshot_parts_t;

sc_snapshot_parts_t *sc_parts_create(void);
void sc_parts_destroy(sc_snapshot_parts_t *parts); /* NULL is fine */

/* Append one item (a msgpack value) to the named list state. Lists of one name share the mode
 * (SC_LIST_SPLIT ...). */
void sc_parts_list(sc_snapshot_parts_t *parts, const char *name, int mode, sc_bytes_t item);
/* The state exists though it has no items (a broadcast copy that is empty, say). */
void sc_parts_declare(sc_snapshot_parts_t *parts, const char *name, int mode);
/* Work of the asynchronous part: runs in the pool before the acknowledgement (sync a file, say). A
 * failure declines the checkpoint. `drop` frees arg after run, or instead of it; may be NULL. */
void sc_parts_async(sc_snapshot_parts_t *parts, int (*run)(void *arg, sc_error_t *err),
                    void (*drop)(void *arg), void *arg);

/* Pool: run the works; 0 or the first error. */
int sc_parts_run(sc_snapshot_parts_t *parts, sc_error_t *err);
/* Lists as the bytes of an SC_HANDLE_LIST, names in bytewise order. False if there is none. */
bool sc_parts_encode(const sc_snapshot_parts_t *parts, sc_buf_t *out);

#endif
