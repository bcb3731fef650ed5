/*
 * pressure_work: what stands between the source of count_work.h and back-pressure.
 *
 *   pressure_stage   hands each record on with its key and does nothing else
 *   pressure_sink    each subtask takes `rate` records a second (an option, a number) by sleeping
 *                    in its slot; what it missed in the last 10 ms is made up for, no more
 *
 * Threads: as operator.h says; the counter is everybody's. Ownership: the runtime's.
 */
#ifndef SC_BENCH_PRESSURE_WORK_H
#define SC_BENCH_PRESSURE_WORK_H

#include <stdatomic.h>

#include "../../core/runtime/operator.h"

extern const sc_operator_type_t sc_pressure_stage_type;
extern const sc_operator_type_t sc_pressure_sink_type;
extern _Atomic uint64_t sc_pressure_records; /* taken by all sinks of the process */

#endif
