#include <inttypes.h>

#include "../base/error.h"
#include "../base/mem.h"
#include "../base/planted.h"
#include "input_parts.h"

#define REPLAYED_IN_A_ROW 64 /* records that were in flight at a restore */

sc_input_t *sc_input_create(sc_channel_t **channels, const uint32_t *ports, uint32_t n) {
  sc_input_t *in = sc_calloc(1, sizeof *in + n * sizeof(source_t));
  in->valve = sc_valve_create(n);
  in->aligner = sc_aligner_create(n, false);
  in->n = n;
  for (uint32_t i = 0; i < n; i++) {
    in->sources[i].channel = channels[i];
    in->sources[i].port = ports[i];
    in->sources[i].rigid = sc_channel_name(channels[i])->rigid;
    if (in->sources[i].rigid)
      sc_aligner_rigid(in->aligner, i);
  }
  sc__input_listen(in);
  return in;
}

void sc_input_destroy(sc_input_t *in) {
  if (!in)
    return;
  sc_buffer_unref(in->current);
  for (uint32_t i = 0; i < in->n; i++)
    sc_buffer_unref(in->sources[i].parked);
  sc_valve_destroy(in->valve);
  sc_aligner_destroy(in->aligner);
  free(in->known);
  free(in->due);
  free(in);
}

/* ---- events that wait to be handed out ---- */

sc_input_event_t *sc__input_add_event(sc_input_t *in, sc_input_kind_t kind) {
  if (in->due_count == in->due_cap) {
    in->due_cap = in->due_cap ? in->due_cap * 2 : 8;
    in->due = sc_realloc(in->due, in->due_cap * sizeof *in->due);
  }
  sc_input_event_t *e = &in->due[in->due_count++];
  *e = (sc_input_event_t){.kind = kind};
  return e;
}

static bool hand_out(sc_input_t *in, sc_input_event_t *event) {
  if (in->due_first == in->due_count)
    return false;
  *event = in->due[in->due_first++];
  if (in->due_first == in->due_count)
    in->due_first = in->due_count = 0;
  return true;
}

static void add_valve_events(sc_input_t *in, uint32_t source, sc_valve_out_t out) {
  if (out.has_watermark) {
    sc_input_event_t *e = sc__input_add_event(in, SC_INPUT_WATERMARK);
    e->channel = source;
    e->watermark = out.watermark;
  }
  if (out.has_status) {
    sc_input_event_t *e = sc__input_add_event(in, SC_INPUT_STATUS);
    e->channel = source;
    e->idle = out.idle;
  }
}

/* ---- what is taken from channels ---- */

/* At least once, behind a barrier that is counted, the end has to wait, as has the watermark that
 * says so: a snapshot that is still to be taken would say that all timers have fired, though what
 * comes again after a restore sets some. */
static void on_watermark(sc_input_t *in, uint32_t source, int64_t watermark) {
  source_t *s = &in->sources[source];
  if (watermark == INT64_MAX && sc_aligner_counts(in->aligner, source))
    s->last_watermark_waits = true;
  else
    add_valve_events(in, source, sc_valve_watermark(in->valve, source, watermark));
}

static void on_end(sc_input_t *in, uint32_t source) {
  source_t *s = &in->sources[source];
  if (s->ended)
    return;
  s->end_waits = sc_aligner_counts(in->aligner, source);
  if (s->end_waits)
    return;
  s->ended = true;
  in->n_ended++;
  add_valve_events(in, source, sc_valve_end(in->valve, source));
  if (in->n_ended == in->n)
    sc__input_add_event(in, SC_INPUT_END);
}

void sc__input_end_late(sc_input_t *in) {
  for (uint32_t i = 0; i < in->n; i++) {
    source_t *s = &in->sources[i];
    if (s->last_watermark_waits && !sc_aligner_counts(in->aligner, i)) {
      s->last_watermark_waits = false;
      on_watermark(in, i, INT64_MAX);
    }
    if (s->end_waits)
      on_end(in, i);
  }
}

static void on_close(sc_input_t *in, uint32_t source) {
  source_t *s = &in->sources[source];
  on_end(in, source);
  if (s->closed)
    return;
  s->closed = true;
  in->n_closed++;
  sc__input_closed(in, source);
  if (in->n_closed == in->n)
    sc__input_add_event(in, SC_INPUT_CLOSED);
}

static void read_buffer(sc_input_t *in, uint32_t source, sc_buffer_t *b, sc_bytes_t rest) {
  in->current = b;
  in->current_source = source;
  in->rest = in->ahead = rest;
  in->first_ahead = in->n_ahead = 0;
}

/* Nothing of a buffer is being read any more. */
static void leave_buffer(sc_input_t *in) {
  in->current = NULL;
  in->rest = sc_bytes(NULL, 0);
  in->n_ahead = 0;
}

