/* The rooms of core/exchange. Objects are light userdata with explicit destroy functions: a spec
 * owns what it makes. Channel numbers and the like are as in C, from 0. */
#include "probe.h"

#include "../../core/base/mem.h"
#include "../../core/exchange/input.h"
#include "../../core/exchange/output.h"
#include "../../core/exchange/valve.h"
#include "exchange_threads.h"

static void *object(lua_State *L, int arg) {
  luaL_checktype(L, arg, LUA_TLIGHTUSERDATA);
  return lua_touserdata(L, arg);
}

static int push_object(lua_State *L, void *p) {
  lua_pushlightuserdata(L, p);
  return 1;
}

static void set_int(lua_State *L, const char *name, int64_t v) {
  lua_pushinteger(L, v);
  lua_setfield(L, -2, name);
}

static void set_bool(lua_State *L, const char *name, bool v) {
  lua_pushboolean(L, v);
  lua_setfield(L, -2, name);
}

static void set_string(lua_State *L, const char *name, sc_bytes_t v) {
  probe_push_bytes(L, v);
  lua_setfield(L, -2, name);
}

/* ---- buffer ---- */

static int pool_new(lua_State *L) {
  return push_object(L, sc_pool_create((uint32_t)luaL_checkinteger(L, 1)));
}

static int pool_destroy(lua_State *L) {
  sc_pool_destroy(object(L, 1));
  return 0;
}

static int pool_outstanding(lua_State *L) {
  lua_pushinteger(L, sc_pool_outstanding(object(L, 1)));
  return 1;
}

static int pool_take(lua_State *L) {
  sc_buffer_t *b = sc_pool_take(object(L, 1), (size_t)luaL_checkinteger(L, 2));
  lua_pushlightuserdata(L, b);
  lua_pushinteger(L, b->cap);
  lua_pushinteger(L, b->units);
  return 3;
}

static int buffer_ref(lua_State *L) {
  sc_buffer_ref(object(L, 1));
  return 0;
}

static int buffer_unref(lua_State *L) {
  sc_buffer_unref(object(L, 1));
  return 0;
}

/* ---- partitioner ---- */

static int partitioner_new(lua_State *L) {
  sc_partitioner_t *p = sc_malloc(sizeof *p);
  sc_partitioner_init(p, (sc_partitioner_kind_t)sc_partitioner_from_name(luaL_checkstring(L, 1)),
                      (uint32_t)luaL_checkinteger(L, 2), (uint32_t)luaL_optinteger(L, 3, 128),
                      (uint32_t)luaL_optinteger(L, 4, 0));
  return push_object(L, p);
}

static int partitioner_destroy(lua_State *L) {
  free(object(L, 1));
  return 0;
}

static int partitioner_select(lua_State *L) {
  uint32_t i = sc_partitioner_select(object(L, 1), (uint16_t)luaL_optinteger(L, 2, 0));
  if (i == UINT32_MAX)
    lua_pushliteral(L, "all");
  else
    lua_pushinteger(L, i);
  return 1;
}

static int partitioner_number(lua_State *L) {
  int kind = sc_partitioner_from_name(luaL_checkstring(L, 1));
  lua_pushinteger(L, kind);
  if (kind < 0)
    return 1;
  lua_pushstring(L, sc_partitioner_name((sc_partitioner_kind_t)kind));
  return 2;
}

/* ---- channel ---- */

typedef struct wakes { uint32_t producer, consumer; } wakes_t;

typedef struct probe_channel {
  sc_channel_t *ch;
  wakes_t wakes;
} probe_channel_t;

static void count_wake(void *arg) { ++*(uint32_t *)arg; }

static sc_channel_t *channel_of(lua_State *L, int arg) {
  return ((probe_channel_t *)object(L, arg))->ch;
}

static int floating_new(lua_State *L) {
  return push_object(L, sc_floating_create((uint32_t)luaL_checkinteger(L, 1)));
}

static int floating_unref(lua_State *L) {
  sc_floating_unref(object(L, 1));
  return 0;
}

static int floating_available(lua_State *L) {
  lua_pushinteger(L, sc_floating_available(object(L, 1)));
  return 1;
}

