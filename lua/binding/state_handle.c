#include "context.h"

#include <lauxlib.h>
#include <stdlib.h>

#include "../../core/base/mem.h"
#include "codec.h"

/*
 * ctx.state.NAME: handles of keyed state, always of the current key.
 *
 *   value  get() -> value or nil; set(v), where nil clears; clear()
 *   map    get(k), set(k, v), where nil removes; remove(k); has(k); pairs(); clear()
 *
 * pairs goes over the map as it was when it began, in the order of the keys' bytes, whatever is
 * written meanwhile; it ends with the call (of on_element, say) that began it.
 */

/* An iteration: a userdata that owns the window's iterator until the end, the call's end, or its
 * collection, whichever is first. */
struct lsc_map_cursor {
  sc_map_iterator_t *it;   /* NULL: over */
  sc_keyed_t *keyed;       /* whose iterator it is */
  lsc_map_cursor_t *next;  /* of the operator's list */
  lsc_map_cursor_t **link; /* what points at this one; NULL: not in the list */
};

/* ---- addressing ---- */

/* Upvalue 3 of a method is the position of its state in op->states. */
static lsc_op_t *enter(lua_State *L, const char *usage, sc_address_t *at) {
  lsc_op_t *op = lsc__keyed_op(L, usage);
  *at = (sc_address_t){.state = op->states[lua_tointeger(L, lua_upvalueindex(3))].index,
                       .group = op->key_group,
                       .key_hash = op->key_hash,
                       .key = sc_buf_bytes(&op->key)};
  return op;
}

static int push_decoded(lua_State *L, lsc_op_t *op, sc_bytes_t bytes) {
  op->guard = true;
  int rc = lsc_decode(L, bytes, &op->fail);
  op->guard = false;
  return rc < 0 ? lsc__raise_fail(L, op) : 1;
}

static int done(lua_State *L, lsc_op_t *op, int rc) {
  return rc < 0 ? lsc__raise_fail(L, op) : 0;
}

static void encode_arg(lua_State *L, lsc_op_t *op, int arg) {
  sc_buf_clear(&op->scratch);
  if (lsc_encode(L, arg, &op->scratch, &op->error) < 0)
    lsc__raise(L, op);
}

static sc_bytes_t key_arg(lua_State *L, lsc_op_t *op, int arg) {
  sc_buf_clear(&op->map_key);
  lua_settop(L, lua_gettop(L) < arg ? arg : lua_gettop(L)); /* a missing key reads as nil */
  if (lsc_encode_key(L, arg, &op->map_key, &op->error) < 0)
    lsc__raise(L, op);
  return sc_buf_bytes(&op->map_key);
}

/* ---- value ---- */

static int value_get(lua_State *L) {
  sc_address_t at;
  lsc_op_t *op = enter(L, "ctx.state.NAME:get()", &at);
  sc_bytes_t bytes;
  int rc = sc_keyed_get(op->base.context->keyed, &at, &bytes, &op->fail);
  if (rc <= 0) {
    lua_pushnil(L);
    return rc < 0 ? done(L, op, rc) : 1;
  }
  return push_decoded(L, op, bytes);
}

static int value_set(lua_State *L) {
  sc_address_t at;
  lsc_op_t *op = enter(L, "ctx.state.NAME:set(value)", &at);
  sc_keyed_t *keyed = op->base.context->keyed;
  if (lua_isnoneornil(L, 2))
    return done(L, op, sc_keyed_clear(keyed, &at, &op->fail));
  encode_arg(L, op, 2);
  return done(L, op, sc_keyed_put(keyed, &at, sc_buf_bytes(&op->scratch), &op->fail));
}

static int state_clear(lua_State *L) {
  sc_address_t at;
  lsc_op_t *op = enter(L, "ctx.state.NAME:clear()", &at);
  return done(L, op, sc_keyed_clear(op->base.context->keyed, &at, &op->fail));
}

/* ---- map ---- */

static int map_find(lua_State *L, const char *usage, lsc_op_t **op, sc_bytes_t *bytes) {
  sc_address_t at;
  *op = enter(L, usage, &at);
  sc_keyed_t *keyed = (*op)->base.context->keyed;
  int rc = keyed->ops->map_get(keyed, &at, key_arg(L, *op, 2), bytes, &(*op)->fail);
  if (rc < 0)
    lsc__raise_fail(L, *op);
  return rc;
}

static int map_get(lua_State *L) {
  lsc_op_t *op;
  sc_bytes_t bytes;
  if (map_find(L, "ctx.state.NAME:get(key)", &op, &bytes))
    return push_decoded(L, op, bytes);
  lua_pushnil(L);
  return 1;
}

static int map_has(lua_State *L) {
  lsc_op_t *op;
  sc_bytes_t bytes;
  lua_pushboolean(L, map_find(L, "ctx.state.NAME:has(key)", &op, &bytes));
  return 1;
}