static void on_buffer(sc_input_t *in, uint32_t source, sc_buffer_t *b) {
  read_buffer(in, source, b, sc_bytes(b->data, b->len));
  if (sc_aligner_pending(in->aligner) || sc_aligner_capturing(in->aligner))
    atomic_fetch_add_explicit(&in->taken, b->len, memory_order_relaxed); /* only shown */
}

static bool may_read(const sc_input_t *in, uint32_t source) {
  return !(in->spare && !in->sources[source].rigid) &&
         !(in->replay &&
           sc_replay_behind(in->replay, sc_channel_name(in->sources[source].channel)->edge)) &&
         !(sc_aligner_held(in->aligner, source) && !SC_PLANTED(HELD_READ));
}

void sc__input_review(sc_input_t *in) {
  if (!in->current || may_read(in, in->current_source))
    return;
  source_t *s = &in->sources[in->current_source];
  s->parked = in->current;
  s->rest = in->rest;
  leave_buffer(in);
}

void sc_input_spare(sc_input_t *in, bool yes) {
  if (in->spare == yes)
    return;
  in->spare = yes;
  sc__input_review(in);
}

static bool go_on_with(sc_input_t *in, uint32_t source) {
  source_t *s = &in->sources[source];
  if (!s->parked)
    return false;
  read_buffer(in, source, s->parked, s->rest);
  s->parked = NULL;
  return true;
}

/* Take one element, round robin; false if there is none that may be read. */
static bool take(sc_input_t *in) {
  for (uint32_t k = 0; k < in->n; k++) {
    uint32_t i = in->turn + k < in->n ? in->turn + k : in->turn + k - in->n;
    sc_channel_t *channel = in->sources[i].channel;
    sc_element_t e;
    if (!may_read(in, i))
      continue;
    if (go_on_with(in, i))
      return true;
    if (sc_channel_empty(channel) || !sc_channel_take(channel, &e))
      continue;
    in->turn = i + 1 == in->n ? 0 : i + 1;
    switch (e.kind) {
    case SC_ELEMENT_DATA: on_buffer(in, i, e.buffer); break;
    case SC_ELEMENT_BARRIER: sc__input_barrier(in, i, &e); break;
    case SC_ELEMENT_END: on_end(in, i); break;
    case SC_ELEMENT_CLOSE: on_close(in, i); break;
    }
    return true;
  }
  return false;
}

/* ---- records ---- */

static int damaged(sc_input_t *in, sc_error_t *err) {
  return sc_fail(err, SC_ECORRUPT,
                 "the data received on input channel %" PRIu32 " (port %" PRIu32
                 ") is damaged %zu bytes before the end of a buffer of %" PRIu32 " bytes",
                 in->current_source, in->sources[in->current_source].port, in->rest.len,
                 in->current->len);
}

/* The next record was read by the look ahead. */
static sc_record_t *take_ahead(sc_input_t *in) {
  sc_record_t *r = &in->records_ahead[in->first_ahead];
  sc_input_took(in, 1);
  return r;
}

/* Read one record of the current buffer. 1: *event holds a record; 0: it went to the valve, or the
 * buffer is read out and was left; SC_ECORRUPT. */
static int read_record(sc_input_t *in, sc_input_event_t *event, sc_error_t *err) {
  uint32_t source = in->current_source;
  sc_record_t *r = &event->record;
  if (in->n_ahead > 0) {
    *r = *take_ahead(in);
  } else {
    int got = sc_record_read(&in->rest, r); /* a damaged record stays in front */
    if (got < 0)
      return damaged(in, err);
    in->ahead = in->rest;
    in->first_ahead = 0;
    if (got == 0) {
      sc_buffer_unref(in->current);
      in->current = NULL;
      return 0;
    }
  }
  if (r->kind == SC_RECORD_WATERMARK) {
    on_watermark(in, source, r->timestamp);
    return 0;
  }
  if (r->kind == SC_RECORD_STATUS) { /* its value is true or false, the reader saw to that */
    add_valve_events(in, source, sc_valve_status(in->valve, source, r->value.data[0] == 0xc2));
    return 0;
  }
  event->kind = SC_INPUT_RECORD;
  event->port = in->sources[source].port;
  event->channel = source;
  return 1;
}

/* ---- what was in flight at a restore ---- */

void sc_input_set_replay(sc_input_t *in, sc_replay_t *replay) {
  in->replay = replay;
}

/* 1: *event holds a record; 0: there is none to be read now; SC_ECORRUPT. */
static int read_replay(sc_input_t *in, sc_input_event_t *event, sc_error_t *err) {
  if (in->spare)
    return 0;
  int got = sc_replay_next(in->replay, &event->record, &event->port, err);
  if (got <= 0)
    return got;
  in->replayed++;
  event->kind = SC_INPUT_RECORD;
  event->channel = UINT32_MAX;
  return 1;
}

