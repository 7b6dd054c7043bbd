#include "samples/corpus/encode.h"

#include "analyzer/base/checked.h"
#include "samples/corpus/child.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const es_document *es_walk_next(es_walk *walk, const es_corpus *corpus)
{
    for (;;) {
        while (walk->next < corpus->n) {
            const es_document *document = &corpus->items[walk->next++];
            if (document->split == walk->split)
                return document;
        }
        if (walk->split == ES_SPLIT_HELD_OUT)
            return NULL;
        *walk = (es_walk){.split = ES_SPLIT_HELD_OUT};
    }
}

es_status es_encode_bytes(es_spool *spool, uint64_t *n_tokens,
                          const es_corpus *corpus)
{
    es_walk walk = {0};
    const es_document *document;
    unsigned char *bytes = malloc(corpus->largest + 1);
    if (!bytes)
        return es_fail(ES_ENOMEM, "out of memory for %zu bytes",
                       corpus->largest);
    es_status status = ES_OK;
    n_tokens[0] = n_tokens[1] = 0;
    while (status == ES_OK && (document = es_walk_next(&walk, corpus))) {
        status = es_corpus_read(bytes, corpus, document);
        bytes[document->size] = 0;
        if (status == ES_OK)
            status = es_spool_put_bytes(spool, bytes, document->size + 1);
        n_tokens[document->split] += document->size + 1;
    }
    free(bytes);
    return status;
}

/* --- a batch of documents ------------------------------------------------ */

/* spm_encode loads the model anew for each batch, a tenth of a second. */
#define BATCH_BYTES ((size_t)4 << 20)

typedef struct batch {
    const es_corpus *corpus;
    es_walk from; /* its first document is the next one of this walk */
    size_t n_documents;
    unsigned char *text; /* the documents end to end */
    size_t n, capacity;
    FILE *lines, *ids; /* spm_encode's input and output */
    es_child child;
} batch;

static void batch_empty(batch *b)
{
    es_child_stop(&b->child);
    if (b->lines)
        fclose(b->lines);
    if (b->ids)
        fclose(b->ids);
    b->lines = b->ids = NULL;
    b->n = b->n_documents = 0;
}

static es_status batch_add(batch *b, const es_document *document)
{
    if (b->capacity - b->n < document->size) {
        size_t capacity = b->n + document->size + BATCH_BYTES / 4;
        unsigned char *text = es_resize(b->text, capacity, 1);
        if (!text)
            return es_fail(ES_ENOMEM, "out of memory for %zu bytes", capacity);
        b->text = text;
        b->capacity = capacity;
    }
    es_status status = es_corpus_read(b->text + b->n, b->corpus, document);
    b->n += document->size;
    b->n_documents++;
    return status;
}

static es_status batch_fill(batch *b, es_walk *walk)
{
    const es_document *document;
    es_status status = ES_OK;
    b->from = *walk;
    while (status == ES_OK && b->n < BATCH_BYTES &&
           (document = es_walk_next(walk, b->corpus)))
        status = batch_add(b, document);
    return status;
}

/** Bytes of what spm_encode must not see, at text[0]; 0 if it may see it. */
static size_t cut_at(const unsigned char *text, size_t n)
{
    if (text[0] == '\n')
        return 1;
    return n >= 3 && memcmp(text, "\xe2\x96\x81", 3) == 0 ? 3 : 0;
}

/** Bytes up to the next cut or the end. */
static size_t line_length(const unsigned char *text, size_t n)
{
    size_t length = 0;
    while (length < n && !cut_at(text + length, n - length))
        length++;
    return length;
}

static es_status write_lines(FILE *out, const unsigned char *text, size_t n)
{
    for (size_t at = 0; at < n;) {
        size_t length = line_length(text + at, n - at);
        if (length > 0) {
            fwrite(text + at, 1, length, out);
            putc('\n', out);
        }
        at += length;
        if (at < n)
            at += cut_at(text + at, n - at);
    }
    if (ferror(out))
        return es_fail(ES_EIO,
                       "temporary file: %s: set TMPDIR to a folder "
                       "with more room",
                       strerror(errno));
    return ES_OK;
}

static es_status batch_start(batch *b, const es_pieces *pieces)
{
    char *option = NULL;
    es_status status = es_temporary_file(&b->lines);
    if (status == ES_OK)
        status = es_temporary_file(&b->ids);
    es_walk walk = b->from;
    for (size_t i = 0, at = 0; i < b->n_documents && status == ES_OK; i++) {
        const es_document *document = es_walk_next(&walk, b->corpus);
        status = write_lines(b->lines, b->text + at, document->size);
        at += document->size;
    }
    if (status == ES_OK && asprintf(&option, "--model=%s", pieces->model) < 0) {
        option = NULL;
        status = es_fail(ES_ENOMEM, "%s: out of memory", pieces->model);
    }
    if (status == ES_OK) {
        char *const argv[] = {"spm_encode", option, "--output_format=id", NULL};
        status = es_child_start(&b->child, argv, b->lines, b->ids, NULL);
    }
    free(option);
    return status;
}

/* --- what comes back ----------------------------------------------------- */

