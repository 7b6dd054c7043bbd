/**
 * Defines the request of a sweep and the three ways to process it: run the plan
 * on this machine, submit the plan to Slurm, or show the state of its runs.
 */
#ifndef ES_SWEEP_H
#define ES_SWEEP_H

#include "cli/alerts/rules/rules_file.h"
#include "cli/sweep/plan.h"
#include <limits.h>

/* Maximum number of tasks in a job array. By default, every Slurm installation
 * accepts 1000; more tasks are possible only with a larger MaxArraySize. */
#define ES_SWEEP_ARRAY_MOST 1000

#define ES_SWEEP_GRACE 60 /* default of --grace in seconds */

typedef struct es_sweep_request {
    const char *input;  /* path of the spec, or with --status and --run the path
                           of the folder */
    const char *folder; /* path of the folder; NULL if the folder is to be named
                           after the spec */
    char own_folder[NAME_MAX + 1]; /* storage for the folder's name if it is
                                      derived from the name of the spec */
    const char *run;               /* name of the run given by --run, or NULL */
    const char *rules_path;        /* path given by --rules, or NULL */
    es_rules_file own;             /* rules of `rules_path` */
    const es_rules_file *rules; /* points to `own`, or is NULL for the default
                                   thresholds */
    size_t n_at_once;           /* number of runs trained at a time; if 0, one
                                   per processor, or as many as Slurm allows */
    bool status, slurm, dry_run;
    bool all;       /* true if the tables at the end include every run and the
                       distances between the runs */
    bool no_stop;   /* --no-stop: runs with critical flags are not stopped */
    size_t n_draws; /* number of draws of a random search; if 0, the number in
                       the spec is used */
    size_t grace;   /* seconds from a stop request until the process of a
                       `command` is terminated */
} es_sweep_request;

typedef struct es_sweep_result {
    size_t n_broken; /* number of runs whose training failed */
    size_t n_taken;  /* number of runs that another process is training */
    int signal;      /* signal that ended the sweep early; 0 if there was
                        none */
} es_sweep_result;

/**
 * Finds the program that trains the runs. If `program` contains a '/', *out is
 * a copy of `program`. Otherwise *out is the path of that program in the folder
 * of entropy-scan or, if it does not exist there, the name alone, which exec
 * searches for in PATH. The caller frees *out.
 *
 * Returns ES_OK; ES_EUSAGE (a path that cannot be executed); ES_ENOMEM.
 */
es_status es_sweep_program(char **out, const char *program) ES_MUST_USE;

/**
 * Trains all runs that are not done. Prints on standard error a line for each
 * run that starts or ends and, on a terminal, a table of the current runs.
 * Requests that a run stop if it has a critical flag, or if a rule whose action
 * is stop applies.
 *
 *   program  name or path that es_sweep_program returned
 *
 * On SIGINT, SIGTERM or SIGHUP, the function stops the training processes and
 * returns once they have ended; on a second signal it kills them.
 *
 * Returns ES_OK, also if runs failed; ES_EIO or ES_ENOMEM, in which case the
 * training processes have been stopped.
 */
es_status es_sweep_run_all(es_sweep_result *out, const es_sweep_request *given,
                           const es_sweep_plan *plan,
                           const char *program) ES_MUST_USE;

/**
 * Submits every run that is neither done nor running nor queued in Slurm.
 * Prints the id of each job to standard output, and a summary on standard
 * error. With dry_run, prints the batch script of all runs instead.
 *
 * The caller must have locked the folder by es_sweep_folder_take, except for
 * dry_run.
 *
 * Returns ES_OK, also if there is nothing to submit; ES_ENOTFOUND if sbatch, or
 * squeue for the state of earlier jobs, is not installed; ES_EIO if sbatch
 * refuses (the message quotes its error); ES_EUSAGE for a path that a script
 * cannot contain; ES_ENOMEM. After a failure, the job arrays whose ids were
 * printed stay submitted.
 */
es_status es_sweep_submit(const es_sweep_request *given,
                          const es_sweep_spec *spec,
                          const es_sweep_plan *plan) ES_MUST_USE;

/**
 * Prints the table of all runs of a folder, the number of runs in each stage
 * (such as queued or done), and the last lines of output of broken runs, and of
 * submitted runs whose Slurm task ended too early. Queries Slurm's queue if
 * runs were submitted and squeue is installed.
 *
 *   n_failed  set to the number of run files that could not be read, which have
 *             been reported
 *
 * Returns ES_OK; ES_EIO, ES_ENOMEM. The caller checks the stream.
 */
es_status es_sweep_print_status(FILE *stream, size_t *n_failed,
                                const es_sweep_request *given) ES_MUST_USE;

#endif
