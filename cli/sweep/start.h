/** The process of one training. */
#ifndef ES_SWEEP_START_H
#define ES_SWEEP_START_H

#include "analyzer/base/process.h"
#include "cli/sweep/plan.h"

/* The path of the run file, for programs that a spec's command starts. */
#define ES_SWEEP_RUN_VARIABLE "ENTROPY_RUN"

/**
 * Starts the training of a run, what it prints going to NAME.log.
 *
 *   program  es_sweep_program's
 *   goes_on  from its last checkpoint: entropy-train's alone
 *
 * ES_OK, also if there is no such program: that ends with code 127; ES_EIO,
 * ES_ENOMEM, ES_EUSAGE (a placeholder without value): there is no process.
 */
es_status es_sweep_start(es_process *out, const char *program,
                         const char *folder, const es_sweep_run *run,
                         bool goes_on) ES_MUST_USE;

/** Sends a signal to a training that was not waited for, and to what a command
 *  of the spec's has started itself: a shell hands none on. */
void es_sweep_signal(es_process *process, const es_sweep_run *run, int number);

#endif
