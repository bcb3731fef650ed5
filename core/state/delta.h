/*
 * delta: the changes of a window since some moment, folded by address.
 *
 * DESIGN section 5, "Writes go to a delta". Several changes of one key are one entry: the last
 * value, or a tombstone. A map has an ordered sub-index of puts and tombstones, and may have been
 * cleared before them (a range tombstone). A delta says what is known here; what it does not know
 * is in older layers. Freezing one needs no call: its owner stops writing into it.
 *
 * Folding brings a delta to where it belongs, its *sink*, in budgeted steps: of each map the range
 * tombstone first, and each entry leaves the delta in the step that brings it to the sink. So a
 * reader that asks the delta and then the sink sees the same before, between, and after steps.
 *
 * Ownership: everything is copied in; answers are borrowed until the delta changes.
 * Threads: one at a time. Pure. Failure: none.
 */
#ifndef SC_STATE_DELTA_H
#define SC_STATE_DELTA_H

#include "table.h"

typedef struct sc_delta sc_delta_t;

typedef enum {
  SC_DELTA_UNKNOWN, /* ask an older layer */
  SC_DELTA_PRESENT, /* here is the value */
  SC_DELTA_REMOVED  /* it does not exist, whatever older layers hold */
} sc_delta_answer_t;

/* Where a delta is folded to. Hashes are of the address, as in table.h. */
typedef struct sc_delta_sink {
  void *arg;
  void (*fetch)(void *arg, const sc_table_entry_t *e, sc_fetch_t what); /* NULL: no hints wanted */
  void (*put)(void *arg, const sc_address_t *at, uint32_t hash, sc_bytes_t value);
  void (*remove)(void *arg, const sc_address_t *at, uint32_t hash);
  void (*map_put)(void *arg, const sc_address_t *at, uint32_t hash, sc_bytes_t map_key,
                  sc_bytes_t value);
  void (*map_remove)(void *arg, const sc_address_t *at, uint32_t hash, sc_bytes_t map_key);
  void (*map_clear)(void *arg, const sc_address_t *at, uint32_t hash);
} sc_delta_sink_t;

sc_delta_t *sc_delta_create(void); /* allocates no entries: the cost of a freeze */
void sc_delta_destroy(sc_delta_t *d); /* NULL is fine */
bool sc_delta_empty(const sc_delta_t *d);

void sc_delta_put(sc_delta_t *d, const sc_address_t *at, uint32_t hash, sc_bytes_t value);
void sc_delta_remove(sc_delta_t *d, const sc_address_t *at, uint32_t hash);
void sc_delta_map_put(sc_delta_t *d, const sc_address_t *at, uint32_t hash, sc_bytes_t map_key,
                      sc_bytes_t value);
void sc_delta_map_remove(sc_delta_t *d, const sc_address_t *at, uint32_t hash, sc_bytes_t map_key);
void sc_delta_map_clear(sc_delta_t *d, const sc_address_t *at, uint32_t hash);

sc_delta_answer_t sc_delta_get(const sc_delta_t *d, const sc_address_t *at, uint32_t hash,
                               sc_bytes_t *value);
sc_delta_answer_t sc_delta_map_get(const sc_delta_t *d, const sc_address_t *at, uint32_t hash,
                                   sc_bytes_t map_key, sc_bytes_t *value);
/* What is known of a map, or NULL. Its ordered map may hold tombstones (entry flags). */
const sc_table_entry_t *sc_delta_map(const sc_delta_t *d, const sc_address_t *at, uint32_t hash);

void sc_delta_fetch(const sc_delta_t *d, uint32_t hash, sc_fetch_t what); /* a hint, see table.h */

/* Forget a value or a whole map: its new content is written to the sink by the caller. */
void sc_delta_forget(sc_delta_t *d, const sc_address_t *at, uint32_t hash);
/* Bring one map's range tombstone, if it has one, to the sink. Its entries stay. */
void sc_delta_bring_clear(sc_delta_t *d, const sc_address_t *at, uint32_t hash,
                          const sc_delta_sink_t *sink);
/* Forget one entry of a map (whose range tombstone has been brought), written by the caller. */
void sc_delta_forget_map_key(sc_delta_t *d, const sc_address_t *at, uint32_t hash,
                             sc_bytes_t map_key);
/* Bring up to `budget` entries to the sink; returns what is left of the budget (> 0: all is done).
 * From the first fold on the delta may only be read, forgotten from, and folded. */
int sc_delta_fold(sc_delta_t *d, int budget, const sc_delta_sink_t *sink);

uint64_t sc_delta_items(const sc_delta_t *d); /* values, map entries and tombstones */
uint64_t sc_delta_bytes(const sc_delta_t *d); /* memory, roughly */

#endif
