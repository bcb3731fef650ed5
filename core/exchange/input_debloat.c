/*
 * input_debloat: what an input tells the senders of its gates about the size of their buffers (its
 * header is input.h).
 */
#include "input_parts.h"

static uint32_t edge_of(const sc_input_t *in, uint32_t source) {
  return sc_channel_name(in->sources[source].channel)->edge;
}

/* Behind the last channel of the gate that begins at `first`. */
static uint32_t gate_end(const sc_input_t *in, uint32_t first) {
  uint32_t end = first + 1;
  while (end < in->n && edge_of(in, end) == edge_of(in, first))
    end++;
  return end;
}

uint32_t sc_input_n_gates(const sc_input_t *in) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < in->n; i = gate_end(in, i))
    n++;
  return n;
}

/* Bytes that were read so far: without what is left of buffers that were taken. With slow records a
 * buffer may take many periods. */
static uint64_t bytes_read(const sc_input_t *in) {
  sc_usage_t u = {0};
  uint64_t unread = in->rest.len;
  sc_input_usage(in, &u);
  for (uint32_t i = 0; i < in->n; i++)
    if (in->sources[i].parked)
      unread += in->sources[i].rest.len;
  return u.passed_bytes - u.bytes - unread;
}

void sc_input_debloat(sc_input_t *in, sc_debloater_t *d, int64_t now_ns, int64_t active_ns) {
  uint64_t bytes = bytes_read(in);
  if (in->replay) {
    sc_debloater_skip(d, now_ns, bytes, active_ns);
    return;
  }
  sc_debloater_measure(d, now_ns, bytes, active_ns);
  for (uint32_t first = 0, gate = 0, end; first < in->n; first = end, gate++) {
    sc_usage_t u = {0};
    end = gate_end(in, first);
    for (uint32_t i = first; i < end; i++)
      sc_usage_add(&u, in->sources[i].channel);
    uint32_t size = sc_debloater_gate(d, gate, u.units);
    for (uint32_t i = first; size && i < end; i++)
      sc_channel_set_buffer_size(in->sources[i].channel, size);
  }
}