/* channel_new(exclusive, floating or nil, silent or nil) */
static int channel_new(lua_State *L) {
  probe_channel_t *p = sc_calloc(1, sizeof *p);
  sc_channel_ends_t ends = {count_wake, &p->wakes.producer, &p->wakes.consumer};
  sc_floating_t *floating = lua_isnoneornil(L, 2) ? NULL : object(L, 2);
  p->ch = sc_channel_create((uint32_t)luaL_checkinteger(L, 1), floating,
                            lua_toboolean(L, 3) ? NULL : &ends);
  return push_object(L, p);
}

static int channel_destroy(lua_State *L) {
  probe_channel_t *p = object(L, 1);
  sc_channel_destroy(p->ch);
  free(p);
  return 0;
}

/* Wakes of the producer and of the consumer since the last call. */
static int channel_wakes(lua_State *L) {
  probe_channel_t *p = object(L, 1);
  lua_pushinteger(L, p->wakes.producer);
  lua_pushinteger(L, p->wakes.consumer);
  p->wakes = (wakes_t){0, 0};
  return 2;
}

static int channel_has_room(lua_State *L) {
  lua_pushboolean(L, sc_channel_has_room(channel_of(L, 1)));
  return 1;
}

static int channel_empty(lua_State *L) {
  lua_pushboolean(L, sc_channel_empty(channel_of(L, 1)));
  return 1;
}

/* channel_push(channel, pool, bytes) */
static int channel_push(lua_State *L) {
  sc_bytes_t bytes = probe_bytes(L, 3);
  sc_buffer_t *b = sc_pool_take(object(L, 2), bytes.len);
  memcpy(b->data, bytes.data, bytes.len);
  b->len = (uint32_t)bytes.len;
  sc_channel_push_buffer(channel_of(L, 1), b);
  return 0;
}

static int channel_push_barrier(lua_State *L) {
  sc_barrier_t b = {(uint64_t)luaL_checkinteger(L, 2), luaL_optinteger(L, 3, 0), 0, false};
  sc_channel_push_barrier(channel_of(L, 1), &b);
  return 0;
}

/* channel_name(channel, edge, sender, receiver, rigid) */
static int channel_name(lua_State *L) {
  sc_channel_name_t name = {(uint32_t)luaL_checkinteger(L, 2), (uint32_t)luaL_checkinteger(L, 3),
                            (uint32_t)luaL_checkinteger(L, 4), lua_toboolean(L, 5)};
  sc_channel_set_name(channel_of(L, 1), &name);
  return 0;
}

/* ---- cut ---- */

typedef struct probe_cut { sc_cut_t *cut; uint32_t done; } probe_cut_t;

static sc_cut_t *cut_of(lua_State *L, int arg) {
  return ((probe_cut_t *)object(L, arg))->cut;
}

static int cut_new(lua_State *L) {
  probe_cut_t *p = sc_calloc(1, sizeof *p);
  p->cut = sc_cut_create((uint64_t)luaL_checkinteger(L, 1), count_wake, &p->done);
  return push_object(L, p);
}

/* The maker's reference goes; what it was told with it. */
static int cut_destroy(lua_State *L) {
  probe_cut_t *p = object(L, 1);
  sc_cut_unref(p->cut);
  free(p);
  return 0;
}

static int cut_release(lua_State *L) {
  sc_cut_release(cut_of(L, 1));
  return 0;
}

static int cut_drop(lua_State *L) {
  lua_pushboolean(L, sc_cut_drop(cut_of(L, 1)));
  return 1;
}

/* How often done was called, holds. */
static int cut_state(lua_State *L) {
  probe_cut_t *p = object(L, 1);
  lua_pushinteger(L, p->done);
  lua_pushinteger(L, sc_cut_holds(p->cut));
  return 2;
}

/* edge, sender of the capture that ended last, or nothing */
static int cut_last_capture(lua_State *L) {
  uint32_t edge, sender;
  if (!sc_cut_last_capture(cut_of(L, 1), &edge, &sender))
    return 0;
  lua_pushinteger(L, edge);
  lua_pushinteger(L, sender);
  return 2;
}

