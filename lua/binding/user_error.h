/*
 * user_error: what becomes of an error in a user's function.
 *
 * By default it fails the task with SC_EUSER: operator, message, record (shortened), traceback.
 * on_error = "skip" sends {error, record} to the side output "errors" where there is one, counts
 * numRecordsSkipped, and goes on; a function is called with (message, record, ctx) and its own
 * errors fail the task. What the function had emitted before it failed stays emitted.
 *
 * Threads: the slot's. Promise: nothing raises; the coroutine is reset and usable afterwards.
 */
#ifndef LSC_USER_ERROR_H
#define LSC_USER_ERROR_H

#include "runner.h"

/* The coroutine ended with `status`, its error object at its top: 0 (go on) or a failure. */
int lsc__user_raised(lsc_op_t *op, int status, sc_error_t *err);
/* The function did something it must not, in a sentence of ours; no traceback but where it is
 * suspended. */
int lsc__user_reject(lsc_op_t *op, sc_error_t *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A function without a record (open, close) failed: never skipped. */
int lsc__user_failed(lsc_op_t *op, const char *where, int status, sc_error_t *err);

#endif
