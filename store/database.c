/* Connects readers and writers to a run file or to a watcher's state file.
   Resolves the path, checks the files next to the run file, converts SQLite's
   errors to one-line messages, defines the tables of a run file for each
   version of the schema, and opens the database with settings for untrusted
   files. */
#include "store/store_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/infile.h"
#include "store/mount.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes reserved for a suffix such as "-journal", the longest suffix. */
#define LONGEST_SUFFIX 16

/* --- where the file is --------------------------------------------------- */

/**
 * Computes the absolute path. Resolves symbolic links in the directory part,
 * but not a file that is itself a symbolic link. SQLite opens the path with
 * SQLITE_OPEN_NOFOLLOW, which refuses a symbolic link in either part.
 */
static es_status resolve(char **out, const char *path)
{
    char directory[PATH_MAX], absolute[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t n = (size_t)(name - path);
    if (!name[0])
        return es_fail(ES_EIO, "%s: names no file", path[0] ? path : "''");
    if (n >= sizeof directory)
        return es_fail(ES_EIO, "%s: %s", path, strerror(ENAMETOOLONG));
    memcpy(directory, n ? path : ".", n ? n : 1);
    directory[n ? n : 1] = '\0';
    if (!realpath(directory, absolute))
        return es_fail(ES_EIO, "%s: %s", path, strerror(errno));
    if (strcmp(absolute, "/") != 0)
        strncat(absolute, "/", sizeof absolute - strlen(absolute) - 1);
    if (strlen(absolute) + strlen(name) + LONGEST_SUFFIX >= PATH_MAX)
        return es_fail(ES_EIO, "%s: %s", path, strerror(ENAMETOOLONG));
    return es_copy_text(out, strcat(absolute, name));
}

/**
 * Refuses a run file with a rollback journal. Our writer never leaves a
 * journal, so either another program has crashed, or an attacker has added the
 * journal so that SQLite writes its pages into the file.
 */
static es_status refuse_journal(const es_database *database)
{
    return es_fail(
        ES_EIO,
        "%s: has a rollback journal: another program changed the file and did "
        "not finish; recover it with sqlite3, or restore a copy",
        database->path);
}

/**
 * Checks the file with the given suffix, which SQLite would write, lock or
 * truncate together with the run file. `orphan` is true if the run file is
 * missing or empty.
 */
static es_status check_companion(const es_database *database,
                                 const char *suffix, const struct stat *st,
                                 bool orphan)
{
    const char *path = database->path;
    if (strcmp(suffix, "-journal") == 0)
        return refuse_journal(database);
    if (!S_ISREG(st->st_mode))
        return es_fail(ES_EIO,
                       "%s%s: is a %s, not a file that SQLite made: remove it",
                       path, suffix,
                       S_ISLNK(st->st_mode) ? "symbolic link" : "special file");
    if (st->st_nlink > 1)
        return es_fail(ES_EIO,
                       "%s%s: has another name as well (a hard link): copy "
                       "%s and its %s to another folder, and use the copies",
                       path, suffix, path, suffix);
    if (orphan && st->st_size > 0 && strcmp(suffix, "-wal") == 0)
        return es_fail(ES_EIO,
                       "%s%s: the log of a missing run file: restore the "
                       "run file, or remove the log",
                       path, suffix);
    return ES_OK;
}

/**
 * Checks the journal, the log and the log's index. `orphans` is true if the run
 * file is missing or empty.
 */
static es_status check_companions(const es_database *database, bool orphans)
{
    static const char *const suffixes[] = {"-journal", "-wal", "-shm"};
    struct stat st;
    es_status status = ES_OK;
    for (size_t i = 0; i < 3 && status == ES_OK; i++) {
        int error = es_beside_stat(&st, database->file, suffixes[i]);
        if (!error)
            status = check_companion(database, suffixes[i], &st, orphans);
        else if (error != ENOENT)
            status = es_fail(ES_EIO, "%s%s: %s", database->path, suffixes[i],
                             strerror(error));
    }
    return status;
}

es_status es_database_locate(es_database *database, const char *path)
{
    database->owner = getpid();
    es_status status = es_copy_text(&database->path, path);
    return status < 0 ? status : resolve(&database->file, path);
}

es_status es_database_inspect(const es_database *database, int64_t *size)
{
    struct stat st;
    *size = -1;
    if (lstat(database->file, &st) == 0)
        *size = (int64_t)st.st_size;
    else if (errno != ENOENT)
        return es_fail(ES_EIO, "%s: %s", database->path, strerror(errno));
    if (*size >= 0 && !S_ISREG(st.st_mode)) {
        mode_t mode = st.st_mode;
        const char *kind = "a special file: only regular files hold a run";
        if (S_ISDIR(mode))
            kind = "a directory: name a run file in it";
        else if (S_ISLNK(mode))
            kind = "a symbolic link: name the file it points to";
        else if (S_ISFIFO(mode))
            kind = "a FIFO: only regular files hold a run";
        else if (S_ISSOCK(mode))
            kind = "a socket: only regular files hold a run";
        return es_fail(ES_EIO, "%s: is %s", database->path, kind);
    }
    return check_companions(database, *size <= 0);
}

/* --- errors -------------------------------------------------------------- */

/**
 * Returns the errno of the last failed access to the database file or its log;
 * 0 if no access has failed. This errno is needed because SQLite 3.31 and later
 * report a read that fails with EIO as corruption, without the errno.
 */
static int last_errno(const es_database *database)
{
    static const int files[] = {SQLITE_FCNTL_FILE_POINTER,
                                SQLITE_FCNTL_JOURNAL_POINTER};
    int reason = 0;
    for (int i = 0; i < 2 && database->handle && !reason; i++) {
        sqlite3_file *file = NULL;
        sqlite3_file_control(database->handle, "main", files[i], &file);
        if (file && file->pMethods)
            file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO,
                                         &reason);
    }
    return reason;
}

