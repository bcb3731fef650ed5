/* probe_storage: a storage for specs. It passes everything on to the local file system, keeps a log
 * of the operations, and fails one on demand: the n-th of a kind, or the write that reaches a byte.
 * With `dead` everything after the failure fails, too, as if the process had been killed there. */
#ifndef SC_SPEC_PROBE_STORAGE_H
#define SC_SPEC_PROBE_STORAGE_H

#include "../../core/snapshot/storage.h"
#include "probe.h"

sc_storage_t *probe_check_storage(lua_State *L, int arg);
void probe_storage(lua_State *L); /* sets its functions in the table at the top of the stack */

#endif
