/* Writes rows to PostgreSQL in the binary form of COPY: big-endian fields, each
   preceded by its length, which libpq sends in blocks. */
#include "store/push/copy_in.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "store/run.h"

#include <stdlib.h>
#include <string.h>

static void flush_buffer(es_copy_in *copy)
{
    if (copy->n && copy->status == ES_OK &&
        es_pq.putCopyData(copy->postgres->connection, (const char *)copy->bytes,
                          (int)copy->n) != 1)
        copy->status = es_postgres_fail(copy->postgres, NULL);
    copy->n = 0;
}

static unsigned char *reserve_bytes(es_copy_in *copy, size_t n)
{
    if (sizeof copy->bytes - copy->n < n)
        flush_buffer(copy);
    unsigned char *at = copy->bytes + copy->n;
    copy->n += n;
    return at;
}

static void put_16(es_copy_in *copy, uint16_t value)
{
    value = __builtin_bswap16(value);
    memcpy(reserve_bytes(copy, sizeof value), &value, sizeof value);
}

static void put_32(es_copy_in *copy, uint32_t value)
{
    value = __builtin_bswap32(value);
    memcpy(reserve_bytes(copy, sizeof value), &value, sizeof value);
}

static void put_64(es_copy_in *copy, uint64_t value)
{
    value = __builtin_bswap64(value);
    memcpy(reserve_bytes(copy, sizeof value), &value, sizeof value);
}

static void put_bytes(es_copy_in *copy, const char *bytes, size_t n)
{
    while (n) {
        const size_t part = n < 4096 ? n : 4096;
        memcpy(reserve_bytes(copy, part), bytes, part);
        bytes += part;
        n -= part;
    }
}

es_status es_copy_in_begin(es_copy_in *copy, es_postgres *postgres,
                           const char *sql)
{
    static const char header[19] =
        "PGCOPY\n\377\r\n"; /* the zeros after the signature mean that there are
                               no flags and no extension */
    PGresult *result = es_pq.exec(postgres->connection, sql);
    if (!result || es_pq.resultStatus(result) != ES_PGRES_COPY_IN)
        return es_postgres_fail(postgres, result);
    es_pq.clear(result);
    copy->postgres = postgres;
    copy->status = ES_OK;
    copy->n = 0;
    put_bytes(copy, header, sizeof header);
    return ES_OK;
}

void es_copy_in_row(es_copy_in *copy, int n_fields)
{
    put_16(copy, (uint16_t)n_fields);
}

void es_copy_in_bigint(es_copy_in *copy, int64_t value)
{
    put_32(copy, sizeof value);
    put_64(copy, (uint64_t)value);
}

void es_copy_in_integer(es_copy_in *copy, int32_t value)
{
    put_32(copy, sizeof value);
    put_32(copy, (uint32_t)value);
}

void es_copy_in_null(es_copy_in *copy)
{
    put_32(copy, UINT32_MAX);
}

void es_copy_in_known(es_copy_in *copy, int64_t value)
{
    if (value == ES_UNKNOWN)
        es_copy_in_null(copy);
    else
        es_copy_in_bigint(copy, value);
}

void es_copy_in_text(es_copy_in *copy, const char *text)
{
    char *clean = NULL;
    es_status status = es_copy_utf8(&clean, text);
    if (status < 0 && copy->status == ES_OK)
        copy->status = status;
    if (clean) {
        const size_t n = strlen(clean);
        put_32(copy, (uint32_t)n);
        put_bytes(copy, clean, n);
    } else {
        es_copy_in_null(copy);
    }
    free(clean);
}

void es_copy_in_reals(es_copy_in *copy, const float *values, size_t n)
{
    enum { REAL = 700, BLOCK = 1024, ITEM = 8 };
    put_32(copy, (uint32_t)(20 + n * ITEM));
    put_32(copy, 1); /* dimensions */
    put_32(copy, 0); /* no NULL */
    put_32(copy, REAL);
    put_32(copy, (uint32_t)n);
    put_32(copy, 1); /* first index */
    while (n) {
        const size_t part = n < BLOCK ? n : BLOCK;
        unsigned char *out = reserve_bytes(copy, part * ITEM);
        for (size_t i = 0; i < part; i++) {
            uint32_t item[2] = {__builtin_bswap32(sizeof *values)};
            memcpy(&item[1], &values[i], sizeof *values);
            item[1] = __builtin_bswap32(item[1]);
            memcpy(out + i * ITEM, item, ITEM);
        }
        values += part;
        n -= part;
    }
}

/* Reads all results until the server is ready for the next command. */
static es_status read_results(es_copy_in *copy)
{
    es_postgres *postgres = copy->postgres;
    PGresult *result;
    es_status status = copy->status;
    while ((result = es_pq.getResult(postgres->connection))) {
        if (es_pq.resultStatus(result) == ES_PGRES_COMMAND_OK || status < 0)
            es_pq.clear(result);
        else
            status = es_postgres_fail(postgres, result);
    }
    copy->postgres = NULL;
    if (status == ES_OK && es_postgres_is_lost(postgres))
        status = es_postgres_fail(postgres, NULL);
    return status;
}

es_status es_copy_in_end(es_copy_in *copy)
{
    put_16(copy, UINT16_MAX);
    flush_buffer(copy);
    const bool failed = copy->status < 0;
    if (es_pq.putCopyEnd(copy->postgres->connection,
                         failed ? "the client could not send all rows"
                                : NULL) != 1 &&
        !failed)
        copy->status = es_postgres_fail(copy->postgres, NULL);
    return read_results(copy);
}

void es_copy_in_abandon(es_copy_in *copy)
{
    if (!copy->postgres)
        return;
    copy->status = ES_EARGUMENT; /* keeps read_results from reporting another
                                    failure */
    (void)es_pq.putCopyEnd(copy->postgres->connection, "given up");
    (void)read_results(copy);
}

es_status es_copy_utf8(char **out, const char *text)
{
    *out = NULL;
    if (!text)
        return ES_OK;
    const size_t n = strlen(text);
    if (es_text_is_utf8(text, n))
        return es_copy_text(out, text);
    size_t at = 0;
    es_status status = es_alloc(out, 3 * n + 1, 1, "a text");
    for (size_t i = 0; status == ES_OK && i < n;) {
        size_t length = 1;
        while (length <= 4 && i + length <= n &&
               !es_text_is_utf8(text + i, length))
            length++;
        const bool good = length <= 4 && i + length <= n;
        memcpy(*out + at, good ? text + i : "\357\277\275", good ? length : 3);
        at += good ? length : 3;
        i += good ? length : 1;
    }
    return status;
}
