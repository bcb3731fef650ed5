/*
 * storage: files, as an interface. Snapshots, sinks and the coordinator write only through it.
 *
 * The interface has primitives only, in the terms of POSIX durability: bytes are safe after
 * `sync`, a name after `sync_dir` of its folder. On top of it sc_publish_* is the one way in which
 * a whole file appears: written under a temporary name (".NAME.tmp-..."), synced, renamed, its
 * folder synced. So a file under its final name is whole, always (bugs B-119).
 * file_storage.c is the local file system; core/sim has one that tears, loses and fails.
 *
 * Threads: any (an open file belongs to one thread at a time). All calls may block: I/O pool, or
 * start-up. Failure: SC_EIO, SC_ENOSPACE, SC_EACCESS, SC_ENOTFOUND, SC_EEXIST with the path in
 * err->file and a sentence that names it.
 */
#ifndef SC_SNAPSHOT_STORAGE_H
#define SC_SNAPSHOT_STORAGE_H

#include "../base/buf.h"
#include "../base/error.h"

typedef struct sc_storage sc_storage_t;
typedef struct sc_file sc_file_t; /* an open file of a storage */

typedef struct sc_storage_ops {
  /* Create the folder and its missing parents, each made durable. Exists already: 0. */
  int (*make_dir)(sc_storage_t *s, const char *path, sc_error_t *err);
  /* Create or truncate for writing. */
  int (*create)(sc_storage_t *s, const char *path, sc_file_t **out, sc_error_t *err);
  /* Open for reading. */
  int (*open)(sc_storage_t *s, const char *path, sc_file_t **out, sc_error_t *err);
  int (*write)(sc_file_t *f, const void *data, size_t len, sc_error_t *err);
  /* Up to len bytes at offset; the count, 0 at the end. */
  int64_t (*read)(sc_file_t *f, uint64_t offset, void *data, size_t len, sc_error_t *err);
  int64_t (*size)(sc_file_t *f, sc_error_t *err);
  int (*sync)(sc_file_t *f, sc_error_t *err);
  void (*close)(sc_file_t *f);                          /* NULL is fine */
  int (*rename)(sc_storage_t *s, const char *from, const char *to, sc_error_t *err);
  int (*remove)(sc_storage_t *s, const char *path, sc_error_t *err);     /* a file; absent: 0 */
  int (*remove_dir)(sc_storage_t *s, const char *path, sc_error_t *err); /* empty; absent: 0 */
  int (*sync_dir)(sc_storage_t *s, const char *path, sc_error_t *err);
  /* 1 file, 2 folder, 0 absent, or an error. A symbolic link is a file, whatever it points to:
   * nothing is ever removed through one. */
  int (*kind)(sc_storage_t *s, const char *path, sc_error_t *err);
  /* Call each(arg, name) for every entry, sorted by name; a non-zero result ends the walk and is
   * returned. An absent folder is SC_ENOTFOUND. */
  int (*list)(sc_storage_t *s, const char *path, int (*each)(void *arg, const char *name),
              void *arg, sc_error_t *err);
  /* Lock a file exclusively for this process, with the pid as its text. SC_ELOCKED names the pid
   * that holds it. The lock is released by unlock or by the end of the process. */
  int (*lock)(sc_storage_t *s, const char *path, void **out, sc_error_t *err);
  void (*unlock)(sc_storage_t *s, void *lock);
  void (*destroy)(sc_storage_t *s);
} sc_storage_ops_t;

struct sc_storage { const sc_storage_ops_t *ops; };

/* The local file system. sync = false skips every sync (checkpoint.sync = false: such snapshots
 * survive the process, not the power). */
sc_storage_t *sc_file_storage_create(bool sync);
static inline void sc_storage_destroy(sc_storage_t *s) { if (s) s->ops->destroy(s); }

/* A file that is being published: appears whole under `path` or not at all. Counts its bytes and
 * their XXH64. */
typedef struct sc_publish sc_publish_t;
int sc_publish_begin(sc_storage_t *s, const char *path, sc_publish_t **out, sc_error_t *err);
int sc_publish_write(sc_publish_t *p, const void *data, size_t len, sc_error_t *err); /* buffered */
/* Is this the name (without folder) of a file that was being published? */
bool sc_publish_is_temp(const char *name);
uint64_t sc_publish_length(const sc_publish_t *p);
/* Flush, sync, rename, sync the folder; frees p whatever happens. Outputs may be NULL. After an
 * error the file is usually not there; only where the last step failed it is there, whole, but may
 * not outlive a loss of power. Whoever gives it up then removes it. */
int sc_publish_commit(sc_publish_t *p, uint64_t *length, uint64_t *checksum, sc_error_t *err);
void sc_publish_abandon(sc_publish_t *p); /* deletes what was written; frees p; NULL is fine */

/* Whole file into out (appended), at most `max` bytes (SC_ELIMIT). */
int sc_storage_read_all(sc_storage_t *s, const char *path, size_t max, sc_buf_t *out,
                        sc_error_t *err);
/* Fill data from an open file; SC_ECORRUPT where the file ends before. `path` is for messages. */
int sc_storage_read_exactly(sc_storage_t *s, sc_file_t *f, const char *path, uint64_t offset,
                            void *data, size_t len, sc_error_t *err);
/* XXH64 of the first `length` bytes of an open file, streamed. */
int sc_storage_checksum(sc_storage_t *s, sc_file_t *f, const char *path, uint64_t length,
                        uint64_t *checksum, sc_error_t *err);

/* Names of a folder's entries, sorted. */
typedef struct sc_names {
  char **list; /* n of them, each malloc'ed */
  size_t n;
} sc_names_t;
/* Whatever it returns, *names is to be freed. */
int sc_storage_names(sc_storage_t *s, const char *path, sc_names_t *names, sc_error_t *err);
void sc_names_free(sc_names_t *names);

/* make_dir for a folder that outlives this process. What is there already may have been made by a
 * process that died before the name was safe; so all names on the way are synced, as far as this
 * process may open the folders that hold them. */
int sc_storage_make_lasting(sc_storage_t *s, const char *path, sc_error_t *err);
/* Remove a folder with everything below it, deepest first; absent: 0. */
int sc_storage_remove_tree(sc_storage_t *s, const char *path, sc_error_t *err);
/* "a/b" + "c" -> "a/b/c" (malloc'ed). */
char *sc_path_join(const char *dir, const char *name);
/* "a/b" -> "a", "b" -> ".", "/b" -> "/" (malloc'ed). */
char *sc_path_parent(const char *path);

#endif
