/** Rows into a table by COPY ... FROM STDIN (FORMAT binary), as PostgreSQL's
 *  manual describes it under COPY. */
#ifndef ES_COPY_IN_H
#define ES_COPY_IN_H

#include "store/postgresql/postgres.h"
#include <stddef.h>
#include <stdint.h>

#define ES_COPY_IN_BYTES (128 << 10)

typedef struct es_copy_in {
    es_postgres *postgres; /* NULL: not begun */
    es_status status;      /* the first failure; the rest does nothing */
    size_t n;
    unsigned char bytes[ES_COPY_IN_BYTES];
} es_copy_in;

/** `sql`: the COPY statement. ES_OK; as es_postgres_fail. */
es_status es_copy_in_begin(es_copy_in *copy, es_postgres *postgres,
                           const char *sql) ES_MUST_USE;

/** A row begins, of so many fields; then each of them. */
void es_copy_in_row(es_copy_in *copy, int n_fields);
void es_copy_in_bigint(es_copy_in *copy, int64_t value);  /* bigint */
void es_copy_in_integer(es_copy_in *copy, int32_t value); /* integer, date */
void es_copy_in_null(es_copy_in *copy);
void es_copy_in_known(es_copy_in *copy, int64_t value); /* ES_UNKNOWN: NULL */
/** NULL for NULL; bytes that are no UTF-8 become U+FFFD. */
void es_copy_in_text(es_copy_in *copy, const char *text);
/** real[], bit by bit, NaN payloads too. */
void es_copy_in_reals(es_copy_in *copy, const float *values, size_t n);

/** All rows are in the table, or none. ES_OK; as es_postgres_fail. */
es_status es_copy_in_end(es_copy_in *copy) ES_MUST_USE;

/** None of the rows are kept, nor anything of the transaction. Keeps the
 *  message. Fine if it has not begun. */
void es_copy_in_abandon(es_copy_in *copy);

/** A copy of `text`, its bytes that are no UTF-8 replaced by U+FFFD, to be
 *  freed; NULL for NULL. ES_OK, ES_ENOMEM. */
es_status es_copy_utf8(char **out, const char *text) ES_MUST_USE;

#endif
