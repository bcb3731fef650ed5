#include "simulate.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lauxlib.h>

#include "../../core/base/error.h"
#include "codec.h"
#include "job_handle.h"
#include "signals.h"
#include "simulate_run.h"

#define LSC_CHILD "streamckpt.core.child"
#define READ_BYTES 65536
#define SAID_MAX 4000 /* bytes of its standard error that are shown */

/* A box on the Lua stack: whatever raises, the child ends and nothing leaks. */
typedef struct child {
  pid_t pid;     /* 0: none, or it has been waited for */
  int result, said; /* where it writes; -1: closed */
  sc_buf_t bytes[2]; /* what came from there */
} child_t;

static void close_fd(int *fd) {
  if (*fd >= 0)
    close(*fd);
  *fd = -1;
}

/* How it ended, as waitpid says. */
static int end_child(child_t *c, bool kill_it) {
  int status = 0;
  close_fd(&c->result);
  close_fd(&c->said);
  if (c->pid > 0 && kill_it)
    kill(c->pid, SIGKILL);
  while (c->pid > 0 && waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
    ;
  c->pid = 0;
  return status;
}

static int child_gc(lua_State *L) {
  child_t *c = luaL_checkudata(L, 1, LSC_CHILD);
  end_child(c, true);
  sc_buf_free(&c->bytes[0]);
  sc_buf_free(&c->bytes[1]);
  return 0;
}

static child_t *push_box(lua_State *L) {
  child_t *c = lua_newuserdatauv(L, sizeof *c, 0);
  *c = (child_t){.result = -1, .said = -1};
  if (luaL_newmetatable(L, LSC_CHILD)) {
    lua_pushcfunction(L, child_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  return c;
}

/* ---- in the child ---- */

static void write_all(int fd, sc_bytes_t bytes) {
  while (bytes.len) {
    ssize_t n = write(fd, bytes.data, bytes.len);
    if (n < 0 && errno != EINTR)
      return;
    if (n > 0)
      bytes = sc_bytes(bytes.data + n, bytes.len - (size_t)n);
  }
}

_Noreturn static void be_child(lua_State *L, lua_CFunction open_core, pid_t parent, int result,
                               int said) {
  int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  sc_buf_t out = SC_BUF_INIT;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGINT, SIG_IGN); /* the terminal sends it to both; the parent decides */
  lua_gc(L, LUA_GCSTOP);   /* no finalizer of the script's runs twice */
  dup2(nowhere, 1);
  dup2(said, 2);
  if (getppid() == parent)
    lsc_simulate_run(L, 1, open_core, &out);
  write_all(result, sc_buf_bytes(&out));
  _exit(0);
}

/* ---- in the parent ---- */

static int make_child(lua_State *L, lua_CFunction open_core, child_t *c) {
  int result[2], said[2];
  pid_t parent = getpid();
  if (pipe2(result, O_CLOEXEC) < 0)
    return errno;
  if (pipe2(said, O_CLOEXEC) < 0) {
    int why = errno;
    close(result[0]);
    close(result[1]);
    return why;
  }
  fflush(NULL); /* what is not written yet would be written twice */
  c->result = result[0];
  c->said = said[0];
  c->pid = fork();
  if (c->pid == 0)
    be_child(L, open_core, parent, result[1], said[1]);
  int why = c->pid < 0 ? errno : 0;
  close(result[1]);
  close(said[1]);
  return why;
}

/* Read what is there; at its end the descriptor is closed. */
static void read_some(int *fd, sc_buf_t *into) {
  ssize_t n = read(*fd, sc_buf_reserve(into, READ_BYTES), READ_BYTES);
  if (n > 0)
    into->len += (size_t)n;
  else if (n == 0 || (errno != EINTR && errno != EAGAIN))
    close_fd(fd);
}

static void keep_the_end(sc_buf_t *said) {
  if (said->len <= 2 * SAID_MAX)
    return;
  memmove(said->data, said->data + said->len - SAID_MAX, SAID_MAX);
  said->len = SAID_MAX;
}

/* Until it has closed both ends. False: a signal has raised. */
static bool listen_to(lua_State *L, child_t *c) {
  while (c->result >= 0 || c->said >= 0) {
    struct pollfd fds[2] = {{.fd = c->result, .events = POLLIN}, {.fd = c->said, .events = POLLIN}};
    sigset_t before;
    bool calm = lsc_signals_block(L, &before);
    int n = calm ? ppoll(fds, 2, NULL, &before) : 0;
    if (!lsc_signals_unblock(L, &before, calm))
      return false;
    if (n > 0 && fds[0].revents)
      read_some(&c->result, &c->bytes[0]);
    if (n > 0 && fds[1].revents)
      read_some(&c->said, &c->bytes[1]);
    keep_the_end(&c->bytes[1]);
  }
  return true;
}

static int died(lua_State *L, const child_t *c, int status) {
  sc_error_t err = SC_ERROR_INIT;
  const sc_buf_t *said = &c->bytes[1];
  const char *how = WIFSIGNALED(status) ? "signal" : "exit code";
  int number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  sc_fail(&err, SC_EINTERNAL, "the simulated process ended by %s %d%s%.*s", how, number,
          said->len ? ": " : "", (int)said->len, said->len ? (const char *)said->data : "");
  return lsc_push_failure(L, SC_EINTERNAL, &err);
}

int lsc_simulate(lua_State *L, lua_CFunction open_core) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  luaL_checkstack(L, 1000, NULL); /* the child has what it needs, and raises nowhere */
  child_t *c = push_box(L);
  int why = make_child(L, open_core, c);
  if (why) {
    sc_error_t err = SC_ERROR_INIT;
    sc_fail(&err, sc_error_from_errno(why), "no process can be made to simulate in: %s",
            strerror(why));
    return lsc_push_failure(L, err.code, &err);
  }
  if (!listen_to(L, c)) {
    end_child(c, true);
    return lua_error(L);
  }
  int status = end_child(c, false);
  sc_error_t err = SC_ERROR_INIT;
  if (status != 0 || c->bytes[0].len == 0)
    return died(L, c, status);
  int rc = lsc_decode(L, sc_buf_bytes(&c->bytes[0]), &err);
  return rc < 0 ? lsc_push_failure(L, rc, &err) : 1;
}
