/*
 * families: the kinds of Lua operators, each a few functions over the runner.
 *
 * Results that a function must give are checked here, with a sentence that names the cure.
 */
#ifndef LSC_FAMILIES_H
#define LSC_FAMILIES_H

#include "runner.h"

/* functions.c */
extern const lsc_family_t lsc__map, lsc__filter, lsc__flat_map, lsc__key_by, lsc__timestamps,
    lsc__process, lsc__reduce, lsc__sink;
/* source.c, push_source.c, generator.c */
extern const lsc_family_t lsc__source, lsc__push_source, lsc__generator;

int lsc__source_list_splits(void *data, sc_bytes_t options, uint32_t parallelism, void *host,
                            sc_buf_t *out, sc_error_t *err);
int lsc__push_source_list_splits(void *data, sc_bytes_t options, uint32_t parallelism, void *host,
                                 sc_buf_t *out, sc_error_t *err);
int lsc__generator_list_splits(void *data, sc_bytes_t options, uint32_t parallelism, void *host,
                               sc_buf_t *out, sc_error_t *err);

#endif