static void push_part(lua_State *L, const sc_inflight_part_t *p) {
  luaL_Buffer bytes;
  lua_newtable(L);
  set_int(L, "edge", p->edge);
  set_int(L, "sender", p->sender);
  set_int(L, "receiver", p->receiver);
  lua_pushstring(L, p->side == SC_INFLIGHT_SENDER ? "sender" : "receiver");
  lua_setfield(L, -2, "side");
  set_int(L, "watermark", p->watermark);
  set_bool(L, "idle", p->idle);
  luaL_buffinit(L, &bytes);
  for (uint32_t i = 0; i < p->n_buffers; i++) {
    uint32_t skip = i == 0 ? p->skip : 0;
    luaL_addlstring(&bytes, (const char *)p->buffers[i]->data + skip, p->buffers[i]->len - skip);
  }
  luaL_pushresult(&bytes);
  lua_setfield(L, -2, "bytes");
}

/* A list of the parts; they leave the cut, and their buffers are given back. */
static int cut_take(lua_State *L) {
  sc_inflight_t f;
  sc_cut_take(cut_of(L, 1), &f);
  lua_createtable(L, (int)f.n_parts, 0);
  for (uint32_t i = 0; i < f.n_parts; i++) {
    push_part(L, &f.parts[i]);
    lua_rawseti(L, -2, i + 1);
  }
  sc_inflight_fini(&f);
  return 1;
}

/* (barrier's id, overtake_at_ms or nil) of arguments 2 and 3 */
static sc_barrier_t barrier_of(lua_State *L) {
  return (sc_barrier_t){(uint64_t)luaL_checkinteger(L, 2), 0, luaL_optinteger(L, 3, 0), false};
}

/* channel_barrier(channel, id, overtake_at_ms, now, cut) */
static int channel_barrier(lua_State *L) {
  sc_barrier_t b = barrier_of(L);
  sc_channel_barrier(channel_of(L, 1), &b, lua_toboolean(L, 4), cut_of(L, 5));
  return 0;
}

static int channel_move(lua_State *L) {
  lua_pushboolean(L, sc_channel_move(channel_of(L, 1), (uint64_t)luaL_checkinteger(L, 2)));
  return 1;
}

/* channel_capture(channel, cut) */
static int channel_capture(lua_State *L) {
  sc_channel_t *ch = channel_of(L, 1);
  sc_inflight_part_t part = sc_channel_part(ch, SC_INFLIGHT_RECEIVER);
  sc_channel_capture(ch, cut_of(L, 2), &part);
  return 0;
}

static int channel_drop_capture(lua_State *L) {
  sc_channel_drop_capture(channel_of(L, 1), (uint64_t)luaL_checkinteger(L, 2));
  return 0;
}

static int channel_push_end(lua_State *L) {
  sc_channel_push_end(channel_of(L, 1));
  return 0;
}

static int channel_push_close(lua_State *L) {
  sc_channel_push_close(channel_of(L, 1));
  return 0;
}

static const char *const element_names[] = {"data", "barrier", "end", "close"};

/* "data", bytes | "barrier", id, timestamp | "end" | "close" | nothing. Gives the buffer back. */
static int channel_take(lua_State *L) {
  sc_element_t e;
  if (!sc_channel_take(channel_of(L, 1), &e))
    return 0;
  lua_pushstring(L, element_names[e.kind]);
  if (e.kind == SC_ELEMENT_DATA) {
    lua_pushlstring(L, (const char *)e.buffer->data, e.buffer->len);
    sc_buffer_unref(e.buffer);
    return 2;
  }
  if (e.kind == SC_ELEMENT_BARRIER) {
    lua_pushinteger(L, (lua_Integer)e.barrier.id);
    lua_pushinteger(L, e.barrier.timestamp_ms);
    return 3;
  }
  return 1;
}

static int channel_peek(lua_State *L) {
  int kind = sc_channel_peek(channel_of(L, 1));
  if (kind < 0)
    return 0;
  lua_pushstring(L, element_names[kind]);
  return 1;
}

static int channel_receiver_gone(lua_State *L) {
  sc_channel_receiver_gone(channel_of(L, 1));
  return 0;
}

static int channel_usage(lua_State *L) {
  uint32_t buffers;
  uint64_t bytes;
  sc_channel_usage(channel_of(L, 1), &buffers, &bytes);
  lua_pushinteger(L, buffers);
  lua_pushinteger(L, (lua_Integer)bytes);
  return 2;
}

/* channel_set_buffer_size(channel, bytes); channel_buffer_size(channel) */
static int channel_set_buffer_size(lua_State *L) {
  sc_channel_set_buffer_size(channel_of(L, 1), (uint32_t)luaL_checkinteger(L, 2));
  return 0;
}

