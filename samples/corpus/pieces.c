#include "samples/corpus/pieces.h"

#include "analyzer/base/checked.h"
#include "hooks/trainer/files/tokens.h"
#include "samples/corpus/child.h"
#include "samples/corpus/spool.h"
#include "store/infile.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODEL_BYTES ((uint64_t)1 << 28) /* a larger one is refused */

/* --- one piece ----------------------------------------------------------- */

static es_status reserve(es_pieces *pieces, size_t n)
{
    if (pieces->n == pieces->capacity) {
        uint32_t capacity = pieces->capacity ? 2 * pieces->capacity : 16384;
        es_piece *items = es_resize(pieces->items, capacity, sizeof *items);
        if (!items || capacity > INT32_MAX)
            return es_fail(ES_ENOMEM, "%s: out of memory for its pieces",
                           pieces->model);
        pieces->items = items;
        pieces->capacity = capacity;
    }
    if (pieces->bytes_capacity - pieces->n_bytes < n) {
        size_t capacity = 2 * (pieces->bytes_capacity + n) + 4096;
        unsigned char *bytes = es_resize(pieces->bytes, capacity, 1);
        if (!bytes)
            return es_fail(ES_ENOMEM, "%s: out of memory for its pieces",
                           pieces->model);
        pieces->bytes = bytes;
        pieces->bytes_capacity = capacity;
    }
    return ES_OK;
}

/** The byte that "<0x1F>" names; -1 for another piece. */
static int byte_named(const char *text, size_t n)
{
    static const char digits[] = "0123456789ABCDEF";
    if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    const char *high = memchr(digits, text[3], 16);
    const char *low = memchr(digits, text[4], 16);
    return high && low ? (int)(16 * (high - digits) + (low - digits)) : -1;
}

/** U+2581 stands for a space. */
static size_t unescape(unsigned char *out, const char *text, size_t n)
{
    size_t done = 0;
    for (size_t i = 0; i < n; done++) {
        bool space = n - i >= 3 && memcmp(text + i, "\xe2\x96\x81", 3) == 0;
        out[done] = space ? ' ' : (unsigned char)text[i];
        i += space ? 3 : 1;
    }
    return done;
}

static es_status add(es_pieces *pieces, const char *text, size_t n)
{
    es_status status = reserve(pieces, n);
    if (status != ES_OK)
        return status;
    unsigned char *out = pieces->bytes + pieces->n_bytes;
    int byte = byte_named(text, n);
    if (byte >= 0) {
        pieces->byte_id[byte] = pieces->n;
        *out = (unsigned char)byte;
        n = 1;
    } else {
        n = unescape(out, text, n);
    }
    pieces->items[pieces->n++] = (es_piece){.at = pieces->n_bytes, .n = n};
    pieces->n_bytes += n;
    return ES_OK;
}

/* --- the list ------------------------------------------------------------ */

/** Lines of a piece, a tab, its score. */
static es_status read_list(es_pieces *pieces, FILE *list)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t n;
    es_status status = ES_OK;
    while (status == ES_OK && (n = getline(&line, &capacity, list)) >= 0) {
        const char *tab = memrchr(line, '\t', (size_t)n);
        if (tab)
            status = add(pieces, line, (size_t)(tab - line));
        else
            status = es_fail(ES_EFORMAT,
                             "%s: piece %u holds a newline: train a model "
                             "without",
                             pieces->model, pieces->n);
    }
    free(line);
    return status;
}

static es_status check_bytes(const es_pieces *pieces)
{
    for (int i = 0; i < 256; i++)
        if (pieces->byte_id[i] == UINT32_MAX)
            return es_fail(ES_EFORMAT,
                           "%s: has no piece <0x%02X>: train a model with "
                           "byte fallback",
                           pieces->model, (unsigned)i);
    return ES_OK;
}

static es_status export_list(es_pieces *pieces)
{
    FILE *list = NULL;
    char *option = NULL;
    es_status status = es_temporary_file(&list);
    if (status == ES_OK && asprintf(&option, "--model=%s", pieces->model) < 0) {
        option = NULL;
        status = es_fail(ES_ENOMEM, "%s: out of memory", pieces->model);
    }
    if (status == ES_OK) {
        char *const argv[] = {"spm_export_vocab", option, NULL};
        status = es_child_run(argv, NULL, list, NULL);
    }
    if (status == ES_OK) {
        rewind(list);
        status = read_list(pieces, list);
    }
    free(option);
    if (list)
        fclose(list);
    return status;
}

/* --- the whole ----------------------------------------------------------- */

static es_status hash_file(uint64_t *out, const char *path)
{
    uint64_t n;
    int fd;
    unsigned char *bytes = NULL;
    es_status status = es_infile_open(&fd, &n, path);
    if (status == ES_OK && (n == 0 || n > MODEL_BYTES))
        status = es_fail(ES_EFORMAT, "%s: not a sentencepiece model", path);
    if (status == ES_OK && !(bytes = malloc(n)))
        status = es_fail(ES_ENOMEM, "%s: out of memory", path);
    if (status == ES_OK)
        status = es_infile_read(fd, bytes, n, 0, path);
    if (status == ES_OK && *bytes != 0x0a) /* how a protobuf of pieces begins */
        status = es_fail(ES_EFORMAT, "%s: not a sentencepiece model", path);
    if (status == ES_OK)
        *out = es_tokens_hash(bytes, n);
    free(bytes);
    if (fd >= 0)
        close(fd);
    return status;
}

es_status es_pieces_load(es_pieces *out, const char *model)
{
    uint64_t hash = 0;
    *out = (es_pieces){.model = strdup(model)};
    memset(out->byte_id, 0xff, sizeof out->byte_id);
    es_status status = ES_OK;
    if (!out->model)
        status = es_fail(ES_ENOMEM, "%s: out of memory", model);
    if (status == ES_OK)
        status = hash_file(&hash, model);
    if (status == ES_OK)
        status = export_list(out);
    if (status == ES_OK)
        status = check_bytes(out);
    if (status != ES_OK) {
        es_pieces_free(out);
        return status;
    }
    snprintf(out->name, sizeof out->name, "sentencepiece %u %08x", out->n,
             (unsigned)(hash & UINT32_MAX));
    return ES_OK;
}

void es_pieces_free(es_pieces *pieces)
{
    free(pieces->model);
    free(pieces->items);
    free(pieces->bytes);
    *pieces = (es_pieces){0};
}
