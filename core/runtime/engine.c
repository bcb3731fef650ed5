#include "engine.h"

#include <stdio.h>
#include <stdlib.h>

#include "../base/mem.h"
#include "job.h"

#define SHUTDOWN_MS 2000

struct sc_engine {
  sc_world_t *world;
  sc_actor_t actor;
  sc_mailbox_t mailbox;
  sc_job_t **jobs;       /* the coordinator's thread */
  uint32_t n_jobs;
  atomic_bool leaving;   /* cancel all, then say so in `empty` */
  atomic_bool empty;     /* nothing of any job runs */
};

static void look_after(sc_engine_t *e, int64_t *deadline) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < e->n_jobs; i++) {
    sc_job_t *job = e->jobs[i];
    if (atomic_load(&e->leaving) && !sc__job_canceling(job))
      sc_job_cancel(job);
    int64_t d = sc__job_step(job);
    *deadline = d < *deadline ? d : *deadline;
    if (sc__job_gone(job))
      sc_job_unref(job);
    else
      e->jobs[kept++] = job;
  }
  e->n_jobs = kept;
}

static int64_t engine_step(void *arg) {
  sc_engine_t *e = arg;
  int64_t deadline = SC_STEP_ON_WAKE;
  sc_mailbox_run(&e->mailbox, e);
  look_after(e, &deadline);
  atomic_store(&e->empty, e->n_jobs == 0 && !sc_mailbox_any(&e->mailbox));
  return sc_mailbox_any(&e->mailbox) ? SC_STEP_AGAIN : deadline;
}

static const sc_actor_ops_t engine_ops = {.step = engine_step};

sc_engine_t *sc_engine_create(sc_world_t *world, sc_error_t *err) {
  sc_engine_t *e = sc_calloc(1, sizeof *e);
  e->world = world;
  e->actor = (sc_actor_t){.ops = &engine_ops, .arg = e, .name = "sc-coordinator"};
  atomic_init(&e->leaving, false);
  atomic_init(&e->empty, true);
  sc_mailbox_init(&e->mailbox, world, &e->actor);
  if (sc_world_spawn(world, &e->actor, err) < 0) {
    sc_mailbox_fini(&e->mailbox);
    world->ops->destroy(world);
    free(e);
    return NULL;
  }
  return e;
}

sc_world_t *sc_engine_world(sc_engine_t *e) { return e->world; }

void sc_engine_post(sc_engine_t *e, sc_mail_t *mail) {
  sc_mailbox_post(&e->mailbox, mail);
}

void sc__engine_add(sc_engine_t *e, sc_job_t *job) {
  e->jobs = sc_realloc(e->jobs, (e->n_jobs + 1) * sizeof *e->jobs);
  e->jobs[e->n_jobs++] = job;
}

/* Waits for the coordinator to have taken everything down; by the world's clock, since the
 * coordinator is asked through the world, too. */
static bool wait_until_empty(sc_engine_t *e) {
  int64_t until = sc_world_mono_ns(e->world) + (int64_t)SHUTDOWN_MS * 1000000;
  do {
    atomic_store(&e->empty, false);
    sc_world_wake(e->world, &e->actor);
    for (int i = 0; i < 20 && !atomic_load(&e->empty); i++)
      e->world->ops->pause(e->world, 1);
    if (atomic_load(&e->empty))
      return true;
  } while (sc_world_mono_ns(e->world) < until);
  return false;
}

void sc_engine_destroy(sc_engine_t *e) {
  if (!e)
    return;
  atomic_store(&e->leaving, true);
  if (!wait_until_empty(e)) {
    /* Something hangs in a user's function or a library: it cannot be stopped from outside, and
     * freeing what it uses would crash. Say who, and leave everything as it is. */
    if (sc_world_retire(e->world, &e->actor, 200))
      for (uint32_t i = 0; i < e->n_jobs; i++)
        fprintf(stderr, "streamckpt: job %s does not end: it hangs in %s; leaving without it\n",
                sc_job_id(e->jobs[i]), sc__job_what_runs(e->jobs[i]));
    return;
  }
  sc_world_retire(e->world, &e->actor, -1);
  sc_mailbox_fini(&e->mailbox);
  e->world->ops->destroy(e->world);
  free(e->jobs);
  free(e);
}