/* No buffer is half read. 1: *event says it all; 0: look again; SC_ECORRUPT. Gates that have
 * nothing to wait for get a turn now and then. */
static int next_element(sc_input_t *in, sc_input_event_t *event, sc_error_t *err) {
  bool others_first = in->replay && in->replayed % REPLAYED_IN_A_ROW == 0;
  if (others_first && take(in))
    return 0;
  int got = in->replay ? read_replay(in, event, err) : 0;
  if (got)
    return got;
  return take(in) ? 0 : 1; /* the last of a gate's virtual channels may just have ended */
}

/* ---- the stream of events ---- */

int sc_input_next(sc_input_t *in, sc_input_event_t *event, sc_error_t *err) {
  event->kind = SC_INPUT_NONE; /* the kind says what else counts: the rest is not cleared */
  event->took = event->first_barrier = false;
  for (;;) {
    if (atomic_load_explicit(&in->urgent, memory_order_relaxed))
      sc__input_take_heads(in);
    if (hand_out(in, event))
      break;
    bool reading = in->current != NULL;
    int got = reading ? read_record(in, event, err) : next_element(in, event, err);
    if (got < 0)
      return got;
    if (got)
      break;
    event->took |= !reading;
  }
  if (in->first_barrier) {
    event->first_barrier = true;
    if (event->kind != SC_INPUT_SNAPSHOT)
      event->barrier = in->first;
    in->first_barrier = false;
  }
  return 0;
}

uint32_t sc_input_ahead(sc_input_t *in, sc_record_t **records) {
  uint32_t n = 0;
  if (!in->current || in->n_ahead > SC_INPUT_AHEAD - SC_INPUT_BULK)
    return 0;
  uint32_t place = (in->first_ahead + in->n_ahead) % SC_INPUT_AHEAD;
  sc_assert(place % SC_INPUT_BULK == 0 || in->ahead.len == 0); /* a buffer's last may not be full */
  sc_record_t *bulk = &in->records_ahead[place];
  while (n < SC_INPUT_BULK && in->ahead.len > 0) {
    if (sc_record_read(&in->ahead, &bulk[n]) < 0)
      in->ahead.len = 0; /* reading it will say so */
    else
      n++;
  }
  in->n_ahead += n;
  *records = bulk;
  return n;
}

uint32_t sc_input_records(sc_input_t *in, const sc_record_t **records, uint32_t *port) {
  if (in->n_ahead == 0 || in->due_count > 0 || in->first_barrier ||
      atomic_load_explicit(&in->urgent, memory_order_relaxed))
    return 0;
  const sc_record_t *r = &in->records_ahead[in->first_ahead];
  uint32_t n = 0, most = SC_INPUT_BULK - in->first_ahead % SC_INPUT_BULK;
  most = most < in->n_ahead ? most : in->n_ahead;
  while (n < most && r[n].kind == SC_RECORD_DATA)
    n++;
  *records = r;
  *port = in->sources[in->current_source].port;
  return n;
}

/* The value of a record is its end. */
void sc_input_took(sc_input_t *in, uint32_t n) {
  if (n == 0)
    return;
  sc_assert(n <= in->n_ahead);
  const sc_bytes_t *last = &in->records_ahead[(in->first_ahead + n - 1) % SC_INPUT_AHEAD].value;
  const uint8_t *end = last->data + last->len;
  in->first_ahead = (in->first_ahead + n) % SC_INPUT_AHEAD;
  in->n_ahead -= n;
  in->rest.len -= (size_t)(end - in->rest.data);
  in->rest.data = end;
}

bool sc_input_ready(sc_input_t *in) {
  if (in->due_count > 0 || in->rest.len > 0 || sc_input_urgent(in))
    return true;
  if (in->replay && !in->spare && sc_replay_ready(in->replay))
    return true;
  for (uint32_t i = 0; i < in->n; i++)
    if (may_read(in, i) && (in->sources[i].parked || !sc_channel_empty(in->sources[i].channel)))
      return true;
  return false;
}

void sc_input_usage(const sc_input_t *in, sc_usage_t *u) {
  for (uint32_t i = 0; i < in->n; i++)
    sc_usage_add(u, in->sources[i].channel);
}

int64_t sc_input_watermark(const sc_input_t *in) {
  return sc_valve_current(in->valve);
}

void sc_input_receiver_gone(sc_input_t *in) {
  sc_buffer_unref(in->current);
  leave_buffer(in);
  in->due_first = in->due_count = 0;
  for (uint32_t i = 0; i < in->n; i++) {
    sc_buffer_unref(in->sources[i].parked);
    in->sources[i].parked = NULL;
    sc_channel_receiver_gone(in->sources[i].channel);
  }
}
