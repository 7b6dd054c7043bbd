/** What entropy-corpus was asked to do. */
#ifndef ES_CORPUS_JOB_H
#define ES_CORPUS_JOB_H

#include "samples/corpus/collect.h"

typedef enum es_source {
    ES_SOURCE_BYTES,  /* folders, a byte a token */
    ES_SOURCE_PIECES, /* folders, sentencepiece */
    ES_SOURCE_IDS     /* a list of ids */
} es_source;

typedef struct es_job {
    es_source source;
    const char *output;
    char **folders; /* borrowed, as all that is pointed to */
    size_t n_folders;
    uint64_t limit;    /* bytes of text, 0 for all */
    int vocab;         /* of a model to train, or of the ids */
    const char *model; /* NULL trains one */
    uint64_t sample;
    int n_children;
    const char *ids;
    const char *tokenizer_name;
    double held_out; /* share of the ids, 0..1 */
} es_job;

/** What came of it, for the report. */
typedef struct es_job_result {
    es_corpus corpus;     /* empty for ids */
    uint64_t n_tokens[2]; /* by es_split */
    uint32_t vocab;
    char tokenizer[32];
    char *model; /* written; NULL if none */
} es_job_result;

/**
 * Makes the token file, and OUTPUT.model where a model is trained. The model
 * appears first, each whole or not at all.
 *
 * ES_OK, ES_EUSAGE, ES_EIO, ES_EFORMAT, ES_ENOMEM.
 */
es_status es_job_run(es_job_result *out, const es_job *job) ES_MUST_USE;

void es_job_result_free(es_job_result *result); /* zeroed is fine */

#endif
