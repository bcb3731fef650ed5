/*
 * key: the bytes of keys, their 32-bit hash, and key groups.
 *
 * Bytes (DESIGN section 5, "Bytes of keys"): the shortest msgpack form; integers, and floats that
 * are whole numbers in [-2^63, 2^63), as int; other floats as float64; booleans; strings as str;
 * arrays of these. So 1 and 1.0 are one key, -0.0 is 0, "1" is another. nil, NaN, maps, and arrays
 * that hold such or other arrays are refused with SC_EKEY. Keys are compared bytewise; no numeric
 * order is promised.
 *
 * hash32 and the murmur spread are the reference's (Apache Flink's KeyGroupRangeAssignment and
 * MathUtils, see flink-semantics section 10), so that a key lands in the group Flink's users know.
 *
 * Threads: all functions are pure.
 */
#ifndef SC_DATA_KEY_H
#define SC_DATA_KEY_H

#include "../base/buf.h"
#include "../base/error.h"

#define SC_MAX_PARALLELISM_LIMIT 32768

/* Append the key bytes of one msgpack value to out. SC_EKEY says what was wrong ("nil", "NaN",
 * "a map"); bytes that are not one value give SC_ECORRUPT. Either way out is then as before. The
 * value must not lie in out. */
int sc_key_append(sc_buf_t *out, sc_bytes_t value, sc_error_t *err);
/* The same from scalars that were never msgpack. */
int sc_key_append_float(sc_buf_t *out, double v, sc_error_t *err);
/* SC_EKEY with the sentence that all refusals share; `what` is as in "a map". */
int sc_key_refuse(sc_error_t *err, const char *what);

/* hash32 of key bytes: int: low half xor high half; float: the same over its IEEE bits; boolean
 * 1231 / 1237; string: polynomial of 31 over its bytes, taken as 0 to 255; array: 31 h + hash
 * from 1. */
int32_t sc_key_hash32(sc_bytes_t key);
/* The reference's murmur spread: >= 0. */
int32_t sc_key_spread(int32_t hash);
/* spread(hash32(key)) mod max_parallelism. */
uint16_t sc_key_group(sc_bytes_t key, uint32_t max_parallelism);

typedef struct sc_key_range {
  uint16_t first, last; /* both inclusive */
} sc_key_range_t;

/* Groups of subtask `index` of `parallelism`; 1 <= parallelism <= max_parallelism <= 32768. */
sc_key_range_t sc_key_range(uint32_t max_parallelism, uint32_t parallelism, uint32_t index);
/* The subtask that owns a group below max_parallelism. The product stays below 2^31: both factors
 * are at most 2^15. Mostly max_parallelism is a power of two: a sender asks for each record. */
static inline uint32_t sc_key_group_owner(uint32_t max_parallelism, uint32_t parallelism,
                                          uint16_t group) {
  sc_assert(group < max_parallelism && max_parallelism <= SC_MAX_PARALLELISM_LIMIT);
  uint32_t product = group * parallelism;
  return max_parallelism & (max_parallelism - 1) ? product / max_parallelism
                                                 : product >> __builtin_ctz(max_parallelism);
}
/* clamp(next power of two of (p + p/2), 128, 32768). */
uint32_t sc_default_max_parallelism(uint32_t parallelism);
/* 0, or SC_EINVAL naming `what` and both numbers. */
int sc_parallelism_check(const char *what, int64_t parallelism, int64_t max_parallelism,
                         sc_error_t *err);

#endif
