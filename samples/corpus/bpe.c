#include "samples/corpus/bpe.h"

#include "samples/corpus/child.h"
#include "samples/corpus/encode.h"
#include "samples/corpus/spool.h"
#include "store/outfile.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/** Whether a document is among those that are looked at. */
static bool is_sampled(const es_document *document, double share)
{
    return (double)(document->hash >> 11) * 0x1p-53 < share;
}

static es_status write_sample(FILE *out, const es_corpus *corpus,
                              uint64_t sample)
{
    const double share =
        (double)sample / (double)corpus->n_bytes[ES_SPLIT_TRAIN];
    unsigned char *bytes = malloc(corpus->largest + 1);
    if (!bytes)
        return es_fail(ES_ENOMEM, "out of memory for %zu bytes",
                       corpus->largest);
    es_walk walk = {0};
    const es_document *document;
    es_status status = ES_OK;
    while (status == ES_OK && (document = es_walk_next(&walk, corpus)) &&
           document->split == ES_SPLIT_TRAIN) {
        if (!is_sampled(document, share))
            continue;
        status = es_corpus_read(bytes, corpus, document);
        bytes[document->size] = '\n';
        if (status == ES_OK &&
            fwrite(bytes, 1, document->size + 1, out) != document->size + 1)
            status = es_fail(ES_EIO,
                             "temporary file: %s: set TMPDIR to a folder with "
                             "more room",
                             strerror(errno));
    }
    free(bytes);
    if (status == ES_OK && ftell(out) == 0)
        return es_fail(ES_EFORMAT,
                       "--sample %llu: no document is so short: "
                       "give more bytes",
                       (unsigned long long)sample);
    return status;
}

/* The model holds these options, so no path of this machine is among them. */
static es_status train(const es_bpe *bpe, FILE *sample, int vocab)
{
    char size[32];
    snprintf(size, sizeof size, "--vocab_size=%d", vocab);
    char *const argv[] = {"spm_train",
                          "--input=/dev/stdin",
                          "--model_prefix=bpe",
                          "--model_type=bpe",
                          size,
                          "--normalization_rule_name=identity",
                          "--add_dummy_prefix=false",
                          "--remove_extra_whitespaces=false",
                          "--allow_whitespace_only_pieces=true",
                          "--byte_fallback=true",
                          "--bos_id=-1",
                          "--eos_id=-1",
                          "--pad_id=-1",
                          "--input_sentence_size=0",
                          "--shuffle_input_sentence=false",
                          "--num_threads=1",
                          "--random_seed=1",
                          "--minloglevel=1",
                          NULL};
    return es_child_run(argv, sample, NULL, bpe->folder);
}

static es_status make_folder(es_bpe *bpe)
{
    const char *parent = getenv("TMPDIR");
    if (!parent || !*parent)
        parent = "/tmp";
    char *folder = NULL;
    if (asprintf(&folder, "%s/entropy-corpus-XXXXXX", parent) < 0)
        return es_fail(ES_ENOMEM, "out of memory");
    if (!mkdtemp(folder)) {
        free(folder);
        return es_fail(ES_EIO, "%s: %s: set TMPDIR", parent, strerror(errno));
    }
    bpe->folder = folder;
    if (asprintf(&bpe->model, "%s/bpe.model", folder) < 0) {
        bpe->model = NULL;
        return es_fail(ES_ENOMEM, "out of memory");
    }
    return ES_OK;
}

es_status es_bpe_train(es_bpe *out, const es_corpus *corpus, int vocab,
                       uint64_t sample)
{
    FILE *text = NULL;
    *out = (es_bpe){0};
    es_status status = make_folder(out);
    if (status == ES_OK)
        status = es_temporary_file(&text);
    if (status == ES_OK)
        status = write_sample(text, corpus, sample);
    if (status == ES_OK)
        status = train(out, text, vocab);
    if (text)
        fclose(text);
    if (status != ES_OK)
        es_bpe_free(out);
    return status;
}

static es_status copy(FILE *out, FILE *in, const char *path)
{
    char bytes[65536];
    size_t n;
    while ((n = fread(bytes, 1, sizeof bytes, in)) > 0)
        if (fwrite(bytes, 1, n, out) != n)
            return es_fail(ES_EIO, "%s: cannot write: %s", path,
                           strerror(errno));
    if (ferror(in))
        return es_fail(ES_EIO, "%s: cannot read its original: %s", path,
                       strerror(errno));
    return ES_OK;
}

es_status es_bpe_save(const es_bpe *bpe, const char *path)
{
    es_outfile *file = NULL;
    FILE *stream = NULL;
    FILE *model = fopen(bpe->model, "rbe");
    if (!model)
        return es_fail(ES_EIO, "%s: %s", bpe->model, strerror(errno));
    es_status status = es_outfile_open(&file, &stream, path);
    if (status == ES_OK)
        status = es_outfile_finish(file, copy(stream, model, path));
    fclose(model);
    return status;
}

void es_bpe_free(es_bpe *bpe)
{
    char *list = NULL;
    if (bpe->model)
        unlink(bpe->model);
    if (bpe->folder && asprintf(&list, "%s/bpe.vocab", bpe->folder) >= 0) {
        unlink(list);
        free(list);
    }
    if (bpe->folder)
        rmdir(bpe->folder);
    free(bpe->folder);
    free(bpe->model);
    *bpe = (es_bpe){0};
}
