/**
 * Runs read-only SQL over run files. The tables run, series, sample and event,
 * the function es_values (values.inc.h) and the views of views.c cover all
 * files together.
 *
 * Query and files are both untrusted. A file is opened in the same way as by
 * es_reader_open, and only its four tables are accessible. An authorizer allows
 * only SELECT and other statements that read. It denies ATTACH, extensions,
 * every PRAGMA that sets anything, and every statement that writes. A query may
 * run forever; the caller must be able to stop it, by a signal or by fetching
 * no further rows.
 */
#ifndef ES_SQL_QUERY_H
#define ES_SQL_QUERY_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Distance between the ids of consecutive files in a query: k times this number
 * is added to each run_id, series_id and event_id of the file with index k, so
 * that the ids of all files are distinct.
 */
#define ES_SQL_FILE_IDS (INT64_C(1) << 40)

#define ES_SQL_MAX_FILES 1000

typedef struct es_query es_query;

/** Opens run files. Returns ES_OK; the errors of es_reader_open; ES_EUSAGE
 *  (more than ES_SQL_MAX_FILES files); ES_ENOMEM. */
es_status es_query_open(es_query **out, const char *const *paths,
                        size_t n) ES_MUST_USE;

/** Closes the query and its files. `query` may be NULL. */
void es_query_close(es_query *query);

/**
 * Prepares one statement, which replaces the previous statement. Returns ES_OK;
 * ES_EUSAGE (the SQL is wrong, refused or empty, or has more than one
 * statement).
 */
es_status es_query_prepare(es_query *query, const char *sql) ES_MUST_USE;

/** Moves to the next row. Returns ES_OK; ES_DONE; ES_EUSAGE (the query fails);
 *  ES_EFORMAT, ES_EIO (a file fails); ES_ENOMEM. */
es_status es_query_next(es_query *query) ES_MUST_USE;

size_t es_query_n_columns(const es_query *query);

/**
 * Returns the name of a column, or "" if the index is out of range. The name is
 * valid until the next es_query_prepare.
 */
const char *es_query_name(const es_query *query, size_t column);

typedef enum es_cell_kind {
    ES_CELL_NULL,
    ES_CELL_INTEGER,
    ES_CELL_REAL,
    ES_CELL_TEXT,
    ES_CELL_BLOB
} es_cell_kind;

/** A value of the current row. `bytes` is valid until the next row. */
typedef struct es_cell {
    es_cell_kind kind;
    int64_t integer;
    double real;       /* never NaN */
    const void *bytes; /* n bytes of a text or a blob. A text is NUL-terminated,
                          may be invalid UTF-8 and may contain a NUL */
    size_t n;
} es_cell;

void es_query_cell(es_cell *out, const es_query *query, size_t column);

/** Returns the version of the loaded SQLite, such as "3.40.1". */
const char *es_query_sqlite(void);

/**
 * The SQL statements that create the views, for any program that has opened a
 * run file.
 */
extern const char es_sql_views[];

#endif