static int channel_buffer_size(lua_State *L) {
  lua_pushinteger(L, sc_channel_buffer_size(channel_of(L, 1)));
  return 1;
}

/* usage({ channel, ... }) -> what the channels of one side hold together */
static int usage(lua_State *L) {
  sc_usage_t u = {0};
  luaL_checktype(L, 1, LUA_TTABLE);
  for (lua_Integer i = 1; i <= luaL_len(L, 1); i++) {
    lua_rawgeti(L, 1, i);
    sc_usage_add(&u, channel_of(L, -1));
    lua_pop(L, 1);
  }
  const struct { const char *name; double value; } fields[] = {
      {"buffers", (double)u.buffers}, {"bytes", (double)u.bytes},
      {"passed_buffers", (double)u.passed_buffers}, {"passed_bytes", (double)u.passed_bytes},
      {"in_pool", sc_usage_in_pool(&u)}, {"out_pool", sc_usage_out_pool(&u)},
      {"exclusive", sc_usage_exclusive(&u)}, {"floating", sc_usage_floating(&u)},
      {"buffer_size", (double)u.buffer_size},
  };
  lua_newtable(L);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    lua_pushnumber(L, fields[i].value);
    lua_setfield(L, -2, fields[i].name);
  }
  return 1;
}

/* ---- output ---- */

static sc_channel_t **channels_of(lua_State *L, int arg, uint32_t *n) {
  luaL_checktype(L, arg, LUA_TTABLE);
  *n = (uint32_t)lua_rawlen(L, arg);
  sc_channel_t **list = sc_malloc(*n * sizeof *list);
  for (uint32_t i = 0; i < *n; i++) {
    lua_rawgeti(L, arg, i + 1);
    list[i] = channel_of(L, -1);
    lua_pop(L, 1);
  }
  return list;
}

/* output_new(partitioner name, channels, pool, max_parallelism, subtask) */
static int output_new(lua_State *L) {
  uint32_t n;
  sc_channel_t **list = channels_of(L, 2, &n);
  sc_partitioner_t p;
  sc_partitioner_init(&p, (sc_partitioner_kind_t)sc_partitioner_from_name(luaL_checkstring(L, 1)),
                      n, (uint32_t)luaL_optinteger(L, 4, 128), (uint32_t)luaL_optinteger(L, 5, 0));
  sc_output_t *o = sc_output_create(&p, list, object(L, 3));
  free(list);
  return push_object(L, o);
}

static int output_destroy(lua_State *L) {
  sc_output_destroy(object(L, 1));
  return 0;
}

/* output_emit(output, value, key group or nil, timestamp or nil) */
static int output_emit(lua_State *L) {
  sc_record_t r = {.kind = SC_RECORD_DATA, .value = probe_bytes(L, 2)};
  if (!lua_isnoneornil(L, 3)) {
    r.flags |= SC_RECORD_HAS_KEY;
    r.key_group = (uint16_t)luaL_checkinteger(L, 3);
    r.key = sc_bytes_str("k");
  }
  if (!lua_isnoneornil(L, 4)) {
    r.flags |= SC_RECORD_HAS_TIMESTAMP;
    r.timestamp = luaL_checkinteger(L, 4);
  }
  sc_output_emit(object(L, 1), &r);
  return 0;
}

static int output_watermark(lua_State *L) {
  sc_output_watermark(object(L, 1), luaL_checkinteger(L, 2));
  return 0;
}

static int output_status(lua_State *L) {
  sc_output_status(object(L, 1), lua_toboolean(L, 2));
  return 0;
}

/* output_barrier(output, id, timestamp): an aligned one, of nobody's */
static int output_barrier(lua_State *L) {
  sc_barrier_t b = {(uint64_t)luaL_checkinteger(L, 2), luaL_optinteger(L, 3, 0), 0, false};
  sc_output_barrier(object(L, 1), &b, false, NULL);
  return 0;
}

/* output_cut(output, id, overtake_at_ms, now, cut) */
static int output_cut(lua_State *L) {
  sc_barrier_t b = barrier_of(L);
  sc_output_barrier(object(L, 1), &b, lua_toboolean(L, 4), cut_of(L, 5));
  return 0;
}

