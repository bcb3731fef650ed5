#include "enumerator.h"

#include <stdlib.h>

#include "../base/mem.h"
#include "../base/planted.h"
#include "../data/value.h"

struct sc_enumerator {
  bool finding;       /* the splits are not known yet */
  sc_buf_t bytes;     /* all splits, one msgpack value after the other */
  sc_cursor_t undealt;/* into bytes: those not dealt yet */
  uint32_t n_undealt; /* how many */
  uint32_t readers;   /* how many */
  bool *asking;       /* readers: is in the queue */
  bool *asked;        /* readers: has ever asked */
  bool *held;         /* readers: asked for more before every other one had asked */
  uint32_t n_asked;   /* of asked */
  uint32_t *queue;    /* ring of `readers` entries: who asks, first come first served */
  uint32_t first, count; /* of the queue */
};

sc_enumerator_t *sc_enumerator_create(uint32_t readers) {
  sc_enumerator_t *e = sc_calloc(1, sizeof *e);
  e->finding = true;
  e->readers = readers;
  e->asking = sc_calloc(readers, sizeof *e->asking);
  e->asked = sc_calloc(readers, sizeof *e->asked);
  e->held = sc_calloc(readers, sizeof *e->held);
  e->queue = sc_calloc(readers, sizeof *e->queue);
  return e;
}

void sc_enumerator_destroy(sc_enumerator_t *e) {
  if (!e)
    return;
  sc_buf_free(&e->bytes);
  free(e->asking);
  free(e->asked);
  free(e->held);
  free(e->queue);
  free(e);
}

/* Take over a checked msgpack array. */
static int deal_from(sc_enumerator_t *e, sc_bytes_t splits, sc_error_t *err) {
  sc_cursor_t cursor = sc_cursor(splits);
  sc_token_t token;
  if (sc_value_check(splits, err) < 0)
    return sc_fail_cause(err, SC_EVALUE, "the list of splits is not a value");
  if (sc_cursor_next(&cursor, &token) != 1 || token.type != SC_ARRAY)
    return sc_fail(err, SC_EVALUE, "the splits of a source must be a list");
  sc_buf_clear(&e->bytes);
  sc_buf_put(&e->bytes, cursor.at, (size_t)(cursor.end - cursor.at));
  e->undealt = sc_cursor(sc_buf_bytes(&e->bytes));
  e->n_undealt = token.n;
  e->finding = false;
  return 0;
}

int sc_enumerator_found(sc_enumerator_t *e, sc_bytes_t splits, sc_error_t *err) {
  if (!e->finding)
    return sc_fail(err, SC_EINVAL, "the splits of this source were found before");
  return deal_from(e, splits, err);
}

static void enqueue(sc_enumerator_t *e, uint32_t reader) {
  e->held[reader] = false;
  if (e->asking[reader])
    return;
  e->asking[reader] = true;
  e->queue[(e->first + e->count++) % e->readers] = reader;
}

void sc_enumerator_ask(sc_enumerator_t *e, uint32_t reader, bool more) {
  sc_assert(reader < e->readers);
  e->n_asked += !e->asked[reader];
  e->asked[reader] = true;
  if (more)
    e->held[reader] = true;
  else
    enqueue(e, reader);
  for (uint32_t i = 0; e->n_asked == e->readers && i < e->readers; i++)
    if (e->held[i])
      enqueue(e, i);
}

int sc_enumerator_next(sc_enumerator_t *e, sc_assignment_t *out) {
  if (e->finding || e->count == 0)
    return 0;
  *out = (sc_assignment_t){.reader = e->queue[e->first], .no_more = e->n_undealt == 0};
  e->first = (e->first + 1) % e->readers;
  e->count--;
  e->asking[out->reader] = false;
  if (!out->no_more) {
    int got = sc_cursor_value(&e->undealt, &out->split);
    sc_assert(got == 1); /* the array was checked as a whole */
    e->n_undealt--;
  }
  return 1;
}

void sc_enumerator_snapshot(const sc_enumerator_t *e, sc_buf_t *out) {
  sc_cursor_t splits = e->undealt;
  uint32_t n = e->n_undealt;
  if (SC_PLANTED(SPLIT_TWICE)) {
    splits = sc_cursor(sc_buf_bytes(&e->bytes));
    sc_cursor_t all = splits;
    for (n = 0; sc_cursor_skip(&all) == 1;)
      n++;
  }
  sc_pack_map(out, 2);
  sc_pack_cstr(out, "found");
  sc_pack_bool(out, !e->finding);
  sc_pack_cstr(out, "splits");
  sc_pack_array(out, n);
  sc_buf_put(out, splits.at, (size_t)(splits.end - splits.at));
}

int sc_enumerator_restore(sc_enumerator_t *e, sc_bytes_t state, sc_error_t *err) {
  sc_bytes_t splits;
  if (sc_value_check(state, err) < 0)
    return sc_fail_cause(err, SC_ECORRUPT, "the saved state of a source's splits is damaged");
  if (!sc_value_field_bool(state, "found", false)) {
    e->finding = true;
    return 0;
  }
  if (sc_value_field(state, sc_bytes_str("splits"), &splits) != 1 || deal_from(e, splits, err) < 0)
    return sc_fail_cause(err, SC_ECORRUPT, "the saved state of a source's splits lists none");
  return 0;
}

bool sc_enumerator_finding(const sc_enumerator_t *e) {
  return e->finding;
}
