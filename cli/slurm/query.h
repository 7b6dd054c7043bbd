/** Slurm for sweeps and summaries: runs its programs without a shell, and
 *  quotes words of batch scripts. */
#ifndef ES_SLURM_QUERY_H
#define ES_SLURM_QUERY_H

#include "analyzer/base/status.h"

#include <stdint.h>
#include <stdio.h>

typedef struct es_slurm_answer {
    char *text;         /* standard output; freed by the caller */
    char trouble[1024]; /* beginning of standard error, in one line */
    int code;           /* exit code; 128 + n: ended by signal n */
} es_slurm_answer;

/**
 * Runs one of Slurm's programs, found in PATH, without a shell and with an
 * empty input.
 *
 *   limit  timeout in seconds, after which the program is killed
 *
 * Returns ES_OK for any answer; ES_ENOTFOUND: no such program; ES_EIO: the
 * program cannot be run, or timed out; ES_ENOMEM. After a failure out->text is
 * NULL.
 */
es_status es_slurm_query(es_slurm_answer *out, char *const argv[],
                         double limit) ES_MUST_USE;

/**
 * Runs sbatch; argv must contain --parsable.
 *
 *   script  for messages
 *
 * Returns ES_OK; ES_EIO: sbatch failed, with its reason in the message; errors
 * of es_slurm_query.
 */
es_status es_slurm_submit(int64_t *job, char *const argv[],
                          const char *script) ES_MUST_USE;

/** Prints a word for a shell, quoted if necessary. */
void es_slurm_print_word(FILE *stream, const char *word);

/** Prints the path of a file in a folder for --output. Slurm replaces %A and
 *  the like in `name`; those in `folder` are escaped. */
void es_slurm_print_log(FILE *stream, const char *folder, const char *name);

#endif
