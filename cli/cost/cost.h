/**
 * Declares the functions of `entropy-scan cost`, which read models from run
 * files or architectures and show the costs of the models.
 */
#ifndef ES_CLI_COST_H
#define ES_CLI_COST_H

#include "analyzer/base/options.h"
#include "analyzer/cost/cost.h"
#include "cli/figures/figures.h"
#include "store/reader.h"
#include <stdio.h>

/**
 * Measured costs of an operation of one layer. A value is NaN if the run did
 * not record it.
 */
typedef struct es_cost_measured {
    char *operation; /* name such as "softmax"; must be escaped before printing,
                        because it comes from a run file */
    double bytes;    /* number of bytes that the two parties send to each
                        other */
    double rounds;   /* number of rounds, that is, of messages that the first
                        party sends */
    double seconds;
} es_cost_measured;

/** A model whose costs are shown. */
typedef struct es_cost_entry {
    char *title;    /* architecture or name of the run, to be escaped before
                       printing */
    char *path;     /* path of the run file; NULL for an architecture */
    char *name;     /* name of the run, to be escaped before printing; NULL for
                       an architecture */
    size_t number;  /* index of the run in the file, from 1 */
    float eval_ppl; /* perplexity of the run; es_missing() if the run was not
                       evaluated, or for an architecture */
    es_cost_model model;
    es_cost_measured *measured; /* measurements (n_measured), sorted by name */
    size_t n_measured;
} es_cost_entry;

typedef enum es_cost_quantity {
    ES_COST_OF_FLOPS,
    ES_COST_OF_COMMUNICATION,
    ES_COST_OF_LATENCY,
    ES_COST_OF_PERPLEXITY, /* perplexity of the runs on held-out data */
    /* The following quantities need no model. */
    ES_COST_OF_INVERSE, /* error of a polynomial inverse */
    ES_COST_OF_WEIGHTS  /* attention weights by softmax and by PowerSoftmax */
} es_cost_quantity;

typedef enum es_cost_over {
    ES_COST_OVER_MODELS,
    ES_COST_OVER_CTX
} es_cost_over;

/** Options of the command line; strings are borrowed from argv. */
typedef struct es_cost_options {
    char **inputs; /* paths of run files, and architectures; (n_inputs) */
    size_t n_inputs;
    int64_t n_layer, n_head, d_model, ctx, vocab, mlp_mult;
    es_cost_final_norm final_norm; /* ES_COST_FINAL_AUTO: as in the run's
                                      configuration */
    bool simplified;
    bool inventory, json, polynomial;
    const char *output;
    /* Figures to draw on one page (--figure). If n_figures is 0, a table or
     * JSON is written. */
    es_cost_quantity figures[ES_COMPOSITE_MOST];
    size_t n_figures;
    es_cost_over over;
    bool shares;
    es_figure_options look; /* size, style and format options of the figure */
    es_format format;
    bool given[ES_MAX_OPTIONS];
} es_cost_options;

extern const es_command es_cost_command;

/**
 * Reads the models of the inputs, in the order of the inputs. A file
 * contributes a model for each of its runs.
 *
 *   out       (*n) models; released by es_cost_entries_free, also on failure
 *   n_failed  incremented for each input that could not be read; such inputs
 *             are reported and skipped
 *
 * Sizes given on the command line apply to architectures and replace the sizes
 * of runs. Returns ES_OK; ES_EUSAGE if an input is neither a file nor an
 * architecture, or if sizes and architecture contradict each other;
 * ES_ENOTFOUND, ES_EFORMAT or ES_EIO if no input could be read; ES_ENOMEM.
 */
es_status es_cost_entries_read(es_cost_entry **out, size_t *n, size_t *n_failed,
                               const es_cost_options *options) ES_MUST_USE;
void es_cost_entries_free(es_cost_entry *entries, size_t n);

/**
 * Reads the series cost.* of a run into entry->measured, which
 * es_cost_entries_free frees. Returns ES_OK, ES_ENOMEM, or an error of
 * es_reader_sample.
 */
es_status es_cost_measured_read(es_cost_entry *entry, es_reader *reader,
                                size_t run) ES_MUST_USE;

/**
 * Modelled cost of an operation of one layer, to be shown next to the measured
 * cost: the number of values that the operation processes, and the bytes for
 * these values; NaN if the operation has no modelled cost.
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
 * Prints a table with a row for each model: FLOPs, communication, latency, and
 * savings compared with the first model. Then prints the measurements and, if
 * requested, the inventories of operations. Returns ES_OK or ES_ENOMEM.
 */
es_status es_cost_print_table(FILE *stream, const es_cost_entry *entries,
                              size_t n, bool inventory) ES_MUST_USE;

/**
 * Writes
 * {"schema":1,"source":..,"models":[{"title","path","run","arch","n_layer",
 *   "n_head","d_model","ctx","vocab","mlp_mult","first_norm","final_norm",
 *   "simplified","eval_ppl","flops":{"ffn","attention"},
 *   "inventory":[{"kind","n","rows","inner","columns"}],"counts":{..},
 *   "fitted","unmodelled",
 *   "communication_bytes":{"modelled","low","high","parts":{..}},
 *   "latency_seconds":{the same},
 *   "saving":{"communication":{"modelled","low","high"},"latency":{..}},
 *   "measured":[{"operation","numbers","bytes","rounds","seconds",
 *   "modelled_bytes":{"modelled","low","high"}}]}]}
 *
 * "final_norm" is true if the counts include the norm after the last layer.
 * An unknown number is null; the object then has another member that says why,
 * for example "missing".
 */
void es_cost_print_json(FILE *stream, const es_cost_entry *entries, size_t n);

/**
 * Prints the costs of the polynomials in analyzer/polynomial, which do not
 * depend on a model. Returns ES_OK or ES_ENOMEM.
 */
es_status es_cost_print_polynomials(FILE *stream) ES_MUST_USE;

/**
 * Draw the figures ES_COST_OF_INVERSE and ES_COST_OF_WEIGHTS as lines. Both
 * return the statuses of es_curves_draw.
 */
es_status es_cost_draw_inverse(es_picture **out,
                               const es_cost_options *options) ES_MUST_USE;
es_status es_cost_draw_weights(es_picture **out,
                               const es_cost_options *options) ES_MUST_USE;

/**
 * Draws FLOPs, communication, latency or the perplexity of runs as bars;
 * several figures are stacked on a page. Returns the statuses of es_bars_draw,
 * or ES_ENOTFOUND if no model has a value of a figure.
 */
es_status es_cost_draw(es_picture **out, const es_cost_entry *entries, size_t n,
                       const es_cost_options *options) ES_MUST_USE;

#endif
