/*
 * sleeper: how threads of specs wait for each other: wake sets a flag, wait takes it. Only a lost
 * wake-up lets it wait in vain; then the limit turns a hang into a failure.
 *
 * Threads: wake from any, wait from one. Ownership: embedded; needs no end.
 */
#ifndef SC_SPEC_SLEEPER_H
#define SC_SPEC_SLEEPER_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "lost_after.h"

typedef struct sleeper {
  pthread_mutex_t lock;
  pthread_cond_t cond;
  bool woken;
} sleeper_t;

static inline void sleeper_init(sleeper_t *s) {
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->cond, NULL);
  s->woken = false;
}

static inline void sleeper_wake(void *arg) {
  sleeper_t *s = arg;
  pthread_mutex_lock(&s->lock);
  s->woken = true;
  pthread_cond_signal(&s->cond);
  pthread_mutex_unlock(&s->lock);
}

/* false: nobody woke it. */
static inline bool sleeper_wait(sleeper_t *s) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += LOST_AFTER_S;
  int rc = 0;
  pthread_mutex_lock(&s->lock);
  while (!s->woken && rc != ETIMEDOUT)
    rc = pthread_cond_timedwait(&s->cond, &s->lock, &until);
  bool woken = s->woken;
  s->woken = false;
  pthread_mutex_unlock(&s->lock);
  return woken;
}

#endif
