/*
 * chain_write: what the operators of a chain emit, written to exchanges (its header is chain.h).
 *
 * A value is encoded once, however many exchanges it goes to; each hash exchange adds the key.
 */
#include "chain.h"

#include "../data/key.h"

bool sc__chain_ask_room(sc_chain_t *c) {
  c->full = true;
  for (uint32_t i = 0; i < c->n_outputs; i++)
    if (!sc_output_has_room(c->outputs[i]))
      return false;
  c->pushed = c->full = false;
  c->overdrawn = 0;
  return true;
}

static inline int encode_value(sc_chain_t *c, const sc_item_t *item, sc_bytes_t *value,
                               sc_error_t *err) {
  *value = sc_bytes_just_stored(&item->bytes);
  if (!item->opaque_ops)
    return 0;
  sc_buf_clear(&c->value);
  int rc = item->opaque_ops->encode(item->opaque, &c->value, err);
  *value = sc_buf_bytes(&c->value);
  return rc;
}

/* Append the key bytes of one field to c->key. */
static int field_key(sc_chain_t *c, const sc_item_t *item, const char *name, sc_bytes_t value,
                     sc_error_t *err) {
  sc_bytes_t field;
  sc_buf_clear(&c->part);
  int found;
  if (item->opaque_ops) {
    found = item->opaque_ops->field(item->opaque, sc_bytes_str(name), &c->part, err);
    field = sc_buf_bytes(&c->part);
  } else {
    found = sc_value_field(value, sc_bytes_str(name), &field);
  }
  int rc = found <= 0 ? found : sc_key_append(&c->key, field, err);
  if (rc < 0 || !found) {
    sc_buf_t shown = SC_BUF_INIT;
    sc_value_print(value, 200, &shown);
    if (!found)
      rc = sc_fail(err, SC_EKEY, "the key field \"%s\" is nil in %.*s", name, (int)shown.len,
                   (char *)shown.data);
    else
      rc = sc_fail_cause(err, rc, "the field \"%s\" of %.*s cannot be a key", name, (int)shown.len,
                         (char *)shown.data);
    sc_buf_free(&shown);
  }
  return rc;
}

/* The key of an item on a hash edge: its own, or made from its fields in c->key. */
static int find_key(sc_chain_t *c, const sc_edge_t *e, const sc_item_t *item, sc_bytes_t value,
                    sc_bytes_t *key, sc_error_t *err) {
  if (!e->key) {
    *key = sc_bytes_just_stored(&item->key);
    return item->has_key ? 0 : sc_fail(err, SC_EKEY, "a record reached key_by without a key");
  }
  sc_buf_clear(&c->key);
  if (e->n_key > 1)
    sc_pack_array(&c->key, e->n_key);
  for (uint32_t i = 0; i < e->n_key; i++) {
    int rc = field_key(c, item, e->key[i], value, err);
    if (rc < 0)
      return rc;
  }
  *key = sc_buf_bytes(&c->key);
  return 0;
}

int sc_chain_write(sc_link_t *link, const sc_item_t *item, sc_error_t *err) {
  sc_chain_t *c = link->chain;
  const sc_route_t *r = &link->routes[item->output];
  sc_chain_count_one(&link->records_out);
  if (r->n_exits == 0)
    return 0;
  uint8_t flags = item->has_timestamp ? SC_RECORD_HAS_TIMESTAMP : 0;
  sc_record_t record = {.kind = SC_RECORD_DATA, .timestamp = item->timestamp};
  int rc = encode_value(c, item, &record.value, err);
  for (uint32_t i = 0; rc >= 0 && i < r->n_exits; i++) {
    const sc_exit_t *exit = &r->exits[i];
    record.flags = flags;
    if (exit->edge->partitioner == SC_HASH) {
      rc = find_key(c, exit->edge, item, record.value, &record.key, err);
      if (rc < 0)
        break;
      record.flags |= SC_RECORD_HAS_KEY;
      record.key_group = sc_key_group(record.key, sc_output_max_parallelism(exit->output));
    }
    if (sc_output_emit(exit->output, &record)) {
      c->pushed = true;
      c->overdrawn += c->full;
    }
  }
  if (rc < 0)
    sc_error_set_operator(err, link->label);
  return rc < 0 ? rc : !sc_chain_goes_on(c);
}
