/**
 * Reads and queries the Slurm jobs of a submitted sweep. The folder contains
 * the script of job 4711 as slurm-4711.sbatch, which lists the names of its
 * runs, and the output of its task 3 as slurm-4711_3.out. The folder therefore
 * shows which runs were submitted, but only Slurm knows the state of a job that
 * has not started.
 */
#ifndef ES_SWEEP_JOBS_H
#define ES_SWEEP_JOBS_H

#include "cli/sweep/view.h"

#define ES_SWEEP_JOB_NAME "entropy-sweep" /* Slurm job name of every sweep */
/* Text at the end of the script line that precedes the names of the runs. */
#define ES_SWEEP_SCRIPT_BEGINS "<<'END'"
/* Script line that follows the names of the runs. */
#define ES_SWEEP_SCRIPT_ENDS "END"

typedef enum es_sweep_queue {
    ES_SWEEP_QUEUE_UNKNOWN, /* squeue is not installed or was not queried */
    ES_SWEEP_QUEUE_LEFT,
    ES_SWEEP_QUEUE_WAITS,
    ES_SWEEP_QUEUE_RUNS
} es_sweep_queue;

/** The latest Slurm task of a submitted run. */
typedef struct es_sweep_task {
    char *run;
    int64_t job;
    char id[64]; /* for example "4711_3" */
    es_sweep_queue queue;
} es_sweep_task;

typedef struct es_sweep_jobs {
    es_sweep_task *tasks; /* n tasks, sorted by the name of the run */
    size_t n;
} es_sweep_jobs;

/**
 * Reads the tasks from the scripts in the folder; a folder without scripts has
 * no tasks. Release *out with es_sweep_jobs_free, also on failure. Returns
 * ES_OK, ES_EIO or ES_ENOMEM.
 */
es_status es_sweep_jobs_read(es_sweep_jobs *out,
                             const char *folder) ES_MUST_USE;
void es_sweep_jobs_free(es_sweep_jobs *jobs);

/**
 * Queries squeue for the states of the tasks; does not run squeue if there are
 * no tasks.
 *
 * Returns ES_OK; ES_ENOTFOUND if squeue is not installed; ES_EIO if Slurm does
 * not answer; ES_ENOMEM. On failure the state of every task is unknown.
 */
es_status es_sweep_jobs_query(es_sweep_jobs *jobs) ES_MUST_USE;

/**
 * Sets the stage of the run in `view` (whether it waits or runs) to its state
 * in Slurm's queue, unless the run's files show that the run is running or
 * done. Returns the run's task, or NULL if the run was not submitted.
 */
const es_sweep_task *es_sweep_jobs_amend(const es_sweep_jobs *jobs,
                                         es_sweep_view *view);

#endif
