/* Implements SQL queries over run files. They run on a connection to an
 * in-memory database, in which the tables of run files are virtual tables, and
 * an authorizer allows only reading. */
#include "store/sql/query.h"

#include "analyzer/base/checked.h"
#include "store/reader_internal.h"
#include "store/sql/source.h"
#include "store/store_internal.h"

#include <stdlib.h>
#include <string.h>

struct es_query {
    es_database *files;    /* (sources.n) */
    es_run_source *behind; /* (sources.n) */
    es_sql_sources sources;
    sqlite3 *handle;
    sqlite3_stmt *statement;
    const char *refused; /* description of the action that the authorizer denied
                            last, or NULL */
};

/* --- permissions --------------------------------------------------------- */

static bool is_one_of(const char *text, const char *const *list)
{
    for (; text && *list; list++)
        if (sqlite3_stricmp(text, *list) == 0)
            return true;
    return false;
}

/* Returns a description of the action if the authorizer must deny it, or NULL
   if the action is allowed. */
static const char *find_refusal(int action, const char *first,
                                const char *second)
{
    static const char *const pragmas[] = {
        "table_info",    "table_xinfo", "table_list", "function_list",
        "database_list", "module_list", NULL};
    static const char *const functions[] = {"load_extension", "fts3_tokenizer",
                                            NULL};
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
        return NULL;
    case SQLITE_FUNCTION:
        return is_one_of(second, functions) ? "that function" : NULL;
    case SQLITE_PRAGMA:
        return is_one_of(first, pragmas) ? NULL : "that PRAGMA";
    case SQLITE_ATTACH:
    case SQLITE_DETACH:
        return "ATTACH";
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
        return "a transaction";
    default:
        return "a statement that writes";
    }
}

static int authorize(void *user, int action, const char *first,
                     const char *second, const char *schema,
                     const char *trigger)
{
    (void)schema, (void)trigger;
    es_query *query = user;
    const char *refused = find_refusal(action, first, second);
    if (!refused)
        return SQLITE_OK;
    query->refused = refused;
    return SQLITE_DENY;
}