/**
 * Fails with the errno that SQLite has stored, or with `fallback` if SQLite has
 * stored none and `fallback` is not 0.
 */
static es_status fail_system(const es_database *database, const char *doing,
                             int fallback)
{
    int reason = database->handle ? sqlite3_system_errno(database->handle) : 0;
    if (!reason)
        reason = last_errno(database);
    if (!reason)
        reason = fallback;
    if (reason)
        return es_fail(ES_EIO, "%s: cannot %s: %s", database->path, doing,
                       strerror(reason));
    return es_fail(ES_EIO, "%s: cannot %s: %s", database->path, doing,
                   sqlite3_errmsg(database->handle));
}

int es_write_at(int fd, const unsigned char *bytes, size_t n, int64_t at)
{
    while (n > 0) {
        ssize_t done = pwrite(fd, bytes, n, at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? errno : EIO;
        bytes += done;
        n -= (size_t)done;
        at += done;
    }
    return 0;
}

es_status es_database_fail(const es_database *database, int rc)
{
    const int failed_with = errno;
    const char *path = database->path;
    const char *reason = database->handle ? sqlite3_errmsg(database->handle)
                                          : sqlite3_errstr(rc);
    if (database->refusal && database->refusal[0])
        return es_fail(ES_EIO, "%s: %s", path, database->refusal);
    switch (rc & 0xff) {
    case SQLITE_NOMEM:
        return es_fail(ES_ENOMEM, "%s: out of memory", path);
    case SQLITE_NOTADB:
        return es_fail(ES_EFORMAT, "%s: not a %s", path,
                       database->state ? "watcher's state: name another file, "
                                         "or remove it"
                                       : "run file");
    case SQLITE_CORRUPT:
        if (last_errno(database) == EIO || last_errno(database) == ENXIO)
            return es_fail(ES_EIO, "%s: cannot read: %s", path,
                           strerror(last_errno(database)));
        /* fall through */
    case SQLITE_ERROR: /* our SQL is correct, so the file must be damaged */
    case SQLITE_SCHEMA:
    case SQLITE_INTERRUPT: /* a statement exceeded the limit on SQLite's
                              execution steps, for example because the file was
                              crafted */
        return es_fail(ES_EFORMAT, "%s: damaged: %s%s", path, reason,
                       database->state
                           ? ": remove it: every alert is then reported again"
                           : ": restore a copy, or see what `sqlite3 FILE "
                             ".recover` finds");
    case SQLITE_TOOBIG:
        return es_fail(ES_EFORMAT, "%s: a value is too long", path);
    case SQLITE_CONSTRAINT:
        return es_fail(ES_EARGUMENT, "%s: refused: %s", path, reason);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return es_fail(ES_ELOCKED,
                       "%s: another program holds a lock on it: close it there",
                       path);
    case SQLITE_FULL:
        return es_fail(ES_EIO, "%s: cannot write: %s", path, strerror(ENOSPC));
    case SQLITE_PROTOCOL:
        return es_fail(ES_ELOCKED,
                       "%s: its log changes faster than it can be read: try "
                       "again",
                       path);
    case SQLITE_READONLY:
        if (rc == SQLITE_READONLY_RECOVERY || rc == SQLITE_READONLY_CANTINIT)
            return es_fail(ES_EIO,
                           "%s: the index of its log (%s-shm) is damaged: "
                           "end the program that writes it, and try again",
                           path, path);
        return fail_system(database, "write", 0);
    case SQLITE_CANTOPEN:
        return fail_system(database, "open", 0);
    case SQLITE_IOERR:
        /* A rollback closes the journal, so the journal's errno is lost. ENOENT
         * is never the reason for the failure: SQLite sets it when it checks
         * for files that may be missing. */
        return fail_system(database, "read or write",
                           failed_with == ENOENT ? 0 : failed_with);
    case SQLITE_AUTH:
    case SQLITE_PERM:
        return fail_system(database, "use it", 0);
    default:
        return es_fail(ES_EINTERNAL, "%s: SQLite error: %s", path, reason);
    }
}

es_status es_database_status(const es_database *database, int rc)
{
    if (rc == SQLITE_OK || rc == SQLITE_ROW || rc == SQLITE_DONE)
        return ES_OK;
    return es_database_fail(database, rc);
}

es_status es_database_check_owner(const es_database *database)
{
    if (database->owner == getpid())
        return ES_OK;
    return es_fail(ES_EFORK,
                   "%s: opened before a fork: open it again in this process",
                   database->path);
}

/* --- statements ---------------------------------------------------------- */

es_status es_database_execute(const es_database *database, const char *sql)
{
    int rc = sqlite3_exec(database->handle, sql, NULL, NULL, NULL);
    return es_database_status(database, rc);
}

es_status es_database_prepare(const es_database *database, sqlite3_stmt **out,
                              const char *sql)
{
    int rc = sqlite3_prepare_v3(database->handle, sql, -1,
                                SQLITE_PREPARE_PERSISTENT, out, NULL);
    return es_database_status(database, rc);
}

es_status es_database_prepare_all(const es_database *database,
                                  sqlite3_stmt **out, const char *const *sql,
                                  size_t n)
{
    for (size_t i = 0; i < n; i++) {
        es_status status =
            sql[i] ? es_database_prepare(database, &out[i], sql[i]) : ES_OK;
        if (status < 0)
            return status;
    }
    return ES_OK;
}

void es_database_finalise_all(const es_database *database,
                              sqlite3_stmt **statements, size_t n)
{
    bool ours = database->owner == getpid();
    for (size_t i = 0; i < n && ours; i++)
        sqlite3_finalize(statements[i]);
}

es_status es_database_integer(const es_database *database, const char *sql,
                              int64_t *out)
{
    sqlite3_stmt *statement = NULL;
    es_status status = es_database_prepare(database, &statement, sql);
    if (status < 0)
        return status;
    int rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW)
        *out = sqlite3_column_int64(statement, 0);
    status = es_database_status(database, rc);
    sqlite3_finalize(statement);
    return status;
}

