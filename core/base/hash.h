/*
 * hash: checksums of files (XXH64) and hashes of bytes for tables in memory (XXH3).
 *
 * Only XXH64 outlives a process. Threads: any; a stream belongs to one thread at a time.
 */
#ifndef SC_BASE_HASH_H
#define SC_BASE_HASH_H

#include "buf.h"

typedef struct sc_checksum sc_checksum_t; /* XXH64 with seed 0, fed piece by piece */

sc_checksum_t *sc_checksum_create(void);
void sc_checksum_update(sc_checksum_t *sum, const void *data, size_t len);
uint64_t sc_checksum_value(const sc_checksum_t *sum); /* of what was fed so far */
void sc_checksum_destroy(sc_checksum_t *sum); /* NULL is fine */

uint64_t sc_checksum(sc_bytes_t data);  /* XXH64, seed 0, in one go */
uint64_t sc_hash(sc_bytes_t data);      /* for tables in memory; may differ between processes */

#endif
