/**
 * Defines the request of a sweep and the three ways to process it: run the plan
 * on this machine, submit the plan to Slurm, or show the state of its runs.
 */
#ifndef ES_SWEEP_H
#define ES_SWEEP_H

#include "cli/alerts/rules/rules_file.h"
#include "cli/sweep/plan.h"
#include <limits.h>

/* Maximum number of tasks of a job array: Slurm accepts 1000 everywhere, and
 * more only if MaxArraySize allows it. */
#define ES_SWEEP_ARRAY_MOST 1000

#define ES_SWEEP_GRACE 60 /* default of --grace in seconds */

typedef struct es_sweep_request {
    const char *input;  /* path of the spec; with --status and --run, of the
                           folder */
    const char *folder; /* path of the folder; NULL: the folder is named
                           after the spec */
    char own_folder[NAME_MAX + 1]; /* name of the folder that is named after
                                      the spec */
    const char *run;               /* name of the run given by --run, or NULL */
    const char *rules_path;        /* path given by --rules, or NULL */
    es_rules_file own;             /* rules of `rules_path` */
    const es_rules_file *rules; /* &own, or NULL for the default thresholds */
    size_t n_at_once;           /* number of runs trained at a time; 0: one
                                   per processor, or as many as Slurm allows */
    bool status, slurm, dry_run;
    bool all;       /* also show every run and the distances at the end */
    bool no_stop;   /* --no-stop: doomed runs are not stopped */
    size_t n_draws; /* number of draws of a random search; 0: the number in
                       the spec */
    size_t grace;   /* seconds after a stop request until a command is
                       terminated */
} es_sweep_request;

typedef struct es_sweep_result {
    size_t n_broken; /* number of runs whose training failed */
    size_t n_taken;  /* number of runs that another process is training */
    int signal;      /* signal that ended the sweep early; 0: none */
} es_sweep_result;

/**
 * Finds the program to run. Sets *out to `program` itself if it contains a '/';
 * else to its path in the folder of this program, if it exists there; else to
 * its name, which exec searches for in PATH. The caller frees *out.
 *
 * Returns ES_OK; ES_EUSAGE (a path that cannot be executed); ES_ENOMEM.
 */
es_status es_sweep_program(char **out, const char *program) ES_MUST_USE;

/**
 * Trains all runs that are not done, and reports on standard error: prints a
 * line for each run that starts or ends and, on a terminal, the current runs
 * below. Requests doomed runs (view.h) to stop.
 *
 *   program  from es_sweep_program
 *
 * SIGINT, SIGTERM and SIGHUP stop the trainings, and the function returns once
 * they have ended; a second signal kills them.
 *
 * Returns ES_OK, also if runs failed; ES_EIO or ES_ENOMEM, after the trainings
 * were stopped.
 */
es_status es_sweep_run_all(es_sweep_result *out, const es_sweep_request *given,
                           const es_sweep_plan *plan,
                           const char *program) ES_MUST_USE;

/**
 * Submits every run that is neither done nor running nor queued in Slurm.
 * Prints the id of each job to standard output, and a summary on standard
 * error. With dry_run, prints the batch script of all runs instead.
 *
 * The folder must have been taken by es_sweep_folder_take, except for dry_run.
 *
 * Returns ES_OK, also if there is nothing to submit; ES_ENOTFOUND if sbatch, or
 * squeue for the state of earlier jobs, is not installed; ES_EIO if sbatch
 * refuses (the message quotes its error); ES_EUSAGE for a path that a script
 * cannot contain; ES_ENOMEM. After a failure, arrays whose job was printed stay
 * submitted.
 */
es_status es_sweep_submit(const es_sweep_request *given,
                          const es_sweep_spec *spec,
                          const es_sweep_plan *plan) ES_MUST_USE;

/**
 * Prints the table of all runs of a folder, the number of runs in each stage,
 * and the last lines of output of broken or lost runs. Queries Slurm's queue if
 * runs were submitted and squeue exists.
 *
 *   n_failed  output: number of run files that could not be read; each has been
 *             reported
 *
 * Returns ES_OK; ES_EIO, ES_ENOMEM. The caller checks the stream.
 */
es_status es_sweep_print_status(FILE *stream, size_t *n_failed,
                                const es_sweep_request *given) ES_MUST_USE;

#endif
