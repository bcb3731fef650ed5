/*
 * picky_storage: the local file system, where some calls fail, or do not return. For specs of whole
 * jobs.
 *
 * Unlike faulty_storage it may be used by many threads at once, and it is picky: it fails calls of
 * one operation on paths that hold a text, so many times; and it holds others until it is
 * told to let them go.
 *
 * Threads: any. Ownership: create/destroy.
 */
#ifndef SC_SPEC_PICKY_STORAGE_H
#define SC_SPEC_PICKY_STORAGE_H

#include "../../core/snapshot/storage.h"

sc_storage_t *picky_create(void);
/* The next `times` calls of the operation on a path that holds `text` fail with the code; this
 * replaces what was asked for before. "write", "sync" name the file's path; rename the new one. */
void picky_fail(sc_storage_t *s, const char *operation, const char *text, uint64_t times, int code);
uint64_t picky_failed(sc_storage_t *s); /* calls that failed since the last picky_fail */

/* From now on calls of the operation on a path that holds `text` wait, until picky_release. */
void picky_hold(sc_storage_t *s, const char *operation, const char *text);
uint32_t picky_held(sc_storage_t *s); /* calls that wait now */
void picky_release(sc_storage_t *s);

#endif
