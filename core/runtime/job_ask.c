/*
 * job_ask: what users ask of a job from other threads (a checkpoint, a stop), from the call to its
 * answer. The call takes a ticket and posts mail; the coordinator's thread passes the request on at
 * once, when the job runs, or refuses it; the ticket holds the answer until it is fetched.
 *
 *   taken --mail--> waits (the job is about to run) --it runs--> requested --SC_ACT_ANSWER--> done
 *                     '--it restarts after a delay, or nothing can be taken------------------> done
 */
#include <inttypes.h>
#include <stdlib.h>

#include "../base/mem.h"
#include "job_parts.h"

static sc_answer_t *find_answer(sc_view_t *v, uint64_t ticket, uint64_t request) {
  sc_answer_t *a = v->answers;
  while (a && (ticket ? a->ticket != ticket : a->done || a->request != request))
    a = a->next;
  return a;
}

static void asked(sc_job_t *job, uint64_t ticket, uint64_t request) {
  sc__view_lock(job);
  sc_answer_t *a = find_answer(&job->view, ticket, 0);
  if (a)
    a->request = request;
  sc__view_unlock(job);
}

/* With the lock held. */
static void answer(sc_view_t *v, sc_answer_t *a, uint64_t id, sc_error_t *err) {
  a->done = true;
  a->waits = false;
  a->id = id;
  if (err)
    sc_error_move(&a->error, err);
  sc__view_tell(v);
}

bool sc__ask_answer(sc_job_t *job, uint64_t request, uint64_t id, sc_error_t *err) {
  sc__view_lock(job);
  sc_answer_t *a = find_answer(&job->view, 0, request);
  bool stop = a && a->what != SC_ASK_CHECKPOINT;
  if (a)
    answer(&job->view, a, id, err);
  sc__view_unlock(job);
  return stop;
}

typedef struct ask_mail {
  sc_mail_t mail;
  sc_job_t *job;
  uint64_t ticket;
} ask_mail_t;

static void drop_ask(sc_mail_t *mail) {
  sc_job_unref(((ask_mail_t *)mail)->job);
  free(mail);
}

/* The numbers of requests are told before their answers are carried out (sc__job_actions). */
static void request(sc_job_t *job, uint64_t ticket) {
  int64_t now = sc__job_now(job), mono = sc__job_mono(job);
  sc__view_lock(job);
  const sc_answer_t *a = find_answer(&job->view, ticket, 0);
  int what = a ? (int)a->what : SC_ASK_CHECKPOINT;
  sc__view_unlock(job);
  asked(job, ticket,
        what == SC_ASK_CHECKPOINT
            ? sc_coordinator_request(job->coordinator, now, mono)
            : sc_coordinator_request_stop(job->coordinator, now, mono, what == SC_ASK_DRAIN));
}

void sc__ask_waiting(sc_job_t *job) {
  for (;;) {
    sc__view_lock(job);
    sc_answer_t *a = job->view.answers;
    while (a && !a->waits)
      a = a->next;
    uint64_t ticket = a ? a->ticket : 0;
    if (a)
      a->waits = false;
    sc__view_unlock(job);
    if (!ticket)
      return;
    request(job, ticket);
  }
}

void sc__ask_refuse_waiting(sc_job_t *job, int64_t delay_ms) {
  sc__view_lock(job);
  for (sc_answer_t *a = job->view.answers; a; a = a->next) {
    if (!a->waits)
      continue;
    sc_error_t err = SC_ERROR_INIT;
    sc_fail(&err, SC_EDECLINED, "the job failed before one could be taken; it restarts in %" PRId64
            " ms", delay_ms);
    answer(&job->view, a, 0, &err);
  }
  sc__view_unlock(job);
}

static bool is_complete(const sc_job_t *job) {
  return job->origin && job->origin->all_finished;
}

/* How long until all that waits to restart does; ms. */
static int64_t delay_left(const sc_job_t *job) {
  int64_t left = 0, now = sc__job_mono(job);
  for (uint32_t i = 0; i < job->layout->n; i++) {
    const sc_region_t *r = &job->regions[i];
    if (r->state == SC_REGION_WAITING && r->restart_at_ms - now > left)
      left = r->restart_at_ms - now;
  }
  return left;
}

