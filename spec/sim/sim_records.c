/* What operators make of records, and their bytes: the part that the model shares. */
#include <stdarg.h>
#include <stdio.h>

#include "sim_operators.h"

void sim_source_record(const sim_node_t *n, int64_t split, int64_t seq, sim_record_t *out) {
  int64_t lane = sim_mix(n->salt, split);
  *out = (sim_record_t){.k = sim_mix(lane, seq) % n->keys,
                        .l = lane,
                        .s = seq,
                        .t = 0,
                        .v = sim_mix(seq, lane) % 1000,
                        .ts = sim_timestamp(n, split, seq)};
}

sim_record_t sim_pass_record(const sim_node_t *n, const sim_record_t *in) {
  sim_record_t out = *in;
  out.l = sim_mix(n->salt, in->l);
  return out;
}

uint32_t sim_map_record(const sim_node_t *n, const sim_record_t *in, sim_record_t out[2]) {
  int64_t lot = sim_mix(in->l, in->s);
  out[0] = out[1] = sim_pass_record(n, in);
  out[1].l = sim_mix(out[0].l, 1);
  switch (n->map) {
    case SIM_FILTER: return lot % 3 != 0;
    case SIM_FLAT: return (uint32_t)(lot % 3);
    case SIM_REKEY:
      out[0].l = sim_mix(out[0].l, in->k); /* other lanes: keys that meet keep no order */
      out[0].k = in->k / 2;
      return 1;
    default: return 1;
  }
}

int64_t sim_window_end(const sim_node_t *n, const sim_record_t *in) {
  return in->ts / n->window_ms * n->window_ms + n->window_ms - 1;
}

void sim_window_add(int64_t digest[2], const sim_record_t *in) {
  digest[0]++;
  digest[1] = (digest[1] + sim_mix(in->l + in->v, in->s)) % 1000000007;
}

sim_record_t sim_window_record(const sim_node_t *n, int64_t key, int64_t end,
                               const int64_t digest[2]) {
  return (sim_record_t){.k = key,
                        .l = sim_mix(n->salt, -1),
                        .s = end,
                        .t = 1,
                        .v = digest[1] * 1000 + digest[0],
                        .ts = end};
}

bool sim_has_pt(const sim_node_t *n, const sim_record_t *in) {
  return n->pt && sim_mix(in->l, in->s + 5) % 3 == 0;
}

sim_record_t sim_pt_record(const sim_node_t *n, const sim_record_t *in) {
  sim_record_t out = *in;
  out.l = sim_mix(n->salt + 1, in->l);
  out.t = 2;
  out.v = 0;
  return out;
}

void sim_record_pack(const sim_record_t *r, sc_buf_t *out) {
  static const char *const names[] = {"k", "l", "s", "t", "v"};
  const int64_t fields[] = {r->k, r->l, r->s, r->t, r->v};
  sc_pack_map(out, 5);
  for (int i = 0; i < 5; i++) {
    sc_pack_cstr(out, names[i]);
    sc_pack_int(out, fields[i]);
  }
}

void sim_record_unpack(sc_bytes_t value, sim_record_t *out) {
  *out = (sim_record_t){.k = sc_value_field_int(value, "k", -1),
                        .l = sc_value_field_int(value, "l", -1),
                        .s = sc_value_field_int(value, "s", -1),
                        .t = sc_value_field_int(value, "t", -1),
                        .v = sc_value_field_int(value, "v", -1)};
}

void sim_wrong(sim_shared_t *shared, const char *format, ...) {
  if (shared->failure[0])
    return; /* the first one counts */
  va_list args;
  va_start(args, format);
  vsnprintf(shared->failure, sizeof shared->failure, format, args);
  va_end(args);
}
