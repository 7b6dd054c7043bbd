/** The reading of runs out of PostgreSQL, for postgres_*.c. */
#ifndef ES_POSTGRES_IN_INTERNAL_H
#define ES_POSTGRES_IN_INTERNAL_H

#include "store/postgres_in.h"
#include "store/postgresql/postgres.h"

#define ES_REMOTE_BLOCK_BYTES                                                  \
    (8 << 20) /* of samples that are fetched at once */
#define ES_REMOTE_PIECE_BYTES (1 << 18) /* of one series of a large run */
#define ES_REMOTE_CONDITIONS 16

/** What series of several runs have in common. */
typedef struct es_remote_kind {
    char *name;     /* and the first letter of the phase */
    bool is_wanted; /* the next runs come with it */
} es_remote_kind;

/** A series; its number in the private database is its index and 1. */
typedef struct es_remote_series {
    size_t run, kind; /* indexes */
    int64_t number;
    size_t n_values;
    int64_t n_samples;   /* as its pusher says: for sizes alone */
    int64_t first, last; /* steps; ES_UNKNOWN: none */
    bool has_steps;      /* these are known */
} es_remote_series;

/** A run; its number in the private database is its index and 1. */
typedef struct es_remote_run {
    int64_t id; /* in PostgreSQL */
    int64_t n_layer, n_head;
    char month[16];
    size_t first_series, n_series;
    bool is_written, left_out;
} es_remote_run;

/** Where a run is, by its number in PostgreSQL. */
typedef struct es_remote_place {
    int64_t id;
    size_t run; /* index */
} es_remote_place;

/** One sample that was fetched. */
typedef struct es_remote_row {
    uint32_t series; /* index */
    int32_t crc;
    int64_t step;
    size_t at, n; /* bytes of it in data; n 0: it is none of ours */
} es_remote_row;

/** Samples, by series and step. */
typedef struct es_remote_rows {
    int n_uses;
    es_remote_row *rows; /* (n) */
    size_t n;
    unsigned char *data; /* (n_data) float32, little-endian */
    size_t n_data;
    size_t first_run, end_run; /* whole series of these; of none: 0, 0 */
    bool *has_kind;            /* (remote->n_kinds) which; NULL: none */
} es_remote_rows;

/** A condition by a member of the configuration. */
typedef struct es_remote_condition {
    char *key, *text;
    unsigned relation;
    double number; /* NaN: none */
    bool seen;     /* some run has the member */
} es_remote_condition;

struct es_remote {
    es_postgres_url url;
    es_postgres *postgres;
    es_database *database;
    char *where;       /* SQL of conditions by columns: "" or " AND ..." */
    char **parameters; /* (n_parameters) of it */
    int n_parameters;
    es_remote_condition *conditions; /* (n_conditions) */
    size_t n_conditions;
    es_remote_run *runs;     /* (n_runs) as their files would be listed */
    es_remote_place *places; /* (n_runs) by id */
    size_t n_runs;
    es_remote_series *series; /* (n_series) by run, number */
    size_t n_series;
    es_remote_kind *kinds; /* (n_kinds) */
    size_t n_kinds;
    es_remote_rows *block;        /* of several runs; NULL: none yet */
    int64_t maps_of;              /* run whose maps are there; 0: none */
    char refusal[ES_MESSAGE_MAX]; /* what a query failed by; "": by nothing */
};

/* --- postgres_in.c -------------------------------------------------------- */

/** Begins a transaction. ES_OK; ES_EFORMAT: no tables of ours; ES_EVERSION:
 *  newer ones; as es_postgres_take_snapshot. */
es_status es_remote_begin(const es_remote *remote) ES_MUST_USE;

/** The run of a number in PostgreSQL; NULL: it came later. */
es_remote_run *es_remote_find_run(const es_remote *remote, int64_t id);

/* --- postgres_where.c ----------------------------------------------------- */

/** Reads where= and run= of the URL. ES_OK, ES_EUSAGE, ES_ENOMEM. */
es_status es_remote_where_read(es_remote *remote) ES_MUST_USE;
void es_remote_where_free(es_remote *remote);

/* --- postgres_copy.c ------------------------------------------------------ */

/** The rows of a COPY ... TO STDOUT (FORMAT binary), one at a time. Zeroed. */
typedef struct es_remote_copy {
    es_postgres *postgres;
    char *message; /* libpq's; NULL: none */
    size_t at, size;
    bool is_begun, is_under_way;
} es_remote_copy;

/** `query` is formatted, of numbers alone. */
es_status es_remote_copy_begin(es_remote_copy *copy, es_postgres *postgres,
                               const char *query, ...)
    ES_PRINTF(3, 4) ES_MUST_USE;

/** ES_OK: a row of n_fields is there; ES_DONE: no more; es_postgres_fail's
 *  errors; ES_EFORMAT. */
es_status es_remote_copy_next(es_remote_copy *copy, int n_fields) ES_MUST_USE;

/** The row's next field (n bytes), borrowed until the next row; NULL: it is
 *  NULL, or not there. */
const char *es_remote_copy_field(es_remote_copy *copy, size_t *n);

/** The same as an integer of 2, 4 or 8 bytes; ES_UNKNOWN for NULL and for
 *  another length. */
int64_t es_remote_copy_integer(es_remote_copy *copy);

/** The same, real[], as float32: values (n) written. False: it is no array of
 *  n values. */
bool es_remote_copy_array(es_remote_copy *copy, unsigned char *values,
                          size_t n);

/** Reads what is left, so that the connection may be used again. In any case
 *  to be called. */
void es_remote_copy_end(es_remote_copy *copy);

/* --- postgres_fetch.c ----------------------------------------------------- */

/** The first and last steps of the series of a run, and of those after it. */
es_status es_remote_find_steps(es_remote *remote, size_t run) ES_MUST_USE;

/** Bytes, about, of all samples of a series; of the series of a run that are
 *  wanted. */
size_t es_remote_series_bytes(const es_remote_series *series);
size_t es_remote_run_bytes(const es_remote *remote, size_t run);

/** The series that are wanted of a run and, but for the first time, of others
 *  after it, as *remote->block. Not for more than ES_REMOTE_BLOCK_BYTES. */
es_status es_remote_fetch_runs(es_remote *remote, size_t run) ES_MUST_USE;

/**
 * At most `most` samples of a series within [from, to], from the first, or from
 * the last on if `falling`; without their values unless `with_values`.
 */
es_status es_remote_fetch_piece(es_remote_rows **out, es_remote *remote,
                                size_t series, int64_t from, int64_t to,
                                size_t most, bool falling,
                                bool with_values) ES_MUST_USE;

/** One use less; NULL is fine. */
void es_remote_rows_release(es_remote_rows *rows);

/* --- postgres_sample.c ---------------------------------------------------- */

/** Adds the virtual table `sample`. SQLite's result code. */
int es_remote_add_sample(es_remote *remote);

#endif