/* Before it runs, and between two attempts, a job will take one as soon as it can; where it ends
 * instead, sc_job_ticket says so. Only a restart's delay, which may be long, is not waited out. */
static bool may_wait(const sc_job_t *job) {
  return job->dir && !job->coordinating && !is_complete(job) && !job->canceling &&
         !job->suspended && !sc_job_state_ended(job->state) && !job->gone && delay_left(job) == 0;
}

static void refuse(sc_job_t *job, uint64_t ticket) {
  sc_error_t err = SC_ERROR_INIT;
  int64_t delay = delay_left(job);
  if (!job->path)
    sc_fail(&err, SC_EUNSUPPORTED, "the job has no checkpoint directory: set checkpoint.dir");
  else if (job->gone || sc_job_state_ended(job->state))
    sc_fail(&err, SC_EDECLINED, "the job has ended (%s)", sc_job_state_name(job->state));
  else if (delay > 0 && !job->canceling)
    sc_fail(&err, SC_EDECLINED,
            "no checkpoint can be taken while the job is restarting: it starts in %" PRId64 " ms",
            delay);
  else
    sc_fail(&err, SC_EDECLINED, "no checkpoint can be taken while the job is %s",
            sc_job_state_name(job->state));
  asked(job, ticket, UINT64_MAX);
  sc__ask_answer(job, UINT64_MAX, 0, &err);
  sc_error_clear(&err);
}

static void wait_to_ask(sc_job_t *job, uint64_t ticket) {
  sc__view_lock(job);
  sc_answer_t *a = find_answer(&job->view, ticket, 0);
  if (a)
    a->waits = true;
  sc__view_unlock(job);
}

static void run_ask(sc_mail_t *mail, void *owner) {
  ask_mail_t *m = (ask_mail_t *)mail;
  sc_job_t *job = m->job;
  if (may_wait(job)) {
    wait_to_ask(job, m->ticket);
  } else if (!job->coordinating || !job->path || is_complete(job)) {
    refuse(job, m->ticket);
  } else {
    request(job, m->ticket);
    sc__job_actions(job);
  }
  drop_ask(mail);
}

static uint64_t ask(sc_job_t *job, int what) {
  sc_answer_t *a = sc_calloc(1, sizeof *a);
  a->what = what;
  sc__view_lock(job);
  a->ticket = ++job->view.next_ticket;
  a->next = job->view.answers;
  job->view.answers = a;
  uint64_t ticket = a->ticket;
  sc__view_unlock(job);
  ask_mail_t *m = sc_calloc(1, sizeof *m);
  *m = (ask_mail_t){.mail = {.run = run_ask, .drop = drop_ask}, .job = job, .ticket = ticket};
  sc_job_ref(job);
  sc_engine_post(job->engine, &m->mail);
  return ticket;
}

uint64_t sc_job_checkpoint(sc_job_t *job) {
  return ask(job, SC_ASK_CHECKPOINT);
}

uint64_t sc_job_stop(sc_job_t *job, bool drain) {
  return ask(job, drain ? SC_ASK_DRAIN : SC_ASK_SUSPEND);
}

int sc_job_ticket(sc_job_t *job, uint64_t ticket, uint64_t *id, sc_error_t *err) {
  int rc = 0;
  sc__view_lock(job);
  sc_answer_t **at = &job->view.answers;
  while (*at && (*at)->ticket != ticket)
    at = &(*at)->next;
  sc_answer_t *a = *at;
  if (!a) {
    rc = sc_fail(err, SC_EINVAL, "no such request");
  } else if (!a->done && sc_job_state_ended(job->view.state)) {
    rc = sc_fail(err, SC_EDECLINED, "the job has ended (%s)", sc_job_state_name(job->view.state));
  } else if (a->done) {
    rc = a->error.code ? a->error.code : 1;
    *id = a->id;
    if (err)
      sc_error_move(err, &a->error);
  }
  if (a && rc) {
    *at = a->next;
    sc_error_clear(&a->error);
    free(a);
  }
  sc__view_unlock(job);
  return rc;
}
