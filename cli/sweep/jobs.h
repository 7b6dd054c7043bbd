/**
 * The jobs of Slurm that a sweep was submitted as. The folder keeps the script
 * of job 4711 as slurm-4711.sbatch, which has the names of its runs, and what
 * task 3 of it printed as slurm-4711_3.out: the folder alone says what was
 * submitted. What became of a job that has not begun only Slurm knows.
 */
#ifndef ES_SWEEP_JOBS_H
#define ES_SWEEP_JOBS_H

#include "cli/sweep/view.h"

#define ES_SWEEP_JOB_NAME "entropy-sweep" /* of all jobs, in Slurm's queue */
#define ES_SWEEP_SCRIPT_BEGINS "<<'END'"  /* ends the line before the names */
#define ES_SWEEP_SCRIPT_ENDS "END"        /* the line after them */

typedef enum es_sweep_queue {
    ES_SWEEP_QUEUE_UNKNOWN, /* squeue was not there, or not queried */
    ES_SWEEP_QUEUE_LEFT,
    ES_SWEEP_QUEUE_WAITS,
    ES_SWEEP_QUEUE_RUNS
} es_sweep_queue;

/** Of each run the task that it was submitted as last. */
typedef struct es_sweep_task {
    char *run;
    int64_t job;
    char id[64]; /* "4711_3" */
    es_sweep_queue queue;
} es_sweep_task;

typedef struct es_sweep_jobs {
    es_sweep_task *tasks; /* (n) by run */
    size_t n;
} es_sweep_jobs;

/** What the folder says; none is fine. es_sweep_jobs_free, also on failure.
 *  ES_OK; ES_EIO, ES_ENOMEM. */
es_status es_sweep_jobs_read(es_sweep_jobs *out,
                             const char *folder) ES_MUST_USE;
void es_sweep_jobs_free(es_sweep_jobs *jobs);

/**
 * Queries squeue for the states of the tasks; without tasks it is not run.
 *
 * ES_OK; ES_ENOTFOUND (no squeue), ES_EIO (it does not answer), ES_ENOMEM:
 * every queue is unknown.
 */
es_status es_sweep_jobs_query(es_sweep_jobs *jobs) ES_MUST_USE;

/** Says in a view where the run is, if its files do not show it at work.
 *  Returns its task; NULL: it was not submitted. */
const es_sweep_task *es_sweep_jobs_amend(const es_sweep_jobs *jobs,
                                         es_sweep_view *view);

#endif
