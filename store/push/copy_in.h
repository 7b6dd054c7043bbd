/**
 * Writes rows into a table with COPY ... FROM STDIN (FORMAT binary).
 * PostgreSQL's manual describes the format under COPY.
 */
#ifndef ES_COPY_IN_H
#define ES_COPY_IN_H

#include "store/postgresql/postgres.h"
#include <stddef.h>
#include <stdint.h>

#define ES_COPY_IN_BYTES (128 << 10)

typedef struct es_copy_in {
    es_postgres *postgres; /* connection of the COPY; NULL before the COPY
                              begins */
    es_status status;      /* status of the first failure, after which further
                              calls do nothing */
    size_t n;
    unsigned char bytes[ES_COPY_IN_BYTES];
} es_copy_in;

/** Begins the COPY statement `sql`. Returns ES_OK; the errors of
 *  es_postgres_fail. */
es_status es_copy_in_begin(es_copy_in *copy, es_postgres *postgres,
                           const char *sql) ES_MUST_USE;

/**
 * Begins a row of n_fields fields. The caller must then call one of the
 * following functions for each field.
 */
void es_copy_in_row(es_copy_in *copy, int n_fields);
void es_copy_in_bigint(es_copy_in *copy, int64_t value);  /* bigint */
void es_copy_in_integer(es_copy_in *copy, int32_t value); /* integer, date */
void es_copy_in_null(es_copy_in *copy);
void es_copy_in_known(es_copy_in *copy,
                      int64_t value); /* writes NULL for ES_UNKNOWN */
/**
 * Writes a text field, or NULL if `text` is NULL. Invalid UTF-8 bytes are
 * replaced by U+FFFD.
 */
void es_copy_in_text(es_copy_in *copy, const char *text);
/**
 * Writes a field of type real[] without changing any bit, including NaN
 * payloads.
 */
void es_copy_in_reals(es_copy_in *copy, const float *values, size_t n);

/**
 * Ends the COPY. Afterwards the table has all rows or, on failure, none of
 * them. Returns ES_OK; the errors of es_postgres_fail.
 */
es_status es_copy_in_end(es_copy_in *copy) ES_MUST_USE;

/**
 * Discards the rows and the whole transaction. Does not change the error
 * message. Does nothing if the COPY has not begun.
 */
void es_copy_in_abandon(es_copy_in *copy);

/**
 * Copies `text` and replaces invalid UTF-8 bytes by U+FFFD. The caller must
 * free *out, which is NULL if `text` is NULL. Returns ES_OK, ES_ENOMEM.
 */
es_status es_copy_utf8(char **out, const char *text) ES_MUST_USE;

#endif
