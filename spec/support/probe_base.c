/* probe_base: mailbox, log, errors, buffers and memory of core/base. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../core/base/log.h"
#include "../../core/base/mailbox.h"
#include "../../core/base/mem.h"
#include "probe.h"

#define BOX "probe.mailbox"
#define LOG "probe.log"

/* ---- mailbox: every mail notes in the box's log what became of it ---- */

typedef struct box {
  sc_mailbox_t box;
  sc_world_t world;
  sc_actor_t actor;
  uint32_t wakes;   /* the world's */
  sc_buf_t log;     /* "run a;drop b;" */
  bool ended;
} box_t;

typedef struct noted_mail {
  sc_mail_t mail;
  box_t *box;
  char name[16];
  char again[16];   /* "" or the name of a mail that it posts when it is run */
} noted_mail_t;

static void count_wake(sc_world_t *w, sc_actor_t *actor) {
  ((box_t *)((char *)w - offsetof(box_t, world)))->wakes++;
}

static const sc_world_ops_t counting_world = {.wake = count_wake};

static box_t *check_box(lua_State *L) {
  return luaL_checkudata(L, 1, BOX);
}

static void run_noted(sc_mail_t *mail, void *owner);

static void drop_noted(sc_mail_t *mail) {
  noted_mail_t *m = (noted_mail_t *)mail;
  sc_buf_printf(&m->box->log, "drop %s;", m->name);
  free(m);
}

static bool post(box_t *box, const char *name, const char *again) {
  noted_mail_t *m = sc_calloc(1, sizeof *m);
  m->mail.run = run_noted;
  m->mail.drop = drop_noted;
  m->box = box;
  snprintf(m->name, sizeof m->name, "%s", name);
  snprintf(m->again, sizeof m->again, "%s", again);
  return sc_mailbox_post(&box->box, &m->mail);
}

static void run_noted(sc_mail_t *mail, void *owner) {
  noted_mail_t *m = (noted_mail_t *)mail;
  sc_buf_printf(&m->box->log, "run %s;", m->name);
  if (m->again[0])
    post(m->box, m->again, "");
  if (owner != m->box)
    sc_buf_puts(&m->box->log, "wrong owner;");
  free(m);
}

/* mailbox_new([silent]): silent has no actor to wake. */
static int mailbox_new(lua_State *L) {
  bool silent = lua_toboolean(L, 1);
  box_t *box = lua_newuserdatauv(L, sizeof *box, 0);
  memset(box, 0, sizeof *box);
  box->world.ops = &counting_world;
  sc_mailbox_init(&box->box, &box->world, silent ? NULL : &box->actor);
  luaL_setmetatable(L, BOX);
  return 1;
}

static int mailbox_post(lua_State *L) {
  lua_pushboolean(L, post(check_box(L), luaL_checkstring(L, 2), luaL_optstring(L, 3, "")));
  return 1;
}

static int mailbox_run(lua_State *L) {
  box_t *box = check_box(L);
  lua_pushinteger(L, sc_mailbox_run(&box->box, box));
  return 1;
}

static int mailbox_any(lua_State *L) {
  lua_pushboolean(L, sc_mailbox_any(&check_box(L)->box));
  return 1;
}

static int mailbox_close(lua_State *L) {
  sc_mailbox_close(&check_box(L)->box);
  return 0;
}

/* What became of the mail since the last call. */
static int mailbox_log(lua_State *L) {
  box_t *box = check_box(L);
  probe_push_bytes(L, sc_buf_bytes(&box->log));
  sc_buf_clear(&box->log);
  return 1;
}

static int mailbox_wakes(lua_State *L) {
  lua_pushinteger(L, check_box(L)->wakes);
  return 1;
}

/* Ends it, and returns what that dropped. */
static int mailbox_fini(lua_State *L) {
  box_t *box = check_box(L);
  if (box->ended)
    return 0;
  box->ended = true;
  sc_mailbox_fini(&box->box);
  probe_push_bytes(L, sc_buf_bytes(&box->log));
  sc_buf_free(&box->log);
  return 1;
}

static const luaL_Reg mailbox_methods[] = {
    {"post", mailbox_post},   {"run", mailbox_run},     {"any", mailbox_any},
    {"close", mailbox_close}, {"log", mailbox_log},     {"wakes", mailbox_wakes},
    {"fini", mailbox_fini},   {"__gc", mailbox_fini},   {NULL, NULL},
};

/* ---- log ---- */

typedef struct logger {
  sc_log_t *log;
  int64_t now_ms;
} logger_t;

static int64_t told_time(void *arg) {
  return ((logger_t *)arg)->now_ms;
}

