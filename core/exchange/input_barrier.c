/* input_barrier: what checkpoints do to an input (input.h): the aligner's events and what follows
 * from them, the word of barriers that may overtake, and what is kept of the channels. */
#include "../base/error.h"
#include "../base/mem.h"
#include "../base/planted.h"
#include "input_parts.h"

/* ---- the word: from any thread ---- */

static void heard(void *arg, uint64_t id, bool head) {
  sc_input_t *in = arg;
  uint64_t known = atomic_load(&in->word);
  while (known < id && !atomic_compare_exchange_weak(&in->word, &known, id)) {}
  if (!head)
    return;
  /* Sequentially consistent, behind the barrier's way into the queue: whoever lowers the flag and
   * finds nothing has looked before, and finds it raised again. */
  atomic_store(&in->urgent, true);
  if (in->alarm)
    atomic_store(in->alarm, true);
}

void sc__input_listen(sc_input_t *in) {
  for (uint32_t i = 0; i < in->n; i++)
    sc_channel_listen(in->sources[i].channel, heard, in);
}

void sc_input_count_only(sc_input_t *in) {
  sc_aligner_destroy(in->aligner);
  in->aligner = sc_aligner_create(in->n, true);
}

void sc_input_word(sc_input_t *in, uint64_t id) {
  heard(in, id, false);
}

void sc_input_set_alarm(sc_input_t *in, atomic_bool *alarm) {
  in->alarm = alarm;
}

void sc_input_pass(sc_input_t *in, uint64_t id) {
  in->passed = id > in->passed ? id : in->passed;
}

/* A start, or an end, that is next to be handed out. */
static bool due_now(const sc_input_t *in) {
  if (in->due_count == 0)
    return false;
  sc_input_kind_t kind = in->due[in->due_first].kind;
  return kind == SC_INPUT_SNAPSHOT || kind == SC_INPUT_ABORTED;
}

bool sc_input_has_word(sc_input_t *in) {
  for (uint32_t i = in->due_first; i < in->due_count; i++)
    if (in->due[i].kind == SC_INPUT_SNAPSHOT && in->due[i].barrier.overtake_at_ms)
      return true; /* not yet started by the task */
  uint64_t id = atomic_load_explicit(&in->word, memory_order_relaxed); /* a wake brings the next */
  return id > in->passed && sc_aligner_expects(in->aligner, id) && !SC_PLANTED(NO_OVERDRAFT);
}

bool sc_input_urgent(const sc_input_t *in) {
  return atomic_load_explicit(&in->urgent, memory_order_relaxed) /* likewise */ || due_now(in);
}

/* ---- checkpoints that began and have not started ---- */

static sc_barrier_t *find_known(sc_input_t *in, uint64_t id) {
  for (uint32_t i = 0; i < in->n_known; i++)
    if (in->known[i].id == id)
      return &in->known[i];
  return NULL;
}

/* b is to be given to the aligner: is it the first word of it? */
static void note(sc_input_t *in, const sc_barrier_t *b) {
  if (b->id == 0 || !sc_aligner_expects(in->aligner, b->id) || find_known(in, b->id))
    return;
  if (in->n_known == in->known_cap) {
    in->known_cap = in->known_cap ? in->known_cap * 2 : 4;
    in->known = sc_realloc(in->known, in->known_cap * sizeof *in->known);
  }
  in->known[in->n_known++] = *b;
  in->first = *b;
  in->first_barrier = true;
  in->taken_before = sc_input_taken(in);
}

static void forget_passed(sc_input_t *in) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < in->n_known; i++)
    if (sc_aligner_expects(in->aligner, in->known[i].id))
      in->known[kept++] = in->known[i];
  in->n_known = kept;
}

static void follow(sc_input_t *in) {
  sc_align_action_t act;
  while (sc_aligner_next(in->aligner, &act)) {
    if (act.kind == SC_ALIGN_ABORT) {
      sc_input_event_t *e = sc__input_add_event(in, SC_INPUT_ABORTED);
      e->aborted = act.id;
      e->superseded_by = act.superseded_by;
      continue;
    }
    const sc_barrier_t *b = find_known(in, act.id);
    sc_assert(b);
    sc_input_event_t *e = sc__input_add_event(in, SC_INPUT_SNAPSHOT);
    e->barrier = *b;
    e->overtakes = act.overtakes;
    e->alignment_bytes = sc_input_taken(in) - in->taken_before;
    if (in->last_id == act.id) {
      e->last = sc_channel_name(in->sources[in->last_source].channel);
      e->last_ahead = in->last_ahead;
    }
  }
  forget_passed(in);
  sc__input_review(in);
  sc__input_end_late(in);
}

