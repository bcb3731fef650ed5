#include "chain.h"

#include <stdlib.h>
#include <string.h>

#include "../base/mem.h"
#include "../data/key.h"

typedef enum { ITEM, TIMERS, WATERMARK, FINISH, IDLE, HAND } frame_kind_t;

/* Where a WATERMARK frame stands. */
enum { FIRING, NOTIFYING, FORWARDING };

/* A record makes a frame at each operator: what is set then comes first and is small. */
typedef struct sc_frame {
  uint8_t kind;           /* frame_kind_t */
  uint8_t phase;          /* WATERMARK */
  bool stepping;          /* the operator was begun and is not done */
  bool begun;             /* FINISH: begin_finish was called */
  bool handing;           /* `item` is on its way to chained receivers */
  sc_link_t *link;
  int64_t time;           /* WATERMARK, TIMERS */
  uint32_t route, next;   /* handing: next receiver */
  sc_item_t item;         /* counts only while it is handed on */
} frame_t;

/* ---- construction ---- */

static void init_link(sc_chain_t *c, sc_link_t *link, const sc_node_t *node) {
  link->chain = c;
  link->node = node;
  link->routes = sc_calloc(node->n_outputs, sizeof *link->routes);
  link->forwarded = SC_WATERMARK_MIN;
  link->context.watermark = SC_WATERMARK_MIN;
  atomic_init(&link->watermark_shown, SC_WATERMARK_MIN);
}

void sc_chain_init(sc_chain_t *c, const sc_graph_t *g, const sc_chain_plan_t *plan, void *task) {
  memset(c, 0, sizeof *c);
  c->task = task;
  c->n_links = plan->n_nodes;
  c->links = sc_calloc(plan->n_nodes, sizeof *c->links);
  /* Every link has at most a frame of its own and one that hands on; FINISH frames come on top. */
  c->frames = sc_calloc(4 * (size_t)plan->n_nodes + 4, sizeof *c->frames);
  for (uint32_t i = 0; i < plan->n_nodes; i++)
    init_link(c, &c->links[i], &g->nodes[plan->nodes[i]]);
  for (uint32_t i = 0; i < g->n_edges; i++) {
    const sc_edge_t *e = &g->edges[i];
    if (!e->chained || &g->chains[g->nodes[e->from].chain] != plan)
      continue;
    sc_route_t *r = &c->links[g->nodes[e->from].position].routes[e->output];
    r->links = sc_realloc(r->links, (r->n_links + 1) * sizeof *r->links);
    r->ports = sc_realloc(r->ports, (r->n_links + 1) * sizeof *r->ports);
    r->links[r->n_links] = g->nodes[e->to].position;
    r->ports[r->n_links++] = e->port;
  }
}

void sc_chain_add_exit(sc_chain_t *c, uint32_t link, uint32_t output, sc_output_t *o,
                       const sc_edge_t *e) {
  sc_route_t *r = &c->links[link].routes[output];
  r->exits = sc_realloc(r->exits, (r->n_exits + 1) * sizeof *r->exits);
  r->exits[r->n_exits++] = (sc_exit_t){o, e};
  c->outputs = sc_realloc(c->outputs, (c->n_outputs + 1) * sizeof *c->outputs);
  c->outputs[c->n_outputs++] = o;
}

void sc_chain_fini(sc_chain_t *c) {
  for (uint32_t i = 0; i < c->n_links; i++) {
    sc_link_t *link = &c->links[i];
    if (link->op)
      link->op->ops->destroy(link->op);
    link->op = NULL;
    for (uint32_t o = 0; o < link->node->n_outputs; o++) {
      free(link->routes[o].links);
      free(link->routes[o].ports);
      free(link->routes[o].exits);
    }
    free(link->routes);
    free(link->label);
    sc_buf_free(&link->timer_key);
  }
  free(c->links);
  free(c->outputs);
  free(c->frames);
  sc_buf_free(&c->value);
  sc_buf_free(&c->key);
  sc_buf_free(&c->part);
  memset(c, 0, sizeof *c);
}

