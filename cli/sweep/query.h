/** Runs one of Slurm's programs and takes its answer. */
#ifndef ES_SWEEP_QUERY_H
#define ES_SWEEP_QUERY_H

#include "analyzer/base/status.h"

typedef struct es_sweep_answer {
    char *text;         /* standard output, to be freed */
    char trouble[1024]; /* standard error in one line, its beginning */
    int code;           /* exit code; 128 + n: ended by signal n */
} es_sweep_answer;

/**
 * Runs a program of PATH, without a shell or an input.
 *
 *   limit  seconds, after which it is killed
 *
 * ES_OK, whatever it answered; ES_ENOTFOUND (no such program), ES_EIO (it
 * cannot be run, or took too long), ES_ENOMEM: out->text is NULL.
 */
es_status es_sweep_query(es_sweep_answer *out, char *const argv[],
                         double limit) ES_MUST_USE;

#endif
