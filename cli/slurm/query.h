/**
 * Runs Slurm's programs without a shell, and quotes the words of commands in
 * batch scripts. Used for sweeps, and for summaries that are computed by Slurm
 * jobs.
 */
#ifndef ES_SLURM_QUERY_H
#define ES_SLURM_QUERY_H

#include "analyzer/base/status.h"

#include <stdint.h>
#include <stdio.h>

typedef struct es_slurm_answer {
    char *text;         /* output of the program (NUL-terminated), freed by the
                           caller */
    char trouble[1024]; /* beginning of the program's error output, joined to
                           one line */
    int code;           /* exit code; 128 + n if signal n ended the program */
} es_slurm_answer;

/**
 * Runs one of Slurm's programs without a shell and with empty standard input.
 * The program is searched for in PATH.
 *
 *   limit  seconds after which the program is killed
 *
 * Returns ES_OK for any exit code; ES_ENOTFOUND if the program is not
 * installed; ES_EIO if the program cannot be run or timed out; ES_ENOMEM. After
 * a failure out->text is NULL.
 */
es_status es_slurm_query(es_slurm_answer *out, char *const argv[],
                         double limit) ES_MUST_USE;

/**
 * Runs sbatch; argv must contain --parsable.
 *
 *   script  name of the script, for messages
 *
 * Returns ES_OK; ES_EIO if sbatch failed (the message quotes its reason); or an
 * error of es_slurm_query.
 */
es_status es_slurm_submit(int64_t *job, char *const argv[],
                          const char *script) ES_MUST_USE;

/** Prints one word of a shell command, in quotes if necessary. */
void es_slurm_print_word(FILE *stream, const char *word);

/**
 * Prints the path FOLDER/NAME for Slurm's option --output. Slurm replaces
 * patterns such as %A in `name`; a % in `folder` is escaped, so that Slurm does
 * not replace it.
 */
void es_slurm_print_log(FILE *stream, const char *folder, const char *name);

#endif