static int output_overtake(lua_State *L) {
  sc_output_overtake(object(L, 1), (uint64_t)luaL_checkinteger(L, 2));
  return 0;
}

static int output_end(lua_State *L) {
  sc_output_end(object(L, 1));
  return 0;
}

static int output_close(lua_State *L) {
  sc_output_close(object(L, 1));
  return 0;
}

static int output_flush(lua_State *L) {
  sc_output_flush(object(L, 1));
  return 0;
}

static int output_has_room(lua_State *L) {
  lua_pushboolean(L, sc_output_has_room(object(L, 1)));
  return 1;
}

static int output_drained(lua_State *L) {
  lua_pushboolean(L, sc_output_drained(object(L, 1)));
  return 1;
}

/* Kind's name, max_parallelism, records, bytes. */
static int output_info(lua_State *L) {
  sc_output_t *o = object(L, 1);
  uint64_t records, bytes;
  sc_output_counts(o, &records, &bytes);
  lua_pushstring(L, sc_partitioner_name(sc_output_kind(o)));
  lua_pushinteger(L, sc_output_max_parallelism(o));
  lua_pushinteger(L, (lua_Integer)records);
  lua_pushinteger(L, (lua_Integer)bytes);
  return 4;
}

/* ---- valve ---- */

static int valve_new(lua_State *L) {
  return push_object(L, sc_valve_create((uint32_t)luaL_checkinteger(L, 1)));
}

static int valve_destroy(lua_State *L) {
  sc_valve_destroy(object(L, 1));
  return 0;
}

/* What came out: watermark or nil, "idle" or "active" or nil. */
static int push_valve_out(lua_State *L, sc_valve_out_t out) {
  if (out.has_watermark)
    lua_pushinteger(L, out.watermark);
  else
    lua_pushnil(L);
  if (out.has_status)
    lua_pushstring(L, out.idle ? "idle" : "active");
  else
    lua_pushnil(L);
  return 2;
}

static int valve_watermark(lua_State *L) {
  return push_valve_out(L, sc_valve_watermark(object(L, 1), (uint32_t)luaL_checkinteger(L, 2),
                                              luaL_checkinteger(L, 3)));
}

static int valve_status(lua_State *L) {
  return push_valve_out(L, sc_valve_status(object(L, 1), (uint32_t)luaL_checkinteger(L, 2),
                                           lua_toboolean(L, 3)));
}

static int valve_end(lua_State *L) {
  return push_valve_out(L, sc_valve_end(object(L, 1), (uint32_t)luaL_checkinteger(L, 2)));
}

static int valve_current(lua_State *L) {
  lua_pushinteger(L, sc_valve_current(object(L, 1)));
  return 1;
}

/* ---- barrier ---- */

/* barrier_new(channels, at least once or nil, list of rigid channels or nil) */
static int barrier_new(lua_State *L) {
  sc_aligner_t *a = sc_aligner_create((uint32_t)luaL_checkinteger(L, 1), lua_toboolean(L, 2));
  for (lua_Integer i = 1; lua_istable(L, 3) && i <= (lua_Integer)lua_rawlen(L, 3); i++) {
    lua_rawgeti(L, 3, i);
    sc_aligner_rigid(a, (uint32_t)lua_tointeger(L, -1));
    lua_pop(L, 1);
  }
  return push_object(L, a);
}

static int barrier_destroy(lua_State *L) {
  sc_aligner_destroy(object(L, 1));
  return 0;
}

/* What follows, in words: "1" start of 1, "1!" overtaking, "-2" abort of 2, "-2<3" because of 3. */
static int push_actions(lua_State *L, sc_aligner_t *a) {
  sc_align_action_t act;
  luaL_Buffer text;
  luaL_buffinit(L, &text);
  for (bool first = true; sc_aligner_next(a, &act); first = false) {
    char word[64];
    int n = snprintf(word, sizeof word, "%s%s%llu%s", first ? "" : " ",
                     act.kind == SC_ALIGN_ABORT ? "-" : "", (unsigned long long)act.id,
                     act.overtakes ? "!" : "");
    if (act.superseded_by)
      snprintf(word + n, sizeof word - (size_t)n, "<%llu", (unsigned long long)act.superseded_by);
    luaL_addstring(&text, word);
  }
  luaL_pushresult(&text);
  return 1;
}

