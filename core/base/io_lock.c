#include "io_lock.h"

#include <errno.h>

static _Thread_local void (*wait_by)(void);

void sc_io_lock_wait_by(void (*wait)(void)) { wait_by = wait; }

void sc_io_lock_init(sc_io_lock_t *lock) { pthread_mutex_init(&lock->mutex, NULL); }

void sc_io_lock_fini(sc_io_lock_t *lock) { pthread_mutex_destroy(&lock->mutex); }

void sc_io_lock(sc_io_lock_t *lock) {
  if (!wait_by) {
    pthread_mutex_lock(&lock->mutex);
    return;
  }
  while (pthread_mutex_trylock(&lock->mutex) == EBUSY)
    wait_by();
}

void sc_io_unlock(sc_io_lock_t *lock) { pthread_mutex_unlock(&lock->mutex); }
