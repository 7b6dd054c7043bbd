/** Runs the plan of a sweep on this machine. */
#ifndef ES_SWEEP_RUNNER_H
#define ES_SWEEP_RUNNER_H

#include "cli/alerts/rules/rules_file.h"
#include "cli/sweep/plan.h"

#include <stdbool.h>

typedef struct es_sweep_job {
    const es_sweep_plan *plan;
    const char *folder;
    const char *program; /* es_sweep_program's */
    size_t n_at_once;
    const es_rules_file *rules; /* what runs are judged by; NULL: the default
                                   thresholds */
    bool no_stop;               /* leave doomed runs alone */
} es_sweep_job;

typedef struct es_sweep_result {
    size_t n_broken; /* trainings that themselves failed */
    size_t n_taken;  /* runs that another process trains */
    int signal;      /* that ended the sweep early; 0: none */
} es_sweep_result;

/**
 * Runs what is not done yet, and reports on standard error: a line for
 * each run that begins or ends; on a terminal, under those that ended, what
 * runs now. A doomed run (view.h) is requested to stop.
 *
 * SIGINT, SIGTERM and SIGHUP stop the trainings, and it returns once they have
 * ended; a second one kills them.
 *
 * ES_OK, also if runs failed; ES_EIO, ES_ENOMEM: the trainings were stopped.
 */
es_status es_sweep_run_all(es_sweep_result *out,
                           const es_sweep_job *job) ES_MUST_USE;

#endif