static void set_limits(sqlite3 *handle)
{
    static const struct {
        int what, limit;
    } limits[] = {
        {SQLITE_LIMIT_LENGTH, 16 << 20}, {SQLITE_LIMIT_SQL_LENGTH, 1 << 20},
        {SQLITE_LIMIT_ATTACHED, 0},      {SQLITE_LIMIT_EXPR_DEPTH, 500},
        {SQLITE_LIMIT_TRIGGER_DEPTH, 1}, {SQLITE_LIMIT_WORKER_THREADS, 0},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        sqlite3_limit(handle, limits[i].what, limits[i].limit);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
}

/* --- opening ---------------------------------------------------------------*/

static es_status fail_handle(const es_query *query, int rc)
{
    if (rc == SQLITE_OK)
        return ES_OK;
    return rc == SQLITE_NOMEM
               ? es_fail(ES_ENOMEM, "out of memory")
               : es_fail(ES_EINTERNAL, "cannot prepare a query: %s",
                         query->handle ? sqlite3_errmsg(query->handle)
                                       : sqlite3_errstr(rc));
}

static es_status open_files(es_query *query, const char *const *paths, size_t n)
{
    es_status status;
    if ((status = es_alloc(&query->files, n, sizeof *query->files,
                           "the run files")) < 0 ||
        (status = es_alloc(&query->behind, n, sizeof *query->behind,
                           "the run files")) < 0 ||
        (status = es_alloc(&query->sources.list, n, sizeof *query->sources.list,
                           "the run files")) < 0)
        return status;
    for (size_t i = 0; i < n; i++) {
        es_database *file = &query->files[i];
        query->sources.n = i + 1;
        if ((status = es_run_source_open(&query->behind[i], file, paths[i])) <
            0)
            return status;
        if (es_run_source_reads_config(&query->behind[i]))
            return es_fail(
                ES_EUSAGE,
                "%s: where= has conditions on the configuration: use "
                "SQL's WHERE instead, as in config ->> 'lr' < 1",
                file->path);
        query->sources.list[i] =
            (es_sql_source){.handle = file->handle,
                            .schema = "main",
                            .offset = (sqlite3_int64)i * ES_SQL_FILE_IDS};
    }
    return ES_OK;
}

static es_status open_handle(es_query *query)
{
    /* SQLite treats the first use of a virtual table as CREATE TABLE, which the
       authorizer denies. All virtual tables are therefore used once here,
       before the authorizer is set. */
    static const char connect[] =
        "SELECT 1 FROM run, series, sample, event, es_values WHERE 0;"
        "PRAGMA query_only=ON";
    int rc = sqlite3_open_v2(":memory:", &query->handle,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                                 SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
                             NULL);
    if (rc == SQLITE_OK) {
        set_limits(query->handle);
        rc = es_sql_add_tables(query->handle, &query->sources);
    }
    if (rc == SQLITE_OK)
        rc = es_sql_add_values(query->handle, &query->sources);
    if (rc == SQLITE_OK) /* keeps temporary data in memory, so that sorting
                            writes no file */
        rc = sqlite3_exec(query->handle, "PRAGMA temp_store=MEMORY", NULL, NULL,
                          NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(query->handle, es_sql_views, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(query->handle, connect, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_set_authorizer(query->handle, authorize, query);
    return fail_handle(query, rc);
}

es_status es_query_open(es_query **out, const char *const *paths, size_t n)
{
    es_query *query;
    es_status status;
    *out = NULL;
    if (n > ES_SQL_MAX_FILES)
        return es_fail(ES_EUSAGE, "%zu run files: the limit is %d", n,
                       ES_SQL_MAX_FILES);
    if ((status = es_alloc(&query, 1, sizeof *query, "a query")) < 0)
        return status;
    if ((status = open_files(query, paths, n)) < 0 ||
        (status = open_handle(query)) < 0)
        es_query_close(query);
    else
        *out = query;
    return status;
}

void es_query_close(es_query *query)
{
    if (!query)
        return;
    sqlite3_finalize(query->statement);
    sqlite3_close(query->handle);
    for (size_t i = 0; i < query->sources.n; i++)
        es_run_source_close(&query->behind[i], &query->files[i]);
    free(query->files);
    free(query->behind);
    free(query->sources.list);
    free(query);
}

/* --- running ---------------------------------------------------------------*/

static es_status fail_query(es_query *query, int rc)
{
    const char *reason = sqlite3_errmsg(query->handle);
    switch (rc & 0xff) {
    case SQLITE_NOMEM:
        return es_fail(ES_ENOMEM, "the query ran out of memory: restrict it to "
                                  "a range of steps or to a series");
    case SQLITE_CORRUPT:
        return es_fail(ES_EFORMAT, "the query: a run file is damaged: %s",
                       reason);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        return es_fail(ES_ELOCKED,
                       "the query: a run file is locked (%s); try again",
                       reason);
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_FULL:
        return es_fail(ES_EIO, "the query: %s", reason);
    case SQLITE_AUTH:
        return es_fail(
            ES_EUSAGE,
            "the query: %s is refused: run files can only be read, with "
            "SELECT",
            query->refused ? query->refused : "that");
    default:
        return es_fail(ES_EUSAGE, "the query: %s", reason);
    }
}

es_status es_query_prepare(es_query *query, const char *sql)
{
    const char *rest = NULL;
    sqlite3_stmt *more = NULL;
    sqlite3_finalize(query->statement);
    query->statement = NULL;
    query->refused = NULL;
    int rc =
        sqlite3_prepare_v2(query->handle, sql, -1, &query->statement, &rest);
    if (rc != SQLITE_OK)
        return fail_query(query, rc);
    if (!query->statement)
        return es_fail(ES_EUSAGE, "the query is empty");
    if (sqlite3_column_count(query->statement) ==
        0) { /* a statement without columns, such as REINDEX without a table,
                returns no rows */
        query->refused = "a statement that writes";
        return fail_query(query, SQLITE_AUTH);
    }
    rc = sqlite3_prepare_v2(query->handle, rest, -1, &more, NULL);
    bool single = rc == SQLITE_OK && !more;
    sqlite3_finalize(more);
    if (!single)
        return es_fail(ES_EUSAGE, "the query: one statement at a time");
    return ES_OK;
}

es_status es_query_next(es_query *query)
{
    int rc = sqlite3_step(query->statement);
    if (rc == SQLITE_ROW)
        return ES_OK;
    return rc == SQLITE_DONE ? ES_DONE : fail_query(query, rc);
}

size_t es_query_n_columns(const es_query *query)
{
    return (size_t)sqlite3_column_count(query->statement);
}

const char *es_query_name(const es_query *query, size_t column)
{
    const char *name = sqlite3_column_name(query->statement, (int)column);
    return name ? name : "";
}

void es_query_cell(es_cell *out, const es_query *query, size_t column)
{
    sqlite3_stmt *row = query->statement;
    int i = (int)column;
    *out = (es_cell){.kind = ES_CELL_NULL};
    switch (sqlite3_column_type(row, i)) {
    case SQLITE_INTEGER:
        out->kind = ES_CELL_INTEGER;
        out->integer = sqlite3_column_int64(row, i);
        break;
    case SQLITE_FLOAT:
        out->kind = ES_CELL_REAL;
        out->real = sqlite3_column_double(row, i);
        break;
    case SQLITE_TEXT:
        out->bytes = sqlite3_column_text(row, i);
        out->n = (size_t)sqlite3_column_bytes(row, i);
        out->kind = out->bytes ? ES_CELL_TEXT : ES_CELL_NULL;
        break;
    case SQLITE_BLOB:
        out->bytes = sqlite3_column_blob(row, i);
        out->n = (size_t)sqlite3_column_bytes(row, i);
        out->kind = ES_CELL_BLOB;
        break;
    default:
        break;
    }
}

const char *es_query_sqlite(void)
{
    return sqlite3_libversion();
}