/** Where the ids of one document go. */
typedef struct sink {
    es_spool *spool;
    const es_pieces *pieces;
    uint32_t ids[1024];
    size_t n;
} sink;

static es_status sink_flush(sink *s)
{
    es_status status = es_spool_put(s->spool, s->ids, s->n);
    s->n = 0;
    return status;
}

static es_status sink_put(sink *s, uint32_t id)
{
    s->ids[s->n++] = id;
    return s->n < sizeof s->ids / sizeof *s->ids ? ES_OK : sink_flush(s);
}

static es_status put_bytes(sink *s, const unsigned char *bytes, size_t n)
{
    es_status status = ES_OK;
    for (size_t i = 0; i < n && status == ES_OK; i++)
        status = sink_put(s, s->pieces->byte_id[bytes[i]]);
    return status;
}

/** The next id of a line; UINT32_MAX at its end and for what is none. */
static uint32_t next_id(FILE *ids)
{
    int c = getc_unlocked(ids);
    while (c == ' ')
        c = getc_unlocked(ids);
    if (c < '0' || c > '9')
        return UINT32_MAX;
    uint64_t id = 0;
    for (; c >= '0' && c <= '9' && id < UINT32_MAX; c = getc_unlocked(ids))
        id = 10 * id + (uint64_t)(c - '0');
    ungetc(c, ids);
    return id < UINT32_MAX ? (uint32_t)id : UINT32_MAX;
}

/** ES_DONE if a line's pieces are not its text. */
static es_status take_line(sink *s, FILE *ids, const unsigned char *text,
                           size_t n)
{
    es_status status = ES_OK;
    uint32_t id;
    size_t at = 0;
    while (status == ES_OK && (id = next_id(ids)) != UINT32_MAX) {
        if (id >= s->pieces->n)
            return ES_DONE;
        const es_piece *piece = &s->pieces->items[id];
        if (piece->n > n - at ||
            memcmp(s->pieces->bytes + piece->at, text + at, piece->n) != 0)
            return ES_DONE;
        at += piece->n;
        status = sink_put(s, id);
    }
    return status == ES_OK && at < n ? ES_DONE : status;
}

static es_status take_text(sink *s, FILE *ids, const unsigned char *text,
                           size_t n)
{
    es_status status = ES_OK;
    for (size_t at = 0; at < n && status == ES_OK;) {
        size_t length = line_length(text + at, n - at);
        if (length > 0)
            status = take_line(s, ids, text + at, length);
        at += length;
        if (at == n || status != ES_OK)
            break;
        size_t cut = cut_at(text + at, n - at);
        status = put_bytes(s, text + at, cut);
        at += cut;
    }
    return status;
}

static es_status take_document(sink *s, const batch *b,
                               const es_document *document,
                               const unsigned char *text)
{
    es_status status = take_text(s, b->ids, text, document->size);
    if (status == ES_DONE)
        return es_fail(ES_EFORMAT,
                       "%s: does not keep the text of %s/%s: train a model "
                       "with entropy-corpus",
                       s->pieces->model, b->corpus->folders[document->folder],
                       document->path);
    if (status == ES_OK)
        status = put_bytes(s, (const unsigned char[]){0}, 1);
    return status == ES_OK ? sink_flush(s) : status;
}

/** Waits for the batch and takes its ids; does nothing if it is empty. */
static es_status batch_take(batch *b, es_spool *spool, uint64_t *n_tokens,
                            const es_pieces *pieces)
{
    if (b->n_documents == 0)
        return ES_OK;
    sink s = {.spool = spool, .pieces = pieces};
    es_walk walk = b->from;
    es_status status = es_child_wait(&b->child);
    if (status == ES_OK)
        rewind(b->ids);
    for (size_t i = 0, at = 0; i < b->n_documents && status == ES_OK; i++) {
        const es_document *document = es_walk_next(&walk, b->corpus);
        uint64_t before = spool->n;
        status = take_document(&s, b, document, b->text + at);
        at += document->size;
        n_tokens[document->split] += spool->n - before;
    }
    batch_empty(b);
    return status;
}

es_status es_encode_pieces(es_spool *spool, uint64_t *n_tokens,
                           const es_corpus *corpus, const es_pieces *pieces,
                           int n_children)
{
    es_walk walk = {0};
    const size_t n = (size_t)n_children;
    batch *batches = calloc(n, sizeof *batches);
    es_status status = batches ? ES_OK : es_fail(ES_ENOMEM, "out of memory");
    n_tokens[0] = n_tokens[1] = 0;
    /* In turn: the batch to fill next is the one that was started first. */
    size_t turn = 0, n_idle = 0;
    for (; status == ES_OK && n_idle < n; turn = (turn + 1) % n) {
        batch *b = &batches[turn];
        status = batch_take(b, spool, n_tokens, pieces);
        b->corpus = corpus;
        if (status == ES_OK)
            status = batch_fill(b, &walk);
        if (status == ES_OK && b->n_documents > 0)
            status = batch_start(b, pieces);
        n_idle += b->n_documents == 0;
    }
    for (size_t i = 0; batches && i < n; i++) {
        batch_empty(&batches[i]);
        free(batches[i].text);
    }
    free(batches);
    return status;
}