es_status es_database_step(const es_database *database, sqlite3_stmt *statement)
{
    es_status status = es_database_status(database, sqlite3_step(statement));
    sqlite3_reset(statement);
    return status;
}

int es_bind_text(sqlite3_stmt *statement, int index, const char *text)
{
    return text ? sqlite3_bind_text(statement, index, text, -1, SQLITE_STATIC)
                : sqlite3_bind_null(statement, index);
}

int es_bind_number(sqlite3_stmt *statement, int index, int64_t number)
{
    return number == ES_UNKNOWN ? sqlite3_bind_null(statement, index)
                                : sqlite3_bind_int64(statement, index, number);
}

es_status es_reserve_next(void *array, size_t n, size_t size)
{
    if (n & (n - 1) || (n > 0 && n < 16))
        return ES_OK;
    return es_grow(array, n ? 2 * n : 16, size, "the rows of a run file");
}

/* --- tables --------------------------------------------------------------- */

/* The table sample has a rowid, because in a table without rowids SQLite stores
 * at most a quarter of a page of each row in place, and the samples of 16 x 16
 * heads would take four times their size. The column crc precedes the value,
 * because SQLite would otherwise read all pages of a long value to find crc.
 *
 * The table row_checksum is optional: files without it are read and resumed
 * without row checksums, and programs that do not know it ignore it. Checksums
 * are in a separate table and not in the rows, so that they need no new schema
 * version.
 *
 * SQLite stores these CREATE statements in the file, and readers compare them
 * byte by byte. Therefore any change of a statement requires a new
 * ES_SCHEMA_VERSION. */
