/**
 * What a sweep is to train, as a file says it, and its runs: what each is
 * called, and its command line.
 *
 *     [sweep]
 *     arch = SM+LN+G; SM        separated by semicolons: they have commas
 *     seed = 1 2 3
 *     data = code.tok
 *     config = base.conf        options of all runs, as a file
 *     program = entropy-train
 *     [train]
 *     steps = 300               options of all runs
 *     [grid]
 *     lr = 1e-3 3e-4            options with several values: every combination
 *     [slurm]
 *     partition = gpu           options of sbatch, for --slurm
 *
 * Random search, alone or beside [grid], whose combinations each draw is
 * trained with:
 *
 *     [sweep]
 *     n = 50                    draws
 *     random-seed = 1           the same seed draws the same values
 *     [random]
 *     lr = log-uniform 1e-4 1e-2    random.h lists the distributions
 *     n-head = choice 4 8 16
 *
 * Of any other program that records:
 *
 *     [sweep]
 *     command = python train.py --lr {lr} --seed {seed} --run {run}
 *     seed = 1 2 3
 *     [grid]
 *     lr = 1e-3 3e-4            keys are what the command's placeholders are
 *
 * A line that begins with a blank goes on with the value of the line before;
 * one that begins with '#' or ';' is a comment.
 */
#ifndef ES_SWEEP_PLAN_H
#define ES_SWEEP_PLAN_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define ES_SWEEP_OPTIONS_MOST 64  /* keys of [train], [grid], [slurm] */
#define ES_SWEEP_VALUES_MOST 1000 /* of one key */
#define ES_SWEEP_RUNS_MOST 10000
#define ES_SWEEP_NAME_MAX 180               /* bytes of a run's name */
#define ES_SWEEP_CHECKPOINTS ".checkpoints" /* a folder: NAME and this */

typedef enum es_sweep_section {
    ES_SWEEP_NO_SECTION,
    ES_SWEEP_OWN, /* arch, seed, data, config, program, command,
                     n, random-seed */
    ES_SWEEP_TRAIN,
    ES_SWEEP_GRID,
    ES_SWEEP_RANDOM,
    ES_SWEEP_SLURM
} es_sweep_section;

/** A key of the file: an option of entropy-train or sbatch, or the sweep's. */
typedef struct es_sweep_option {
    es_sweep_section section;
    char *key;     /* without the dashes before it */
    char **values; /* (n) none is empty; one, but of arch, seed, [grid], and
                      the draws of [random] */
    size_t n;
    int line;
} es_sweep_option;

typedef struct es_sweep_spec {
    char *path;
    es_sweep_option *options; /* (n) in the order of the file */
    size_t n;
    size_t n_draws; /* of [random]; 0: there is none */
    bool is_wandb;  /* a sweep.yaml (wandb.h) */
    char **command; /* words of template.h, NULL at their end; NULL: none */
    int command_line;
} es_sweep_spec;

/**
 * Reads a spec.
 *
 *   out   es_sweep_spec_free, also on failure; without a command [train] has
 *         threads = 1 and seed is 1 where the file says neither
 *   n_draws  of a random search; 0: as many as the file says
 *
 * ES_OK; ES_EIO; ES_EFORMAT (UTF-16); ES_EUSAGE (the message names file,
 * line, and what was expected there); ES_ENOMEM.
 */
es_status es_sweep_spec_read(es_sweep_spec *out, const char *path,
                             size_t n_draws) ES_MUST_USE;

/** Checks a spec that was read, gives defaults and draws values: of
 *  es_sweep_spec_read, whose codes it returns. */
es_status es_sweep_spec_complete(es_sweep_spec *spec) ES_MUST_USE;

/** True of arch, seed and the keys of [grid] and [random]: what runs differ
 *  in. */
bool es_sweep_is_axis(const es_sweep_option *option);

/** True of a key that [sweep] has, and of an option of [sweep] with that key.
 */
bool es_sweep_is_own_key(const char *key);
bool es_sweep_is_own(const es_sweep_option *option, const char *key);

/** The option of that key among those of [slurm], or among all others; NULL:
 *  not given. */
const es_sweep_option *es_sweep_spec_find(const es_sweep_spec *spec,
                                          const char *key, bool slurm);

void es_sweep_spec_free(es_sweep_spec *spec);

typedef struct es_sweep_run {
    char *name;   /* "SM+LN+G_seed1_lr0.001": of letters, digits, "+-._" */
    char **argv;  /* argv[0] the program, NULL at the end; all but --out and
                     --checkpoint, which lie in the folder */
    char *config; /* NULL: entropy-train's; else argv is to be filled with the
                     run file (template.h), and this is a JSON object of what
                     was swept, for the configuration of the run */
} es_sweep_run;

typedef struct es_sweep_plan {
    es_sweep_run *runs; /* (n) names differ */
    size_t n;
} es_sweep_plan;

/**
 * Every combination, draws varying slowest, then arch, the last key of [grid]
 * fastest. A name that would be too long ends in a hash of the rest. It does
 * not depend on the other runs, so that a spec can grow.
 *
 *   out   es_sweep_plan_free, also on failure
 *
 * ES_OK; ES_EUSAGE (too many runs, two runs of one name);
 * ES_ENOMEM.
 */
es_status es_sweep_plan_make(es_sweep_plan *out,
                             const es_sweep_spec *spec) ES_MUST_USE;

void es_sweep_plan_free(es_sweep_plan *plan);

/**
 * The plan of one run by what es_sweep_command_line said of it.
 *
 *   out   es_sweep_plan_free, also on failure
 *
 * ES_OK; ES_EFORMAT (it is no such line); ES_ENOMEM.
 */
es_status es_sweep_plan_of_line(es_sweep_plan *out, const char *name,
                                const char *line) ES_MUST_USE;

/** True if the line is one of a program that the spec's command names. */
bool es_sweep_line_is_command(const char *line);

/** True if an option, with its dashes, is a word of entropy-train's command
 *  line. It has --checkpoint if it has --checkpoint-every. */
bool es_sweep_run_has(const es_sweep_run *run, const char *option);

/** A run's command line as a shell would read it, to be freed; {run} is left in
 *  one that the spec says. NULL: out of memory (message set). */
char *es_sweep_command_line(const es_sweep_run *run);

#endif