/* (aligner, channel, id, "later" or "now" or nil) */
static sc_align_mode_t mode_of(lua_State *L, int arg) {
  static const char *const modes[] = {"never", "later", "now", NULL};
  return (sc_align_mode_t)luaL_checkoption(L, arg, "never", modes);
}

static int barrier_barrier(lua_State *L) {
  sc_aligner_t *a = object(L, 1);
  sc_aligner_barrier(a, (uint32_t)luaL_checkinteger(L, 2), (uint64_t)luaL_checkinteger(L, 3),
                     mode_of(L, 4));
  return push_actions(L, a);
}

static int barrier_trigger(lua_State *L) {
  sc_aligner_t *a = object(L, 1);
  sc_aligner_trigger(a, (uint64_t)luaL_checkinteger(L, 2), mode_of(L, 3));
  return push_actions(L, a);
}

static int barrier_overtake(lua_State *L) {
  sc_aligner_t *a = object(L, 1);
  sc_aligner_overtake(a, (uint64_t)luaL_checkinteger(L, 2));
  return push_actions(L, a);
}

static int barrier_close(lua_State *L) {
  sc_aligner_t *a = object(L, 1);
  sc_aligner_close(a, (uint32_t)luaL_checkinteger(L, 2));
  return push_actions(L, a);
}

static int barrier_abort(lua_State *L) {
  sc_aligner_t *a = object(L, 1);
  sc_aligner_abort(a, (uint64_t)luaL_checkinteger(L, 2));
  return push_actions(L, a);
}

static int barrier_cancel(lua_State *L) {
  sc_aligner_t *a = object(L, 1);
  sc_aligner_cancel(a, (uint64_t)luaL_checkinteger(L, 2));
  return push_actions(L, a);
}

static int barrier_recovering(lua_State *L) {
  sc_aligner_t *a = object(L, 1);
  sc_aligner_recovering(a, lua_toboolean(L, 2));
  return push_actions(L, a);
}

/* held, captured */
static int barrier_channel(lua_State *L) {
  sc_aligner_t *a = object(L, 1);
  uint32_t channel = (uint32_t)luaL_checkinteger(L, 2);
  lua_pushboolean(L, sc_aligner_held(a, channel));
  lua_pushboolean(L, sc_aligner_captured(a, channel));
  return 2;
}

/* pending id, missing, capturing id, patient id */
static int barrier_state(lua_State *L) {
  sc_aligner_t *a = object(L, 1);
  lua_pushinteger(L, (lua_Integer)sc_aligner_pending(a));
  lua_pushinteger(L, sc_aligner_missing(a));
  lua_pushinteger(L, (lua_Integer)sc_aligner_capturing(a));
  lua_pushinteger(L, (lua_Integer)sc_aligner_patient(a));
  return 4;
}

/* ---- input ---- */

/* input_new(channels, ports or nil, counts barriers only) */
static int input_new(lua_State *L) {
  uint32_t n;
  sc_channel_t **list = channels_of(L, 1, &n);
  uint32_t *ports = sc_calloc(n, sizeof *ports);
  for (uint32_t i = 0; i < n && lua_istable(L, 2); i++) {
    lua_rawgeti(L, 2, i + 1);
    ports[i] = (uint32_t)lua_tointeger(L, -1);
    lua_pop(L, 1);
  }
  sc_input_t *in = sc_input_create(list, ports, n);
  if (lua_toboolean(L, 3))
    sc_input_count_only(in);
  free(list);
  free(ports);
  return push_object(L, in);
}

static int input_destroy(lua_State *L) {
  sc_input_destroy(object(L, 1));
  return 0;
}

static const char *const event_names[] = {"none",     "record",  "watermark", "status",
                                          "snapshot", "aborted", "end",       "closed"};

