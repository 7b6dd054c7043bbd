/** Computes the cost of a run's model from the model description in the run
 *  file. */
#ifndef ES_COST_H
#define ES_COST_H

#include "cli/figures/drawing.h"
#include "cli/runs/model.h"

/** Opens the run's file and reads the sizes of its model that the costs depend
 *  on (cli/runs/model.h). `figure` is the figure's name in error messages.
 *  Returns ES_OK, or the errors of es_reader_open and es_run_model_read. */
es_status es_run_shape_read(es_cost_model *out, const es_run_summary *run,
                            const char *figure) ES_MUST_USE;

/**
 * Computes the number of tokens per training step: batch * ctx of the run,
 * multiplied by "accumulate" of its configuration (1 if absent). Returns ES_OK;
 * ES_ENOTFOUND if batch or ctx is unknown; the errors of es_reader_open.
 */
es_status es_tokens_a_step(double *out, const es_run_summary *run) ES_MUST_USE;

/**
 * Computes the cost of the kind `cost`: the cost of one forward pass over one
 * sequence, or the number of tokens on which the run was trained up to its
 * evaluation. An exact cost has an interval of zero width. Returns ES_OK;
 * ES_ENOTFOUND if the cost is unknown; ES_EIO, ES_ENOMEM.
 */
es_status es_run_cost(es_modelled *out, es_drawing *drawing,
                      const es_run_summary *run, es_cost cost) ES_MUST_USE;

/**
 * es_cost_text returns the name of a cost for the label of an axis;
 * es_cost_meaning returns the definition for the note below a figure.
 */
const char *es_cost_text(es_cost cost);
const char *es_cost_meaning(es_cost cost);

#define ES_COST_MAX 24

/**
 * Context lengths in figures of FLOPs, which are those of AERO's figures 20 and
 * 21, and their names "128" to "8K".
 */
enum { ES_N_COST_LENGTHS = 7 };
extern const int64_t es_cost_lengths[ES_N_COST_LENGTHS];
extern const char *const es_cost_length_names[ES_N_COST_LENGTHS];

/** Prints a percentage such as "65%"; values that would round to 100% or to 0%
 *  without being equal are printed as ">99%" or "<1%". Returns out. */
char *es_cost_print_share(char out[ES_COST_MAX], double percent);

/** Prints three significant digits with a unit K, M, B or T, such as "14.5B".
 *  Returns out. */
char *es_cost_print(char out[ES_COST_MAX], double cost);

#endif
