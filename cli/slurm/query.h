/** What sweeps and summaries need of Slurm: its programs, run without a shell,
 *  and words of the batch scripts that they are given. */
#ifndef ES_SLURM_QUERY_H
#define ES_SLURM_QUERY_H

#include "analyzer/base/status.h"

#include <stdint.h>
#include <stdio.h>

typedef struct es_slurm_answer {
    char *text;         /* standard output, to be freed */
    char trouble[1024]; /* standard error in one line, its beginning */
    int code;           /* exit code; 128 + n: ended by signal n */
} es_slurm_answer;

/**
 * Runs one of Slurm's programs, of PATH, without a shell or an input.
 *
 *   limit  seconds, after which it is killed
 *
 * ES_OK, whatever it answered; ES_ENOTFOUND (no such program), ES_EIO (it
 * cannot be run, or took too long), ES_ENOMEM: out->text is NULL.
 */
es_status es_slurm_query(es_slurm_answer *out, char *const argv[],
                         double limit) ES_MUST_USE;

/**
 * Runs sbatch, with --parsable among its words.
 *
 *   script  for messages
 *
 * ES_OK; ES_EIO: it refuses the script, in its words; as es_slurm_query.
 */
es_status es_slurm_submit(int64_t *job, char *const argv[],
                          const char *script) ES_MUST_USE;

/** A word as a shell reads it, in quotes if need be. */
void es_slurm_print_word(FILE *stream, const char *word);

/** The same of a file in a folder, for --output: Slurm reads %A and the like in
 *  its name, but not in the folder's. */
void es_slurm_print_log(FILE *stream, const char *folder, const char *name);

#endif
