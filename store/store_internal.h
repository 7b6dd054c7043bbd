/** What the files of store/ share. SQLite's types go no further than this. */
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

/* Samples are bound and handed out as they lie in memory. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "a sample is little-endian float32");

/* --- database.c ---------------------------------------------------------- */

#define ES_BUSY_MS 5000 /* longest wait for somebody else's lock */

/** How far fragments are searched for whole frames behind damage, for who
 *  searches on where he stopped. Zero: nothing is known, and the usual. */
typedef struct es_tails {
    int64_t most;  /* bytes searched at a time; 0: the usual */
    uint32_t seed; /* of the file */
    bool more;     /* the last search stopped for `most` */
    struct {
        int64_t end;      /* of a whole frame */
        int64_t searched; /* no whole frame begins from there to here */
    } known[8];           /* (n) further ones are forgotten */
    unsigned n;
} es_tails;

/** A connection, and what messages and checks need to know of it. */
typedef struct es_database {
    sqlite3 *handle;
    char *path;  /* as the user wrote it: messages begin with it */
    char *file;  /* absolute, symbolic links of its directory resolved */
    pid_t owner; /* the process that opened it */
    bool state;  /* a watcher's, not a run file */
    const char *refusal;    /* NULL, or a guard's: "" or what it refused, why */
    int schema;             /* of the run file: es_schema_check sets it */
    bool has_row_checksums; /* it has the table: so does this */
    struct es_esf_index *samples; /* of a fragment; its handle's */
    es_tails tails; /* of a fragment: what its opening begins with */
} es_database;

/** Fills in a zeroed `database`. ES_OK, ES_EIO (no such directory), ES_ENOMEM;
 *  es_database_close frees it in either case. */
es_status es_database_locate(es_database *database,
                             const char *path) ES_MUST_USE;

/**
 * Looks at what is there.
 *
 *   size  bytes of the file; -1: there is none
 *
 * Only lstat is used: opening and closing the file here would drop the locks
 * that another connection of this process holds on it.
 *
 * ES_OK; ES_EIO: not a regular file; a rollback journal lies beside it; the
 * log or its shared memory is no regular file, or has another name as well
 * (a hard link); a log lies there without its run file.
 */
es_status es_database_inspect(const es_database *database,
                              int64_t *size) ES_MUST_USE;

/**
 * Opens the file located before, read-only or for writing, hardened. A reader
 * creates and changes nothing, beside the file neither, and is in a
 * transaction, so that what is read first takes its locks once. Before a file
 * is opened for writing a reader checks it: what is not ours is never
 * recovered, rolled back or locked.
 *
 * ES_OK, ES_EIO, ES_EFORMAT, ES_EVERSION, ES_ELOCKED, ES_ENOMEM.
 */
es_status es_database_open(es_database *database, bool writing) ES_MUST_USE;

/** Opens a database of this connection alone, in a file only if it grows,
 *  hardened and without tables. ES_OK, ES_EIO, ES_ENOMEM. */
es_status es_database_open_private(es_database *database) ES_MUST_USE;

/** Sets the limits of a connection that is open, and what SQL may not do in
 *  it: no triggers, no views, nothing of the file's own is trusted. */
es_status es_database_harden(const es_database *database) ES_MUST_USE;

/**
 * Closes the connection, whose statements are finalised. In a forked child it
 * is only forgotten: to close it would undo the parent's locks.
 */
void es_database_disconnect(es_database *database);

/** Disconnects and frees. */
void es_database_close(es_database *database);

/** ES_OK, or ES_EFORK in a process other than the one that opened it. */
es_status es_database_check_owner(const es_database *database) ES_MUST_USE;

/** Writes bytes[0..n) at an offset of a file, all of them: 0, or an errno. */
int es_write_at(int fd, const unsigned char *bytes, size_t n,
                int64_t at) ES_MUST_USE;

/** es_fail for SQLite's result code rc: path, reason and remedy. */
es_status es_database_fail(const es_database *database, int rc);

/** The same, ES_OK for SQLITE_OK, SQLITE_ROW and SQLITE_DONE. */
es_status es_database_status(const es_database *database, int rc) ES_MUST_USE;

es_status es_database_execute(const es_database *database,
                              const char *sql) ES_MUST_USE;
es_status es_database_prepare(const es_database *database, sqlite3_stmt **out,
                              const char *sql) ES_MUST_USE;

/** out (n): each of sql (n), until one fails; nothing for NULL. */
es_status es_database_prepare_all(const es_database *database,
                                  sqlite3_stmt **out, const char *const *sql,
                                  size_t n) ES_MUST_USE;

/** statements (n), NULL ones too. In a forked child they are only forgotten. */
void es_database_finalise_all(const es_database *database,
                              sqlite3_stmt **statements, size_t n);

/** One integer from a query without parameters. */
es_status es_database_integer(const es_database *database, const char *sql,
                              int64_t *out) ES_MUST_USE;

/** The path of FILE-suffix; "", which no file has, if that is too long. */
const char *es_beside(char out[PATH_MAX], const char *file, const char *suffix);

/** lstat of FILE-suffix; 0 or an errno. */
int es_beside_stat(struct stat *st, const char *file, const char *suffix);

/* --- run_file.c ---------------------------------------------------------- */

typedef struct es_esf es_esf;       /* esf_in.h */
typedef struct es_remote es_remote; /* postgres_in.h */

/** What stands behind a database whose tables are private; both NULL: it is a
 *  run file. */
typedef struct es_run_source {
    es_esf *fragment;
    es_remote *remote;
} es_run_source;

