/** Describes the run files that es_values and the tables of a query read.
 *  Internal to store/sql. */
#ifndef ES_SQL_SOURCE_H
#define ES_SQL_SOURCE_H

#include <sqlite3.h>
#include <stddef.h>

typedef struct es_sql_source {
    sqlite3 *handle;
    const char *schema;   /* schema name of the file in the connection: "main",
                           * or the name of an attached file */
    sqlite3_int64 offset; /* number that is added to all ids of the file */
} es_sql_source;

/**
 * List of the run files that a connection reads. It must outlive the connection
 * to which es_values or the tables were added.
 */
typedef struct es_sql_sources {
    es_sql_source *list; /* (n) */
    size_t n;
} es_sql_sources;

/**
 * Adds the function es_values, which reads all sources, to a connection.
 * Returns SQLite's result code.
 */
int es_sql_add_values(sqlite3 *handle, es_sql_sources *sources);

/**
 * Adds the tables run, series, sample and event, each of which contains the
 * rows of all sources, to a connection. Returns SQLite's result code.
 */
int es_sql_add_tables(sqlite3 *handle, es_sql_sources *sources);

#endif
