/*
 * collect_sink: hands values to the job's main side, where result:rows(uid) finds them.
 *
 * With checkpoints, the rows since the last snapshot are delivered at snapshot n for n, and become
 * visible when n, or a later checkpoint, completes: so an aborted n loses no row, and a row of an
 * attempt that failed before is never seen. Without checkpoints rows are delivered for id 0, at
 * once visible, in batches, when the task has nothing to read, and at the end.
 *
 * Options: none. Threads: the slot's. Failure: that of encoding a value.
 */
#ifndef SC_OPERATOR_COLLECT_SINK_H
#define SC_OPERATOR_COLLECT_SINK_H

#include "../runtime/operator.h"

#define SC_COLLECT_BATCH 1024 /* rows delivered at a time without checkpoints */

extern const sc_operator_type_t sc_collect_sink_type;

#endif