static int map_remove(lua_State *L) {
  sc_address_t at;
  lsc_op_t *op = enter(L, "ctx.state.NAME:remove(key)", &at);
  sc_keyed_t *keyed = op->base.context->keyed;
  return done(L, op, keyed->ops->map_remove(keyed, &at, key_arg(L, op, 2), &op->fail));
}

static int map_set(lua_State *L) {
  if (lua_isnoneornil(L, 3))
    return map_remove(L);
  sc_address_t at;
  lsc_op_t *op = enter(L, "ctx.state.NAME:set(key, value)", &at);
  sc_keyed_t *keyed = op->base.context->keyed;
  sc_bytes_t key = key_arg(L, op, 2);
  encode_arg(L, op, 3);
  return done(L, op, keyed->ops->map_put(keyed, &at, key, sc_buf_bytes(&op->scratch), &op->fail));
}

/* ---- iterations ---- */

static void cursor_end(lsc_map_cursor_t *c) {
  if (!c->it)
    return;
  c->keyed->ops->map_done(c->it);
  c->it = NULL;
  *c->link = c->next;
  if (c->next)
    c->next->link = c->link;
}

void lsc__cursors_end(lsc_op_t *op) {
  while (op->cursors)
    cursor_end(op->cursors);
}

static int cursor_gc(lua_State *L) {
  cursor_end(lua_touserdata(L, 1));
  return 0;
}

/* Upvalues: 1 the box, 2 the cursor, 3 whether its end was told. */
static int map_next(lua_State *L) {
  lsc_op_t **box = lua_touserdata(L, lua_upvalueindex(1));
  lsc_map_cursor_t *c = lua_touserdata(L, lua_upvalueindex(2));
  lsc_op_t *op = *box;
  if (!op || !op->running || !c->it) {
    if (lua_toboolean(L, lua_upvalueindex(3)))
      return 0;
    return luaL_error(L, "ctx.state.NAME:pairs() was used after the end of the call that began it");
  }
  if (op->guard)
    return luaL_error(L, "ctx.state.NAME:pairs() was used by a finalizer while the operator reads "
                      "its state");
  sc_bytes_t key, value;
  if (c->keyed->ops->map_next(c->it, &key, &value) != 1) {
    cursor_end(c);
    lua_pushboolean(L, true);
    lua_replace(L, lua_upvalueindex(3));
    return 0;
  }
  push_decoded(L, op, key);
  push_decoded(L, op, value);
  return 2;
}

static int map_pairs(lua_State *L) {
  sc_address_t at;
  lsc_op_t *op = enter(L, "ctx.state.NAME:pairs()", &at);
  lua_pushvalue(L, lua_upvalueindex(1));
  lsc_map_cursor_t *c = lua_newuserdatauv(L, sizeof *c, 0);
  *c = (lsc_map_cursor_t){.keyed = op->base.context->keyed};
  lua_pushvalue(L, lua_upvalueindex(4));
  lua_setmetatable(L, -2);
  lua_pushboolean(L, false);
  lua_pushcclosure(L, map_next, 3);
  c->it = c->keyed->ops->map_iterate(c->keyed, &at, NULL);
  c->next = op->cursors;
  c->link = &op->cursors;
  if (c->next)
    c->next->link = &c->next;
  op->cursors = c;
  return 1;
}

/* ---- making the handles ---- */

/* Upvalue 3: the names that are declared, as one text. */
static int states_index(lua_State *L) {
  lsc_op_t **box = lua_touserdata(L, lua_upvalueindex(1));
  const char *name = luaL_tolstring(L, 2, NULL);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (uint32_t i = 0; *box && i < (*box)->n_states; i++) {
    luaL_addstring(&b, i ? ", " : "; declared are: ");
    luaL_addstring(&b, (*box)->states[i].name);
  }
  luaL_pushresult(&b);
  return luaL_error(L, "no state '%s' is declared in the operator's 'state'%s", name,
                    lua_tostring(L, -1));
}

static int handle_index(lua_State *L) {
  return luaL_error(L, "%s has no method '%s'", luaL_tolstring(L, 1, NULL),
                    luaL_tolstring(L, 2, NULL));
}

typedef struct handle_method {
  const char *name; /* as users call it */
  lua_CFunction f;
} handle_method_t;

static const handle_method_t value_methods[] = {
    {"get", value_get}, {"set", value_set}, {"clear", state_clear}, {NULL, NULL}};
static const handle_method_t map_methods[] = {
    {"get", map_get},       {"set", map_set},     {"remove", map_remove}, {"has", map_has},
    {"clear", state_clear}, {"pairs", map_pairs}, {NULL, NULL}};

/* `meta` is the index of the metatable of iterations. */
static void push_handle(lsc_op_t *op, lua_State *L, uint32_t i, int box, int meta) {
  bool map = op->states[i].kind == SC_STATE_MAP;
  lua_createtable(L, 0, 6);
  int handle = lua_gettop(L);
  for (const handle_method_t *m = map ? map_methods : value_methods; m->name; m++) {
    lua_pushinteger(L, i);
    lua_pushvalue(L, meta);
    lsc__method(L, m->name, m->f, box, handle, 2);
  }
  const char *title = lua_pushfstring(L, "ctx.state.%s", op->states[i].name);
  lua_insert(L, handle);
  lsc__seal(L, title, handle_index, box);
  if (map) { /* pairs(handle) is handle:pairs() */
    lua_getmetatable(L, -1);
    lua_getfield(L, -2, "pairs");
    lua_setfield(L, -2, "__pairs");
    lua_pop(L, 1);
  }
  lua_remove(L, handle);
}