static void set_event_fields(lua_State *L, const sc_input_event_t *e) {
  switch (e->kind) {
  case SC_INPUT_RECORD:
    set_int(L, "port", e->port);
    set_int(L, "channel", e->channel);
    set_string(L, "value", e->record.value);
    if (e->record.flags & SC_RECORD_HAS_TIMESTAMP)
      set_int(L, "timestamp", e->record.timestamp);
    if (e->record.flags & SC_RECORD_HAS_KEY)
      set_int(L, "key_group", e->record.key_group);
    break;
  case SC_INPUT_WATERMARK: set_int(L, "watermark", e->watermark); break;
  case SC_INPUT_STATUS: set_bool(L, "idle", e->idle); break;
  case SC_INPUT_SNAPSHOT:
    set_int(L, "id", (int64_t)e->barrier.id);
    set_int(L, "timestamp", e->barrier.timestamp_ms);
    set_int(L, "alignment_bytes", (int64_t)e->alignment_bytes);
    if (e->overtakes)
      set_bool(L, "overtakes", true);
    break;
  case SC_INPUT_ABORTED:
    set_int(L, "aborted", (int64_t)e->aborted);
    set_int(L, "superseded_by", (int64_t)e->superseded_by);
    break;
  default: break;
  }
}

static int push_input_event(lua_State *L, const sc_input_event_t *e) {
  lua_newtable(L);
  lua_pushstring(L, event_names[e->kind]);
  lua_setfield(L, -2, "kind");
  set_event_fields(L, e);
  if (e->kind == SC_INPUT_NONE && e->took) {
    lua_pushboolean(L, true);
    lua_setfield(L, -2, "took");
  }
  if (e->first_barrier) {
    set_int(L, "first", (int64_t)e->barrier.id);
    set_int(L, "first_timestamp", e->barrier.timestamp_ms);
  }
  return 1;
}

/* A table with `kind` and what belongs to it; first = id where first_barrier is set. */
static int input_next(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_input_event_t e;
  int rc = sc_input_next(object(L, 1), &e, &err);
  return rc < 0 ? probe_fail(L, rc, &err) : push_input_event(L, &e);
}

/* Likewise, or nil where no barrier stands at a head. */
static int input_next_urgent(lua_State *L) {
  sc_input_event_t e;
  return sc_input_next_urgent(object(L, 1), &e) ? push_input_event(L, &e) : 0;
}

/* Key groups of the records that were read ahead now, 0 where there is no key. */
static int input_ahead(lua_State *L) {
  sc_record_t *r;
  uint32_t n = sc_input_ahead(object(L, 1), &r);
  lua_createtable(L, (int)n, 0);
  for (uint32_t i = 0; i < n; i++) {
    bool keyed = r[i].flags & SC_RECORD_HAS_KEY;
    sc_assert(!keyed || sc_bytes_equal(r[i].key, sc_bytes_str("k"))); /* as output_emit writes it */
    sc_assert(r[i].key_hash == 0);
    r[i].key_hash = 1000 + r[i].key_group;
    lua_pushinteger(L, keyed ? r[i].key_group : 0);
    lua_rawseti(L, -2, (int)i + 1);
  }
  return 1;
}

static int input_ready(lua_State *L) {
  lua_pushboolean(L, sc_input_ready(object(L, 1)));
  return 1;
}

/* input_trigger(input, id, timestamp, overtake_at_ms) */
static int input_trigger(lua_State *L) {
  sc_barrier_t b = {(uint64_t)luaL_checkinteger(L, 2), luaL_optinteger(L, 3, 0),
                    luaL_optinteger(L, 4, 0), false};
  sc_input_trigger(object(L, 1), &b);
  return 0;
}

static int input_abort(lua_State *L) {
  sc_input_abort(object(L, 1), (uint64_t)luaL_checkinteger(L, 2));
  return 0;
}

static int input_capture(lua_State *L) {
  sc_input_capture(object(L, 1), cut_of(L, 2));
  return 0;
}

static int input_drop_captures(lua_State *L) {
  sc_input_drop_captures(object(L, 1), (uint64_t)luaL_checkinteger(L, 2));
  return 0;
}

static int input_clock(lua_State *L) {
  sc_input_look_at_clock(object(L, 1), luaL_checkinteger(L, 2));
  return 0;
}

/* input_records(input, most): the values of up to `most` records that were read ahead and come
 * next, which are taken, and their port. */
static int input_records(lua_State *L) {
  uint32_t port = 0, most = (uint32_t)luaL_checkinteger(L, 2);
  const sc_record_t *r;
  uint32_t n = sc_input_records(object(L, 1), &r, &port);
  n = n < most ? n : most;
  lua_createtable(L, (int)n, 0);
  for (uint32_t i = 0; i < n; i++) {
    sc_assert(r[i].key_hash == 1000u + r[i].key_group); /* as input_ahead noted it */
    probe_push_bytes(L, r[i].value);
    lua_rawseti(L, -2, (int)i + 1);
  }
  sc_input_took(object(L, 1), n);
  lua_pushinteger(L, port);
  return 2;
}

