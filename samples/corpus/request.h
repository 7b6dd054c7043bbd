/** entropy-corpus's command line. */
#ifndef ES_CORPUS_REQUEST_H
#define ES_CORPUS_REQUEST_H

#include "analyzer/base/options.h"
#include "samples/corpus/job.h"

extern const es_command es_corpus_command;

typedef struct es_request {
    es_job job;
    bool quiet, help, version;
    unsigned given; /* a bit for each option of the table */
} es_request;

/**
 * Reads the options.
 *
 *   out   written; its strings are argv's. Free it in any case
 *
 * ES_OK, then help or version may be set and the job not be ready; ES_EUSAGE
 * (options that are wrong or do not go together); ES_ENOMEM.
 */
es_status es_request_parse(es_request *out, int argc, char **argv) ES_MUST_USE;

void es_request_free(es_request *request);

#endif
