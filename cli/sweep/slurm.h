/** A sweep as arrays of Slurm's jobs: one task, one run. */
#ifndef ES_SWEEP_SLURM_H
#define ES_SWEEP_SLURM_H

#include "cli/sweep/plan.h"

#include <stdbool.h>
#include <stdio.h>

/* Slurm takes arrays of 1000 everywhere, and larger ones only where its
   MaxArraySize says so. */
#define ES_SWEEP_ARRAY_MOST 1000

typedef struct es_sweep_submission {
    const es_sweep_spec *spec; /* its [slurm] */
    const es_sweep_plan *plan;
    const char *folder;
    size_t n_at_once;  /* tasks of an array; 0: as many as Slurm likes */
    const char *rules; /* the file that runs are judged by, or NULL */
    bool no_stop;      /* leave doomed runs alone */
} es_sweep_submission;

/**
 * The batch script of an array.
 *
 *   runs  (n) names, in the order of the tasks
 *
 * ES_OK; ES_EUSAGE (a path that no script can name); ES_EIO, ES_ENOMEM. The
 * caller checks the stream.
 */
es_status es_sweep_print_script(FILE *stream, const es_sweep_submission *given,
                                const char *const *runs, size_t n) ES_MUST_USE;

/**
 * Submits every run that is neither done nor at work nor in Slurm's queue;
 * prints each job's id to standard output and says on standard error what was
 * submitted.
 *
 *   given  its folder is there and taken: es_sweep_folder_take
 *
 * ES_OK, also if there is nothing to submit; ES_ENOTFOUND (no sbatch, or no
 * squeue to query about earlier jobs); ES_EIO (sbatch refuses: in its words);
 * ES_EUSAGE, ES_ENOMEM. Arrays whose job was printed stay submitted.
 */
es_status es_sweep_submit(const es_sweep_submission *given) ES_MUST_USE;

#endif
