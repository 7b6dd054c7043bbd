/**
 * The spec of a sweep, as read from a file, and the runs that follow from it,
 * each with a name and a command line.
 *
 *     [sweep]
 *     arch = SM+LN+G; SM        separated by semicolons: names contain commas
 *     seed = 1 2 3
 *     data = code.tok
 *     config = base.conf        options of all runs, as a file
 *     program = entropy-train
 *     [train]
 *     steps = 300               options of all runs
 *     [grid]
 *     lr = 1e-3 3e-4            options with several values: all combinations
 *     [slurm]
 *     partition = gpu           options of sbatch, for --slurm
 *
 * Random search, alone or in addition to [grid], each combination of which is
 * trained with each draw:
 *
 *     [sweep]
 *     n = 50                    number of draws
 *     random-seed = 1           the same seed draws the same values
 *     [random]
 *     lr = log-uniform 1e-4 1e-2    random.h lists the distributions
 *     n-head = choice 4 8 16
 *
 * Any other program that records runs:
 *
 *     [sweep]
 *     command = python train.py --lr {lr} --seed {seed} --run {run}
 *     seed = 1 2 3
 *     [grid]
 *     lr = 1e-3 3e-4            keys are the placeholders of the command
 *
 * A line that begins with a blank continues the value of the line before; a
 * line that begins with '#' or ';' is a comment.
 */
#ifndef ES_SWEEP_PLAN_H
#define ES_SWEEP_PLAN_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define ES_SWEEP_OPTIONS_MOST 64  /* most keys of [train], [grid], [slurm] */
#define ES_SWEEP_VALUES_MOST 1000 /* most values of one key */
#define ES_SWEEP_RUNS_MOST 10000
#define ES_SWEEP_NAME_MAX 180               /* most bytes of a run's name */
#define ES_SWEEP_CHECKPOINTS ".checkpoints" /* ending of the folder */

typedef enum es_sweep_section {
    ES_SWEEP_NO_SECTION,
    ES_SWEEP_OWN, /* arch, seed, data, config, program, command,
                     n, random-seed */
    ES_SWEEP_TRAIN,
    ES_SWEEP_GRID,
    ES_SWEEP_RANDOM,
    ES_SWEEP_SLURM
} es_sweep_section;

/**
 * A key of the file: an option of entropy-train or sbatch, or a key of the
 * sweep itself.
 */
typedef struct es_sweep_option {
    es_sweep_section section;
    char *key;     /* without leading dashes */
    char **values; /* (n) values, never empty; only arch, seed, the keys of
                      [grid] and the draws of [random] have several */
    size_t n;
    int line;
} es_sweep_option;

typedef struct es_sweep_spec {
    char *path;
    es_sweep_option *options; /* (n) in the order of the file */
    size_t n;
    size_t n_draws; /* number of draws for [random]; 0: not set */
    bool is_wandb;  /* read from a sweep.yaml (wandb.h) */
    char **command; /* words as in template.h, terminated by NULL; NULL: no
                       command */
    int command_line;
} es_sweep_spec;

/**
 * Reads a spec.
 *
 *   out      released by es_sweep_spec_free, also on failure; without a
 *            command, [train] has threads = 1 and seed is 1 unless the file
 *            sets them
 *   n_draws  draws of a random search; 0: the number in the file
 *
 * ES_OK; ES_EIO; ES_EFORMAT (UTF-16); ES_EUSAGE (the message names file, line,
 * and what was expected there); ES_ENOMEM.
 */
es_status es_sweep_spec_read(es_sweep_spec *out, const char *path,
                             size_t n_draws) ES_MUST_USE;

/**
 * Checks a spec that was read, adds defaults and draws values. Called by
 * es_sweep_spec_read, which lists the codes.
 */
es_status es_sweep_spec_complete(es_sweep_spec *spec) ES_MUST_USE;

/**
 * True for the options in which runs differ: arch, seed and the keys of [grid]
 * and [random].
 */
bool es_sweep_is_axis(const es_sweep_option *option);

/**
 * The first returns true if `key` is a key of [sweep]; the second, if the
 * option is that key of [sweep].
 */
bool es_sweep_is_own_key(const char *key);
bool es_sweep_is_own(const es_sweep_option *option, const char *key);

/**
 * Finds the option with this key in [slurm], or outside of it. Returns NULL if
 * it is not set.
 */
const es_sweep_option *es_sweep_spec_find(const es_sweep_spec *spec,
                                          const char *key, bool slurm);

void es_sweep_spec_free(es_sweep_spec *spec);

typedef struct es_sweep_run {
    char *name;   /* for example "SM+LN+G_seed1_lr0.001": letters, digits,
                     "+-._" */
    char **argv;  /* argv[0] is the program; terminated by NULL; without --out
                     and --checkpoint, which depend on the folder */
    char *config; /* NULL for entropy-train. Otherwise the swept values as a
                     JSON object, for the configuration of the run; argv then
                     has placeholders for the run file (template.h) */
} es_sweep_run;

typedef struct es_sweep_plan {
    es_sweep_run *runs; /* (n) names are unique */
    size_t n;
} es_sweep_plan;

/**
 * Makes the runs of all combinations. Draws vary slowest, then arch; the last
 * key of [grid] varies fastest. A name that would be too long ends in a hash of
 * the full name. Names do not depend on other runs, so that a spec can grow.
 *
 *   out   released by es_sweep_plan_free, also on failure
 *
 * ES_OK; ES_EUSAGE (too many runs, two runs with one name); ES_ENOMEM.
 */
es_status es_sweep_plan_make(es_sweep_plan *out,
                             const es_sweep_spec *spec) ES_MUST_USE;

void es_sweep_plan_free(es_sweep_plan *plan);

/**
 * Makes the plan of one run from a line that es_sweep_command_line made.
 *
 *   out   released by es_sweep_plan_free, also on failure
 *
 * ES_OK; ES_EFORMAT (not such a line); ES_ENOMEM.
 */
es_status es_sweep_plan_of_line(es_sweep_plan *out, const char *name,
                                const char *line) ES_MUST_USE;

/** True if the line's program comes from the `command` of the spec. */
bool es_sweep_line_is_command(const char *line);

/**
 * True if `option`, with its dashes, is a word of entropy-train's command line.
 * A run with --checkpoint-every also gets --checkpoint.
 */
bool es_sweep_run_has(const es_sweep_run *run, const char *option);

/**
 * Returns a run's command line as a shell would read it, or NULL and a message
 * if memory is short; the caller frees it. {run} is not replaced in a `command`
 * of the spec.
 */
char *es_sweep_command_line(const es_sweep_run *run);

#endif
