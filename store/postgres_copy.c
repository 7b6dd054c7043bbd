/* Reads rows from PostgreSQL with COPY in binary form, one row at a time,
 * without storing the rows. Every length is checked, because the server is not
 * trusted. */
#include "store/postgres_in_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the stream's signature, flags and extension length. */
#define HEADER_BYTES 19
/* Bytes before the elements of an array: number of dimensions, flags, type,
 * length and first index. */
#define ARRAY_BYTES 20
#define REAL 700 /* PostgreSQL's type id of float4 */

static const char signature[11] = "PGCOPY\n\377\r\n";

static uint32_t read_u32(const char *bytes)
{
    uint32_t x;
    memcpy(&x, bytes, sizeof x);
    return __builtin_bswap32(x);
}

es_status es_remote_copy_begin(es_remote_copy *copy, es_postgres *postgres,
                               const char *query, ...)
{
    char *text = NULL, *sql = NULL;
    va_list arguments;
    copy->postgres = postgres;
    va_start(arguments, query);
    if (vasprintf(&text, query, arguments) < 0)
        text = NULL;
    va_end(arguments);
    if (!text ||
        asprintf(&sql, "COPY (%s) TO STDOUT (FORMAT binary)", text) < 0) {
        free(text);
        return es_fail(ES_ENOMEM, "out of memory for a query");
    }
    PGresult *result = es_pq.exec(postgres->connection, sql);
    free(text);
    free(sql);
    if (!result || es_pq.resultStatus(result) != ES_PGRES_COPY_OUT)
        return es_postgres_fail(postgres, result);
    es_pq.clear(result);
    copy->is_under_way = true;
    return ES_OK;
}

static es_status fail_form(const es_remote_copy *copy)
{
    return es_fail(ES_EFORMAT,
                   "%s: the server's answer is not a valid COPY stream",
                   copy->postgres->base);
}

/**
 * Receives the next message of the COPY from the server. Returns ES_DONE at the
 * end of the COPY.
 */
static es_status receive_message(es_remote_copy *copy)
{
    if (copy->message)
        es_pq.freemem(copy->message);
    copy->message = NULL;
    copy->at = 0;
    const int n =
        es_pq.getCopyData(copy->postgres->connection, &copy->message, 0);
    if (n > 0) {
        copy->size = (size_t)n;
        return ES_OK;
    }
    copy->size = 0;
    copy->is_under_way = false;
    PGresult *result = es_pq.getResult(copy->postgres->connection);
    if (n != -1 || !result || es_pq.resultStatus(result) != ES_PGRES_COMMAND_OK)
        return es_postgres_fail(copy->postgres, result);
    es_pq.clear(result);
    while ((result = es_pq.getResult(copy->postgres->connection)))
        es_pq.clear(result);
    return ES_DONE;
}

static es_status take_header(es_remote_copy *copy)
{
    if (copy->size < HEADER_BYTES ||
        memcmp(copy->message, signature, sizeof signature) != 0)
        return fail_form(copy);
    const size_t extension = read_u32(copy->message + HEADER_BYTES - 4);
    if (extension > copy->size - HEADER_BYTES)
        return fail_form(copy);
    copy->at = HEADER_BYTES + extension;
    copy->is_begun = true;
    return ES_OK;
}

es_status es_remote_copy_next(es_remote_copy *copy, int n_fields)
{
    for (;;) {
        es_status status = receive_message(copy);
        if (status != ES_OK)
            return status;
        if (!copy->is_begun && (status = take_header(copy)) < 0)
            return status;
        if (copy->at == copy->size)
            continue;
        if (copy->size - copy->at < 2)
            return fail_form(copy);
        const unsigned char *n = (unsigned char *)copy->message + copy->at;
        const int fields = (int16_t)(n[0] << 8 | n[1]);
        copy->at += 2;
        if (fields == n_fields)
            return ES_OK;
        if (fields != -1) /* -1 marks the end of the rows; after it the loop
                             receives the end of the COPY */
            return fail_form(copy);
    }
}

const char *es_remote_copy_field(es_remote_copy *copy, size_t *n)
{
    *n = 0;
    if (copy->size - copy->at < 4)
        return NULL;
    const uint32_t length = read_u32(copy->message + copy->at);
    copy->at += 4;
    if (length == UINT32_MAX || length > copy->size - copy->at)
        return NULL;
    *n = length;
    copy->at += length;
    return copy->message + copy->at - length;
}

int64_t es_remote_copy_integer(es_remote_copy *copy)
{
    size_t n;
    const char *field = es_remote_copy_field(copy, &n);
    if (!field || (n != 2 && n != 4 && n != 8))
        return ES_UNKNOWN;
    int64_t x = field[0] < 0 ? -1 : 0;
    for (size_t i = 0; i < n; i++)
        x = (int64_t)((uint64_t)x << 8 | (unsigned char)field[i]);
    return x;
}

bool es_remote_copy_array(es_remote_copy *copy, unsigned char *values, size_t n)
{
    size_t bytes;
    const char *array = es_remote_copy_field(copy, &bytes);
    if (!array || n == 0 || bytes != ARRAY_BYTES + 8 * n ||
        read_u32(array) != 1 || read_u32(array + 4) != 0 ||
        read_u32(array + 8) != REAL || read_u32(array + 12) != n)
        return false;
    array += ARRAY_BYTES;
    uint32_t all = 0;
    for (size_t i = 0; i < n; i++) { /* each value is preceded by its length,
                                        which is 4 */
        uint64_t pair;
        memcpy(&pair, array + 8 * i, sizeof pair);
        pair = __builtin_bswap64(pair);
        const uint32_t value = (uint32_t)pair;
        all |= (uint32_t)(pair >> 32) ^ 4;
        memcpy(values + 4 * i, &value, sizeof value);
    }
    return all == 0;
}

void es_remote_copy_end(es_remote_copy *copy)
{
    char said[ES_MESSAGE_MAX]; /* a copy of the message, because cleaning up may
                                  change it */
    snprintf(said, sizeof said, "%s", es_message());
    bool had_failed = said[0] != '\0';
    while (copy->is_under_way && receive_message(copy) == ES_OK)
        continue;
    if (copy->message)
        es_pq.freemem(copy->message);
    copy->message = NULL;
    if (had_failed)
        (void)es_fail(ES_EIO, "%s", said);
}
