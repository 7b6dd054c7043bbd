/**
 * Declarations shared by the files of store/. Other folders do not use SQLite's
 * types.
 */
#ifndef ES_STORE_INTERNAL_H
#define ES_STORE_INTERNAL_H

#include "analyzer/base/status.h"
#include "store/run.h"
#include "store/tables.h"
#include <limits.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Samples are stored in the byte order of memory, so the byte order must be
   that of the file format. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "a sample is little-endian float32");

/* --- database.c ---------------------------------------------------------- */

#define ES_BUSY_MS 5000 /* maximum wait in ms for a lock of another process */

/**
 * Progress of the search for complete frames after a damaged frame of a
 * fragment, so that a later search can resume where an earlier search stopped.
 * If all members are zero, no search has been made, and the default limit
 * applies.
 */
typedef struct es_tails {
    int64_t most;  /* maximum number of bytes that one search reads; 0 means the
                      default */
    uint32_t seed; /* checksum seed of the file, which identifies it */
    bool more;     /* true if the last search stopped because of `most` */
    struct {
        int64_t end;      /* offset of the end of a complete frame that is
                             followed by a damaged one */
        int64_t searched; /* offset up to which the search has found no complete
                             frame */
    } known[8]; /* the n damaged places found so far; if they do not fit, the
                   last entry is overwritten */
    unsigned n;
} es_tails;

/** A connection, together with the data that messages and checks need. */
typedef struct es_database {
    sqlite3 *handle;
    char *path;  /* path that the user gave, with which messages begin */
    char *file;  /* absolute path, in which links in the directory are
                    resolved */
    pid_t owner; /* process that opened the connection */
    bool state;  /* true if the database is a watcher's state file, false if it
                    is a run file */
    const char *refusal; /* reason of a guard's refusal (es_guard), or NULL */
    int schema; /* schema version of the run file, set by es_schema_check */
    bool has_row_checksums;       /* true if the file has the table
                                     row_checksum */
    struct es_esf_index *samples; /* index of a fragment's samples; owned by
                                     `handle` */
    es_tails tails; /* initial state of the search for frames in a fragment */
} es_database;

/**
 * Sets the paths of `database`, which must be zeroed. Returns ES_OK, ES_EIO (no
 * such directory), ES_ENOMEM. The caller must call es_database_close, even on
 * failure.
 */
es_status es_database_locate(es_database *database,
                             const char *path) ES_MUST_USE;

/**
 * Checks the file and its companions.
 *
 *   size  set to the size of the file in bytes; -1 if it does not exist
 *
 * Uses only lstat, because opening and closing the file here would drop the
 * locks that another connection of this process holds on it.
 *
 * Returns ES_OK; ES_EIO if the file is not a regular file, if a rollback
 * journal exists, if the write-ahead log or its shared-memory file is not a
 * regular file or has several hard links, or if a write-ahead log exists
 * without its run file.
 */
es_status es_database_inspect(const es_database *database,
                              int64_t *size) ES_MUST_USE;

/**
 * Opens the located file, read-only or for writing, and hardens the connection.
 * A reader creates and changes nothing in the folder; its connection is
 * returned within a transaction, so that the locks are taken only once for the
 * first reads. A file is checked read-only before it is opened for writing, so
 * that a file of another program is never recovered, rolled back or locked.
 *
 * Returns ES_OK, ES_EIO, ES_EFORMAT, ES_EVERSION, ES_ELOCKED, ES_ENOMEM.
 */
es_status es_database_open(es_database *database, bool writing) ES_MUST_USE;

/**
 * Opens a private database, which no other connection can open, and which
 * SQLite keeps in memory until it is large. The database is hardened and has no
 * tables. Returns ES_OK, ES_EIO, ES_ENOMEM.
 */
es_status es_database_open_private(es_database *database) ES_MUST_USE;

/**
 * Sets the limits of an open connection and restricts its SQL: triggers and
 * views are disabled, and nothing in the file's schema is trusted.
 */
es_status es_database_harden(const es_database *database) ES_MUST_USE;

/**
 * Closes the connection, whose statements must be finalised. In a forked child
 * the connection is abandoned without closing it, because closing would drop
 * the parent's locks.
 */
void es_database_disconnect(es_database *database);

/** Closes the connection and frees the paths. */
void es_database_close(es_database *database);

/** Returns ES_OK, or ES_EFORK in a process other than the one that opened the
 *  database. */
es_status es_database_check_owner(const es_database *database) ES_MUST_USE;

