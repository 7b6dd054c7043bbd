/**
 * The Slurm jobs that a sweep was submitted as. The folder keeps the script of
 * job 4711 as slurm-4711.sbatch, which contains the names of its runs, and the
 * output of its task 3 as slurm-4711_3.out: the folder alone shows what was
 * submitted. Only Slurm knows the state of a job that has not started.
 */
#ifndef ES_SWEEP_JOBS_H
#define ES_SWEEP_JOBS_H

#include "cli/sweep/view.h"

#define ES_SWEEP_JOB_NAME "entropy-sweep" /* name of all jobs in Slurm */
#define ES_SWEEP_SCRIPT_BEGINS "<<'END'"  /* ends the line before the names */
#define ES_SWEEP_SCRIPT_ENDS "END"        /* the line after the names */

typedef enum es_sweep_queue {
    ES_SWEEP_QUEUE_UNKNOWN, /* squeue was missing, or not queried */
    ES_SWEEP_QUEUE_LEFT,
    ES_SWEEP_QUEUE_WAITS,
    ES_SWEEP_QUEUE_RUNS
} es_sweep_queue;

/** The latest task that a run was submitted as. */
typedef struct es_sweep_task {
    char *run;
    int64_t job;
    char id[64]; /* for example "4711_3" */
    es_sweep_queue queue;
} es_sweep_task;

typedef struct es_sweep_jobs {
    es_sweep_task *tasks; /* (n) sorted by run */
    size_t n;
} es_sweep_jobs;

/**
 * Reads the tasks from the folder, which may have none. Release with
 * es_sweep_jobs_free, also on failure. ES_OK; ES_EIO, ES_ENOMEM.
 */
es_status es_sweep_jobs_read(es_sweep_jobs *out,
                             const char *folder) ES_MUST_USE;
void es_sweep_jobs_free(es_sweep_jobs *jobs);

/**
 * Queries squeue for the states of the tasks; does not run it if there are no
 * tasks.
 *
 * ES_OK; ES_ENOTFOUND (no squeue), ES_EIO (no answer), ES_ENOMEM: the state of
 * every task is unknown.
 */
es_status es_sweep_jobs_query(es_sweep_jobs *jobs) ES_MUST_USE;

/**
 * Sets the stage of a view from Slurm's queue, unless the run's files show that
 * it is running or done. Returns the run's task, or NULL if it was not
 * submitted.
 */
const es_sweep_task *es_sweep_jobs_amend(const es_sweep_jobs *jobs,
                                         es_sweep_view *view);

#endif
