#include "ids.h"

void sc_ids_begin(sc_ids_t *ids, uint64_t highest) {
  if (ids->last < highest)
    ids->last = highest;
  if (ids->reserved < highest)
    ids->reserved = highest;
}

uint64_t sc_ids_ask(sc_ids_t *ids) {
  if (ids->reserving || ids->reserved - ids->last >= SC_IDS_LOW)
    return 0;
  ids->reserving = true;
  return ids->reserved + SC_IDS_BLOCK;
}

void sc_ids_reserved(sc_ids_t *ids, uint64_t up_to, bool ok) {
  ids->reserving = false;
  if (ok && up_to > ids->reserved)
    ids->reserved = up_to;
}

uint64_t sc_ids_take(sc_ids_t *ids) {
  return ids->last < ids->reserved ? ++ids->last : 0;
}
