/*
 * sink_part: one file of a file sink, from its first byte to its last name.
 *
 *   OPEN --seal--> SEALED --make_durable (sync, rename, sync folder)--> DURABLE --commit--> (gone)
 *                     '------------- any of these fails ----------> BROKEN
 *
 * (P1) A checkpoint that names a part is acknowledged only after make_durable of that part.
 * (P2) A part is made durable once, whichever checkpoint's work gets there first: a work that was
 *      dropped with its checkpoint is made good by the next one's.
 * (P3) BROKEN is for good. After a sync that failed the kernel may report the next one as fine
 *      though the bytes never reached the disk, so trying again could acknowledge what is lost.
 * (P4) commit may be repeated: it succeeds where the committed file is there already.
 *
 * Threads: open, write, seal on the slot's thread; make_durable and commit in the pool, from
 * several threads at once if need be; references and check from any. Ownership: reference counted;
 * names are copied. The last unref removes a file that never became durable: nobody knows of it.
 * Failure: codes and sentences of storage; a part that is lost is SC_ESTATE.
 */
#ifndef SC_OPERATOR_SINK_PART_H
#define SC_OPERATOR_SINK_PART_H

#include "../snapshot/storage.h"

typedef struct sc_sink_part sc_sink_part_t;

/* A new part, written under the hidden name. */
int sc_sink_part_open(sc_storage_t *s, const char *dir, const char *inprogress,
                      sc_sink_part_t **out, sc_error_t *err);
/* A part that an earlier attempt made durable, from its state. */
sc_sink_part_t *sc_sink_part_restored(sc_storage_t *s, const char *dir, uint64_t id,
                                      const char *pending, const char *final);
sc_sink_part_t *sc_sink_part_ref(sc_sink_part_t *part);
void sc_sink_part_unref(sc_sink_part_t *part);

int sc_sink_part_write(sc_sink_part_t *part, sc_bytes_t bytes, sc_error_t *err);
/* Nothing is written any more; the part belongs to checkpoint id. */
void sc_sink_part_seal(sc_sink_part_t *part, uint64_t id, const char *pending, const char *final);
int sc_sink_part_make_durable(sc_sink_part_t *part, sc_error_t *err);
/* Give the part its last name. The caller syncs the folder. */
int sc_sink_part_commit(sc_sink_part_t *part, sc_error_t *err);

/* What was given to seal or restored. */
uint64_t sc_sink_part_id(const sc_sink_part_t *part);
const char *sc_sink_part_pending(const sc_sink_part_t *part);
const char *sc_sink_part_final(const sc_sink_part_t *part);
/* 0, or the failure of a part that is BROKEN. */
int sc_sink_part_check(sc_sink_part_t *part, sc_error_t *err);

#endif
