/*
 * io_lock: a mutex that may be held while files are worked on.
 *
 * Nothing else in core holds a lock across an operation of the storage. Where all actors are fibers
 * of one thread (core/sim), such an operation lets the others go on, so one of them may want the
 * lock that another fiber holds: blocking would then block the fiber that is to give it back. Who
 * runs fibers says what waiting means there (sc_io_lock_wait_by); everywhere else it is an ordinary
 * mutex.
 *
 * Threads: any. Ownership: embedded, init/fini. Failure: none.
 */
#ifndef SC_BASE_IO_LOCK_H
#define SC_BASE_IO_LOCK_H

#include <pthread.h>

typedef struct sc_io_lock { pthread_mutex_t mutex; } sc_io_lock_t;

void sc_io_lock_init(sc_io_lock_t *lock);
void sc_io_lock_fini(sc_io_lock_t *lock);
void sc_io_lock(sc_io_lock_t *lock);
void sc_io_unlock(sc_io_lock_t *lock);

/* On this thread, wait for a lock that is taken by calling `wait` and trying again; NULL: block. */
void sc_io_lock_wait_by(void (*wait)(void));

#endif