/* Upvalue 1 of both: the handles by their names. */
static int refuse_assignment(lua_State *L) {
  const char *name = luaL_tolstring(L, 2, NULL);
  lua_pushvalue(L, 2);
  if (lua_isnil(L, 2) || lua_rawget(L, lua_upvalueindex(1)) == LUA_TNIL)
    return luaL_error(L, "ctx.state has no field '%s' to set", name);
  return luaL_error(L, "ctx.state.%s cannot be assigned to: call ctx.state.%s:set(...)", name,
                    name);
}

static int states_pairs(lua_State *L) {
  lua_getglobal(L, "next");
  lua_pushvalue(L, lua_upvalueindex(1));
  return 2;
}

/* Put an empty table in front of the handles at the top of the stack: a field that is there could
 * be overwritten without a word, and what passes for state would be gone after a restart. */
static void guard_states(lua_State *L) {
  int handles = lua_gettop(L);
  lua_newtable(L);
  lua_createtable(L, 0, 5);
  lua_pushvalue(L, handles);
  lua_setfield(L, -2, "__index");
  lua_pushvalue(L, handles);
  lua_pushcclosure(L, refuse_assignment, 1);
  lua_setfield(L, -2, "__newindex");
  lua_pushvalue(L, handles);
  lua_pushcclosure(L, states_pairs, 1);
  lua_setfield(L, -2, "__pairs");
  lua_getmetatable(L, handles);
  lua_getfield(L, -1, "__tostring");
  lua_setfield(L, -3, "__tostring");
  lua_pop(L, 1);
  lua_setmetatable(L, -2);
  lua_remove(L, handles);
}

void lsc__states_push(lsc_op_t *op, lua_State *L, int box) {
  lua_createtable(L, 0, 1);
  int meta = lua_gettop(L);
  lua_pushcfunction(L, cursor_gc);
  lua_setfield(L, meta, "__gc");
  lua_createtable(L, 0, (int)op->n_states);
  for (uint32_t i = 0; i < op->n_states; i++) {
    push_handle(op, L, i, box, meta);
    lua_setfield(L, meta + 1, op->states[i].name);
  }
  lsc__seal(L, "ctx.state", states_index, box);
  guard_states(L);
  lua_remove(L, meta);
}

/* ---- declarations ---- */

static int by_name(const void *a, const void *b) {
  return strcmp(((const lsc_state_t *)a)->name, ((const lsc_state_t *)b)->name);
}

static sc_state_kind_t read_kind(lua_State *L, const char *name) {
  if (!lua_istable(L, -1))
    luaL_error(L, "state '%s' must be declared by sc.value or sc.map", name);
  lua_getfield(L, -1, "kind");
  const char *kind = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "nothing";
  bool map = strcmp(kind, "map") == 0;
  if (!map && strcmp(kind, "value") != 0)
    luaL_error(L, "state '%s' must be of kind value or map, not %s", name, kind);
  lua_pop(L, 1);
  return map ? SC_STATE_MAP : SC_STATE_VALUE;
}

void lsc__states_read(lsc_op_t *op, lua_State *L) {
  int type = lua_getfield(L, -1, "state");
  if (type != LUA_TNIL && type != LUA_TTABLE)
    luaL_error(L, "'state' must be a table of names and states, not a %s", lua_typename(L, type));
  if (type == LUA_TTABLE)
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
      if (lua_type(L, -2) != LUA_TSTRING)
        luaL_error(L, "names in 'state' must be strings, not a %s", luaL_typename(L, -2));
      const char *name = lua_tostring(L, -2);
      sc_state_kind_t kind = read_kind(L, name);
      op->states = sc_realloc(op->states, (op->n_states + 1) * sizeof *op->states);
      op->states[op->n_states++] = (lsc_state_t){sc_strdup(name), kind, -1};
    }
  lua_pop(L, 1);
  if (op->n_states)
    qsort(op->states, op->n_states, sizeof *op->states, by_name);
}

int lsc__states_declare(lsc_op_t *op, sc_error_t *err) {
  const sc_op_context_t *c = op->base.context;
  if (op->n_states && !c->keyed)
    return sc_fail(err, SC_EINVAL, "%s: state '%s' needs a keyed stream: put key_by before the "
                   "operator", c->label, op->states[0].name);
  for (uint32_t i = 0; i < op->n_states; i++) {
    sc_state_descriptor_t d = {op->states[i].name, op->states[i].kind};
    int rc = sc_keyed_declare(c->keyed, &d, err);
    if (rc < 0) {
      sc_error_set_operator(err, c->label);
      return rc;
    }
    op->states[i].index = rc;
  }
  return 0;
}
