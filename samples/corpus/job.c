#include "samples/corpus/job.h"

#include "samples/corpus/bpe.h"
#include "samples/corpus/encode.h"
#include "samples/corpus/ids.h"
#include "samples/corpus/pieces.h"
#include "samples/corpus/spool.h"
#include <stdlib.h>
#include <string.h>

static es_status collect(es_corpus *corpus, const es_job *job)
{
    es_status status = ES_OK;
    for (size_t i = 0; i < job->n_folders && status == ES_OK; i++)
        status = es_corpus_add_folder(corpus, job->folders[i], job->limit);
    if (status == ES_OK && corpus->n_documents[ES_SPLIT_TRAIN] == 0)
        status = es_fail(ES_EFORMAT, "%s%s: no Python source for training",
                         job->folders[0], job->n_folders > 1 ? ", ..." : "");
    return status;
}

static es_status write_tokens(es_spool *spool, const es_job_result *result,
                              const char *path)
{
    const uint64_t *documents = result->corpus.n_documents;
    es_tokens_content content = {
        .n_train = result->n_tokens[ES_SPLIT_TRAIN],
        .n_held_out = result->n_tokens[ES_SPLIT_HELD_OUT],
        .n_train_documents = documents[ES_SPLIT_TRAIN],
        .n_held_out_documents = documents[ES_SPLIT_HELD_OUT],
        .tokenizer = result->tokenizer};
    return es_spool_write(spool, path, &content);
}

static es_status run_bytes(es_job_result *out, const es_job *job)
{
    es_spool spool = {0};
    out->vocab = 256;
    snprintf(out->tokenizer, sizeof out->tokenizer, "bytes");
    es_status status = collect(&out->corpus, job);
    if (status == ES_OK)
        status = es_spool_open(&spool, out->vocab);
    if (status == ES_OK)
        status = es_encode_bytes(&spool, out->n_tokens, &out->corpus);
    if (status == ES_OK)
        status = write_tokens(&spool, out, job->output);
    es_spool_close(&spool);
    return status;
}

static es_status encode(es_spool *spool, es_job_result *out, const es_job *job,
                        const char *model)
{
    es_pieces pieces = {0};
    es_status status = es_pieces_load(&pieces, model);
    if (status == ES_OK) {
        out->vocab = pieces.n;
        memcpy(out->tokenizer, pieces.name, sizeof out->tokenizer);
        status = es_spool_open(spool, pieces.n);
    }
    if (status == ES_OK)
        status = es_encode_pieces(spool, out->n_tokens, &out->corpus, &pieces,
                                  job->n_children);
    es_pieces_free(&pieces);
    return status;
}

static es_status save_model(es_job_result *out, const es_bpe *bpe,
                            const char *output)
{
    if (asprintf(&out->model, "%s.model", output) < 0) {
        out->model = NULL;
        return es_fail(ES_ENOMEM, "%s: out of memory", output);
    }
    return es_bpe_save(bpe, out->model);
}

static es_status run_pieces(es_job_result *out, const es_job *job)
{
    es_spool spool = {0};
    es_bpe bpe = {0};
    es_status status = collect(&out->corpus, job);
    if (status == ES_OK && !job->model)
        status = es_bpe_train(&bpe, &out->corpus, job->vocab, job->sample);
    if (status == ES_OK)
        status = encode(&spool, out, job, job->model ? job->model : bpe.model);
    if (status == ES_OK && !job->model)
        status = save_model(out, &bpe, job->output);
    if (status == ES_OK)
        status = write_tokens(&spool, out, job->output);
    es_spool_close(&spool);
    es_bpe_free(&bpe);
    return status;
}

static es_status run_ids(es_job_result *out, const es_job *job)
{
    es_spool spool = {0};
    out->vocab = (uint32_t)job->vocab;
    snprintf(out->tokenizer, sizeof out->tokenizer, "%s", job->tokenizer_name);
    es_status status = es_spool_open(&spool, out->vocab);
    if (status == ES_OK)
        status = es_ids_read(&spool, job->ids);
    if (status == ES_OK) {
        uint64_t held_out = (uint64_t)((double)spool.n * job->held_out);
        out->n_tokens[ES_SPLIT_HELD_OUT] = held_out;
        out->n_tokens[ES_SPLIT_TRAIN] = spool.n - held_out;
        status = write_tokens(&spool, out, job->output);
    }
    es_spool_close(&spool);
    return status;
}

es_status es_job_run(es_job_result *out, const es_job *job)
{
    *out = (es_job_result){0};
    switch (job->source) {
    case ES_SOURCE_BYTES:
        return run_bytes(out, job);
    case ES_SOURCE_PIECES:
        return run_pieces(out, job);
    case ES_SOURCE_IDS:
        return run_ids(out, job);
    }
    return es_fail(ES_EARGUMENT, "no such source of tokens");
}

void es_job_result_free(es_job_result *result)
{
    es_corpus_free(&result->corpus);
    free(result->model);
    result->model = NULL;
}
