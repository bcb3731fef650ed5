/*
 * lua_operator: operators that run users' Lua functions, as types that the runtime creates.
 *
 * Kinds: map filter flat_map key_by timestamps process reduce sink source push_source generator.
 * `data` given to a type's functions is an lsc_factory_t, context->host (and list_splits' host) the
 * slot's lsc_host_t. The options are a msgpack map that has outputs = [names]; the first is the
 * main one.
 *
 * What users should know, and what follows from how values travel:
 *   - Two Lua operators in one chain hand tables on by reference. A map may change its input and
 *     return it. Where one output has several consumers in the chain, all of them see one table, so
 *     none should change what it was given; each takes the value before the emitter goes on.
 *   - Across an exchange values are copied through msgpack, so what cannot be stored (a function,
 *     say) may travel within a chain but not out of it.
 *   - Items that key_by emits have has_key and the key's bytes, and key_group 0: the receiver's
 *     max_parallelism is not known here, so the driver computes the group.
 *   - on_error = "skip" or a function takes errors of functions that were given a record. Errors in
 *     open, on_timer and a source's read always fail the task: there is no record to set aside.
 *
 * Threads: as operator.h says, all on the slot's thread.
 * Ownership: an operator is destroyed before its host.
 * Failure: SC_EUSER names the operator, the message, the record (shortened) and the traceback.
 */
#ifndef LSC_LUA_OPERATOR_H
#define LSC_LUA_OPERATOR_H

#include "../../core/runtime/operator.h"
#include "host.h"

typedef struct lsc_factory {
  int index; /* 1-based index into root.operators */
} lsc_factory_t;

/* The type of a kind; NULL if it is none of the above. Static. */
const sc_operator_type_t *lsc_operator_type(const char *kind);

#endif