static const struct {
    const char *name, *sql;
} tables[] = {
    {"run",
     "CREATE TABLE run(\n"
     "  run_id INTEGER PRIMARY KEY,\n"
     "  uuid TEXT NOT NULL UNIQUE CHECK(length(uuid) = 36),\n"
     "  name TEXT NOT NULL,\n"
     "  arch TEXT,\n"
     "  family TEXT,\n"
     "  n_layer INTEGER NOT NULL CHECK(n_layer BETWEEN 1 AND 4096),\n"
     "  n_head INTEGER NOT NULL CHECK(n_head BETWEEN 1 AND 4096),\n"
     "  d_model INTEGER,\n"
     "  ctx INTEGER,\n"
     "  vocab INTEGER,\n"
     "  batch INTEGER,\n"
     "  seed INTEGER,\n"
     "  config TEXT, -- a JSON object\n"
     "  program TEXT,\n"
     "  host TEXT,\n"
     "  started_at TEXT NOT NULL, -- ISO 8601, UTC\n"
     "  ended_at TEXT,\n"
     "  status TEXT NOT NULL\n"
     "    CHECK(status IN ('running', 'finished', 'failed', 'stopped')),\n"
     "  last_step INTEGER,        -- NULL before the first sample\n"
     "  CHECK(n_layer * n_head <= 1048576)\n"
     ") STRICT"},
    {"series",
     "CREATE TABLE series(\n"
     "  series_id INTEGER PRIMARY KEY,\n"
     "  run_id INTEGER NOT NULL REFERENCES run,\n"
     "  name TEXT NOT NULL,\n"
     "  shape TEXT NOT NULL CHECK(shape IN ('run', 'layer', 'head')),\n"
     "  phase TEXT NOT NULL CHECK(phase IN ('train', 'eval')),\n"
     "  unit TEXT NOT NULL,\n"
     "  UNIQUE(run_id, name, phase)\n"
     ") STRICT"},
    {"sample",
     "CREATE TABLE sample(\n"
     "  series_id INTEGER NOT NULL REFERENCES series,\n"
     "  step INTEGER NOT NULL,\n"
     "  crc INTEGER NOT NULL, -- CRC-32C of uuid, phase, name, step, value\n"
     "  value BLOB NOT NULL, -- packed little-endian float32, layer-major\n"
     "  PRIMARY KEY(series_id, step)\n"
     ") STRICT"},
    {"event",
     "CREATE TABLE event(\n"
     "  event_id INTEGER PRIMARY KEY,\n"
     "  run_id INTEGER NOT NULL REFERENCES run,\n"
     "  step INTEGER,\n"
     "  kind TEXT NOT NULL,\n"
     "  severity INTEGER NOT NULL -- 0 none, info, warning, error, 4 critical\n"
     "    CHECK(severity BETWEEN 0 AND 4),\n"
     "  layer INTEGER,\n"
     "  head INTEGER,\n"
     "  message TEXT,\n"
     "  data TEXT, -- JSON\n"
     "  at TEXT NOT NULL, -- ISO 8601, UTC\n"
     "  dedupe TEXT UNIQUE -- the run's uuid, a slash, the event's own key\n"
     ") STRICT"},
    {"row_checksum",
     "CREATE TABLE row_checksum(\n"
     "  of_table TEXT NOT NULL CHECK(of_table IN ('run', 'series', 'event')),\n"
     "  id INTEGER NOT NULL, -- run_id, series_id, event_id\n"
     "  crc INTEGER NOT NULL, -- CRC-32C of the row's other columns: of each "
     "its type (1 integer, 3 text, 5 NULL), then the integer, or the text's "
     "length and the text; last_step is NULL while the run is running\n"
     "  PRIMARY KEY(of_table, id)\n"
     ") STRICT, WITHOUT ROWID"},
};

