/** Describes the run files that es_values and the tables of a query read.
 *  Internal to store/sql. */
#ifndef ES_SQL_SOURCE_H
#define ES_SQL_SOURCE_H

#include <sqlite3.h>
#include <stddef.h>

typedef struct es_sql_source {
    sqlite3 *handle;
    const char *schema;   /* "main", or the name of an attached file */
    sqlite3_int64 offset; /* added to all ids of the file */
} es_sql_source;

/** List of sources. Must outlive the connection that the modules belong to. */
typedef struct es_sql_sources {
    es_sql_source *list; /* (n) */
    size_t n;
} es_sql_sources;

/** Adds the function es_values over these sources to a connection. Returns
 *  SQLite's result code. */
int es_sql_add_values(sqlite3 *handle, es_sql_sources *sources);

/** Adds the tables run, series, sample and event, each over all sources, to a
 *  connection. Returns SQLite's result code. */
int es_sql_add_tables(sqlite3 *handle, es_sql_sources *sources);

#endif
