/**
 * Internals shared by postgres_*.c, which read the runs of a PostgreSQL
 * database (postgres_schema.h). The rows of the runs that a URL names are
 * loaded into a private database, which no other connection can open. The table
 * `sample` of the private database is virtual; its rows are fetched on request:
 * for small runs all samples of several runs at once, for large runs a part of
 * one series. One transaction reads everything, so that all data is from the
 * moment when the URL was opened or refreshed.
 */
#ifndef ES_POSTGRES_IN_INTERNAL_H
#define ES_POSTGRES_IN_INTERNAL_H

#include "store/postgresql/postgres.h"
#include "store/reader.h"
#include "store/source.h"

/* Number of seconds without a push after which a run no longer counts as being
 * written. */
#define ES_REMOTE_SILENT_S 900

#define ES_REMOTE_CONDITIONS 16

/** A run. Its id in the in-memory SQLite database of the reader is its index
 *  plus 1. */
typedef struct es_remote_run {
    int64_t id; /* in PostgreSQL */
    int64_t n_layer, n_head;
    char month[16];
    size_t first_series, n_series;
    bool is_written, left_out;
} es_remote_run;

/** A condition on a member of the configuration. */
typedef struct es_remote_condition {
    char *key, *text;
    unsigned relation;
    double number; /* number to compare with; NaN if the text is not a number */
    bool seen;     /* true if the configuration of at least one run contains
                      `key` */
} es_remote_condition;

typedef struct es_remote {
    es_postgres_url url;
    es_postgres *postgres;
    es_database *database;
    char *where;       /* SQL of the conditions on columns, which is "" or
                          begins with " AND" */
    char **parameters; /* (n_parameters) parameters of the SQL in `where` */
    int n_parameters;
    es_remote_condition *conditions; /* (n_conditions) */
    size_t n_conditions;
    es_remote_run *runs; /* (n_runs) runs, in the order of the files from
                            which they were pushed */
    struct es_remote_place *places; /* (n_runs) each run's id in PostgreSQL
                                       and its index in `runs`, sorted by id */
    size_t n_runs;
    struct es_remote_series *series; /* (n_series) series, sorted by run and
                                        number */
    size_t n_series;
    struct es_remote_kind *kinds; /* (n_kinds) */
    size_t n_kinds;
    struct es_remote_rows *block; /* samples of the block of runs that was
                              fetched last, or NULL */
    int64_t maps_of; /* id of the run whose maps are loaded, or 0 */
    char refusal[ES_MESSAGE_MAX]; /* reason why a query has failed, or "" */
} es_remote;

/* --- postgres_in.c -------------------------------------------------------- */

/**
 * Begins a transaction. Returns ES_OK; ES_EFORMAT if the database lacks our
 * tables; ES_EVERSION if the tables are newer than this program; or an error
 * of es_postgres_take_snapshot.
 */
es_status es_remote_begin(const es_remote *remote) ES_MUST_USE;

/**
 * Returns the URL of one run in *out, which the caller must free. The URL also
 * contains the conditions on members of the configuration, because these are
 * evaluated when the run is read.
 */
es_status es_remote_run_url(char **out, const es_remote *remote,
                            const char *uuid) ES_MUST_USE;

/* --- postgres_where.c ----------------------------------------------------- */

/**
 * Reads the parameters where= and run= of the URL. Returns ES_OK, ES_EUSAGE,
 * ES_ENOMEM.
 */
es_status es_remote_where_read(es_remote *remote) ES_MUST_USE;
void es_remote_where_free(es_remote *remote);

/** Implements the operation `leave_out` of es_store_backend (source.h) for a
 *  database. */
es_status es_remote_leave_out(size_t *n, es_remote *remote,
                              es_reader *reader) ES_MUST_USE;

/* --- postgres_watch.c ----------------------------------------------------- */

/** Implements the operation `state` of es_store_backend (source.h) for a
 *  database. */
int64_t es_remote_state(const char *url);

/* --- postgres_copy.c ------------------------------------------------------ */

/**
 * The state of reading the rows of a COPY ... TO STDOUT (FORMAT binary), one
 * row at a time. All members must initially be zero.
 */
typedef struct es_remote_copy {
    es_postgres *postgres;
    char *message; /* current message, owned by libpq; or NULL */
    size_t at, size;
    bool is_begun, is_under_way;
} es_remote_copy;

/**
 * Begins a COPY of `query`, which is a printf format. Its arguments may only be
 * numbers and trusted SQL, because they are not escaped.
 */
es_status es_remote_copy_begin(es_remote_copy *copy, es_postgres *postgres,
                               const char *query, ...)
    ES_PRINTF(3, 4) ES_MUST_USE;

/**
 * Moves to the next row. Returns ES_OK if a row of n_fields fields was
 * received; ES_DONE if there are no more rows; ES_EFORMAT if the data are
 * malformed; or an error of es_postgres_fail.
 */
es_status es_remote_copy_next(es_remote_copy *copy, int n_fields) ES_MUST_USE;

/**
 * Returns the row's next field (n bytes), which is valid until the next row is
 * received. Returns NULL if the field is NULL or missing.
 */
const char *es_remote_copy_field(es_remote_copy *copy, size_t *n);

/**
 * Returns the next field as an integer of 2, 4 or 8 bytes. Returns ES_UNKNOWN
 * if the field is NULL or has another length.
 */
int64_t es_remote_copy_integer(es_remote_copy *copy);

/**
 * Reads the next field, a real[], as float32 into `values` (n). Returns false
 * if the field is not an array of n values.
 */
bool es_remote_copy_array(es_remote_copy *copy, unsigned char *values,
                          size_t n);

/** Reads the remaining data, so that the connection can be used again. Must be
 * called after every es_remote_copy_begin. */
void es_remote_copy_end(es_remote_copy *copy);

#endif
