/** Reads a sweep.yaml of Weights & Biases as the spec of a sweep. */
#ifndef ES_SWEEP_WANDB_H
#define ES_SWEEP_WANDB_H

#include "cli/sweep/plan.h"

/** Returns true if the name of a file ends in .yaml or .yml. */
bool es_sweep_is_wandb(const char *path);

/**
 * Reads the file spec->path. Supported settings are method (grid, random),
 * parameters (value, values, and the distributions constant, categorical,
 * uniform, log_uniform_values, q_uniform, int_uniform), program, command
 * (${env}, ${interpreter}, ${program}, ${args}, ${args_no_hyphens}; and the
 * placeholders {run} and {name}) and run_cap. The program gets the path of its
 * run file in ENTROPY_RUN; the command may also contain {run}.
 *
 *   terminates  set to true if the file contains the setting early_terminate,
 *               which is not supported
 *
 * Returns ES_OK; ES_EIO; ES_EUSAGE if the file is not YAML or a setting is not
 * supported (the message names the file, the line and the setting); ES_ENOMEM.
 */
es_status es_sweep_wandb_read(es_sweep_spec *spec,
                              bool *terminates) ES_MUST_USE;

#endif
