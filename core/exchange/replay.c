#include "replay.h"

#include <inttypes.h>
#include <stdlib.h>

#include "../base/mem.h"
#include "../base/planted.h"
#include "../snapshot/inflight_file.h"

typedef struct virtual {
  const sc_virtual_channel_t *plan; /* borrowed */
  uint32_t port;
  int64_t watermark;       /* of the channel, where it is read now */
  bool idle;
} virtual_t;

typedef struct place {     /* in all that there is to read */
  uint32_t channel, part;
  uint64_t at;             /* where a block of that part begins */
} place_t;

typedef struct chunk {     /* what was read: whole blocks of one part */
  sc_buf_t blocks;
  place_t place;           /* of the first of them */
  bool there;
} chunk_t;

typedef struct gate { uint32_t edge, last; /* of its channels */ } gate_t;

struct sc_replay {
  virtual_t *channels;     /* n of them, in the order of reading */
  uint32_t n;
  gate_t *gates;           /* n_gates */
  uint32_t n_gates;
  place_t reader;          /* what is to be asked for next */
  bool asked;              /* a read is under way: it will be `ahead`, or `current` */
  place_t asked_for;
  chunk_t current, ahead;
  sc_bytes_t blocks;       /* of current, what is not begun */
  sc_bytes_t records;      /* of the block that is being read, the rest */
  place_t here;            /* that block, or the next one */
  uint32_t block;          /* its bytes, without the head; 0: none is being read */
};

sc_replay_t *sc_replay_create(void) {
  return sc_calloc(1, sizeof(sc_replay_t));
}

void sc_replay_destroy(sc_replay_t *r) {
  if (!r)
    return;
  sc_buf_free(&r->current.blocks);
  sc_buf_free(&r->ahead.blocks);
  free(r->channels);
  free(r->gates);
  free(r);
}

/* ---- places ---- */

static const sc_handle_t *handle_at(const sc_replay_t *r, const place_t *p) {
  return r->channels[p->channel].plan->parts[p->part];
}

static uint64_t end_of(const sc_handle_t *h) {
  return h->inflight.offset + h->inflight.bytes;
}

/* From the end of a part to the next one: of the same channel, or of the next. */
static void settle(const sc_replay_t *r, place_t *p) {
  while (p->channel < r->n && p->at == end_of(handle_at(r, p))) {
    if (++p->part == r->channels[p->channel].plan->n_parts) {
      p->part = 0;
      p->channel++;
    }
    if (p->channel < r->n)
      p->at = handle_at(r, p)->inflight.offset;
  }
}

static gate_t *gate_of(const sc_replay_t *r, uint32_t edge) {
  for (uint32_t i = 0; i < r->n_gates; i++)
    if (r->gates[i].edge == edge)
      return &r->gates[i];
  return NULL;
}

void sc_replay_add(sc_replay_t *r, const sc_virtual_channel_t *v, uint32_t gate, uint32_t port) {
  sc_assert(v->n_parts > 0);
  r->channels = sc_realloc(r->channels, (r->n + 1) * sizeof *r->channels);
  r->channels[r->n++] = (virtual_t){
      .plan = v, .port = port, .watermark = v->watermark, .idle = v->idle};
  if (!gate_of(r, gate)) {
    r->gates = sc_realloc(r->gates, (r->n_gates + 1) * sizeof *r->gates);
    r->gates[r->n_gates++].edge = gate;
  }
  gate_of(r, gate)->last = r->n - 1;
  if (r->n == 1) {
    r->here.at = v->parts[0]->inflight.offset;
    r->reader = r->here;
  }
}

/* ---- reading ahead ---- */

bool sc_replay_want(sc_replay_t *r, sc_replay_read_t *out) {
  if (r->asked || r->ahead.there || r->reader.channel == r->n)
    return false;
  r->asked = true;
  r->asked_for = r->reader;
  *out = (sc_replay_read_t){handle_at(r, &r->reader), r->reader.at};
  return true;
}

static void begin_chunk(sc_replay_t *r) {
  r->blocks = sc_buf_bytes(&r->current.blocks);
  sc_assert(r->here.channel == r->current.place.channel && r->here.at == r->current.place.at);
}

void sc_replay_feed(sc_replay_t *r, sc_buf_t *blocks) {
  sc_assert(r->asked && blocks->len > 0);
  r->asked = false;
  chunk_t *to = r->current.there ? &r->ahead : &r->current;
  to->blocks = *blocks;
  to->place = r->asked_for;
  to->there = true;
  *blocks = (sc_buf_t)SC_BUF_INIT;
  r->reader.at += to->blocks.len;
  settle(r, &r->reader);
  if (to == &r->current)
    begin_chunk(r);
}

static void next_chunk(sc_replay_t *r) {
  sc_buf_free(&r->current.blocks);
  r->current = r->ahead;
  r->ahead = (chunk_t){.blocks = SC_BUF_INIT};
  if (r->current.there)
    begin_chunk(r);
}

