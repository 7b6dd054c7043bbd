#include "samples/corpus/ids.h"

#include "store/infile.h"
#include <errno.h>
#include <stdbool.h>
#include <string.h>

static bool is_space(int c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

typedef struct reader {
    FILE *in;
    const char *path;
    uint64_t line; /* from 1 */
    uint32_t vocab;
} reader;

/** ES_DONE at the end of the file. */
static es_status next_id(reader *r, uint32_t *out)
{
    int c;
    while (is_space(c = getc_unlocked(r->in)))
        r->line += c == '\n';
    if (c == EOF && ferror(r->in))
        return es_fail(ES_EIO, "%s: cannot read: %s", r->path, strerror(errno));
    if (c == EOF)
        return ES_DONE;
    uint64_t id = 0;
    for (; c >= '0' && c <= '9'; c = getc_unlocked(r->in)) {
        id = 10 * id + (uint64_t)(c - '0');
        if (id >= r->vocab)
            return es_fail(ES_EFORMAT, "%s:%llu: an id is not below --vocab %u",
                           r->path, (unsigned long long)r->line, r->vocab);
    }
    if (c != EOF && !is_space(c))
        return es_fail(ES_EFORMAT,
                       "%s:%llu: not a list of token ids: decimal numbers "
                       "with spaces or newlines between them",
                       r->path, (unsigned long long)r->line);
    ungetc(c, r->in);
    *out = (uint32_t)id;
    return ES_OK;
}

static es_status read_all(es_spool *spool, reader *r)
{
    uint32_t ids[1024];
    es_status status = ES_OK;
    while (status == ES_OK) {
        size_t n = 0;
        while (n < sizeof ids / sizeof *ids &&
               (status = next_id(r, &ids[n])) == ES_OK)
            n++;
        if (status >= 0) {
            es_status put = es_spool_put(spool, ids, n);
            status = put == ES_OK ? status : put;
        }
    }
    if (status == ES_DONE && spool->n == 0)
        return es_fail(ES_EFORMAT, "%s: no token ids", r->path);
    return status < 0 ? status : ES_OK;
}

es_status es_ids_read(es_spool *spool, const char *path)
{
    bool from_stdin = strcmp(path, "-") == 0;
    reader r = {.in = stdin,
                .path = from_stdin ? "standard input" : path,
                .line = 1,
                .vocab = spool->vocab};
    es_status status = from_stdin ? ES_OK : es_infile_stream(&r.in, path);
    if (status == ES_OK)
        status = read_all(spool, &r);
    if (!from_stdin && r.in)
        fclose(r.in);
    return status;
}