/* ---- frames ---- */

static inline frame_t *push(sc_chain_t *c, frame_kind_t kind, uint32_t link) {
  sc_assert(c->depth < 4 * c->n_links + 4);
  frame_t *f = &c->frames[c->depth++];
  f->kind = (uint8_t)kind; /* item and receiver count only once they are set */
  f->phase = FIRING;
  f->stepping = f->begun = f->handing = false;
  f->link = &c->links[link];
  f->time = 0;
  return f;
}

static void set_watermark(sc_link_t *link, int64_t watermark) {
  link->context.watermark = watermark;
  atomic_store_explicit(&link->watermark_shown, watermark, memory_order_relaxed); /* shown only */
}

static void push_watermark(sc_chain_t *c, uint32_t at, int64_t watermark) {
  sc_link_t *link = &c->links[at];
  if (link->op->ops->swallows_watermarks && watermark != SC_WATERMARK_MAX)
    return;
  if (watermark < link->context.watermark)
    watermark = link->context.watermark; /* never back */
  if (watermark == link->context.watermark && watermark <= link->forwarded)
    return;
  set_watermark(link, watermark);
  frame_t *f = push(c, WATERMARK, at);
  f->time = watermark;
  if (link->context.timers)
    sc_timers_begin_advance(link->context.timers, SC_EVENT_TIME);
}

static inline bool goes_everywhere(const sc_item_t *item) {
  return item->is_watermark || item->is_status;
}

/* Write to exchanges what is not a record: to all outputs of the link. */
static void broadcast(sc_link_t *link, const sc_item_t *item) {
  link->chain->pushed = true;
  for (uint32_t o = 0; o < link->node->n_outputs; o++)
    for (uint32_t i = 0; i < link->routes[o].n_exits; i++) {
      sc_output_t *out = link->routes[o].exits[i].output;
      if (item->is_watermark)
        sc_output_watermark(out, item->timestamp);
      else
        sc_output_status(out, item->idle);
    }
}

/* The frame's item leaves its link: exchanges at once, chained receivers one by one. */
static inline int start_handing(sc_chain_t *c, frame_t *f, sc_error_t *err) {
  sc_link_t *link = f->link;
  f->next = 0;
  if (!goes_everywhere(&f->item)) {
    f->route = f->item.output;
    f->handing = sc_chain_chained(link, f->item.output);
    if (link->routes[f->route].n_exits == 0) {
      sc_chain_count_one(&link->records_out);
      return 0;
    }
    int rc = sc_chain_write(link, &f->item, err);
    return rc < 0 ? rc : 0;
  }
  f->route = 0;
  f->handing = true;
  if (f->item.is_watermark) {
    if (f->item.timestamp <= link->forwarded) {
      f->handing = false; /* never back */
      return 0;
    }
    link->forwarded = f->item.timestamp;
  } else {
    link->idle = f->item.idle;
  }
  broadcast(link, &f->item);
  return 0;
}

static inline void set_key(sc_link_t *link, bool has, uint16_t group, sc_bytes_t key,
                           uint64_t hash) {
  link->context.has_key = has;
  link->context.key_group = group;
  link->context.key = key;
  link->context.key_hash = hash;
}

/* A watermark or a status comes to an operator. */
static int receive_signal(sc_chain_t *c, uint32_t at, const sc_item_t *item, sc_error_t *err) {
  if (item->is_watermark) {
    push_watermark(c, at, item->timestamp);
    return 0;
  }
  if (c->links[at].op->ops->swallows_watermarks)
    return 0;
  frame_t *f = push(c, HAND, at);
  f->item = *item;
  return start_handing(c, f, err);
}

/* Does nothing of the frame remain, once it neither steps nor hands on? */
static inline bool used_up(const frame_t *f) {
  return !f->stepping && (f->kind == ITEM || f->kind == IDLE || f->kind == HAND);
}