static int check_level(lua_State *L, int arg) {
  int level = sc_log_level_from_name(luaL_checkstring(L, arg));
  luaL_argcheck(L, level >= 0, arg, "no level");
  return level;
}

/* log_new(stderr level, now in ms) */
static int log_new(lua_State *L) {
  int level = check_level(L, 1);
  int64_t now_ms = luaL_checkinteger(L, 2);
  logger_t *l = lua_newuserdatauv(L, sizeof *l, 0);
  l->now_ms = now_ms;
  l->log = sc_log_create(told_time, l, level);
  luaL_setmetatable(L, LOG);
  return 1;
}

static sc_log_t *check_log(lua_State *L) {
  return ((logger_t *)luaL_checkudata(L, 1, LOG))->log;
}

/* log:open(path, level, max_bytes) */
static int log_open(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  int rc = sc_log_open_file(check_log(L), luaL_checkstring(L, 2), check_level(L, 3),
                            (uint64_t)luaL_optinteger(L, 4, 0), &err);
  if (rc < 0)
    return probe_fail(L, rc, &err);
  lua_pushboolean(L, 1);
  return 1;
}

/* log:write(level, text [, job, attempt, checkpoint, task]); without these there is no `where`. */
static int log_write(lua_State *L) {
  sc_log_where_t where = {.job = luaL_optstring(L, 4, NULL),
                          .attempt = (uint64_t)luaL_optinteger(L, 5, 0),
                          .checkpoint = (uint64_t)luaL_optinteger(L, 6, 0),
                          .task = luaL_optstring(L, 7, NULL)};
  sc_log_write(check_log(L), check_level(L, 2), lua_gettop(L) > 3 ? &where : NULL, "%s",
               luaL_checkstring(L, 3));
  return 0;
}

static int log_destroy(lua_State *L) {
  logger_t *l = luaL_checkudata(L, 1, LOG);
  sc_log_destroy(l->log);
  l->log = NULL;
  return 0;
}

static int log_level(lua_State *L) {
  lua_pushinteger(L, sc_log_level_from_name(luaL_checkstring(L, 1)));
  return 1;
}

/* base_stderr_to(path, f): call f with standard error going to a file. */
static int stderr_to(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  fflush(stderr);
  int kept = dup(STDERR_FILENO), file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (kept < 0 || file < 0)
    return luaL_error(L, "cannot redirect standard error to %s", path);
  dup2(file, STDERR_FILENO);
  lua_settop(L, 2);
  int rc = lua_pcall(L, 0, 0, 0);
  fflush(stderr);
  dup2(kept, STDERR_FILENO);
  close(kept);
  close(file);
  return rc == LUA_OK ? 0 : lua_error(L);
}

static const luaL_Reg log_methods[] = {
    {"open", log_open}, {"write", log_write}, {"destroy", log_destroy}, {"__gc", log_destroy},
    {NULL, NULL},
};

/* ---- errors ---- */

static void push_error(lua_State *L, const sc_error_t *err) {
  lua_newtable(L);
  char *text = sc_error_format(err);
  lua_pushstring(L, text);
  lua_setfield(L, -2, "text");
  free(text);
  lua_pushstring(L, sc_error_name(err->code));
  lua_setfield(L, -2, "code");
  lua_pushstring(L, err->operator_name);
  lua_setfield(L, -2, "operator");
  lua_pushstring(L, err->file);
  lua_setfield(L, -2, "file");
}

/* error_chain{{code, text, operator, file}, ...}: an error caused by the one before it, and so on;
 * then a copy of it, and what is left after that was moved away: three tables. */
static int error_chain(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT, copy = SC_ERROR_INIT, moved = SC_ERROR_INIT;
  lua_Integer n = luaL_len(L, 1);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_geti(L, 1, i);
    for (int k = 1; k <= 4; k++)
      lua_geti(L, 2, k);
    int code = (int)luaL_checkinteger(L, 3);
    const char *text = luaL_checkstring(L, 4);
    int rc = i == 1 ? sc_fail(&err, code, "%s", text) : sc_fail_cause(&err, code, "%s", text);
    luaL_argcheck(L, rc == code, 1, "a failure returns its code");
    sc_error_set_operator(&err, lua_tostring(L, 5));
    sc_error_set_operator(&err, "too late");
    sc_error_set_file(&err, lua_tostring(L, 6));
    lua_settop(L, 1);
  }
  push_error(L, &err);
  sc_error_copy(&copy, &err);
  sc_error_move(&moved, &err);
  sc_error_clear(&moved);
  push_error(L, &copy);
  push_error(L, &err);
  sc_error_clear(&copy);
  return 3;
}

