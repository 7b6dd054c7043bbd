/**
 * SQL over run files, read-only: the tables run, series, sample and event, the
 * function es_values (values.inc.h) and the views of views.c, over all of the
 * files together.
 *
 * Query and files are both untrusted. A file is opened as es_reader_open opens
 * it, and nothing but its four tables is in reach; of statements only SELECT
 * and what reads (authorizer): no ATTACH, no PRAGMA that sets anything, no
 * extension, nothing is written. A query may run without end: who calls this
 * lives with a signal, or does not step it on.
 */
#ifndef ES_SQL_QUERY_H
#define ES_SQL_QUERY_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** What the numbers of rows of the second file are larger by than those of the
 *  first, and so on: run_id, series_id, event_id. */
#define ES_SQL_FILE_IDS (INT64_C(1) << 40)

#define ES_SQL_MAX_FILES 1000

typedef struct es_query es_query;

/**
 * Opens run files. ES_OK; es_reader_open's errors; ES_EUSAGE (more than
 * ES_SQL_MAX_FILES); ES_ENOMEM.
 */
es_status es_query_open(es_query **out, const char *const *paths,
                        size_t n) ES_MUST_USE;

/** NULL is fine. */
void es_query_close(es_query *query);

/** One statement, in place of the one before. ES_OK; ES_EUSAGE (SQL that is
 *  wrong or refused, none, or more than one). */
es_status es_query_prepare(es_query *query, const char *sql) ES_MUST_USE;

/** The next row. ES_OK; ES_DONE; ES_EUSAGE (the query fails); ES_EFORMAT,
 *  ES_EIO (a file does); ES_ENOMEM. */
es_status es_query_next(es_query *query) ES_MUST_USE;

size_t es_query_n_columns(const es_query *query);

/** Its name, "" at worst; borrowed until the next es_query_prepare. */
const char *es_query_name(const es_query *query, size_t column);

typedef enum es_cell_kind {
    ES_CELL_NULL,
    ES_CELL_INTEGER,
    ES_CELL_REAL,
    ES_CELL_TEXT,
    ES_CELL_BLOB
} es_cell_kind;

/** A value of the row at hand; text and bytes are borrowed until the next. */
typedef struct es_cell {
    es_cell_kind kind;
    int64_t integer;
    double real;       /* never NaN */
    const void *bytes; /* (n) of a text or a blob; a text is terminated, may be
                          bad UTF-8 and have a NUL inside */
    size_t n;
} es_cell;

void es_query_cell(es_cell *out, const es_query *query, size_t column);

/** The version of SQLite that is loaded: "3.40.1". */
const char *es_query_sqlite(void);

/** The views as SQL, for any program that has a run file open. */
extern const char es_sql_views[];

#endif
