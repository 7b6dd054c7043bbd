/** The process of one training. */
#ifndef ES_SWEEP_START_H
#define ES_SWEEP_START_H

#include "analyzer/base/process.h"
#include "cli/sweep/plan.h"

/* Environment variable with the path of the run file, for the `command` of a
 * spec. */
#define ES_SWEEP_RUN_VARIABLE "ENTROPY_RUN"

/**
 * Starts the training of a run, with its output going to NAME.log.
 *
 *   program  from es_sweep_program
 *   goes_on  resumes from the last checkpoint; entropy-train only
 *
 * ES_OK, also if there is no such program, which then ends with code 127;
 * ES_EIO, ES_ENOMEM, ES_EUSAGE (a placeholder without a value): no process was
 * started.
 */
es_status es_sweep_start(es_process *out, const char *program,
                         const char *folder, const es_sweep_run *run,
                         bool goes_on) ES_MUST_USE;

/**
 * Sends a signal to a training that has not been waited for. For a `command` of
 * the spec, also to the processes that it has started, because a shell does not
 * pass signals on.
 */
void es_sweep_signal(es_process *process, const es_sweep_run *run, int number);

#endif
