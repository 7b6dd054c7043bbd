/** State of writing rows into a table by COPY ... FROM STDIN (FORMAT binary),
 * in the format that PostgreSQL's manual describes under COPY. */
#ifndef ES_COPY_IN_H
#define ES_COPY_IN_H

#include "store/postgresql/postgres.h"
#include <stddef.h>
#include <stdint.h>

#define ES_COPY_IN_BYTES (128 << 10)

typedef struct es_copy_in {
    es_postgres *postgres; /* NULL before the COPY begins */
    es_status status;      /* the first failure; later calls do nothing */
    size_t n;
    unsigned char bytes[ES_COPY_IN_BYTES];
} es_copy_in;

/** Begins the COPY statement `sql`. Returns ES_OK; the errors of
 *  es_postgres_fail. */
es_status es_copy_in_begin(es_copy_in *copy, es_postgres *postgres,
                           const char *sql) ES_MUST_USE;

/** Begins a row of n_fields fields; one call for each field must follow. */
void es_copy_in_row(es_copy_in *copy, int n_fields);
void es_copy_in_bigint(es_copy_in *copy, int64_t value);  /* bigint */
void es_copy_in_integer(es_copy_in *copy, int32_t value); /* integer, date */
void es_copy_in_null(es_copy_in *copy);
void es_copy_in_known(es_copy_in *copy,
                      int64_t value); /* writes NULL for ES_UNKNOWN */
/** Writes a text, or NULL if `text` is NULL; invalid UTF-8 bytes become U+FFFD.
 */
void es_copy_in_text(es_copy_in *copy, const char *text);
/** Writes a real[], bit by bit, including NaN payloads. */
void es_copy_in_reals(es_copy_in *copy, const float *values, size_t n);

/** Ends the COPY. The table then has all rows or, on failure, none. Returns
 *  ES_OK; the errors of es_postgres_fail. */
es_status es_copy_in_end(es_copy_in *copy) ES_MUST_USE;

/** Discards the rows and the whole transaction. The error message does not
 * change. Does nothing if the COPY has not begun. */
void es_copy_in_abandon(es_copy_in *copy);

/** Copies `text` with invalid UTF-8 bytes replaced by U+FFFD; *out is to be
 * freed, and NULL if `text` is NULL. Returns ES_OK, ES_ENOMEM. */
es_status es_copy_utf8(char **out, const char *text) ES_MUST_USE;

#endif
