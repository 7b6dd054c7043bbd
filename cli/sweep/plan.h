/**
 * Reads the spec of a sweep from a file and expands it into runs, each with a
 * name and a command line. An example of a spec:
 *
 *     [sweep]
 *     arch = SM+LN+G; SM        separated by semicolons
 *     seed = 1 2 3
 *     data = code.tok
 *     config = base.conf        options of all runs, as a file
 *     program = entropy-train
 *     [train]
 *     steps = 300               options of all runs
 *     [grid]
 *     lr = 1e-3 3e-4            several values: all combinations
 *     [slurm]
 *     partition = gpu           options of sbatch, for --slurm
 *
 * A random search, alone or together with [grid]. Each draw is trained with
 * each combination of the grid:
 *
 *     [sweep]
 *     n = 50                    number of draws
 *     random-seed = 1           the same seed draws the same values
 *     [random]
 *     lr = log-uniform 1e-4 1e-2    random.h lists the distributions
 *     n-head = choice 4 8 16
 *
 * A sweep of any other program that records runs:
 *
 *     [sweep]
 *     command = python train.py --lr {lr} --seed {seed} --run {run}
 *     seed = 1 2 3
 *     [grid]
 *     lr = 1e-3 3e-4            values of a placeholder
 *
 * A line that begins with a blank continues the value of the previous line; a
 * line that begins with '#' or ';' is a comment.
 */
#ifndef ES_SWEEP_PLAN_H
#define ES_SWEEP_PLAN_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Maximum number of keys of [train], [grid] or [slurm]. */
#define ES_SWEEP_OPTIONS_MOST 64
#define ES_SWEEP_VALUES_MOST 1000 /* maximum number of values of one key */
#define ES_SWEEP_RUNS_MOST 10000
#define ES_SWEEP_NAME_MAX 180 /* maximum length of a run's name in bytes */
/* Ending of a run's checkpoint folder. */
#define ES_SWEEP_CHECKPOINTS ".checkpoints"

typedef enum es_sweep_section {
    ES_SWEEP_NO_SECTION,
    ES_SWEEP_OWN, /* [sweep], with the keys arch, seed, data, config, program,
                     command, n, random-seed */
    ES_SWEEP_TRAIN,
    ES_SWEEP_GRID,
    ES_SWEEP_RANDOM,
    ES_SWEEP_SLURM
} es_sweep_section;

/**
 * A key of the spec file with its values: an option of entropy-train or sbatch,
 * or a key of [sweep].
 */
typedef struct es_sweep_option {
    es_sweep_section section;
    char *key;     /* key without leading dashes */
    char **values; /* array of n values; only arch, seed and the keys of [grid]
                      and [random] can have more than one value */
    size_t n;
    int line;
} es_sweep_option;

typedef struct es_sweep_spec {
    char *path;
    es_sweep_option *options; /* n options in the order of the file */
    size_t n;
    size_t n_draws; /* number of draws for [random]; 0 if it is not set */
    bool is_wandb;  /* true if the spec was read from a sweep.yaml (wandb.h) */
    char **command; /* words of the key `command` with placeholders
                       (template.h), terminated by NULL; NULL if the key is not
                       set */
    int command_line;
} es_sweep_spec;

/**
 * Reads a spec.
 *
 *   out      released by es_sweep_spec_free, also on failure; unless the file
 *            has a command, the defaults threads = 1 in [train] and seed = 1
 *            are added
 *   n_draws  number of draws of a random search; 0: the number in the file
 *
 * Returns ES_OK; ES_EIO; ES_EFORMAT (the file is UTF-16); ES_EUSAGE (the
 * message names the file, the line and the expected text); ES_ENOMEM.
 */
es_status es_sweep_spec_read(es_sweep_spec *out, const char *path,
                             size_t n_draws) ES_MUST_USE;

/**
 * Returns true if the runs may have different values of the option, that is,
 * for arch, seed and the keys of [grid] and [random].
 */
bool es_sweep_is_axis(const es_sweep_option *option);

/**
 * Finds the option with the given key, either in [slurm] or in the other
 * sections. Returns NULL if the key is not set.
 */
const es_sweep_option *es_sweep_spec_find(const es_sweep_spec *spec,
                                          const char *key, bool slurm);

void es_sweep_spec_free(es_sweep_spec *spec);

typedef struct es_sweep_run {
    char *name;   /* name such as "SM+LN+G_seed1_lr0.001"; consists of
                     letters, digits and "+-._" */
    char **argv;  /* command line, terminated by NULL, with the program in
                     argv[0]; excludes --out and --checkpoint, which depend
                     on the folder */
    char *config; /* NULL if entropy-train trains the run. If the spec has a
                     `command`, a JSON object with the swept values for the
                     run's configuration; argv then contains placeholders for
                     the run file (template.h) */
} es_sweep_run;

typedef struct es_sweep_plan {
    es_sweep_run *runs; /* array of n runs with unique names */
    size_t n;
} es_sweep_plan;

/**
 * Creates a run for each combination of values, in an order in which the draws
 * of a random search change slowest, then arch, and the last key of [grid]
 * fastest. A name that would be too long is truncated and ends in a hash of the
 * full name. The name of a run does not depend on other runs; combinations can
 * therefore be added to a spec later.
 *
 *   out   released by es_sweep_plan_free, also on failure
 *
 * Returns ES_OK; ES_EUSAGE (too many runs, or two runs with the same name);
 * ES_ENOMEM.
 */
es_status es_sweep_plan_make(es_sweep_plan *out,
                             const es_sweep_spec *spec) ES_MUST_USE;

void es_sweep_plan_free(es_sweep_plan *plan);

/**
 * Creates the plan of one run from a line that es_sweep_command_line returned.
 *
 *   out   released by es_sweep_plan_free, also on failure
 *
 * Returns ES_OK; ES_EFORMAT if the line is not a command line of a sweep;
 * ES_ENOMEM.
 */
es_status es_sweep_plan_of_line(es_sweep_plan *out, const char *name,
                                const char *line) ES_MUST_USE;

/**
 * Returns true if the command line was made from the key `command` of the spec.
 */
bool es_sweep_line_is_command(const char *line);

/**
 * Returns true if the run is trained by entropy-train and its command line
 * contains the word `option`, such as "--checkpoint-every".
 */
bool es_sweep_run_has(const es_sweep_run *run, const char *option);

/**
 * Returns a run's command line, quoted for a shell; the caller frees it. If the
 * spec has a `command`, its placeholder {run} is not replaced. Returns NULL and
 * sets the message if memory is short.
 */
char *es_sweep_command_line(const es_sweep_run *run);

#endif
