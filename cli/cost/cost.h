/** What `entropy-scan cost` shows: models, of runs or of architectures, and the
 *  ways to show them. */
#ifndef ES_CLI_COST_H
#define ES_CLI_COST_H

#include "analyzer/base/options.h"
#include "analyzer/cost/cost.h"
#include "cli/figures/figures.h"
#include "store/reader.h"
#include <stdio.h>

/** What was measured of an operation of one layer; NaN: not recorded. */
typedef struct es_cost_measured {
    char *operation; /* "softmax": escape it */
    double bytes;    /* of both parties */
    double rounds;   /* messages that the first party sends */
    double seconds;
} es_cost_measured;

/** A model that is shown. */
typedef struct es_cost_entry {
    char *title;    /* its architecture, or the run's name: escape it */
    char *path;     /* of the run file; NULL: an architecture was given */
    char *name;     /* of the run: escape it; NULL: an architecture */
    size_t number;  /* of the run in the file, from 1 */
    float eval_ppl; /* missing: not evaluated, or no run */
    es_cost_model model;
    es_cost_measured *measured; /* (n_measured) by name */
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
    ES_COST_OF_INVERSE /* of no model */
} es_cost_quantity;

typedef enum es_cost_over {
    ES_COST_OVER_MODELS,
    ES_COST_OVER_CTX
} es_cost_over;

/** The command line; strings are argv's. */
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
    es_figure_options look; /* of the figure */
    es_format format;
    bool given[ES_MAX_OPTIONS];
} es_cost_options;

extern const es_command es_cost_command;

/**
 * The models of the inputs, in their order; of a file all its runs.
 *
 *   out       (*n) es_cost_entries_free, also on failure
 *   n_failed  added to: inputs that were reported and left out
 *
 * Sizes that the command line gives are an architecture's and replace a run's.
 * ES_OK; ES_EUSAGE: an input is neither, or sizes and architecture contradict
 * each other; ES_ENOTFOUND, ES_EFORMAT, ES_EIO: no input is left; ES_ENOMEM.
 */
es_status es_cost_entries_read(es_cost_entry **out, size_t *n, size_t *n_failed,
                               const es_cost_options *options) ES_MUST_USE;
void es_cost_entries_free(es_cost_entry *entries, size_t n);

/** Reads the series cost.* of a run. es_cost_entries_free frees them. ES_OK,
 *  ES_ENOMEM; es_reader_sample's errors. */
es_status es_cost_measured_read(es_cost_entry *entry, es_reader *reader,
                                size_t run) ES_MUST_USE;

/** What an operation of one layer works on, and the bytes that are modelled for
 *  it; NaN: it is charged as no item. */
typedef struct es_cost_beside {
    double numbers;
    es_modelled modelled;
} es_cost_beside;

es_cost_beside es_cost_measured_beside(const es_cost_model *model,
                                       const es_cost_measured *measured);

/** A table of what an entry has of it. ES_OK or ES_ENOMEM. */
es_status es_cost_print_measured(FILE *stream,
                                 const es_cost_entry *entry) ES_MUST_USE;

/** A line for each: FLOPs, communication, latency, and savings against the
 *  first; what was measured; and each one's inventory. ES_OK or ES_ENOMEM. */
es_status es_cost_print_table(FILE *stream, const es_cost_entry *entries,
                              size_t n, bool inventory) ES_MUST_USE;

/**
 * {"schema":1,"source":..,"models":[{"title","path","run","arch","n_layer",
 * "n_head","d_model","ctx","vocab","mlp_mult","final_norm","simplified",
 * "eval_ppl","flops":{"ffn","attention"},"inventory":[{"kind","n","rows",
 * "inner","columns"}],"counts":{..},"fitted","unmodelled",
 * "communication_bytes":{"modelled","low","high","parts":{..}},
 * "latency_seconds":{the same},
 * "saving":{"communication":{"modelled","low","high"},"latency":{..}},
 * "measured":[{"operation","numbers","bytes","rounds","seconds",
 * "modelled_bytes":{"modelled","low","high"}}]}]}
 *
 * A number that is not known is null with its state beside it.
 */
void es_cost_print_json(FILE *stream, const es_cost_entry *entries, size_t n);

/** Tables of analyzer/polynomial, of no model. ES_OK or ES_ENOMEM. */
es_status es_cost_print_polynomials(FILE *stream) ES_MUST_USE;

/** Lines of ES_COST_OF_INVERSE. ES_OK; as es_curves_draw. */
es_status es_cost_draw_inverse(es_picture **out,
                               const es_cost_options *options) ES_MUST_USE;

/** Bars of the figure requested. ES_OK; as es_bars_draw. */
es_status es_cost_draw(es_picture **out, const es_cost_entry *entries, size_t n,
                       const es_cost_options *options) ES_MUST_USE;

#endif
