/**
 * `entropy-scan cost`: its models, which come from runs or architectures, and
 * the functions that show them.
 */
#ifndef ES_CLI_COST_H
#define ES_CLI_COST_H

#include "analyzer/base/options.h"
#include "analyzer/cost/cost.h"
#include "cli/figures/figures.h"
#include "store/reader.h"
#include <stdio.h>

/** Measurements of an operation of one layer; NaN: not recorded. */
typedef struct es_cost_measured {
    char *operation; /* for example "softmax"; from a run file: escape before
                        printing */
    double bytes;    /* sent by both parties */
    double rounds;   /* messages that the first party sends */
    double seconds;
} es_cost_measured;

/** A model that is shown. */
typedef struct es_cost_entry {
    char *title;    /* its architecture, or the run's name: escape before
                       printing */
    char *path;     /* run file; NULL for an architecture */
    char *name;     /* name of the run: escape before printing; NULL for an
                       architecture */
    size_t number;  /* index of the run in the file, from 1 */
    float eval_ppl; /* es_missing() if not evaluated, or not a run */
    es_cost_model model;
    es_cost_measured *measured; /* (n_measured) sorted by name */
    size_t n_measured;
} es_cost_entry;

typedef enum es_cost_final_norm {
    ES_COST_FINAL_AUTO, /* as the run's configuration says */
    ES_COST_FINAL_ON,
    ES_COST_FINAL_OFF
} es_cost_final_norm;

typedef enum es_cost_quantity {
    ES_COST_OF_FLOPS,
    ES_COST_OF_COMMUNICATION,
    ES_COST_OF_LATENCY,
    ES_COST_OF_INVERSE /* independent of any model */
} es_cost_quantity;

typedef enum es_cost_over {
    ES_COST_OVER_MODELS,
    ES_COST_OVER_CTX
} es_cost_over;

/** The command line; strings belong to argv. */
typedef struct es_cost_options {
    char **inputs; /* (n_inputs) run files and architectures */
    size_t n_inputs;
    int64_t n_layer, n_head, d_model, ctx, vocab, mlp_mult;
    es_cost_final_norm final_norm;
    bool simplified;
    bool inventory, json, polynomial;
    const char *output;
    bool draws; /* --figure was given */
    es_cost_quantity figure;
    es_cost_over over;
    bool shares;
    es_figure_options look; /* appearance of the figure */
    es_format format;
    bool given[ES_MAX_OPTIONS];
} es_cost_options;

extern const es_command es_cost_command;

/**
 * Reads the models of the inputs, in their order; a file gives all of its runs.
 *
 *   out       (*n) released by es_cost_entries_free, also on failure
 *   n_failed  incremented for each input that was reported and left out
 *
 * The sizes of the command line apply to architectures, and replace those of a
 * run if given. Returns ES_OK; ES_EUSAGE: an input is neither a file nor an
 * architecture, or sizes and architecture contradict each other; ES_ENOTFOUND,
 * ES_EFORMAT, ES_EIO: no input is left; ES_ENOMEM.
 */
es_status es_cost_entries_read(es_cost_entry **out, size_t *n, size_t *n_failed,
                               const es_cost_options *options) ES_MUST_USE;
void es_cost_entries_free(es_cost_entry *entries, size_t n);

/**
 * Reads the series cost.* of a run; es_cost_entries_free frees them. Returns
 * Returns ES_OK, ES_ENOMEM; the errors of es_reader_sample.
 */
es_status es_cost_measured_read(es_cost_entry *entry, es_reader *reader,
                                size_t run) ES_MUST_USE;

/**
 * Number of values that an operation of one layer processes, and the bytes
 * modelled for them; NaN if the operation has no modelled cost.
 */
typedef struct es_cost_beside {
    double numbers;
    es_modelled modelled;
} es_cost_beside;

es_cost_beside es_cost_measured_beside(const es_cost_model *model,
                                       const es_cost_measured *measured);

/** Prints a table of an entry's measurements. Returns ES_OK or ES_ENOMEM. */
es_status es_cost_print_measured(FILE *stream,
                                 const es_cost_entry *entry) ES_MUST_USE;

/**
 * Prints a line for each model: FLOPs, communication, latency, and savings
 * compared with the first; then the measurements and, if requested, the
 * inventories. Returns ES_OK or ES_ENOMEM.
 */
es_status es_cost_print_table(FILE *stream, const es_cost_entry *entries,
                              size_t n, bool inventory) ES_MUST_USE;

/**
 * Writes
 * {"schema":1,"source":..,"models":[{"title","path","run","arch","n_layer",
 *   "n_head","d_model","ctx","vocab","mlp_mult","final_norm","simplified",
 *   "eval_ppl","flops":{"ffn","attention"},"inventory":[{"kind","n","rows",
 *   "inner","columns"}],"counts":{..},"fitted","unmodelled",
 *   "communication_bytes":{"modelled","low","high","parts":{..}},
 *   "latency_seconds":{the same},
 *   "saving":{"communication":{"modelled","low","high"},"latency":{..}},
 *   "measured":[{"operation","numbers","bytes","rounds","seconds",
 *   "modelled_bytes":{"modelled","low","high"}}]}]}
 *
 * An unknown number is null and has a member with its state next to it.
 */
void es_cost_print_json(FILE *stream, const es_cost_entry *entries, size_t n);

/**
 * Prints the tables of analyzer/polynomial, which need no model. ES_OK or
 * ES_ENOMEM.
 */
es_status es_cost_print_polynomials(FILE *stream) ES_MUST_USE;

/**
 * Draws the lines of ES_COST_OF_INVERSE. Returns ES_OK; the codes of
 * es_curves_draw.
 */
es_status es_cost_draw_inverse(es_picture **out,
                               const es_cost_options *options) ES_MUST_USE;

/**
 * Draws the bars of the requested figure. Returns ES_OK; the codes of
 * es_bars_draw.
 */
es_status es_cost_draw(es_picture **out, const es_cost_entry *entries, size_t n,
                       const es_cost_options *options) ES_MUST_USE;

#endif
