/* probe_graph: graphs as Lua tables, for specs of graphs and of what runs them.
 *
 * A graph is {nodes = {...}, edges = {...}}; a node {uid =, name =, parallelism =,
 * max_parallelism =, source =, keyed =, new_chain =, no_chain =, outputs = {...}}; an edge
 * {from, to, output =, port =, by =, key = {...}} with nodes by their position from 1. */
#ifndef SC_SPEC_PROBE_GRAPH_H
#define SC_SPEC_PROBE_GRAPH_H

#include "../../core/runtime/graph.h"
#include "probe.h"

/* From the table at the top of the stack; NULL and err. */
sc_graph_t *probe_read_graph(lua_State *L, sc_error_t *err);

/* Fields of the table at the top of the stack; a string lives as long as the table. */
lua_Integer probe_opt_int(lua_State *L, const char *name, lua_Integer otherwise);
bool probe_opt_bool(lua_State *L, const char *name);
const char *probe_opt_str(lua_State *L, const char *name, const char *otherwise);

#endif
