/*
 * faulty_storage: the local file system with failures on demand. For specs only.
 *
 * Changing operations (create, write, sync, rename, remove, sync_dir, make_dir) are counted. One
 * can be made to fail, or to be the moment of death: it does half of its writing or nothing, and
 * from then on nothing works. After that `power_cut` takes back what was never made durable: bytes
 * after the last sync of a file, names after the last sync of the folder.
 *
 * Threads: one. Ownership: create/destroy.
 */
#ifndef SC_SPEC_FAULTY_STORAGE_H
#define SC_SPEC_FAULTY_STORAGE_H

#include "../../core/snapshot/storage.h"

sc_storage_t *faulty_create(void);
/* The nth next call (from 1) of the named operation fails with the code. */
void faulty_fail(sc_storage_t *s, const char *operation, int nth, int code);
/* The machine dies at the nth next changing operation (from 1); 0: it lives. */
void faulty_die(sc_storage_t *s, int nth);
bool faulty_dead(sc_storage_t *s);
void faulty_power_cut(sc_storage_t *s);
/* The machine is on again, nothing is to fail, nothing is unsynced. */
void faulty_reset(sc_storage_t *s);
/* Changing operations so far, "create .x.inprogress\n..." with base names. Borrowed. */
sc_bytes_t faulty_log(sc_storage_t *s);

#endif
