#include "reason.h"

const char *sc_reason_text(sc_reason_t reason) {
  switch (reason) {
    case SC_REASON_NONE: return "the checkpoint did not fail";
    case SC_REASON_EXPIRED: return "the checkpoint expired before all tasks acknowledged it";
    case SC_REASON_DECLINED: return "a task declined the checkpoint";
    case SC_REASON_ASYNC_FAILED: return "a task could not write its part of the checkpoint";
    case SC_REASON_IO: return "the checkpoint's folder or its id could not be made durable";
    case SC_REASON_FINALIZE: return "the checkpoint's _metadata could not be written";
    case SC_REASON_SUBSUMED: return "a newer checkpoint completed first";
    case SC_REASON_TASK_FAILED: return "a task failed";
    case SC_REASON_TASK_CLOSING: return "a task was about to leave";
    case SC_REASON_SUPERSEDED: return "a task met a newer checkpoint before it had taken this one";
    case SC_REASON_NOT_RUNNING: return "not all tasks that it needs are running";
    case SC_REASON_TOO_MANY_REQUESTS: return "too many checkpoint requests are waiting";
    case SC_REASON_STOPPED: return "the job is no longer running";
    case SC_REASON_STOPPING: return "the job is being stopped already";
  }
  return "the checkpoint failed for an unknown reason";
}