#define N_TABLES (sizeof tables / sizeof *tables)

static bool is_optional(size_t table)
{
    return strcmp(tables[table].name, "row_checksum") == 0;
}

/* The table sample of schema 1, which has no checksums. The other tables of
   schema 1 are the same. */
static const char sample_1[] =
    "CREATE TABLE sample(\n"
    "  series_id INTEGER NOT NULL REFERENCES series,\n"
    "  step INTEGER NOT NULL,\n"
    "  value BLOB NOT NULL, -- packed little-endian float32, layer-major\n"
    "  PRIMARY KEY(series_id, step)\n"
    ") STRICT";

static int create_tables(sqlite3 *handle)
{
    char pragmas[96];
    sqlite3_snprintf(sizeof pragmas, pragmas,
                     "PRAGMA application_id=%d; PRAGMA user_version=%d",
                     ES_APPLICATION_ID, ES_SCHEMA_VERSION);
    int rc = sqlite3_exec(handle, pragmas, NULL, NULL, NULL);
    for (size_t i = 0; i < N_TABLES && rc == SQLITE_OK; i++)
        rc = sqlite3_exec(handle, tables[i].sql, NULL, NULL, NULL);
    return rc;
}

es_status es_schema_image(unsigned char **out, size_t *n)
{
    sqlite3 *handle = NULL;
    sqlite3_int64 size = 0;
    unsigned char *image = NULL;
    if (sqlite3_open(":memory:", &handle) == SQLITE_OK &&
        create_tables(handle) == SQLITE_OK)
        image = sqlite3_serialize(handle, "main", &size, 0);
    es_status status = ES_OK;
    if (!image)
        status = es_fail(ES_EINTERNAL, "cannot create a run file: %s",
                         handle ? sqlite3_errmsg(handle) : "out of memory");
    sqlite3_close(handle);
    if (status < 0)
        return status;
    /* The value 2 at offsets 18 and 19 of an SQLite file turns on WAL mode. */
    image[18] = image[19] = 2;
    *out = image;
    *n = (size_t)size;
    return ES_OK;
}

es_status es_schema_make_private(es_database *database)
{
    es_status status = es_database_execute(
        database, "PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF;"
                  "PRAGMA cache_size=-1024; BEGIN");
    for (size_t i = 0; i < N_TABLES && status == ES_OK; i++)
        if (strcmp(tables[i].name, "sample") != 0 && !is_optional(i))
            status = es_database_execute(database, tables[i].sql);
    if (status == ES_OK)
        status = es_database_execute(database, "COMMIT");
    database->schema = ES_SCHEMA_VERSION;
    return status;
}

/** Returns ES_OK, or ES_EFORMAT if `id` is not the application_id of a run
 *  file. */
static es_status check_id(const es_database *database, uint32_t id)
{
    if (id == ES_APPLICATION_ID)
        return ES_OK;
    return es_fail(ES_EFORMAT,
                   "%s: not a run file: a database of another program "
                   "(application_id %lu)",
                   database->path, (unsigned long)id);
}

static es_status check_version(es_database *database)
{
    int64_t version = 0, id = 0;
    es_status status;
    if ((status = es_database_integer(database, "PRAGMA application_id", &id)) <
            0 ||
        (status = check_id(database, (uint32_t)id)) < 0 ||
        (status = es_database_integer(database, "PRAGMA user_version",
                                      &version)) < 0)
        return status;
    if (version > ES_SCHEMA_VERSION)
        return es_fail(ES_EVERSION,
                       "%s: schema %lld is newer than this program's %d: "
                       "upgrade entropy-scan",
                       database->path, (long long)version, ES_SCHEMA_VERSION);
    if (version < 1)
        return es_fail(ES_EFORMAT, "%s: not a run file: schema %lld",
                       database->path, (long long)version);
    database->schema = (int)version;
    return ES_OK;
}

const char *es_schema_sql(size_t table)
{
    return table < N_TABLES ? tables[table].sql : NULL;
}

static const char *sql_of(int table, int schema)
{
    return schema == 1 && strcmp(tables[table].name, "sample") == 0
               ? sample_1
               : tables[table].sql;
}

static int find_table(const char *name)
{
    for (size_t i = 0; i < N_TABLES; i++)
        if (sqlite3_stricmp(name, tables[i].name) == 0)
            return (int)i;
    return -1;
}

