/*
 * allocator: the memory of one slot's Lua state.
 *
 * A record that goes through Lua makes and drops some ten small objects. A state is used by one
 * thread, and Lua says how large what it frees is: so a list of free blocks for each size does,
 * where malloc takes a sixth of the slot's time (measured, records of five fields). Blocks of up to
 * 512 bytes come from chunks that are given back when the state is closed; larger ones are the
 * system's. Under AddressSanitizer all are, so that it sees every object.
 *
 * Threads: the slot's. Ownership: create before the state, destroy after lua_close.
 * Failure: NULL where memory is short, which Lua turns into an error of its own.
 */
#ifndef LSC_ALLOCATOR_H
#define LSC_ALLOCATOR_H

#include <stddef.h>

typedef struct lsc_allocator lsc_allocator_t;

lsc_allocator_t *lsc_allocator_create(void);
void lsc_allocator_destroy(lsc_allocator_t *a); /* NULL is fine */
/* A lua_Alloc; `a` is the allocator. */
void *lsc_allocate(void *a, void *old, size_t old_size, size_t size);

#endif
