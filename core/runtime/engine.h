/*
 * engine: one per process; the coordinator's thread and the jobs it looks after.
 *
 * Threads: create/destroy by one (the binding's main thread, or the simulator); the rest any.
 * Destroy cancels what still runs, waits at most 2 s for it, and names what hangs.
 */
#ifndef SC_RUNTIME_ENGINE_H
#define SC_RUNTIME_ENGINE_H

#include "../base/mailbox.h"

typedef struct sc_engine sc_engine_t;
typedef struct sc_job sc_job_t;

/* Takes over the world. NULL and err where the coordinator's thread cannot be made. */
sc_engine_t *sc_engine_create(sc_world_t *world, sc_error_t *err);
void sc_engine_destroy(sc_engine_t *e);
sc_world_t *sc_engine_world(sc_engine_t *e);
/* Mail to the coordinator's thread; `owner` in run is the engine. */
void sc_engine_post(sc_engine_t *e, sc_mail_t *mail);

/* job.c's: the coordinator's list. Coordinator's thread only. */
void sc__engine_add(sc_engine_t *e, sc_job_t *job);

#endif