static int error_name(lua_State *L) {
  lua_pushstring(L, sc_error_name((int)luaL_checkinteger(L, 1)));
  lua_pushstring(L, sc_error_text((int)luaL_checkinteger(L, 1)));
  return 2;
}

static int error_of_errno(lua_State *L) {
  lua_pushstring(L, sc_error_name(sc_error_from_errno((int)luaL_checkinteger(L, 1))));
  return 1;
}

/* An error whose text is made from its own text. */
static int error_of_itself(lua_State *L) {
  sc_error_t err = SC_ERROR_INIT;
  sc_fail(&err, SC_EIO, "%s", luaL_checkstring(L, 1));
  sc_fail(&err, SC_EIO, "again: %s", err.message);
  push_error(L, &err);
  sc_error_clear(&err);
  return 1;
}

/* ---- buffers and memory ---- */

/* buf_numbers(u8, u16, u32, u64): as bytes */
static int buf_numbers(lua_State *L) {
  sc_buf_t b = SC_BUF_INIT;
  sc_buf_put_u8(&b, (uint8_t)luaL_checkinteger(L, 1));
  sc_buf_put_u16(&b, (uint16_t)luaL_checkinteger(L, 2));
  sc_buf_put_u32(&b, (uint32_t)luaL_checkinteger(L, 3));
  sc_buf_put_u64(&b, (uint64_t)luaL_checkinteger(L, 4));
  probe_push_bytes(L, sc_buf_bytes(&b));
  sc_buf_free(&b);
  return 1;
}

/* buf_repeat(text, n): n times through printf, n times as bytes, as one string */
static int buf_repeat(lua_State *L) {
  sc_buf_t b = SC_BUF_INIT;
  sc_bytes_t text = probe_bytes(L, 1);
  lua_Integer n = luaL_checkinteger(L, 2);
  for (lua_Integer i = 0; i < n; i++)
    sc_buf_printf(&b, "%s", (const char *)text.data);
  for (lua_Integer i = 0; i < n; i++)
    sc_buf_put_bytes(&b, text);
  probe_push_bytes(L, sc_buf_bytes(&b));
  sc_buf_free(&b);
  return 1;
}

static int bytes_compare(lua_State *L) {
  sc_bytes_t a = probe_bytes(L, 1), b = probe_bytes(L, 2);
  int order = sc_bytes_compare(a, b);
  lua_pushinteger(L, (order > 0) - (order < 0));
  lua_pushboolean(L, sc_bytes_equal(a, b));
  return 2;
}

/* base_fork(f): what f returns, as a string, in a forked child that then exits as any process. */
static int base_fork(lua_State *L) {
  int fd[2];
  fflush(NULL);
  if (pipe2(fd, O_CLOEXEC) < 0)
    return luaL_error(L, "no pipe");
  pid_t child = fork();
  if (child == 0) {
    lua_settop(L, 1);
    lua_pcall(L, 0, 1, 0); /* an error is as good an answer */
    const char *text = luaL_tolstring(L, -1, NULL);
    ssize_t n = write(fd[1], text, strlen(text));
    exit(n < 0);
  }
  close(fd[1]);
  char text[4096];
  size_t len = 0;
  for (ssize_t n; len < sizeof text && (n = read(fd[0], text + len, sizeof text - len)) > 0;)
    len += (size_t)n;
  close(fd[0]);
  int status = -1;
  waitpid(child, &status, 0);
  lua_pushlstring(L, text, len);
  lua_pushinteger(L, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  return 2;
}

static int mem_exhaust(lua_State *L) {
  free(sc_calloc((size_t)-1, 16));
  return 0;
}

static const luaL_Reg functions[] = {
    {"mailbox_new", mailbox_new},     {"log_new", log_new},
    {"log_level", log_level},         {"base_stderr_to", stderr_to},
    {"error_chain", error_chain},     {"error_name", error_name},
    {"error_of_errno", error_of_errno}, {"error_of_itself", error_of_itself},
    {"buf_numbers", buf_numbers},     {"buf_repeat", buf_repeat},
    {"bytes_compare", bytes_compare}, {"mem_exhaust", mem_exhaust},
    {"base_fork", base_fork},
    {NULL, NULL},
};

static void make_class(lua_State *L, const char *name, const luaL_Reg *methods) {
  luaL_newmetatable(L, name);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

void probe_base(lua_State *L) {
  make_class(L, BOX, mailbox_methods);
  make_class(L, LOG, log_methods);
  luaL_setfuncs(L, functions, 0);
}
