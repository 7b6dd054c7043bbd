/** What a sweep was requested to do, and the three ways to do it: the plan run
 *  on this machine, submitted to Slurm, or its state shown. */
#ifndef ES_SWEEP_H
#define ES_SWEEP_H

#include "cli/alerts/rules/rules_file.h"
#include "cli/sweep/plan.h"
#include <limits.h>

/* Slurm takes arrays of 1000 everywhere, and larger ones only where its
   MaxArraySize says so. */
#define ES_SWEEP_ARRAY_MOST 1000

#define ES_SWEEP_GRACE 60 /* seconds, unless requested */

typedef struct es_sweep_request {
    const char *input;  /* the spec; with --status and --run the folder */
    const char *folder; /* the same there; NULL: named after the spec */
    char own_folder[NAME_MAX + 1]; /* what it is named then */
    const char *run;               /* --run, or NULL */
    const char *rules_path;        /* --rules, or NULL */
    es_forecast_choice forecast;
    es_rules_file own;          /* what is there, and the rule of --forecast */
    const es_rules_file *rules; /* that, or NULL: the default thresholds */
    size_t n_at_once;           /* trainings, tasks of an array; 0: as many as
                                   there are processors, or as Slurm likes */
    bool status, slurm, dry_run;
    bool all;       /* at the end: every run, and distances */
    bool no_stop;   /* leave doomed runs alone */
    size_t n_draws; /* 0: as many as the spec says */
    size_t grace; /* seconds that a command has to stop when it is requested */
} es_sweep_request;

typedef struct es_sweep_result {
    size_t n_broken; /* trainings that themselves failed */
    size_t n_taken;  /* runs that another process trains */
    int signal;      /* that ended the sweep early; 0: none */
} es_sweep_result;

/**
 * Where the program is: `program` itself if it has a '/'; else beside this
 * program, if it is there; else by its name, which exec looks up in PATH. To
 * be freed.
 *
 * ES_OK; ES_EUSAGE (a path that cannot be executed); ES_ENOMEM.
 */
es_status es_sweep_program(char **out, const char *program) ES_MUST_USE;

/**
 * Runs what is not done yet, and reports on standard error: a line for
 * each run that begins or ends; on a terminal, under those that ended, what
 * runs now. A doomed run (view.h) is requested to stop.
 *
 *   program  es_sweep_program's
 *
 * SIGINT, SIGTERM and SIGHUP stop the trainings, and it returns once they have
 * ended; a second one kills them.
 *
 * ES_OK, also if runs failed; ES_EIO, ES_ENOMEM: the trainings were stopped.
 */
es_status es_sweep_run_all(es_sweep_result *out, const es_sweep_request *given,
                           const es_sweep_plan *plan,
                           const char *program) ES_MUST_USE;

/**
 * Submits every run that is neither done nor at work nor in Slurm's queue;
 * prints each job's id to standard output and says on standard error what was
 * submitted. With dry_run prints the batch script of all runs instead.
 *
 * The folder is there and taken: es_sweep_folder_take; but for dry_run.
 *
 * ES_OK, also if there is nothing to submit; ES_ENOTFOUND (no sbatch, or no
 * squeue to query about earlier jobs); ES_EIO (sbatch refuses: in its words);
 * ES_EUSAGE (a path that no script can name), ES_ENOMEM. Arrays whose job was
 * printed stay submitted.
 */
es_status es_sweep_submit(const es_sweep_request *given,
                          const es_sweep_spec *spec,
                          const es_sweep_plan *plan) ES_MUST_USE;

/**
 * The table of all runs of a folder, how many there are of each stage, and of
 * those that broke or were lost the last lines that they left. Slurm's queue
 * is queried if runs were submitted to it and it is there.
 *
 *   n_failed  written: run files that could not be read, which is reported
 *
 * ES_OK; ES_EIO, ES_ENOMEM. The caller checks the stream.
 */
es_status es_sweep_print_status(FILE *stream, size_t *n_failed,
                                const es_sweep_request *given) ES_MUST_USE;

#endif