static int input_spare(lua_State *L) {
  sc_input_spare(object(L, 1), lua_toboolean(L, 2));
  return 0;
}

static int input_word(lua_State *L) {
  sc_input_word(object(L, 1), (uint64_t)luaL_checkinteger(L, 2));
  return 0;
}

/* has word, urgent, monotonic ms at which a pending one may overtake or nil */
static int input_haste(lua_State *L) {
  sc_input_t *in = object(L, 1);
  int64_t at = sc_input_overtake_at_ms(in);
  lua_pushboolean(L, sc_input_has_word(in));
  lua_pushboolean(L, sc_input_urgent(in));
  if (at == INT64_MAX)
    return 2;
  lua_pushinteger(L, at);
  return 3;
}

/* watermark, pending id */
static int input_state(lua_State *L) {
  lua_pushinteger(L, sc_input_watermark(object(L, 1)));
  lua_pushinteger(L, (lua_Integer)sc_input_pending(object(L, 1)));
  return 2;
}

/* input_debloat(input, debloater of so many gates, ms, ms so far that were not idle) */
static int input_debloat(lua_State *L) {
  sc_debloater_t **d = luaL_checkudata(L, 2, "probe.debloater");
  sc_input_debloat(object(L, 1), *d, luaL_checkinteger(L, 3) * 1000000,
                   luaL_checkinteger(L, 4) * 1000000);
  return 0;
}

static int input_n_gates(lua_State *L) {
  lua_pushinteger(L, sc_input_n_gates(object(L, 1)));
  return 1;
}

static int input_receiver_gone(lua_State *L) {
  sc_input_receiver_gone(object(L, 1));
  return 0;
}

#define F(name) {#name, name}

void probe_exchange(lua_State *L) {
  static const luaL_Reg functions[] = {
      F(pool_new), F(pool_destroy), F(pool_outstanding), F(pool_take), F(buffer_ref),
      F(buffer_unref),
      F(partitioner_new), F(partitioner_destroy), F(partitioner_select), F(partitioner_number),
      F(floating_new), F(floating_unref), F(floating_available),
      F(channel_new), F(channel_destroy), F(channel_wakes), F(channel_has_room), F(channel_empty),
      F(channel_push), F(channel_push_barrier), F(channel_push_end), F(channel_push_close),
      F(channel_name), F(channel_barrier), F(channel_move), F(channel_capture),
      F(channel_drop_capture),
      F(cut_new), F(cut_destroy), F(cut_release), F(cut_drop), F(cut_state), F(cut_take),
      F(cut_last_capture),
      F(channel_take), F(channel_peek), F(channel_receiver_gone), F(channel_usage), F(usage),
      F(channel_set_buffer_size), F(channel_buffer_size),
      {"channel_hammer", probe_channel_hammer},
      {"cut_hammer", probe_cut_hammer},
      F(output_new), F(output_destroy), F(output_emit), F(output_watermark), F(output_status),
      F(output_barrier), F(output_cut), F(output_overtake), F(output_end), F(output_close),
      F(output_flush), F(output_has_room),
      F(output_drained), F(output_info),
      F(valve_new), F(valve_destroy), F(valve_watermark), F(valve_status), F(valve_end),
      F(valve_current),
      F(barrier_new), F(barrier_destroy), F(barrier_barrier), F(barrier_trigger),
      F(barrier_overtake), F(barrier_close), F(barrier_abort), F(barrier_cancel),
      F(barrier_recovering), F(barrier_channel), F(barrier_state),
      F(input_new), F(input_destroy), F(input_next), F(input_ahead),
      F(input_records), F(input_ready),
      F(input_trigger), F(input_capture), F(input_drop_captures), F(input_clock), F(input_spare),
      F(input_word), F(input_haste), F(input_next_urgent),
      F(input_abort), F(input_state), F(input_receiver_gone), F(input_debloat), F(input_n_gates),
      {NULL, NULL},
  };
  luaL_setfuncs(L, functions, 0);
}