/* The frame's operator was stepped, which may have given the frame an item. */
static inline int stepped(sc_chain_t *c, frame_t *f, int rc, sc_error_t *err) {
  if (rc == SC_DONE || rc == SC_LAST) {
    f->stepping = false;
    set_key(f->link, false, 0, (sc_bytes_t){NULL, 0}, 0);
  }
  if (rc == SC_EMIT || rc == SC_LAST)
    rc = start_handing(c, f, err);
  /* At once, also where an exchange is full now: a task between two records may take a snapshot. */
  if (!f->handing && used_up(f))
    c->depth--;
  return rc;
}

/* The only chained receiver of what a link emits, if its output leads nowhere else; or NULL. */
static inline const sc_route_t *only_route(const sc_link_t *link, const sc_item_t *item) {
  const sc_route_t *r = &link->routes[item->output];
  return !goes_everywhere(item) && r->n_links == 1 && r->n_exits == 0 ? r : NULL;
}

/* A record comes to an operator, which may give a last one for it to the next operator, and so on:
 * as long as nothing but that is left to do no frame is made. */
static int receive(sc_chain_t *c, uint32_t at, uint32_t port, const sc_item_t *item,
                   sc_error_t *err) {
  sc_item_t out;
  for (;;) {
    sc_link_t *link = &c->links[at];
    sc_chain_count_one(&link->records_in);
    int rc = link->op->ops->begin(link->op, port, item, err);
    if (rc == SC_TAKEN)
      return 0;
    if (rc >= 0 && !sc_chain_goes_on(c)) {
      push(c, ITEM, at)->stepping = true;
      return 0;
    }
    rc = rc < 0 ? rc : link->op->ops->step(link->op, &out, err);
    if (rc < 0) {
      sc_error_set_operator(err, link->label);
      return rc;
    }
    const sc_route_t *r = rc == SC_LAST ? only_route(link, &out) : NULL;
    if (!r) {
      frame_t *f = push(c, ITEM, at);
      f->stepping = true;
      if (rc == SC_EMIT || rc == SC_LAST)
        f->item = out;
      rc = stepped(c, f, rc, err);
      return rc < 0 ? rc : 0;
    }
    sc_chain_count_one(&link->records_out);
    set_key(link, false, 0, (sc_bytes_t){NULL, 0}, 0);
    at = r->links[0];
    port = r->ports[0];
    item = &out;
  }
}

/* Hand the top frame's item to chained receivers, up to the first that has to be stepped and so
 * becomes the top; behind the last one the frame goes on, or goes. */
static int hand_on(sc_chain_t *c, frame_t *f, sc_error_t *err) {
  sc_link_t *link = f->link;
  uint32_t depth = c->depth;
  bool everywhere = goes_everywhere(&f->item), shared = f->item.shared;
  while (f->route < link->node->n_outputs) {
    const sc_route_t *r = &link->routes[f->route];
    while (f->next < r->n_links) {
      uint32_t i = f->next++;
      f->item.shared = shared || f->next < r->n_links; /* the last may have the emitter's own */
      int rc = everywhere ? receive_signal(c, r->links[i], &f->item, err)
                          : receive(c, r->links[i], r->ports[i], &f->item, err);
      f->item.shared = shared;
      if (rc < 0 || c->depth != depth)
        return rc;
    }
    if (!everywhere)
      break;
    f->route++;
    f->next = 0;
  }
  f->handing = false;
  if (used_up(f))
    c->depth--;
  return 0;
}

/* The timer's bytes live until the next call to timers, which its own callback may make: copy. */
static int fire(sc_link_t *link, const sc_timer_t *timer, sc_error_t *err) {
  sc_buf_clear(&link->timer_key);
  sc_buf_put_bytes(&link->timer_key, timer->key);
  sc_buf_put_bytes(&link->timer_key, timer->name_space);
  sc_timer_t copy = *timer;
  copy.key = sc_bytes(link->timer_key.data, timer->key.len);
  copy.name_space = sc_bytes(link->timer_key.data + timer->key.len, timer->name_space.len);
  set_key(link, true, timer->group, copy.key, 0);
  return link->op->ops->begin_timer(link->op, &copy, err);
}

