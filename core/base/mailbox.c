#include "mailbox.h"

#include <stdlib.h>

#include "mem.h"

void sc_mailbox_init(sc_mailbox_t *box, sc_world_t *world, sc_actor_t *actor) {
  pthread_mutex_init(&box->lock, NULL);
  box->head = box->tail = NULL;
  atomic_init(&box->waiting, false);
  box->closed = false;
  box->world = world;
  box->actor = actor;
}

static void drop_mail(sc_mail_t *mail) {
  if (mail->drop)
    mail->drop(mail);
  else
    free(mail);
}

static sc_mail_t *take_all(sc_mailbox_t *box, bool close) {
  pthread_mutex_lock(&box->lock);
  sc_mail_t *list = box->head;
  box->head = box->tail = NULL;
  box->closed |= close;
  /* Relaxed: the lock orders the list; the flag is only a hint for sc_mailbox_any. */
  atomic_store_explicit(&box->waiting, false, memory_order_relaxed);
  pthread_mutex_unlock(&box->lock);
  return list;
}

void sc_mailbox_close(sc_mailbox_t *box) {
  sc_mail_t *list = take_all(box, true);
  while (list) {
    sc_mail_t *mail = list;
    list = mail->next;
    drop_mail(mail);
  }
}

void sc_mailbox_fini(sc_mailbox_t *box) {
  sc_mailbox_close(box);
  pthread_mutex_destroy(&box->lock);
}

bool sc_mailbox_post(sc_mailbox_t *box, sc_mail_t *mail) {
  mail->next = NULL;
  pthread_mutex_lock(&box->lock);
  bool closed = box->closed;
  if (!closed) {
    if (box->tail)
      box->tail->next = mail;
    else
      box->head = mail;
    box->tail = mail;
    atomic_store_explicit(&box->waiting, true, memory_order_relaxed);
  }
  pthread_mutex_unlock(&box->lock);
  if (closed)
    drop_mail(mail);
  else if (box->actor)
    sc_world_wake(box->world, box->actor);
  return !closed;
}

int sc_mailbox_run(sc_mailbox_t *box, void *owner) {
  if (!sc_mailbox_any(box))
    return 0;
  sc_mail_t *list = take_all(box, false);
  int n = 0;
  while (list) {
    sc_mail_t *mail = list;
    list = mail->next;
    mail->run(mail, owner);
    n++;
  }
  return n;
}
