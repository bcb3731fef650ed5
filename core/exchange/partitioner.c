#include "partitioner.h"

#include <string.h>

#include "../base/error.h"

static const char *const names[] = {
    [SC_FORWARD] = "forward",
    [SC_HASH] = "hash",
    [SC_REBALANCE] = "rebalance",
    [SC_BROADCAST] = "broadcast",
};

void sc_partitioner_init(sc_partitioner_t *p, sc_partitioner_kind_t kind, uint32_t n_channels,
                         uint32_t max_parallelism, uint32_t sender_subtask) {
  sc_assert(n_channels > 0);
  *p = (sc_partitioner_t){
      .kind = kind,
      .n_channels = n_channels,
      .max_parallelism = max_parallelism,
      .next = sender_subtask % n_channels,
  };
}

bool sc_partitioner_rigid(sc_partitioner_kind_t kind) {
  return kind == SC_FORWARD || kind == SC_BROADCAST;
}

const char *sc_partitioner_name(sc_partitioner_kind_t kind) {
  return names[kind];
}

int sc_partitioner_from_name(const char *name) {
  for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
    if (strcmp(name, names[i]) == 0)
      return i;
  return -1;
}
