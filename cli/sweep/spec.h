/**
 * What a sweep is to train, as a file says it:
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
#ifndef ES_SWEEP_SPEC_H
#define ES_SWEEP_SPEC_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdio.h>

#define ES_SWEEP_OPTIONS_MOST 64  /* keys of [train], [grid], [slurm] */
#define ES_SWEEP_VALUES_MOST 1000 /* of one key */

/** An option of entropy-train or sbatch and what it is to be. */
typedef struct es_sweep_option {
    char *key;     /* without the dashes */
    char **values; /* (n) none is empty */
    size_t n;
    int line;
} es_sweep_option;

typedef struct es_sweep_spec {
    char *path;
    es_sweep_option arch, seed, data, config, program; /* n = 0: not given */
    es_sweep_option *train; /* (n_train) one value each */
    size_t n_train;
    es_sweep_option *grid; /* (n_grid) in the order of the file */
    size_t n_grid;
    es_sweep_option *slurm; /* (n_slurm) one value each */
    size_t n_slurm;
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

/** The same from a stream that can be rewound, which is closed. */
es_status es_sweep_spec_parse(es_sweep_spec *out, FILE *stream,
                              const char *path) ES_MUST_USE;

void es_sweep_spec_free(es_sweep_spec *spec);

#endif
