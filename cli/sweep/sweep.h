/**
 * The request of a sweep, and the three ways to process it: run the plan on
 * this machine, submit it to Slurm, or show its state.
 */
#ifndef ES_SWEEP_H
#define ES_SWEEP_H

#include "cli/alerts/rules/rules_file.h"
#include "cli/sweep/plan.h"
#include <limits.h>

/* Slurm accepts arrays of 1000 tasks everywhere, and larger ones only if
 * MaxArraySize allows it. */
#define ES_SWEEP_ARRAY_MOST 1000

#define ES_SWEEP_GRACE 60 /* seconds, by default */

typedef struct es_sweep_request {
    const char *input;  /* the spec; with --status and --run the folder */
    const char *folder; /* the same with --status and --run; NULL: named after
                           the spec */
    char own_folder[NAME_MAX + 1]; /* the name in that case */
    const char *run;               /* --run, or NULL */
    const char *rules_path;        /* --rules, or NULL */
    es_forecast_choice forecast;
    es_rules_file own;          /* the rules of `rules_path`, and the rule of
                                   --forecast */
    const es_rules_file *rules; /* &own, or NULL: the default thresholds */
    size_t n_at_once;           /* trainings, or tasks of an array; 0: as
                                   many as there are processors, or as Slurm
                                   allows */
    bool status, slurm, dry_run;
    bool all;       /* at the end show every run, and distances */
    bool no_stop;   /* do not stop doomed runs */
    size_t n_draws; /* 0: the number in the spec */
    size_t grace;   /* seconds that a command has to stop after a request */
} es_sweep_request;

typedef struct es_sweep_result {
    size_t n_broken; /* trainings that failed */
    size_t n_taken;  /* runs that another process is training */
    int signal;      /* signal that ended the sweep early; 0: none */
} es_sweep_result;

/**
 * Finds the program: `program` itself if it contains a '/'; else in the folder
 * of this program, if it exists there; else just its name, which exec searches
 * in PATH. The caller frees *out.
 *
 * ES_OK; ES_EUSAGE (a path that cannot be executed); ES_ENOMEM.
 */
es_status es_sweep_program(char **out, const char *program) ES_MUST_USE;

/**
 * Runs all trainings that are not done, and reports on standard error: a line
 * for each run that starts or ends and, on a terminal, the current runs below.
 * Requests doomed runs (view.h) to stop.
 *
 *   program  from es_sweep_program
 *
 * SIGINT, SIGTERM and SIGHUP stop the trainings, and the function returns once
 * they have ended; a second signal kills them.
 *
 * ES_OK, also if runs failed; ES_EIO, ES_ENOMEM: the trainings were stopped.
 */
es_status es_sweep_run_all(es_sweep_result *out, const es_sweep_request *given,
                           const es_sweep_plan *plan,
                           const char *program) ES_MUST_USE;

/**
 * Submits every run that is not done, running or queued in Slurm. Prints the id
 * of each job to standard output, and a summary on standard error. With
 * dry_run, prints the batch script of all runs instead.
 *
 * The folder must have been taken by es_sweep_folder_take, except for dry_run.
 *
 * ES_OK, also if there is nothing to submit; ES_ENOTFOUND (no sbatch, or no
 * squeue to query about earlier jobs); ES_EIO (sbatch refuses; the message
 * quotes it); ES_EUSAGE (a path that a script cannot contain), ES_ENOMEM.
 * Arrays whose job was printed stay submitted.
 */
es_status es_sweep_submit(const es_sweep_request *given,
                          const es_sweep_spec *spec,
                          const es_sweep_plan *plan) ES_MUST_USE;

/**
 * Prints the table of all runs of a folder, the number of runs in each stage,
 * and the last lines of output of broken or lost runs. Queries Slurm's queue if
 * runs were submitted and squeue exists.
 *
 *   n_failed  written: run files that could not be read, which is reported
 *
 * ES_OK; ES_EIO, ES_ENOMEM. The caller checks the stream.
 */
es_status es_sweep_print_status(FILE *stream, size_t *n_failed,
                                const es_sweep_request *given) ES_MUST_USE;

#endif