/**
 * Writes bytes[0..n) completely at offset `at` of a file. Returns 0, or an
 * errno on failure.
 */
int es_write_at(int fd, const unsigned char *bytes, size_t n,
                int64_t at) ES_MUST_USE;

/**
 * Calls es_fail for SQLite's result code rc, with a message that consists of
 * path, reason and remedy.
 */
es_status es_database_fail(const es_database *database, int rc);

/** Calls es_database_fail, or returns ES_OK if rc is SQLITE_OK, SQLITE_ROW
 *  or SQLITE_DONE. */
es_status es_database_status(const es_database *database, int rc) ES_MUST_USE;

es_status es_database_execute(const es_database *database,
                              const char *sql) ES_MUST_USE;
es_status es_database_prepare(const es_database *database, sqlite3_stmt **out,
                              const char *sql) ES_MUST_USE;

/**
 * Prepares the statements `sql` (n) into `out` (n), and stops at the first
 * failure. Skips statements that are NULL.
 */
es_status es_database_prepare_all(const es_database *database,
                                  sqlite3_stmt **out, const char *const *sql,
                                  size_t n) ES_MUST_USE;

/**
 * Finalises statements (n), each of which may be NULL. Does nothing in a forked
 * child.
 */
void es_database_finalise_all(const es_database *database,
                              sqlite3_stmt **statements, size_t n);

/** Executes a statement that returns no rows (sqlite3_step), and resets it. */
es_status es_database_step(const es_database *database,
                           sqlite3_stmt *statement);

/** Runs a query without parameters that returns one integer. */
es_status es_database_integer(const es_database *database, const char *sql,
                              int64_t *out) ES_MUST_USE;

/**
 * Returns the bytes of a new, empty run file, which the caller must free with
 * sqlite3_free.
 */
es_status es_schema_image(unsigned char **out, size_t *n) ES_MUST_USE;

/** Creates the tables of a run file in an empty private database, except
 *  `sample`, which is a virtual table of the connection. */
es_status es_schema_make_private(es_database *database) ES_MUST_USE;

/**
 * Checks the file's application_id, and compares its tables with those that its
 * schema version must have.
 */
es_status es_schema_check(es_database *database) ES_MUST_USE;

/* --- view.c -------------------------------------------------------------- */

/**
 * Returns the name of the read-only VFS, which the first call registers.
 * Returns NULL if SQLite has no VFS "unix", or if memory is short. May be
 * called by any thread.
 */
const char *es_view_name(void);

/* --- map.c --------------------------------------------------------------- */

/**
 * Writes a map with its checksum into a database, without checking the map's
 * values. Returns ES_OK, ES_EFORMAT, or an error of es_database_status.
 */
es_status es_map_insert(const es_database *database, int64_t run_id,
                        const char *uuid, const es_map *map,
                        const float *values) ES_MUST_USE;

/**
 * Calls `handler` (es_map_handler) for each map of the run with the id
 * `run_id`. Returns the same statuses as es_reader_maps.
 */
es_status es_map_each(const es_database *database, int64_t run_id,
                      const es_run_info *run,
                      es_status (*handler)(void *user, const es_map *map,
                                           const float *values),
                      void *user) ES_MUST_USE;

/** Deletes a run's maps at `step` and above. Returns ES_OK or an error of
 *  es_database_status. */
es_status es_map_cut(const es_database *database, int64_t run_id,
                     int64_t step) ES_MUST_USE;

/* --- checksum.c ---------------------------------------------------------- */

/**
 * Computes the initial value for the checksums of a series' samples from the
 * run's uuid and the series' phase and name. The series_id is not used, because
 * a merge changes it, and because it is meaningless if the row of the series is
 * damaged.
 */
uint32_t es_checksum_of_series(const char *uuid, es_phase phase,
                               const char *name);

/**
 * Computes the checksum of a sample. `series` is the result of
 * es_checksum_of_series. The checksum is a signed 32-bit integer, because
 * SQLite stores it as such.
 */
int32_t es_checksum_of_sample(uint32_t series, int64_t step, const void *value,
                              size_t size);

/* --- row_checksum.c ------------------------------------------------------ */

/* The columns that the checksum of a row covers, in the order for
   es_checksum_of_columns. The unary + keeps SQLite from looking up and copying
   the column's origin, which would take a twentieth of the time of reading a
   short run. */