/**
 * Checks one row (type, name, table, sql) of the file's schema. If it is one of
 * our tables, sets its bit in `seen`. Ignores other tables and views.
 */
static es_status check_object(const es_database *database,
                              sqlite3_stmt *statement, unsigned *seen)
{
    const char *column[4];
    for (int i = 0; i < 4; i++) {
        column[i] = (const char *)sqlite3_column_text(statement, i);
        if (!column[i] && i < 3)
            return es_fail(ES_EFORMAT,
                           "%s: damaged: an object of its schema has no name: "
                           "restore a copy",
                           database->path);
    }
    int ours = find_table(column[2]);
    if (ours < 0)
        return ES_OK;
    bool index = strcmp(column[0], "index") == 0;
    if (index && !column[3])
        return ES_OK; /* the index that SQLite creates for a UNIQUE
                         constraint */
    if (strcmp(column[0], "table") != 0)
        return es_fail(
            ES_EFORMAT,
            "%s: not a valid run file: it has an additional %s %s: drop it",
            database->path, index ? "index" : "trigger", column[1]);
    if (!column[3] || strcmp(column[3], sql_of(ours, database->schema)) != 0)
        return es_fail(
            ES_EFORMAT,
            "%s: not a valid run file: its table %s differs from the schema",
            database->path, tables[ours].name);
    *seen |= 1u << ours;
    return ES_OK;
}

static es_status check_tables(es_database *database)
{
    sqlite3_stmt *statement = NULL;
    unsigned seen = 0;
    int rc = SQLITE_OK;
    es_status status = es_database_prepare(database, &statement,
                                           "SELECT type, name, tbl_name, sql "
                                           "FROM sqlite_schema");
    while (status == ES_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW)
        status = check_object(database, statement, &seen);
    if (status == ES_OK)
        status = es_database_status(database, rc);
    sqlite3_finalize(statement);
    if (status < 0)
        return status;
    for (unsigned i = 0; i < N_TABLES; i++) {
        const bool there = seen & 1u << i;
        if (is_optional(i))
            database->has_row_checksums = there;
        else if (!there)
            return es_fail(ES_EFORMAT, "%s: not a run file: no table %s",
                           database->path, tables[i].name);
    }
    return ES_OK;
}

es_status es_schema_check(es_database *database)
{
    es_status status = check_version(database);
    return status < 0 ? status : check_tables(database);
}

/* --- opening ------------------------------------------------------------- */

/**
 * Reads the header through SQLite's file handle before SQLite reads it, so that
 * a file of another kind leads to a clear message. If there is a write-ahead
 * log, the header is not checked, because the first page may be torn in the
 * file and complete in the log; the later check of the schema covers this case.
 */
static es_status check_header(const es_database *database)
{
    static const char magic[16] = "SQLite format 3";
    sqlite3_file *file = NULL;
    struct stat log;
    unsigned char header[100];
    sqlite3_int64 size = 0;
    sqlite3_file_control(database->handle, "main", SQLITE_FCNTL_FILE_POINTER,
                         &file);
    if (!file || !file->pMethods)
        return es_fail(ES_EINTERNAL, "%s: not open", database->path);
    int rc = file->pMethods->xFileSize(file, &size);
    if (rc == SQLITE_OK && size == 0)
        return es_fail(ES_EFORMAT, "%s: is empty: not a run file",
                       database->path);
    if (rc == SQLITE_OK && es_beside_stat(&log, database->file, "-wal") == 0)
        return ES_OK;
    if (rc == SQLITE_OK)
        rc = file->pMethods->xRead(file, header, sizeof header, 0);
    es_status status;
    if ((rc == SQLITE_OK || rc == SQLITE_IOERR_SHORT_READ) &&
        (status = es_infile_refuse_pointer(header, sizeof header,
                                           database->path)) < 0)
        return status;
    if (rc == SQLITE_IOERR_SHORT_READ ||
        (rc == SQLITE_OK && memcmp(header, magic, sizeof magic) != 0))
        return es_fail(ES_EFORMAT, "%s: not a run file: not an SQLite database",
                       database->path);
    if (rc != SQLITE_OK)
        return es_database_fail(database, rc);
    return check_id(database, (uint32_t)header[68] << 24 |
                                  (uint32_t)header[69] << 16 |
                                  (uint32_t)header[70] << 8 | header[71]);
}

