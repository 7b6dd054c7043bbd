/** Sweeps of Weights & Biases: reads a sweep.yaml as a spec. */
#ifndef ES_SWEEP_WANDB_H
#define ES_SWEEP_WANDB_H

#include "cli/sweep/plan.h"

/** True if the name of a file ends in .yaml or .yml. */
bool es_sweep_is_wandb(const char *path);

/**
 * Reads spec->path: method (grid, random), parameters (value, values, and the
 * distributions constant, categorical, uniform, log_uniform_values, q_uniform,
 * int_uniform), program, command (${env}, ${interpreter}, ${program}, ${args},
 * ${args_no_hyphens}; {run} and {name} as in our specs) and run_cap. The
 * program finds its run file in ENTROPY_RUN unless the command contains {run}.
 *
 *   terminates  written: true if the file has early_terminate, which is not
 *               supported
 *
 * ES_OK; ES_EIO; ES_EUSAGE (not YAML, or not supported: the message names file,
 * line and setting); ES_ENOMEM.
 */
es_status es_sweep_wandb_read(es_sweep_spec *spec,
                              bool *terminates) ES_MUST_USE;

#endif
