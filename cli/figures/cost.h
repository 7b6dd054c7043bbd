/** What the model of a run costs, from what its file says of it. */
#ifndef ES_COST_H
#define ES_COST_H

#include "analyzer/arch/flops.h"
#include "cli/figures/drawing.h"

/** The shape of a run's model. */
typedef struct es_run_shape {
    es_cost_shape shape;
    int64_t ctx;
} es_run_shape;

/**
 * Reads it: architecture, L, H, d and T of the run, m of its
 * configuration ("mlp_mult"; 4 where it is not said).
 *
 * ES_OK; ES_ENOTFOUND if the architecture is not ours to read, or d or T is
 * unknown: the message says what `figure` lacks; es_reader_open's errors.
 */
es_status es_run_shape_read(es_run_shape *out, const es_run_summary *run,
                            const char *figure) ES_MUST_USE;

/**
 * Tokens that a step trains on: batch x ctx of the run, times "accumulate" of
 * its configuration (1). ES_OK; ES_ENOTFOUND if batch or ctx is unknown;
 * es_reader_open's errors.
 */
es_status es_tokens_a_step(double *out, const es_run_summary *run) ES_MUST_USE;

/**
 * The cost of a run: of one forward pass over one sequence, or the tokens read
 * up to the step of its evaluation. ES_OK; ES_ENOTFOUND, ES_EIO, ES_ENOMEM as
 * above.
 */
es_status es_run_cost(double *out, es_drawing *drawing,
                      const es_run_summary *run, es_cost cost) ES_MUST_USE;

/** What the cost is: for an axis, and exactly, for a note. */
const char *es_cost_text(es_cost cost);
const char *es_cost_meaning(es_cost cost);

#define ES_COST_MAX 24

/** Three digits and K, M, B or T: "14.5B". Returns out. */
char *es_cost_print(char out[ES_COST_MAX], double cost);

#endif
