/* probe_metadata: handles, snapshots and metadata as Lua tables, with the field names of
 * metadata.h's body; checksums are Lua integers. Tables go both ways. Test only. */
#ifndef SC_SPEC_PROBE_METADATA_H
#define SC_SPEC_PROBE_METADATA_H

#include "../../core/snapshot/metadata.h"
#include "probe.h"

void probe_to_handle(lua_State *L, int table, sc_handle_t *h);   /* h is empty */
void probe_push_handle(lua_State *L, const sc_handle_t *h);
sc_metadata_t *probe_to_metadata(lua_State *L, int table);       /* for the caller to destroy */
/* The one operator in a table as metadata of its own. */
sc_metadata_t *probe_to_operator(lua_State *L, int table);
void probe_push_metadata(lua_State *L, const sc_metadata_t *m);

#endif
