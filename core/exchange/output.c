#include "output.h"

#include "../base/error.h"
#include "../base/mem.h"
#include "../base/planted.h"

typedef struct lane {
  sc_channel_t *channel; /* borrowed */
  sc_buffer_t *current;  /* being filled, never full; or NULL */
} lane_t;

struct sc_output {
  sc_partitioner_t partitioner; /* says which lane */
  sc_pool_t *pool;              /* borrowed */
  uint64_t records, bytes;      /* sc_output_counts */
  bool idle;                    /* the status sent last */
  lane_t lanes[];               /* partitioner.n_channels */
};

sc_output_t *sc_output_create(const sc_partitioner_t *p, sc_channel_t **channels, sc_pool_t *pool) {
  sc_output_t *o = sc_calloc(1, sizeof *o + p->n_channels * sizeof(lane_t));
  o->partitioner = *p;
  o->pool = pool;
  for (uint32_t i = 0; i < p->n_channels; i++)
    o->lanes[i].channel = channels[i];
  return o;
}

void sc_output_destroy(sc_output_t *o) {
  if (!o)
    return;
  for (uint32_t i = 0; i < o->partitioner.n_channels; i++)
    sc_buffer_unref(o->lanes[i].current);
  free(o);
}

static void seal(lane_t *lane) {
  if (lane->current)
    sc_channel_push_buffer(lane->channel, lane->current);
  lane->current = NULL;
}

/* A buffer that the record goes to the head of. */
static sc_buffer_t *begin(sc_output_t *o, lane_t *lane, size_t size) {
  sc_buffer_t *b = sc_pool_take(o->pool, size);
  uint32_t asked = sc_channel_buffer_size(lane->channel);
  if (asked && size > asked) {
    b->limit = (uint32_t)size;
    b->units = (uint32_t)((size + asked - 1) / asked);
  } else if (asked && asked < b->cap) {
    b->limit = asked;
  }
  return b;
}

static inline void put(sc_output_t *o, sc_buffer_t *b, const sc_record_t *r, size_t size) {
  sc_record_write(b->data + b->len, r, size);
  b->len += (uint32_t)size;
  b->records++;
  o->bytes += size;
}

/* Write the first record of a buffer, or one that fills it. True if a buffer was pushed. */
static bool write_at_edge(sc_output_t *o, lane_t *lane, const sc_record_t *r, size_t size) {
  bool pushed = lane->current && lane->current->limit - lane->current->len < size;
  if (pushed)
    seal(lane);
  if (!lane->current)
    lane->current = begin(o, lane, size);
  put(o, lane->current, r, size);
  if (lane->current->len < lane->current->limit)
    return pushed;
  seal(lane);
  return true;
}

static inline bool write(sc_output_t *o, lane_t *lane, const sc_record_t *r, size_t size) {
  sc_buffer_t *b = lane->current;
  if (!b || b->limit - b->len <= size)
    return write_at_edge(o, lane, r, size);
  put(o, b, r, size);
  return false;
}

static bool write_all(sc_output_t *o, const sc_record_t *r) {
  size_t size = sc_record_size(r);
  bool pushed = false;
  for (uint32_t i = 0; i < o->partitioner.n_channels; i++)
    pushed |= write(o, &o->lanes[i], r, size);
  return pushed;
}

bool sc_output_emit(sc_output_t *o, const sc_record_t *r) {
  uint32_t i = sc_partitioner_select(&o->partitioner, r->key_group);
  o->records++;
  return i == UINT32_MAX ? write_all(o, r) : write(o, &o->lanes[i], r, sc_record_size(r));
}

void sc_output_watermark(sc_output_t *o, int64_t watermark) {
  if (o->idle && watermark != SC_WATERMARK_MAX)
    sc_output_status(o, false);
  write_all(o, &(sc_record_t){.kind = SC_RECORD_WATERMARK,
                              .flags = SC_RECORD_HAS_TIMESTAMP,
                              .timestamp = watermark});
}

void sc_output_status(sc_output_t *o, bool idle) {
  static const uint8_t active_msgpack = 0xc3, idle_msgpack = 0xc2; /* true and false */
  o->idle = idle;
  write_all(o, &(sc_record_t){.kind = SC_RECORD_STATUS,
                              .value = sc_bytes(idle ? &idle_msgpack : &active_msgpack, 1)});
}

void sc_output_barrier(sc_output_t *o, const sc_barrier_t *b, bool now, sc_cut_t *cut) {
  for (uint32_t i = 0; i < o->partitioner.n_channels; i++) {
    if (!SC_PLANTED(BARRIER_OVERTAKES))
      seal(&o->lanes[i]);
    sc_channel_barrier(o->lanes[i].channel, b, now, cut);
  }
}

void sc_output_overtake(sc_output_t *o, uint64_t id) {
  for (uint32_t i = 0; i < o->partitioner.n_channels; i++)
    sc_channel_move(o->lanes[i].channel, id);
}

void sc_output_end(sc_output_t *o) {
  for (uint32_t i = 0; i < o->partitioner.n_channels; i++) {
    seal(&o->lanes[i]);
    sc_channel_push_end(o->lanes[i].channel);
  }
}

void sc_output_close(sc_output_t *o) {
  for (uint32_t i = 0; i < o->partitioner.n_channels; i++) {
    seal(&o->lanes[i]);
    sc_channel_push_close(o->lanes[i].channel);
  }
}

void sc_output_flush(sc_output_t *o) {
  for (uint32_t i = 0; i < o->partitioner.n_channels; i++)
    seal(&o->lanes[i]);
}

bool sc_output_has_room(sc_output_t *o) {
  /* Stopping at the first full channel is enough: its wake makes the task ask again. */
  for (uint32_t i = 0; i < o->partitioner.n_channels; i++)
    if (!sc_channel_has_room(o->lanes[i].channel))
      return false;
  return true;
}

bool sc_output_drained(sc_output_t *o) {
  for (uint32_t i = 0; i < o->partitioner.n_channels; i++)
    if (o->lanes[i].current || !sc_channel_empty(o->lanes[i].channel))
      return false;
  return true;
}

sc_partitioner_kind_t sc_output_kind(const sc_output_t *o) {
  return o->partitioner.kind;
}

uint32_t sc_output_max_parallelism(const sc_output_t *o) {
  return o->partitioner.max_parallelism;
}

void sc_output_counts(const sc_output_t *o, uint64_t *records, uint64_t *bytes) {
  if (records)
    *records = o->records;
  if (bytes)
    *bytes = o->bytes;
}

void sc_output_usage(const sc_output_t *o, sc_usage_t *u) {
  for (uint32_t i = 0; i < o->partitioner.n_channels; i++)
    sc_usage_add(u, o->lanes[i].channel);
}