/* ---- records ---- */

/* False where nothing was fed. What was kept again may begin at the end of its first block. */
static bool next_block(sc_replay_t *r) {
  if (r->current.there && r->blocks.len == 0)
    next_chunk(r);
  if (!r->current.there)
    return false;
  const sc_handle_t *h = handle_at(r, &r->here);
  r->block = sc_load_u32(r->blocks.data);
  uint32_t skip = r->here.at == h->inflight.offset ? h->inflight.skip : 0;
  const uint8_t *records = r->blocks.data + SC_INFLIGHT_BLOCK_HEAD;
  r->records = sc_bytes(records + skip, r->block - skip);
  r->blocks = sc_bytes(records + r->block, r->blocks.len - SC_INFLIGHT_BLOCK_HEAD - r->block);
  return true;
}

static void end_block(sc_replay_t *r) {
  r->here.at += SC_INFLIGHT_BLOCK_HEAD + r->block;
  r->block = 0;
  settle(r, &r->here);
}

static int damaged(const sc_replay_t *r, sc_error_t *err) {
  const sc_handle_t *h = handle_at(r, &r->here);
  sc_fail(err, SC_ECORRUPT, "%s, in-flight data of a checkpoint, holds something else than records "
          "%zu bytes before the end of the block at byte %" PRIu64, h->file, r->records.len,
          r->here.at);
  sc_error_set_file(err, h->file);
  return SC_ECORRUPT;
}

static bool mine(const virtual_t *v, const sc_record_t *record) {
  sc_key_range_t range = v->plan->range;
  return !v->plan->tagged || (record->key_group >= range.first && record->key_group <= range.last);
}

/* Is it a record for the task? The others are the channel's own. */
static bool take(virtual_t *v, const sc_record_t *record) {
  switch (record->kind) {
    case SC_RECORD_WATERMARK:
      if (record->timestamp > v->watermark)
        v->watermark = record->timestamp;
      return false;
    case SC_RECORD_STATUS: /* its value is true or false, the reader saw to that */
      v->idle = record->value.data[0] == 0xc2;
      return false;
    default: return mine(v, record);
  }
}

int sc_replay_next(sc_replay_t *r, sc_record_t *record, uint32_t *port, sc_error_t *err) {
  for (;;) {
    if (r->block == 0 && (r->here.channel == r->n || !next_block(r)))
      return 0;
    virtual_t *v = &r->channels[r->here.channel];
    int got = sc_record_read(&r->records, record);
    if (got < 0 || (got && v->plan->tagged && record->kind == SC_RECORD_DATA &&
                    !(record->flags & SC_RECORD_HAS_KEY)))
      return damaged(r, err);
    bool for_task = got && take(v, record);
    if (r->records.len == 0)
      end_block(r); /* its bytes stay until the next call */
    if (for_task) {
      *port = v->port;
      return 1;
    }
  }
}

bool sc_replay_ready(const sc_replay_t *r) {
  return r && (r->block > 0 || r->blocks.len > 0 || r->ahead.there);
}

bool sc_replay_drained(const sc_replay_t *r) {
  return !r || r->here.channel == r->n;
}

bool sc_replay_behind(const sc_replay_t *r, uint32_t gate) {
  const gate_t *g = r ? gate_of(r, gate) : NULL;
  return g && g->last >= r->here.channel;
}

/* ---- what is kept again ---- */

static void rest_of(const sc_replay_t *r, uint32_t channel, uint32_t part, uint32_t receiver,
                    const char *own, sc_handle_t *to) {
  const virtual_t *v = &r->channels[channel];
  const sc_handle_t *from = v->plan->parts[part];
  sc_handle_copy(to, from);
  sc_handle_inflight_t *f = &to->inflight;
  f->edge = v->plan->edge;
  f->receiver = receiver;
  f->watermark = v->watermark;
  f->idle = v->idle;
  if (!SC_PLANTED(NO_TAG))
    to->range = v->plan->range;
  if (!to->directory)
    to->directory = sc_strdup(own);
  if (channel != r->here.channel || part != r->here.part)
    return;
  uint64_t end = end_of(from);
  f->skip = r->here.at == f->offset ? f->skip : 0;
  f->offset = r->here.at;
  f->bytes = end - r->here.at;
  if (r->block)
    f->skip = r->block - (uint32_t)r->records.len;
}

uint32_t sc_replay_rest(const sc_replay_t *r, uint32_t receiver, const char *own,
                        sc_handle_t **out) {
  uint32_t n = 0;
  *out = NULL;
  for (uint32_t i = r ? r->here.channel : 0; r && i < r->n; i++) {
    uint32_t begin = i == r->here.channel ? r->here.part : 0;
    for (uint32_t p = begin; p < r->channels[i].plan->n_parts; p++) {
      *out = sc_realloc(*out, (n + 1) * sizeof **out);
      rest_of(r, i, p, receiver, own, &(*out)[n++]);
    }
  }
  return n;
}