/**
 * Opens what holds runs, to read: a run file; a fragment, RUN.esf in place of a
 * RUN.db that is not there; the runs that a URL of PostgreSQL names.
 *
 *   source  zeroed
 *
 * es_run_file_close closes both, also after a failure. ES_OK;
 * es_database_inspect's, es_database_open's, es_esf_open's and es_remote_open's
 * errors; ES_EIO: there is no such file.
 */
es_status es_run_file_open(es_database *database, es_run_source *source,
                           const char *path) ES_MUST_USE;

/** To be called before what was written meanwhile is read. */
es_status es_run_file_refresh(es_database *database,
                              const es_run_source *source) ES_MUST_USE;

/** Whether a live process writes it. */
es_status es_run_file_is_written(const es_database *database,
                                 const es_run_source *source,
                                 bool *out) ES_MUST_USE;

/** After its statements. */
void es_run_file_close(es_database *database, es_run_source *source);

/* --- view.c -------------------------------------------------------------- */

/** Name of the VFS that only reads, registered on the first call; NULL: SQLite
 *  has no VFS "unix", or no memory. Any thread. */
const char *es_view_name(void);

/* --- schema.c ------------------------------------------------------------ */

/** A new, empty run file as bytes: sqlite3_free it. */
es_status es_schema_image(unsigned char **out, size_t *n) ES_MUST_USE;

/** The tables of a run file in an empty database of this connection's own, but
 *  `sample`, a virtual table that the connection has. */
es_status es_schema_make_private(es_database *database) ES_MUST_USE;

/** ES_OK, or ES_EFORMAT if `id` is not the application_id of a run file. */
es_status es_schema_check_id(const es_database *database,
                             uint32_t id) ES_MUST_USE;

/** Compares the file's application_id, and its tables with ours of the version
 *  that it states. */
es_status es_schema_check(es_database *database) ES_MUST_USE;

/* --- map.c --------------------------------------------------------------- */

/** A map, with its checksum, into a database; unchecked. ES_OK, ES_EFORMAT,
 *  es_database_status's errors. */
es_status es_map_insert(const es_database *database, int64_t run_id,
                        const char *uuid, const es_map *map,
                        const float *values) ES_MUST_USE;

/* --- checksum.c ---------------------------------------------------------- */

/**
 * What the checksums of a series' samples begin with: its name in every file.
 * Not series_id, which a merge changes, and which says nothing if the row of
 * the series is damaged.
 */
uint32_t es_checksum_of_series(const char *uuid, es_phase phase,
                               const char *name);

/** Of a sample of that series. As SQLite keeps it: 4 bytes, with a sign. */
int32_t es_checksum_of_sample(uint32_t series, int64_t step, const void *value,
                              size_t size);

/* --- row_checksum.c ------------------------------------------------------ */

/* What the checksum of a row is of, in this order: es_checksum_of_columns.
 * Behind a + SQLite does not look up, and copy, where a column comes from: a
 * twentieth of the time that a short run takes. */
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

/** As row_checksum keeps it: of the columns [first, first + n) of a
 *  statement's row. */
int32_t es_checksum_of_columns(sqlite3_stmt *statement, int first, int n);

/* --- guard.c ------------------------------------------------------------- */

/** SQLite's file system for one connection. Zeroed; outlives the connection. */
typedef struct es_guard {
    sqlite3_vfs vfs;   /* first: SQLite hands it back */
    sqlite3_vfs *base; /* SQLite's own */
    const char *file;
    char name[32];
    char refusal[128]; /* "" or what was refused and why: for messages */
} es_guard;

/**
 * sqlite3_open_v2 through a guard: SQLite then touches nothing but `file` and
 * its rollback journal, and neither unless it is a regular file of one name
 * that belongs to this user; a write-ahead log is refused. This holds whenever
 * SQLite opens one of them, not only now.
 *
 *   file   absolute, links of its directory resolved; borrowed until the end
 *
 * SQLite's result code; SQLITE_PERM is the guard's: see `refusal`.
 */
int es_guard_open(es_guard *guard, sqlite3 **handle, const char *file,
                  int flags) ES_MUST_USE;

/* --- lock.c -------------------------------------------------------------- */

/** The writer's lock: an open-file-description lock on FILE-lock, which holds
 *  the pid. Nothing locks the run file itself but SQLite. */
typedef struct es_lock {
    int fd;           /* -1: not held */
    bool is_optional; /* set before it is taken: without it where the file
                         system has no locks */
    char *path;       /* NULL: not held */
    pid_t owner;
    struct es_lock *next; /* of those that this process holds */
} es_lock;

/**
 *   lock   stays where it is until it is released
 *   file   the run file, absolute
 *   shown  the run file as messages name it
 *
 * ES_OK; ES_ELOCKED: the message names the holder's pid; ES_EIO; ES_ENOMEM.
 */
es_status es_lock_take(es_lock *lock, const char *file,
                       const char *shown) ES_MUST_USE;

/** Removes the lock file if `remove`: a forked child must not. */
void es_lock_release(es_lock *lock, bool remove);

/** Whether a live process holds the lock. Takes and creates nothing. Arguments
 *  as es_lock_take's. ES_OK; ES_EIO: that cannot be known; ES_ENOMEM. */
es_status es_lock_check(bool *held, const char *file,
                        const char *shown) ES_MUST_USE;

/** Whether this process does. Any thread. */
bool es_lock_is_ours(const char *file);

/* --- values -------------------------------------------------------------- */

/** Capacity for element n of an array that grew by this function alone; the
 *  address of its pointer. ES_OK, ES_ENOMEM. */
es_status es_reserve_next(void *array, size_t n, size_t size) ES_MUST_USE;

int es_bind_text(sqlite3_stmt *statement, int index, const char *text);

/** ES_UNKNOWN is NULL in the file. */
int es_bind_number(sqlite3_stmt *statement, int index, int64_t number);

#endif
