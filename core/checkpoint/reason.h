/*
 * reason: why a checkpoint, or a request for one, did not complete.
 *
 * Pure names; any thread.
 */
#ifndef SC_CHECKPOINT_REASON_H
#define SC_CHECKPOINT_REASON_H

typedef enum {
  SC_REASON_NONE,
  SC_REASON_EXPIRED,            /* counted as failures: the first five */
  SC_REASON_DECLINED,
  SC_REASON_ASYNC_FAILED,
  SC_REASON_IO,                 /* the folder could not be made, ids not reserved */
  SC_REASON_FINALIZE,           /* _metadata could not be written */
  SC_REASON_SUBSUMED,
  SC_REASON_TASK_FAILED,
  SC_REASON_TASK_CLOSING,
  SC_REASON_SUPERSEDED,         /* a task saw a newer barrier first */
  SC_REASON_NOT_RUNNING,        /* preflight: a task is not running */
  SC_REASON_TOO_MANY_REQUESTS,  /* preflight: the queue of 1,000 is full */
  SC_REASON_STOPPED,            /* the job left RUNNING */
  SC_REASON_STOPPING            /* preflight: another stop is under way */
} sc_reason_t;

/* A sentence without its full stop, for messages. Static string. */
const char *sc_reason_text(sc_reason_t reason);

#endif
