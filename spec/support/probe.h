/* probe: how specs drive core's rooms from Lua. Test only. Each probe_<folder>.c adds the functions
 * of one folder of core/ to the table that require "streamckpt.probe" returns. */
#ifndef SC_SPEC_PROBE_H
#define SC_SPEC_PROBE_H

#include <lauxlib.h>
#include <lua.h>

#include "../../core/base/buf.h"
#include "../../core/base/error.h"

/* Each sets its functions in the table at the top of the stack. */
void probe_base(lua_State *L);
void probe_data(lua_State *L);
void probe_snapshot(lua_State *L);
void probe_exchange(lua_State *L);
void probe_inflight(lua_State *L); /* snapshot, exchange, runtime: what was in flight */
void probe_state(lua_State *L);
void probe_cells(lua_State *L);    /* core/state's cells, and windows under two threads */
void probe_flow(lua_State *L);     /* core/runtime/flow: where a task's time goes */
void probe_debloat(lua_State *L);  /* core/exchange/debloater: how large buffers shall be */
void probe_explain(lua_State *L);
void probe_checkpoint(lua_State *L);
void probe_operator(lua_State *L);
void probe_graph(lua_State *L);
void probe_chain(lua_State *L);
void probe_world(lua_State *L);    /* the world of threads */
void probe_job(lua_State *L);      /* whole jobs of native operators */
void probe_codec(lua_State *L);    /* lua/binding/codec */
void probe_binding(lua_State *L);  /* the rest of lua/binding */

/* Raise err as "ENAME: sentence" and clear it. */
int probe_raise(lua_State *L, sc_error_t *err);
/* rc < 0: return nil, "ENAME: sentence", "ENAME" (err is cleared); the number of results. */
int probe_fail(lua_State *L, int rc, sc_error_t *err);
sc_bytes_t probe_bytes(lua_State *L, int arg);            /* string argument as bytes */
void probe_push_bytes(lua_State *L, sc_bytes_t b);
/* A field of the table at an index. */
lua_Integer probe_get_int(lua_State *L, int table, const char *name, lua_Integer otherwise);
bool probe_get_bool(lua_State *L, int table, const char *name);

#endif