es_status es_database_harden(const es_database *database)
{
    sqlite3 *handle = database->handle;
    sqlite3_busy_timeout(handle, ES_BUSY_MS);
    static const struct {
        int what, limit;
    } limits[] = {
        {SQLITE_LIMIT_LENGTH, 8 << 20}, /* must exceed the largest sample, which
                                           has 4 MiB */
        {SQLITE_LIMIT_SQL_LENGTH, 100000},
        {SQLITE_LIMIT_COLUMN, 100},
        {SQLITE_LIMIT_EXPR_DEPTH, 100},
        {SQLITE_LIMIT_COMPOUND_SELECT, 10},
        {SQLITE_LIMIT_VDBE_OP, 25000},
        {SQLITE_LIMIT_FUNCTION_ARG, 16},
        {SQLITE_LIMIT_ATTACHED, 0},
        {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 50},
        {SQLITE_LIMIT_VARIABLE_NUMBER, 32},
        {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
        {SQLITE_LIMIT_WORKER_THREADS, 0},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        sqlite3_limit(handle, limits[i].what, limits[i].limit);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    return es_database_execute(database, "PRAGMA cell_size_check=ON;"
                                         "PRAGMA mmap_size=0;"
                                         "PRAGMA secure_delete=OFF;"
                                         "PRAGMA temp_store=MEMORY");
}

es_status es_database_open_private(es_database *database)
{
    int rc = sqlite3_open_v2(
        "", &database->handle,
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
            SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE,
        NULL);
    return rc == SQLITE_OK ? es_database_harden(database)
                           : es_database_fail(database, rc);
}

static es_status open_by(es_database *database, bool writing, const char *vfs)
{
    int flags = SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX |
                SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE |
                (writing ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY);
    int rc = sqlite3_open_v2(database->file, &database->handle, flags, vfs);
    if (rc != SQLITE_OK)
        return database->handle ? fail_system(database, "open", 0)
                                : es_database_fail(database, rc);
    if (writing && sqlite3_db_readonly(database->handle, "main"))
        return es_fail(ES_EIO, "%s: not writable: %s", database->path,
                       strerror(EACCES));
    es_status status;
    if ((status = check_header(database)) < 0 ||
        (status = es_database_harden(database)) < 0)
        return status;
    if (!writing && /* the cache is small, because a program may open many
                       readers */
        (status = es_database_execute(database, "PRAGMA cache_size=-1024;"
                                                "BEGIN")) < 0)
        return status;
    return es_schema_check(database);
}

/**
 * Fails if the run file has a write-ahead log and is on a file system that
 * several hosts share. The log may belong to another host, and the index of a
 * log is shared memory of one host, so the log cannot be read here.
 */
static es_status refuse_shared_log(const es_database *database)
{
    char type[ES_MOUNT_TYPE_SIZE];
    struct stat log;
    if (es_beside_stat(&log, database->file, "-wal") != 0)
        return ES_OK;
    es_mount_of_file(type, database->file);
    if (!type[0])
        return ES_OK;
    return es_fail(ES_EIO,
                   "%s: is on %s and has a log (%s-wal) that another host may "
                   "be writing: wait for the end of the run, record with "
                   "--store fragment, or copy both to a local disk",
                   database->path, type, database->path);
}

es_status es_database_open(es_database *database, bool writing)
{
    es_status status;
    /* The VFS of readers opens the file once more, and closing it would drop
     * this process's locks; see view.c. */
    if (!writing && es_lock_is_ours(database->file))
        return open_by(database, false, NULL);
    if (!writing && (status = refuse_shared_log(database)) < 0)
        return status;
    const char *vfs = es_view_name();
    status = vfs ? open_by(database, false, vfs)
                 : es_fail(ES_EINTERNAL, "SQLite has no VFS for readers");
    if (status < 0 || !writing)
        return status;
    es_database_disconnect(database);
    return open_by(database, true, NULL);
}

void es_database_disconnect(es_database *database)
{
    if (database->handle && database->owner == getpid())
        sqlite3_close(database->handle);
    database->handle = NULL;
    database->samples = NULL;
}

void es_database_close(es_database *database)
{
    es_database_disconnect(database);
    free(database->path);
    free(database->file);
    *database = (es_database){0};
}
