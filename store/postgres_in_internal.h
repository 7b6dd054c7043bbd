/** Internals shared by postgres_*.c, which read runs from PostgreSQL. */
#ifndef ES_POSTGRES_IN_INTERNAL_H
#define ES_POSTGRES_IN_INTERNAL_H

#include "store/postgres_in.h"
#include "store/postgresql/postgres.h"

#define ES_REMOTE_CONDITIONS 16

/** A run. Its id in the private database is its index plus 1. */
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
    bool seen;     /* true if the configuration of at least one run has the
                      member */
} es_remote_condition;

struct es_remote {
    es_postgres_url url;
    es_postgres *postgres;
    es_database *database;
    char *where;       /* SQL of the conditions on columns, which is "" or
                          begins with " AND" */
    char **parameters; /* (n_parameters) parameters of the SQL in `where` */
    int n_parameters;
    es_remote_condition *conditions; /* (n_conditions) */
    size_t n_conditions;
    es_remote_run *runs; /* (n_runs) in the order of the files from which they
                            were pushed */
    struct es_remote_place *places; /* (n_runs) sorted by id */
    size_t n_runs;
    struct es_remote_series *series; /* (n_series) sorted by run and number */
    size_t n_series;
    struct es_remote_kind *kinds; /* (n_kinds) */
    size_t n_kinds;
    struct es_remote_rows *block; /* samples of the block of runs that was
                              fetched last, or NULL */
    int64_t maps_of; /* id of the run whose maps are loaded, or 0 */
    char refusal[ES_MESSAGE_MAX]; /* reason why a query has failed, or "" */
};

/* --- postgres_in.c -------------------------------------------------------- */

/**
 * Begins a transaction. Returns ES_OK; ES_EFORMAT if the database lacks our
 * tables; ES_EVERSION if the tables are newer than this program; the errors of
 * es_postgres_take_snapshot.
 */
es_status es_remote_begin(const es_remote *remote) ES_MUST_USE;

/* --- postgres_where.c ----------------------------------------------------- */

/**
 * Reads the parameters where= and run= of the URL. Returns ES_OK, ES_EUSAGE,
 * ES_ENOMEM.
 */
es_status es_remote_where_read(es_remote *remote) ES_MUST_USE;
void es_remote_where_free(es_remote *remote);

/* --- postgres_copy.c ------------------------------------------------------ */

/**
 * The state of reading the rows of a COPY ... TO STDOUT (FORMAT binary), one
 * row at a time. All members are zero at first.
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
 * received; ES_DONE if there are no more rows; the errors of es_postgres_fail;
 * ES_EFORMAT.
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
