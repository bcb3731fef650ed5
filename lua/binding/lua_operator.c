#include "lua_operator.h"

#include "families.h"

/* A type's create is given no type: each kind has its own. */
#define CREATE(name)                                                                       \
  static int create_##name(void *data, sc_bytes_t options, sc_op_context_t *context,       \
                           sc_operator_t **out, sc_error_t *err) {                         \
    return lsc__op_create(&lsc__##name, data, options, context, out, err);                 \
  }

CREATE(filter)
CREATE(flat_map)
CREATE(generator)
CREATE(key_by)
CREATE(map)
CREATE(process)
CREATE(push_source)
CREATE(reduce)
CREATE(sink)
CREATE(source)
CREATE(timestamps)

#define ELEMENT(name) \
  {.kind = #name, .replayable = true, .exactly_once = true, .create = create_##name}

static const sc_operator_type_t types[] = {
    ELEMENT(filter),
    ELEMENT(flat_map),
    {.kind = "generator",
     .is_source = true,
     .replayable = true,
     .exactly_once = true,
     .create = create_generator,
     .list_splits = lsc__generator_list_splits},
    ELEMENT(key_by),
    ELEMENT(map),
    ELEMENT(process),
    /* What it was given is nobody's to give again. */
    {.kind = "push_source",
     .is_source = true,
     .replayable = false,
     .exactly_once = true,
     .create = create_push_source,
     .list_splits = lsc__push_source_list_splits,
     .in_pool = true},
    ELEMENT(reduce),
    /* A function that is called again after a restart may have had its effect before. */
    {.kind = "sink", .replayable = true, .exactly_once = false, .create = create_sink},
    {.kind = "source",
     .is_source = true,
     .replayable = true,
     .exactly_once = true,
     .create = create_source,
     .list_splits = lsc__source_list_splits},
    ELEMENT(timestamps),
};

const sc_operator_type_t *lsc_operator_type(const char *kind) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(types[i].kind, kind) == 0)
      return &types[i];
  return NULL;
}
