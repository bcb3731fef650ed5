/*
 * valve: many watermarks in, one out. Pure.
 *
 * Each input has a watermark (SC_WATERMARK_MIN at first) and a status (active at first). The rules:
 *   (V1) The output watermark is the least over the inputs that count, and never goes back. An
 *        input's watermark that does not rise is ignored.
 *   (V2) An input counts while it is active, not ended, and its watermark is not behind the output:
 *        one that becomes active again counts once it has caught up.
 *   (V3) A watermark at an idle input is ignored: its sender says that it is active first
 *        (sc_output_watermark sees to that by itself).
 *   (V4) When the last active input becomes idle or ends while others are idle, the output becomes
 *        idle; before that the greatest watermark of all inputs goes out, so that the final
 *        watermark does not depend on the order in which they went.
 *   (V5) The output becomes active again with the first input that does, whatever its watermark.
 *   (V6) An input that has ended (also by SC_WATERMARK_MAX, nothing comes after it) limits nothing
 *        and keeps nothing active. When all have, SC_WATERMARK_MAX goes out: not earlier, since an
 *        idle input may come back with older records.
 *
 * Threads: the task's slot. Ownership: create/destroy. Failure: none; what comes from an ended
 * input is ignored. Without inputs nothing ever comes out.
 */
#ifndef SC_EXCHANGE_VALVE_H
#define SC_EXCHANGE_VALVE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sc_valve sc_valve_t;

typedef struct sc_valve_out {
  bool has_watermark;  /* `watermark` is news */
  int64_t watermark;   /* new output watermark, to go out before the status */
  bool has_status;     /* `idle` is news */
  bool idle;           /* new output status */
} sc_valve_out_t;

sc_valve_t *sc_valve_create(uint32_t inputs);
void sc_valve_destroy(sc_valve_t *v); /* NULL is fine */
sc_valve_out_t sc_valve_watermark(sc_valve_t *v, uint32_t input, int64_t watermark);
sc_valve_out_t sc_valve_status(sc_valve_t *v, uint32_t input, bool idle);
sc_valve_out_t sc_valve_end(sc_valve_t *v, uint32_t input);
/* What an input said last: its watermark and whether it is idle. */
void sc_valve_input(const sc_valve_t *v, uint32_t input, int64_t *watermark, bool *idle);
int64_t sc_valve_current(const sc_valve_t *v); /* last output watermark */

#endif
