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
    ES_SWEEP_OWN, /* arch, seed, data, config, program */
    ES_SWEEP_TRAIN,
    ES_SWEEP_GRID,
    ES_SWEEP_SLURM
} es_sweep_section;

/** A key of the file: an option of entropy-train or sbatch, or the sweep's. */
typedef struct es_sweep_option {
    es_sweep_section section;
    char *key;     /* without the dashes */
    char **values; /* (n) none is empty; one, but of arch, seed and [grid] */
    size_t n;
    int line;
} es_sweep_option;

typedef struct es_sweep_spec {
    char *path;
    es_sweep_option *options; /* (n) in the order of the file */
    size_t n;
} es_sweep_spec;

/**
 * Reads a spec.
 *
 *   out   es_sweep_spec_free, also on failure; [train] has threads = 1 and
 *         seed is 1 where the file says neither
 *
 * ES_OK; ES_EIO; ES_EFORMAT (UTF-16); ES_EUSAGE (the message names file,
 * line, and what was expected there); ES_ENOMEM.
 */
es_status es_sweep_spec_read(es_sweep_spec *out, const char *path) ES_MUST_USE;

/** The option of that key among those of [slurm], or among all others; NULL:
 *  not given. */
const es_sweep_option *es_sweep_spec_find(const es_sweep_spec *spec,
                                          const char *key, bool slurm);

void es_sweep_spec_free(es_sweep_spec *spec);

typedef struct es_sweep_run {
    char *name;  /* "SM+LN+G_seed1_lr0.001": of letters, digits, "+-._" */
    char **argv; /* argv[0] the program, NULL at the end; all but --out and
                    --checkpoint, which lie in the folder */
} es_sweep_run;

typedef struct es_sweep_plan {
    es_sweep_run *runs; /* (n) names differ */
    size_t n;
} es_sweep_plan;

/**
 * Every combination, arch varying slowest, the last key of [grid] fastest. A
 * name does not depend on the other runs, so that a spec can grow.
 *
 *   out   es_sweep_plan_free, also on failure
 *
 * ES_OK; ES_EUSAGE (too many runs, a name too long, two runs of one name);
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

/** True if an option, with its dashes, is a word of the command line. It has
 *  --checkpoint if it has --checkpoint-every. */
bool es_sweep_run_has(const es_sweep_run *run, const char *option);

/** A run's command line as a shell would read it, to be freed; NULL: out of
 *  memory (message set). */
char *es_sweep_command_line(const es_sweep_run *run);

/** A word as a shell reads it, in quotes if need be. */
void es_sweep_print_word(FILE *stream, const char *word);

#endif