#define ES_RUN_COLUMNS                                                         \
    "+uuid, +name, +arch, +family, +n_layer, +n_head, +d_model, +ctx, +vocab," \
    " +batch, +seed, +config, +program, +host, +started_at, +ended_at,"        \
    " +status, CASE status WHEN 'running' THEN NULL ELSE last_step END"
#define ES_SERIES_COLUMNS "+run_id, +name, +shape, +phase, +unit"
#define ES_EVENT_COLUMNS                                                       \
    "run_id, step, kind, severity, layer, head, message, data, at, dedupe"
enum {
    ES_N_RUN_COLUMNS = 18,
    ES_N_SERIES_COLUMNS = 5,
    ES_N_EVENT_COLUMNS = 10
};

/**
 * Computes the checksum for the table row_checksum from the n columns of a
 * statement's row that begin with column `first`.
 */
int32_t es_checksum_of_columns(sqlite3_stmt *statement, int first, int n);

/* --- guard.c ------------------------------------------------------------- */

/**
 * A VFS that restricts one connection to its file. All members must initially
 * be zero. It must outlive the connection.
 */
typedef struct es_guard {
    sqlite3_vfs vfs;   /* must be the first member, because SQLite passes its
                          address */
    sqlite3_vfs *base; /* SQLite's default VFS */
    const char *file;
    char name[32];
    char refusal[128]; /* reason of the first refusal, for messages; or "" */
} es_guard;

/**
 * Calls sqlite3_open_v2 through a guard. SQLite then accesses only `file` and
 * its rollback journal, and each only if it is a regular file of this user that
 * has no other hard link; a write-ahead log is refused. The guard checks every
 * opening of a file during the life of the connection.
 *
 *   file   absolute path, links in the directory resolved; borrowed until the
 *          connection is closed
 *
 * Returns SQLite's result code. SQLITE_PERM means that the guard has refused a
 * file, and guard->refusal contains the reason.
 */
int es_guard_open(es_guard *guard, sqlite3 **handle, const char *file,
                  int flags) ES_MUST_USE;

/* --- lock.c -------------------------------------------------------------- */

/**
 * Writes the path of `file` with the suffix to `out` and returns it; the result
 * is "" if the path is too long.
 */
const char *es_beside(char out[PATH_MAX], const char *file, const char *suffix);

/** Calls lstat for `file` with the suffix. Returns 0 or an errno. */
int es_beside_stat(struct stat *st, const char *file, const char *suffix);

/**
 * The writer's lock, an open-file-description lock on the file FILE-lock, which
 * contains the writer's pid. Only SQLite locks the run file itself.
 */
typedef struct es_lock {
    int fd;           /* -1: not held */
    bool is_optional; /* set by the caller; true if es_lock_take may succeed
                         without a lock on a file system that has no locks */
    char *path;       /* path of the lock file; NULL while the lock is not
                         held */
    pid_t owner;
    struct es_lock *next; /* next lock in the list of locks that this process
                             holds */
} es_lock;

/**
 * Takes the lock.
 *
 *   lock   must not move until it is released
 *   file   absolute path of the run file
 *   shown  path of the run file as it appears in messages
 *
 * Returns ES_OK; ES_ELOCKED, with the holder's pid in the message; ES_EIO;
 * ES_ENOMEM.
 */
es_status es_lock_take(es_lock *lock, const char *file,
                       const char *shown) ES_MUST_USE;

/**
 * Releases the lock. If `remove` is true, removes the lock file. `remove` must
 * be false in a forked child.
 */
void es_lock_release(es_lock *lock, bool remove);

/**
 * Sets *held to true if a live process holds the lock. Does not take the lock
 * or create a file. The arguments are those of es_lock_take. Returns ES_OK;
 * ES_EIO if the state of the lock cannot be read; ES_ENOMEM.
 */
es_status es_lock_check(bool *held, const char *file,
                        const char *shown) ES_MUST_USE;

/** Returns true if this process holds the lock. May be called by any thread. */
bool es_lock_is_ours(const char *file);

/* --- values -------------------------------------------------------------- */

/**
 * Reserves memory for the element with index n of an array that only this
 * function grows. `array` is the address of the pointer to the array. Returns
 * ES_OK, ES_ENOMEM.
 */
es_status es_reserve_next(void *array, size_t n, size_t size) ES_MUST_USE;

int es_bind_text(sqlite3_stmt *statement, int index, const char *text);

/**
 * Binds a number to a parameter of a statement; ES_UNKNOWN is bound as NULL.
 */
int es_bind_number(sqlite3_stmt *statement, int index, int64_t number);

#endif
