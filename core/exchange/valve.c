#include "valve.h"

#include "../base/error.h"
#include "../base/mem.h"
#include "../data/record.h"

typedef enum { ACTIVE, IDLE, ENDED } status_t;

typedef struct input {
  int64_t watermark; /* highest while it was active; never SC_WATERMARK_MAX */
  status_t status;   /* what its sender said last */
} input_t;

struct sc_valve {
  int64_t output;     /* last output watermark */
  bool idle;          /* output status */
  uint32_t n;         /* inputs */
  uint32_t n_active;  /* of these, active */
  uint32_t n_ended;   /* of these, ended */
  input_t inputs[];
};

sc_valve_t *sc_valve_create(uint32_t inputs) {
  sc_valve_t *v = sc_calloc(1, sizeof *v + inputs * sizeof(input_t));
  v->output = SC_WATERMARK_MIN;
  v->n = v->n_active = inputs;
  for (uint32_t i = 0; i < inputs; i++)
    v->inputs[i].watermark = SC_WATERMARK_MIN;
  return v;
}

void sc_valve_destroy(sc_valve_t *v) {
  free(v);
}

int64_t sc_valve_current(const sc_valve_t *v) {
  return v->output;
}

/* V1, V2: the least over the inputs that count, or the old output where none does. An input that
 * counts can only be left behind by (V4) and (V6), when none counts any more: so "not behind the
 * output" needs no memory of its own. */
static int64_t least(const sc_valve_t *v) {
  int64_t min = SC_WATERMARK_MAX;
  for (uint32_t i = 0; i < v->n; i++) {
    const input_t *in = &v->inputs[i];
    if (in->status == ACTIVE && in->watermark >= v->output && in->watermark < min)
      min = in->watermark;
  }
  return min == SC_WATERMARK_MAX ? v->output : min;
}

static int64_t greatest(const sc_valve_t *v) {
  int64_t max = v->output;
  for (uint32_t i = 0; i < v->n; i++)
    if (v->inputs[i].watermark > max)
      max = v->inputs[i].watermark;
  return max;
}

/* What follows for the output from the inputs as they are now. */
static sc_valve_out_t react(sc_valve_t *v) {
  sc_valve_out_t out = {0};
  bool all_ended = v->n_ended == v->n;
  bool idle = v->n_active == 0 && !all_ended;
  int64_t next = all_ended ? SC_WATERMARK_MAX : idle ? greatest(v) : least(v);
  if (next > v->output) {
    out.has_watermark = true;
    out.watermark = v->output = next;
  }
  /* After the last watermark of all, a status would tell nobody anything. */
  if (idle != v->idle && !all_ended) {
    out.has_status = true;
    out.idle = v->idle = idle;
  }
  return out;
}

static void change(sc_valve_t *v, input_t *in, status_t status) {
  v->n_active -= in->status == ACTIVE;
  v->n_active += status == ACTIVE;
  v->n_ended += status == ENDED;
  in->status = status;
}

sc_valve_out_t sc_valve_watermark(sc_valve_t *v, uint32_t input, int64_t watermark) {
  sc_assert(input < v->n);
  input_t *in = &v->inputs[input];
  if (watermark == SC_WATERMARK_MAX)
    return sc_valve_end(v, input);
  if (in->status != ACTIVE || watermark <= in->watermark)
    return (sc_valve_out_t){0};
  in->watermark = watermark;
  return react(v);
}

sc_valve_out_t sc_valve_status(sc_valve_t *v, uint32_t input, bool idle) {
  sc_assert(input < v->n);
  input_t *in = &v->inputs[input];
  if (in->status == ENDED || in->status == (idle ? IDLE : ACTIVE))
    return (sc_valve_out_t){0};
  change(v, in, idle ? IDLE : ACTIVE);
  return react(v);
}

sc_valve_out_t sc_valve_end(sc_valve_t *v, uint32_t input) {
  sc_assert(input < v->n);
  input_t *in = &v->inputs[input];
  if (in->status == ENDED)
    return (sc_valve_out_t){0};
  change(v, in, ENDED);
  return react(v);
}

void sc_valve_input(const sc_valve_t *v, uint32_t input, int64_t *watermark, bool *idle) {
  sc_assert(input < v->n);
  *watermark = v->inputs[input].watermark;
  *idle = v->inputs[input].status == IDLE;
}
