/*
 * values_source: the values given in the script, in their order, each once.
 *
 * Options: values (array, required). There is one split, {from = 0}, so one reader emits them all
 * and keeps their order whatever the parallelism. State: list "splits" (split), {at = n} while the
 * split is unfinished: n values have been emitted.
 *
 * Threads: the slot's. Ownership: values are read where they lie in the options.
 * Failure: SC_EINVAL for options; SC_ESTATE where a snapshot stands behind the end of the values
 * (they were changed since).
 */
#ifndef SC_OPERATOR_VALUES_SOURCE_H
#define SC_OPERATOR_VALUES_SOURCE_H

#include "../runtime/operator.h"

extern const sc_operator_type_t sc_values_source_type;

#endif
