/* channel_barrier: what barriers and captures do to a channel's queue (channel.h). */
#include "../base/error.h"
#include "../base/planted.h"
#include "channel_parts.h"

sc_inflight_part_t sc_channel_part(const sc_channel_t *ch, sc_inflight_side_t side) {
  return (sc_inflight_part_t){.edge = ch->name.edge,
                              .sender = ch->name.sender,
                              .receiver = ch->name.receiver,
                              .side = side};
}

/* ---- under the lock ---- */

/* References of the data among the first n elements. */
static void keep_front(sc_channel_t *ch, uint32_t n, sc_inflight_part_t *part) {
  for (uint32_t i = 0; i < n; i++) {
    const sc_element_t *e = sc__channel_at(ch, i);
    if (e->kind == SC_ELEMENT_DATA)
      sc_inflight_keep(part, sc_buffer_ref(e->buffer));
  }
}

static void close_capture(sc_channel_t *ch, sc__after_t *after) {
  after->closed = ch->capture;
  after->captured = ch->captured;
  ch->capture = NULL;
  ch->captured = (sc_inflight_part_t){0};
}

static bool captures(const sc_channel_t *ch, uint64_t id) {
  return ch->capture && sc_cut_checkpoint(ch->capture) == id;
}

/* Behind the barriers that stand at the head already: their checkpoints are older. */
static void put_at_head(sc_channel_t *ch, const sc_barrier_t *b, sc__after_t *after) {
  sc_element_t e = {.kind = SC_ELEMENT_BARRIER, .barrier = *b, .head = true};
  uint32_t place = 0;
  while (place < ch->count && sc__channel_at(ch, place)->head)
    place++;
  sc__channel_insert(ch, place, &e);
  sc__channel_settle(ch);
  after->word = b->id;
  after->head = true;
  if (captures(ch, b->id) && !SC_PLANTED(CAPTURE_OPEN))
    close_capture(ch, after);
}

/* Place of the barrier of id that waits in its turn and can be moved, or UINT32_MAX. */
static uint32_t find_movable(sc_channel_t *ch, uint64_t id) {
  for (uint32_t i = 0; i < ch->count; i++) {
    const sc_element_t *e = sc__channel_at(ch, i);
    if (e->kind == SC_ELEMENT_BARRIER && e->settle && e->barrier.id == id)
      return i;
  }
  return UINT32_MAX;
}

static bool move(sc_channel_t *ch, uint64_t id, sc__after_t *after) {
  uint32_t at = find_movable(ch, id);
  if (at == UINT32_MAX)
    return false;
  sc_element_t e = *sc__channel_at(ch, at);
  after->settled = e.settle;
  sc_cut_note_overtaking(e.settle);
  after->part = sc_channel_part(ch, SC_INFLIGHT_SENDER);
  if (!SC_PLANTED(ACK_EARLY)) /* else it came too late for the acknowledgement */
    keep_front(ch, SC_PLANTED(OVERTAKE_ALL) ? ch->count : at, &after->part);
  for (uint32_t i = at; i + 1 < ch->count; i++)
    *sc__channel_at(ch, i) = *sc__channel_at(ch, i + 1);
  ch->count--;
  put_at_head(ch, &e.barrier, after);
  return true;
}

void sc__channel_taken(sc_channel_t *ch, sc_element_t *e, sc__after_t *after) {
  if (e->kind == SC_ELEMENT_DATA) {
    sc_inflight_keep(&ch->captured, sc_buffer_ref(e->buffer));
    if (SC_PLANTED(CAPTURE_OPEN) && ch->count == 0)
      close_capture(ch, after);
  } else if (e->kind == SC_ELEMENT_BARRIER) {
    after->settled = e->settle;
    e->settle = NULL;
    if (captures(ch, e->barrier.id) && !(SC_PLANTED(CAPTURE_OPEN) && e->head))
      close_capture(ch, after);
  } else if (e->kind == SC_ELEMENT_CLOSE) {
    close_capture(ch, after);
  }
}

/* ---- behind it ---- */

static void hand_over(sc_cut_t *cut, sc_inflight_part_t *part) {
  sc_cut_add(cut, part);
  sc_cut_release(cut);
}

void sc__channel_after(sc_channel_t *ch, sc__after_t *after) {
  if (after->closed)
    hand_over(after->closed, &after->captured);
  if (after->settled && after->part.n_buffers)
    hand_over(after->settled, &after->part);
  else if (after->settled)
    sc_cut_release(after->settled);
  if (!after->word)
    return;
  if (ch->told)
    ch->told(ch->told_arg, after->word, after->head);
  if (ch->ends.wake)
    ch->ends.wake(ch->ends.consumer_arg); /* (W6) */
}

