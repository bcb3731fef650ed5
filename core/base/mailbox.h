/*
 * mailbox: how actors talk. Many senders, one receiver, first in first out.
 *
 * A mail is a small struct that begins with sc_mail_t and knows what to do when it is read
 * (`run`, on the receiver's thread, with the receiver's own pointer) and when nobody will read it
 * (`drop`). Posting hands the mail over. A closed box drops whatever is posted.
 *
 * Ownership: the mail belongs to the box from post on; run and drop each free it (or reuse it).
 * Threads: post from any; take and close only by the receiver. The lock is held for a few
 * instructions and never while run or drop is called.
 */
#ifndef SC_BASE_MAILBOX_H
#define SC_BASE_MAILBOX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "world.h"

typedef struct sc_mail sc_mail_t;
struct sc_mail {
  sc_mail_t *next;                            /* the box's */
  void (*run)(sc_mail_t *mail, void *owner);  /* read: frees the mail */
  void (*drop)(sc_mail_t *mail);              /* never read: frees the mail; NULL means free() */
};

typedef struct sc_mailbox {
  pthread_mutex_t lock;
  sc_mail_t *head, *tail;
  atomic_bool waiting;  /* something is in it; read without the lock by sc_mailbox_any */
  bool closed;
  sc_world_t *world;
  sc_actor_t *actor;    /* woken by post; may be NULL */
} sc_mailbox_t;

void sc_mailbox_init(sc_mailbox_t *box, sc_world_t *world, sc_actor_t *actor);
/* Drops what is left. */
void sc_mailbox_fini(sc_mailbox_t *box);
/* False if the box was closed (the mail was dropped). */
bool sc_mailbox_post(sc_mailbox_t *box, sc_mail_t *mail);
/* Is there mail? Cheap: one relaxed load. */
static inline bool sc_mailbox_any(sc_mailbox_t *box) {
  /* Relaxed: a false answer is mended by the wake that follows the post. */
  return atomic_load_explicit(&box->waiting, memory_order_relaxed);
}
/* Run all mail that is there now; returns how many. Mail posted meanwhile waits. */
int sc_mailbox_run(sc_mailbox_t *box, void *owner);
/* From now on posts are dropped, and so is what is inside. Idempotent. */
void sc_mailbox_close(sc_mailbox_t *box);

#endif
