/*
 * list_plan: redistribution of operator list states (redistribute.h says how), inside this folder
 * only.
 *
 * Threads: pure. Ownership: fills `lists` of the plan's subtasks; borrows nothing afterwards.
 * Failure: SC_ECORRUPT where list bytes are not what handle.h says, or name a list with two modes.
 */
#ifndef SC_SNAPSHOT_LIST_PLAN_H
#define SC_SNAPSHOT_LIST_PLAN_H

#include "redistribute.h"

int sc__list_plan(const sc_metadata_operator_t *old, sc_restore_operator_t *plan, sc_error_t *err);

#endif