static sc_align_mode_t mode_of(const sc_barrier_t *b) {
  return b->overtake_at_ms == 0   ? SC_ALIGN_NEVER
         : b->overtake_at_ms == 1 ? SC_ALIGN_NOW
                                  : SC_ALIGN_LATER;
}

void sc__input_barrier(sc_input_t *in, uint32_t source, const sc_element_t *e) {
  note(in, &e->barrier);
  in->last_id = e->barrier.id;
  in->last_source = source;
  in->last_ahead = e->ahead;
  sc_aligner_barrier(in->aligner, source, e->barrier.id,
                     e->head ? SC_ALIGN_NOW : mode_of(&e->barrier));
  follow(in);
}

void sc__input_take_heads(sc_input_t *in) {
  /* Lowered before the look: what comes meanwhile raises it again. */
  while (atomic_exchange(&in->urgent, false)) {
    sc_element_t e;
    for (uint32_t i = 0; i < in->n; i++)
      while (!sc_channel_empty(in->sources[i].channel) &&
             sc_channel_take_head(in->sources[i].channel, &e))
        sc__input_barrier(in, i, &e);
  }
}

void sc__input_closed(sc_input_t *in, uint32_t source) {
  sc_aligner_close(in->aligner, source);
  follow(in);
}

void sc_input_trigger(sc_input_t *in, const sc_barrier_t *b) {
  note(in, b);
  sc_aligner_trigger(in->aligner, b->id, mode_of(b));
  follow(in);
}

/* A start that was not handed out yet becomes the abort. */
void sc_input_abort(sc_input_t *in, uint64_t id) {
  bool started = false;
  for (uint32_t i = in->due_first; i < in->due_count; i++) {
    sc_input_event_t *e = &in->due[i];
    if (e->kind == SC_INPUT_SNAPSHOT && e->barrier.id == id) {
      *e = (sc_input_event_t){.kind = SC_INPUT_ABORTED, .aborted = id};
      started = true;
    }
  }
  sc_aligner_abort(in->aligner, id);
  if (started) { /* what ends its captures has been said */
    sc_align_action_t act;
    while (sc_aligner_next(in->aligner, &act)) {}
  }
  follow(in);
}

int64_t sc_input_overtake_at_ms(sc_input_t *in) {
  const sc_barrier_t *b = find_known(in, sc_aligner_patient(in->aligner));
  return b ? b->overtake_at_ms : INT64_MAX;
}

void sc_input_look_at_clock(sc_input_t *in, int64_t mono_ms) {
  uint64_t id = sc_aligner_patient(in->aligner);
  if (!id || sc_input_overtake_at_ms(in) > mono_ms)
    return;
  sc_aligner_overtake(in->aligner, id);
  follow(in);
}

bool sc_input_next_urgent(sc_input_t *in, sc_input_event_t *event) {
  if (in->due_count == 0)
    sc__input_take_heads(in);
  return due_now(in) && sc_input_next(in, event, NULL) == 0;
}

uint64_t sc_input_taken(const sc_input_t *in) {
  return atomic_load_explicit(&in->taken, memory_order_relaxed); /* only shown */
}

uint64_t sc_input_pending(const sc_input_t *in) {
  return sc_aligner_pending(in->aligner);
}

/* ---- what is kept ---- */

static void keep_rest(const sc_input_t *in, uint32_t i, sc_inflight_part_t *part) {
  const source_t *s = &in->sources[i];
  bool reading = in->current && in->current_source == i;
  sc_buffer_t *half = reading ? in->current : s->parked;
  size_t rest = reading ? in->rest.len : s->rest.len;
  if (!half || rest == 0 || SC_PLANTED(HALF_READ))
    return;
  sc_inflight_keep(part, sc_buffer_ref(half));
  part->skip = half->len - (uint32_t)rest;
}

void sc_input_capture(sc_input_t *in, sc_cut_t *cut) {
  for (uint32_t i = 0; i < in->n; i++) {
    source_t *s = &in->sources[i];
    if (s->rigid || s->closed)
      continue;
    sc_inflight_part_t part = sc_channel_part(s->channel, SC_INFLIGHT_RECEIVER);
    sc_valve_input(in->valve, i, &part.watermark, &part.idle);
    keep_rest(in, i, &part);
    if (sc_aligner_captured(in->aligner, i))
      sc_channel_capture(s->channel, cut, &part);
    else
      sc_cut_add(cut, &part);
  }
}

void sc_input_drop_captures(sc_input_t *in, uint64_t id) {
  for (uint32_t i = 0; i < in->n; i++)
    sc_channel_drop_capture(in->sources[i].channel, id);
}
