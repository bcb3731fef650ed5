/*
 * holds: files of a job's folder that are needed by somebody whom no _metadata speaks for: a task
 * that still reads in-flight data, a pending checkpoint that may keep a rest of it (DESIGN section
 * 5, "Files"). What a _metadata lists is kept without a hold; so a checkpoint's hold ends when its
 * _metadata is written.
 *
 *   a file: FREE --add, share--> HELD --drop of its last holder--> FREE (told by that drop)
 *
 * Threads: any; each function locks. Ownership: create/destroy; names are copied. Failure: none.
 */
#ifndef SC_SNAPSHOT_HOLDS_H
#define SC_SNAPSHOT_HOLDS_H

#include "storage.h"

typedef enum { SC_HOLDER_TASK, SC_HOLDER_CHECKPOINT } sc_holder_t;

typedef struct sc_holds sc_holds_t;

sc_holds_t *sc_holds_create(void);
void sc_holds_destroy(sc_holds_t *h); /* NULL is fine */
/* `file` is relative to the job's folder. A second hold of one holder on one file is the first. */
void sc_holds_add(sc_holds_t *h, sc_holder_t holder, uint64_t number, const char *file);
/* A checkpoint holds what tasks hold now: which of it they will keep a rest of is not known yet. */
void sc_holds_share(sc_holds_t *h, uint64_t checkpoint);
/* The holder gives up all it holds. Appends the files that nobody holds any more to `gone`. */
void sc_holds_drop(sc_holds_t *h, sc_holder_t holder, uint64_t number, sc_names_t *gone);
bool sc_holds_has(sc_holds_t *h, const char *file); /* is it held? Of a NULL: no */

#endif
