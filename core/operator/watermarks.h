/*
 * watermarks: gives records their event time, and says how far event time has come.
 *
 * Options: field (string; without it the timestamp that the record already has is used),
 * out_of_orderness (ms, >= 0, default 0). Each record is passed on with its timestamp. The
 * watermark is the greatest timestamp so far - out_of_orderness - 1; when it has grown, it follows
 * the 64th record since the last one, or comes when the task has nothing to read. It never goes
 * back, and depends on the records and on idleness only, not on a clock. Watermarks from upstream
 * stop here; the driver ends the stream with the last one.
 *
 * Timestamps are integers; a float is rounded down to a whole ms.
 *
 * State: list "max" (split): the greatest timestamp, where there was a record. A subtask restored
 * with several takes the least (late is safe, early is not), with none it begins anew.
 *
 * Threads: the slot's. Ownership: the value passes through, still its emitter's.
 * Failure: SC_EINVAL for options; SC_EVALUE, with operator, field and record, where a record has
 * no usable timestamp.
 */
#ifndef SC_OPERATOR_WATERMARKS_H
#define SC_OPERATOR_WATERMARKS_H

#include "../runtime/operator.h"

#define SC_WATERMARK_EVERY 64 /* records between two watermarks, at least */

extern const sc_operator_type_t sc_watermarks_type;

#endif
