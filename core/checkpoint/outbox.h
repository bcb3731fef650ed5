/*
 * outbox: the coordinator's actions on their way to whoever carries them out.
 *
 * First in, first out. What an action points to (text, tasks, a discarded snapshot) belongs to its
 * entry and lives until the next call of the coordinator after it was taken; the snapshots of a
 * WRITE are the pending checkpoint's, which lives until it is written.
 *
 * Threads: one (the coordinator's). Ownership: init/fini, embedded.
 */
#ifndef SC_CHECKPOINT_OUTBOX_H
#define SC_CHECKPOINT_OUTBOX_H

#include "coordinator.h"

typedef struct sc_outgoing sc_outgoing_t;
struct sc_outgoing {
  sc_outgoing_t *next;         /* younger one */
  sc_action_t action;          /* what is handed out; points into this entry */
  char *text;                  /* owned, or NULL */
  uint32_t *tasks;             /* owned, or NULL */
  sc_task_snapshot_t *discard; /* owned, or NULL */
};

typedef struct sc_outbox {
  sc_outgoing_t *oldest;   /* next to hand out */
  sc_outgoing_t *youngest; /* where others follow */
  sc_outgoing_t *taken;    /* handed out, still borrowed */
} sc_outbox_t;

void sc_outbox_init(sc_outbox_t *o);
void sc_outbox_fini(sc_outbox_t *o);
/* A new, last action of a kind, for the caller to fill in; its task is UINT32_MAX. */
sc_outgoing_t *sc_outbox_add(sc_outbox_t *o, sc_action_kind_t kind);
/* Whoever called before has had the time to use what was taken. */
void sc_outbox_release(sc_outbox_t *o);
bool sc_outbox_take(sc_outbox_t *o, sc_action_t *out);

#endif