/* ---- producer ---- */

void sc_channel_barrier(sc_channel_t *ch, const sc_barrier_t *b, bool now, sc_cut_t *cut) {
  bool may = b->overtake_at_ms != 0, bends = may && !ch->name.rigid;
  sc__after_t after = {.part = sc_channel_part(ch, SC_INFLIGHT_SENDER)};
  pthread_mutex_lock(&ch->lock);
  sc_assert(!ch->closed);
  bool gone = ch->gone, was_empty = ch->count == 0;
  if (!gone && bends && (now || captures(ch, b->id))) {
    sc_cut_note_overtaking(cut);
    keep_front(ch, ch->count, &after.part);
    put_at_head(ch, b, &after);
  } else if (!gone) {
    sc_element_t e = {.kind = SC_ELEMENT_BARRIER, .barrier = *b, .settle = bends ? cut : NULL};
    if (bends)
      sc_cut_hold(cut);
    sc__channel_insert(ch, ch->count, &e);
    sc__channel_settle(ch);
    after.word = may ? b->id : 0;
  } else if (bends && SC_PLANTED(SETTLE_GONE)) {
    sc_cut_hold(cut);
  }
  pthread_mutex_unlock(&ch->lock);
  if (after.part.n_buffers)
    sc_cut_add(cut, &after.part);
  sc__channel_after(ch, &after);
  if (!gone && !after.word && was_empty && ch->ends.wake)
    ch->ends.wake(ch->ends.consumer_arg); /* (W1) */
}

bool sc_channel_move(sc_channel_t *ch, uint64_t id) {
  sc__after_t after = {0};
  pthread_mutex_lock(&ch->lock);
  bool moved = move(ch, id, &after);
  pthread_mutex_unlock(&ch->lock);
  sc__channel_after(ch, &after);
  return moved;
}

/* ---- consumer ---- */

/* Elements in front of the closing one, or UINT32_MAX where there is none. */
static uint32_t before_close(sc_channel_t *ch) {
  uint32_t last = ch->count - 1;
  bool closing = ch->count && sc__channel_at(ch, last)->kind == SC_ELEMENT_CLOSE;
  return closing ? last : UINT32_MAX;
}

static bool brought(sc_channel_t *ch, uint64_t id) {
  for (uint32_t i = 0; i < ch->count; i++) {
    const sc_element_t *e = sc__channel_at(ch, i);
    if (e->kind == SC_ELEMENT_BARRIER && e->barrier.id == id)
      return true;
  }
  return false;
}

void sc_channel_capture(sc_channel_t *ch, sc_cut_t *cut, sc_inflight_part_t *kept) {
  uint64_t id = sc_cut_checkpoint(cut);
  sc__after_t after = {0};
  sc_channel_drop_capture(ch, id);
  pthread_mutex_lock(&ch->lock);
  uint32_t n = before_close(ch);
  if (!move(ch, id, &after) && !brought(ch, id)) {
    if (n != UINT32_MAX) {
      keep_front(ch, n, kept);
    } else {
      sc_cut_hold(cut);
      ch->capture = cut;
      ch->captured = *kept;
      *kept = (sc_inflight_part_t){0};
    }
  }
  bool open = ch->capture != NULL;
  pthread_mutex_unlock(&ch->lock);
  if (!open)
    sc_cut_add(cut, kept);
  sc__channel_after(ch, &after);
}

void sc_channel_drop_capture(sc_channel_t *ch, uint64_t id) {
  sc__after_t after = {0};
  pthread_mutex_lock(&ch->lock);
  if (ch->capture && sc_cut_checkpoint(ch->capture) <= id)
    close_capture(ch, &after);
  pthread_mutex_unlock(&ch->lock);
  sc__channel_after(ch, &after); /* the cut was dropped: it gives the buffers back */
}

/* ---- its end ---- */

void sc__channel_forget(sc_channel_t *ch) {
  for (uint32_t i = 0; i < ch->count; i++) {
    sc_element_t *e = sc__channel_at(ch, i);
    if (e->settle)
      sc_cut_drop(e->settle);
  }
  if (ch->capture)
    sc_cut_drop(ch->capture);
  ch->told = NULL;
  sc_channel_drop_capture(ch, UINT64_MAX);
}
