/*
 * job_handle: a job as Lua's C side sees it: the userdata that core.start returns.
 *
 * Methods: id() status() wait([ms]) cancel() checkpoint() statistics() metrics() rows(uid)
 * poll_events() fd(). lua/streamckpt/job.lua is the face that users see; it says what each means.
 * What can fail at run time returns nil, "ECODE: message", "ECODE".
 *
 * Threads: the Lua state's own. Ownership: a handle holds one reference on its job; the job goes on
 * without it. Waiting blocks the script in poll; a signal ends the wait so that Lua's own handler
 * raises (Ctrl-C), as Lua users expect. In a forked child every method raises: it has none of the
 * engine's threads.
 */
#ifndef LSC_JOB_HANDLE_H
#define LSC_JOB_HANDLE_H

#include <lua.h>

#include "../../core/runtime/job.h"

#define LSC_JOB "streamckpt.core.job"

void lsc_job_open(lua_State *L);             /* registers the metatable */
sc_job_t **lsc_job_box(lua_State *L);        /* pushes an empty handle; put the job into *box */
bool lsc_engine_runs(void); /* module.c: false before the first start and from the shutdown on */
/* nil, "ECODE: message", "ECODE"; clears err. Returns 3. */
int lsc_push_failure(lua_State *L, int rc, sc_error_t *err);

#endif
