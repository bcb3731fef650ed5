#include "hash.h"

#include <stdlib.h>

#define XXH_INLINE_ALL /* keys are short: a call into the library costs as much as their hash */
#include <xxhash.h>

#include "error.h"
#include "mem.h"

struct sc_checksum {
  XXH64_state_t *state; /* libxxhash's; its size is the library's business */
};

sc_checksum_t *sc_checksum_create(void) {
  sc_checksum_t *sum = sc_malloc(sizeof *sum);
  sum->state = XXH64_createState();
  sc_assert(sum->state); /* fails only for want of memory, which ends the process (mem.h) */
  XXH64_reset(sum->state, 0);
  return sum;
}

void sc_checksum_update(sc_checksum_t *sum, const void *data, size_t len) {
  if (len)
    XXH64_update(sum->state, data, len);
}

uint64_t sc_checksum_value(const sc_checksum_t *sum) {
  return XXH64_digest(sum->state);
}

void sc_checksum_destroy(sc_checksum_t *sum) {
  if (sum) {
    XXH64_freeState(sum->state);
    free(sum);
  }
}

uint64_t sc_checksum(sc_bytes_t data) {
  return XXH64(data.len ? (const void *)data.data : "", data.len, 0);
}

uint64_t sc_hash(sc_bytes_t data) {
  return XXH3_64bits(data.len ? (const void *)data.data : "", data.len);
}
