/*
 * valve: many watermarks in, one out. Pure.
 *
 * Each input has a watermark (SC_WATERMARK_MIN at first) and a status (active at first). The output
 * watermark is the least over the active inputs and never goes back; when all are idle the output is
 * idle, and the greatest of their watermarks is let out first. An input that becomes active again
 * counts only once it has caught up with the output (reference, "StatusWatermarkValve"). A
 * watermark at an idle input makes it active. A closed or ended input counts as SC_WATERMARK_MAX.
 */
#ifndef SC_EXCHANGE_VALVE_H
#define SC_EXCHANGE_VALVE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sc_valve sc_valve_t;

typedef struct sc_valve_out {
  bool has_watermark;
  int64_t watermark;   /* new output watermark, to go out before the status */
  bool has_status;
  bool idle;           /* new output status */
} sc_valve_out_t;

sc_valve_t *sc_valve_create(uint32_t inputs);
void sc_valve_destroy(sc_valve_t *v);
sc_valve_out_t sc_valve_watermark(sc_valve_t *v, uint32_t input, int64_t watermark);
sc_valve_out_t sc_valve_status(sc_valve_t *v, uint32_t input, bool idle);
sc_valve_out_t sc_valve_end(sc_valve_t *v, uint32_t input);
int64_t sc_valve_current(const sc_valve_t *v); /* last output watermark */

#endif