/* Begin the next timer of a TIMERS or WATERMARK frame: 1 if one was due. */
static int next_timer(sc_link_t *link, frame_t *f, sc_time_domain_t domain, sc_error_t *err) {
  sc_timer_t timer;
  if (!link->context.timers || !link->op->ops->begin_timer)
    return 0;
  int rc = sc_timers_pop(link->context.timers, domain, f->time, &timer, err);
  if (rc <= 0)
    return rc;
  rc = fire(link, &timer, err);
  f->stepping = true;
  return rc < 0 ? rc : 1;
}

/* A WATERMARK frame whose operator is not stepping: the next thing it has to do. */
static int advance(sc_chain_t *c, frame_t *f, sc_error_t *err) {
  sc_link_t *link = f->link;
  const sc_operator_ops_t *ops = link->op->ops;
  if (f->phase == FIRING && f->time <= link->forwarded) {
    c->depth--; /* a resumed one that came from upstream as well */
    return 0;
  }
  if (f->phase == FIRING) {
    int rc = next_timer(link, f, SC_EVENT_TIME, err);
    if (rc)
      return rc;
    f->phase = NOTIFYING;
    if (ops->begin_watermark) {
      f->stepping = true;
      return ops->begin_watermark(link->op, f->time, err);
    }
  }
  if (f->phase == NOTIFYING) {
    f->phase = FORWARDING;
    f->item = (sc_item_t){.is_watermark = true, .timestamp = f->time};
    return start_handing(c, f, err);
  }
  c->depth--;
  return 0;
}

/* A frame that is neither stepping nor handing: begin its next part, or end it. */
static int go_on(sc_chain_t *c, frame_t *f, sc_error_t *err) {
  sc_link_t *link = f->link;
  switch (f->kind) {
    case WATERMARK:
      return advance(c, f, err);
    case TIMERS: {
      int rc = next_timer(link, f, SC_PROCESSING_TIME, err);
      if (rc == 0)
        c->depth--;
      return rc;
    }
    case FINISH:
      if (!f->begun && link->op->ops->begin_finish) {
        f->begun = f->stepping = true;
        return link->op->ops->begin_finish(link->op, err);
      }
      c->depth--;
      return 0;
    default:
      c->depth--;
      return 0;
  }
}

static inline int step(sc_chain_t *c, frame_t *f, sc_error_t *err) {
  return stepped(c, f, f->link->op->ops->step(f->link->op, &f->item, err), err);
}

bool sc_chain_divisible(const sc_chain_t *c) {
  const frame_t *f = c->frames;
  return c->depth == 0 || (c->depth == 1 && f->kind == WATERMARK && f->phase == FIRING &&
                           !f->stepping && !f->handing);
}

int sc_chain_run(sc_chain_t *c, int steps, sc_error_t *err) {
  while (c->depth) {
    frame_t *f = &c->frames[c->depth - 1];
    const sc_link_t *link = f->link;
    int rc;
    if (f->handing) {
      rc = hand_on(c, f, err);
    } else {
      if (!sc_chain_goes_on(c))
        return SC_CHAIN_BLOCKED;
      if (steps-- <= 0)
        return SC_CHAIN_SUSPENDED;
      rc = f->stepping ? step(c, f, err) : go_on(c, f, err);
    }
    if (rc < 0) {
      sc_error_set_operator(err, link->label);
      return rc;
    }
  }
  return SC_CHAIN_IDLE;
}

/* ---- beginning something ---- */

