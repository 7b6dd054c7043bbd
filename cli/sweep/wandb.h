/** Sweeps of Weights & Biases: a sweep.yaml as a spec. */
#ifndef ES_SWEEP_WANDB_H
#define ES_SWEEP_WANDB_H

#include "cli/sweep/plan.h"

/** True of the name of a file that is read as such: .yaml, .yml. */
bool es_sweep_is_wandb(const char *path);

/**
 * Reads spec->path: method (grid, random), parameters (value, values, and the
 * distributions constant, categorical, uniform, log_uniform_values, q_uniform,
 * int_uniform), program, command (${env}, ${interpreter}, ${program}, ${args},
 * ${args_no_hyphens}; {run} and {name} as in ours) and run_cap. The program
 * finds its run file in ENTROPY_RUN unless {run} is in the command.
 *
 *   terminates  written: early_terminate is there, which is not done here
 *
 * ES_OK; ES_EIO; ES_EUSAGE (no YAML, or what is not supported: file, line and
 * what); ES_ENOMEM.
 */
es_status es_sweep_wandb_read(es_sweep_spec *spec,
                              bool *terminates) ES_MUST_USE;

#endif
