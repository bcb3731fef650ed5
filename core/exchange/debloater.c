#include "debloater.h"

#include <math.h>

#include "../base/error.h"
#include "../base/mem.h"

typedef struct gate {
  double size;        /* the mean */
  uint32_t announced; /* to its senders, last */
} gate_t;

struct sc_debloater {
  sc_debloat_t options;
  uint32_t least, most; /* bounds of a size */
  int64_t due_ns;       /* of the next measurement */
  uint64_t bytes;       /* at the last one */
  int64_t active_ns;
  bool known;           /* some throughput was measured */
  double throughput;    /* bytes a second that was not idle */
  uint32_t n;
  gate_t gates[];
};

uint32_t sc_debloat_start_size(uint32_t segment_size) {
  return segment_size < SC_DEBLOAT_START ? segment_size : SC_DEBLOAT_START;
}

sc_debloater_t *sc_debloater_create(const sc_debloat_t *options, uint32_t segment_size,
                                    uint32_t n_gates) {
  sc_debloater_t *d = sc_calloc(1, sizeof *d + n_gates * sizeof(gate_t));
  d->options = *options;
  d->most = segment_size;
  d->least = segment_size < SC_DEBLOAT_MIN ? segment_size : SC_DEBLOAT_MIN;
  d->due_ns = INT64_MIN;
  d->n = n_gates;
  for (uint32_t i = 0; i < n_gates; i++)
    d->gates[i].size = d->gates[i].announced = sc_debloat_start_size(segment_size);
  return d;
}

void sc_debloater_destroy(sc_debloater_t *d) {
  free(d);
}

bool sc_debloater_due(const sc_debloater_t *d, int64_t now_ns) {
  return now_ns >= d->due_ns;
}

void sc_debloater_skip(sc_debloater_t *d, int64_t now_ns, uint64_t bytes, int64_t active_ns) {
  d->bytes = bytes;
  d->active_ns = active_ns;
  d->due_ns = now_ns + d->options.period_ms * 1000000;
}

void sc_debloater_measure(sc_debloater_t *d, int64_t now_ns, uint64_t bytes, int64_t active_ns) {
  bool first = d->due_ns == INT64_MIN; /* there is nothing that it could be compared with */
  if (!first && active_ns > d->active_ns) {
    double read = bytes > d->bytes ? (double)(bytes - d->bytes) : 0;
    d->throughput = read * 1e9 / (double)(active_ns - d->active_ns);
    d->known = true;
  }
  sc_debloater_skip(d, now_ns, bytes, active_ns);
}

/* Is it worth telling? */
static bool differs(const sc_debloater_t *d, uint32_t size, uint32_t announced) {
  if (size == announced)
    return false;
  if (size <= d->least || size >= d->most)
    return true;
  uint32_t by = size > announced ? size - announced : announced - size;
  return by >= (uint64_t)announced * d->options.threshold_percent / 100;
}

uint32_t sc_debloater_gate(sc_debloater_t *d, uint32_t gate, uint64_t units) {
  sc_assert(gate < d->n);
  gate_t *g = &d->gates[gate];
  if (!d->known)
    return 0;
  double total = d->throughput * (double)d->options.target_ms / 1000;
  double wanted = fmin(total / (double)(units ? units : 1), 2 * g->size);
  g->size += 2.0 / (d->options.samples + 1.0) * (wanted - g->size);
  g->size = fmax(d->least, fmin(g->size, d->most));
  uint32_t size = (uint32_t)lround(g->size);
  if (!differs(d, size, g->announced))
    return 0;
  g->announced = size;
  return size;
}
