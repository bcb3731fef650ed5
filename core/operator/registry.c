/* registry: the native operator types by name (sc_operator_type_find in runtime/operator.h). */
#include <stdlib.h>

#include "collect_sink.h"
#include "file_sink.h"
#include "file_source.h"
#include "print_sink.h"
#include "values_source.h"
#include "watermarks.h"

/* Sorted by kind: it is searched by halves. */
static const sc_operator_type_t *const types[] = {
    &sc_collect_sink_type, &sc_file_sink_type,     &sc_file_source_type,
    &sc_print_sink_type,   &sc_values_source_type, &sc_watermarks_type,
};

static int compare(const void *kind, const void *type) {
  return strcmp(kind, (*(const sc_operator_type_t *const *)type)->kind);
}

const sc_operator_type_t *sc_operator_type_find(const char *kind) {
  const sc_operator_type_t *const *found =
      bsearch(kind, types, sizeof types / sizeof *types, sizeof *types, compare);
  return found ? *found : NULL;
}
