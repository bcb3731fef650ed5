#include "usage.h"

#include "channel_parts.h"

void sc_usage_add(sc_usage_t *u, sc_channel_t *ch) {
  pthread_mutex_lock(&ch->lock);
  u->buffers += ch->buffers;
  u->bytes += ch->bytes;
  u->passed_buffers += ch->passed_buffers;
  u->passed_bytes += ch->passed_bytes;
  u->units += ch->units;
  u->exclusive += ch->exclusive;
  u->exclusive_used += ch->units < ch->exclusive ? ch->units : ch->exclusive;
  u->borrowed += ch->borrowed;
  pthread_mutex_unlock(&ch->lock);
  uint32_t size = sc_channel_buffer_size(ch);
  u->buffer_size = size > u->buffer_size ? size : u->buffer_size;
  if (!ch->floating || ch->floating == u->last)
    return;
  u->last = ch->floating;
  u->floating += sc_floating_units(ch->floating);
  u->available += sc_floating_available(ch->floating);
}

static double share(uint64_t part, uint64_t whole) {
  return whole ? (double)part / (double)whole : 0.0;
}

double sc_usage_in_pool(const sc_usage_t *u) {
  return share(u->units, u->exclusive + u->floating);
}

double sc_usage_out_pool(const sc_usage_t *u) {
  return share(u->units, u->exclusive + u->borrowed + u->available);
}

double sc_usage_exclusive(const sc_usage_t *u) {
  return share(u->exclusive_used, u->exclusive);
}

double sc_usage_floating(const sc_usage_t *u) {
  return share(u->borrowed, u->floating);
}
