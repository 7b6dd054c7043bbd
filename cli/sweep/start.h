/** Starts the process that trains a run, and sends signals to it. */
#ifndef ES_SWEEP_START_H
#define ES_SWEEP_START_H

#include "analyzer/base/process.h"
#include "cli/sweep/plan.h"

/* Name of the environment variable in which the `command` of a spec finds the
 * path of its run file. */
#define ES_SWEEP_RUN_VARIABLE "ENTROPY_RUN"

/**
 * Starts the training of a run, with its output going to NAME.log.
 *
 *   program  from es_sweep_program
 *   goes_on  if true, the run resumes from its last checkpoint (only in
 *            entropy-train)
 *
 * Returns ES_OK, even if the program does not exist (the process then ends with
 * code 127). If no process was started: ES_EIO, ES_ENOMEM, or ES_EUSAGE for a
 * placeholder without a value.
 */
es_status es_sweep_start(es_process *out, const char *program,
                         const char *folder, const es_sweep_run *run,
                         bool goes_on) ES_MUST_USE;

/**
 * Sends a signal to a training process that has not been waited for yet. If the
 * spec has the key `command`, the signal is also sent to the processes that the
 * command has started, because a shell does not pass signals on.
 */
void es_sweep_signal(es_process *process, const es_sweep_run *run, int number);

#endif