int sc_chain_record(sc_chain_t *c, uint32_t port, const sc_item_t *item, sc_error_t *err) {
  sc_link_t *head = &c->links[0];
  if (head->node->keyed) {
    sc_key_range_t own = head->context.keyed->range;
    if (item->has_key && (item->key_group < own.first || item->key_group > own.last)) {
      sc_fail(err, SC_EKEY,
              "a record of key group %u came to a subtask that owns %u to %u: its key is "
              "not deterministic",
              item->key_group, own.first, own.last);
      sc_error_set_operator(err, head->label);
      return SC_EKEY;
    }
    set_key(head, item->has_key, item->key_group, item->key, item->key_hash);
  }
  return receive(c, 0, port, item, err);
}

void sc_chain_watermark(sc_chain_t *c, int64_t watermark) {
  push_watermark(c, 0, watermark);
}

void sc_chain_status(sc_chain_t *c, bool idle) {
  sc_item_t item = {.is_status = true, .idle = idle};
  receive_signal(c, 0, &item, NULL); /* a status cannot fail */
}

int64_t sc_chain_next_timer(const sc_chain_t *c) {
  int64_t time, next = INT64_MAX;
  for (uint32_t i = 0; i < c->n_links; i++) {
    sc_timers_t *t = c->links[i].context.timers;
    if (t && sc_timers_next(t, SC_PROCESSING_TIME, &time) && time < next)
      next = time;
  }
  return next;
}

void sc_chain_timers(sc_chain_t *c, int64_t now_ms) {
  for (uint32_t i = 0; i < c->n_links; i++) {
    sc_timers_t *t = c->links[i].context.timers;
    int64_t time;
    if (!t || !sc_timers_next(t, SC_PROCESSING_TIME, &time) || time > now_ms)
      continue;
    sc_timers_begin_advance(t, SC_PROCESSING_TIME);
    push(c, TIMERS, i)->time = now_ms;
  }
}

int sc_chain_begin_idle(sc_chain_t *c, sc_error_t *err) {
  for (uint32_t i = 0; i < c->n_links; i++) {
    sc_operator_t *op = c->links[i].op;
    int rc = op->ops->begin_idle ? op->ops->begin_idle(op, err) : 0;
    if (rc < 0)
      sc_error_set_operator(err, c->links[i].label);
    if (rc > 0)
      push(c, IDLE, i)->stepping = true;
    if (rc)
      return rc;
  }
  return 0;
}

void sc_chain_finish(sc_chain_t *c) {
  for (uint32_t i = c->n_links; i > 0; i--) /* a stack: the head comes to lie on top */
    push(c, FINISH, i - 1);
  push_watermark(c, 0, SC_WATERMARK_MAX);
}

int sc_chain_poll(sc_chain_t *c, sc_error_t *err) {
  sc_link_t *head = &c->links[0];
  sc_item_t *item = &c->polled;
  int rc = head->op->ops->poll(head->op, item, err), done = 0;
  if (rc == SC_EMIT && !goes_everywhere(item) && !sc_chain_chained(head, item->output)) {
    done = sc_chain_write(head, item, err); /* to exchanges only: nothing is left to hand on */
  } else if (rc == SC_EMIT) {
    frame_t *f = push(c, HAND, 0);
    f->item = *item;
    done = start_handing(c, f, err);
  }
  rc = done < 0 ? done : rc;
  if (rc < 0)
    sc_error_set_operator(err, head->label);
  return rc;
}

/* Who was behind an exchange when the snapshot was taken, and is chained now, may know less than
 * what its sender has handed on, and will not hand on again. */
static void catch_up(sc_chain_t *c, const sc_link_t *link) {
  for (uint32_t o = 0; o < link->node->n_outputs; o++)
    for (uint32_t i = 0; i < link->routes[o].n_links; i++)
      if (link->forwarded > c->links[link->routes[o].links[i]].context.watermark)
        push_watermark(c, link->routes[o].links[i], link->forwarded);
}

void sc_chain_resume_watermarks(sc_chain_t *c) {
  for (uint32_t i = c->n_links; i > 0; i--) {
    sc_link_t *link = &c->links[i - 1];
    int64_t watermark = link->context.watermark;
    catch_up(c, link);
    if (watermark > link->forwarded)
      push_watermark(c, i - 1, watermark);
  }
}
