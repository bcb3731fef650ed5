/*
 * print_sink: each value as one line of JSON on standard output, for people who look.
 *
 * Options: prefix (string, written before each value). A line is written in one call, so lines of
 * several subtasks do not mix; what the C library gathered is flushed when the task has nothing to
 * read, at each snapshot, and at the end. Not exactly once: after a failure lines appear again.
 *
 * Threads: the slot's. Failure: SC_EIO where standard output cannot be written.
 */
#ifndef SC_OPERATOR_PRINT_SINK_H
#define SC_OPERATOR_PRINT_SINK_H

#include "../runtime/operator.h"

extern const sc_operator_type_t sc_print_sink_type;

#endif
