/*
 * plan: from the table that the face makes (lua/streamckpt/plan.lua, env.lua) to a graph and
 * options.
 *
 * The face has checked what users typed; here only shapes are read, and what core refuses comes
 * back as an error. Raises for out of memory only; everything made so far hangs on the box, so
 * nothing leaks then.
 *
 * Threads: the Lua state's own. Ownership: a box owns what is in it until it is taken out.
 */
#ifndef LSC_PLAN_H
#define LSC_PLAN_H

#include <lua.h>

#include "../../core/runtime/job.h"

typedef struct lsc_plan {
  sc_graph_t *graph;        /* taken by sc_job_start */
  sc_job_options_t options; /* strings borrowed from the plan's table, which stays on the stack */
  struct lsc_job_host *host; /* taken with options.host.arg */
  const char **warnings;
} lsc_plan_t;

void lsc_plan_open(lua_State *L); /* registers the metatable of boxes */
/* Push a box and read the plan table at `index` into it. 0 or a negative code. */
int lsc_plan_read(lua_State *L, int index, lua_CFunction open_core, lsc_plan_t **out,
                  sc_error_t *err);

#endif
