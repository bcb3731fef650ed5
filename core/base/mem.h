/*
 * mem: allocation that does not fail.
 *
 * An engine that has no memory for a hundred bytes cannot take a checkpoint either; unwinding
 * every path for it would be code that never runs. Out of memory ends the process with one
 * sentence; the last checkpoint is on disk. Memory from here is freed with free().
 * Threads: any.
 */
#ifndef SC_BASE_MEM_H
#define SC_BASE_MEM_H

#include <stddef.h>
#include <stdlib.h>

void *sc_malloc(size_t size);                 /* size 0 gives a unique pointer */
void *sc_calloc(size_t count, size_t size);   /* zeroed */
void *sc_realloc(void *old, size_t size);     /* as realloc; never NULL for size > 0 */
/* Memory of `size` bytes, a multiple of SC_HUGE_BYTES, aligned to that, which the system may back
 * by huge pages: what is read all over then costs fewer look-ups of addresses. */
#define SC_HUGE_BYTES ((size_t)2 << 20)
void *sc_huge_alloc(size_t size);
char *sc_strdup(const char *text);            /* NULL gives NULL */
char *sc_strndup(const char *text, size_t n); /* n bytes and a final zero */
char *sc_format(const char *format, ...) __attribute__((format(printf, 1, 2))); /* like asprintf */

#endif
